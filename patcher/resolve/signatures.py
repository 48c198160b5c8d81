"""The parameters of functions, methods and constructors, as ``inspect`` would tell them.

None wherever the text does not settle them: unknown decorators, bases or metaclasses.
"""

from __future__ import annotations

import ast
from inspect import Parameter, Signature

from patcher.resolve.bindings import FunctionNode
from patcher.resolve.classes import ClassInfo, decorator_name, is_decorated
from patcher.resolve.infer import Inference
from patcher.resolve.known import (
    LAUNCH_KEYWORDS,
    MODEST_CLASS_DECORATORS,
    MODEST_METACLASSES,
    SAME_PARAMETERS,
)
from patcher.resolve.values import ClassValue, FunctionValue, InstanceValue, Value

_EMPTY_BASES = frozenset({"abc.ABC", "builtins.object", "typing.Generic", "typing.Protocol"})
"""External bases whose constructor takes nothing."""


def signature_of(inference: Inference, value: Value) -> Signature | None:
    """The parameters that a call of a value may fill, or None when that is unknown."""
    match value:
        case FunctionValue(node=node, bound=bound, launch=launch):
            return of_function(node, bound=bound, launch=launch)
        case ClassValue(info, exact):
            return of_class(inference, info) if exact else None
        case InstanceValue():
            for method in inference.attribute(value, "__call__") or ():
                return signature_of(inference, method)
    return None


def of_function(
    node: FunctionNode, *, bound: bool = False, launch: bool = False
) -> Signature | None:
    """The parameters of a function as its callers see it."""
    if any(decorator_name(d) not in SAME_PARAMETERS for d in node.decorator_list):
        return None
    parameters = _parameters(node.args)
    if bound and parameters and parameters[0].kind is not Parameter.VAR_POSITIONAL:
        if parameters[0].kind is Parameter.KEYWORD_ONLY:
            return None
        parameters = parameters[1:]
    if launch:
        names = {p.name for p in parameters}
        extra = [n for n in LAUNCH_KEYWORDS if n not in names]
        parameters += [Parameter(n, Parameter.KEYWORD_ONLY, default=None) for n in extra]
    return _signature(parameters)


def of_class(inference: Inference, info: ClassInfo) -> Signature | None:
    """The parameters that making an object of a class takes."""
    lineage = inference.lineage(info)
    for position, one in enumerate(lineage.classes):
        if position >= lineage.unknown_from or "__new__" in one.own or not _is_plain(one):
            return None
        if "__init__" in one.own:
            method = one.methods.get("__init__")
            return of_function(method, bound=True) if method else None
        if is_decorated(one.node, "dataclass") and _option(one.node, "init", True):
            return _generated(inference, one)
        if any(decorator_name(b) == "NamedTuple" for b in one.node.bases):
            return _generated(inference, one)
    if "msgspec.Struct" in lineage.externals:
        return _generated(inference, info)
    if lineage.complete and set(lineage.externals) <= _EMPTY_BASES:
        return Signature()
    return None


def _is_plain(info: ClassInfo) -> bool:
    """Whether nothing about a class's making is out of the ordinary."""
    for keyword in info.node.keywords:
        if keyword.arg == "metaclass" and decorator_name(keyword.value) not in MODEST_METACLASSES:
            return False
    return all(decorator_name(d) in MODEST_CLASS_DECORATORS for d in info.node.decorator_list)


def _parameters(arguments: ast.arguments) -> list[Parameter]:
    plain = [*arguments.posonlyargs, *arguments.args]
    required = len(plain) - len(arguments.defaults)
    found = []
    for position, arg in enumerate(plain):
        early = position < len(arguments.posonlyargs)
        kind = Parameter.POSITIONAL_ONLY if early else Parameter.POSITIONAL_OR_KEYWORD
        default = Parameter.empty if position < required else None
        found.append(Parameter(arg.arg, kind, default=default))
    if arguments.vararg:
        found.append(Parameter(arguments.vararg.arg, Parameter.VAR_POSITIONAL))
    for arg, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        default = Parameter.empty if given is None else None
        found.append(Parameter(arg.arg, Parameter.KEYWORD_ONLY, default=default))
    if arguments.kwarg:
        found.append(Parameter(arguments.kwarg.arg, Parameter.VAR_KEYWORD))
    return found


def _signature(parameters: list[Parameter]) -> Signature | None:
    try:
        return Signature(parameters)
    except ValueError:  # a required field after one with a default
        return None


# ------------------------------------------------------------- generated ones


def _generated(inference: Inference, info: ClassInfo) -> Signature | None:
    """The constructor made from annotated fields: data classes, named tuples, structs."""
    lineage = inference.lineage(info)
    structs = set(lineage.externals) <= {*_EMPTY_BASES, "typing.NamedTuple", "msgspec.Struct"}
    if not lineage.complete or not structs:
        return None
    fields: dict[str, Parameter] = {}
    for one in reversed(lineage.classes):
        made = is_decorated(one.node, "dataclass") or not is_decorated(info.node, "dataclass")
        if made and not _add_fields(one.node, fields):
            return None
    positional = [p for p in fields.values() if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    keywords = [p for p in fields.values() if p.kind is Parameter.KEYWORD_ONLY]
    return _signature([*positional, *keywords])


def _add_fields(node: ast.ClassDef, fields: dict[str, Parameter]) -> bool:
    """Add the fields of one class body; False when it cannot be read."""
    keyword_only = bool(_option(node, "kw_only", False))
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            if isinstance(statement, ast.If | ast.For | ast.With | ast.Try):
                return False
            continue
        kind = ast.unparse(statement.annotation)
        if "ClassVar" in kind:
            continue
        if kind.endswith("KW_ONLY"):
            keyword_only = True
            continue
        field = _field(statement, keyword_only)
        if field is None:
            fields.pop(statement.target.id, None)
        else:
            fields[field.name] = field
    return True


def _field(statement: ast.AnnAssign, keyword_only: bool) -> Parameter | None:
    """The parameter that a field becomes, or None for one that the constructor does not take."""
    assert isinstance(statement.target, ast.Name)
    optional = statement.value is not None
    if isinstance(statement.value, ast.Call) and decorator_name(statement.value) == "field":
        options = {k.arg: k.value for k in statement.value.keywords}
        optional = bool({"default", "default_factory"} & set(options))
        if _is_false(options.get("init")):
            return None
        if "kw_only" in options:
            keyword_only = not _is_false(options["kw_only"])
    return Parameter(
        statement.target.id,
        Parameter.KEYWORD_ONLY if keyword_only else Parameter.POSITIONAL_OR_KEYWORD,
        default=None if optional else Parameter.empty,
    )


def _option(node: ast.ClassDef, name: str, default: bool) -> bool:
    """A switch given to the ``dataclass`` decorator or as a class keyword."""
    given = [k for d in node.decorator_list if isinstance(d, ast.Call) for k in d.keywords]
    for keyword in [*given, *node.keywords]:
        if keyword.arg == name and isinstance(keyword.value, ast.Constant):
            return bool(keyword.value.value)
    return default


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


# ------------------------------------------------------------------- binding


def mismatch(signature: Signature, call: ast.Call) -> str | None:
    """Why a call cannot fill a signature, in Python's words; None when it can, or may."""
    starred = any(isinstance(a, ast.Starred) for a in call.args)
    given: list[ast.expr] = []
    for argument in call.args:
        if isinstance(argument, ast.Starred):
            break
        given.append(argument)
    spread = any(k.arg is None for k in call.keywords)
    named = {k.arg: k.value for k in call.keywords if k.arg is not None}
    try:
        if starred or spread:
            signature.bind_partial(*given, **named)
        else:
            signature.bind(*given, **named)
    except TypeError as error:
        return str(error)
    return None


def shown(signature: Signature) -> str:
    """A signature for a person; a default shows as ``…``."""
    parts = [
        p.replace(default=_Dots) if p.default is not Parameter.empty else p
        for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parts))


class _DotsType:
    def __repr__(self) -> str:
        return "…"


_Dots = _DotsType()
