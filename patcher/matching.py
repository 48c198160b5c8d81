"""How the nodes of a pattern are held against the nodes of a file.

A pattern is an ordinary syntax tree in which some names are metavariables; :mod:`patcher.pattern`
compiles the text into one. What has been seen to fail is not tried again, and matching stops with
:class:`TooManySteps` rather than going on for ever.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Bindings = dict[str, Any]
"""Metavariable name to what it matched: a node, a list of nodes, or a plain identifier."""

ONE, MANY = "__ddp_one_", "__ddp_many_"

STEPS = 1_000_000
"""How many comparisons one look through a file may take."""

_OPEN_IF_ABSENT: dict[type[ast.AST], tuple[str, ...]] = {
    ast.FunctionDef: ("decorator_list", "returns"),
    ast.AsyncFunctionDef: ("decorator_list", "returns"),
    ast.ClassDef: ("decorator_list", "bases", "keywords"),
    ast.If: ("orelse",),
    ast.For: ("orelse",),
    ast.While: ("orelse",),
    ast.AnnAssign: ("value",),
}
IGNORED = ("ctx", "type_comment", "type_params", "kind", "simple", "lineno", "col_offset")
"""Fields that say nothing about what code means to a pattern."""


class TooManySteps(Exception):
    """A pattern with so many ways to match that trying them all would take too long."""


def metavariable(node: object, prefix: str) -> str | None:
    """The metavariable that a pattern node is, or None. Statements hold it as an expression.

    ``*$X`` is a starred expression with a metavariable in it; ``*$...XS`` is how ``$...XS`` is
    written where Python wants a star, and means the same.
    """
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.Starred) and prefix == MANY:
        node = node.value
    text = node
    if isinstance(node, ast.Name):
        text = node.id
    elif isinstance(node, ast.arg):
        text = node.arg
    elif isinstance(node, ast.alias) and node.asname is None:
        text = node.name
    if isinstance(text, str) and text.startswith(prefix):
        return text.removeprefix(prefix)
    return None


class Matcher:
    """Holds pattern nodes against nodes, counting its steps over one look through a file."""

    def __init__(self, limit: int = STEPS) -> None:
        self.limit = limit
        self.steps = 0

    def step(self, number: int = 1) -> None:
        """Count steps. Raises TooManySteps."""
        self.steps += number
        if self.steps > self.limit:
            raise TooManySteps

    def node(self, pattern: Any, node: Any, bound: Bindings) -> Iterator[Bindings]:
        """All ways in which a pattern node matches a node, as extended bindings."""
        self.step()
        name = metavariable(pattern, ONE)
        if name is not None:
            if isinstance(node, ast.keyword):
                return
            expression = isinstance(pattern, ast.Expr) and isinstance(node, ast.Expr)
            yield from _bind(name, node.value if expression else node, bound)
        elif isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
            yield from self._call(pattern, node, bound)
        elif isinstance(pattern, ast.arguments) and isinstance(node, ast.arguments):
            yield from self.sequence(parameters(pattern), parameters(node), bound)
        elif isinstance(pattern, ast.AST):
            if type(pattern) is type(node):
                yield from self._same_kind(pattern, node, bound)
        elif isinstance(pattern, list):
            if isinstance(node, list):
                yield from self.sequence(pattern, node, bound)
        elif pattern == node and type(pattern) is type(node):
            yield bound

    def sequence(
        self, patterns: Sequence[Any], nodes: Sequence[Any], bound: Bindings
    ) -> Iterator[Bindings]:
        """All ways in which a sequence matches another; a ``$...`` takes the fewest first."""
        many = [_many(pattern) for pattern in patterns]
        single = many.count(None)
        if single == len(patterns):
            if single == len(nodes):
                yield from self._one_by_one(patterns, nodes, 0, bound)
        elif single <= len(nodes):
            for found, _ in _Run(self, patterns, nodes, bound, many, whole=True).ways(0, 0, bound):
                yield found

    def _one_by_one(
        self, patterns: Sequence[Any], nodes: Sequence[Any], index: int, bound: Bindings
    ) -> Iterator[Bindings]:
        if index == len(patterns):
            yield bound
            return
        for step in self.element(patterns[index], nodes[index], bound):
            yield from self._one_by_one(patterns, nodes, index + 1, step)

    def prefixes(
        self, patterns: Sequence[Any], nodes: Sequence[Any]
    ) -> Iterator[tuple[Bindings, int]]:
        """All ways in which patterns match the first nodes, with how many nodes they take."""
        many = [_many(pattern) for pattern in patterns]
        return _Run(self, patterns, nodes, {}, many, whole=False).ways(0, 0, {})

    def element(self, pattern: Any, node: Any, bound: Bindings) -> Iterator[Bindings]:
        """All ways in which one item of a sequence matches another."""
        if isinstance(pattern, Parameter):
            assert isinstance(node, Parameter)
            yield from self._parameter(pattern, node, bound)
        else:
            yield from self.node(pattern, node, bound)

    def _same_kind(self, pattern: ast.AST, node: ast.AST, bound: Bindings) -> Iterator[Bindings]:
        open_fields = _OPEN_IF_ABSENT.get(type(pattern), ())
        names = [
            f
            for f in pattern._fields
            if f not in IGNORED and not (f in open_fields and not getattr(pattern, f, None))
        ]
        if isinstance(pattern, ast.ClassDef) and pattern.keywords:
            assert isinstance(node, ast.ClassDef)
            names = [f for f in names if f not in ("bases", "keywords")]
            for step in self._arguments(pattern.bases, pattern.keywords, node.bases, node, bound):
                yield from self._fields(pattern, node, names, step)
            return
        yield from self._fields(pattern, node, names, bound)

    def _fields(
        self, pattern: ast.AST, node: ast.AST, names: list[str], bound: Bindings
    ) -> Iterator[Bindings]:
        if not names:
            yield bound
            return
        wanted, there = getattr(pattern, names[0], None), getattr(node, names[0], None)
        if names[0] in ("orelse", "finalbody") and not there:
            if not wanted:
                yield from self._fields(pattern, node, names[1:], bound)
            return
        for step in self.node(wanted, there, bound):
            yield from self._fields(pattern, node, names[1:], step)

    def _call(self, pattern: ast.Call, node: ast.Call, bound: Bindings) -> Iterator[Bindings]:
        for step in self.node(pattern.func, node.func, bound):
            yield from self._arguments(pattern.args, pattern.keywords, node.args, node, step)

    def _arguments(
        self,
        args: list[ast.expr],
        keywords: list[ast.keyword],
        given: list[ast.expr],
        node: ast.Call | ast.ClassDef,
        bound: Bindings,
    ) -> Iterator[Bindings]:
        """Positional arguments in order, keywords in any; a last ``$...`` takes the rest of both.

        The bases of a class are its positional arguments.
        """
        is_open = bool(args) and metavariable(args[-1], MANY) is not None
        if not is_open and len(keywords) != len(node.keywords):
            return
        if isinstance(node, ast.ClassDef) and not args:
            args, given = [], []  # bases that a pattern does not mention are left open
        named_first = sorted(keywords, key=lambda k: (k.arg or "").startswith(ONE))
        for after, left in self._keywords(named_first, node.keywords, bound):
            yield from self.sequence(args, [*given, *left] if left else given, after)

    def _keywords(
        self, patterns: Sequence[ast.keyword], nodes: Sequence[ast.keyword], bound: Bindings
    ) -> Iterator[tuple[Bindings, list[ast.keyword]]]:
        """All ways to find the wanted keywords, each with those that are left over."""
        if not patterns:
            yield bound, list(nodes)
            return
        for index, node in enumerate(nodes):
            for named in self.node(patterns[0].arg, node.arg, bound):
                for step in self.node(patterns[0].value, node.value, named):
                    others = [*nodes[:index], *nodes[index + 1 :]]
                    yield from self._keywords(patterns[1:], others, step)

    def _parameter(
        self, pattern: Parameter, node: Parameter, bound: Bindings
    ) -> Iterator[Bindings]:
        if pattern.kind != node.kind:
            return
        for step in self.node(pattern.arg.arg, node.arg.arg, bound):
            for noted in (
                self.node(pattern.arg.annotation, node.arg.annotation, step)
                if pattern.arg.annotation
                else iter([step])
            ):
                yield from (
                    self.node(pattern.default, node.default, noted)
                    if pattern.default
                    else iter([noted])
                )


class _Run:
    """One sequence of patterns held against one of nodes, remembering what has failed.

    Whether patterns ``i``… match nodes ``j``… depends on what is bound only where they share a
    name with what came before. Where they do not, a failure is final; where they bind nothing, one
    success is as good as all.
    """

    def __init__(
        self,
        matcher: Matcher,
        patterns: Sequence[Any],
        nodes: Sequence[Any],
        bound: Bindings,
        many: list[str | None],
        *,
        whole: bool,
    ) -> None:
        self._matcher, self._patterns, self._nodes, self._whole = matcher, patterns, nodes, whole
        self._many = many
        self._failed: set[tuple[int, int]] | None = None
        if sum(name is not None for name in self._many) > 1:
            self._failed = set()
            names = [_names(pattern) for pattern in patterns]
            self._binds = [bool(set().union(*names[i:])) for i in range(len(names) + 1)]
            self._final = [
                set().union(*names[i:]).isdisjoint(set(bound).union(*names[:i]))
                for i in range(len(names) + 1)
            ]

    def ways(self, i: int, j: int, bound: Bindings) -> Iterator[tuple[Bindings, int]]:
        """All ways from pattern ``i`` and node ``j`` on, with the node at which each ends."""
        if self._failed is None:
            yield from self._ways(i, j, bound)
            return
        if (i, j) in self._failed:
            return
        found = False
        for way in self._ways(i, j, bound):
            found = True
            yield way
            if not self._binds[i]:
                return
        if not found and self._final[i]:
            self._failed.add((i, j))

    def _ways(self, i: int, j: int, bound: Bindings) -> Iterator[tuple[Bindings, int]]:
        if i == len(self._patterns):
            if not self._whole or j == len(self._nodes):
                yield bound, j
            return
        name = self._many[i]
        if name is None:
            if j < len(self._nodes):
                for step in self._matcher.element(self._patterns[i], self._nodes[j], bound):
                    yield from self.ways(i + 1, j + 1, step)
            return
        kinds = _takes(self._patterns[i])
        last = len(self._nodes) - sum(n is None for n in self._many[i + 1 :])
        only = self._whole and not any(self._many[i + 1 :])
        for end in range(max(j, last) if only else j, last + 1):
            taken = list(self._nodes[j:end])
            if kinds and any(node.kind not in kinds for node in taken):
                return
            self._matcher.step()
            for step in _bind(name, taken, bound):
                yield from self.ways(i + 1, end, step)


def _many(pattern: Any) -> str | None:
    return metavariable(pattern.arg if isinstance(pattern, Parameter) else pattern, MANY)


def _names(pattern: Any) -> set[str]:
    """The metavariables that a part of a pattern remembers."""
    if isinstance(pattern, Parameter):
        parts = [pattern.arg, pattern.default]
        return set().union(*(_names(part) for part in parts if part is not None))
    if isinstance(pattern, str):
        pattern = ast.Name(pattern)
    found: set[str] = set()
    for node in ast.walk(pattern):
        for field in node._fields:
            value = getattr(node, field, None)
            for prefix in (ONE, MANY):
                if isinstance(value, str) and value.startswith(prefix):
                    found.add(value.removeprefix(prefix))
    return {name for name in found if not is_anonymous(name)}


# ------------------------------------------------------------------- parameters


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function: how it is passed, its name and annotation, its default.

    ``kind`` is ``positional`` (before a ``/``), ``plain``, ``*``, ``keyword`` or ``**``; the
    ``first`` of the keyword-only ones that follow a bare ``*`` says so.
    """

    kind: str
    arg: ast.arg
    default: ast.expr | None
    first: bool = False


def _takes(pattern: Any) -> tuple[str, ...]:
    """The kinds of parameter that a ``$...`` takes where it stands; none means any."""
    if not isinstance(pattern, Parameter):
        return ()
    return {"positional": ("positional",), "keyword": ("keyword", "**")}.get(pattern.kind, ())


def parameters(arguments: ast.arguments) -> list[Parameter]:
    """The parameters of a function, one by one."""
    plain = [*arguments.posonlyargs, *arguments.args]
    kinds = ["positional"] * len(arguments.posonlyargs) + ["plain"] * len(arguments.args)
    missing: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    found = [
        Parameter(kind, a, d)
        for kind, a, d in zip(kinds, plain, [*missing, *arguments.defaults], strict=True)
    ]
    if arguments.vararg:
        found.append(Parameter("*", arguments.vararg, None))
    found += [
        Parameter("keyword", a, d, not index and not arguments.vararg)
        for index, (a, d) in enumerate(
            zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        )
    ]
    if arguments.kwarg:
        found.append(Parameter("**", arguments.kwarg, None))
    return found


# --------------------------------------------------------------------- bindings


def is_anonymous(name: str) -> bool:
    """Whether a metavariable is ``$_`` or ``$...``; they are numbered, which names cannot be."""
    return name[:1].isdigit()


def _bind(name: str, value: Any, bound: Bindings) -> Iterator[Bindings]:
    if value is None:
        return
    if is_anonymous(name):
        yield bound
    elif name not in bound:
        yield {**bound, name: value}
    elif same(bound[name], value):
        yield bound


def same(left: Any, right: Any, instead: Mapping[Any, Any] | None = None) -> bool:
    """Whether two trees (or lists, or names) are the same code, wherever they stand.

    ``instead`` says what is to be found in the place of some nodes of ``left``. It never recurses:
    a chain of nine hundred attributes is a tree too.
    """
    pairs = [(left, right, True)]
    while pairs:
        one, other, live = pairs.pop()
        if live and instead and isinstance(one, ast.AST) and one in instead:
            one, live = instead[one], False
        if one is other:
            continue
        if isinstance(one, ast.Name) and isinstance(other, str):
            one = one.id  # so that a parameter and its use in the body are the same
        elif isinstance(one, str) and isinstance(other, ast.Name):
            other = other.id
        if type(one) is not type(other):
            return False
        if isinstance(one, ast.AST):
            pairs += [
                (getattr(one, f, None), getattr(other, f, None), live)
                for f in one._fields
                if f not in ("ctx", "type_comment", "kind", "type_ignores")
            ]
        elif isinstance(one, list):
            if len(one) != len(other):
                return False
            pairs += [(a, b, live) for a, b in zip(one, other, strict=True)]
        elif isinstance(one, Parameter):
            pairs += [(one.kind, other.kind, live), (one.arg, other.arg, live)]
        elif one != other and repr(one) != repr(other):
            return False
    return True
