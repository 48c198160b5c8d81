"""The verification ladder: one file per level, each with what it proves and how.

``bytes``, ``parse``, ``names``, ``calls`` and ``dispatch`` need nothing but the trees; what runs
code (``import``, ``selftest``, ``serve``) happens on a host.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patcher.model import Finding, Severity, UsageError
from patcher.verify.check import Check, Context, Evidence


@dataclass(frozen=True)
class LevelResult:
    """What one level found; it holds when none of its findings is an error."""

    check: Check
    evidence: Evidence

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What it found."""
        return self.evidence.findings

    @property
    def holds(self) -> bool:
        """Whether the level is reached."""
        return not any(f.severity is Severity.ERROR for f in self.findings)


def checks() -> list[Check]:
    """All levels, lowest first."""
    found = [
        module.CHECK
        for info in pkgutil.iter_modules(__path__)
        if hasattr(module := importlib.import_module(f"{__name__}.{info.name}"), "CHECK")
    ]
    return sorted(found, key=lambda c: c.rank)


def up_to(level: str | None) -> list[Check]:
    """The levels up to a named one, lowest first; all for None. Raises UsageError."""
    found = checks()
    if level is None:
        return found
    names = [c.level for c in found]
    if level not in names:
        raise UsageError(
            f"there is no verification level {level!r}", next_step=f"one of: {', '.join(names)}"
        )
    return found[: names.index(level) + 1]


def climb(context: Context, levels: Sequence[Check]) -> Iterable[LevelResult]:
    """Run levels from the lowest up; the first that does not hold is the last one run."""
    for check in levels:
        result = LevelResult(check, check.run(context))
        yield result
        if not result.holds:
            return
