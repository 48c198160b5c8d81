"""``ddpatch push``: put a patched tree on its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patcher.cli import complete
from patcher.cli.app import App, command, plural, target_options
from patcher.model import DdpatchError, ExitCode, Report, Table, UsageError
from patcher.patchset import load_set
from patcher.verify import climb, up_to
from patcher.workspace import Workspace, push_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patcher.push.records import Process, PushResult, Recovered
    from patcher.refs import PatchedRef


@command("push", section="Main job", short_help="Put the patched tree on its target, atomically.")
@click.argument("target", shell_complete=complete.targets)
@click.option("--dry-run", is_flag=True, help="Ask the target everything, change nothing.")
@click.option(
    "--allow-running",
    is_flag=True,
    help="Go on although young processes may be importing the package just now.",
)
@click.option(
    "--unverified", is_flag=True, help="Push although a level of verification does not hold."
)
@target_options
def cmd(
    app: App,
    target: str,
    dry_run: bool,
    allow_running: bool,
    unverified: bool,
    python: str | None,
    path: str | None,
) -> Report:
    """Put the patched tree of TARGET on it: all files or none.

    The tree is verified first, as by `ddpatch verify`. Then the target checks that nothing has
    moved since the snapshot, stages the files beside the package, compiles them and resolves their
    imports with its own Python, writes a journal, and renames file by file: new modules first,
    dispatch sites last. RECORD and stale bytecode are brought in line; the originals are kept for
    `ddpatch rollback`. A cut connection or a kill at any moment is finished or undone by the next
    command.

    \b
    Examples:
      ddpatch push gpu1 --dry-run
      ddpatch push gpu1
    """
    workspace = app.workspace
    opened = workspace.target(target, python=python, path=path)
    if not opened.writable:
        raise UsageError(
            f"{target} is a release, and cannot be pushed to",
            next_step=f"`ddpatch apply {target} -o FOLDER` writes the patched package",
        )
    ref = workspace.patched(target)
    patch_set = load_set(workspace.set_of(ref))
    if not unverified:
        _verified(workspace, ref)
    plan = push_plan(workspace, ref, patch_set)
    with opened.connect(workspace.progress) as session:
        result = session.push(plan, dry_run=dry_run, allow_running=allow_running)
    return _report(ref, result, patch_set.launch)


def _verified(workspace: Workspace, ref: PatchedRef) -> None:
    """Raise a finding (exit 1) for a tree of which a level does not hold."""
    last = list(climb(workspace.context(ref), up_to(None)))[-1]
    if not last.holds:
        raise DdpatchError(
            f"{ref.set_label} on {ref.snapshot.target}: level `{last.check.level}` does not hold; "
            "nothing was pushed",
            exit_code=ExitCode.FINDING,
            next_step="mend the patch, or say --unverified",
            findings=last.findings,
        )


_HEADLINES = {
    "pushed": "pushed {label} to {target}",
    "dry-run": "{label} can be pushed to {target}; nothing was changed",
    "nothing-to-do": "{target} has {label} already; nothing was changed",
}


def _report(ref: PatchedRef, result: PushResult, launch: str) -> Report:
    target = ref.snapshot.target
    dry = result.outcome == "dry-run"
    lines = []
    if result.outcome != "nothing-to-do":
        lines.append(
            f"space     {result.need / 1e6:.1f} MB needed, {result.free / 1e9:.1f} GB free"
        )
    lines += recovered_lines(result.recovered)
    lines += process_lines(result.processes, result.hidden)
    lines += list(result.notes)
    if not dry:
        lines.append(f"launch    {launch}")
    rows = tuple((str(n), f.kind, f.path) for n, f in enumerate(result.files, 1))
    title = f"{plural(len(rows), 'file')}, in this order"
    return Report(
        command="push",
        exit_code=ExitCode.OK,
        data={
            "outcome": result.outcome,
            "target": target,
            "version": ref.snapshot.version,
            "set": ref.set_label,
            "push": result,
            "launch": launch,
        },
        headline=_HEADLINES[result.outcome].format(label=ref.set_label, target=target),
        lines=tuple(lines),
        tables=() if result.outcome == "nothing-to-do" else (Table(title, ("", "", "file"), rows),),
        next_step=f"ddpatch push {target}" if dry else f"ddpatch status {target}",
    )


def recovered_lines(recovered: Sequence[Recovered]) -> list[str]:
    """What an interrupted push has become, which this command has settled first."""
    return [f"recovered {r.id}: it was {r.was}, now {r.action}" for r in recovered]


def process_lines(processes: Sequence[Process], hidden: int) -> list[str]:
    """Which running processes still have the old code, and what to do about it."""
    lines = [
        f"process   {p.pid} runs from this tree ({p.why}): {p.command[:90]}" for p in processes
    ]
    if processes:
        lines.append(
            "restart   they keep the code that they have imported until they are restarted"
        )
    if hidden > 0:
        lines.append(f"processes of others could not be looked into ({hidden})")
    return lines
