"""Add an element to a list, tuple or set, or a keyword argument to a call."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, TypeVar

import libcst as cst

from patcher.changes import Conflict, Splice
from patcher.edits.base import Anchor
from patcher.edits.proof import disjoint, refused
from patcher.edits.region import rewrite
from patcher.edits.template import Filled
from patcher.matching import same
from patcher.model import Finding
from patcher.pattern import MATCH, Match
from patcher.probe import Subject

_Item = TypeVar("_Item", cst.BaseElement, cst.Arg, cst.ImportAlias)
_Collection = ast.List | ast.Tuple | ast.Set


@dataclass(frozen=True, kw_only=True)
class AddElement:
    """Add ``element`` at the end of the list, tuple or set that metavariable ``to`` stands for."""

    anchor: Anchor
    element: str
    to: str = MATCH

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        found = self.anchor.locate(subject)
        return disjoint(found[0].source, (self._place(match) for match in found))

    def _place(self, match: Match) -> Splice:
        node = match.bound(self.to)
        if not isinstance(node, _Collection):
            raise Conflict(_wrong_kind(match, node, "a list, tuple or set literal"))
        filled = Filled(self.element, match)
        new = _parsed(filled, match)

        def change(container: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(container, cst.List | cst.Tuple | cst.Set)
            items = list(container.elements)
            brackets = _brackets(container)
            if brackets is None:
                return container.with_changes(elements=extended(items, new, None, None)[0])
            left, right, opening, closing = brackets
            longer, rest = extended(items, new, opening.whitespace_after, closing.whitespace_before)
            if isinstance(container, cst.Tuple) and not items:
                longer = [new.with_changes(comma=cst.Comma())]
            end = closing.with_changes(whitespace_before=rest)
            changes = {left: opening, right: end}
            if isinstance(container, cst.Tuple):
                changes = {left: [opening, *container.lpar[1:]], right: [*container.rpar[:-1], end]}
            return container.with_changes(elements=longer, **changes)

        elements = [*node.elts, filled.expression()]
        meant = ast.Set(elements) if isinstance(node, ast.Set) else type(node)(elements, ast.Load())
        return rewrite(match.source, node, change, meant)

    def present(self, subject: Subject) -> bool:
        """Whether an anchored collection has the element already."""
        return any(
            same(item, Filled(self.element, match).expression())
            for match in self.anchor.matches(subject)
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
        found = self.anchor.locate(subject)
        return disjoint(found[0].source, (self._place(match) for match in found))

    def _place(self, match: Match) -> Splice:
        node = match.bound(self.to)
        if not isinstance(node, ast.Call):
            raise Conflict(_wrong_kind(match, node, "a call"))
        filled = Filled(self.value, match)
        value = _parsed(filled, match).value
        new = cst.Arg(
            keyword=cst.Name(self.name),
            value=value,
            equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
        )

        def change(call: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(call, cst.Call)
            args = list(call.args)
            if not args:
                return call.with_changes(args=[new])
            last = args[-1]
            empty = cst.SimpleWhitespace("")
            if isinstance(last.comma, cst.Comma):
                # the white space before the bracket hangs on the trailing comma
                closing = last.comma.whitespace_after
                args[-1] = last.with_changes(comma=last.comma.with_changes(whitespace_after=empty))
            else:
                closing = last.whitespace_after_arg
                args[-1] = last.with_changes(whitespace_after_arg=empty)
            longer, rest = extended(args, new, call.whitespace_before_args, closing)
            end = longer[-1]
            if isinstance(end.comma, cst.Comma):
                end = end.with_changes(comma=end.comma.with_changes(whitespace_after=rest))
            else:
                end = end.with_changes(whitespace_after_arg=rest)
            return call.with_changes(args=[*longer[:-1], end])

        keyword = ast.keyword(self.name, filled.expression())
        meant = ast.Call(node.func, node.args, [*node.keywords, keyword])
        return rewrite(match.source, node, change, meant)

    def present(self, subject: Subject) -> bool:
        """Whether an anchored call has the keyword already, with whatever value."""
        return any(
            keyword.arg == self.name
            for match in self.anchor.matches(subject)
            if isinstance(node := match.bound(self.to), ast.Call)
            for keyword in node.keywords
        )

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"add keyword {self.name}={self.value} at {self.anchor.describe()}"


_Space = cst.BaseParenthesizableWhitespace
_Brackets = tuple[str, str, Any, Any]


def _brackets(container: cst.List | cst.Tuple | cst.Set) -> _Brackets | None:
    """Names and nodes of what opens and closes a collection; None for a bare tuple."""
    if isinstance(container, cst.List):
        return "lbracket", "rbracket", container.lbracket, container.rbracket
    if isinstance(container, cst.Set):
        return "lbrace", "rbrace", container.lbrace, container.rbrace
    if container.lpar:
        return "lpar", "rpar", container.lpar[0], container.rpar[-1]
    return None


def _parsed(filled: Filled, match: Match) -> cst.BaseElement:
    """The new element. Raises Conflict where LibCST cannot read it."""
    filled.expression()  # says what is wrong with it, if anything is
    newline = match.source.newline
    for text in filled.texts(newline):
        code = b"[" + newline + text + newline + b"]"
        try:
            found = cst.parse_expression(code.decode())
        except Exception as error:
            reason = f"LibCST cannot read the new code ({type(error).__name__})"
            raise refused(match.source, match.node, reason) from error
        if isinstance(found, cst.List) and len(found.elements) == 1:
            return found.elements[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    raise refused(match.source, match.node, "the new code is not one expression")


def extended(
    items: list[_Item], new: _Item, opening: _Space | None, closing: _Space | None
) -> tuple[list[_Item], _Space | None]:
    """The items with one more, and the white space before the bracket that closes them.

    A trailing comma stays a trailing comma, one item per line stays one item per line, and a
    comment stays with the item that it stands beside.
    """
    if not items:
        return [new], closing
    last = items[-1]
    if len(items) > 1 and isinstance(items[-2].comma, cst.Comma):
        space = _without_comment(items[-2].comma.whitespace_after)
    elif isinstance(opening, cst.ParenthesizedWhitespace):
        space = _without_comment(opening)
    else:
        space = cst.SimpleWhitespace(" ")
    if isinstance(closing, cst.ParenthesizedWhitespace) and closing.first_line.comment:
        if not isinstance(space, cst.ParenthesizedWhitespace):
            space = closing.with_changes(empty_lines=[])
        space = space.with_changes(first_line=closing.first_line)
        closing = closing.with_changes(first_line=_bare(closing.first_line))
    if isinstance(last.comma, cst.Comma):
        # what stands before this comma belongs to the item before it
        between = last.comma.with_changes(whitespace_after=space)
        end = cst.Comma(whitespace_after=last.comma.whitespace_after)
        added = new.with_changes(comma=end)
    else:
        between = cst.Comma(whitespace_after=space)
        added = new.with_changes(comma=last.comma)
    longer = items[:-1]
    longer += [last.with_changes(comma=between), added]
    return longer, closing


def _without_comment(space: _Space) -> _Space:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    return space.with_changes(first_line=_bare(space.first_line), empty_lines=[])


def _bare(line: cst.TrailingWhitespace) -> cst.TrailingWhitespace:
    return line.with_changes(whitespace=cst.SimpleWhitespace(""), comment=None)


def _wrong_kind(match: Match, node: ast.AST, expected: str) -> Finding:
    return Finding(
        code="anchor.kind",
        message=f"{match.site}: expected {expected}, found a {type(node).__name__}",
        site=match.site,
        expected=expected,
        found=match.source.text(node),
        next_step="point `to` at another metavariable, or adapt the anchor",
    )
