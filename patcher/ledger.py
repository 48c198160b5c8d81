"""The dispatch ledger: for every place that branches on what a set extends, what was decided.

It is to a patch set what exhaustiveness checking is to a ``match``: a release with a place that
the ledger does not know is incomplete, whatever else applies. Entries are keyed by path, qualified
name and symbol; there are no wildcards, so that a new place cannot hide behind an old entry.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from inventory.model import Row
from patcher.model import Finding, UsageError
from patcher.patchset import PatchSet
from patcher.probe import Subject

_FILE = "ledger.toml"
_KEYS = {"path", "scope", "symbols", "sites", "status", "patches", "why"}

Key = tuple[str, str, str]
"""Path, qualified name, symbol."""


class Status(StrEnum):
    """What was decided about a place."""

    PATCHED = "patched"
    INHERITED = "inherited"
    NOT_NEEDED = "not-needed"


@dataclass(frozen=True, slots=True)
class Entry:
    """One decision: ``patches`` for what is patched, else ``why`` with the reason.

    ``sites`` are the numbers of places that were decided about together, in the releases that were
    looked at: one more place of the same symbol in the same scope is a new one.
    """

    key: Key
    status: Status
    sites: tuple[int, ...]
    patches: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Ledger:
    """All decisions of a set, by place."""

    entries: Mapping[Key, Entry] = field(default_factory=dict)

    def gaps(self, rows: list[Row]) -> Iterator[Finding]:
        """Findings for the places that nobody has decided about, one per ledger key."""
        places: dict[Key, list[Row]] = {}
        for row in rows:
            places.setdefault(key_of(row), []).append(row)
        for key, found in places.items():
            entry = self.entries.get(key)
            if entry is None:
                yield _undecided(found[0])
            elif len(found) not in entry.sites:
                yield _recounted(entry, found)


def key_of(row: Row) -> Key:
    """The ledger key of a dispatch row."""
    return (row.site.path, row.site.scope, str(row.fields["symbol"]))


def dispatch_rows(patch_set: PatchSet, subject: Subject) -> list[Row]:
    """The rows of the ``dispatch`` query that the set's ledger has to know."""
    return [
        row
        for row in subject.inventory.of("dispatch")
        if any(_falls_under(row, rule) for rule in patch_set.dispatch)
    ]


def _falls_under(row: Row, rule: Mapping[str, str]) -> bool:
    fields = {"path": row.site.path, "scope": row.site.scope, **row.fields}
    return all(_matches(fields.get(name), pattern) for name, pattern in rule.items())


def _matches(value: object, pattern: str) -> bool:
    parts = value if isinstance(value, tuple) else (value,)
    return any(re.fullmatch(pattern, str(part)) for part in parts)


def load_ledger(patch_set: PatchSet) -> Ledger:
    """Read a set's ``ledger.toml``; a set without one has an empty ledger.

    Raises UsageError for an unknown key or status, a patch that is not in the set, an entry
    without a reason, or two entries for one place.
    """
    path = patch_set.folder / _FILE
    if not path.is_file():
        return Ledger()
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{_FILE} of set {patch_set.name}: {error}") from error
    entries: dict[Key, Entry] = {}
    patches = {p.id for p in patch_set.patches}
    for row in document.get("site", []):
        for entry in _entries(row, patches, patch_set.name):
            if entry.key in entries:
                raise _bad(patch_set.name, row, "is decided twice")
            entries[entry.key] = entry
    return Ledger(entries)


def _entries(row: Mapping[str, object], patches: set[str], set_name: str) -> Iterator[Entry]:
    if extra := set(row) - _KEYS:
        raise _bad(set_name, row, f"has unknown keys: {', '.join(sorted(extra))}")
    try:
        status = Status(str(row["status"]))
        path, scope, symbols = str(row["path"]), str(row["scope"]), row["symbols"]
        sites = tuple(int(n) for n in _strings(row["sites"]))
    except (KeyError, ValueError) as error:
        raise _bad(set_name, row, f"is not complete: {error}") from error
    named, why = tuple(_strings(row.get("patches", []))), str(row.get("why", ""))
    if missing := set(named) - patches:
        raise _bad(set_name, row, f"names {', '.join(missing)}, which the set does not have")
    if (status is Status.PATCHED) != bool(named):
        raise _bad(set_name, row, "must name its patches if it is patched, and only then")
    if status is not Status.PATCHED and not why:
        raise _bad(set_name, row, "gives no reason")
    for symbol in _strings(symbols):
        yield Entry((path, scope, symbol), status, sites, named, why)


def _strings(value: object) -> list[str]:
    return [str(v) for v in value] if isinstance(value, list) else [str(value)]


def _bad(set_name: str, row: Mapping[str, object], what: str) -> UsageError:
    where = f"{row.get('path', '?')} · {row.get('scope', '?')}"
    return UsageError(
        f"ledger of set {set_name}: the entry for {where} {what}",
        next_step=f"mend it in {_FILE}",
    )


def _recounted(entry: Entry, rows: list[Row]) -> Finding:
    path, scope, symbol = entry.key
    lines = ", ".join(str(row.site.line) for row in rows)
    return Finding(
        code="dispatch.recounted",
        message=f"{path} ({scope}) decides on {symbol} {len(rows)} time(s): lines {lines}",
        level="dispatch",
        site=rows[-1].site,
        expected=f"{' or '.join(map(str, entry.sites))} place(s), as the ledger has it",
        found=str(rows[-1].fields.get("test", symbol)),
        next_step=f"see whether the decision holds for all of them, and add the number to {_FILE}",
    )


def _undecided(row: Row) -> Finding:
    path, scope, symbol = key_of(row)
    return Finding(
        code="dispatch.undecided",
        message=f"{path}:{row.site.line} ({scope}) decides on {symbol}: the ledger has no entry",
        level="dispatch",
        site=row.site,
        expected="an entry: patched, inherited, or not-needed with a reason",
        found=str(row.fields.get("test", symbol)),
        next_step=f"decide, and add path, scope and symbol to {_FILE}",
    )
