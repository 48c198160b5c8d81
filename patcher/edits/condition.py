"""Widen or narrow a condition: ``if A`` becomes ``if A or B``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from patcher.changes import Splice
from patcher.edits.base import Anchor
from patcher.edits.expression import replace_expression
from patcher.edits.proof import disjoint, refused
from patcher.edits.template import Filled
from patcher.matching import same
from patcher.pattern import Match
from patcher.probe import Subject


@dataclass(frozen=True, kw_only=True)
class WidenCondition:
    """Add an alternative to the condition that metavariable ``test`` stands for.

    The anchor's pattern names the condition: ``if $TEST: $...``, ``return $TEST``. ``operator``
    ``and`` narrows it instead. Either side gets the brackets that it needs to mean what it did.
    """

    anchor: Anchor
    alternative: str
    test: str = "TEST"
    operator: Literal["or", "and"] = "or"

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        found = self.anchor.locate(subject)
        return disjoint(found[0].source, (self._place(match) for match in found))

    def _place(self, match: Match) -> Splice:
        node = match.bound(self.test)
        new = Filled(self.alternative, match).expression()
        if not isinstance(node, ast.expr) or isinstance(new, ast.Starred):
            raise refused(match.source, match.node, "that is not a condition")
        op = ast.Or() if self.operator == "or" else ast.And()
        meant = (
            ast.BoolOp(op, [*self._parts(node), *self._parts(new)]),
            ast.BoolOp(op, [*self._parts(node), new]),
        )
        return replace_expression(match, node, self._texts(match, node), meant)

    def _texts(self, match: Match, node: ast.expr) -> Iterator[bytes]:
        old = match.source.text(node).encode()
        word = f" {self.operator} ".encode()
        for text in Filled(self.alternative, match).texts(match.source.newline):
            for left in (old, b"(" + old + b")"):
                for right in (text, b"(" + text + b")"):
                    yield left + word + right

    def _parts(self, node: ast.expr) -> list[ast.expr]:
        kind = ast.Or if self.operator == "or" else ast.And
        return node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, kind) else [node]

    def present(self, subject: Subject) -> bool:
        """Whether an anchored condition has the alternative already."""
        return any(self._has(match) for match in self.anchor.matches(subject))

    def _has(self, match: Match) -> bool:
        node = match.bound(self.test)
        if not isinstance(node, ast.expr):
            return False
        there = self._parts(node)
        new = Filled(self.alternative, match).expression()
        wanted = self._parts(new)
        runs = [there[i : i + len(wanted)] for i in range(len(there))] if there != [node] else []
        return any(same(run, wanted) for run in runs) or any(same(one, new) for one in there[1:])

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"add `{self.operator} {self.alternative}` at {self.anchor.describe()}"
