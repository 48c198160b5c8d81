"""What ``status`` says after any sequence of pushes, rollbacks and edits by hand."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from patcher.model import FileState, Refusal, UsageError
from patcher.push.plan import Change, PushPlan, build_plan
from patcher.targets.agent import procs
from patcher.targets.agent import push as agent
from patcher.targets.agent.frames import AgentError
from patcher.targets.agent.query import status as agent_status
from tests.remote.conftest import (
    ARGS,
    BUILDER,
    DISTINFO,
    NEW,
    OBSOLETE,
    OLD,
    PACKAGE,
    RECORD,
    SPEC,
    Install,
)

OTHER = "sglang/srt/other.py"


def plan_now(install: Install, wanted: dict[str, bytes | None], name: str = "other") -> PushPlan:
    """Plan against the tree as it is now, as after a snapshot."""
    return build_plan(
        [Change(path, install.read(path), new) for path, new in wanted.items()],
        set_name=name,
        set_version="1",
        distinfo=DISTINFO,
        record=install.read(RECORD),
    )


def replacing(install: Install) -> PushPlan:
    """Another set over the pushed one: its files go, the originals come back, and one is new."""
    back: dict[str, bytes | None] = {path: OLD.get(path) for path in NEW}
    return plan_now(install, {**back, OTHER: b"VALUE = 2\n"})


def test_a_set_that_replaces_another_is_clean_and_so_is_what_is_left_of_both(
    install: Install,
) -> None:
    before = install.image()
    with install.target.connect() as session:
        session.push(install.plan())
        session.push(replacing(install))
        told = session.status()
        assert told.drifted == ()
        assert {row.state for row in told.files} <= {FileState.OURS, FileState.PRISTINE}
        assert not {BUILDER, PACKAGE} & {row.path for row in told.files}
        session.rollback()
        assert session.status().drifted == ()
        session.rollback()
        assert install.image() == before
        told = session.status()
    assert told.drifted == () and not told.reinstalled
    assert {row.state for row in told.files} == {FileState.PRISTINE}


def test_an_edit_between_two_pushes_that_is_undone_by_hand_leaves_no_trace(
    install: Install,
) -> None:
    with install.target.connect() as session:
        session.push(install.plan())
        pushed = install.read(ARGS)
        assert pushed is not None
        (install.root / ARGS).write_bytes(pushed + b"# mine\n")
        session.push(plan_now(install, {ARGS: pushed + b"# mine\n# and ours\n"}))
        session.rollback()
        (install.root / ARGS).write_bytes(pushed)
        session.rollback()
        told = session.status()
    assert install.image(times=False).keys() == install.files.keys()
    assert told.drifted == ()
    assert {row.path: row.state for row in told.files}[ARGS] is FileState.PRISTINE


def test_an_upgrade_between_two_pushes_is_the_new_pristine(install: Install) -> None:
    with install.target.connect() as session:
        session.push(install.plan())
        session.rollback()
        (install.root / SPEC).write_bytes(b"DFLASH = 'of the next release'\n")
        assert [row.path for row in session.status().drifted] == [SPEC]
        session.push(plan_now(install, {SPEC: b"DFLASH = DDTREE = 1\n"}))
        session.rollback()
        assert session.status().drifted == ()


def test_a_file_that_was_put_back_by_hand_is_pristine_and_not_as_expected(
    install: Install,
) -> None:
    with install.target.connect() as session:
        session.push(install.plan())
        (install.root / SPEC).write_bytes(OLD[SPEC])
        told = session.status()
    assert [(row.path, row.state) for row in told.drifted] == [(SPEC, FileState.PRISTINE)]
    assert not told.reinstalled


def test_a_kept_file_is_not_counted_as_undone_and_stays_ours_in_status(install: Install) -> None:
    with install.target.connect() as session:
        session.push(install.plan())
        (install.root / BUILDER).write_bytes(b"mine\n")
        dry = session.rollback(keep=[BUILDER, PACKAGE], dry_run=True)
        done = session.rollback(keep=[BUILDER, PACKAGE])
        assert set(done.kept) == set(dry.kept) == {BUILDER, PACKAGE}
        assert set(done.files) == set(dry.files) == {ARGS, SPEC, OBSOLETE, RECORD}
        states = {row.path: row.state for row in session.status().drifted}
        assert states == {BUILDER: FileState.MODIFIED, PACKAGE: FileState.ORPHAN}
        (install.root / BUILDER).unlink()
        (install.root / PACKAGE).unlink()
        assert session.status().drifted == ()


def test_somebody_elses_file_in_our_place_is_foreign(install: Install) -> None:
    with install.target.connect() as session:
        session.push(install.plan())
        session.rollback()
        (install.root / BUILDER).parent.mkdir()
        (install.root / BUILDER).write_bytes(b"theirs\n")
        states = {row.path: row.state for row in session.status().drifted}
    assert states == {BUILDER: FileState.FOREIGN}


@pytest.mark.parametrize("dry_run", [False, True])
def test_keep_takes_only_files_of_the_push(install: Install, dry_run: bool) -> None:
    with install.target.connect() as session:
        session.push(install.plan())
        image = install.image()
        with pytest.raises(UsageError, match="not part of push 000001") as caught:
            session.rollback(keep=[ARGS, "server_args.py"], dry_run=dry_run)
        assert "'server_args.py'" in caught.value.message and ARGS in caught.value.next_step
        assert caught.value.next_step.index(ARGS) < caught.value.next_step.index(BUILDER)
        assert install.image() == image
        session.rollback()


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_snapshot_from_before_the_standing_push_is_said_once(
    install: Install, dry_run: bool
) -> None:
    with install.target.connect() as session:
        session.push(install.plan())
        old = install.plan(**{SPEC: b"DFLASH = DDTREE = 3\n"})
        standing = r"ddtree@1 \(push 000001\) stands here since 20\d\d-.*; take a snapshot first"
        with pytest.raises(Refusal, match=standing) as caught:
            session.push(old, dry_run=dry_run)
        assert caught.value.findings == ()
        assert "ddpatch snapshot" in caught.value.next_step
        (install.root / ARGS).write_bytes(b"edited\n")
        with pytest.raises(Refusal, match=standing) as caught:
            session.push(old, dry_run=dry_run)
        assert [f.site.path for f in caught.value.findings if f.site] == [ARGS]
        assert SPEC not in caught.value.message and ARGS in caught.value.message
        assert len(caught.value.findings[0].found) == 12


def test_a_snapshot_from_before_a_rollback_is_said_once(install: Install) -> None:
    with install.target.connect() as session:
        session.push(install.plan())
        second = plan_now(install, {SPEC: b"DFLASH = DDTREE = 3\n", ARGS: b"ARGS = 1\n"})
        session.rollback()
        back = r"ddtree@1 \(push 000001\) was rolled back at 20\d\d-.*; take a snapshot first"
        with pytest.raises(Refusal, match=back) as caught:
            session.push(second)
        assert caught.value.findings == ()


def test_drift_that_no_push_explains_is_told_as_before(install: Install) -> None:
    with install.target.connect() as session:
        session.push(install.plan())
        second = plan_now(install, {SPEC: b"DFLASH = DDTREE = 3\n"})
        (install.root / SPEC).write_bytes(b"edited\n")
        with pytest.raises(Refusal, match="changed since the snapshot") as caught:
            session.push(second)
    assert [f.site.path for f in caught.value.findings if f.site] == [SPEC]


PATHS = ("sglang/a.json", "sglang/b.json", "sglang/new/c.json")
CONTENTS = (b"1", b"2", b"3", None)


def sha(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


@dataclass
class Model:
    """What is known about each file, kept while things happen instead of read from journals."""

    standing: list[tuple[str, dict[str, tuple[str, str]]]] = field(default_factory=list)
    originals: dict[str, list[str]] = field(default_factory=dict)
    written: dict[str, set[str]] = field(default_factory=dict)
    kept: dict[str, bool] = field(default_factory=dict)

    def push(self, name: str, files: dict[str, tuple[str, str]]) -> None:
        for path, (old, new) in files.items():
            if not any(path in touched for _, touched in self.standing):
                self.originals.setdefault(path, []).append(old)
            self.written.setdefault(path, set()).add(new)
            self.kept[path] = False
        self.standing.append((name, files))

    def rollback(self, keep: list[str]) -> None:
        _, files = self.standing.pop()
        for path in files:
            self.kept[path] = path in keep

    def row(self, path: str, found: str) -> tuple[str, bool]:
        """Return the word for a file (none for one that is rightly absent), and if it is right."""
        for _, files in reversed(self.standing):
            if path in files:
                wanted = files[path][1]
                break
        else:
            if found in self.originals[path]:
                return ("pristine" if found else "", True)
            wanted = self.originals[path][-1]
            return self._wrong(path, found, wanted), False
        if found == wanted:
            return ("ours" if found or self.originals[path][-1] else "", True)
        if found and found in self.originals[path]:
            return "pristine", False
        return self._wrong(path, found, wanted), False

    def _wrong(self, path: str, found: str, wanted: str) -> str:
        if not found:
            return "missing"
        if found in self.written[path]:
            return "orphan"
        return "modified" if wanted or self.kept[path] else "foreign"


@dataclass
class World:
    """A tree, the agent's functions, and the model beside them."""

    root: Path
    model: Model = field(default_factory=Model)

    def request(self, **more: Any) -> dict[str, Any]:
        return {"root": str(self.root), "client": "x", "dry_run": False, "allow_running": True,
                **more}  # fmt: skip

    def read(self, path: str) -> bytes | None:
        where = self.root / path
        return where.read_bytes() if where.exists() else None

    def edit(self, path: str, content: bytes | None) -> None:
        where = self.root / path
        if content is None:
            where.unlink(missing_ok=True)
        else:
            where.parent.mkdir(exist_ok=True, parents=True)
            draft = where.with_name("draft")
            draft.write_bytes(content)
            draft.replace(where)

    def push(self, wanted: dict[str, bytes | None], number: int) -> None:
        now = {path: self.read(path) for path in wanted}
        files = {p: (sha(now[p]), sha(new)) for p, new in wanted.items() if new != now[p]}
        ops = [[p, old, new, len(wanted[p] or b""), 0o644] for p, (old, new) in files.items()]
        contents = {sha(c): c for c in wanted.values() if c is not None}
        answer = agent.push(
            self.request(distinfo="", set=f"s{number}", set_version="1", ops=ops, imports=[]),
            contents,
        )
        if files:
            assert answer["outcome"] == "pushed"
            self.model.push(answer["id"], files)

    def rollback(self, keep: list[str]) -> None:
        if not self.model.standing:
            with pytest.raises(AgentError) as caught:
                agent.rollback(self.request(keep=[]))
            assert caught.value.code == "no-push"
            return
        name, files = self.model.standing[-1]
        keep = [path for path in keep if path in files]
        with contextlib.suppress(AgentError):
            answer = agent.rollback(self.request(keep=keep))
            assert answer["id"] == name
            self.model.rollback(keep)
            return
        event("a rollback that was refused")
        keep = [p for p, both in files.items() if sha(self.read(p)) not in (*both, "")]
        agent.rollback(self.request(keep=keep))
        self.model.rollback(keep)

    def check(self) -> None:
        answer = agent_status(self.request())
        rows = {row["path"]: row for row in answer["files"]}
        wrong = {p for p, row in rows.items() if row["expected"] != row["found"]}
        assert answer["id"] == (self.model.standing[-1][0] if self.model.standing else "")
        for path in self.model.originals:
            found = sha(self.read(path))
            word, right = self.model.row(path, found)
            said = rows.pop(path)["state"] if path in rows else ""
            if answer["reinstalled"] and said == "orphan" and word == "ours":
                continue
            assert (said, path not in wrong) == (word, right), (path, self.model)
        assert not rows


paths = st.sampled_from(PATHS)
actions = st.one_of(
    st.tuples(st.just("push"), st.dictionaries(paths, st.sampled_from(CONTENTS), min_size=1)),
    st.tuples(st.just("rollback"), st.lists(paths, max_size=1)),
    st.tuples(st.just("edit"), st.tuples(paths, st.sampled_from(CONTENTS))),
)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The agent's functions here, without its slow look at all processes."""
    monkeypatch.setattr(procs, "running", lambda root: ([], 0))
    umask = os.umask(0)
    yield
    os.umask(umask)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    start=st.dictionaries(paths, st.sampled_from(CONTENTS[:3])),
    steps=st.lists(actions, max_size=12),
)
@example(  # the rollback of the push below comes last, and keeps
    start={},
    steps=[
        ("push", {PATHS[0]: b"1"}),
        ("edit", (PATHS[0], b"2")),
        ("push", {PATHS[0]: b"1"}),
    ],
)
def test_status_is_what_a_plain_model_says(
    in_process: None, start: dict[str, bytes], steps: list[tuple[str, Any]]
) -> None:
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        world = World(Path(folder))
        world.edit("sglang/__init__.py", b"")
        for path, content in start.items():
            world.edit(path, content)
        for number, (what, value) in enumerate(steps):
            if what == "push":
                world.push(value, number)
            elif what == "rollback":
                world.rollback(value)
            else:
                world.edit(*value)
            world.check()
        while world.model.standing:
            world.rollback([])
            world.check()


def test_journals_that_do_not_say_what_they_stand_on_are_read_by_their_times(
    in_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As written before 'over' was journalled."""
    seconds = iter(range(10, 60))
    monkeypatch.setattr(
        "patcher.targets.agent.state._now", lambda: f"2026-01-01T00:00:{next(seconds)}Z"
    )
    monkeypatch.setattr("patcher.targets.agent.expect.newest", lambda state: None)
    world = World(tmp_path)
    world.edit("sglang/__init__.py", b"")
    for number, content in enumerate((b"1", b"2")):
        world.push({PATHS[0]: content}, number)
    for _ in range(2):
        world.rollback([])
        world.check()
    world.edit(PATHS[0], b"3")
    world.push({PATHS[0]: b"2"}, 3)
    world.check()
    world.rollback([])
    world.check()


def test_the_state_directory_keeps_no_originals_once_nothing_stands(install: Install) -> None:
    sizes = []
    with install.target.connect() as session:
        for _ in range(3):
            session.push(install.plan())
            session.push(replacing(install))
            session.rollback()
            session.rollback()
            files = [p for p in (install.root / ".ddpatch").rglob("*") if p.is_file()]
            assert {p.name for p in files} == {"lock", "journal"}
            sizes.append(sum(p.stat().st_size for p in files))
    assert sizes[2] < 20_000
