"""Rewrite one statement with LibCST, so that layout, comments and commas come out right.

Only the smallest run of whole lines around a node is parsed and written again: a concrete tree of
a 7,500-line file costs half a second, of one call almost nothing, and what lies outside the run
cannot change. LibCST must give the run back byte for byte before it may be edited.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from patcher.changes import Conflict, Splice
from patcher.model import Finding
from patcher.source import Source, first_node

_HEADER = b"if 1:"


def rewrite(
    source: Source, node: ast.expr | ast.stmt, change: Callable[[cst.CSTNode], cst.CSTNode]
) -> Splice:
    """Replace ``node`` by what ``change`` makes of its LibCST counterpart.

    Raises Conflict where LibCST cannot read the lines back, or does not know the node.
    """
    around = _region(source, node)
    first = first_node(around).lineno
    last = around.end_lineno or first
    old = source.lines(first, last)
    nested = bool(source.indent(around))
    text = (_HEADER + source.newline if nested else b"") + old
    module = cst.parse_module(text)
    if module.bytes != text:
        raise Conflict(_refused(source, around, "LibCST does not give these lines back unchanged"))
    target = _find(source, node, module, first - 1 - int(nested))
    if target is None:
        raise Conflict(_refused(source, around, "LibCST has no such node there"))
    changed = module.deep_replace(target, change(target))
    assert isinstance(changed, cst.Module)
    new = changed.bytes
    if nested:
        new = new.removeprefix(_HEADER + source.newline)
    _check(source, around, new)
    return _narrow(source, source.line_start(first), old, new)


def _region(source: Source, node: ast.AST) -> ast.stmt:
    """The smallest statement around ``node`` that can be parsed alone."""
    statement = source.statement(node)
    while True:
        start, end = source.span(statement)
        line = first_node(statement).lineno
        head = source.data[source.line_start(line) : start]
        last = (statement.end_lineno or line) + 1
        tail = source.data[end : source.line_start(last)].split(b"#")[0]
        is_elif = isinstance(statement, ast.If) and source.data[start:].startswith(b"elif")
        if not head.strip() and not tail.strip() and not is_elif:
            return statement
        parent = source.parent(statement)
        while parent is not None and not isinstance(parent, ast.stmt):
            parent = source.parent(parent)
        if parent is None:
            raise Conflict(_refused(source, statement, "it shares its line with other code"))
        statement = parent


def _find(
    source: Source, node: ast.expr | ast.stmt, module: cst.Module, lines_before: int
) -> cst.CSTNode | None:
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    start = (node.lineno - lines_before, _characters(source, node.lineno, node.col_offset))
    end_line = node.end_lineno or node.lineno
    end = (end_line - lines_before, _characters(source, end_line, node.end_col_offset or 0))
    wanted = cst.BaseExpression if isinstance(node, ast.expr) else cst.CSTNode
    for candidate, where in positions.items():
        assert isinstance(where, CodeRange)
        if isinstance(node, ast.Tuple) and node.elts:
            # brackets belong to a tuple in ast, and to its surroundings in LibCST
            first = node.elts[0]
            begin = (
                first.lineno - lines_before,
                _characters(source, first.lineno, first.col_offset),
            )
            if (
                isinstance(candidate, cst.Tuple)
                and (where.start.line, where.start.column) == begin
                and len(candidate.elements) == len(node.elts)
            ):
                return candidate
            continue
        here = ((where.start.line, where.start.column), (where.end.line, where.end.column))
        if here == (start, end) and isinstance(candidate, wanted):
            return candidate
    return None


def _characters(source: Source, line: int, column: int) -> int:
    start = source.line_start(line)
    return len(source.data[start : start + column].decode())


def _check(source: Source, around: ast.stmt, new: bytes) -> None:
    try:
        ast.parse(textwrap.dedent(new.decode()))
    except SyntaxError as error:
        raise Conflict(
            _refused(source, around, f"the result is not Python: {error.msg}")
        ) from error


def _narrow(source: Source, start: int, old: bytes, new: bytes) -> Splice:
    """Leave out of the splice the whole lines that both versions begin and end with."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    skipped = sum(map(len, before[:head]))
    end = len(old) - sum(map(len, before[len(before) - tail :]))
    data = b"".join(after[head : len(after) - tail])
    return Splice(source.path, start + skipped, start + end, data)


def _refused(source: Source, around: ast.stmt, reason: str) -> Finding:
    site = source.site(around)
    return Finding(
        code="edit.region",
        message=f"{site}: {reason}",
        site=site,
        expected="lines that can be parsed and written back byte for byte",
        found=source.lines(site.line, site.line).decode(errors="replace").strip(),
        next_step="use an edit that inserts whole statements here",
    )
