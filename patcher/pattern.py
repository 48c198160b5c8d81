"""Patterns: Python code with metavariables, matched on the syntax tree.

``$X`` matches any one expression, statement or name; ``$...XS`` any number of them (arguments,
elements, parameters, statements), the fewest that will do; ``$_`` and ``$...`` match without
remembering. The same name twice must match the same code. Everything else must be there as written,
whatever the layout, comments, quotes or line wrapping::

    if self.is_dflash(): $...BODY
    $P.add_argument("--speculative-algorithm", $...BEFORE, choices=$LIST, $...AFTER)

What a pattern does not mention is left open: decorators, return annotations and the bases of a
class, annotations and defaults of parameters, an ``else``, the value of an annotated assignment.
Keyword arguments match in any order. Several statements match a run of them; runs do not overlap,
and the first one wins.
"""

from __future__ import annotations

import ast
import contextlib
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from patcher.guards import Guard, guards_of
from patcher.matching import (
    MANY,
    ONE,
    Bindings,
    Matcher,
    Parameter,
    TooManySteps,
    is_anonymous,
    metavariable,
)
from patcher.model import Site, UsageError
from patcher.source import Source

MATCH = "MATCH"
"""Binding that always holds the whole match."""

_TOKEN = re.compile(
    r"""(?P<string>[rbfu]*(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"""|(?P<comment>\#[^\n]*)"""
    r"""|\$(?P<many>\.\.\.)?(?P<name>[A-Z_][A-Z0-9_]*)?""",
    re.VERBOSE | re.IGNORECASE,
)


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
        found = self.nodes if name == MATCH and len(self.nodes) > 1 else self.bindings[name]
        if isinstance(found, str):
            return found
        if isinstance(found, ast.AST):
            return self.source.text(found)
        return sequence_text(self.source, found)


def sequence_text(source: Source, parts: Sequence[Any]) -> str:
    """What a ``$...`` took, as source text: statements as they stand, all else between commas."""
    if parts and all(isinstance(part, ast.stmt) for part in parts):
        start, end = source.span(parts[0])[0], source.span(parts[-1])[1]
        return source.data[start:end].decode()
    return ", ".join(_items(source, parts))


def _items(source: Source, parts: Sequence[Any]) -> Iterator[str]:
    before = ""
    for part in parts:
        if not isinstance(part, Parameter):
            yield source.text(part) if isinstance(part, ast.AST) else str(part)
            continue
        if before == "positional" != part.kind:
            yield "/"
        if part.kind == "keyword" and before not in ("keyword", "*") and part.first:
            yield "*"
        stars = part.kind if part.kind.startswith("*") else ""
        start, end = source.span(part.arg)[0], source.span(part.default or part.arg)[1]
        yield stars + source.data[start:end].decode()
        before = part.kind
    if before == "positional":
        yield "/"


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern. ``where`` narrows metavariables by regular expression (full match)."""

    text: str
    where: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rx in self.where.values():
            _check_regexp(rx)
        if unknown := set(self.where) - set(self.metavariables):
            raise PatternError(
                f"pattern {self.text!r} has no metavariable ${', $'.join(sorted(unknown))}",
                next_step="name in `where` only metavariables of the pattern",
            )

    @property
    def _compiled(self) -> _Compiled:
        return _compile(self.text)

    @property
    def metavariables(self) -> tuple[str, ...]:
        """Names of the metavariables, in the order in which they first appear."""
        return self._compiled[1]

    @property
    def literals(self) -> tuple[bytes, ...]:
        """Names and plain strings that a file with a match nearly always contains: a hint.

        A string can be written in parts or with escapes, and a name in other letters that Python
        takes for the same (NFKC), so none of them may rule a file out for good.
        """
        return self._compiled[2]

    @property
    def names(self) -> tuple[bytes, ...]:
        """Names that any file of ASCII bytes with a match contains: a sound pre-filter."""
        return self._compiled[3]

    def find(self, source: Source, scope: str | None = None) -> list[Match]:
        """All matches in a file, in document order.

        ``scope`` keeps those whose nearest enclosing class or function has that qualified name
        (``""``: at module level). Raises :class:`~patcher.source.Unreadable`.
        """
        if source.data.isascii() and not all(word in source.data for word in self.names):
            return []
        heads = self._compiled[0]
        matcher = Matcher()
        with self._bounded(source):
            if len(heads) > 1:
                found = list(self._runs(source, heads, matcher))
            else:
                found = list(self._single(source, heads[0], matcher))
        kept = [m for m in found if scope is None or source.scope_of(m.node) == scope]
        return sorted(kept, key=lambda m: (m.site.line, m.site.column))

    def fits(self, source: Source, node: ast.AST, bound: Mapping[str, Any]) -> bool:
        """Whether a one-piece pattern matches this very node, given what is bound already."""
        heads = self._compiled[0]
        matcher = Matcher()
        ways = matcher.node(heads[0], node, dict(bound))
        with self._bounded(source):
            found = self._first(source, ways, (node,), matcher)
            return len(heads) == 1 and any(True for _ in found)

    @contextlib.contextmanager
    def _bounded(self, source: Source) -> Iterator[None]:
        try:
            yield
        except (TooManySteps, RecursionError):
            raise PatternError(
                f"pattern {self.text!r} has too many ways to match in {source.path}",
                next_step="use fewer `$...` and metavariable keywords, or nest it less deeply",
            ) from None

    def _single(self, source: Source, head: ast.AST, matcher: Matcher) -> Iterator[Match]:
        kinds = _kinds_of(head)
        guards = self._guards if kinds else ()
        for node in source.nodes(*kinds) if kinds else _all_nodes(source, head):
            for read, test in guards:
                if not test(read(node)):
                    break
            else:
                yield from self._first(source, matcher.node(head, node, {}), (node,), matcher)

    @cached_property
    def _guards(self) -> tuple[Guard, ...]:
        """Cheap tests that every matching node passes: most nodes fail one, and cost no more."""
        return tuple(guards_of(self._compiled[0][0], (), self.where))

    def _runs(self, source: Source, heads: Sequence[ast.AST], matcher: Matcher) -> Iterator[Match]:
        for body in _bodies(source):
            start = 0
            while start < len(body):
                match = self._run_at(source, heads, body[start:], matcher)
                if match is not None:
                    yield match
                start += 1 if match is None else len(match.nodes)

    def _run_at(
        self, source: Source, heads: Sequence[ast.AST], body: list[ast.stmt], matcher: Matcher
    ) -> Match | None:
        for bindings, taken in matcher.prefixes(heads, body):
            if taken:
                nodes = tuple(body[:taken])
                for match in self._first(source, iter([bindings]), nodes, matcher):
                    return match
        return None

    def _first(
        self,
        source: Source,
        ways: Iterator[Bindings],
        nodes: tuple[ast.AST, ...],
        matcher: Matcher,
    ) -> Iterator[Match]:
        for bindings in ways:
            match = Match(source, nodes, {**bindings, MATCH: nodes[0]})
            if all(self._narrowed(match, name, matcher) for name in self.where):
                yield match
                return

    def _narrowed(self, match: Match, name: str, matcher: Matcher) -> bool:
        found = match.bindings[name]
        if isinstance(found, list):
            matcher.step(_READING * len(found))
        return re.fullmatch(self.where[name], match.text(name), re.DOTALL) is not None


_READING = 4
"""How many steps it takes to read the source text of one item."""

_Compiled = tuple[tuple[ast.AST, ...], tuple[str, ...], tuple[bytes, ...], tuple[bytes, ...]]
"""Nodes, metavariables, hints and names of a pattern."""


def substitute(template: str, match: Match) -> str:
    """Fill a template's metavariables with the source text that a match bound.

    Raises :class:`PatternError` for a metavariable that the match does not have.
    """
    code, names = encoded(template)
    unbound = [name for name in names if is_anonymous(name) or name not in match.bindings]
    if unbound:
        shown = "_" if is_anonymous(unbound[0]) else unbound[0]
        raise PatternError(
            f"template {template!r} uses ${shown}, which its anchor does not bind",
            next_step="use $MATCH or a metavariable of the anchor's pattern",
        )
    return PLACEHOLDER.sub(lambda found: match.text(found["name"]), code)


# -------------------------------------------------------------------- compiling

PLACEHOLDER = re.compile(rf"(?:{ONE}|{MANY})(?P<name>\w+)")
"""What a metavariable is while Python reads the code around it."""


def encoded(text: str, star: str = "", default: str = "") -> tuple[str, tuple[str, ...]]:
    """Code with a placeholder for every metavariable, and their names as they first appear.

    ``star`` and ``default`` go before and after those that stand for many. Raises PatternError for
    a ``$`` that begins no metavariable, and for one that is glued to other code.
    """
    names: dict[str, None] = {}

    def encode(token: re.Match[str]) -> str:
        if token["string"] or token["comment"]:
            return token.group()
        around = text[: token.start()][-1:], text[token.end() :][:1]
        if not token["many"] and not token["name"]:
            raise PatternError(
                f"a lone $ in {text!r}",
                next_step="write $NAME, $_ for any one node, or $... for any number",
            )
        if any(c == "$" or c.isidentifier() or c.isdigit() for c in around):
            raise PatternError(
                f"{token.group()} is glued to other code in {text!r}",
                next_step="a metavariable stands for a whole node: put a space around it",
            )
        name = token["name"] or "_"
        if name == "_":
            name = str(sum(map(is_anonymous, names)))
        names[name] = None
        if not token["many"]:
            return ONE + name
        in_list = text[token.end() :].lstrip()[:1] in (",", ")")
        return star + MANY + name + (default if in_list else "")

    return _TOKEN.sub(encode, text), tuple(names)


@lru_cache(maxsize=1024)
def _compile(text: str) -> _Compiled:
    code = textwrap.dedent(text).strip()
    plain, names = encoded(code)
    try:
        # after a keyword Python wants a star, after a parameter's default another default
        module = (
            _parse(plain)
            or _parse(encoded(code, star="*")[0])
            or _parse(encoded(code, default="=...")[0])
            or ast.parse(plain)
        )
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise PatternError(
            f"pattern is not Python: {reason} in {text!r}",
            next_step="a pattern is an expression or whole statements, with $X for any one node",
        ) from error
    heads: tuple[ast.AST, ...] = tuple(module.body)
    if not heads or all(metavariable(head, MANY) is not None for head in heads):
        raise PatternError(
            f"pattern {text!r} matches nothing in particular", next_step="write some code"
        )
    if len(heads) == 1 and isinstance(heads[0], ast.Expr):
        heads = (heads[0].value,)
    nodes = [node for head in heads for node in ast.walk(head)]
    words = {word for node in nodes for word in _names(node)}
    hints = words | {word for node in nodes for word in _strings(node)}
    shown = tuple(name for name in names if not is_anonymous(name))
    return heads, shown, _as_bytes(hints), _as_bytes(words)


def _as_bytes(words: set[str]) -> tuple[bytes, ...]:
    return tuple(sorted(word.encode() for word in words))


def _parse(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _names(node: ast.AST) -> Iterator[str]:
    for name in ("id", "attr", "name", "arg", "module"):
        value = getattr(node, name, None)
        if isinstance(value, str) and not value.startswith((ONE, MANY)):
            yield from value.split(".")


def _strings(node: ast.AST) -> Iterator[str]:
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[\w-]+", node.value, re.ASCII)
    ):
        yield node.value


@lru_cache(maxsize=1024)
def _check_regexp(rx: str) -> None:
    try:
        re.compile(rx, re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(
            f"`where` has a bad regular expression {rx!r}: {error}",
            next_step="mend it; it must match the whole text of the metavariable",
        ) from error
    if _REPEATED_REPEAT.search(rx):
        raise PatternError(
            f"`where` repeats a repetition in {rx!r}, which can take for ever",
            next_step="repeat it once: `(a+)+` matches what `a+` does",
        )


_REPEATED_REPEAT = re.compile(
    r"\((?:\?:|\?P<\w+>)?(?:\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\()\[\]|*+?{])[*+]\)(?:[*+]|\{\d+,\})"
)
"""A group of nothing but a repeated character (or class) that is itself repeated."""


def _kinds_of(head: ast.AST) -> tuple[type[ast.AST], ...]:
    if metavariable(head, ONE) is not None:
        return ()
    return (type(head),)


def _all_nodes(source: Source, head: ast.AST) -> Iterator[ast.AST]:
    base = ast.stmt if isinstance(head, ast.stmt) else ast.expr
    return (n for n in ast.walk(source.tree) if isinstance(n, base))


def _bodies(source: Source) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(source.tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body
