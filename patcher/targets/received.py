"""What a target sends is checked here before anything else sees it: it is not trusted."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from patcher.model import FileEntry, InstallFacts, TargetError, UsageError
from patcher.targets.agent import files, frames
from patcher.targets.base import printable


def inflate(payload: bytes) -> bytes:
    """Unpack a data frame; one that would grow beyond a frame is not one of ours."""
    engine = zlib.decompressobj()
    data = engine.decompress(payload, frames.MAX_FRAME)
    if not engine.eof:
        raise frames.FrameError("a data frame is larger than a frame may be")
    return data


def read_facts(told: Mapping[str, Any], name: str) -> InstallFacts:
    """Turn an agent's facts into the record; ``name`` is the target's."""
    try:
        facts = InstallFacts(
            version=str(told["version"]),
            root=str(told["root"]),
            distinfo=str(told["distinfo"]),
            editable=bool(told["editable"]),
            installer=printable(str(told["installer"])),
            python=str(told["python"]),
            python_version=str(told["python_version"]),
            torch=printable(str(told["torch"])),
            cuda=printable(str(told["cuda"])),
            gpus=tuple(printable(str(gpu)) for gpu in told["gpus"]),
            checkout=printable(str(told["checkout"])),
        )
    except (KeyError, TypeError) as error:
        raise TargetError(
            f"{name}: the agent's facts are incomplete: {error!r}", next_step="report this"
        ) from error
    if facts.distinfo and not files.is_distinfo(facts.distinfo):
        raise TargetError(
            f"{name}: {facts.distinfo!r} is no dist-info of sglang", next_step="report this"
        )
    if not facts.version:
        raise UsageError(
            f"{name}: {facts.root} does not say which version of sglang it is",
            next_step="name the folder of a complete install with --path",
        )
    return facts


class ManifestReader:
    """Reads manifest rows from a target that is not trusted: paths, types, caps, duplicates."""

    def __init__(self, distinfo: str) -> None:
        self._distinfo = distinfo
        self.entries: dict[str, FileEntry] = {}
        self.mtimes: dict[str, int] = {}
        self._folders: set[str] = set()
        self._bytes = 0

    def take(self, rows: list[Any]) -> None:
        """Add rows; raises FrameError for one that no honest install has."""
        for row in rows:
            match row:
                case [str(path), int(mode), int(size), int(mtime), str(sha), int(nlink)]:
                    self._add(FileEntry(path, mode, size, sha, nlink), mtime)
                case _:
                    raise frames.FrameError("a manifest row is malformed")

    def _add(self, entry: FileEntry, mtime: int) -> None:
        why = files.bad_path(entry.path, self._distinfo)
        self._bytes += entry.size
        if entry.path in self.entries:
            why = "comes twice"
        elif not 0 <= entry.size <= files.MAX_FILE or not 0 <= entry.mode <= 0o7777:
            why = f"has size {entry.size} and mode {entry.mode:o}"
        elif len(self.entries) >= files.MAX_FILES or self._bytes > files.MAX_TOTAL:
            why = f"is more than {files.MAX_FILES} files or {files.MAX_TOTAL} bytes"
        elif len(entry.sha256) != 64 or entry.sha256.strip("0123456789abcdef"):
            why = "has no sha256"
        if why:
            raise frames.FrameError(f"{entry.path!r} {why}")
        self.entries[entry.path] = entry
        self.mtimes[entry.path] = mtime
        parent = entry.path.rpartition("/")[0]
        while parent and parent not in self._folders:
            self._folders.add(parent)
            parent = parent.rpartition("/")[0]

    def finish(self, told: Mapping[str, Any]) -> None:
        """Check the whole against the agent's own count."""
        both = self._folders & self.entries.keys()
        if both:
            raise frames.FrameError(f"{min(both)!r} is a file and a directory")
        if told.get("count") != len(self.entries):
            raise frames.FrameError(
                f"{len(self.entries)} rows came, the target says {told.get('count')!r}"
            )
        skipped = told.get("skipped")
        if not isinstance(skipped, list) or not all(
            isinstance(row, list) and len(row) == 2 and all(isinstance(v, str) for v in row)
            for row in skipped
        ):
            raise frames.FrameError("the list of skipped files is malformed")
