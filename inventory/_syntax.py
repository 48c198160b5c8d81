"""What several queries read off a syntax tree: signatures, names, bases, conditions."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping

from patcher.source import Source

Function = ast.FunctionDef | ast.AsyncFunctionDef


def one_line(text: str) -> str:
    """Source text with every run of white space as one space."""
    return " ".join(text.split())


def shown(source: Source, node: ast.AST | None) -> str:
    """A node's source on one line, without comments; empty for no node."""
    if node is None:
        return ""
    text = source.text(node)
    return one_line(_uncommented(text) if "#" in text and "\n" in text else text)


def _uncommented(text: str) -> str:
    """Source text without its comments, which one line would hide the rest behind."""
    lines = io.StringIO(f"({text}\n)").readlines()
    for token in reversed(list(tokenize.generate_tokens(iter(lines).__next__))):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + "\n"
    return "".join(lines)[1:-1]


def signature(function: Function) -> str:
    """Parameters with annotations and defaults, and what is returned, normalised."""
    text = f"({ast.unparse(function.args)})"
    return f"{text} -> {ast.unparse(function.returns)}" if function.returns else text


def dotted(node: ast.AST) -> str:
    """``a.b.c`` for a chain of names, empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join(reversed([*parts, node.id]))


def last_name(node: ast.AST) -> str:
    """The last name of an expression: ``b`` for ``a.b``, ``a.b()`` and ``b``, else empty."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def bases(node: ast.ClassDef) -> tuple[str, ...]:
    """The last names of a class's bases, in order."""
    named = (last_name(b.value if isinstance(b, ast.Subscript) else b) for b in node.bases)
    return tuple(name for name in named if name)


def qualified(source: Source, node: Function | ast.ClassDef) -> str:
    """The qualified name of a class or function itself."""
    outer = source.scope_of(node)
    return f"{outer}.{node.name}" if outer else node.name


def classes(source: Source) -> Iterator[ast.ClassDef]:
    """All classes of a file, in document order."""
    for node in source.nodes(ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        yield node


def functions(source: Source) -> Iterator[Function]:
    """All functions and methods of a file."""
    for node in source.nodes(ast.FunctionDef, ast.AsyncFunctionDef):
        assert isinstance(node, Function)
        yield node


def methods(node: ast.ClassDef) -> Iterator[Function]:
    """The methods that a class itself defines."""
    for statement in node.body:
        if isinstance(statement, Function):
            yield statement


def module_of(path: str) -> str:
    """The dotted module name of a path."""
    name = path.removesuffix(".py").removesuffix("/__init__")
    return name.replace("/", ".")


def imported_from(source: Source, node: ast.ImportFrom) -> str:
    """The absolute module that an import statement names, relative ones resolved."""
    if not node.level:
        return node.module or ""
    package = module_of(source.path).split(".")
    if not source.path.endswith("/__init__.py"):
        package = package[:-1]
    package = package[: len(package) - (node.level - 1)]
    return ".".join([*package, *([node.module] if node.module else [])])


def descendants(bases_of: Mapping[str, Iterable[str]], roots: Iterable[str]) -> set[str]:
    """Names of all classes that derive, by name, from one of ``roots``; the roots included."""
    kept = set(roots)
    while True:
        more = {n for n, above in bases_of.items() if n not in kept and not kept.isdisjoint(above)}
        if not more:
            return kept
        kept |= more


_TESTED: dict[type[ast.AST], tuple[str, str]] = {
    ast.If: ("test", "if"),
    ast.While: ("test", "while"),
    ast.IfExp: ("test", "ternary"),
    ast.Assert: ("test", "assert"),
    ast.comprehension: ("ifs", "comprehension"),
    ast.match_case: ("guard", "match"),
    ast.Match: ("subject", "match"),
}
_STATED: dict[type[ast.AST], str] = {
    ast.Return: "return",
    ast.Assign: "assignment",
    ast.AnnAssign: "assignment",
    ast.AugAssign: "assignment",
    ast.For: "loop",
    ast.Raise: "raise",
    ast.MatchValue: "match",
}


def context(source: Source, node: ast.AST) -> tuple[str, ast.AST]:
    """What an expression decides, and the whole condition or expression that it is part of.

    The first word is ``if``, ``while``, ``ternary``, ``assert``, ``comprehension`` or ``match``
    for a condition, else the statement: ``return``, ``assignment``, ``loop``, ``raise``,
    ``default`` (of a parameter) or ``expression``.
    """
    inner = whole = node
    for around in source.ancestors(node):
        field, word = _TESTED.get(type(around), ("", ""))
        value = getattr(around, field, None) if field else None
        if value is inner or (isinstance(value, list) and inner in value):
            return word, whole
        if isinstance(around, ast.arguments):
            return "default", whole
        if isinstance(around, ast.stmt | ast.MatchValue):
            return _STATED.get(type(around), "expression"), whole
        inner = around
        whole = around if hasattr(around, "lineno") else whole
    return "expression", whole
