"""What a type annotation allows: unions, optionals, containers, strings, aliases."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patcher.resolve.known import SEQUENCES, TYPING_LIBRARIES, WRAPPERS
from patcher.resolve.program import Scope
from patcher.resolve.values import (
    NOTHING_KNOWN,
    Alias,
    ClassValue,
    External,
    InstanceValue,
    Items,
    Many,
    Values,
    union,
)

if TYPE_CHECKING:
    from patcher.resolve.infer import Inference


def declared(inference: Inference, node: ast.expr, scope: Scope) -> Values:
    """The values that an annotation, read in a scope, allows."""
    match node:
        case ast.Constant(value=None):
            return ()
        case ast.Constant(value=str() as text):
            parsed = _parsed(text)
            return NOTHING_KNOWN if parsed is None else declared(inference, parsed, scope)
        case ast.BinOp(op=ast.BitOr()):
            return union(declared(inference, n, scope) for n in (node.left, node.right))
        case ast.Subscript():
            return _subscripted(inference, node, scope)
        case ast.Name() | ast.Attribute():
            return _named(inference, node, scope)
    return NOTHING_KNOWN


def _named(inference: Inference, node: ast.expr, scope: Scope) -> Values:
    parts: list[Values] = []
    for value in inference.evaluate(node, scope):
        match value:
            case ClassValue(info):
                parts.append((InstanceValue(info),))
            case Alias(inner, where):
                parts.append(declared(inference, inner, where))
            case External("typing.Self" | "typing_extensions.Self"):
                owner = inference.owner_of(scope)
                parts.append((InstanceValue(owner),) if owner else NOTHING_KNOWN)
            case _:
                return NOTHING_KNOWN
    return union(parts)


def _subscripted(inference: Inference, node: ast.Subscript, scope: Scope) -> Values:
    heads = inference.evaluate(node.value, scope)
    if len(heads) != 1:
        return NOTHING_KNOWN
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    match heads[0]:
        case ClassValue(info):
            return (InstanceValue(info),)
        case External(dotted) if dotted.startswith(TYPING_LIBRARIES):
            word = dotted.rpartition(".")[2]
            if word == "Union":
                return union(declared(inference, n, scope) for n in inner)
            if word in WRAPPERS:
                return declared(inference, inner[0], scope)
            if word in ("type", "Type"):
                parts = declared(inference, inner[0], scope)
                return tuple(
                    ClassValue(v.info, exact=False) if isinstance(v, InstanceValue) else v
                    for v in parts
                )
            if word in SEQUENCES:
                return (Many(declared(inference, inner[0], scope)),)
            if word in ("tuple", "Tuple"):
                if isinstance(inner[-1], ast.Constant) and inner[-1].value is Ellipsis:
                    return (Many(declared(inference, inner[0], scope)),)
                return (Items(tuple(declared(inference, n, scope) for n in inner)),)
    return NOTHING_KNOWN


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
