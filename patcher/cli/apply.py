"""``ddpatch apply``: patch a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from patcher.cli import complete
from patcher.cli.app import App, command, describe, exit_for, plural, set_option
from patcher.model import Outcome, Report, Table, UsageError
from patcher.tree import Tree

if TYPE_CHECKING:
    from patcher.changes import FileChange
    from patcher.plan import PatchPlan
    from patcher.refs import SnapshotRef
    from patcher.workspace import Applied


@command("apply", section="Main job", short_help="Patch a snapshot; no target is touched.")
@click.argument(
    "name", metavar="[TARGET|SNAPSHOT]", required=False, shell_complete=complete.targets
)
@click.option("--version", metavar="V", help="SGLang release: taken from the index, or must agree.")
@set_option
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.option(
    "--diff", "with_diff", is_flag=True, help="Show the changes as a diff (alone, in a pipe)."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the whole patched package to a new or empty folder.",
)
def cmd(
    app: App,
    name: str | None,
    version: str | None,
    set_name: str | None,
    dry_run: bool,
    with_diff: bool,
    output: Path | None,
) -> Report:
    """Apply a patch set to a snapshot, in the local store.

    Probes look at the code and choose how each patch is made; every anchor must match exactly as
    often as it says, or the whole set is refused with the reason. The patched tree becomes one
    commit per patch on the branch patched/<target>. Applying again changes nothing.

    \b
    Examples:
      ddpatch apply gpu1
      ddpatch apply --version 0.5.11 -o ./patched
      ddpatch apply gpu1 --dry-run --diff
    """
    if output is not None and dry_run:
        raise UsageError("--dry-run writes nothing, -o does", next_step="leave one of them out")
    if output is not None and output.exists() and any(output.iterdir()):
        raise UsageError(f"{output} is not empty", next_step="name a new folder with -o")
    ref = _snapshot(app, name, version)
    applied = app.workspace.apply(ref, app.patch_set(set_name), dry_run=dry_run)
    if output is not None and not dry_run and applied.outcome in _GOOD:
        _write(app, applied, output)
    return _report(app, applied, dry_run=dry_run, with_diff=with_diff, output=output)


_GOOD = (Outcome.APPLIED, Outcome.ALREADY_APPLIED, Outcome.NOT_NEEDED)


def _snapshot(app: App, name: str | None, version: str | None) -> SnapshotRef:
    if version is None:
        return app.workspace.find(name)
    if name is None:
        return app.workspace.find(f"pypi:{version}")
    ref = app.workspace.find(name)
    if ref.version != version:
        raise UsageError(
            f"the snapshot of {ref.target} is sglang {ref.version}, not {version}",
            next_step=f"leave --version out, or take a new snapshot: ddpatch snapshot {ref.target}",
        )
    return ref


def _patched_tree(app: App, applied: Applied) -> Tree:
    """The tree that the outcome stands for: patched, or the snapshot if it was so already."""
    store = app.workspace.store
    if applied.outcome is Outcome.APPLIED and applied.patched is not None:
        return store.patched_tree(applied.patched)
    current = applied.patched
    same = current is not None and current.snapshot.oid == applied.snapshot.oid
    if current is not None and same:
        return store.patched_tree(current)
    return store.tree(applied.snapshot)


def _write(app: App, applied: Applied, output: Path) -> None:
    """Write the patched package; a folder that is there is a whole one."""
    tree = _patched_tree(app, applied)
    try:
        _write_tree(tree, output)
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written: {error.strerror or error}",
            next_step="make room, or name another folder with -o",
        ) from error


def _write_tree(tree: Tree, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as draft:
        for path, entry in tree.files.items():
            target = Path(draft) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(tree.read(path))
            target.chmod(entry.mode)
        if output.exists():
            output.rmdir()
        (Path(draft) / "made").mkdir()
        for top in {path.partition("/")[0] for path in tree.files}:
            (Path(draft) / top).rename(Path(draft) / "made" / top)
        (Path(draft) / "made").rename(output)


def _report(
    app: App, applied: Applied, *, dry_run: bool, with_diff: bool, output: Path | None
) -> Report:
    plan, outcome = applied.plan, applied.outcome
    good = outcome in _GOOD
    label, target = plan.patch_set.label, applied.snapshot.target
    release = f"sglang {applied.snapshot.version}"
    verb = "would apply" if dry_run else "applied"
    headline = {
        Outcome.APPLIED: f"{label} {verb} to {target} ({release})",
        Outcome.ALREADY_APPLIED: f"{label} is already applied to {target} ({release}): no change",
        Outcome.NOT_NEEDED: f"{label}: nothing to do for {target} ({release})",
    }.get(outcome, f"{label} does not apply to {target} ({release}): nothing was changed")
    files = list(plan.changes.files.values()) if good else []
    lines = [f"snapshot  {describe(applied.snapshot)}"]
    if applied.replaced and outcome is Outcome.APPLIED:
        lines.append(f"in place of {applied.replaced.set_label}, from the originals")
    if output is not None and good and not dry_run:
        lines.append(f"the patched package is in {output}")
    tables = [_patch_table(applied)]
    if files:
        tables.append(_file_table(files))
    diff = _diff(files) if with_diff else ""
    return Report(
        command="apply",
        exit_code=exit_for(good),
        data={
            "outcome": outcome,
            "target": target,
            "version": applied.snapshot.version,
            "set": label,
            "dry_run": dry_run,
            "patches": _patches_json(applied),
            "changes": [_change_json(f) for f in files],
            **({"diff": diff} if with_diff else {}),
        },
        headline=headline,
        lines=tuple(lines),
        tables=tuple(tables),
        findings=plan.all_findings(),
        body=diff,
        syntax="diff",
        next_step=_next(target, outcome, dry_run=dry_run),
    )


def _next(target: str, outcome: Outcome, *, dry_run: bool) -> str:
    if outcome not in (Outcome.APPLIED, Outcome.ALREADY_APPLIED):
        return ""
    return f"ddpatch apply {target}" if dry_run else f"ddpatch verify {target}"


def _patch_table(applied: Applied) -> Table:
    rows = tuple(
        (str(_outcome(applied, p)), p.patch.id, p.note or p.patch.title)
        for p in applied.plan.patches
    )
    return Table("", ("outcome", "patch", ""), rows)


def _outcome(applied: Applied, planned: PatchPlan) -> Outcome:
    """What became of a patch, given what became of the whole set: all or nothing."""
    if planned.outcome is Outcome.APPLIED and applied.outcome is not Outcome.APPLIED:
        already = applied.outcome is Outcome.ALREADY_APPLIED
        return Outcome.ALREADY_APPLIED if already else Outcome.BLOCKED
    return planned.outcome


def _patches_json(applied: Applied) -> list[Mapping[str, Any]]:
    return [
        {
            "id": p.patch.id,
            "title": p.patch.title,
            "outcome": _outcome(applied, p),
            "strategy": p.strategy,
            "note": p.note,
        }
        for p in applied.plan.patches
    ]


def _file_table(files: list[FileChange]) -> Table:
    rows = []
    for change in files:
        added, removed = _line_counts(change)
        what = "new" if change.added else "changed"
        rows.append((what, change.path, f"+{added} -{removed}", ", ".join(change.patches)))
    return Table(plural(len(files), "file"), ("", "file", "lines", "patches"), tuple(rows))


def _line_counts(change: FileChange) -> tuple[int, int]:
    added = sum(s.data.count(b"\n") or 1 for s in change.splices)
    before = change.before or b""
    removed = sum(
        before[s.start : s.end].count(b"\n") or int(s.end > s.start) for s in change.splices
    )
    return added, removed


def _change_json(change: FileChange) -> dict[str, Any]:
    first, last = change.regions[0][0], change.regions[-1][1]
    return {
        "path": change.path,
        "line": first,
        "column": 1,
        "end_line": last,
        "scope": "",
        "kind": "added" if change.added else "changed",
        "before_sha256": change.before_sha256,
        "after_sha256": change.after_sha256,
        "regions": [{"line": a, "end_line": b} for a, b in change.regions],
        "patches": list(change.patches),
    }


def _diff(files: list[FileChange]) -> str:
    from patcher.report.diff import unified

    return "".join(unified(f.path, f.before, f.after) for f in files)
