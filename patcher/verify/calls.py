"""Level ``calls``: what new code calls takes those arguments, and its overrides fit."""

from __future__ import annotations

from patcher.resolve.calling import examine_calls
from patcher.verify.check import Check, Context, Evidence


def _run(context: Context) -> Evidence:
    found = examine_calls(context.pristine, context.patched, context.regions)
    return Evidence(tuple(found.findings), found.checked, "call", found.unknown)


CHECK = Check(
    level="calls",
    rank=4,
    proves="every call from new code binds to the real signature, and every override fits its base",
    run=_run,
)
