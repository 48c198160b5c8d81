"""A package tree as a value: paths to bytes, parsed lazily, never changed in place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from patcher.model import FileEntry, InstallFacts
from patcher.source import Source

Reader = Callable[[FileEntry], bytes]
"""Reads the content of one entry; the tree checks nothing, the store checks hashes."""


class Tree:
    """An immutable package tree with the facts of the install it came from.

    Paths are relative to the package's parent (``sglang/srt/…``, ``sglang-0.5.11.dist-info/…``).
    ``skipped`` are entries that a snapshot has left out, with the reason (a symbolic link, say).
    """

    def __init__(
        self,
        files: Mapping[str, FileEntry],
        read: Reader,
        facts: InstallFacts,
        overlay: Mapping[str, bytes] | None = None,
        skipped: Mapping[str, str] | None = None,
    ) -> None:
        self.files = dict(files)
        self.facts = facts
        self.skipped = dict(skipped or {})
        self._read = read
        self._overlay = dict(overlay or {})
        self._sources: dict[str, Source] = {}

    @classmethod
    def of(cls, contents: Mapping[str, bytes | str], version: str = "") -> Tree:
        """A tree made of given contents: for cases, tests and small examples."""
        data = {p: c.encode() if isinstance(c, str) else c for p, c in contents.items()}
        files = {p: entry_of(p, c) for p, c in data.items()}
        return cls(files, lambda e: data[e.path], InstallFacts(version=version, root=""))

    def __contains__(self, path: object) -> bool:
        return path in self.files

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises KeyError for a path the tree does not have."""
        if path in self._overlay:
            return self._overlay[path]
        return self._read(self.files[path])

    def source(self, path: str) -> Source:
        """The file as a :class:`Source`, made once."""
        if path not in self._sources:
            self._sources[path] = Source(path, self.read(path))
        return self._sources[path]

    def python_files(self) -> list[str]:
        """Paths of the package's ``.py`` files, sorted; dist-info is not code."""
        return sorted(p for p in self.files if p.endswith(".py") and ".dist-info/" not in p)

    def with_changes(self, changes: Mapping[str, bytes | None], mode: int = 0o644) -> Tree:
        """A tree with files replaced, added, or (None) taken away; ``mode`` is for added ones."""
        files = dict(self.files)
        overlay = dict(self._overlay)
        for path, data in changes.items():
            if data is None:
                files.pop(path, None)
                overlay.pop(path, None)
                continue
            old = files.get(path)
            files[path] = entry_of(path, data, old.mode if old else mode)
            overlay[path] = data
        tree = Tree(files, self._read, self.facts, overlay, self.skipped)
        tree._sources = {p: s for p, s in self._sources.items() if p not in changes}
        return tree

    @cached_property
    def digest(self) -> str:
        """sha256 over paths and content hashes: equal digests mean equal trees."""
        total = hashlib.sha256()
        for path in sorted(self.files):
            total.update(f"{path}\0{self.files[path].sha256}\n".encode(errors="surrogateescape"))
        return total.hexdigest()


def entry_of(path: str, data: bytes, mode: int = 0o644) -> FileEntry:
    """The entry that describes given bytes."""
    return FileEntry(path, mode, len(data), hashlib.sha256(data).hexdigest())
