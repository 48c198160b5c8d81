"""Whether a method can stand in for the one it overrides."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from inspect import Parameter, Signature

from patcher.model import Severity, Site
from patcher.resolve.bindings import FunctionNode
from patcher.resolve.classes import ClassInfo, is_decorated
from patcher.resolve.evidence import Evidence
from patcher.resolve.infer import Inference
from patcher.resolve.program import Program
from patcher.resolve.signatures import mismatch, of_function

_OWN_CONTRACT = frozenset(
    {"__init__", "__new__", "__post_init__", "__init_subclass__", "__class_getitem__"}
)
"""Methods that every class calls its own way."""

_OPEN = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Misfit:
    """How a method does not fit the one that it overrides."""

    name: str
    reason: str
    severity: Severity
    node: FunctionNode
    own: Signature
    base: Signature
    base_site: Site


@dataclass(frozen=True, slots=True)
class _Pair:
    """A method and the one it overrides in the nearest base that has it."""

    node: FunctionNode
    own: Signature
    base: Signature
    base_node: FunctionNode
    base_class: ClassInfo


def misfit_of(evidence: Evidence, pristine: Program, info: ClassInfo, name: str) -> Misfit | None:
    """How a method fails to fit the nearest base's, in ways that some caller could notice.

    Not reported: what another override in the pristine tree does as well, since callers cope with
    that already; and, against a base method that is only a placeholder, what no call in the tree
    would run into.
    """
    pair = overridden(evidence.inference, info, name)
    differences = compare(pair.own, pair.base) if pair else []
    if pair is None or not differences:
        return None
    accepted = _precedents(evidence, pristine, info, pair)
    left = [d for d in differences if d not in accepted and _matters(evidence, d, pair, name)]
    if not left:
        return None
    severity = Severity.WARNING if all(d.renamed for d in left) else Severity.ERROR
    reason = "; ".join(d.reason for d in left)
    source, scope = pair.base_class.scope.module.source, pair.base_class.scope.qualified
    site = source.site(pair.base_node, scope=scope)
    return Misfit(name, reason, severity, pair.node, pair.own, pair.base, site)


def overridden(inference: Inference, info: ClassInfo, name: str) -> _Pair | None:
    """A method beside the one it overrides; None when there is nothing to compare."""
    node = info.methods[name]
    mangled = name.startswith("__") and not name.endswith("__")
    if name in _OWN_CONTRACT or mangled:
        return None
    lineage = inference.lineage(info)
    for one in lineage.classes[1 : lineage.unknown_from]:
        if name not in one.own:
            continue
        other = one.methods.get(name)
        if other is None or _kind(node) != _kind(other):
            return None
        bound = _kind(node) != "staticmethod"
        own, base = of_function(node, bound=bound), of_function(other, bound=bound)
        if own is None or base is None:
            return None
        return _Pair(node, own, base, other, one)
    return None


def _precedents(
    evidence: Evidence, pristine: Program, info: ClassInfo, pair: _Pair
) -> set[Difference]:
    """The differences that other overrides of the same method have in the pristine tree."""
    found: set[Difference] = set()
    for other in evidence.subclasses(pair.base_class):
        module = pristine.module(other.scope.module.name)
        known = module is not None and module.readable
        if other is info or not known or pair.node.name not in other.methods:
            continue
        if module is not None and other.scope.qualified not in module.source.scopes:
            continue
        like = overridden(evidence.inference, other, pair.node.name)
        if like is not None and like.base_node is pair.base_node:
            found |= set(compare(like.own, like.base))
    return found


def _matters(evidence: Evidence, difference: Difference, pair: _Pair, name: str) -> bool:
    """Whether a call in the tree notices a difference, where only calls can tell."""
    if difference.renamed:
        return any(
            keyword.arg == difference.parameter
            for call in evidence.calls_of(name, pair.base_class)
            for keyword in call.keywords
        )
    if not _is_placeholder(pair.base_node):
        return True
    return any(
        mismatch(pair.base, call) is None and mismatch(pair.own, call) is not None
        for call in evidence.calls_of(name, pair.base_class)
    )


def _is_placeholder(node: FunctionNode) -> bool:
    """Whether a method only says that subclasses have it: abstract, or with an empty body."""
    if is_decorated(node, "abstractmethod"):
        return True
    return all(
        isinstance(statement, ast.Pass | ast.Raise)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in node.body
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that calls of a base method would stumble over."""

    parameter: str
    reason: str
    renamed: bool = False


def compare(own: Signature, base: Signature) -> list[Difference]:
    """What calls that the base method takes would fail on in the overriding one."""
    mine, theirs = own.parameters, base.parameters
    open_positions = any(p.kind is Parameter.VAR_POSITIONAL for p in mine.values())
    open_keywords = any(p.kind is Parameter.VAR_KEYWORD for p in mine.values())
    row = [p.name for p in mine.values() if p.kind in _POSITIONAL]
    found: list[Difference] = []
    renamed: set[str] = set()
    base_row = [p.name for p in theirs.values() if p.kind in _POSITIONAL]
    for position, name in enumerate(base_row):
        if position >= len(row):
            if not open_positions and not (open_keywords and name not in mine):
                found.append(Difference(name, f"it does not take {name}"))
        elif row[position] == name:
            continue
        elif name in mine:
            found.append(Difference(name, f"{name} stands in another place"))
        elif row[position] not in theirs:
            renamed.add(row[position])
            if not open_keywords:
                text = f"{name} is called {row[position]} here"
                found.append(Difference(name, text, renamed=True))
    for parameter in theirs.values():
        keyword = parameter.kind is Parameter.KEYWORD_ONLY and not open_keywords
        if keyword and parameter.name not in mine:
            found.append(Difference(parameter.name, f"it does not take {parameter.name}"))
    for name, parameter in mine.items():
        if parameter.kind in _OPEN:
            continue
        if parameter.default is not Parameter.empty or name in renamed:
            continue
        if name not in theirs:
            if not any(p.kind in _OPEN for p in theirs.values()):
                found.append(Difference(name, f"it also needs {name}"))
        elif theirs[name].default is not Parameter.empty:
            found.append(Difference(name, f"it needs {name}, which callers may leave out"))
    return found


def _kind(node: FunctionNode) -> str:
    for kind in ("staticmethod", "classmethod"):
        if is_decorated(node, kind):
            return kind
    return "method"
