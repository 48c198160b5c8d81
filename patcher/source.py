"""One Python source file as bytes, with its syntax tree and the places in it.

Everything here works on bytes: SGLang ships files with a byte-order mark and with CRLF line ends,
and both must survive an edit untouched. ``ast`` tells where things are (its column offsets are
UTF-8 byte offsets); LibCST re-writes the one region that an edit changes (``patcher.edits``).
"""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property

from patcher.model import Site

_LINE_END = re.compile(rb"\r\n|\r|\n")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

ScopeNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Unreadable(Exception):
    """A file that cannot be read as Python; ``reason`` is a short sentence for the report."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class Source:
    """A Python file: its bytes, its tree, and where in the bytes each node stands.

    Parsing happens on first use and raises :class:`Unreadable`; the bytes are never changed.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data

    @property
    def bom(self) -> bool:
        """Whether the file begins with a UTF-8 byte-order mark."""
        return self.data.startswith(codecs.BOM_UTF8)

    @cached_property
    def newline(self) -> bytes:
        r"""The line end of the first line (``\n``, ``\r\n`` or ``\r``); ``\n`` if there is none."""
        found = _LINE_END.search(self.data)
        return found.group() if found else b"\n"

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed module. Raises :class:`Unreadable` for anything Python would refuse."""
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(self.data).readline)
            if encoding not in ("utf-8", "utf-8-sig"):
                raise Unreadable(self.path, f"encoded as {encoding}, not UTF-8")
            with warnings.catch_warnings():  # its invalid escapes are not ours to report
                warnings.simplefilter("ignore")
                tree = ast.parse(self.data)
            self.data.decode()  # comments too: Python does not look at them
            return tree
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            reason = f"line {line}: byte {self.data[error.start]:#x} is not UTF-8"
            raise Unreadable(self.path, reason) from error
        except SyntaxError as error:
            where = f"line {error.lineno}: " if error.lineno else ""
            raise Unreadable(self.path, f"{where}{error.msg}") from error
        except (ValueError, RecursionError, MemoryError) as error:
            raise Unreadable(self.path, str(error) or type(error).__name__) from error

    @cached_property
    def _line_starts(self) -> list[int]:
        first = len(codecs.BOM_UTF8) if self.bom else 0
        return [first, *(m.end() for m in _LINE_END.finditer(self.data))]

    @cached_property
    def _index(self) -> tuple[dict[type[ast.AST], list[ast.AST]], dict[ast.AST, ast.AST]]:
        by_type: dict[type[ast.AST], list[ast.AST]] = {}
        parent: dict[ast.AST, ast.AST] = {}
        stack: list[ast.AST] = [self.tree]
        while stack:
            node = stack.pop()
            kind = type(node)
            if kind in by_type:
                by_type[kind].append(node)
            else:
                by_type[kind] = [node]
            children: list[ast.AST] = []
            for name in _CHILD_FIELDS[kind]:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    children += [v for v in value if isinstance(v, ast.AST)]
                elif isinstance(value, ast.AST):
                    children.append(value)
            for child in children:
                parent[child] = node
            children.reverse()
            stack += children
        return by_type, parent

    def nodes(self, *types: type[ast.AST]) -> Iterator[ast.AST]:
        """All nodes of the given types, type by type, each in document order.

        Operators and contexts (``ast.Add``, ``ast.Load``) are shared objects and not among them.
        """
        for kind in types:
            yield from self._index[0].get(kind, ())

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that holds ``node``, or None for the module."""
        return self._index[1].get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around ``node``, innermost first."""
        current = self.parent(node)
        while current is not None:
            yield current
            current = self.parent(current)

    def scope_of(self, node: ast.AST) -> str:
        """Qualified name of the nearest class or function around ``node``, without the node."""
        names = [a.name for a in self.ancestors(node) if isinstance(a, _SCOPES)]
        return ".".join(reversed(names))

    @cached_property
    def scopes(self) -> dict[str, ScopeNode]:
        """Qualified name of every class and function to its node; the last definition wins."""
        found: dict[str, ScopeNode] = {}
        for node in self.nodes(*_SCOPES):
            assert isinstance(node, _SCOPES)
            outer = self.scope_of(node)
            found[f"{outer}.{node.name}" if outer else node.name] = node
        return found

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds ``node`` (or is it)."""
        if isinstance(node, ast.stmt):
            return node
        for around in self.ancestors(node):
            if isinstance(around, ast.stmt):
                return around
        raise ValueError(f"{self.path}: a {type(node).__name__} outside any statement")

    # ---------------------------------------------------------------- places

    def offset(self, line: int, column: int) -> int:
        """Byte offset of ``ast``'s line (from 1) and column (UTF-8 bytes, from 0)."""
        return self._line_starts[line - 1] + column

    def line_start(self, line: int) -> int:
        """Byte offset where a line (from 1) begins; the file's length past the last line."""
        starts = self._line_starts
        return starts[line - 1] if line <= len(starts) else len(self.data)

    def line_at(self, offset: int) -> int:
        """The line (from 1) that holds a byte offset."""
        return max(1, bisect_right(self._line_starts, offset))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Byte range of a node; decorators, with their ``@``, belong to what they decorate."""
        first = first_node(node)
        start = self.offset(first.lineno, first.col_offset)
        if first is not node:
            start = self.data.rindex(b"@", 0, start)
        end_line, end_column = _end(node)
        return start, self.offset(end_line, end_column)

    def text(self, node: ast.AST) -> str:
        """The node's own source text."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def site(self, node: ast.AST, scope: str | None = None) -> Site:
        """Where a node stands; ``scope`` overrides the qualified name that is looked up."""
        line, column = _start(node)
        start = self._line_starts[line - 1]
        return Site(
            path=self.path,
            line=line,
            column=len(self.data[start : start + column].decode(errors="replace")) + 1,
            end_line=_end(node)[0],
            scope=self.scope_of(node) if scope is None else scope,
        )

    def site_at(self, start: int, end: int) -> Site:
        """Where a byte range stands, without a scope."""
        line = self.line_at(start)
        column = len(self.data[self.line_start(line) : start].decode(errors="replace")) + 1
        return Site(self.path, line, column, self.line_at(max(start, end - 1)))

    def lines(self, first: int, last: int) -> bytes:
        """The bytes of lines ``first`` to ``last`` (from 1, both included), line ends too."""
        return self.data[self.line_start(first) : self.line_start(last + 1)]

    def indent(self, node: ast.AST) -> bytes:
        """The white space in front of the line on which a node starts, after any form feed."""
        first = first_node(node)
        line = self.lines(first.lineno, first.lineno)
        return line[: len(line) - len(line.lstrip(b" \t\f"))].rpartition(b"\f")[2]

    def begins_line(self, node: ast.AST) -> bool:
        """Whether a node is the first code on its line, and that line continues no other."""
        first = first_node(node)
        start = self.line_start(first.lineno)
        if self.data[start : self.span(node)[0]].strip():
            return False
        above = self.lines(first.lineno - 1, first.lineno - 1) if first.lineno > 1 else b""
        if not above.rstrip(b"\r\n").endswith(b"\\"):
            return True
        try:
            tokens = list(tokenize.tokenize(io.BytesIO(above.lstrip()).readline))
        except (SyntaxError, tokenize.TokenError):
            return False
        return any(t.type == tokenize.COMMENT for t in tokens)


_PLAIN = ("id", "attr", "arg", "ctx", "op", "ops", "kind", "type_comment", "module")

_CHILD_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    kind: ()
    if issubclass(kind, ast.Name | ast.Constant)
    else tuple(field for field in kind._fields if field not in _PLAIN)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"""Fields of a node type that can hold nodes with a place of their own."""


def first_node(node: ast.AST) -> ast.expr | ast.stmt:
    """The node at which another one begins: its first decorator, or itself."""
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    if decorators:
        return decorators[0]
    assert hasattr(node, "lineno"), type(node).__name__
    return node  # type: ignore[return-value]


def _start(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _end(node: ast.AST) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
