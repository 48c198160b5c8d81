"""What an attribute of a value is: of modules, classes, objects, and ``super()``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from patcher.resolve import imports
from patcher.resolve.bindings import FUNCTIONS, Binding, Kind
from patcher.resolve.classes import ClassInfo, Lineage, is_decorated
from patcher.resolve.known import PROPERTIES
from patcher.resolve.values import (
    NOTHING_KNOWN,
    ClassValue,
    External,
    FunctionValue,
    InstanceValue,
    ModuleValue,
    SuperValue,
    Value,
    Values,
    is_known,
    is_known_throughout,
    union,
)

if TYPE_CHECKING:
    from patcher.resolve.infer import Inference


def attribute(
    inference: Inference, value: Value, name: str, passed_by: tuple[ClassInfo, ...] = ()
) -> Values | None:
    """What an attribute of a value is, or None when the value has no such attribute.

    ``passed_by`` are the classes whose ``__getattr__`` passed the question on to this value.
    """
    match value:
        case External(dotted):
            return (External(f"{dotted}.{name}"),)
        case ModuleValue(dotted):
            reached = imports.member(inference.program, dotted, name)
            return None if reached is None else union(inference.target(t) for t in reached)
        case ClassValue(info):
            return _of_class(inference, info, name)
        case InstanceValue(info):
            found = _of_object(inference, info, name)
            return _delegated(inference, info, name, passed_by) if found is None else found
        case SuperValue(info):
            return _of_object(inference, info, name, skip=1)
    return NOTHING_KNOWN


def names_of(inference: Inference, value: Value) -> set[str]:
    """The names that can be taken from a value, for suggestions."""
    match value:
        case ModuleValue(dotted):
            return imports.names_of(inference.program, dotted)
        case ClassValue(info) | InstanceValue(info) | SuperValue(info):
            classes = inference.lineage(info).classes
            return {n for one in classes for n in (*one.own, *one.assigned)}
    return set()


def combined(parts: Sequence[tuple[Binding, Values]]) -> Values:
    """The values of a name with several bindings; a declared type speaks for all of them."""
    known = [values for _, values in parts if is_known_throughout(values)]
    if any(b.annotation is not None and is_known_throughout(values) for b, values in parts):
        return union(known)
    return union(values for _, values in parts)


def _of_class(inference: Inference, info: ClassInfo, name: str) -> Values | None:
    parents = inference.lineage(info)
    for position, one in enumerate(parents.classes):
        found = [(b, _own(inference, b, one, of_object=False)) for b in one.own.get(name, ())]
        if found:
            return combined(found) if position < parents.unknown_from else NOTHING_KNOWN
        if one.open or _set_on_class(one, name):
            return NOTHING_KNOWN
    return NOTHING_KNOWN if name == "mro" or _may_inherit(parents, name) else None


def _of_object(inference: Inference, info: ClassInfo, name: str, skip: int = 0) -> Values | None:
    parents = inference.lineage(info)
    for position, one in enumerate(parents.classes[skip:], start=skip):
        found = [(b, _own(inference, b, one, of_object=True)) for b in one.own.get(name, ())]
        found += [
            (a.binding, inference.binding(a.binding, a.scope)) for a in one.assigned.get(name, ())
        ]
        if found:
            return combined(found) if position < parents.unknown_from else NOTHING_KNOWN
        if one.open:
            return NOTHING_KNOWN
    return NOTHING_KNOWN if _may_inherit(parents, name) else None


def delegates(inference: Inference, info: ClassInfo) -> Values:
    """The objects that ``__getattr__`` passes on to, where a class does nothing else in it."""
    for one in inference.lineage(info).classes:
        if one.delegate is not None:
            method = one.methods["__getattr__"]
            return inference.evaluate(one.delegate, one.scope.child(method))
    return ()


def _delegated(
    inference: Inference, info: ClassInfo, name: str, passed_by: tuple[ClassInfo, ...]
) -> Values | None:
    values = () if info in passed_by else delegates(inference, info)
    if values and not is_known(values):
        return NOTHING_KNOWN
    parts = [attribute(inference, value, name, (*passed_by, info)) for value in values]
    found = [part for part in parts if part is not None]
    return union(found) if found else None


def _may_inherit(parents: Lineage, name: str) -> bool:
    """Whether a base outside the tree has, or may have, the name."""
    dunder = name.startswith("__") and name.endswith("__")
    return not parents.complete or dunder or name in parents.external_names()


def _set_on_class(one: ClassInfo, name: str) -> bool:
    """Whether a class method assigns the name to the class."""
    return any(
        isinstance(a.scope.node, FUNCTIONS) and is_decorated(a.scope.node, "classmethod")
        for a in one.assigned.get(name, ())
    )


def _own(inference: Inference, binding: Binding, info: ClassInfo, *, of_object: bool) -> Values:
    """The value of a name that a class body binds, as taken from the class or an object."""
    node = binding.node
    if not isinstance(node, FUNCTIONS):
        if inference.lineage(info).is_enum and binding.kind in (Kind.VALUE, Kind.OPAQUE):
            return (InstanceValue(info, exact=True),)
        return inference.binding(binding, info.scope)
    if is_decorated(node, *PROPERTIES, "setter", "getter", "deleter"):
        if not of_object or node.returns is None or is_decorated(node, "setter"):
            return NOTHING_KNOWN
        return inference.annotation(node.returns, info.scope)
    static = is_decorated(node, "staticmethod")
    bound = is_decorated(node, "classmethod") or (of_object and not static)
    return (FunctionValue(node, info.scope, info, bound=bound),)
