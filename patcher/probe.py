"""Probes: yes-or-no questions about a release, asked of its code and never of its version.

A probe is an inventory query with a predicate (:class:`Fact`), or a pattern in a place
(:class:`Shows`); both run on the engines that the inventory and the edits use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from inventory.model import Inventory, Row, Value
from patcher.pattern import Match, Pattern
from patcher.tree import Tree


@dataclass(frozen=True)
class Subject:
    """What is being patched or verified: a tree, and what the inventory says about it."""

    tree: Tree
    inventory: Inventory


class Probe(Protocol):
    """A question with a yes-or-no answer, and a sentence that says what it asks."""

    def holds(self, subject: Subject) -> bool:
        """The answer for one tree."""

    def describe(self) -> str:
        """The question as a clause: «… is there»."""


@dataclass(frozen=True)
class Fact:
    """Whether an inventory query has rows with these fields; ``count`` asks for exactly so many."""

    query: str
    where: Mapping[str, Value] = field(default_factory=dict)
    count: int | None = None

    def rows(self, subject: Subject) -> list[Row]:
        """The rows in question."""
        return list(subject.inventory.where(self.query, **self.where))

    def holds(self, subject: Subject) -> bool:
        """See :class:`Probe`."""
        found = len(self.rows(subject))
        return found > 0 if self.count is None else found == self.count

    def describe(self) -> str:
        """See :class:`Probe`."""
        many = "a row" if self.count is None else f"{self.count} row(s)"
        fields = ", ".join(f"{k}={v!r}" for k, v in self.where.items())
        return f"inventory `{self.query}` has {many}" + (f" with {fields}" if fields else "")


@dataclass(frozen=True)
class Shows:
    """Whether a pattern matches in a file (and scope); a missing file is a plain no."""

    file: str
    pattern: str
    scope: str | None = None
    count: int | None = None

    def matches(self, subject: Subject) -> list[Match]:
        """The places in question."""
        if self.file not in subject.tree:
            return []
        return Pattern(self.pattern).find(subject.tree.source(self.file), self.scope)

    def holds(self, subject: Subject) -> bool:
        """See :class:`Probe`."""
        found = len(self.matches(subject))
        return found > 0 if self.count is None else found == self.count

    def describe(self) -> str:
        """See :class:`Probe`."""
        where = self.file + (f" ({self.scope})" if self.scope else "")
        many = "" if self.count is None else f" {self.count} time(s)"
        return f"{where} shows `{self.pattern}`{many}"


@dataclass(frozen=True)
class HasFile:
    """Whether the tree has a file."""

    path: str

    def holds(self, subject: Subject) -> bool:
        """See :class:`Probe`."""
        return self.path in subject.tree

    def describe(self) -> str:
        """See :class:`Probe`."""
        return f"{self.path} is there"


@dataclass(frozen=True)
class Always:
    """The probe that always says yes: for a patch with one strategy."""

    def holds(self, subject: Subject) -> bool:
        """See :class:`Probe`."""
        return True

    def describe(self) -> str:
        """See :class:`Probe`."""
        return "always"


@dataclass(frozen=True)
class Not:
    """The opposite of a probe."""

    probe: Probe

    def holds(self, subject: Subject) -> bool:
        """See :class:`Probe`."""
        return not self.probe.holds(subject)

    def describe(self) -> str:
        """See :class:`Probe`."""
        return f"not ({self.probe.describe()})"


@dataclass(frozen=True)
class AllOf:
    """Several probes that must all say yes."""

    probes: tuple[Probe, ...]

    def holds(self, subject: Subject) -> bool:
        """See :class:`Probe`."""
        return all(p.holds(subject) for p in self.probes)

    def describe(self) -> str:
        """See :class:`Probe`."""
        return " and ".join(p.describe() for p in self.probes)
