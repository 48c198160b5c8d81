"""Patterns: Python code with metavariables, matched on the syntax tree.

``$X`` matches any one expression, statement or name; ``$...XS`` any number of them (arguments,
elements, parameters, statements); ``$_`` and ``$...`` match without remembering. The same name
twice must match the same code. Everything else must be there as written, whatever the layout,
comments, quotes or line wrapping::

    if self.is_dflash(): $...BODY
    $P.add_argument("--speculative-algorithm", $...BEFORE, choices=$LIST, $...AFTER)

What a pattern does not mention is left open: decorators, return annotations and the bases of a
class, annotations and defaults of parameters, an ``else``, the value of an annotated assignment.
Keyword arguments match in any order.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from operator import attrgetter, eq
from typing import Any

from patcher.model import Site, UsageError
from patcher.source import Source

Bindings = dict[str, Any]
"""Metavariable name to what it matched: a node, a list of nodes, or a plain identifier."""

Guard = tuple[Callable[[Any], Any], Callable[[Any], object]]
"""Reads a part of a node, and tests it."""

MATCH = "MATCH"
"""Binding that always holds the whole match."""

_TOKEN = re.compile(
    r"""(?P<string>[rbfu]*(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"""|(?P<comment>\#[^\n]*)"""
    r"""|\$(?P<many>\.\.\.)?(?P<name>[A-Z_][A-Z0-9_]*)?""",
    re.VERBOSE | re.IGNORECASE,
)
_ONE, _MANY = "__ddp_one_", "__ddp_many_"

_OPEN_IF_ABSENT: dict[type[ast.AST], tuple[str, ...]] = {
    ast.FunctionDef: ("decorator_list", "returns"),
    ast.AsyncFunctionDef: ("decorator_list", "returns"),
    ast.ClassDef: ("decorator_list", "bases", "keywords"),
    ast.If: ("orelse",),
    ast.For: ("orelse",),
    ast.While: ("orelse",),
    ast.AnnAssign: ("value",),
}
_IGNORED = ("ctx", "type_comment", "type_params", "kind", "simple", "lineno", "col_offset")


class PatternError(UsageError):
    """A pattern that is not Python once its metavariables are filled in (exit 2)."""


@dataclass(frozen=True)
class Match:
    """One place where a pattern matched.

    ``nodes`` is one node, or the consecutive statements that a pattern of several statements took.
    """

    source: Source
    nodes: tuple[ast.AST, ...]
    bindings: Mapping[str, Any]

    @property
    def node(self) -> ast.AST:
        """The first matched node."""
        return self.nodes[0]

    @cached_property
    def site(self) -> Site:
        """Where the match stands."""
        return self.source.site(self.node)

    def bound(self, name: str) -> ast.AST:
        """The single node that a metavariable matched. Raises UsageError if it is not one."""
        found = self.bindings.get(name)
        if isinstance(found, ast.AST):
            return found
        have = ", ".join(f"${n}" for n in self.bindings if n != MATCH) or "none"
        raise UsageError(
            f"${name} does not stand for one node here",
            next_step=f"name one of the pattern's metavariables ({have})",
        )

    def text(self, name: str = MATCH) -> str:
        """Source text of a metavariable, or of the whole match."""
        found = self.bindings[name]
        if isinstance(found, str):
            return found
        if isinstance(found, ast.AST):
            return self.source.text(found)
        return ", ".join(_part(self.source, part) for part in found)


def _part(source: Source, part: object) -> str:
    if isinstance(part, ast.AST) and hasattr(part, "lineno"):
        return source.text(part)
    return str(part)


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern. ``where`` narrows metavariables by regular expression (full match)."""

    text: str
    where: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := set(self.where) - set(self.metavariables):
            raise PatternError(
                f"pattern {self.text!r} has no metavariable ${', $'.join(sorted(unknown))}",
                next_step="name in `where` only metavariables of the pattern",
            )

    @property
    def _compiled(self) -> tuple[tuple[ast.AST, ...], tuple[str, ...], tuple[bytes, ...]]:
        return _compile(self.text)

    @property
    def metavariables(self) -> tuple[str, ...]:
        """Names of the metavariables, in the order in which they first appear."""
        return self._compiled[1]

    @property
    def literals(self) -> tuple[bytes, ...]:
        """Words that any file with a match must contain: a byte pre-filter."""
        return self._compiled[2]

    def find(self, source: Source, scope: str | None = None) -> list[Match]:
        """All matches in a file, in document order.

        ``scope`` keeps those whose nearest enclosing class or function has that qualified name
        (``""``: at module level). Raises :class:`~patcher.source.Unreadable`.
        """
        if not all(word in source.data for word in self.literals):
            return []
        heads = self._compiled[0]
        found = self._runs(source, heads) if len(heads) > 1 else self._single(source, heads[0])
        kept = [m for m in found if scope is None or source.scope_of(m.node) == scope]
        return sorted(kept, key=lambda m: (m.site.line, m.site.column))

    def _single(self, source: Source, head: ast.AST) -> Iterator[Match]:
        kinds = _kinds_of(head)
        guards = self._guards if kinds else ()
        for node in source.nodes(*kinds) if kinds else _all_nodes(source, head):
            for read, test in guards:
                if not test(read(node)):
                    break
            else:
                yield from self._first(source, _node(head, node, {}), (node,))

    @cached_property
    def _guards(self) -> tuple[Guard, ...]:
        """Cheap tests that every matching node passes: most nodes fail one, and cost no more."""
        return tuple(_guards_of(self._compiled[0][0], "", self.where))

    def _runs(self, source: Source, heads: Sequence[ast.AST]) -> Iterator[Match]:
        fixed = not any(_name(head, _MANY) for head in heads)
        for body in _bodies(source):
            for start in range(len(body)):
                longest = len(body) - start
                for length in (len(heads),) if fixed else range(1, longest + 1):
                    run = body[start : start + length]
                    done = list(self._first(source, _sequence(heads, run, {}), tuple(run)))
                    if done:
                        yield from done
                        break

    def _first(
        self, source: Source, ways: Iterator[Bindings], nodes: tuple[ast.AST, ...]
    ) -> Iterator[Match]:
        for bindings in ways:
            match = Match(source, nodes, {**bindings, MATCH: nodes[0]})
            if all(re.fullmatch(rx, match.text(n), re.DOTALL) for n, rx in self.where.items()):
                yield match
                return


def substitute(template: str, match: Match) -> str:
    """Fill a template's metavariables with the source text that a match bound.

    Raises :class:`PatternError` for a metavariable that the match does not have.
    """

    def fill(token: re.Match[str]) -> str:
        if token["string"] or token["comment"]:
            return token.group()
        name = token["name"] or ""
        if name not in match.bindings:
            raise PatternError(
                f"template {template!r} uses ${name}, which its anchor does not bind",
                next_step="use $MATCH or a metavariable of the anchor's pattern",
            )
        return match.text(name)

    return _TOKEN.sub(fill, template)


# -------------------------------------------------------------------- compiling


@lru_cache(maxsize=1024)
def _compile(text: str) -> tuple[tuple[ast.AST, ...], tuple[str, ...], tuple[bytes, ...]]:
    code = textwrap.dedent(text).strip()
    names: list[str] = []
    anonymous = 0

    def encode(token: re.Match[str], star: str = "", default: str = "") -> str:
        nonlocal anonymous
        if token["string"] or token["comment"]:
            return token.group()
        name = token["name"] or "_"
        if not token["many"] and not token["name"]:
            raise PatternError(
                f"a lone $ in pattern {text!r}",
                next_step="write $NAME, $_ for any one node, or $... for any number",
            )
        if name == "_":
            anonymous += 1
            name = f"_{anonymous}"
        elif name not in names:
            names.append(name)
        if not token["many"]:
            return _ONE + name
        in_list = code[token.end() :].lstrip()[:1] in (",", ")")
        return star + _MANY + name + (default if in_list else "")

    try:
        # after a keyword Python wants a star, after a parameter's default another default
        module = (
            _parse(_TOKEN.sub(encode, code))
            or _parse(_TOKEN.sub(lambda t: encode(t, star="*"), code))
            or _parse(_TOKEN.sub(lambda t: encode(t, default="=..."), code))
            or ast.parse(_TOKEN.sub(encode, code))
        )
    except SyntaxError as error:
        raise PatternError(
            f"pattern is not Python: {error.msg} in {text!r}",
            next_step="a pattern is an expression or whole statements, with $X for any one node",
        ) from error
    heads: tuple[ast.AST, ...] = tuple(module.body)
    if not heads:
        raise PatternError("an empty pattern matches nothing", next_step="write some code")
    if len(heads) == 1 and isinstance(heads[0], ast.Expr) and not _name(heads[0], _MANY):
        heads = (heads[0].value,)
    literals = {word for head in heads for node in ast.walk(head) for word in _words(node)}
    return heads, tuple(names), tuple(sorted(w.encode() for w in literals))


def _parse(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except SyntaxError:
        return None


def _words(node: ast.AST) -> Iterator[str]:
    for name in ("id", "attr", "name", "arg", "module"):
        value = getattr(node, name, None)
        if isinstance(value, str) and not value.startswith((_ONE, _MANY)):
            yield from value.split(".")
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[\w-]+", node.value, re.ASCII)
    ):
        yield node.value


def _name(node: object, prefix: str) -> str | None:
    """The metavariable that a pattern node is, or None. Statements hold it as an expression."""
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.Starred):
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


def _kinds_of(head: ast.AST) -> tuple[type[ast.AST], ...]:
    if _name(head, _ONE) is not None:
        return ()
    return (type(head),)


def _guards_of(pattern: ast.AST, at: str, where: Mapping[str, str]) -> Iterator[Guard]:
    """What the names and node types of a pattern, outside lists, ask of a node; outermost first."""
    for name in pattern._fields:
        value = getattr(pattern, name, None)
        read = attrgetter(f"{at}{name}")
        if name in _IGNORED or isinstance(value, ast.arguments):
            continue
        if isinstance(value, str) and isinstance(pattern, ast.Constant | ast.Name):
            yield read, partial(eq, value)
        elif isinstance(value, str) and value.startswith(_ONE):
            if (rx := where.get(value.removeprefix(_ONE))) is not None:
                yield read, re.compile(rx, re.DOTALL).fullmatch
        elif isinstance(value, str) and not value.startswith(_MANY):
            yield read, partial(eq, value)
        elif isinstance(value, ast.expr) and not (_name(value, _ONE) or _name(value, _MANY)):
            yield read, partial(_is_a, type(value))
            yield from _guards_of(value, f"{at}{name}.", where)


def _is_a(kind: type[ast.AST], node: object) -> bool:
    return type(node) is kind


def _all_nodes(source: Source, head: ast.AST) -> Iterator[ast.AST]:
    base = ast.stmt if isinstance(head, ast.stmt) else ast.expr
    return (n for n in ast.walk(source.tree) if isinstance(n, base))


def _bodies(source: Source) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(source.tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body


# --------------------------------------------------------------------- matching


def _node(pattern: Any, node: Any, bound: Bindings) -> Iterator[Bindings]:
    """All ways in which a pattern node matches a node, as extended bindings."""
    name = _name(pattern, _ONE)
    if name is not None:
        if isinstance(node, ast.keyword):
            return
        expression = isinstance(pattern, ast.Expr) and isinstance(node, ast.Expr)
        yield from _bind(name, node.value if expression else node, bound)
        return
    if isinstance(pattern, ast.Expr) and not isinstance(node, ast.Expr):
        return
    if isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
        yield from _call(pattern, node, bound)
        return
    if isinstance(pattern, ast.arguments) and isinstance(node, ast.arguments):
        yield from _sequence(_parameters(pattern), _parameters(node), bound)
        return
    if isinstance(pattern, ast.AST):
        if type(pattern) is not type(node):
            return
        open_fields = _OPEN_IF_ABSENT.get(type(pattern), ())
        names = [
            f
            for f in pattern._fields
            if f not in _IGNORED and not (f in open_fields and not getattr(pattern, f, None))
        ]
        yield from _fields(pattern, node, names, bound)
        return
    if isinstance(pattern, list):
        if isinstance(node, list):
            yield from _sequence(pattern, node, bound)
        return
    if pattern == node and type(pattern) is type(node):
        yield bound


def _fields(
    pattern: ast.AST, node: ast.AST, names: list[str], bound: Bindings
) -> Iterator[Bindings]:
    if not names:
        yield bound
        return
    if names[0] in ("orelse", "finalbody") and not getattr(node, names[0]):
        if not getattr(pattern, names[0]):
            yield from _fields(pattern, node, names[1:], bound)
        return
    for step in _node(getattr(pattern, names[0], None), getattr(node, names[0], None), bound):
        yield from _fields(pattern, node, names[1:], step)


def _sequence(patterns: Sequence[Any], nodes: Sequence[Any], bound: Bindings) -> Iterator[Bindings]:
    if not patterns:
        if not nodes:
            yield bound
        return
    name = _name(patterns[0], _MANY)
    if name is None and isinstance(patterns[0], _Parameter):
        name = _name(patterns[0].arg, _MANY)
    if name is not None:
        for taken in range(len(nodes) + 1):
            for step in _bind(name, list(nodes[:taken]), bound):
                yield from _sequence(patterns[1:], nodes[taken:], step)
        return
    if not nodes:
        return
    for step in _one(patterns[0], nodes[0], bound):
        yield from _sequence(patterns[1:], nodes[1:], step)


def _one(pattern: Any, node: Any, bound: Bindings) -> Iterator[Bindings]:
    if isinstance(pattern, _Parameter):
        assert isinstance(node, _Parameter)
        yield from pattern.match(node, bound)
    else:
        yield from _node(pattern, node, bound)


def _call(pattern: ast.Call, node: ast.Call, bound: Bindings) -> Iterator[Bindings]:
    """Positional arguments in order, keywords in any; a last ``$...`` takes the rest of both."""
    open_end = bool(pattern.args) and _name(pattern.args[-1], _MANY) is not None
    for step in _node(pattern.func, node.func, bound):
        for after, left in _keywords(pattern.keywords, node.keywords, step):
            if open_end or not left:
                yield from _sequence(pattern.args, [*node.args, *left], after)


def _keywords(
    patterns: Sequence[ast.keyword], nodes: Sequence[ast.keyword], bound: Bindings
) -> Iterator[tuple[Bindings, list[ast.keyword]]]:
    """All ways to find the wanted keywords, each with those that are left over."""
    if not patterns:
        yield bound, list(nodes)
        return
    for index, node in enumerate(nodes):
        for named in _node(patterns[0].arg, node.arg, bound):
            for step in _node(patterns[0].value, node.value, named):
                others = [*nodes[:index], *nodes[index + 1 :]]
                yield from _keywords(patterns[1:], others, step)


@dataclass(frozen=True)
class _Parameter:
    """One parameter of a function: how it is passed, its name and annotation, its default."""

    kind: str
    arg: ast.arg
    default: ast.expr | None

    def match(self, node: _Parameter, bound: Bindings) -> Iterator[Bindings]:
        if self.kind != node.kind:
            return
        for step in _node(self.arg.arg, node.arg.arg, bound):
            for noted in (
                _node(self.arg.annotation, node.arg.annotation, step)
                if self.arg.annotation
                else iter([step])
            ):
                yield from (
                    _node(self.default, node.default, noted) if self.default else iter([noted])
                )


def _parameters(arguments: ast.arguments) -> list[_Parameter]:
    plain = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    found = [
        _Parameter("plain", a, d)
        for a, d in zip(plain, [*missing, *arguments.defaults], strict=True)
    ]
    if arguments.vararg:
        found.append(_Parameter("*", arguments.vararg, None))
    found += [
        _Parameter("keyword", a, d)
        for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        found.append(_Parameter("**", arguments.kwarg, None))
    return found


def _bind(name: str, value: Any, bound: Bindings) -> Iterator[Bindings]:
    if value is None:
        return
    if re.fullmatch(r"_\d+", name):
        yield bound
        return
    if name in bound:
        if _same(bound[name], value):
            yield bound
        return
    yield {**bound, name: value}


def _same(left: Any, right: Any) -> bool:
    return _dump(left) == _dump(right)


def _dump(value: Any) -> str:
    if isinstance(value, ast.Name):
        return value.id  # so that a parameter and its use in the body are the same
    if isinstance(value, ast.AST):
        return re.sub(r", ctx=\w+\(\)|ctx=\w+\(\)", "", ast.dump(value))
    if isinstance(value, _Parameter):
        return f"{value.kind}{_dump(value.arg)}"
    if isinstance(value, list):
        return ",".join(_dump(v) for v in value)
    return str(value)
