"""Replace an expression by another that may use what the anchor bound."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patcher.changes import Conflict, Splice
from patcher.edits.base import Anchor, parsed
from patcher.model import Finding
from patcher.pattern import MATCH, Match, Pattern
from patcher.probe import Subject
from patcher.source import Source, Unreadable


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
        return tuple(
            replace_expression(match, match.bound(self.of), parsed(self.by, match))
            for match in self.anchor.locate(subject)
        )

    def present(self, subject: Subject) -> bool:
        """See :class:`~patcher.edits.base.Edit`."""
        path = self.anchor.path(subject)
        if path not in subject.tree:
            return False
        by = self.by.replace("$MATCH", "$_")
        return bool(Pattern(by).find(subject.tree.source(path), self.anchor.scope))

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"replace {self.anchor.describe()} by `{self.by}`"


def replace_expression(match: Match, node: ast.AST, code: str) -> Splice:
    """Put ``code`` in the place of an expression, in brackets if that place needs them.

    The new file is parsed, and the expression found there must be the one that was meant.
    Raises Conflict where it cannot be (an expression inside an f-string, say).
    """
    source = match.source
    start, end = source.span(node)
    code = code.replace("\r\n", "\n")
    wanted = ast.dump(ast.parse(f"({code})", mode="eval").body)
    for text in (code, f"({code})"):
        data = text.replace("\n", source.newline.decode()).encode()
        after = Source(source.path, source.data[:start] + data + source.data[end:])
        if _stands(after, start, wanted) and _same_around(source, after, node):
            return Splice(source.path, start, end, data)
    raise Conflict(
        Finding(
            code="edit.expression",
            message=f"{match.site}: `{code}` cannot stand for `{source.text(node)}` there",
            site=match.site,
            expected=f"`{code}` read as one expression",
            found=source.lines(match.site.line, match.site.line).decode().strip(),
            next_step="replace the statement around it instead",
        )
    )


def _stands(after: Source, start: int, wanted: str) -> bool:
    """Whether the expression that begins at (or one bracket after) ``start`` is the wanted one."""
    try:
        nodes = list(ast.walk(after.tree))
    except Unreadable:
        return False
    begins = (start, start + 1)
    return any(
        isinstance(n, ast.expr) and after.span(n)[0] in begins and ast.dump(n) == wanted
        for n in nodes
        if hasattr(n, "lineno")
    )


def _same_around(before: Source, after: Source, node: ast.AST) -> bool:
    """Whether the tree around the place is as it was, type by type, down to the parent."""
    path = [type(a) for a in before.ancestors(node)]
    start = before.span(node)[0]
    return any(
        [type(a) for a in after.ancestors(n)] == path
        for n in ast.walk(after.tree)
        if isinstance(n, ast.expr) and after.span(n)[0] in (start, start + 1)
    )
