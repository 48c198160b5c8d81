"""Every place in new or changed code that a check may look at, with the scope it stands in."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patcher.resolve.bindings import FUNCTIONS, ComprehensionNode
from patcher.resolve.program import Module, Scope

Region = tuple[int, int]
"""First and last line (from 1, both included) of new or changed code."""

_Caught = frozenset[str]
_Loops = tuple[ast.AST, ...]

_INTERESTING = (
    ast.Name,
    ast.Attribute,
    ast.Call,
    ast.Import,
    ast.ImportFrom,
    ast.AugAssign,
    ast.ClassDef,
    ast.Return,
    *FUNCTIONS,
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A node of changed code.

    ``caught`` are the exceptions that handlers around it take, ``loops`` the loops around it in
    its own function; ``deferred`` is true inside an annotation that is not evaluated there.
    """

    node: ast.AST
    scope: Scope
    caught: frozenset[str] = frozenset()
    loops: tuple[ast.AST, ...] = ()
    deferred: bool = False


def references(module: Module, regions: Sequence[Region]) -> list[Reference]:
    """The nodes of interest that the regions touch, in document order."""
    walk = _Walk(regions)
    if module.readable:
        walk.visit(module.scope.node, module.scope, frozenset(), ())
    return walk.found


def touches(node: ast.AST, regions: Sequence[Region]) -> bool:
    """Whether a node, decorators included, shares a line with a region."""
    first = getattr(node, "lineno", 0)
    decorators = getattr(node, "decorator_list", None) or ()
    first = min([first, *(d.lineno for d in decorators)])
    last = getattr(node, "end_lineno", None) or first
    return any(start <= last and first <= end for start, end in regions)


def scope_at(module: Module, node: ast.AST) -> Scope:
    """The scope in which a node of a module is evaluated."""
    line = getattr(node, "lineno", 0)
    walk = _Walk([(line, line)], everything=True)
    walk.visit(module.scope.node, module.scope, frozenset(), ())
    return next((r.scope for r in walk.found if r.node is node), module.scope)


class _Walk:
    """Collects references; written for speed, since whole files go through it."""

    def __init__(self, regions: Sequence[Region], everything: bool = False) -> None:
        self.regions = regions
        self.kinds: tuple[type[ast.AST], ...] = (ast.AST,) if everything else _INTERESTING
        self.found: list[Reference] = []
        self.deferred = False

    def visit_all(
        self, nodes: Iterable[ast.AST | None], scope: Scope, caught: _Caught, loops: _Loops
    ) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node, scope, caught, loops)

    def visit(self, node: ast.AST, scope: Scope, caught: _Caught, loops: _Loops) -> None:
        if isinstance(node, ast.stmt) and not touches(node, self.regions):
            return
        if isinstance(node, self.kinds) and touches(node, self.regions):
            self.found.append(Reference(node, scope, caught, loops, self.deferred))
        match node:
            case ast.Constant():
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.visit_all(node.decorator_list, scope, caught, loops)
                self.visit_all(_defaults(node.args), scope, caught, loops)
                inner = scope.child(node)
                generic = getattr(node, "type_params", None)
                declared = [*_annotations(node.args), node.returns]
                self.annotations(declared, inner if generic else scope, caught, loops)
                self.visit_all(node.body, inner, frozenset(), ())
            case ast.ClassDef():
                inner = scope.child(node)
                self.visit_all(node.decorator_list, scope, caught, loops)
                bases = [*node.bases, *node.keywords]
                self.visit_all(bases, inner.parent or scope, caught, loops)
                self.visit_all(node.body, inner, caught, ())
            case ast.Lambda():
                self.visit_all(_defaults(node.args), scope, caught, loops)
                self.visit(node.body, scope.child(node), caught, ())
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self.comprehension(node, scope, caught, loops)
            case ast.Try() | ast.TryStar():
                inside = caught.union(n for h in node.handlers for n in _caught(h))
                self.visit_all(node.body, scope, inside, loops)
                rest = [*node.handlers, *node.orelse, *node.finalbody]
                self.visit_all(rest, scope, caught, loops)
            case ast.AnnAssign():
                self.annotations([node.annotation], scope, caught, loops)
                self.visit_all([node.target, node.value], scope, caught, loops)
            case ast.For() | ast.AsyncFor() | ast.While():
                self.visit_all(ast.iter_child_nodes(node), scope, caught, (*loops, node))
            case _:
                for child in ast.iter_child_nodes(node):
                    self.visit(child, scope, caught, loops)

    def annotations(
        self, nodes: Sequence[ast.AST | None], scope: Scope, caught: _Caught, loops: _Loops
    ) -> None:
        self.deferred = scope.kind == "function" or scope.module.postponed
        self.visit_all(nodes, scope, caught, loops)
        self.deferred = False

    def comprehension(
        self, node: ComprehensionNode, scope: Scope, caught: _Caught, loops: _Loops
    ) -> None:
        inner = scope.child(node)
        for position, generator in enumerate(node.generators):
            self.visit(generator.iter, inner if position else scope, caught, loops)
            self.visit_all([generator.target, *generator.ifs], inner, caught, loops)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.visit_all(parts, inner, caught, loops)


def _caught(handler: ast.ExceptHandler) -> list[str]:
    if handler.type is None:
        return ["BaseException"]
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [ast.unparse(kind).rpartition(".")[2] for kind in kinds]


def _defaults(arguments: ast.arguments) -> list[ast.expr | None]:
    return [*arguments.defaults, *arguments.kw_defaults]


def _annotations(arguments: ast.arguments) -> list[ast.expr | None]:
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    return [arg.annotation for arg in every if arg is not None]
