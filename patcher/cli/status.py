"""``ddpatch status``: what a target's files are now."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from patcher.cli import complete
from patcher.cli.app import App, command, exit_for, plural, target_options
from patcher.cli.push import process_lines, recovered_lines
from patcher.model import Finding, Report, Site, Table

if TYPE_CHECKING:
    from patcher.push.records import TargetStatus


@command("status", section="Look", short_help="Say what each pushed file is now; 1 on drift.")
@click.argument("target", shell_complete=complete.targets)
@target_options
def cmd(app: App, target: str, python: str | None, path: str | None) -> Report:
    """Say what every file that was ever pushed to TARGET is now.

    \b
      pristine   as it was before the push        modified   changed by somebody since
      ours       as it was pushed                 missing    gone
      foreign    somebody else's, in our place    orphan     ours, left behind where nothing of
                                                             ours is expected any more

    Exits 1 when a file is not what the last push or rollback has left.
    """
    workspace = app.workspace
    with workspace.target(target, python=python, path=path).connect(workspace.progress) as session:
        state = session.status()
    return _report(target, state)


def _report(target: str, state: TargetStatus) -> Report:
    counts = Counter(str(f.state) for f in state.files)
    what = ", ".join(f"{n} {word}" for word, n in sorted(counts.items())) or "nothing was pushed"
    standing = f"{state.set_name}@{state.set_version} (push {state.id})" if state.id else "no push"
    holds = not state.drifted and not state.conflicts and state.journal != "conflict"
    lines = [f"stands    {standing}", f"journal   {state.journal}"]
    if state.owner:
        lines.append(f"busy      {state.owner}")
    if state.reinstalled:
        lines.append("reinstall an installer has written over the push; apply and push again")
    lines += recovered_lines(state.recovered)
    lines += process_lines(state.processes, state.hidden)
    findings = tuple(
        Finding(
            code=f"status.{f.state}",
            message=f"{f.path} is {f.state}, and should not be",
            site=Site(f.path, 1),
            expected=f.expected[:12] or "no file",
            found=f.found[:12] or "no file",
            next_step=f"keep it with `ddpatch rollback {target} --keep {f.path}`, or restore it",
        )
        for f in state.drifted
    )
    return Report(
        command="status",
        exit_code=exit_for(holds),
        data={"outcome": "clean" if holds else "drift", "target": target, "status": state},
        headline=f"{target}: {what}",
        lines=tuple(lines),
        tables=(_table(state),) if state.files else (),
        findings=findings,
        next_step="" if holds else f"ddpatch rollback {target} says what it would undo: --dry-run",
    )


def _table(state: TargetStatus) -> Table:
    rows = tuple((str(f.state), f.path) for f in state.files)
    return Table(plural(len(rows), "file"), ("state", "file"), rows)
