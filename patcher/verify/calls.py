"""Level ``calls``: what new code calls takes those arguments, and its overrides fit."""

from __future__ import annotations

from collections.abc import Iterator

from patcher.model import Finding
from patcher.resolve.calling import examine_calls
from patcher.verify.check import Check, Context


def _run(context: Context) -> Iterator[Finding]:
    yield from examine_calls(context.pristine, context.patched, context.regions).findings


CHECK = Check(
    level="calls",
    rank=4,
    proves="every call from new code binds to the real signature, and every override fits its base",
    run=_run,
)
