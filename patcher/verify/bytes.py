"""Level ``bytes``: only declared regions differ from the pristine tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from patcher.changes import splice
from patcher.model import Finding, Site
from patcher.verify.check import Check, Context, Evidence


def _run(context: Context) -> Evidence:
    paths = {*context.pristine.files, *context.patched.files, *context.plan.changes.files}
    return Evidence(tuple(_differences(context, sorted(paths))), len(paths), "file")


def _differences(context: Context, paths: Iterable[str]) -> Iterator[Finding]:
    planned = context.plan.changes.files
    before, after = context.pristine, context.patched
    for path in paths:
        old, new = before.files.get(path), after.files.get(path)
        if path not in planned:
            if old != new and (old is None or new is None or old.sha256 != new.sha256):
                yield _undeclared(path, old is None, new is None)
            continue
        change = planned[path]
        if new is None:
            yield _finding(path, 1, "is missing", "the planned content", "no file")
            continue
        data = after.read(path)
        if data != change.after:
            line = _first_difference(change.after, data)
            yield _finding(path, line, "is not what was planned", "the planned bytes", "others")
        elif change.before is not None and splice(change.before, change.splices) != data:
            line = _first_difference(change.before, data)
            yield _finding(path, line, "differs outside its declared regions", "no change", "one")


def _undeclared(path: str, added: bool, removed: bool) -> Finding:
    what = "was added" if added else "was removed" if removed else "was changed"
    return _finding(path, 1, f"{what}, and no patch declares it", "an untouched file", what)


def _finding(path: str, line: int, what: str, expected: str, found: str) -> Finding:
    return Finding(
        code="bytes.differ",
        message=f"{path} {what}",
        level="bytes",
        site=Site(path, line),
        expected=expected,
        found=found,
        next_step="apply the set again: `ddpatch apply`",
    )


def _first_difference(left: bytes, right: bytes) -> int:
    pairs = zip(left.split(b"\n"), right.split(b"\n"), strict=False)
    return next((n for n, (a, b) in enumerate(pairs, 1) if a != b), 1)


CHECK = Check(
    level="bytes",
    rank=1,
    proves="untouched files and regions are identical; only declared regions changed",
    run=_run,
)
