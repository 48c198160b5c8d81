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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from patcher.matching import (
    MANY,
    ONE,
    Bindings,
    Guard,
    guards_of,
    match_node,
    match_sequence,
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
                yield from self._first(source, match_node(head, node, {}), (node,))

    @cached_property
    def _guards(self) -> tuple[Guard, ...]:
        """Cheap tests that every matching node passes: most nodes fail one, and cost no more."""
        return tuple(guards_of(self._compiled[0][0], (), self.where))

    def _runs(self, source: Source, heads: Sequence[ast.AST]) -> Iterator[Match]:
        fixed = not any(metavariable(head, MANY) for head in heads)
        for body in _bodies(source):
            for start in range(len(body)):
                longest = len(body) - start
                for length in (len(heads),) if fixed else range(1, longest + 1):
                    run = body[start : start + length]
                    done = list(self._first(source, match_sequence(heads, run, {}), tuple(run)))
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
            return ONE + name
        in_list = code[token.end() :].lstrip()[:1] in (",", ")")
        return star + MANY + name + (default if in_list else "")

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
    if len(heads) == 1 and isinstance(heads[0], ast.Expr) and not metavariable(heads[0], MANY):
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
        if isinstance(value, str) and not value.startswith((ONE, MANY)):
            yield from value.split(".")
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[\w-]+", node.value, re.ASCII)
    ):
        yield node.value


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
