"""How the nodes of a pattern are held against the nodes of a file.

A pattern is an ordinary syntax tree in which some names are metavariables; :mod:`patcher.pattern`
compiles the text into one. Cheap guards come first, since most nodes match nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import eq
from typing import Any

Bindings = dict[str, Any]
"""Metavariable name to what it matched: a node, a list of nodes, or a plain identifier."""

Steps = tuple[str | int, ...]
"""Fields and indices that lead from a node to a part of it."""

Guard = tuple[Callable[[Any], Any], Callable[[Any], object]]
"""Reads a part of a node, and tests it."""

ONE, MANY = "__ddp_one_", "__ddp_many_"

_OPEN_IF_ABSENT: dict[type[ast.AST], tuple[str, ...]] = {
    ast.FunctionDef: ("decorator_list", "returns"),
    ast.AsyncFunctionDef: ("decorator_list", "returns"),
    ast.ClassDef: ("decorator_list", "bases", "keywords"),
    ast.If: ("orelse",),
    ast.For: ("orelse",),
    ast.While: ("orelse",),
    ast.AnnAssign: ("value",),
}
_IGNORED = ("ctx", "type_comment", "type_params", "kind", "simple", "lineno", "col_offset")


def metavariable(node: object, prefix: str) -> str | None:
    """The metavariable that a pattern node is, or None. Statements hold it as an expression."""
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.Starred):
        node = node.value
    text = node
    if isinstance(node, ast.Name):
        text = node.id
    elif isinstance(node, ast.arg):
        text = node.arg
    elif isinstance(node, ast.alias) and node.asname is None:
        text = node.name
    if isinstance(text, str) and text.startswith(prefix):
        return text.removeprefix(prefix)
    return None


# ----------------------------------------------------------------------- guards


def guards_of(pattern: ast.AST, at: Steps, where: Mapping[str, str]) -> Iterator[Guard]:
    """What a pattern's names and node types ask of a node; outermost first."""
    for name in pattern._fields:
        value = getattr(pattern, name, None)
        if name in _IGNORED or isinstance(value, ast.arguments):
            continue
        here = (*at, name)
        if isinstance(value, list) and value and all(map(_is_one, value)):
            yield partial(_reach, here), partial(_has_length, len(value))
            for index, item in enumerate(value):
                yield from _guards_at(item, (*here, index), where)
        elif isinstance(value, str) and isinstance(pattern, ast.Constant | ast.Name):
            yield partial(_reach, here), partial(eq, value)
        elif isinstance(value, str) and value.startswith(ONE):
            if (rx := where.get(value.removeprefix(ONE))) is not None:
                yield partial(_reach, here), re.compile(rx, re.DOTALL).fullmatch
        elif isinstance(value, str) and not value.startswith(MANY):
            yield partial(_reach, here), partial(eq, value)
        elif isinstance(value, ast.expr):
            yield from _guards_at(value, here, where)


def _guards_at(value: ast.expr, at: Steps, where: Mapping[str, str]) -> Iterator[Guard]:
    if (name := metavariable(value, ONE)) is not None:
        if name in where:
            rx = re.compile(where[name], re.DOTALL)
            yield partial(_reach, at), partial(_may_read, rx)
    elif metavariable(value, MANY) is None:
        yield partial(_reach, at), partial(_is_a, type(value))
        yield from guards_of(value, at, where)


def _reach(steps: Steps, node: Any) -> Any:
    for step in steps:
        node = node[step] if isinstance(step, int) else getattr(node, step)
    return node


def _is_one(item: object) -> bool:
    return isinstance(item, ast.expr) and metavariable(item, MANY) is None


def _has_length(number: int, items: list[object]) -> bool:
    return len(items) == number


def _may_read(rx: re.Pattern[str], node: object) -> bool:
    """Whether a node's text can match; only a plain name's is known without looking."""
    return not isinstance(node, ast.Name) or rx.fullmatch(node.id) is not None


def _is_a(kind: type[ast.AST], node: object) -> bool:
    return type(node) is kind


# --------------------------------------------------------------------- matching


def match_node(pattern: Any, node: Any, bound: Bindings) -> Iterator[Bindings]:
    """All ways in which a pattern node matches a node, as extended bindings."""
    name = metavariable(pattern, ONE)
    if name is not None:
        if isinstance(node, ast.keyword):
            return
        expression = isinstance(pattern, ast.Expr) and isinstance(node, ast.Expr)
        yield from _bind(name, node.value if expression else node, bound)
        return
    if isinstance(pattern, ast.Expr) and not isinstance(node, ast.Expr):
        return
    if isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
        yield from _call(pattern, node, bound)
        return
    if isinstance(pattern, ast.arguments) and isinstance(node, ast.arguments):
        yield from match_sequence(_parameters(pattern), _parameters(node), bound)
        return
    if isinstance(pattern, ast.AST):
        if type(pattern) is not type(node):
            return
        open_fields = _OPEN_IF_ABSENT.get(type(pattern), ())
        names = [
            f
            for f in pattern._fields
            if f not in _IGNORED and not (f in open_fields and not getattr(pattern, f, None))
        ]
        yield from _fields(pattern, node, names, bound)
        return
    if isinstance(pattern, list):
        if isinstance(node, list):
            yield from match_sequence(pattern, node, bound)
        return
    if pattern == node and type(pattern) is type(node):
        yield bound


def _fields(
    pattern: ast.AST, node: ast.AST, names: list[str], bound: Bindings
) -> Iterator[Bindings]:
    if not names:
        yield bound
        return
    if names[0] in ("orelse", "finalbody") and not getattr(node, names[0]):
        if not getattr(pattern, names[0]):
            yield from _fields(pattern, node, names[1:], bound)
        return
    for step in match_node(getattr(pattern, names[0], None), getattr(node, names[0], None), bound):
        yield from _fields(pattern, node, names[1:], step)


def match_sequence(
    patterns: Sequence[Any], nodes: Sequence[Any], bound: Bindings
) -> Iterator[Bindings]:
    """All ways in which a sequence matches another; a ``$...`` takes the fewest first."""
    if not patterns:
        if not nodes:
            yield bound
        return
    name = metavariable(patterns[0], MANY)
    if name is None and isinstance(patterns[0], _Parameter):
        name = metavariable(patterns[0].arg, MANY)
    if name is not None:
        for taken in range(len(nodes) + 1):
            for step in _bind(name, list(nodes[:taken]), bound):
                yield from match_sequence(patterns[1:], nodes[taken:], step)
        return
    if not nodes:
        return
    for step in _one(patterns[0], nodes[0], bound):
        yield from match_sequence(patterns[1:], nodes[1:], step)


def _one(pattern: Any, node: Any, bound: Bindings) -> Iterator[Bindings]:
    if isinstance(pattern, _Parameter):
        assert isinstance(node, _Parameter)
        yield from pattern.match(node, bound)
    else:
        yield from match_node(pattern, node, bound)


def _call(pattern: ast.Call, node: ast.Call, bound: Bindings) -> Iterator[Bindings]:
    """Positional arguments in order, keywords in any; a last ``$...`` takes the rest of both."""
    open_end = bool(pattern.args) and metavariable(pattern.args[-1], MANY) is not None
    for step in match_node(pattern.func, node.func, bound):
        for after, left in _keywords(pattern.keywords, node.keywords, step):
            if open_end or not left:
                yield from match_sequence(pattern.args, [*node.args, *left], after)


def _keywords(
    patterns: Sequence[ast.keyword], nodes: Sequence[ast.keyword], bound: Bindings
) -> Iterator[tuple[Bindings, list[ast.keyword]]]:
    """All ways to find the wanted keywords, each with those that are left over."""
    if not patterns:
        yield bound, list(nodes)
        return
    for index, node in enumerate(nodes):
        for named in match_node(patterns[0].arg, node.arg, bound):
            for step in match_node(patterns[0].value, node.value, named):
                others = [*nodes[:index], *nodes[index + 1 :]]
                yield from _keywords(patterns[1:], others, step)


@dataclass(frozen=True)
class _Parameter:
    """One parameter of a function: how it is passed, its name and annotation, its default."""

    kind: str
    arg: ast.arg
    default: ast.expr | None

    def match(self, node: _Parameter, bound: Bindings) -> Iterator[Bindings]:
        if self.kind != node.kind:
            return
        for step in match_node(self.arg.arg, node.arg.arg, bound):
            for noted in (
                match_node(self.arg.annotation, node.arg.annotation, step)
                if self.arg.annotation
                else iter([step])
            ):
                yield from (
                    match_node(self.default, node.default, noted) if self.default else iter([noted])
                )


def _parameters(arguments: ast.arguments) -> list[_Parameter]:
    plain = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    found = [
        _Parameter("plain", a, d)
        for a, d in zip(plain, [*missing, *arguments.defaults], strict=True)
    ]
    if arguments.vararg:
        found.append(_Parameter("*", arguments.vararg, None))
    found += [
        _Parameter("keyword", a, d)
        for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        found.append(_Parameter("**", arguments.kwarg, None))
    return found


def _bind(name: str, value: Any, bound: Bindings) -> Iterator[Bindings]:
    if value is None:
        return
    if re.fullmatch(r"_\d+", name):
        yield bound
        return
    if name in bound:
        if _same(bound[name], value):
            yield bound
        return
    yield {**bound, name: value}


def _same(left: Any, right: Any) -> bool:
    return _dump(left) == _dump(right)


def _dump(value: Any) -> str:
    if isinstance(value, ast.Name):
        return value.id  # so that a parameter and its use in the body are the same
    if isinstance(value, ast.AST):
        return re.sub(r", ctx=\w+\(\)|ctx=\w+\(\)", "", ast.dump(value))
    if isinstance(value, _Parameter):
        return f"{value.kind}{_dump(value.arg)}"
    if isinstance(value, list):
        return ",".join(_dump(v) for v in value)
    return str(value)
