"""Add an element to a list, tuple or set, or a keyword argument to a call."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TypeVar

import libcst as cst

from patcher.changes import Conflict, Splice
from patcher.edits.base import Anchor
from patcher.edits.region import rewrite
from patcher.model import Finding
from patcher.pattern import MATCH, Match, substitute
from patcher.probe import Subject

_Item = TypeVar("_Item", cst.Element, cst.Arg, cst.ImportAlias)
_Collection = ast.List | ast.Tuple | ast.Set


@dataclass(frozen=True, kw_only=True)
class AddElement:
    """Add ``element`` at the end of the list, tuple or set that metavariable ``to`` stands for."""

    anchor: Anchor
    element: str
    to: str = MATCH

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        return tuple(self._place(match) for match in self.anchor.locate(subject))

    def _place(self, match: Match) -> Splice:
        node = match.bound(self.to)
        if not isinstance(node, _Collection):
            raise Conflict(_wrong_kind(match, node, "a list, tuple or set literal"))
        new = cst.Element(cst.parse_expression(substitute(self.element, match)))

        def change(container: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(container, cst.List | cst.Tuple | cst.Set)
            opening: cst.BaseParenthesizableWhitespace | None = None
            if isinstance(container, cst.List):
                opening = container.lbracket.whitespace_after
            elif isinstance(container, cst.Set):
                opening = container.lbrace.whitespace_after
            elif container.lpar:
                opening = container.lpar[0].whitespace_after
            items = [e for e in container.elements if isinstance(e, cst.Element)]
            return container.with_changes(elements=extended(items, new, opening))

        return rewrite(match.source, node, change)

    def present(self, subject: Subject) -> bool:
        """See :class:`~patcher.edits.base.Edit`."""
        wanted = ast.dump(ast.parse(self.element, mode="eval").body)
        found = self.anchor.locate(subject)
        return any(
            ast.dump(item) == wanted
            for match in found
            if isinstance(node := match.bound(self.to), _Collection)
            for item in node.elts
        )

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"add element {self.element} at {self.anchor.describe()}"


@dataclass(frozen=True, kw_only=True)
class AddKeyword:
    """Add keyword argument ``name=value`` to the call that metavariable ``to`` stands for."""

    anchor: Anchor
    name: str
    value: str
    to: str = MATCH

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        return tuple(self._place(match) for match in self.anchor.locate(subject))

    def _place(self, match: Match) -> Splice:
        node = match.bound(self.to)
        if not isinstance(node, ast.Call):
            raise Conflict(_wrong_kind(match, node, "a call"))
        new = cst.Arg(
            keyword=cst.Name(self.name),
            value=cst.parse_expression(substitute(self.value, match)),
            equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
        )

        def change(call: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(call, cst.Call)
            args = list(call.args)
            closing = args[-1].whitespace_after_arg if args else None
            longer = extended(args, new, call.whitespace_before_args)
            if closing is not None and not isinstance(args[-1].comma, cst.Comma):
                empty = cst.SimpleWhitespace("")
                longer[-2] = longer[-2].with_changes(whitespace_after_arg=empty)
                longer[-1] = longer[-1].with_changes(whitespace_after_arg=closing)
            return call.with_changes(args=longer)

        return rewrite(match.source, node, change)

    def present(self, subject: Subject) -> bool:
        """See :class:`~patcher.edits.base.Edit`."""
        found = self.anchor.locate(subject)
        return any(
            keyword.arg == self.name
            for match in found
            if isinstance(node := match.bound(self.to), ast.Call)
            for keyword in node.keywords
        )

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"add keyword {self.name}={self.value} at {self.anchor.describe()}"


def extended(
    items: list[_Item], new: _Item, opening: cst.BaseParenthesizableWhitespace | None
) -> list[_Item]:
    """The items with one more, separated and closed as the others are.

    A trailing comma stays a trailing comma; one item per line stays one item per line.
    """
    if not items:
        return [new]
    last = items[-1]
    if len(items) > 1 and isinstance(items[-2].comma, cst.Comma):
        separator = items[-2].comma
    elif isinstance(opening, cst.ParenthesizedWhitespace):
        separator = cst.Comma(whitespace_after=opening)
    else:
        separator = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    longer = items[:-1]
    longer.append(last.with_changes(comma=separator))
    longer.append(new.with_changes(comma=last.comma))
    return longer


def _wrong_kind(match: Match, node: ast.AST, expected: str) -> Finding:
    return Finding(
        code="anchor.kind",
        message=f"{match.site}: expected {expected}, found a {type(node).__name__}",
        site=match.site,
        expected=expected,
        found=match.source.text(node),
        next_step="point `to` at another metavariable, or adapt the anchor",
    )
