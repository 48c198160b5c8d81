"""Runs one kind of request with a fault at every point, and prints what went wrong as JSON.

It is a program of its own so that it can fork freely: ``python -m tests.remote.faultdriver
push|rollback kill|stacked|error|double DIRECTORY [SEED]`` (with a seed, ``error`` tries each
error at each point; ``stacked`` kills while another push stands below).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

from patcher.push.client import who
from patcher.push.plan import Change, build_plan
from patcher.targets.agent import faults, procs
from patcher.targets.agent.frames import AgentError
from patcher.targets.agent.push import push, rollback
from patcher.targets.agent.query import status
from tests.remote.conftest import (
    ARGS,
    BUILDER,
    DISTINFO,
    NEW,
    OBSOLETE,
    OLD,
    RECORD,
    SPEC,
    TOUCHED,
    Install,
)

BELOW: dict[str, bytes | None] = {
    SPEC: OLD[SPEC] + b"FIRST = 1\r\n",
    BUILDER: b"FIRST = 1\n",
    OBSOLETE: b"LEFT = 2\n",
    "sglang/srt/first.py": b"FIRST = 1\n",
}
"""What the push below changes: a file to replace, one to keep, and one to delete, again."""

ERRORS = ("ENOSPC", "EIO", "EACCES")


class Case:
    """A fresh install for each case, with compiled files that must not survive."""

    def __init__(self, folder: Path, stacked: bool = False) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.install = Install(folder / "site").write()
        self.cache = folder / "cache.py"
        os.link(folder / "site" / ARGS, self.cache)
        self.first = self.install.image() if stacked else {}
        self.violations: list[str] = []
        if stacked:
            self.plan = build_plan(
                [Change(path, self.install.read(path), new) for path, new in BELOW.items()],
                set_name="below",
                set_version="1",
                distinfo=DISTINFO,
                record=self.install.files[RECORD],
            )
            self.push()
            for path in self.install.image():  # the number of points must not depend on the clock
                os.utime(self.install.root / path, (1_700_000_000, 1_700_000_000))
            self.install.files = {
                path: (self.install.root / path).read_bytes() for path in self.install.image()
            }
        self.old = self.install.image()
        self.plan = self.install.plan()
        self.compile()

    def compile(self) -> None:
        """Leave bytecode as a careless importer would."""
        for path in NEW:
            where = self.install.root / path
            if where.parent.is_dir():
                (where.parent / "__pycache__").mkdir(exist_ok=True)
                cache = where.parent / "__pycache__"
                for tag in ("cpython-311", "cpython-312.opt-2"):
                    (cache / f"{where.stem}.{tag}.pyc").write_bytes(b"stale")
                where.with_suffix(".pyc").write_bytes(b"stale")

    def push(self) -> dict[str, Any]:
        plan = self.plan
        request = {
            "root": str(self.install.root),
            "distinfo": DISTINFO,
            "client": who(),
            "set": "ddtree",
            "set_version": "1",
            "ops": [
                [f.path, f.old, f.new, len(c.new or b""), c.mode]
                for f, c in zip(plan.files, plan.changes, strict=True)
            ],
            "imports": [list(row) for row in plan.imports],
            "dry_run": False,
            "allow_running": True,
        }
        return push(request, dict(plan.contents))

    def rollback(self) -> dict[str, Any]:
        return rollback(
            {
                "root": str(self.install.root),
                "client": who(),
                "keep": [],
                "dry_run": False,
                "allow_running": True,
            }
        )

    def status(self) -> dict[str, Any]:
        return status({"root": str(self.install.root), "client": who()})

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.violations.append(what)

    @property
    def where(self) -> str:
        """``old``, ``new`` or ``mixed``."""
        if self.install.image() == self.old:
            return "old"
        return "new" if self.install.is_new else "mixed"

    def check_settled(self, when: str) -> None:
        """Invariants of a tree that nobody is working on."""
        image = self.install.image(times=False)
        expected = (
            set(self.old)
            if self.where == "old"
            else {
                *(set(self.old) - {p for p, new in NEW.items() if new is None}),
                *(p for p, new in NEW.items() if new is not None),
            }
        )
        self.expect(self.where != "mixed", f"{when}: mixed")
        self.expect(set(image) == expected, f"{when}: files {set(image) ^ expected}")
        self.expect(self.cache.read_bytes() == self.old[ARGS][0], f"{when}: cache written through")
        for path in self.old.keys() - set(TOUCHED):
            same = self.install.image()[path] == self.old[path]
            self.expect(same, f"{when}: {path} is not ours and has changed")
        state = self.install.root / ".ddpatch"
        if state.exists():
            left = [p.name for p in state.iterdir() if p.name != "lock" and not p.name.isdigit()]
            self.expect(not left, f"{when}: left {left}")
            staged = [str(p) for p in state.glob("*/new/*")]
            self.expect(not staged, f"{when}: staged {staged}")

    def check_status(self, when: str) -> None:
        """A tree that nobody has edited is as the pushes that stand want it."""
        wrong = [
            row
            for row in self.status()["files"]
            if row["expected"] != row["found"] or row["state"] not in ("ours", "pristine")
        ]
        self.expect(not wrong, f"{when}: status {wrong}")

    def check_bytecode(self, when: str) -> None:
        left = [
            str(found.relative_to(self.install.root))
            for path in NEW
            for found in (
                *(self.install.root / path).parent.glob(f"__pycache__/{Path(path).stem}.*.pyc"),
                *(self.install.root / path).parent.glob(f"{Path(path).stem}.pyc"),
            )
        ]
        self.expect(not left, f"{when}: bytecode {left}")


def in_child(case: Case, action: str, arm: dict[str, Any]) -> int:
    """Do ``action`` in a child with a fault armed; return its wait status."""
    pid = os.fork()
    if pid == 0:
        faults.activate().arm(**arm)
        try:
            getattr(case, action)()
        except AgentError:
            os._exit(3)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def count(case: Case, action: str) -> list[str]:
    """Return the points of one run, which is really done."""
    active = faults.activate()
    active.arm()
    getattr(case, action)()
    faults.ACTIVE = None
    return active.names


def prepared(folder: Path, action: str, stacked: bool = False) -> Case:
    case = Case(folder, stacked)
    if action == "rollback":
        case.push()
        case.compile()
    return case


def settle_and_check(case: Case, label: str) -> None:
    """Recover, recover again, then redo and undo."""
    before = case.where
    recovered = case.status()["recovered"]
    case.check_settled(f"{label} recovered {recovered}")
    if recovered and recovered[0]["action"] != "discarded":
        case.check_bytecode(f"{label} recovered {recovered} from {before}")
    case.check_status(f"{label} recovered {recovered}")
    image = case.install.image()
    case.expect(not case.status()["recovered"], f"{label}: the second recovery did something")
    case.expect(case.install.image() == image, f"{label}: the second recovery changed the tree")
    if case.where == "old":
        case.compile()
        case.push()
        case.expect(case.where == "new", f"{label}: redo ends {case.where}")
        case.check_settled(f"{label} redone")
        case.check_bytecode(f"{label} redone")
    case.compile()
    case.rollback()
    case.expect(case.where == "old", f"{label}: undo ends {case.where}")
    case.check_settled(f"{label} undone")
    case.check_bytecode(f"{label} undone")
    case.check_status(f"{label} undone")
    if case.first:
        case.rollback()
        case.expect(case.install.image() == case.first, f"{label}: not back at the beginning")
        case.check_status(f"{label} all undone")


def kills(folder: Path, action: str, stacked: bool = False) -> dict[str, Any]:
    names = count(prepared(folder, action, stacked), action)
    bad: list[str] = []
    seen: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        case = prepared(folder, action, stacked)
        if os.WIFSIGNALED(in_child(case, action, {"kill_at": number})):
            seen[case.where] = seen.get(case.where, 0) + 1
        else:
            case.violations.append(f"{number} {name}: was not killed")
        settle_and_check(case, f"{number} {name}")
        bad += case.violations
    return {"points": len(names), "after": seen, "violations": bad}


def errors(folder: Path, action: str, every: bool) -> dict[str, Any]:
    names = count(prepared(folder, action), action)
    bad: list[str] = []
    seen: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        for error in ERRORS if every else (ERRORS[number % len(ERRORS)],):
            label = f"{number} {name} {error}"
            case = prepared(folder, action)
            status_ = in_child(case, action, {"fail_at": number, "error": error})
            told = {0: "ok", 3: "error"}.get(os.waitstatus_to_exitcode(status_), "crash")
            done = {"push": "new", "rollback": "old"}[action]
            undone = {"push": "old", "rollback": "new"}[action]
            seen[f"{told}:{case.where}"] = seen.get(f"{told}:{case.where}", 0) + 1
            case.expect(told != "crash", f"{label}: crashed")
            expected = done if told == "ok" else undone
            case.expect(case.where == expected, f"{label}: told {told}, tree {case.where}")
            settle_and_check(case, label)
            bad += case.violations
    return {"points": len(names), "after": seen, "violations": bad}


def doubles(folder: Path, action: str, seed: int, pairs: int) -> dict[str, Any]:
    first = count(prepared(folder, action), action)
    random.seed(seed)
    bad: list[str] = []
    hit = 0
    for _ in range(pairs):
        one, two = random.randint(1, len(first)), random.randint(1, 40)
        case = prepared(folder, action)
        in_child(case, action, {"kill_at": one})
        hit += os.WIFSIGNALED(in_child(case, "status", {"kill_at": two}))
        settle_and_check(case, f"{one} {first[one - 1]} then {two}")
        bad += case.violations
    return {"points": pairs, "after": {"killed twice": hit}, "violations": bad}


def main() -> None:
    action, kind, folder, seed = (*sys.argv[1:], "0")[:4]
    where = Path(folder)
    os.umask(0)
    procs.running = lambda root: ([], 0)  # a tenth of a second each, thousands of times
    if kind in ("kill", "stacked"):
        result = kills(where, action, stacked=kind == "stacked")
    elif kind == "error":
        result = errors(where, action, every=bool(int(seed)))
    else:
        result = doubles(where, action, int(seed), 60)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
