"""What a verification level is, and what it is given to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from inventory.model import Inventory
from patcher.ledger import Ledger
from patcher.model import Finding
from patcher.plan import Plan
from patcher.probe import Subject
from patcher.tree import Tree

Regions = Mapping[str, tuple[tuple[int, int], ...]]
"""Path to the first and last line (from 1) of each new or changed region in the patched tree."""


@dataclass(frozen=True)
class Context:
    """A patched tree beside the plan that should have led to it.

    ``survey`` makes the inventory of a tree; it is only called by levels that need one.
    """

    plan: Plan
    patched: Tree
    ledger: Ledger
    survey: Callable[[Tree], Inventory]

    @property
    def pristine(self) -> Tree:
        """The tree before the set."""
        return self.plan.subject.tree

    @property
    def regions(self) -> Regions:
        """Where the patched tree has new or changed code, from the plan."""
        return {path: change.regions for path, change in self.plan.changes.files.items()}

    @cached_property
    def patched_subject(self) -> Subject:
        """The patched tree with its own inventory."""
        return Subject(self.patched, self.survey(self.patched))


@dataclass(frozen=True)
class Evidence:
    """What a level has looked at (``checked`` of the ``unit``), and what it found.

    ``unknown`` counts what could neither be proved nor refuted without running it; that passes.
    """

    findings: tuple[Finding, ...]
    checked: int
    unit: str
    unknown: int = 0


@dataclass(frozen=True, kw_only=True)
class Check:
    """One level of the ladder: its name, its place, what it proves, and how it is done."""

    level: str
    rank: int
    proves: str
    run: Callable[[Context], Evidence]
