"""What an import reaches: chains of re-exports, star imports, submodules, lazy exports."""

from __future__ import annotations

import ast

from patcher.resolve.bindings import Binding, Kind
from patcher.resolve.known import MODULE_NAMES
from patcher.resolve.program import Module, Program
from patcher.resolve.values import UNKNOWN, Defined, External, ModuleValue, Target

Targets = tuple[Target, ...]
_Seen = frozenset[tuple[str, str]]


def member(program: Program, dotted: str, name: str, seen: _Seen = frozenset()) -> Targets | None:
    """What ``from dotted import name`` finds, or None when there is no such name.

    Several targets when several branches bind the name.
    """
    if not program.owns(dotted):
        return (External(f"{dotted}.{name}"),)
    inner = f"{dotted}.{name}"
    module = program.module(dotted)
    if module is None:
        if program.is_opaque(dotted):
            return (UNKNOWN,)
        return (ModuleValue(inner),) if program.exists(inner) else None
    if (dotted, name) not in seen:
        found = bound(program, module, name, seen | {(dotted, name)})
        if found:
            return found
    if program.exists(inner):
        return (ModuleValue(inner),)
    if module.open or name in MODULE_NAMES or name in module.assigned_globals:
        return (UNKNOWN,)
    return None


def bound(program: Program, module: Module, name: str, seen: _Seen = frozenset()) -> Targets:
    """What a module's own statements bind a name to; empty when they do not, or only broken."""
    found: dict[Target, None] = {}
    for binding in module.scope.block.names.get(name, ()):
        if binding.kind is Kind.IMPORT:
            found.update(dict.fromkeys(imported(program, module, binding, seen) or ()))
        else:
            found[Defined(module.scope, binding)] = None
    return tuple(found) or starred(program, module, name, seen)


def starred(program: Program, module: Module, name: str, seen: _Seen = frozenset()) -> Targets:
    """What the module's star imports bring in under a name; the last one wins."""
    for node in reversed(module.scope.block.stars):
        dotted = module.absolute(node)
        if not program.owns(dotted) or program.is_opaque(dotted):
            return (UNKNOWN,)
        source = program.module(dotted)
        if source is None or not source.exports(name):
            continue
        found = bound(program, source, name, seen) if (dotted, name) not in seen else ()
        if found:
            return found
        if source.open or name in (source.exported or ()):
            return (UNKNOWN,)
    return ()


def imported(
    program: Program, module: Module, binding: Binding, seen: _Seen = frozenset()
) -> Targets | None:
    """What an import binding reaches, or None when something on the way is missing."""
    alias = binding.alias
    assert alias is not None
    if isinstance(binding.node, ast.ImportFrom):
        return member(program, module.absolute(binding.node), alias.name, seen)
    dotted = alias.name if alias.asname else alias.name.split(".")[0]
    if not program.owns(dotted):
        return (External(dotted),)
    return (ModuleValue(dotted),) if program.exists(dotted) else None


def names_of(program: Program, dotted: str) -> set[str]:
    """The names that can be taken from a module, for suggestions."""
    names = set(program.children(dotted))
    module = program.module(dotted)
    if module is not None:
        names |= set(module.scope.block.names)
    return names
