"""``ddpatch history``: pushes to a target, and its snapshots."""

from __future__ import annotations

import time

import click

from patcher.cli import complete
from patcher.cli.app import App, command, plural, target_options
from patcher.model import ExitCode, Report, Table
from patcher.push.records import HistoryRow


@command("history", section="Look", short_help="List a target's pushes and snapshots.")
@click.argument("target", shell_complete=complete.targets)
@click.option("--snapshots", "only_snapshots", is_flag=True, help="Do not ask the target.")
@target_options
def cmd(
    app: App, target: str, only_snapshots: bool, python: str | None, path: str | None
) -> Report:
    """List the pushes and rollbacks of TARGET, and the snapshots of it in the store."""
    workspace = app.workspace
    opened = workspace.target(target, python=python, path=path)
    snapshots = workspace.store.history(opened.slug)
    rows: tuple[HistoryRow, ...] = ()
    if opened.writable and not only_snapshots:
        with opened.connect(workspace.progress) as session:
            rows = session.history()
    pushes = tuple(
        (r.time, r.action, f"{r.set_name}@{r.set_version}", r.state, r.client, r.id) for r in rows
    )
    taken = tuple((f"{target}@{s.number}", s.version, _when(s.time), s.oid[:12]) for s in snapshots)
    return Report(
        command="history",
        exit_code=ExitCode.OK,
        data={"target": target, "pushes": rows, "snapshots": snapshots},
        headline=f"{target}: {plural(len(rows), 'push or rollback', 'pushes and rollbacks')}, "
        f"{plural(len(taken), 'snapshot')}",
        tables=(
            Table("pushes", ("time", "what", "set", "state", "by", "id"), pushes),
            Table("snapshots, newest first", ("name", "sglang", "taken", "commit"), taken),
        ),
    )


def _when(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
