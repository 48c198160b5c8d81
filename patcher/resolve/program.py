"""The modules of a tree by dotted name, and the scopes inside them. Parsing is on demand.

A *root* is a top-level package of the tree: what is missing under a root is missing for good.
Everything else (torch, the standard library …) is *external*: nothing is claimed about it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import PurePosixPath
from typing import Literal

from patcher.resolve.bindings import (
    COMPREHENSIONS,
    FUNCTIONS,
    Binding,
    Block,
    comprehension_block,
    function_block,
    module_block,
    type_parameter_block,
)
from patcher.source import Source, Unreadable
from patcher.tree import Tree

_DYNAMIC = re.compile(rb"\bglobals\(\)|\bexec\(|\b(?:vars|locals)\(\)\[")
_EXTENSIONS = (".so", ".pyd", ".pyi")

ScopeKind = Literal["module", "class", "function", "comprehension", "types"]


class Scope:
    """A module, class, function, comprehension, or a class's type parameters.

    Each node has one scope: ask :meth:`child` rather than making one.
    """

    def __init__(self, kind: ScopeKind, node: ast.AST, module: Module, parent: Scope | None):
        self.kind = kind
        self.node = node
        self.module = module
        self.parent = parent
        self._children: dict[ast.AST, Scope] = {}

    @cached_property
    def block(self) -> Block:
        """The names that this scope binds."""
        match self.node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return function_block(self.node, self.module.walrus)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return comprehension_block(self.node)
            case ast.ClassDef() if self.kind == "types":
                return type_parameter_block(self.node)
            case ast.Module() | ast.ClassDef():
                return module_block(self.node.body, self.module.walrus)
        raise TypeError(f"a {type(self.node).__name__} has no scope")

    def child(self, node: ast.AST) -> Scope:
        """The scope of a class, function, lambda or comprehension that stands in this one."""
        if node not in self._children:
            parent, kind = self, _kind(node)
            if kind == "class" and getattr(node, "type_params", None):
                parent = Scope("types", node, self.module, self)
            self._children[node] = Scope(kind, node, self.module, parent)
        return self._children[node]

    def find(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """Where Python would look a name up from here, and what binds it there.

        None when only a builtin can have that name, or nothing has.
        """
        scope: Scope | None = self
        first = True
        while scope is not None:
            if scope.kind != "class" or first:
                if scope.block.outer.get(name) == "global":
                    scope = scope.module.scope
                found = scope.block.names.get(name)
                if found:
                    return scope, found
            if scope.kind not in ("comprehension", "types"):
                first = False
            scope = scope.parent
        return None

    @property
    def function(self) -> Scope | None:
        """The innermost function around (or at) this scope, through comprehensions."""
        scope: Scope | None = self
        while scope is not None and not isinstance(scope.node, FUNCTIONS):
            if scope.kind in ("class", "module"):
                return None
            scope = scope.parent
        return scope

    @property
    def owner(self) -> Scope | None:
        """The class whose method this function is, or None."""
        around = self.parent
        return around if around is not None and around.kind == "class" else None

    @property
    def qualified(self) -> str:
        """The qualified name of the scope, empty for the module."""
        parts: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            name = getattr(scope.node, "name", "")
            if name and scope.kind != "types":
                parts.append(name)
            scope = scope.parent
        return ".".join(reversed(parts))


class Module:
    """One module of the tree."""

    def __init__(self, name: str, source: Source, is_package: bool) -> None:
        self.name = name
        self.source = source
        self.is_package = is_package

    @property
    def path(self) -> str:
        """The module's file."""
        return self.source.path

    @property
    def package(self) -> str:
        """The package that relative imports count from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @cached_property
    def readable(self) -> bool:
        """Whether the file parses; nothing is known of the names of one that does not."""
        try:
            _ = self.source.tree
        except Unreadable:
            return False
        return True

    @cached_property
    def scope(self) -> Scope:
        """The module's own scope."""
        return Scope(
            "module", self.source.tree if self.readable else ast.Module([], []), self, None
        )

    @cached_property
    def walrus(self) -> bool:
        """Whether the file may bind names inside expressions."""
        return b":=" in self.source.data

    @cached_property
    def postponed(self) -> bool:
        """Whether annotations are not evaluated (``from __future__ import annotations``)."""
        found = self.scope.block.names.get("annotations", ())
        return any(getattr(b.node, "module", "") == "__future__" for b in found)

    @cached_property
    def dynamic(self) -> bool:
        """Whether the file binds names in ways that cannot be read off its text."""
        return _DYNAMIC.search(self.source.data) is not None

    @cached_property
    def open(self) -> bool:
        """Whether the module may have names that cannot be read off its text."""
        return not self.readable or self.dynamic or "__getattr__" in self.scope.block.names

    @cached_property
    def assigned_globals(self) -> frozenset[str]:
        """Names that functions of this module declare ``global``."""
        if b"global " not in self.source.data:
            return frozenset()
        nodes = ast.walk(self.scope.node)
        return frozenset(n for node in nodes if isinstance(node, ast.Global) for n in node.names)

    @cached_property
    def exported(self) -> frozenset[str] | None:
        """The names in ``__all__`` when it is a plain literal, else None."""
        names: set[str] = set()
        for binding in self.scope.block.names.get("__all__", ()):
            if not isinstance(binding.value, ast.List | ast.Tuple):
                return None
            for element in binding.value.elts:
                if not isinstance(element, ast.Constant) or not isinstance(element.value, str):
                    return None
                names.add(element.value)
        return frozenset(names) if names else None

    def exports(self, name: str) -> bool:
        """Whether ``from module import *`` would take a name that the module has."""
        if "__all__" in self.scope.block.names:
            return self.exported is None or name in self.exported
        return not name.startswith("_")

    def absolute(self, node: ast.ImportFrom) -> str:
        """The absolute dotted module name of a ``from … import`` statement."""
        if not node.level:
            return node.module or ""
        parts = self.package.split(".")
        base = ".".join(parts[: len(parts) - node.level + 1]) if node.level <= len(parts) else ""
        return ".".join(p for p in (base, node.module) if p)


class Program:
    """All modules of a tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._modules: dict[str, Module] = {}
        self._paths: dict[str, str] = {}
        self._packages: set[str] = set()
        self._opaque: set[str] = set()
        for path in tree:
            self._register(path)
        self.roots = frozenset(p for p in self._packages if "." not in p)

    def _register(self, path: str) -> None:
        if ".dist-info/" in path or "/__pycache__/" in path:
            return
        stem, dot, suffix = path.rpartition(".")
        parts = path.split("/")
        if suffix == "py":
            dotted = stem.replace("/", ".")
            self._paths[dotted.removesuffix(".__init__")] = path
        elif dot and path.endswith(_EXTENSIONS):
            parent = PurePosixPath(path).parent.as_posix().replace("/", ".")
            self._opaque.add(f"{parent}.{parts[-1].split('.')[0]}")
        else:
            return
        for depth in range(1, len(parts)):
            self._packages.add(".".join(parts[:depth]))

    def owns(self, dotted: str) -> bool:
        """Whether a dotted name lies under a package of this tree."""
        return dotted.partition(".")[0] in self.roots

    def module(self, dotted: str) -> Module | None:
        """The module of that name, or None: absent, a plain folder, or a compiled one."""
        path = self._paths.get(dotted)
        if path is None:
            return None
        if dotted not in self._modules:
            package = path.endswith("/__init__.py")
            self._modules[dotted] = Module(dotted, self.tree.source(path), package)
        return self._modules[dotted]

    def module_at(self, path: str) -> Module | None:
        """The module that a file is, or None for a file that no import reaches."""
        stem = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        return self.module(stem) if self._paths.get(stem) == path else None

    def is_folder(self, dotted: str) -> bool:
        """Whether the name is a package with an ``__init__`` or without."""
        return dotted in self._packages

    def is_opaque(self, dotted: str) -> bool:
        """Whether the name is a compiled module, of which nothing can be read."""
        return dotted in self._opaque

    def exists(self, dotted: str) -> bool:
        """Whether importing that module could find anything."""
        return dotted in self._paths or dotted in self._packages or dotted in self._opaque

    def children(self, dotted: str) -> Iterator[str]:
        """The last parts of the names of a package's direct submodules."""
        prefix = f"{dotted}."
        for name in {*self._paths, *self._packages, *self._opaque}:
            if name.startswith(prefix) and "." not in name[len(prefix) :]:
                yield name[len(prefix) :]

    def containing(self, *words: bytes) -> Iterator[Module]:
        """Modules whose bytes hold all of the words; nothing is parsed for this."""
        for path in sorted(self._paths.values()):
            data = self.tree.source(path).data
            if all(word in data for word in words):
                module = self.module_at(path)
                if module is not None:
                    yield module

    def matching(self, pattern: re.Pattern[bytes], word: bytes) -> Iterator[tuple[Module, int]]:
        """Modules with a place that matches, and the line of the first; ``word`` filters first."""
        for module in self.containing(word):
            found = pattern.search(module.source.data)
            if found:
                yield module, module.source.line_at(found.start())


def _kind(node: ast.AST) -> ScopeKind:
    if isinstance(node, COMPREHENSIONS):
        return "comprehension"
    return "class" if isinstance(node, ast.ClassDef) else "function"
