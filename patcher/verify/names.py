"""Level ``names``: what new or changed code takes from the tree is there."""

from __future__ import annotations

from collections.abc import Iterator

from patcher.model import Finding
from patcher.resolve.naming import examine_names
from patcher.verify.check import Check, Context


def _run(context: Context) -> Iterator[Finding]:
    yield from examine_names(context.pristine, context.patched, context.regions).findings


CHECK = Check(
    level="names",
    rank=3,
    proves="every import, attribute and name that new code uses is there in the patched tree",
    run=_run,
)
