"""One pass over a tree that answers every query, and says what it looked at.

A query is a module of this package that exports ``QUERY``; adding one is adding a file. Files are
read once, ruled out by their bytes where no query can have an answer in them, and parsed once for
all queries that are left. What is kept between runs is keyed by this engine and the content read,
so a patched tree costs its changed files only and a known tree costs no file at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import pkgutil
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache as memo
from pathlib import Path
from types import ModuleType

import patcher.source
from inventory._cache import Cache
from inventory._order import ordered, place
from inventory._second import WORTH_IT, Second, available, halves
from inventory.model import Coverage, FileAnswer, Inventory, Query, Row
from patcher.collector import collector_paused
from patcher.source import Source, Unreadable
from patcher.tree import Tree

_READERS = ("guards", "matching", "model", "pattern", "source", "tree")
"""The modules of ``patcher`` that decide what a query sees."""

_RUNTIME = "sglang/srt/"
_EDGES = re.compile(rb"^\W+|\W+$")
_FAMILY = "sglang/srt/speculative/"

Progress = Callable[[int, int], None]
"""Told how many of how many files are done."""


def discover(package: ModuleType) -> tuple[Query, ...]:
    """The ``QUERY`` of every public module of a package, by id.

    Raises ValueError when a public module has none, or two share an id.
    """
    found: dict[str, Query] = {}
    for info in pkgutil.iter_modules(package.__path__):
        if info.name.startswith("_") or info.name == "model":
            continue
        query = getattr(importlib.import_module(f"{package.__name__}.{info.name}"), "QUERY", None)
        if not isinstance(query, Query):
            raise ValueError(f"{package.__name__}.{info.name} exports no QUERY")
        if query.id in found:
            raise ValueError(f"two queries are called {query.id!r}")
        found[query.id] = query
    return tuple(found[name] for name in sorted(found))


def run(
    tree: Tree,
    queries: Sequence[Query],
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> Inventory:
    """Answer ``queries`` about every Python file of ``tree``.

    Every file is counted once: parsed, ruled out by its bytes, or unreadable with the reason.
    """
    identity = fingerprint(queries)
    if cache is not None:
        known = cache.tree(identity, tree.digest)
        if known is not None:
            return replace(known, version=tree.facts.version)
    answers = _answers(tree, queries, identity, cache, progress)
    inventory = _resolve(_completed(tree, queries, answers), queries)
    inventory = replace(inventory, missing=_missing(inventory, tree, queries))
    if cache is not None:
        cache.put_tree(identity, inventory)
    return inventory


def _answers(
    tree: Tree,
    queries: Sequence[Query],
    identity: str,
    cache: Cache | None,
    progress: Progress | None,
) -> dict[str, FileAnswer]:
    paths = tree.python_files()
    keys = {p: (p, tree.files[p].sha256) for p in paths}
    answers: dict[str, FileAnswer] = {}
    if cache is not None:
        answers = cache.files(identity, keys)
    todo = [path for path in paths if path not in answers]
    told = _Told(progress, len(answers), len(paths))
    with contextlib.ExitStack() as stack:
        stack.enter_context(collector_paused())
        second: Second | None = None
        if len(todo) >= WORTH_IT and available() and _all_of(queries):
            second = stack.enter_context(Second())
        fresh = _fresh(tree, todo, queries, second, told)
    if cache is not None:
        cache.put_files(identity, {keys[p]: a for p, a in fresh.items()})
    return answers | fresh


def _completed(
    tree: Tree, queries: Sequence[Query], answers: Mapping[str, FileAnswer]
) -> Inventory:
    """All rows, also of files that only the names of this very tree show to have some.

    The words of a query hold for all known releases, so there is rarely such a name.
    """
    asked: set[tuple[str, str]] = set()
    while True:
        raw = _collect(tree, queries, answers)
        names = {query: found for query in queries if (found := _beyond_words(query, raw))}
        more: dict[str, FileAnswer] = {}
        for path in tree.python_files() if names else ():
            source = Source(path, tree.read(path))
            again = [
                query
                for query, found in names.items()
                if (path, query.id) not in asked
                and any(name in source.data for name in found)
                and not wanted(source, [query])
            ]
            if again:
                asked.update((path, query.id) for query in again)
                more[path] = _merged(answers[path], _asked(source, again))
        if not more:
            return raw
        answers = {**answers, **more}


def _beyond_words(query: Query, raw: Inventory) -> list[bytes]:
    """The names that a file can contain without a word of the query."""
    if query.names is None:
        return []
    return sorted(
        {
            name
            for name in query.names(raw)
            if not any(word in name for word in query.prefilter)
            and not any(word in name.lower() for word in query.prefilter_any_case)
        }
    )


def _merged(answer: FileAnswer, more: FileAnswer) -> FileAnswer:
    return replace(more, rows={**answer.rows, **more.rows})


def _fresh(
    tree: Tree,
    paths: Sequence[str],
    queries: Sequence[Query],
    second: Second | None,
    told: _Told,
) -> dict[str, FileAnswer]:
    found: dict[str, FileAnswer] = {}
    left: list[Source] = []
    for path in paths:
        source = Source(path, tree.read(path))
        if wanted(source, queries):
            left.append(source)
        else:
            found[path] = FileAnswer("ruled-out")
            told.one()
    given: list[Source] = []
    if second is not None:
        left, given = halves(left)
        second.give(given)
    while left:
        source = left.pop()
        found[source.path] = ask(source, queries)
        told.one()
    answered = second.take() if second is not None else {}
    for source in given:
        found[source.path] = answered.get(source.path) or ask(source, queries)
        told.one()
    return found


class _Told:
    """Counts the files that are done, for whoever wants to know."""

    def __init__(self, progress: Progress | None, known: int, total: int) -> None:
        self._progress, self._done, self._total = progress, 0, total
        for _ in range(known):
            self.one()

    def one(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


def _all_of(queries: Sequence[Query]) -> bool:
    """Whether these are the package's own queries, which a second process has too."""
    import inventory

    return tuple(queries) == inventory.QUERIES


def wanted(source: Source, queries: Sequence[Query]) -> list[Query]:
    """The queries that a file may have an answer to, by its path and bytes alone."""
    words = _present(source.data, _words(tuple(queries)))
    return [
        query
        for query in queries
        if not words.isdisjoint(_words_of(query)) or any(p in source.path for p in query.paths)
    ]


@memo
def _words_of(query: Query) -> frozenset[bytes]:
    return frozenset(query.prefilter) | {_any_case(word) for word in query.prefilter_any_case}


def _any_case(word: bytes) -> bytes:
    """A word whose letters may be of either case, told apart from the same in small letters."""
    return b"\0" + word


def ask(source: Source, queries: Sequence[Query]) -> FileAnswer:
    """What one file alone answers to each query that its bytes do not rule out."""
    asking = wanted(source, queries)
    return _asked(source, asking) if asking else FileAnswer("ruled-out")


def _asked(source: Source, asking: Sequence[Query]) -> FileAnswer:
    try:
        _ = source.tree
    except Unreadable as error:
        return FileAnswer("unreadable", error.reason)
    rows = {query.id: tuple(query.visit(source)) for query in asking}
    return FileAnswer("parsed", rows={name: found for name, found in rows.items() if found})


def _present(data: bytes, words: Mapping[bytes, tuple[bytes, ...]]) -> set[bytes]:
    """The pre-filter words that the bytes contain; each is looked for where its root is."""
    folded = data.lower()
    return {
        word
        for root, spelt in words.items()
        if root in folded
        for word in spelt
        if (word[1:] in folded if word.startswith(b"\0") else word in data)
    }


@memo
def _words(queries: tuple[Query, ...]) -> dict[bytes, tuple[bytes, ...]]:
    """All pre-filter words by root: the fewest lower-case parts that rule a file out."""
    words = frozenset[bytes]().union(*map(_words_of, queries))
    folded = {_EDGES.sub(b"", word.lower()) for word in words}
    roots = sorted(w for w in folded if not any(other in w for other in folded - {w}))
    return {root: tuple(w for w in sorted(words) if root in w.lower()) for root in roots}


def _collect(tree: Tree, queries: Sequence[Query], answers: Mapping[str, FileAnswer]) -> Inventory:
    rows: dict[str, list[Row]] = {q.id: [] for q in queries}
    for path in sorted(answers):
        for name, found in answers[path].rows.items():
            rows[name] += found
    states = [a.state for a in answers.values()]
    coverage = Coverage(
        seen=len(tree.python_files()),
        parsed=states.count("parsed"),
        ruled_out=states.count("ruled-out"),
        unreadable={p: answers[p].reason for p in sorted(answers) if answers[p].reason},
    )
    in_place = {name: tuple(sorted(some, key=place)) for name, some in rows.items()}
    return Inventory(tree.facts.version, tree.digest, coverage, in_place)


def _resolve(raw: Inventory, queries: Sequence[Query]) -> Inventory:
    rows: dict[str, Sequence[Row]] = dict(raw.rows)
    for query in queries:
        if query.resolve is not None:
            rows[query.id] = tuple(query.resolve(raw.rows[query.id], raw))
    return replace(raw, rows={query.id: ordered(query, rows[query.id]) for query in queries})


def _missing(inventory: Inventory, tree: Tree, queries: Sequence[Query]) -> tuple[str, ...]:
    """The expected anchors that are nowhere; a tree without the runtime expects none."""
    paths = tree.python_files()
    if not any(path.startswith(_RUNTIME) for path in paths):
        return ()
    if not any(path.startswith(_FAMILY) for path in paths):
        return (_FAMILY,)
    return tuple(
        name
        for query in queries
        for name, fields in query.expects.items()
        if not any(inventory.where(query.id, **fields))
    )


def fingerprint(queries: Sequence[Query]) -> str:
    """Identity of the code that gives the answers: cached ones of another are not used."""
    total = hashlib.sha256(_code_digest())
    total.update("\0".join(q.id for q in queries).encode())
    return total.hexdigest()


@memo
def _code_digest() -> bytes:
    total = hashlib.sha256(platform.python_version().encode())
    here = sorted(Path(__file__).parent.glob("*.py"))
    home = Path(patcher.source.__file__).parent
    shared = [home / f"{name}.py" for name in _READERS]
    for path in [*here, *(path for path in shared if path.is_file())]:
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.digest()
