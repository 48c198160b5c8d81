"""What the store's branches and commits are called, and what a commit says about itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """One snapshot in the store; ``number`` counts from 1, newest first; ``time`` is Unix time."""

    target: str
    slug: str
    oid: str
    number: int
    version: str
    time: int


@dataclass(frozen=True, slots=True)
class PatchedRef:
    """The newest patched tree of a target: its commit, its snapshot, and the set that is in it."""

    slug: str
    oid: str
    snapshot: SnapshotRef
    set_label: str
    patches: tuple[str, ...]
    set_source: str = ""


@dataclass(frozen=True, slots=True)
class PatchCommit:
    """One commit of a patched series: a message, and paths to new content (None: taken away)."""

    message: str
    files: Mapping[str, bytes | None]


def trailers(message: str) -> dict[str, str]:
    """The ``Name: value`` lines that end a commit message."""
    return dict(_pairs(message))


def _pairs(message: str) -> Iterator[tuple[str, str]]:
    for line in message.rstrip().rpartition("\n\n")[2].split("\n"):
        name, found, value = line.partition(": ")
        if found:
            yield name, value


def snapshot_branch(slug: str) -> str:
    """The ref that holds a target's snapshots."""
    return f"refs/heads/snapshot/{slug}"


def patched_branch(slug: str) -> str:
    """The ref that holds a target's newest patched tree."""
    return f"refs/heads/patched/{slug}"
