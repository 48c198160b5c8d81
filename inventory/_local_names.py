"""What a file's own names stand for: imports under another name, and values given to a variable.

A variable counts within the function (or module) that gives it its value, and in functions inside;
what is kept in an attribute or handed to another function is not followed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from inventory._syntax import Function, last_name
from patcher.source import Source

_T = TypeVar("_T")
_Place = tuple[ast.AST | None, str]


class LocalNames(Generic[_T]):
    """The names of one file; ``meaning`` says what a value stands for, None for all others.

    ``imported`` maps names to the ones before an import renamed them, ``given`` are the variables
    that stand for something somewhere.
    """

    def __init__(self, source: Source, meaning: Callable[[LocalNames[_T], ast.expr], _T | None]):
        self._source = source
        self.imported = dict(_imported(source))
        self._given: dict[_Place, list[_T]] = {}
        self.given: set[str] = set()
        for target, value in _assigned(source):
            meant = meaning(self, value)
            if meant is not None:
                self.given.add(target.id)
                self._given.setdefault((self._home(target), target.id), []).append(meant)

    def original(self, node: ast.AST) -> str:
        """The last name of an expression, as it was before an import renamed it."""
        name = last_name(node)
        return self.imported.get(name, name) if isinstance(node, ast.Name) else name

    def meant(self, node: ast.Name) -> list[_T]:
        """All that a variable stands for where it is used: in the nearest scope that gives it."""
        for around in (*self._source.ancestors(node), None):
            if around is None or isinstance(around, Function):
                found = self._given.get((around, node.id))
                if found:
                    return list(dict.fromkeys(found))
        return []

    def _home(self, node: ast.AST) -> ast.AST | None:
        return next((a for a in self._source.ancestors(node) if isinstance(a, Function)), None)


def _imported(source: Source) -> Iterator[tuple[str, str]]:
    for node in source.nodes(ast.ImportFrom):
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            if alias.asname and alias.asname != alias.name:
                yield alias.asname, alias.name


def _assigned(source: Source) -> Iterator[tuple[ast.Name, ast.expr]]:
    """Every variable that is given a value, with the value; ``a, b = x, y`` are two."""
    for node in source.nodes(ast.Assign, ast.AnnAssign, ast.NamedExpr):
        assert isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr)
        if node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name):
                yield target, node.value
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for one, value in zip(target.elts, node.value.elts, strict=False):
                    if isinstance(one, ast.Name):
                        yield one, value
