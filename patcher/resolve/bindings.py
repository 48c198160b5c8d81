"""Which names a block of code binds, and how: the ground that every look-up stands on.

A block is a module, a class body, a function (with its parameters) or a comprehension. Names that
nested functions and classes bind are theirs; a walrus inside a comprehension binds in the block
around it. Branches are not followed one by one: a name that any branch binds is bound.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ComprehensionNode = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Kind(Enum):
    """How a name came to be bound."""

    IMPORT = "import"
    CLASS = "class"
    FUNCTION = "function"
    VALUE = "value"
    PARAMETER = "parameter"
    ELEMENT = "element"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One place that binds a name.

    ``value`` is the expression bound (for an element, the expression that is iterated over),
    ``annotation`` its declared type, ``alias`` the part of an import statement that binds it,
    ``path`` the place in a value that is unpacked.
    """

    name: str
    kind: Kind
    node: ast.AST
    value: ast.expr | None = None
    annotation: ast.expr | None = None
    alias: ast.alias | None = None
    path: tuple[int, ...] = ()

    @property
    def line(self) -> int:
        """The line on which the name gets bound."""
        return getattr(self.alias or self.node, "lineno", 0)


@dataclass(slots=True)
class Block:
    """The names a block binds, the names it takes from outside, and its star imports."""

    names: dict[str, list[Binding]] = field(default_factory=dict)
    outer: dict[str, str] = field(default_factory=dict)
    stars: list[ast.ImportFrom] = field(default_factory=list)

    def add(self, binding: Binding) -> None:
        """Record a binding, unless ``global`` or ``nonlocal`` sends it elsewhere."""
        self.names.setdefault(binding.name, []).append(binding)


def module_block(body: Iterable[ast.stmt], walrus: bool) -> Block:
    """The names that a module or class body binds; ``walrus``: look for ``:=`` too."""
    block = Block()
    _Collector(block, walrus).visit_all(body)
    return _finished(block)


def function_block(node: FunctionNode | ast.Lambda, walrus: bool) -> Block:
    """The names that are local to a function: its parameters and what its body binds."""
    block = Block()
    arguments = node.args
    for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        block.add(Binding(arg.arg, Kind.PARAMETER, arg, annotation=arg.annotation))
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            block.add(Binding(rest.arg, Kind.OPAQUE, rest))
    _type_parameters(block, node)
    collector = _Collector(block, walrus)
    if not isinstance(node, ast.Lambda):
        collector.visit_all(node.body)
    elif walrus:
        collector.expression(node.body)
    return _finished(block)


def comprehension_block(node: ComprehensionNode) -> Block:
    """The names that a comprehension's ``for`` clauses bind."""
    block = Block()
    collector = _Collector(block, walrus=False)
    for generator in node.generators:
        collector.element(generator.target, generator.iter)
    return block


def type_parameter_block(node: ast.AST) -> Block:
    """The names of a ``class C[T]`` or ``type A[T]`` statement's own parameters."""
    block = Block()
    _type_parameters(block, node)
    return block


def targets(
    node: ast.expr, value: ast.expr | None, path: tuple[int, ...] = ()
) -> Iterator[tuple[ast.expr, ast.expr | None, tuple[int, ...]]]:
    """The single targets inside an assignment target, each with its value and place in it."""
    if isinstance(node, ast.Starred):
        yield from targets(node.value, None)
    elif isinstance(node, ast.Tuple | ast.List):
        if any(isinstance(e, ast.Starred) for e in node.elts):
            value = None
        literal = isinstance(value, ast.Tuple | ast.List) and not path
        parts = value.elts if literal and isinstance(value, ast.Tuple | ast.List) else ()
        same = len(parts) == len(node.elts) and not any(isinstance(e, ast.Starred) for e in parts)
        for position, element in enumerate(node.elts):
            if same:
                yield from targets(element, parts[position])
            else:
                yield from targets(element, value, (*path, position))
    else:
        yield node, value, path


def _finished(block: Block) -> Block:
    for name in block.outer:
        block.names.pop(name, None)
    return block


def _type_parameters(block: Block, node: ast.AST) -> None:
    for parameter in getattr(node, "type_params", ()):
        block.add(Binding(parameter.name, Kind.OPAQUE, parameter))


class _Collector:
    """Walks the statements of one block, not those of nested ones.

    Expressions bind names only by ``:=``; they are walked only where ``walrus`` says that the
    file has one, because most of a tree's nodes are expressions.
    """

    def __init__(self, block: Block, walrus: bool) -> None:
        self.block = block
        self.walrus = walrus

    def visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def visit(self, node: ast.AST) -> None:
        if self.walrus:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr | ast.withitem | ast.keyword | ast.arguments):
                    self.expression(child)
        match node:
            case ast.Expr() | ast.Return() | ast.Raise() | ast.Assert() | ast.Pass():
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.block.add(Binding(node.name, Kind.FUNCTION, node))
                return
            case ast.ClassDef():
                self.block.add(Binding(node.name, Kind.CLASS, node))
                return
            case ast.Assign():
                for target in node.targets:
                    self.bind(target, node.value, node)
            case ast.AnnAssign(target=ast.Name(id=name)):
                self.block.add(Binding(name, Kind.VALUE, node, node.value, node.annotation))
            case ast.AugAssign():
                self.bind(node.target, None, node)
            case ast.Import() | ast.ImportFrom():
                self.imports(node)
            case ast.Global():
                self.block.outer.update(dict.fromkeys(node.names, "global"))
            case ast.Nonlocal():
                self.block.outer.update(dict.fromkeys(node.names, "nonlocal"))
            case ast.If() | ast.While():
                self.visit_all(node.body)
                self.visit_all(node.orelse)
            case ast.For() | ast.AsyncFor():
                self.element(node.target, node.iter)
                self.visit_all(node.body)
                self.visit_all(node.orelse)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    if item.optional_vars is not None:
                        self.bind(item.optional_vars, None, item.optional_vars)
                self.visit_all(node.body)
            case ast.Match():
                for choice in node.cases:
                    self.captures(choice.pattern)
                    self.visit_all(choice.body)
            case _:
                self.rest(node)

    def rest(self, node: ast.AST) -> None:
        """Try statements of both kinds, and what newer Pythons have."""
        if type(node).__name__ == "TypeAlias":
            self.bind(node.name, None, node)  # type: ignore[attr-defined]
        for name in ("body", "orelse", "finalbody"):
            self.visit_all(getattr(node, name, ()))
        for handler in getattr(node, "handlers", ()):
            if handler.name:
                self.block.add(Binding(handler.name, Kind.OPAQUE, handler))
            self.visit_all(handler.body)

    def imports(self, node: ast.Import | ast.ImportFrom) -> None:
        """Record what an import statement binds."""
        for alias in node.names:
            if alias.name == "*" and isinstance(node, ast.ImportFrom):
                self.block.stars.append(node)
                continue
            plain = isinstance(node, ast.ImportFrom)
            name = alias.asname or (alias.name if plain else alias.name.split(".")[0])
            self.block.add(Binding(name, Kind.IMPORT, node, alias=alias))

    def captures(self, pattern: ast.pattern) -> None:
        """Record the names that a ``case`` pattern captures."""
        for node in ast.walk(pattern):
            name = getattr(node, "rest", None)
            if isinstance(node, ast.MatchAs | ast.MatchStar):
                name = node.name
            if isinstance(name, str):
                self.block.add(Binding(name, Kind.OPAQUE, node))

    def expression(self, node: ast.AST) -> None:
        """Record the walruses inside an expression; a lambda keeps its own."""
        if isinstance(node, ast.NamedExpr):
            self.bind(node.target, node.value, node)
        for child in ast.iter_child_nodes(node):
            if not (isinstance(node, ast.Lambda) and child is node.body):
                self.expression(child)

    def bind(self, target: ast.expr, value: ast.expr | None, node: ast.AST) -> None:
        """Record the names inside an assignment target."""
        for single, part, path in targets(target, value):
            if isinstance(single, ast.Name):
                kind = Kind.OPAQUE if part is None else Kind.VALUE
                self.block.add(Binding(single.id, kind, node, value=part, path=path))

    def element(self, target: ast.expr, iterated: ast.expr) -> None:
        """Record the names that iterating over an expression binds."""
        if isinstance(target, ast.Tuple | ast.List) and isinstance(iterated, ast.Tuple | ast.List):
            self.bind(target, None, target)
            return
        for single, value, path in targets(target, iterated):
            if isinstance(single, ast.Name):
                kind = Kind.OPAQUE if value is None else Kind.ELEMENT
                self.block.add(Binding(single.id, kind, single, value=value, path=path))
