"""How a name is used where it may decide: compared, looked up, listed, offered, handed on."""

from __future__ import annotations

import ast
import re

from inventory._syntax import last_name, shown
from patcher.source import Source

ALGORITHMIC = re.compile(r"spec|algo|draft", re.IGNORECASE)
LITERAL = ast.Tuple | ast.List | ast.Set
COPIES = ("frozenset", "set", "tuple")
_TESTS_TEXT = ("startswith", "endswith", "removeprefix", "count", "find", "__eq__", "__contains__")


def use(source: Source, node: ast.expr) -> tuple[str, str]:
    """How a member or name is used, and the text of what it is held against."""
    around = source.parent(node)
    listed: ast.AST = node
    if isinstance(around, LITERAL):
        listed, around = around, source.parent(around)
        if isinstance(around, ast.Call) and last_name(around) in COPIES:
            listed, around = around, source.parent(around)
    if isinstance(around, ast.Compare):
        sides = [around.left, *around.comparators]
        others = " , ".join(shown(source, side) for side in sides if side is not listed)
        within = any(isinstance(op, ast.In | ast.NotIn) for op in around.ops)
        return ("membership" if within else "comparison"), others
    if isinstance(around, ast.MatchValue):
        return "comparison", matched(source, around)
    if isinstance(around, ast.Call) and _tests_text(around) and listed in around.args:
        assert isinstance(around.func, ast.Attribute)
        return "comparison", shown(source, around.func.value)
    if isinstance(around, ast.keyword) and around.arg == "choices":
        return "choices", _option(source, around)
    if isinstance(around, ast.Dict) and listed in around.keys:
        return "mapping", _target(source, around)
    if isinstance(around, ast.Subscript) and around.slice is listed:
        return "mapping", shown(source, around.value)
    if listed is not node:
        return "collection", _target(source, listed)
    return _given(source, node, around)


def _given(source: Source, node: ast.expr, around: ast.AST | None) -> tuple[str, str]:
    """A member or name that is handed on: to a call or a name that speaks of algorithms."""
    if isinstance(around, ast.keyword) and ALGORITHMIC.search(around.arg or ""):
        return "assignment", str(around.arg)
    if isinstance(around, ast.Call) and ALGORITHMIC.search(last_name(around)):
        return "argument", shown(source, around.func)
    if isinstance(around, ast.Assign | ast.AnnAssign):
        target = _target(source, node)
        if ALGORITHMIC.search(target):
            return "assignment", target
    return "reference", ""


def matched(source: Source, node: ast.AST) -> str:
    for around in source.ancestors(node):
        if isinstance(around, ast.Match):
            return shown(source, around.subject)
    return ""


def _option(source: Source, node: ast.AST) -> str:
    call = source.parent(node)
    first = call.args[0] if isinstance(call, ast.Call) and call.args else None
    return str(first.value) if isinstance(first, ast.Constant) else shown(source, first)


def _target(source: Source, node: ast.AST) -> str:
    """The name that a collection is given to."""
    statement = source.statement(node)
    if isinstance(statement, ast.Assign):
        return shown(source, statement.targets[0])
    return shown(source, statement.target) if isinstance(statement, ast.AnnAssign) else ""


def _tests_text(call: ast.Call) -> bool:
    """Whether a call asks a string for what it is, or has within it."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in _TESTS_TEXT
