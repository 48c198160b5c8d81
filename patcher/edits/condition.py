"""Widen or narrow a condition: ``if A`` becomes ``if A or B``."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from patcher.changes import Splice
from patcher.edits.base import Anchor, parsed
from patcher.edits.expression import replace_expression
from patcher.pattern import Match, Pattern
from patcher.probe import Subject


@dataclass(frozen=True, kw_only=True)
class WidenCondition:
    """Add an alternative to the condition that metavariable ``test`` stands for.

    The anchor's pattern names the condition: ``if $TEST: $...``, ``return $TEST``. ``operator``
    ``and`` narrows it instead. The old condition keeps its brackets, or gets those that it needs.
    """

    anchor: Anchor
    alternative: str
    test: str = "TEST"
    operator: Literal["or", "and"] = "or"

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        return tuple(self._place(match) for match in self.anchor.locate(subject))

    def _place(self, match: Match) -> Splice:
        node = match.bound(self.test)
        old = match.source.text(node)
        if self._binds_weaker(node):
            old = f"({old})"
        code = f"{old} {self.operator} {parsed(self.alternative, match)}"
        return replace_expression(match, node, code)

    def _binds_weaker(self, node: ast.AST) -> bool:
        loose: tuple[type[ast.AST], ...] = (ast.Lambda, ast.IfExp, ast.NamedExpr)
        if self.operator == "and":
            return isinstance(node, loose) or (
                isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)
            )
        return isinstance(node, loose)

    def present(self, subject: Subject) -> bool:
        """See :class:`~patcher.edits.base.Edit`."""
        path = self.anchor.path(subject)
        if path not in subject.tree:
            return False
        wanted = ast.dump(ast.parse(self.alternative, mode="eval").body)
        pattern = Pattern(self.anchor.pattern, self.anchor.where)
        return any(
            isinstance(node := match.bound(self.test), ast.BoolOp)
            and any(ast.dump(value) == wanted for value in node.values)
            for match in pattern.find(subject.tree.source(path), self.anchor.scope)
        )

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"add `{self.operator} {self.alternative}` at {self.anchor.describe()}"
