"""Drives a push, a rollback, a status and a history, and turns answers into results or errors.

Exit codes (``CONTRACT.md``): what could lose something is a Refusal (4); what the target refused
us is a TargetError (3); a push that failed midway and was taken back is 5; one that could not be
taken back now is 6, with its state and the command that settles it.
"""

from __future__ import annotations

import difflib
import getpass
import platform
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

from patcher.model import (
    DdpatchError,
    ExitCode,
    FileState,
    Finding,
    InstallFacts,
    Refusal,
    Site,
    TargetError,
    UsageError,
)
from patcher.push.plan import PushPlan
from patcher.push.records import (
    FileStatus,
    HistoryRow,
    Process,
    PushResult,
    Recovered,
    RollbackResult,
    TargetStatus,
)
from patcher.targets.agent.frames import AgentError
from patcher.targets.errors import explain


class Caller(Protocol):
    """What this module needs of a session."""

    name: str

    def call(
        self, request: Mapping[str, Any], contents: Sequence[tuple[str, bytes]] = ()
    ) -> dict[str, Any]:
        """Send one request and return its answer; raises AgentError."""


def who() -> str:
    """Return the operator as ``user@machine``, for the target's journal."""
    return f"{getpass.getuser()}@{platform.node()}"


def _owner(owner: Mapping[str, Any]) -> str:
    if not owner:
        return "somebody who has just started"
    return (
        f"{owner.get('client')} since {owner.get('time')} "
        f"(process {owner.get('pid')} of {owner.get('user')} on {owner.get('host')})"
    )


def _rows(rows: Sequence[Mapping[str, str]], code: str, next_step: str) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            code,
            f"{row['path']} is not as expected",
            site=Site(row["path"], 1),
            expected=row["expected"][:12],
            found=row["found"][:12],
            next_step=next_step,
        )
        for row in rows
    )


def _listed(rows: Sequence[Mapping[str, str]]) -> str:
    return "".join(
        f"\n  {row['path']}: expected {row['expected'][:12]}, found {row['found'][:12]}"
        for row in rows
    )


def _stale(detail: Mapping[str, Any], name: str) -> Refusal:
    """Say that the snapshot is older than a push or rollback, and what even that leaves open."""
    step = f"ddpatch snapshot {name}"
    push = detail["push"]
    what = "stands here since" if detail["stands"] else "was rolled back at"
    others = _listed(detail["files"])
    return Refusal(
        f"{name}: {push['set']}@{push['set_version']} (push {push['id']}) {what} {push['time']}; "
        "take a snapshot first; nothing was pushed"
        + (f"; neither of the snapshot nor of that push are:{others}" if others else ""),
        next_step=f"run `{step}`, then apply and push again",
        findings=_rows(detail["files"], "push.drift", f"run `{step}`"),
    )


def _not_kept(detail: Mapping[str, Any], name: str) -> UsageError:
    """Say which paths of ``keep`` are wrong, and name the files of the push, the nearest first."""
    unknown, files = detail["unknown"], detail["files"]
    near = [
        match for path in unknown for match in difflib.get_close_matches(path, files, 3, cutoff=0.5)
    ]
    ordered = list(dict.fromkeys([*near, *files]))
    return UsageError(
        f"{name}: {', '.join(map(repr, unknown))} cannot be kept: not part of push {detail['id']}",
        next_step=(f"did you mean {near[0]}? " if near else "")
        + f"the push has {', '.join(ordered)}",
    )


def _raise(error: AgentError, name: str) -> NoReturn:
    """Raise what an agent's error means for a push or a rollback."""
    detail = error.detail
    failure: DdpatchError
    match error.code:
        case "drift":
            step = f"ddpatch snapshot {name}"
            failure = Refusal(
                f"{name} has changed since the snapshot; nothing was pushed:"
                + _listed(detail["files"]),
                next_step=f"run `{step}`, then apply and push again",
                findings=_rows(detail["files"], "push.drift", f"run `{step}`"),
            )
        case "stale":
            failure = _stale(detail, name)
        case "keep":
            failure = _not_kept(detail, name)
        case "in-the-way":
            failure = Refusal(
                f"{name}: files were changed after the push; nothing was rolled back:"
                + _listed(detail["conflicts"]),
                next_step="save those changes elsewhere, or keep such a file as it is with "
                "--keep PATH",
                findings=_rows(detail["conflicts"], "rollback.conflict", "use --keep PATH"),
            )
        case "locked":
            failure = Refusal(
                f"{name} is locked: {_owner(detail['owner'])} works there",
                next_step="wait until that is done; the lock goes away with its process",
            )
        case "path" | "not-a-directory":
            failure = Refusal(
                f"{name}: {error.message}; nothing was pushed",
                next_step=f"run `ddpatch snapshot {name}`, and look at that path",
            )
        case "importers":
            shown = "".join(f"\n  {p.pid}: {p.command}" for p in _processes(detail["processes"]))
            failure = Refusal(
                f"{name}: processes started a moment ago and may still be importing the package; "
                f"nothing was changed:{shown}",
                next_step="wait until they serve, or stop them; --allow-running goes on regardless",
            )
        case "unfinished" | "conflict":
            files = _listed(detail.get("conflicts", []))
            failure = Refusal(
                f"{name}: {error.message}{files}",
                next_step=f"run `ddpatch rollback {name}`"
                + (" (--keep PATH keeps a file as it is)" if files else ""),
            )
        case "no-push":
            failure = Refusal(
                f"{name}: {error.message}", next_step=f"`ddpatch history {name}` lists the pushes"
            )
        case "verify":
            findings = tuple(
                Finding(
                    f"push.{row['level']}",
                    row["message"],
                    level=row["level"],
                    site=Site(row["path"], row["line"]),
                    next_step="fix the patch, then apply and push again",
                )
                for row in detail["findings"]
            )
            shown = "".join(f"\n  {f.site}: {f.message}" for f in findings)
            failure = DdpatchError(
                f"{name}: {error.message}; nothing was pushed:{shown}",
                exit_code=ExitCode.FINDING,
                next_step=findings[0].next_step,
                findings=findings,
            )
        case "undone":
            failure = DdpatchError(
                f"{name}: {error.message}; everything was taken back, the host is as before",
                exit_code=ExitCode.ROLLED_BACK,
                next_step=f"settle the cause, run `ddpatch snapshot {name}`, and push again",
            )
        case "stuck":
            files = _listed(detail.get("conflicts", []))
            failure = DdpatchError(
                f"{name}: {error.message}; state {detail.get('state')}{files}",
                exit_code=ExitCode.UNRECOVERED,
                next_step=f"settle the cause, then run `ddpatch rollback {name}`: it goes on from "
                "this state, and the originals are kept until it is done",
            )
        case "journal":
            failure = DdpatchError(
                f"{name}: {error.message}; nothing was changed",
                exit_code=ExitCode.UNRECOVERED,
                next_step="the originals are in .ddpatch/*/old beside the package: compare them "
                "by hand, then move .ddpatch away",
            )
        case _:
            failure = explain(error, name)
    raise failure from error


def _call(
    session: Caller, request: Mapping[str, Any], contents: Sequence[tuple[str, bytes]] = ()
) -> dict[str, Any]:
    try:
        return session.call(request, contents)
    except AgentError as error:
        _raise(error, session.name)


def _processes(rows: Sequence[Mapping[str, Any]]) -> tuple[Process, ...]:
    return tuple(
        Process(
            int(r["pid"]), str(r["command"]), float(r["started"]), bool(r["importing"]), r["why"]
        )
        for r in rows
    )


def _recovered(rows: Sequence[Mapping[str, str]]) -> tuple[Recovered, ...]:
    return tuple(Recovered(r["id"], r["was"], r["action"]) for r in rows)


def push(
    session: Caller,
    facts: InstallFacts,
    plan: PushPlan,
    *,
    dry_run: bool = False,
    allow_running: bool = False,
) -> PushResult:
    """Bring the plan's files onto the target, all or none.

    With ``dry_run`` the target checks everything and changes nothing. ``allow_running`` goes on
    although young processes may be importing the package. A connection that is lost while the
    target answers raises TargetError: then only ``status`` knows.
    """
    answer = _call(
        session,
        {
            "op": "push",
            "root": facts.root,
            "distinfo": facts.distinfo,
            "client": who(),
            "set": plan.set_name,
            "set_version": plan.set_version,
            "ops": [
                [f.path, f.old, f.new, len(c.new or b""), c.mode]
                for f, c in zip(plan.files, plan.changes, strict=True)
            ],
            "imports": plan.imports,
            "contents": len(plan.contents),
            "dry_run": dry_run,
            "allow_running": allow_running,
        },
        plan.contents,
    )
    with _trusting(session):
        return PushResult(
            answer["outcome"],
            answer["id"],
            plan.files,
            answer.get("need", 0),
            answer.get("free", 0),
            _processes(answer["processes"]),
            answer["hidden"],
            _recovered(answer["recovered"]),
            tuple(answer["notes"]),
        )


def rollback(
    session: Caller,
    facts: InstallFacts,
    *,
    keep: Sequence[str] = (),
    dry_run: bool = False,
    allow_running: bool = False,
) -> RollbackResult:
    """Undo the newest push that stands.

    A file that is neither ours nor as before is a Refusal before anything is changed, unless
    ``keep`` has its path: then it stays as it is, and is `modified` (edited) or `orphan` (as we
    wrote it) in a status. A path in ``keep`` that is not part of the push is a UsageError.
    """
    answer = _call(
        session,
        {
            "op": "rollback",
            "root": facts.root,
            "client": who(),
            "keep": list(keep),
            "dry_run": dry_run,
            "allow_running": allow_running,
        },
    )
    with _trusting(session):
        return RollbackResult(
            answer["id"],
            tuple(answer["files"]),
            dry_run,
            _processes(answer["processes"]),
            answer["hidden"],
            _recovered(answer["recovered"]),
            tuple(answer["notes"]),
            tuple(answer["kept"]),
        )


def status(session: Caller, facts: InstallFacts) -> TargetStatus:
    """Say what each file that was ever pushed is now; settles an interrupted push first."""
    answer = _call(session, {"op": "status", "root": facts.root, "client": who()})
    with _trusting(session):
        return TargetStatus(
            answer["journal"],
            answer["id"],
            answer["set"],
            answer["set_version"],
            tuple(
                FileStatus(r["path"], FileState(r["state"]), r["expected"], r["found"])
                for r in answer["files"]
            ),
            answer["reinstalled"],
            _owner(answer["owner"]) if answer["journal"] == "busy" else "",
            tuple(row["path"] for row in answer["conflicts"]),
            _processes(answer["processes"]),
            answer["hidden"],
            _recovered(answer["recovered"]),
        )


def history(session: Caller, facts: InstallFacts) -> tuple[HistoryRow, ...]:
    """List pushes and rollbacks, oldest first."""
    answer = _call(session, {"op": "history", "root": facts.root, "client": who()})
    with _trusting(session):
        return tuple(
            HistoryRow(
                row["id"],
                row["action"],
                row["time"],
                row["set"],
                row["set_version"],
                row["state"],
                str(row["owner"].get("host", "")),
                str(row["owner"].get("user", "")),
                str(row["owner"].get("client", "")),
                tuple(row["files"]),
            )
            for row in answer["rows"]
        )


class _trusting:  # noqa: N801 - reads as a statement
    """An answer that lacks what it must have is an error of the target, not a traceback."""

    def __init__(self, session: Caller) -> None:
        self._name = session.name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: object, _: object) -> None:
        if kind is not None and issubclass(kind, KeyError | TypeError | ValueError):
            raise TargetError(
                f"{self._name}: the agent's answer is incomplete: {error!r}",
                next_step=f"run `ddpatch status {self._name}`",
            )
