"""Names that nearly are the one that is missing, each with the place that defines it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from patcher.model import Candidate, Finding, Site
from patcher.resolve.bindings import Binding
from patcher.resolve.infer import Inference
from patcher.resolve.program import Module, Scope
from patcher.resolve.values import ClassValue, InstanceValue, ModuleValue, SuperValue, Value

Owner = Value | Scope


def nearest(inference: Inference, name: str, names: Iterable[str], owner: Owner) -> list[Candidate]:
    """The closest of some names that an owner has, best first."""
    found = []
    for close in difflib.get_close_matches(name, set(names) - {name}, n=3, cutoff=0.6):
        score = round(difflib.SequenceMatcher(None, name, close).ratio(), 2)
        found.append(Candidate(_place(inference, close, owner), score, close))
    return found


def _place(inference: Inference, name: str, owner: Owner) -> Site:
    module: Module | None = None
    bindings: Sequence[Binding] = ()
    path = ""
    match owner:
        case Scope():
            found = owner.find(name)
            module, bindings = owner.module, found[1] if found else ()
        case ModuleValue(dotted):
            module = inference.program.module(dotted)
            bindings = module.scope.block.names.get(name, ()) if module else ()
            path = dotted.replace(".", "/")
        case InstanceValue(info) | ClassValue(info) | SuperValue(info):
            module = info.scope.module
            for one in inference.lineage(info).classes:
                bindings = one.own.get(name) or [a.binding for a in one.assigned.get(name, ())]
                if bindings:
                    module = one.scope.module
                    break
    line = bindings[0].line if bindings else 1
    return Site(module.path if module else path, line)


def visible(scope: Scope) -> set[str]:
    """Every name that code in a scope can use without importing it."""
    names: set[str] = set()
    around: Scope | None = scope
    while around is not None:
        names |= set(around.block.names)
        around = around.parent
    return names


def described(value: Value) -> str:
    """What to call a value in a sentence."""
    match value:
        case InstanceValue(info) | ClassValue(info):
            return info.name
        case SuperValue(info):
            return f"super() of {info.name}"
        case ModuleValue(dotted):
            return dotted
    return "this value"


def in_place(finding: Finding) -> tuple[str, int, int]:
    """The order in which a person reads findings."""
    site = finding.site
    return (site.path, site.line, site.column) if site else ("", 0, 0)
