"""``ddpatch diff``: what a patched tree changes."""

from __future__ import annotations

import click

from patcher.cli import complete
from patcher.cli.app import App, command, plural
from patcher.model import ExitCode, Report, Table, UsageError


@command("diff", section="Look", short_help="Show what the patched tree changes.")
@click.argument(
    "name", metavar="[TARGET|SNAPSHOT]", required=False, shell_complete=complete.targets
)
@click.option("--per-patch", is_flag=True, help="One diff per patch, with why (git log -p).")
@click.option("--stat", is_flag=True, help="Only the files and how many lines.")
def cmd(app: App, name: str | None, per_patch: bool, stat: bool) -> Report:
    """Show what the patched tree of a target changes on its snapshot.

    Without a name: the tree that was applied last. In a pipe the output is a plain unified diff
    that `git apply` and `patch -p1` read.
    """
    if per_patch and stat:
        raise UsageError(
            "--per-patch and --stat do not go together", next_step="leave one of them out"
        )
    ref = app.workspace.patched(name)
    store = app.workspace.store
    changes = store.patched_changes(ref)
    text = store.patch_text(ref, per_patch=per_patch)
    if stat:
        rows = tuple((path, _size(text, path)) for path in sorted(changes))
        return Report(
            "diff",
            ExitCode.OK,
            {"target": ref.snapshot.target, "set": ref.set_label, "files": sorted(changes)},
            f"{ref.set_label} changes {plural(len(changes), 'file')} of {ref.snapshot.target}",
            tables=(Table("", ("file", "lines"), rows),),
        )
    return Report(
        command="diff",
        exit_code=ExitCode.OK,
        data={
            "target": ref.snapshot.target,
            "version": ref.snapshot.version,
            "set": ref.set_label,
            "files": sorted(changes),
            "diff": text,
        },
        headline=f"{ref.set_label} changes {plural(len(changes), 'file')} of {ref.snapshot.target}",
        body=text,
        syntax="diff",
    )


def _size(text: str, path: str) -> str:
    plus = minus = 0
    inside = False
    for line in text.splitlines():
        if line.startswith("diff --git"):
            inside = line.endswith(f" b/{path}")
        elif inside and line.startswith("+") and not line.startswith("+++"):
            plus += 1
        elif inside and line.startswith("-") and not line.startswith("---"):
            minus += 1
    return f"+{plus} -{minus}"
