"""Proof that an edit does what was meant, and nothing else: Python reads the result.

Each edit says what tree its place has afterwards, and writes bytes. The lines around the place are
read again with those bytes in, and must give that tree: every statement and expression as it was,
and exactly the new ones. Where LibCST has moved commas about, every comment must still stand
beside what it stood beside.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Mapping, Sequence

from patcher.changes import Conflict, Splice
from patcher.matching import same
from patcher.model import Finding
from patcher.source import Source, Unreadable, first_node

_SKIPPED = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def flaw(
    source: Source,
    around: Sequence[ast.stmt],
    one: Splice,
    meant: Sequence[ast.stmt],
    instead: Mapping[ast.AST, ast.AST] | None = None,
    *,
    comments: bool = False,
) -> str:
    """Why a splice is not what was meant; empty if it is.

    ``around`` are the statements, on whole lines of their own, in or beside which the splice lies;
    ``meant`` are the statements that must stand there then, with ``instead`` in the place of some
    of their nodes; with ``comments``, those too must stay where they are.
    """
    first, last = first_node(around[0]).lineno, around[-1].end_lineno or around[-1].lineno
    start = min(source.line_start(first), one.start)
    end = max(source.line_start(last + 1), one.end)
    old = source.data[start:end]
    new = source.data[start : one.start] + one.data + source.data[one.end : end]
    nested = bool(source.indent(around[0]))
    try:
        body = _read(source, new, nested)
    except Unreadable as error:
        return f"the result is not Python: {error.reason}"
    if not same(list(meant), body, instead):
        return "the result would be read as something else than what was meant"
    if comments and _comments(source, old, nested) != _comments(source, new, nested):
        return "a comment would be lost, or stand beside other code"
    return ""


def _read(source: Source, lines: bytes, nested: bool) -> list[ast.stmt]:
    body = Source(source.path, _alone(source, lines, nested)).tree.body
    if not nested:
        return body
    (head,) = body if len(body) == 1 else [ast.Pass()]
    if not isinstance(head, ast.If) or head.orelse:
        raise Unreadable(source.path, "it does not end where its block does")
    return head.body


def _alone(source: Source, lines: bytes, nested: bool) -> bytes:
    return b"if 1:" + source.newline + lines if nested else lines


def _comments(source: Source, lines: bytes, nested: bool) -> list[tuple[str, str]] | None:
    """Each comment with the token that it belongs to: before it on its line, or else after it."""
    try:
        tokens = list(tokenize.tokenize(io.BytesIO(_alone(source, lines, nested)).readline))
    except (SyntaxError, tokenize.TokenError):
        return None
    found: list[tuple[str, str]] = []
    waiting: list[str] = []
    last = tokens[0]
    for token in tokens:
        if token.type == tokenize.COMMENT:
            if last.end[0] == token.start[0]:
                found.append((token.string, f"after {last.string}"))
            else:
                waiting.append(token.string)
        elif token.type not in _SKIPPED and token.string != ",":
            found += [(text, f"before {token.string}") for text in waiting]
            waiting = []
            last = token
    return found + [(text, "at the end") for text in waiting]


def disjoint(source: Source, splices: Iterable[Splice]) -> tuple[Splice, ...]:
    """The splices of one edit. Raises Conflict where its places lie within each other."""
    found = tuple(splices)
    at, before = 0, (-1, -1)
    for one in sorted(found, key=lambda s: (s.start, s.end)):
        if one.start < at or (one.start, one.end) == before:
            site = source.site_at(one.start, one.end)
            raise Conflict(
                Finding(
                    code="edit.overlap",
                    message=f"{site}: two places of one edit overlap",
                    site=site,
                    expected="places apart from each other",
                    found=one.data.decode(errors="replace").strip() + " where another one goes",
                    next_step="narrow the anchor, or edit what holds them both",
                )
            )
        at, before = one.end, (one.start, one.end)
    return found


def refused(source: Source, node: ast.AST, reason: str, next_step: str = "") -> Conflict:
    """The conflict that says why an edit cannot be made at a place."""
    site = source.site(node)
    return Conflict(
        Finding(
            code="edit.region",
            message=f"{site}: {reason}",
            site=site,
            expected="the same code, with exactly what the edit brings",
            found=source.lines(site.line, site.line).decode(errors="replace").strip(),
            next_step=next_step or "adapt the edit, or the anchor",
        )
    )
