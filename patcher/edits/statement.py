"""Insert statements before or after an anchored one: branches, calls, assignments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from patcher.changes import Splice
from patcher.edits.base import Anchor, above_comments, block, insert_at, own_lines, parsed
from patcher.pattern import Match, Pattern
from patcher.probe import Subject
from patcher.source import first_node


@dataclass(frozen=True, kw_only=True)
class _Insert(ABC):
    anchor: Anchor
    code: str
    blank_lines: int = 0

    def present(self, subject: Subject) -> bool:
        """Whether the statements are already there, next to nothing in particular."""
        path = self.anchor.path(subject)
        if path not in subject.tree:
            return False
        pattern = Pattern(self.code)
        return bool(pattern.find(subject.tree.source(path), self.anchor.scope))

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        return tuple(self._place(match) for match in self.anchor.locate(subject))

    @abstractmethod
    def _place(self, match: Match) -> Splice:
        """The splice for one match."""


@dataclass(frozen=True, kw_only=True)
class InsertAfter(_Insert):
    """Put ``code`` on its own lines after the anchored statement, at its indentation.

    ``blank_lines`` go between the two. ``$X`` in ``code`` stands for what the anchor bound.
    """

    def _place(self, match: Match) -> Splice:
        source = match.source
        statement = own_lines(source, match.nodes[-1], before=False)
        line = (statement.end_lineno or statement.lineno) + 1
        data = source.newline * self.blank_lines + block(
            source, parsed(self.code, match), source.indent(statement)
        )
        return insert_at(source, source.line_start(line), data)

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"insert after {self.anchor.describe()}"


@dataclass(frozen=True, kw_only=True)
class InsertBefore(_Insert):
    """Put ``code`` before the anchored statement and the comment that stands directly above it.

    ``blank_lines`` go between the two. ``$X`` in ``code`` stands for what the anchor bound.
    """

    def _place(self, match: Match) -> Splice:
        source = match.source
        statement = own_lines(source, match.node, before=True)
        indent = source.indent(statement)
        line = above_comments(source, first_node(statement).lineno, indent)
        data = block(source, parsed(self.code, match), indent) + source.newline * self.blank_lines
        return insert_at(source, source.line_start(line), data)

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"insert before {self.anchor.describe()}"
