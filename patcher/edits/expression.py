"""Replace an expression by another that may use what the anchor bound."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patcher.changes import Splice
from patcher.edits.base import Anchor
from patcher.edits.lines import standing_alone
from patcher.edits.proof import disjoint, flaw, refused
from patcher.edits.template import Filled
from patcher.pattern import MATCH, Match, Pattern, encoded
from patcher.probe import Subject
from patcher.source import Source


@dataclass(frozen=True, kw_only=True)
class ReplaceExpression:
    """Replace the expression that metavariable ``of`` stands for by ``by``.

    ``$X`` in ``by`` stands for what the anchor bound, ``$MATCH`` for the whole match. Brackets are
    added when the result would otherwise be read differently.
    """

    anchor: Anchor
    by: str
    of: str = MATCH

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        found = self.anchor.locate(subject)
        return disjoint(found[0].source, (self._place(match) for match in found))

    def _place(self, match: Match) -> Splice:
        node = match.bound(self.of)
        filled = Filled(self.by, match)
        indent = match.source.indent(match.source.statement(match.node))
        texts = (text.lstrip(b" \t") for text in filled.texts(match.source.newline, indent))
        return replace_expression(match, node, texts, (filled.expression(),))

    def present(self, subject: Subject) -> bool:
        """Whether an anchored place already reads so, or none is left and the result is there."""
        found = self.anchor.matches(subject)
        if found:
            return any(self._reads_so(match) for match in found)
        path = self.anchor.path(subject)
        if path not in subject.tree:
            return False
        result = Anchor(file=path, pattern=self.by, scope=self.anchor.scope)
        return bool(result.matches(subject))

    def _reads_so(self, match: Match) -> bool:
        """Whether what ``of`` stands for is what ``by`` makes of something, or lies in it."""
        source, node = match.source, match.bound(self.of)
        bound = {n: value for n, value in match.bindings.items() if n not in (self.of, MATCH)}
        by = Pattern(self.by)
        if self.of != MATCH:
            return by.fits(source, node, bound)
        if MATCH not in by.metavariables:
            return not self._says_nothing(by) and by.fits(source, node, {})
        around = (a for a in source.ancestors(node) if isinstance(a, ast.expr))
        return any(by.fits(source, a, {**bound, MATCH: node}) for a in around)

    def _says_nothing(self, by: Pattern) -> bool:
        """Whether all that the anchor matches looks like a result: `$A < $B` by `$B < $A`."""
        anchor = Source("", encoded(textwrap.dedent(self.anchor.pattern).strip())[0].encode())
        return any(by.fits(anchor, n, {}) for s in anchor.tree.body for n in (s, *_value(s)))

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"replace {self.anchor.describe()} by `{self.by}`"


def _value(statement: ast.stmt) -> Sequence[ast.AST]:
    return (statement.value,) if isinstance(statement, ast.Expr) else ()


def replace_expression(
    match: Match, node: ast.AST, texts: Iterable[bytes], meant: Sequence[ast.expr]
) -> Splice:
    """Put the first of ``texts`` that is read as one of ``meant`` in the place of an expression.

    Each is tried as it is, then in brackets. Raises Conflict where none will do (an expression
    inside an f-string, say, where Python does not tell where things are).
    """
    source = match.source
    if not isinstance(node, ast.expr):
        raise refused(source, match.node, f"a {type(node).__name__} is not an expression")
    around = standing_alone(source, node)
    start, end = source.span(node)
    problem = "there is nothing to put there"
    for text in texts:
        for data in (text, b"(" + text + b")"):
            one = Splice(source.path, start, end, data)
            for expression in meant:
                problem = flaw(source, around, one, around, {node: expression})
                if not problem:
                    return one
    raise refused(source, node, problem, "replace the statement around it instead")
