"""Cheap tests that every node which matches a pattern passes.

Most nodes of a file match nothing; one look at a name or at a type spares them the real comparison
in :mod:`patcher.matching`. Guards change no answer, only how soon it is no.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import takewhile
from operator import eq, le
from typing import Any

from patcher.matching import IGNORED, MANY, ONE, metavariable

Steps = tuple[str | int, ...]
"""Fields and indices that lead from a node to a part of it."""

Guard = tuple[Callable[[Any], Any], Callable[[Any], object]]
"""Reads a part of a node, and tests it."""


def guards_of(pattern: ast.AST, at: Steps, where: Mapping[str, str]) -> Iterator[Guard]:
    """What a pattern's names and node types ask of a node; outermost first."""
    for name in pattern._fields:
        value = getattr(pattern, name, None)
        if name in IGNORED or isinstance(value, ast.arguments):
            continue
        here = (*at, name)
        if isinstance(value, list):
            first = list(takewhile(_is_one, value))
            if first:
                enough = eq if len(first) == len(value) else le
                yield partial(_reach, here), partial(_has, enough, len(first))
            for index, item in enumerate(first):
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


def _has(enough: Callable[[int, int], bool], number: int, items: list[object]) -> bool:
    return enough(number, len(items))


def _may_read(rx: re.Pattern[str], node: object) -> bool:
    """Whether a node's text can match; only a plain name's is known without looking."""
    return not isinstance(node, ast.Name) or rx.fullmatch(node.id) is not None


def _is_a(kind: type[ast.AST], node: object) -> bool:
    return type(node) is kind
