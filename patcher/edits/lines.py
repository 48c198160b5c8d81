"""Where new lines can stand: beside a statement, below its comments, never inside a string."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patcher.changes import Conflict, Splice
from patcher.edits.proof import refused
from patcher.model import Finding
from patcher.source import Source, first_node


def on_lines_of(source: Source, statement: ast.stmt) -> Sequence[ast.stmt]:
    """A statement, with those of its block that share a line with it or with each other."""
    block, index = siblings(source, statement)
    first = last = index
    while first and (block[first - 1].end_lineno or 0) >= first_node(block[first]).lineno:
        first -= 1
    end = len(block) - 1
    while last < end and first_node(block[last + 1]).lineno <= (block[last].end_lineno or 0):
        last += 1
    return block[first : last + 1]


def not_alone(source: Source, group: Sequence[ast.stmt]) -> str:
    """Why statements do not stand on logical lines of their own; empty if they do."""
    start, end = source.span(group[0])[0], source.span(group[-1])[1]
    last = (group[-1].end_lineno or group[-1].lineno) + 1
    tail = source.data[end : source.line_start(last)].lstrip(b" \t;")
    if not source.begins_line(group[0]) or tail.split(b"#")[0].strip():
        return "shares its line with other code"
    if isinstance(group[0], ast.If) and source.data[start:].startswith(b"elif"):
        return "is an `elif`: a branch of the `if` before it"
    return ""


def standing_alone(source: Source, node: ast.AST) -> Sequence[ast.stmt]:
    """The fewest statements around ``node`` that stand on whole lines of their own."""
    group = on_lines_of(source, source.statement(node))
    while reason := not_alone(source, group):
        parent = next((a for a in source.ancestors(group[0]) if isinstance(a, ast.stmt)), None)
        if parent is None:
            raise refused(source, group[0], f"it {reason}")
        group = on_lines_of(source, parent)
    return group


def own_lines(source: Source, node: ast.AST, *, before: bool = False) -> ast.stmt:
    """The statement around ``node``, if new lines can stand after it, or ``before`` it.

    Raises Conflict for an ``elif`` (nothing can stand before one, and what stands after it is
    after the whole chain) and for a statement that shares its line with another there.
    """
    statement = source.statement(node)
    group = on_lines_of(source, statement)
    reason = not_alone(source, group)
    if not reason and statement is not group[0 if before else -1]:
        reason = "shares its line with other code"
    if not reason:
        return statement
    site = source.site(statement)
    raise Conflict(
        Finding(
            code="anchor.place",
            message=f"{site}: the anchored statement {reason}",
            site=site,
            expected="a statement on lines of its own",
            found=source.lines(site.line, site.line).decode().strip(),
            next_step="anchor on the statement around it",
        )
    )


def below(source: Source, statement: ast.stmt) -> int:
    """The line on which code after a statement begins.

    A comment that stands below a compound statement and further in than it still belongs to it: a
    note at the end of a function is not torn from the function.
    """
    line = (statement.end_lineno or statement.lineno) + 1
    if not hasattr(statement, "body"):
        return line
    margin = len(source.indent(statement).expandtabs())
    free = line
    while row := source.lines(free, free):
        text = row.strip()
        if text and (not text.startswith(b"#") or _margin(row) <= margin):
            break
        free += 1
        if text:
            line = free
    return line


def _margin(row: bytes) -> int:
    return len(row[: len(row) - len(row.lstrip(b" \t"))].expandtabs())


def above(source: Source, statement: ast.stmt) -> int:
    """The line of a statement, or the first one of the comments that stand directly above it."""
    line = first_node(statement).lineno
    mark = source.indent(statement) + b"#"
    floor = _end_before(source, statement)
    while line - 1 > floor and source.lines(line - 1, line - 1).startswith(mark):
        line -= 1
    return line


def _end_before(source: Source, statement: ast.stmt) -> int:
    """The last line of the code before a statement, in the statement that holds it or beside it."""
    parent = source.parent(statement)
    first = first_node(statement).lineno
    ends = [0]
    if isinstance(parent, ast.stmt | ast.ExceptHandler):
        ends.append(parent.lineno)
    todo: list[ast.AST] = [] if parent is None else list(ast.iter_child_nodes(parent))
    while todo:
        node = todo.pop()
        end = getattr(node, "end_lineno", None)
        if end is None:
            todo += ast.iter_child_nodes(node)
        elif end < first:
            ends.append(end)
    return max(ends)


def siblings(source: Source, statement: ast.stmt) -> tuple[Sequence[ast.stmt], int]:
    """The statements of the block that a statement stands in, and its place among them."""
    parent = source.parent(statement)
    for block in _blocks(parent):
        for index, one in enumerate(block):
            if one is statement:
                return block, index
    return [statement], 0


def _blocks(parent: ast.AST | None) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list):
            yield block


def insert_at(source: Source, offset: int, data: bytes) -> Splice:
    """A splice that only adds; a missing line end before it is added too."""
    if offset and offset == len(source.data) and source.data[-1:] not in (b"\n", b"\r"):
        data = source.newline + data
    return Splice(source.path, offset, offset, data)
