"""Level ``names``: what new or changed code takes from the tree is there."""

from __future__ import annotations

from patcher.resolve.naming import examine_names
from patcher.verify.check import Check, Context, Evidence


def _run(context: Context) -> Evidence:
    found = examine_names(context.pristine, context.patched, context.regions)
    return Evidence(tuple(found.findings), found.checked, "use", found.unknown)


CHECK = Check(
    level="names",
    rank=3,
    proves="every import, attribute and name that new code uses is there in the patched tree",
    run=_run,
)
