"""Insert statements before or after an anchored one: branches, calls, assignments."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from patcher.changes import Splice
from patcher.edits.base import Anchor
from patcher.edits.lines import above, below, insert_at, on_lines_of, own_lines, siblings
from patcher.edits.proof import disjoint, flaw, refused
from patcher.edits.template import Filled
from patcher.matching import same
from patcher.pattern import Match
from patcher.probe import Subject
from patcher.source import Source


@dataclass(frozen=True, kw_only=True)
class _Insert(ABC):
    anchor: Anchor
    code: str
    blank_lines: int = 0

    _is_before: ClassVar[bool]

    def present(self, subject: Subject) -> bool:
        """Whether the statements stand directly beside an anchored one."""
        return any(self._stands(match) for match in self.anchor.matches(subject))

    def _stands(self, match: Match) -> bool:
        code = Filled(self.code, match).statements()
        block, index = siblings(match.source, match.source.statement(self._beside(match)))
        return same(code, list(self._neighbours(block, index, len(code))))

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        found = self.anchor.locate(subject)
        return disjoint(found[0].source, (self._place(match) for match in found))

    def _place(self, match: Match) -> Splice:
        source = match.source
        statement = own_lines(source, self._beside(match), before=self._is_before)
        around = on_lines_of(source, statement)
        filled = Filled(self.code, match)
        code = filled.statements()
        problem = ""
        for text in filled.texts(source.newline, source.indent(statement)):
            one = self._splice(source, statement, text + source.newline)
            meant = [*code, *around] if self._is_before else [*around, *code]
            problem = flaw(source, around, one, meant)
            if not problem:
                return one
        raise refused(source, statement, problem, "look at how the code to insert is written")

    @abstractmethod
    def _beside(self, match: Match) -> ast.AST:
        """The node of the match that the code goes beside."""

    @abstractmethod
    def _neighbours(self, block: Sequence[ast.stmt], index: int, n: int) -> Sequence[ast.stmt]:
        """The ``n`` statements of a block that stand where the code goes."""

    @abstractmethod
    def _splice(self, source: Source, statement: ast.stmt, text: bytes) -> Splice:
        """The splice that puts whole lines beside the anchored statement."""


@dataclass(frozen=True, kw_only=True)
class InsertAfter(_Insert):
    """Put ``code`` on its own lines after the anchored statement, at its indentation.

    Comments below a compound statement that stand further in than it stay with it.
    ``blank_lines`` go between the two. ``$X`` in ``code`` stands for what the anchor bound.
    """

    _is_before = False

    def _beside(self, match: Match) -> ast.AST:
        return match.nodes[-1]

    def _neighbours(self, block: Sequence[ast.stmt], index: int, n: int) -> Sequence[ast.stmt]:
        return block[index + 1 : index + 1 + n]

    def _splice(self, source: Source, statement: ast.stmt, text: bytes) -> Splice:
        data = source.newline * self.blank_lines + text
        return insert_at(source, source.line_start(below(source, statement)), data)

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"insert after {self.anchor.describe()}"


@dataclass(frozen=True, kw_only=True)
class InsertBefore(_Insert):
    """Put ``code`` before the anchored statement and the comment that stands directly above it.

    ``blank_lines`` go between the two. ``$X`` in ``code`` stands for what the anchor bound.
    """

    _is_before = True

    def _beside(self, match: Match) -> ast.AST:
        return match.node

    def _neighbours(self, block: Sequence[ast.stmt], index: int, n: int) -> Sequence[ast.stmt]:
        return block[max(0, index - n) : index]

    def _splice(self, source: Source, statement: ast.stmt, text: bytes) -> Splice:
        data = text + source.newline * self.blank_lines
        return insert_at(source, source.line_start(above(source, statement)), data)

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"insert before {self.anchor.describe()}"
