"""Rewrite one statement with LibCST, so that layout, comments and commas come out right.

Only the smallest run of whole lines around a node is parsed and written again: a concrete tree of
a 7,500-line file costs half a second, of one call almost nothing, and what lies outside the run
cannot change. LibCST must give the run back byte for byte before it may be edited, and what it
makes of it must be proven (:mod:`patcher.edits.proof`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from patcher.changes import Conflict, Splice
from patcher.edits.lines import standing_alone
from patcher.edits.proof import flaw, refused
from patcher.source import Source, first_node

_HEADER = b"if 1:"
_NEXT = "use an edit that inserts whole statements here"
_KINDS: dict[type[ast.AST], type[cst.CSTNode]] = {
    ast.Call: cst.Call,
    ast.List: cst.List,
    ast.Tuple: cst.Tuple,
    ast.Set: cst.Set,
    ast.ImportFrom: cst.ImportFrom,
}

Place = tuple[int, int]


def rewrite(
    source: Source,
    node: ast.expr | ast.stmt,
    change: Callable[[cst.CSTNode], cst.CSTNode],
    meant: ast.expr | ast.stmt,
) -> Splice:
    """Replace ``node`` by what ``change`` makes of its LibCST counterpart.

    The result must be read as ``meant`` in the place of ``node``, all else as it was, with every
    comment where it was. Raises Conflict where it is not, and where LibCST cannot read the lines.
    """
    around = standing_alone(source, node)
    first = first_node(around[0]).lineno
    old = source.lines(first, around[-1].end_lineno or first)
    try:
        new = _rewritten(source, node, around, change)
    except Conflict:
        raise
    except Exception as error:
        reason = f"LibCST cannot rewrite these lines ({type(error).__name__})"
        raise refused(source, around[0], reason, _NEXT) from error
    one = _narrow(source, source.line_start(first), old, new)
    if problem := flaw(source, around, one, around, {node: meant}, comments=True):
        raise refused(source, around[0], problem, _NEXT)
    return one


def _rewritten(
    source: Source,
    node: ast.expr | ast.stmt,
    around: Sequence[ast.stmt],
    change: Callable[[cst.CSTNode], cst.CSTNode],
) -> bytes:
    first = first_node(around[0]).lineno
    nested = bool(source.indent(around[0]))
    header = _HEADER + source.newline if nested else b""
    text = header + source.lines(first, around[-1].end_lineno or first)
    module = cst.parse_module(text)
    if module.bytes != text:
        reason = "LibCST does not give these lines back unchanged"
        raise refused(source, around[0], reason, _NEXT)
    target = _find(source, node, module, first - 1 - int(nested))
    if target is None:
        raise refused(source, around[0], "LibCST has no such node there", _NEXT)
    changed = module.deep_replace(target, change(target))
    assert isinstance(changed, cst.Module)
    return changed.bytes.removeprefix(header)


def _find(
    source: Source, node: ast.expr | ast.stmt, module: cst.Module, lines_before: int
) -> cst.CSTNode | None:
    """The outermost LibCST node of the same kind within the span of ``node``.

    Brackets belong to a tuple in ``ast`` and to its surroundings in LibCST, so that the spans of
    the two need not be equal; nothing else of that kind can lie further out within the span.
    """
    kind = _KINDS[type(node)]
    start = (node.lineno - lines_before, _characters(source, node.lineno, node.col_offset))
    end_line = node.end_lineno or node.lineno
    end = (end_line - lines_before, _characters(source, end_line, node.end_col_offset or 0))
    found: list[tuple[Place, Place, cst.CSTNode]] = []
    positions = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    for candidate, where in positions.items():
        if isinstance(candidate, kind):
            assert isinstance(where, CodeRange)
            begins = (where.start.line, where.start.column)
            ends = (where.end.line, where.end.column)
            if start <= begins and ends <= end:
                found.append((begins, (-ends[0], -ends[1]), candidate))
    return min(found, key=lambda one: one[:2])[2] if found else None


def _characters(source: Source, line: int, column: int) -> int:
    start = source.line_start(line)
    return len(source.data[start : start + column].decode())


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
