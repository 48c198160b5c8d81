"""The code that an edit brings, filled with what its anchor bound: as a tree, and as bytes.

Both come from the same template and neither from the other, so that one can prove the other: the
bytes are placed, read by Python, and must give the tree (:mod:`patcher.edits.proof`).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from patcher.matching import MANY, ONE, Parameter, parameters
from patcher.pattern import PLACEHOLDER, Match, PatternError, encoded, substitute


@dataclass(frozen=True)
class Filled:
    """A template and the match that fills it. Raises PatternError where it is not Python."""

    template: str
    match: Match

    @cached_property
    def _code(self) -> str:
        code = dedented(self.template)
        substitute(code, self.match)  # every metavariable must be bound
        return encoded(code)[0]

    def statements(self) -> list[ast.stmt]:
        """The statements that the template stands for."""
        body = self._tree(self._code).body
        if not body:
            raise PatternError(
                f"template {self.template!r} has no code", next_step="write whole statements"
            )
        return body

    def expression(self) -> ast.expr:
        """The expression that the template stands for; of ``*x``, the starred one."""
        tree = self._tree(f"[\n{self._code}\n]")
        (statement,) = tree.body
        assert isinstance(statement, ast.Expr)
        if not isinstance(statement.value, ast.List) or len(statement.value.elts) != 1:
            raise PatternError(
                f"template {self.template!r} is not one expression",
                next_step="write a single expression; a tuple needs its brackets",
            )
        return statement.value.elts[0]

    def _tree(self, code: str) -> ast.Module:
        starred = code.replace(MANY, f"*{MANY}")
        errors: list[Exception] = []
        for variant in (code, starred):
            try:
                filled = _Filler(self.match).visit(ast.parse(variant))
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                errors.append(error)
                continue
            assert isinstance(filled, ast.Module)
            return filled
        raise PatternError(
            f"template {self.template!r} is not Python: {errors[0]}",
            next_step="a template is Python with the metavariables of its anchor",
        )

    def texts(self, newline: bytes, indent: bytes = b"") -> Iterator[bytes]:
        """The template as bytes, its lines indented: as it is, then with what it uses in brackets.

        What the anchor bound goes in byte for byte, since it is laid out for this very file.
        """
        code = indented(self._code, indent.decode()).replace("\n", newline.decode())
        plain = self._fill(code, brackets=False)
        yield plain
        if (safe := self._fill(code, brackets=True)) != plain:
            yield safe

    def _fill(self, code: str, *, brackets: bool) -> bytes:
        for name in [n for n, value in self.match.bindings.items() if value == []]:
            hole = rf"(?:{ONE}|{MANY}){name}\b"
            code = re.sub(rf"{hole}\s*,[ \t]*|,\s*{hole}|{hole}", "", code)

        def text(found: re.Match[str]) -> str:
            bound = self.match.bindings[found["name"]]
            plain = self.match.text(found["name"])
            loose = isinstance(bound, ast.expr) and not isinstance(bound, ast.Name | ast.Starred)
            return f"({plain})" if brackets and loose else plain

        return PLACEHOLDER.sub(text, code).encode()


class _Filler(ast.NodeTransformer):
    """Puts what a match bound in the place of the placeholders of a tree."""

    def __init__(self, match: Match) -> None:
        self._bound = match.bindings
        self._whole = match.nodes

    def _value(self, text: object) -> Any:
        if not isinstance(text, str) or not text.startswith((ONE, MANY)):
            return None
        name = text.removeprefix(ONE).removeprefix(MANY)
        value = self._bound[name]
        if name == "MATCH" and len(self._whole) > 1:
            value = list(self._whole)
        if isinstance(value, str):
            return ast.Name(value, ast.Load())
        return value

    def _identifier(self, text: str) -> str:
        value = self._value(text)
        if value is None:
            return text
        if not isinstance(value, ast.Name):
            raise PatternError(
                f"${PLACEHOLDER.sub(lambda m: m['name'], text)} is not a name here",
                next_step="use a metavariable that stands for a plain name",
            )
        return value.id

    def _all(self, nodes: Sequence[ast.AST]) -> list[Any]:
        found: list[Any] = []
        for node in nodes:
            new = self.visit(node)
            found += new if isinstance(new, list) else [new]
        return found

    def generic_visit(self, node: ast.AST) -> Any:
        """Fill the parts of a node, and its plain names."""
        super().generic_visit(node)
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, str) and not isinstance(node, ast.Constant):
                setattr(node, name, self._identifier(value))
            elif isinstance(value, list) and value and isinstance(value[0], str):
                setattr(node, name, [self._identifier(v) for v in value])
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        """A placeholder becomes what it stands for."""
        value = self._value(node.id)
        return node if value is None else value

    def visit_Starred(self, node: ast.Starred) -> Any:
        """A star that only Python wanted goes away again."""
        if isinstance(node.value, ast.Name) and isinstance(self._value(node.value.id), list):
            return self._value(node.value.id)
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> Any:
        """A placeholder on a line of its own can stand for statements."""
        new = self.visit(node.value)
        if isinstance(new, ast.stmt):
            return new
        if isinstance(new, list):
            return [n if isinstance(n, ast.stmt) else ast.Expr(n) for n in new]
        return ast.Expr(new)

    def visit_Call(self, node: ast.Call) -> Any:
        """Arguments that were bound together part into positional ones and keywords."""
        items = self._all(_in_order([*node.args, *node.keywords]))
        keywords = [item for item in items if isinstance(item, ast.keyword)]
        args = [item for item in items if not isinstance(item, ast.keyword)]
        return ast.Call(self.visit(node.func), args, keywords)

    def visit_alias(self, node: ast.alias) -> Any:
        """Imported names can be bound too."""
        value = self._value(node.name) if node.asname is None else None
        return value if isinstance(value, list | ast.alias) else self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> Any:
        """Parameters that were bound stand for themselves, defaults and all."""
        found: list[Parameter] = []
        for one in parameters(node):
            value = self._value(one.arg.arg)
            if isinstance(value, list):
                found += value
            else:
                default = None if one.default is None else self.visit(one.default)
                found.append(Parameter(one.kind, self.visit(one.arg), default))
        plain = [p for p in found if p.kind in ("positional", "plain")]
        keyword = [p for p in found if p.kind == "keyword"]
        return ast.arguments(
            posonlyargs=[p.arg for p in plain if p.kind == "positional"],
            args=[p.arg for p in plain if p.kind == "plain"],
            vararg=next((p.arg for p in found if p.kind == "*"), None),
            kwonlyargs=[p.arg for p in keyword],
            kw_defaults=[p.default for p in keyword],
            kwarg=next((p.arg for p in found if p.kind == "**"), None),
            defaults=[p.default for p in plain if p.default is not None],
        )


def _in_order(arguments: list[ast.expr | ast.keyword]) -> list[ast.expr | ast.keyword]:
    return sorted(arguments, key=lambda one: (one.lineno, one.col_offset))


def dedented(template: str) -> str:
    """A template without the margin of its first line and the blank lines around it."""
    rows = template.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while rows and not rows[0].strip():
        del rows[0]
    while rows and not rows[-1].strip():
        del rows[-1]
    if not rows:
        return ""
    margin = rows[0][: len(rows[0]) - len(rows[0].lstrip())]
    return "\n".join(row.removeprefix(margin) for row in rows)


def indented(code: str, indent: str) -> str:
    """Code further in. The lines inside its strings stay as they are; empty ones get nothing."""
    inside: set[int] = set()
    begins: list[int] = []
    opening, closing = (getattr(tokenize, f"FSTRING_{end}", -1) for end in ("START", "END"))
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == opening:
                begins.append(token.start[0])
            first = begins.pop() if token.type == closing else token.start[0]
            if token.type in (tokenize.STRING, closing):
                inside.update(range(first + 1, token.end[0] + 1))
    except (SyntaxError, tokenize.TokenError):
        pass  # whatever comes of it will not be read as meant
    return "\n".join(
        row if number in inside else indent + row if row.strip() else ""
        for number, row in enumerate(code.split("\n"), 1)
    )
