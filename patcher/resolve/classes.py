"""Classes of the tree: bases, lookup order, and the attributes that instances get."""

from __future__ import annotations

import ast
import builtins
import enum
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from patcher.resolve.bindings import FUNCTIONS, Binding, FunctionNode, Kind, targets
from patcher.resolve.known import (
    MODEST_CLASS_DECORATORS,
    MODEST_METACLASSES,
    READABLE_LIBRARIES,
    SPECIAL_BASES,
)
from patcher.resolve.program import Scope
from patcher.resolve.values import ClassValue, External, Values

Evaluate = Callable[[ast.expr, Scope], Values]

_DYNAMIC_WORDS = (b"setattr", b"vars(", b"__dict__")
_DYNAMIC_HOOKS = ("__getattr__", "__getattribute__", "__init_subclass__")


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """An assignment to an attribute of the first parameter in a method."""

    binding: Binding
    scope: Scope


class ClassInfo:
    """One ``class`` statement, with what its own body and methods say."""

    def __init__(self, scope: Scope) -> None:
        assert isinstance(scope.node, ast.ClassDef)
        self.scope = scope
        self.node: ast.ClassDef = scope.node

    @property
    def name(self) -> str:
        """The class's own name."""
        return self.node.name

    @property
    def path(self) -> str:
        """The file that defines it."""
        return self.scope.module.path

    @property
    def own(self) -> dict[str, list[Binding]]:
        """The names that the class body binds."""
        return self.scope.block.names

    @property
    def methods(self) -> dict[str, FunctionNode]:
        """The functions of the class body; of several, the last one."""
        return {
            name: binding.node
            for name, bindings in self.own.items()
            for binding in bindings[-1:]
            if isinstance(binding.node, FUNCTIONS)
        }

    @cached_property
    def assigned(self) -> dict[str, list[Assigned]]:
        """Attributes that methods set on ``self`` or ``cls``."""
        self._walk_methods()
        return self._found

    @cached_property
    def open(self) -> bool:
        """Whether objects of this class may have attributes that its text does not name."""
        self._walk_methods()
        known = all(decorator_name(d) in MODEST_CLASS_DECORATORS for d in self.node.decorator_list)
        metaclass = next((k.value for k in self.node.keywords if k.arg == "metaclass"), None)
        plain = metaclass is None or decorator_name(metaclass) in MODEST_METACLASSES
        hooked = any(name in self.own for name in _DYNAMIC_HOOKS) and self.delegate is None
        return self._sets_dynamically or not known or not plain or hooked

    @cached_property
    def delegate(self) -> ast.expr | None:
        """The expression that ``__getattr__`` passes every unknown name on to, if that is all.

        ``def __getattr__(self, name): return getattr(self.worker, name)`` gives ``self.worker``.
        """
        method = self.methods.get("__getattr__")
        if method is None or "__getattribute__" in self.own or "__init_subclass__" in self.own:
            return None
        names = [arg.arg for arg in method.args.args]
        found: list[ast.expr] = []
        for node in statements(method):
            match node:
                case ast.Return(
                    value=ast.Call(
                        func=ast.Name(id="getattr"),
                        args=[ast.Attribute(value=ast.Name()) as receiver, ast.Name(id=asked)],
                    )
                ) if asked == names[-1]:
                    found.append(receiver)
                case ast.Return():
                    return None
        return found[0] if len(found) == 1 else None

    def _walk_methods(self) -> None:
        if hasattr(self, "_found"):
            return
        self._found: dict[str, list[Assigned]] = {}
        self._sets_dynamically = False
        for bindings in self.own.values():
            for binding in bindings:
                if binding.kind is Kind.FUNCTION and isinstance(binding.node, FUNCTIONS):
                    arguments = [*binding.node.args.posonlyargs, *binding.node.args.args]
                    if arguments and not is_decorated(binding.node, "staticmethod"):
                        self._walk(binding.node, arguments[0].arg)

    def _walk(self, method: FunctionNode, first: str) -> None:
        scope = self.scope.child(method)
        for node in statements(method):
            for target, value, annotation, path in _assignments(node):
                if (
                    isinstance(target, ast.Attribute)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == first
                ):
                    kind = Kind.OPAQUE if value is None else Kind.VALUE
                    binding = Binding(target.attr, kind, target, value, annotation, path=path)
                    self._found.setdefault(target.attr, []).append(Assigned(binding, scope))
        source = self.scope.module.source
        text = source.lines(method.lineno, method.end_lineno or method.lineno)
        if any(word in text for word in _DYNAMIC_WORDS):
            for node in ast.walk(method):
                names = _set_by_name(node, first, method)
                self._sets_dynamically |= names is None
                for name in names or ():
                    binding = Binding(name, Kind.OPAQUE, node)
                    self._found.setdefault(name, []).append(Assigned(binding, scope))


@dataclass(frozen=True, slots=True)
class Lineage:
    """A class and its bases in lookup order; ``complete`` when every base is known."""

    classes: tuple[ClassInfo, ...]
    externals: tuple[str, ...]
    complete: bool
    unknown_from: int

    def external_names(self) -> set[str]:
        """Attributes that the readable standard bases bring in."""
        names: set[str] = set()
        for dotted in self.externals:
            names |= set(SPECIAL_BASES.get(dotted, ())) or set(dir(_standard(dotted)))
            if _is_enum(dotted):
                names |= {"name", "value", "_name_", "_value_"}
        return names

    @property
    def is_enum(self) -> bool:
        """Whether members of the class are instances of it."""
        return any(_is_enum(e) for e in self.externals)

    @property
    def is_structural(self) -> bool:
        """Whether classes that do not derive from it may stand in: a protocol."""
        return any(decorator_name(_head(b)) == "Protocol" for b in self.classes[0].node.bases)

    @property
    def is_abstract_aware(self) -> bool:
        """Whether Python refuses to instantiate the class while methods are abstract."""
        return "abc.ABC" in self.externals or any(
            k.arg == "metaclass" and decorator_name(k.value) == "ABCMeta"
            for c in self.classes
            for k in c.node.keywords
        )


def lineage(info: ClassInfo, evaluate: Evaluate, seen: tuple[ClassInfo, ...] = ()) -> Lineage:
    """The classes that an attribute is looked up in, nearest first.

    ``unknown_from`` is the position from which on an unknown base could come before the rest.
    """
    classes: list[ClassInfo] = [info]
    externals: list[str] = []
    complete = info not in seen
    unknown_from = 1 if not complete else -1
    for written in info.node.bases if complete else ():
        values = evaluate(_head(written), info.scope.parent or info.scope)
        known = [v for v in values if isinstance(v, ClassValue)]
        dotted = [v.dotted for v in values if isinstance(v, External)]
        if len(values) == 1 and known:
            inner = lineage(known[0].info, evaluate, (*seen, info))
            position = len(classes)
            for one in inner.classes:
                if one in classes:  # a shared base comes after all that derive from it
                    classes.remove(one)
                classes.append(one)
            externals += inner.externals
            if not inner.complete and unknown_from < 0:
                unknown_from = position + max(inner.unknown_from, 0)
            complete &= inner.complete
        elif len(values) == 1 and dotted and is_readable(dotted[0]):
            externals.append(dotted[0])
        else:
            complete = False
            if unknown_from < 0:
                unknown_from = len(classes)
    end = len(classes) if unknown_from < 0 else unknown_from
    return Lineage(tuple(classes), tuple(externals), complete, end)


def _head(base: ast.expr) -> ast.expr:
    """A base class without its type arguments."""
    return base.value if isinstance(base, ast.Subscript) else base


def is_readable(dotted: str) -> bool:
    """Whether the attributes of an external class are known."""
    return dotted in SPECIAL_BASES or _standard(dotted) is not None


def decorator_name(node: ast.expr) -> str:
    """The last part of a decorator's name: ``functools.lru_cache(8)`` is ``lru_cache``."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def is_decorated(node: FunctionNode | ast.ClassDef, *names: str) -> bool:
    """Whether one of the decorators has one of the names."""
    return any(decorator_name(d) in names for d in node.decorator_list)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements inside a node, in no set order, with ``with`` items; no expressions."""
    stack: list[ast.AST] = [node]
    while stack:
        node = stack.pop()
        for name in ("body", "orelse", "finalbody", "handlers", "cases", "items"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                stack += inner
                yield from inner


def _set_by_name(node: ast.AST, first: str, method: FunctionNode) -> list[str] | None:
    """The attributes of the first parameter that a node sets by name; None for any at all."""
    match node:
        case ast.Call(func=ast.Name(id="vars"), args=[ast.Name(id=owner)]) if owner == first:
            return None
        case ast.Attribute(value=ast.Name(id=owner), attr="__dict__") if owner == first:
            return None
        case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=owner), name, _]):
            return _literals(name, method) if owner == first else []
        case ast.Call(func=ast.Attribute(attr="__setattr__"), args=[*_, name, _]):
            return _literals(name, method)
    return []


def _literals(name: ast.expr, method: FunctionNode) -> list[str] | None:
    """The strings that an expression may be, if it is one or loops over plain ones."""
    if isinstance(name, ast.Constant):
        return [str(name.value)]
    found: list[str] = []
    for loop in statements(method):
        match loop:
            case ast.For(target=ast.Name(id=target), iter=ast.List() | ast.Tuple() as row):
                if isinstance(name, ast.Name) and target == name.id:
                    if not all(isinstance(e, ast.Constant) for e in row.elts):
                        return None
                    found += [str(e.value) for e in row.elts if isinstance(e, ast.Constant)]
    return found or None


_Assignment = tuple[ast.expr, ast.expr | None, ast.expr | None, tuple[int, ...]]


def _assignments(node: ast.AST) -> list[_Assignment]:
    found: list[_Assignment] = []
    match node:
        case ast.Assign():
            for target in node.targets:
                found += [(t, v, None, path) for t, v, path in targets(target, node.value)]
        case ast.AnnAssign():
            found.append((node.target, node.value, node.annotation, ()))
        case ast.For() | ast.AsyncFor():
            found += [(t, None, None, ()) for t, _, _ in targets(node.target, None)]
        case ast.withitem(optional_vars=ast.expr() as target):
            found += [(t, None, None, ()) for t, _, _ in targets(target, None)]
    return found


def _standard(dotted: str) -> object | None:
    module, _, name = dotted.rpartition(".")
    if module not in READABLE_LIBRARIES:
        return None
    return getattr(importlib.import_module(module), name, None)


def _is_enum(dotted: str) -> bool:
    found = _standard(dotted)
    return isinstance(found, type) and issubclass(found, enum.Enum)


BUILTINS = frozenset(dir(builtins)) | {"__file__", "__debug__", "WindowsError", "__path__"}
"""Names that every module can use without binding them."""
