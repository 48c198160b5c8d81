"""Records of the inventory: queries, rows that point at code, and what was covered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patcher.model import Site
from patcher.source import Source

Value = str | int | bool | tuple[str, ...]
"""What a row's field may hold; tuples become JSON arrays."""


PLACE = ("path", "line", "column", "end_line", "scope")
"""What every row has, so no query may call a column like that."""


@dataclass(frozen=True, slots=True)
class Row:
    """One classified place in the code: where it is, and what it is, by the query's columns."""

    site: Site
    fields: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Case:
    """An example that a query must answer: files in, the rows' fields (and lines) out."""

    title: str
    files: Mapping[str, str]
    rows: Sequence[Mapping[str, Value]]


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A question that is asked of every release.

    ``prefilter`` are byte strings of which a file must contain at least one to be parsed at all
    (or of ``prefilter_any_case``, lower-case words whose letters may be of either case), unless its
    path contains one of ``paths``. ``names`` tells what else a file may contain to have an answer,
    from all that was found so far: the names that a release itself gives. ``visit`` yields the rows
    of one file (and must depend on that file alone, so that its answer can be kept by content
    hash); ``resolve`` may then add or drop rows and fields by what all queries and files together
    say (who imports, who calls).

    ``columns`` stand in the order in which they answer the question. ``order`` names columns, and
    of each the values that come first (none: by the alphabet, or the greatest number first); rows
    that are equal in this go from the speculative package outwards, and then by file and place.
    ``expects`` are the anchors that every release has, each with the fields of a row that shows
    it: one that is nowhere means that the code has moved on, and that rows may be lost.
    """

    id: str
    title: str
    why: str
    columns: Mapping[str, str]
    prefilter: tuple[bytes, ...]
    visit: Callable[[Source], Iterable[Row]]
    resolve: Callable[[Sequence[Row], Inventory], Iterable[Row]] | None = None
    cases: tuple[Case, ...] = ()
    paths: tuple[str, ...] = ()
    order: tuple[tuple[str, tuple[str, ...]], ...] = ()
    expects: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    prefilter_any_case: tuple[bytes, ...] = ()
    names: Callable[[Inventory], Iterable[bytes]] | None = None


@dataclass(frozen=True, slots=True)
class FileAnswer:
    """What one file alone answered: ``state`` is parsed, ruled-out or unreadable (``reason``)."""

    state: str
    reason: str = ""
    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the inventory looked at: ``seen == parsed + ruled_out + len(unreadable)``."""

    seen: int
    parsed: int
    ruled_out: int
    unreadable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The answers of all queries about one tree, with what was covered.

    ``missing`` are the anchors that its queries expect of every release and that are nowhere.
    """

    version: str
    digest: str
    coverage: Coverage
    rows: Mapping[str, tuple[Row, ...]]
    missing: tuple[str, ...] = ()

    def of(self, query: str) -> tuple[Row, ...]:
        """Rows of one query. Raises KeyError for a query that does not exist."""
        return self.rows[query]

    def where(self, query: str, **fields: Any) -> Iterator[Row]:
        """Rows of a query whose fields (or ``path``, ``scope``) equal the given values."""
        for row in self.of(query):
            have = {"path": row.site.path, "scope": row.site.scope, **row.fields}
            if all(have.get(name) == value for name, value in fields.items()):
                yield row
