"""``ddpatch snapshot``: bring an install into the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patcher.cli import complete
from patcher.cli.app import App, command, plural, target_options
from patcher.model import ExitCode, Report, Table

if TYPE_CHECKING:
    from patcher.targets.record import RecordDifference
    from patcher.workspace import Snapped


@command("snapshot", section="Main job", short_help="Bring a target's install into the store.")
@click.argument("target", shell_complete=complete.targets)
@target_options
def cmd(app: App, target: str, python: str | None, path: str | None) -> Report:
    """Bring the SGLang install of TARGET into the local store.

    The install is found by asking the target's Python, without importing SGLang. The whole package
    and its dist-info come in one stream, with modes, hashes and link counts; a second snapshot
    moves only what has changed. Nothing on the target is changed.

    \b
    Examples:
      ddpatch snapshot gpu1
      ddpatch snapshot me@gpu1:2222 --python /opt/venv/bin/python
      ddpatch snapshot pypi:0.5.11
    """
    taken = app.workspace.snapshot(target, python=python, path=path)
    return _report(taken, app.workspace.sets_in(taken.tree))


def _report(taken: Snapped, sets: list[str]) -> Report:
    facts = taken.tree.facts
    record = taken.record
    moved = (
        "nothing has changed since the last one"
        if taken.unchanged
        else f"{plural(taken.moved, 'content')} moved ({taken.moved_bytes / 1e6:.1f} MB)"
    )
    where = f"root      {facts.root}" + (" (editable)" if facts.editable else "")
    machine = ", ".join(
        f"{name} {value}"
        for name, value in (
            ("Python", facts.python_version),
            ("torch", facts.torch),
            ("CUDA", facts.cuda),
            ("installer", facts.installer),
        )
        if value
    )
    lines = [where, f"install   {machine or 'nothing known'}"]
    if facts.gpus:
        lines.append(f"GPU       {', '.join(facts.gpus)}")
    lines += [f"files     {taken.files:,}; {moved}", f"RECORD    {_record_line(record)}"]
    if sets:
        lines.append(f"patched   {', '.join(sets)} is in it")
    return Report(
        command="snapshot",
        exit_code=ExitCode.OK,
        data={
            "outcome": "unchanged" if taken.unchanged else "taken",
            "target": taken.ref.target,
            "snapshot": taken.ref,
            "facts": facts,
            "files": taken.files,
            "moved": {"contents": taken.moved, "bytes": taken.moved_bytes},
            "record": record,
            "skipped": taken.skipped,
            "sets": sets,
        },
        headline=f"snapshot of {taken.ref.target}: sglang {facts.version}",
        lines=tuple(lines),
        tables=(*_tables(record), *_skipped(taken)),
        next_step=f"ddpatch apply {taken.ref.target}",
    )


def _skipped(taken: Snapped) -> tuple[Table, ...]:
    rows = tuple((entry.path, entry.reason) for entry in taken.skipped)
    return (Table("left out", ("entry", "reason"), rows),) if rows else ()


def _record_line(record: RecordDifference | None) -> str:
    if record is None:
        return "none (an editable install or a plain folder)"
    counts = (
        (len(record.modified), "modified"),
        (len(record.missing), "missing"),
        (len(record.foreign), "foreign"),
    )
    if not any(n for n, _ in counts):
        return "every file is as it was installed"
    return ", ".join(f"{n} {word}" for n, word in counts)


def _tables(record: RecordDifference | None) -> tuple[Table, ...]:
    if record is None:
        return ()
    rows = [
        (state, path)
        for state in ("modified", "missing", "foreign")
        for path in getattr(record, state)
    ]
    if not rows:
        return ()
    return (Table("differs from RECORD", ("state", "file"), tuple(rows)),)
