"""What an edit does to a file, and what a whole patch set does to a tree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from patcher.model import Finding
from patcher.source import Source


class Conflict(Exception):
    """An edit that cannot be made exactly as declared; carries the findings that say why."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__("; ".join(f.message for f in findings))
        self.findings = findings


@dataclass(frozen=True, slots=True)
class Splice:
    """Bytes ``start`` to ``end`` of a file are replaced by ``data``; nothing else is touched."""

    path: str
    start: int
    end: int
    data: bytes
    patch: str = ""


@dataclass(frozen=True)
class FileChange:
    """One file before and after. ``before`` is None for an added file; ``mode`` is permissions.

    ``splices`` are the declared regions, sorted and disjoint: outside them both are identical.
    """

    path: str
    before: bytes | None
    after: bytes
    mode: int
    splices: tuple[Splice, ...] = ()
    patches: tuple[str, ...] = ()

    @property
    def added(self) -> bool:
        """Whether the file is new."""
        return self.before is None

    @property
    def before_sha256(self) -> str:
        """Hash of the old content, empty for an added file."""
        return "" if self.before is None else hashlib.sha256(self.before).hexdigest()

    @property
    def after_sha256(self) -> str:
        """Hash of the new content."""
        return hashlib.sha256(self.after).hexdigest()

    @cached_property
    def regions(self) -> tuple[tuple[int, int], ...]:
        """First and last line (from 1) of each new or changed region, in the new content."""
        if self.added:
            return ((1, max(1, self.after.count(b"\n"))),)
        source = Source(self.path, self.after)
        found = []
        shift = 0
        for splice in self.splices:
            start = splice.start + shift
            end = start + len(splice.data)
            found.append((source.line_at(start), source.line_at(max(start, end - 1))))
            shift += len(splice.data) - (splice.end - splice.start)
        return tuple(found)


@dataclass(frozen=True)
class ChangeSet:
    """What a patch set does to one tree: per file, and in which order the patches go."""

    set_name: str
    set_version: str
    release: str
    patches: tuple[str, ...]
    files: Mapping[str, FileChange]

    @property
    def contents(self) -> dict[str, bytes]:
        """Path to new content."""
        return {path: change.after for path, change in self.files.items()}

    def up_to(self, patches: Iterable[str]) -> dict[str, bytes]:
        """Contents with only these patches in: what each commit of the series holds."""
        chosen = set(patches)
        found: dict[str, bytes] = {}
        for path, change in self.files.items():
            if change.before is None:
                if chosen >= set(change.patches):
                    found[path] = change.after
                continue
            kept = [s for s in change.splices if s.patch in chosen]
            if kept:
                found[path] = splice(change.before, kept)
        return found


def splice(before: bytes, splices: Iterable[Splice]) -> bytes:
    """Apply splices, given in any order. Raises ValueError where two of them overlap."""
    parts: list[bytes] = []
    at = 0
    for one in sorted(splices, key=lambda s: (s.start, s.end)):
        if one.start < at:
            raise ValueError(f"overlapping edits in {one.path} at byte {one.start}")
        parts += [before[at : one.start], one.data]
        at = one.end
    return b"".join([*parts, before[at:]])
