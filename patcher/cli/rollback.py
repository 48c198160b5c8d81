"""``ddpatch rollback``: undo the newest push."""

from __future__ import annotations

import click

from patcher.cli import complete
from patcher.cli.app import App, command, plural, target_options
from patcher.cli.push import process_lines, recovered_lines
from patcher.model import ExitCode, Report, Table


@command("rollback", section="Main job", short_help="Undo the newest push, to the byte.")
@click.argument("target", shell_complete=complete.targets)
@click.option("--dry-run", is_flag=True, help="Say what would be undone, change nothing.")
@click.option(
    "--keep",
    multiple=True,
    metavar="FILE",
    help="Leave this file as it is, although it was changed after the push (repeatable).",
)
@click.option(
    "--allow-running", is_flag=True, help="Go on although processes may be importing the package."
)
@target_options
def cmd(
    app: App,
    target: str,
    dry_run: bool,
    keep: tuple[str, ...],
    allow_running: bool,
    python: str | None,
    path: str | None,
) -> Report:
    """Undo the newest push to TARGET: the exact bytes and modes of before.

    A file that somebody has changed since the push is never overwritten: nothing is undone, and
    each such file is named, until it is dealt with or left alone with --keep.
    """
    workspace = app.workspace
    with workspace.target(target, python=python, path=path).connect(workspace.progress) as session:
        result = session.rollback(keep=keep, dry_run=dry_run, allow_running=allow_running)
    done = "would be undone" if dry_run else "undone"
    rows = tuple((path_,) for path_ in result.files)
    lines = [f"kept      {path_}" for path_ in result.kept]
    lines += [*recovered_lines(result.recovered), *process_lines(result.processes, result.hidden)]
    return Report(
        command="rollback",
        exit_code=ExitCode.OK,
        data={
            "outcome": "dry-run" if dry_run else "rolled-back",
            "target": target,
            "rollback": result,
        },
        headline=f"push {result.id} to {target} {done}: {plural(len(rows), 'file')}",
        lines=(*lines, *result.notes),
        tables=(Table("", ("file",), rows),),
        next_step=f"ddpatch rollback {target}" if dry_run else f"ddpatch status {target}",
    )
