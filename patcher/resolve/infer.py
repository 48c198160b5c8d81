"""What expressions stand for: names, attributes, calls and annotations, read off the text.

Inference never guesses. It follows imports, annotations, constructor calls and return
annotations, takes all branches together, and says unknown for everything else.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from patcher.resolve import imports, members
from patcher.resolve.bindings import COMPREHENSIONS, FUNCTIONS, Binding, FunctionNode, Kind
from patcher.resolve.classes import (
    BUILTINS,
    ClassInfo,
    Lineage,
    decorator_name,
    is_decorated,
    lineage,
    statements,
)
from patcher.resolve.declared import declared
from patcher.resolve.known import SAME_VALUE, TRANSPARENT
from patcher.resolve.program import Program, Scope
from patcher.resolve.values import (
    NOTHING_KNOWN,
    Alias,
    ClassValue,
    Defined,
    External,
    FunctionValue,
    InstanceValue,
    Items,
    Many,
    SuperValue,
    Target,
    Value,
    Values,
    is_known,
    union,
    unpacked,
)


class Inference:
    """Evaluates expressions of one program; answers are kept."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._values: dict[ast.expr, Values] = {}
        self._bindings: dict[Binding, Values] = {}
        self._returned: dict[FunctionNode, Values] = {}
        self._active: set[object] = set()
        self._classes: dict[ast.AST, ClassInfo] = {}
        self._lineages: dict[ClassInfo, Lineage] = {}

    # ------------------------------------------------------------- expressions

    def evaluate(self, node: ast.expr, scope: Scope) -> Values:
        """The values an expression may have in a scope."""
        if node not in self._values:
            if node in self._active:
                return NOTHING_KNOWN
            self._active.add(node)
            try:
                self._values[node] = self._evaluate(node, scope)
            finally:
                self._active.discard(node)
        return self._values[node]

    def _evaluate(self, node: ast.expr, scope: Scope) -> Values:
        match node:
            case ast.Name():
                return self.name(node.id, scope)
            case ast.Attribute():
                parts = [self.attribute(v, node.attr) for v in self.evaluate(node.value, scope)]
                return union(NOTHING_KNOWN if p is None else p for p in parts) or NOTHING_KNOWN
            case ast.Call():
                return self._call(node, scope)
            case ast.Subscript():
                return self._subscript(node, scope)
            case ast.NamedExpr():
                return self.evaluate(node.value, scope)
            case ast.IfExp():
                return union(self.evaluate(n, scope) for n in (node.body, node.orelse))
            case ast.BoolOp():
                return union(self.evaluate(n, scope) for n in node.values)
            case ast.Constant(value=None):
                return ()
            case ast.Tuple():
                if any(isinstance(e, ast.Starred) for e in node.elts):
                    return NOTHING_KNOWN
                return (Items(tuple(self.evaluate(e, scope) for e in node.elts)),)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return (Many(self.evaluate(node.elt, scope.child(node))),)
            case ast.BinOp(op=ast.BitOr()):
                left = self.evaluate(node.left, scope)
                if any(isinstance(v, ClassValue | Alias) for v in left):
                    return (Alias(node, scope),)
        return NOTHING_KNOWN

    def name(self, name: str, scope: Scope) -> Values:
        """The values a name may have in a scope."""
        found = scope.find(name)
        if found is None:
            reached = imports.starred(self.program, scope.module, name)
            if reached:
                return union(self.target(t) for t in reached)
            return (External(f"builtins.{name}"),) if name in BUILTINS else NOTHING_KNOWN
        where, bindings = found
        return members.combined([(b, self.binding(b, where)) for b in bindings])

    def _call(self, node: ast.Call, scope: Scope) -> Values:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            owner = scope.function and self.owner_of(scope.function)
            return (SuperValue(owner),) if owner else NOTHING_KNOWN
        found: list[Values] = []
        for value in self.evaluate(node.func, scope):
            match value:
                case ClassValue(info, exact):
                    plain = "__new__" not in info.own and not info.node.keywords
                    found.append((InstanceValue(info, exact),) if plain else NOTHING_KNOWN)
                case FunctionValue(launch=False):
                    found.append(self.returned(value))
                case External("typing.cast") if node.args:
                    found.append(self.annotation(node.args[0], scope))
                case External("builtins.enumerate" | "builtins.zip" as dotted) if node.args:
                    parts = tuple(self.iterated(a, scope) for a in node.args)
                    counted = dotted == "builtins.enumerate"
                    items = (NOTHING_KNOWN, parts[0]) if counted else parts
                    found.append((Many((Items(items),)),))
                case External(dotted) if dotted in SAME_VALUE and node.args:
                    found.append(self.evaluate(node.args[0], scope))
                case _:
                    return NOTHING_KNOWN
        return union(found)

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Values:
        found: list[Values] = []
        for value in self.evaluate(node.value, scope):
            match value:
                case Many(element):
                    found.append((value,) if isinstance(node.slice, ast.Slice) else element)
                case Items(items):
                    found.append(_item(items, node.slice))
                case ClassValue() if not self.lineage(value.info).is_enum:
                    found.append((value,))
                case FunctionValue(node=function) if is_decorated(function, "jit"):
                    launcher = FunctionValue(function, value.scope, None, launch=True)
                    found.append((launcher,))
                case External(dotted) if dotted.startswith(("typing.", "builtins.", "collect")):
                    found.append((Alias(node, scope),))
                case _:
                    return NOTHING_KNOWN
        return union(found)

    def iterated(self, node: ast.expr, scope: Scope) -> Values:
        """The values that iterating over an expression yields."""
        parts: list[Values] = []
        for value in self.evaluate(node, scope):
            match value:
                case Many(element):
                    parts.append(element)
                case Items(items):
                    parts += items
                case ClassValue(info) if self.lineage(info).is_enum:
                    parts.append((InstanceValue(info),))
                case _:
                    return NOTHING_KNOWN
        return union(parts)

    def annotation(self, node: ast.expr, scope: Scope) -> Values:
        """The values that a declared type allows."""
        return declared(self, node, scope)

    # --------------------------------------------------------------- bindings

    def target(self, target: Target) -> Values:
        """The values of what an import reaches."""
        if isinstance(target, Defined):
            return self.binding(target.binding, target.scope)
        return (target,)

    def binding(self, binding: Binding, scope: Scope) -> Values:
        """The values that one binding gives its name."""
        if binding not in self._bindings:
            if binding in self._active:
                return NOTHING_KNOWN
            self._active.add(binding)
            try:
                self._bindings[binding] = self._binding(binding, scope)
            finally:
                self._active.discard(binding)
        return self._bindings[binding]

    def _binding(self, binding: Binding, scope: Scope) -> Values:
        node = binding.node
        match binding.kind:
            case Kind.IMPORT:
                reached = imports.imported(self.program, scope.module, binding)
                return union(self.target(t) for t in reached) if reached else NOTHING_KNOWN
            case Kind.CLASS:
                return (ClassValue(self.class_info(node, scope)),)
            case Kind.FUNCTION if isinstance(node, FUNCTIONS):
                owner = self.class_info(scope.node) if scope.kind == "class" else None
                return (FunctionValue(node, scope, owner),)
            case Kind.PARAMETER:
                return self._parameter(binding, scope)
            case Kind.ELEMENT if binding.value is not None:
                return unpacked(self.iterated(binding.value, _around(binding, scope)), binding.path)
            case Kind.VALUE:
                parts: list[Values] = []
                if binding.annotation is not None:
                    parts.append(self.annotation(binding.annotation, scope))
                if binding.value is not None and not any(is_known(p) for p in parts):
                    parts.append(self.evaluate(binding.value, scope))
                elif binding.value is not None:
                    value = self.evaluate(binding.value, scope)
                    parts.append(value if is_known(value) else ())
                return unpacked(union(parts), binding.path)
        return NOTHING_KNOWN

    def _parameter(self, binding: Binding, scope: Scope) -> Values:
        if binding.annotation is not None:
            outer = scope.parent or scope
            allowed = self.annotation(binding.annotation, outer)
        else:
            allowed = NOTHING_KNOWN
        function = scope.node
        if isinstance(function, FUNCTIONS) and scope.owner is not None:
            arguments = [*function.args.posonlyargs, *function.args.args]
            if arguments and binding.node is arguments[0]:
                return self._first_parameter(function, scope.owner, allowed)
        return allowed

    def _first_parameter(self, node: FunctionNode, owner: Scope, allowed: Values) -> Values:
        if is_decorated(node, "staticmethod"):
            return allowed
        info = self.class_info(owner.node, owner.parent)
        of_class = is_decorated(node, "classmethod") or node.name == "__new__"
        own: Value = ClassValue(info, exact=False) if of_class else InstanceValue(info)
        return union([(own,), allowed if is_known(allowed) else ()])

    def class_info(self, node: ast.AST, scope: Scope | None = None) -> ClassInfo:
        """The record of a class statement that stands in a scope."""
        if node not in self._classes:
            assert scope is not None
            self._classes[node] = ClassInfo(scope.child(node))
        return self._classes[node]

    def owner_of(self, function: Scope) -> ClassInfo | None:
        """The class whose body holds a method, directly or around a nested function."""
        scope: Scope | None = function
        while scope is not None:
            if scope.kind == "class":
                return self.class_info(scope.node, scope.parent)
            scope = scope.parent
        return None

    def lineage(self, info: ClassInfo) -> Lineage:
        """The bases of a class."""
        if info not in self._lineages:
            self._lineages[info] = lineage(info, self.evaluate)
        return self._lineages[info]

    def returned(self, function: FunctionValue) -> Values:
        """What a call of a function gives, by its return annotation."""
        node = function.node
        plain = all(decorator_name(d) in TRANSPARENT for d in node.decorator_list)
        if not plain or isinstance(node, ast.AsyncFunctionDef):
            return NOTHING_KNOWN
        if node.returns is not None:
            return self.annotation(node.returns, function.scope)
        if node not in self._returned:
            if node in self._active:
                return NOTHING_KNOWN
            self._active.add(node)
            try:
                self._returned[node] = self._returns(node, function.scope)
            finally:
                self._active.discard(node)
        return self._returned[node]

    def _returns(self, node: FunctionNode, scope: Scope) -> Values:
        """What the ``return`` statements of a function without annotation give."""
        inside = [n for n in statements(node) if isinstance(n, ast.Return | ast.Expr | ast.Assign)]
        if any(isinstance(n.value, ast.Yield | ast.YieldFrom) for n in inside):
            return NOTHING_KNOWN
        if is_decorated(node, "abstractmethod") or scope.kind == "function":
            return NOTHING_KNOWN
        own = scope.child(node)
        given = [n.value for n in inside if isinstance(n, ast.Return)]
        parts: list[Values] = []
        for value in given:
            parts.append(() if value is None else self.evaluate(value, own))
            if not is_known(parts[-1]) and parts[-1]:
                return NOTHING_KNOWN
        return union(parts) or NOTHING_KNOWN

    def attribute(self, value: Value, name: str) -> Values | None:
        """What an attribute of a value is, or None when the value has no such attribute."""
        return members.attribute(self, value, name)


def _around(binding: Binding, scope: Scope) -> Scope:
    """Where the expression that a ``for`` iterates over is evaluated."""
    if isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
        first = scope.node.generators[0].iter
        return scope.parent if binding.value is first else scope
    return scope


def _item(items: Sequence[Values], index: ast.expr) -> Values:
    match index:
        case ast.Constant(value=int() as position) if -len(items) <= position < len(items):
            return items[position]
    return union(items)
