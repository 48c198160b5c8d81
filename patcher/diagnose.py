"""Why an anchor is gone: the nearest code with a score, and where a symbol went."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from patcher.model import Candidate
from patcher.pattern import Pattern
from patcher.source import Source, Unreadable
from patcher.tree import Tree

SHOWN = 3
"""How many candidates a finding carries."""

_FLOOR = 0.35
_TELLING = 6
_METAVARIABLE = re.compile(r"\$(?:\.\.\.)?\w*")


def nearest(source: Source, pattern: str, scope: str | None) -> tuple[Candidate, ...]:
    """Statements that look most like the pattern: in its scope first, then in the whole file.

    The score is ``difflib``'s ratio between the pattern's first line without its metavariables and
    the statement's first line; below 0.35 nothing is worth showing.
    """
    wanted = _bare(pattern)
    found: list[tuple[float, Candidate]] = []
    for statement in _statements(source):
        text = _first_line(source, statement)
        score = SequenceMatcher(None, wanted, text, autojunk=False).ratio()
        if score < _FLOOR:
            continue
        inside = scope is None or source.scope_of(statement) == scope
        site = source.site(statement)
        candidate = Candidate(site, round(score, 2), text)
        found.append((score + (0.1 if inside else 0.0), candidate))
    found.sort(key=lambda pair: (-pair[0], pair[1].site.line))
    return tuple(candidate for _, candidate in found[:SHOWN])


def where_is(tree: Tree, scope: str, pattern: str) -> tuple[Candidate, ...]:
    """Files that define the scope (score 1.0), or its last part (0.8), or match the pattern (0.6).

    For an anchor whose file or scope is gone: the symbol usually moved, and this says where. A
    pattern without a telling word would match everywhere, and is not looked for.
    """
    found: list[Candidate] = []
    name = scope.rpartition(".")[2]
    if not name and not any(len(word) >= _TELLING for word in Pattern(pattern).literals):
        return ()
    for path in tree.python_files():
        data = tree.read(path)
        if name and name.encode() not in data:
            continue
        if not name and not all(word in data for word in Pattern(pattern).literals):
            continue
        try:
            found += _homes(tree.source(path), scope, name, pattern)
        except Unreadable:
            continue  # the coverage line of the inventory names such files
    found.sort(key=lambda c: (-c.score, c.site.path, c.site.line))
    return tuple(found[:SHOWN])


def _homes(source: Source, scope: str, name: str, pattern: str) -> Iterator[Candidate]:
    if not name:
        for match in Pattern(pattern).find(source):
            yield Candidate(match.site, 0.6, match.text().split("\n")[0])
        return
    for qualified, node in source.scopes.items():
        if qualified == scope or node.name == name:
            score = 1.0 if qualified == scope else 0.8
            yield Candidate(source.site(node), score, _first_line(source, node))


def _statements(source: Source) -> Iterator[ast.stmt]:
    return (n for n in ast.walk(source.tree) if isinstance(n, ast.stmt))


def _first_line(source: Source, statement: ast.stmt) -> str:
    line = source.lines(statement.lineno, statement.lineno)
    return line.decode(errors="replace").strip()


def _bare(pattern: str) -> str:
    first = next((line for line in pattern.strip().split("\n") if line.strip()), "")
    return _METAVARIABLE.sub("", first).strip()
