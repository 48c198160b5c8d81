"""Under which conditions a statement is reached, as one expression that parses to just that.

Counted are the tests around a statement within its function: of ``if`` (an ``else`` or ``elif``
adds that the tests before it fail), ``while``, the ternary, and ``match`` by value. Returns and
raises that come earlier are not counted, and neither are structural patterns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from inventory._syntax import dotted, shown
from patcher.source import Source

Part = tuple[str, bool]
"""A condition's text, and whether it needs parentheses as an operand of ``and``."""

_OPPOSITE: dict[type[ast.cmpop], str] = {
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Eq: "!=",
    ast.NotEq: "==",
}
_LOOSE = (ast.IfExp, ast.Lambda)
_OPERANDS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)
_LISTS = (ast.Tuple, ast.List, ast.Set, ast.JoinedStr)
_ENDS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def reached_when(source: Source, node: ast.AST, *, earlier: bool = True) -> str:
    """The whole condition, outermost test first; empty where there is none.

    Without ``earlier``, the tests of branches before the one taken are left out.
    """
    return _all_of(_tests(source, node, earlier))


def condition(source: Source, node: ast.expr) -> str:
    """One test on one line, meaning what it means in the source."""
    return _holds(source, node)[0]


def _all_of(parts: Iterable[Part]) -> str:
    different = dict(parts)
    if len(different) < 2:
        return next(iter(different), "")
    return " and ".join(f"({text})" if loose else text for text, loose in different.items())


def _tests(source: Source, node: ast.AST, earlier: bool) -> list[Part]:
    found: list[Part] = []
    inner, taken = node, None
    for around in source.ancestors(node):
        if isinstance(around, _ENDS):
            break
        if isinstance(around, ast.If | ast.While | ast.IfExp):
            if _within(inner, around.body):
                taken = around.test
                if not isinstance(taken, ast.Constant):
                    found.append(_holds(source, taken))
            elif _within(inner, around.orelse):
                if not (isinstance(inner, ast.If) and around.orelse == [inner]):
                    taken = None
                if earlier and not (taken and _excludes(taken, around.test)):
                    found.append(_fails(source, around.test))
        elif isinstance(around, ast.match_case) and inner in around.body:
            found += reversed(list(_matched(source, around, earlier)))
        inner = around
    return found[::-1]


def _within(node: ast.AST, place: list[ast.stmt] | ast.expr) -> bool:
    return node in place if isinstance(place, list) else node is place


def _holds(source: Source, node: ast.expr) -> Part:
    text = _text(source, node)
    if isinstance(node, ast.NamedExpr):
        return f"({text})", False
    return text, isinstance(node, _LOOSE) or (
        isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)
    )


def _fails(source: Source, node: ast.expr) -> Part:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _holds(source, node.operand)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        word = _OPPOSITE.get(type(node.ops[0]))
        if word:
            left, right = (_operand(source, n) for n in (node.left, node.comparators[0]))
            return f"{left} {word} {right}", False
    return f"not {_operand(source, node)}", False


def _operand(source: Source, node: ast.expr) -> str:
    text = _text(source, node)
    return text if isinstance(node, (*_OPERANDS, *_LISTS)) else f"({text})"


def _text(source: Source, node: ast.expr) -> str:
    """The source on one line, or Python's own spelling where white space in it means something."""
    text = shown(source, node)
    return text if text == source.text(node) or _means(text, node) else ast.unparse(node)


def _means(text: str, node: ast.expr) -> bool:
    try:
        return ast.dump(ast.parse(f"({text})", mode="eval").body) == ast.dump(node)
    except SyntaxError:
        return False


# ------------------------------------------------------------------ tests that exclude


def _excludes(taken: ast.expr, other: ast.expr) -> bool:
    """Whether ``other`` cannot hold where ``taken`` does: one name, compared with other values."""
    return any(
        name == other_name and values.isdisjoint(other_values)
        for name, values in _compared(taken)
        for other_name, other_values in _compared(other)
    )


def _compared(test: ast.expr) -> Iterator[tuple[str, frozenset[object]]]:
    both = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
    for part in test.values if both and isinstance(test, ast.BoolOp) else [test]:
        if not isinstance(part, ast.Compare) or len(part.ops) != 1 or not dotted(part.left):
            continue
        (op,), (right,) = part.ops, part.comparators
        items = [right] if isinstance(op, ast.Eq | ast.Is) else []
        if isinstance(op, ast.In) and isinstance(right, ast.Tuple | ast.List | ast.Set):
            items = right.elts
        constants = frozenset(i.value for i in items if isinstance(i, ast.Constant))
        if items and len(constants) == len(items):
            yield dotted(part.left), constants


# ------------------------------------------------------------------------------- match


def _matched(source: Source, case: ast.match_case, earlier: bool) -> Iterator[Part]:
    match = source.parent(case)
    assert isinstance(match, ast.Match)
    test = _as_test(match.subject, case.pattern)
    if test is not None:
        yield ast.unparse(test), False
    elif isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and earlier:
        for before in match.cases[: match.cases.index(case)]:
            test = None if before.guard else _as_test(match.subject, before.pattern)
            if test is not None:
                word = _OPPOSITE[type(test.ops[0])]
                yield f"{ast.unparse(test.left)} {word} {ast.unparse(test.comparators[0])}", False
    if case.guard is not None:
        yield _holds(source, case.guard)


def _as_test(subject: ast.expr, pattern: ast.pattern) -> ast.Compare | None:
    """A pattern of values as a comparison."""
    if isinstance(pattern, ast.MatchValue):
        return ast.Compare(subject, [ast.Eq()], [pattern.value])
    if isinstance(pattern, ast.MatchSingleton):
        return ast.Compare(subject, [ast.Is()], [ast.Constant(pattern.value)])
    if isinstance(pattern, ast.MatchOr):
        values = [p.value for p in pattern.patterns if isinstance(p, ast.MatchValue)]
        if len(values) == len(pattern.patterns):
            return ast.Compare(subject, [ast.In()], [ast.Tuple(list[ast.expr](values), ast.Load())])
    return None
