"""Level ``parse``: every changed file compiles for the target's Python."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator

from patcher.model import Finding, Site
from patcher.verify.check import Check, Context, Evidence


def _run(context: Context) -> Evidence:
    changed = [p for p in sorted(context.plan.changes.files) if p.endswith(".py")]
    return Evidence(tuple(_broken(context, changed)), len(changed), "file")


def _broken(context: Context, paths: Iterable[str]) -> Iterator[Finding]:
    version = _minor(context.pristine.facts.python_version)
    for path in paths:
        if path not in context.patched:
            continue  # level `bytes` says so
        data = context.patched.read(path)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(data, path, feature_version=version)
                compile(tree, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            reason = getattr(error, "msg", None) or str(error)
            yield Finding(
                code="parse.syntax",
                message=f"{path}:{line} does not compile: {reason}",
                level="parse",
                site=Site(path, line),
                expected=f"Python {'.'.join(map(str, version)) if version else ''}".strip(),
                found=reason,
                next_step="look at the edit with `ddpatch diff`",
            )


def _minor(version: str) -> tuple[int, int] | None:
    found = re.match(r"3\.(\d+)", version)
    return (3, int(found[1])) if found else None


CHECK = Check(
    level="parse",
    rank=2,
    proves="every changed file compiles for the target's Python",
    run=_run,
)
