"""Answers kept between runs, in one database file below a directory that the caller names.

Keys hold the engine's fingerprint and the content's hash, so an answer can be missing but never
stale. A damaged database, or one of another format, is replaced by a new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from inventory._codec import answer_from, answer_to, inventory_from, inventory_to
from inventory.model import FileAnswer, Inventory
from patcher.model import UsageError

FORMAT = 1
"""Version of the database; one of another version is replaced."""

TREES_KEPT = 32
"""How many whole inventories stay; single files' answers are small and all stay."""

_NOT_OURS = (
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
)
"""Errors of the file system or of a neighbour, not of the content."""

Key = tuple[str, str]
"""Path and content hash of one file."""


class Damaged(Exception):
    """Content of the database that nothing can be made of."""


class Cache:
    """Answers per file content and per whole tree. Losing it costs time, never an answer.

    Raises :class:`~patcher.model.UsageError` where the directory cannot be used at all.
    """

    def __init__(self, directory: Path, patience_s: float = 10.0) -> None:
        self.path = directory / "inventory.sqlite"
        self.patience_s = patience_s

    def tree(self, identity: str, digest: str) -> Inventory | None:
        """The inventory of a whole tree, or None."""
        key = _key(identity, digest)
        try:
            found = self._read("trees", [key])
            return inventory_from(_unpack(found[key])) if found else None
        except Damaged:
            self._discard()
            return None

    def put_tree(self, identity: str, inventory: Inventory) -> None:
        """Keep the inventory of a whole tree; only the latest few stay."""
        self._write("trees", {_key(identity, inventory.digest): _pack(inventory_to(inventory))})

    def files(self, identity: str, keys: Mapping[str, Key]) -> dict[str, FileAnswer]:
        """What is known about the given files, by path."""
        wanted = {_key(identity, *key): path for path, key in keys.items()}
        try:
            found = self._read("files", list(wanted))
            return {wanted[key]: answer_from(_unpack(data)) for key, data in found.items()}
        except Damaged:
            self._discard()
            return {}

    def put_files(self, identity: str, answers: Mapping[Key, FileAnswer]) -> None:
        """Keep what single files answered."""
        rows = {_key(identity, *key): _pack(answer_to(a)) for key, a in answers.items()}
        self._write("files", rows)

    # ---------------------------------------------------------------- database

    def _open(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            base = sqlite3.connect(self.path, timeout=self.patience_s, isolation_level=None)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            (version,) = base.execute("PRAGMA user_version").fetchone()
            if version != FORMAT:
                base.execute("BEGIN IMMEDIATE")
                for table in ("trees", "files"):
                    base.execute(f"DROP TABLE IF EXISTS {table}")
                    base.execute(f"CREATE TABLE {table} (key BLOB PRIMARY KEY, answer BLOB)")
                base.execute(f"PRAGMA user_version = {FORMAT}")
                base.execute("COMMIT")
        except BaseException:
            base.close()
            raise
        return base

    def _read(self, table: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        query = f"SELECT answer FROM {table} WHERE key = ?"  # noqa: S608 - our own table names
        found: dict[bytes, bytes] = {}
        try:
            with closing(self._open()) as base:
                for key in keys:
                    for (answer,) in base.execute(query, (key,)):
                        found[key] = answer
        except sqlite3.DatabaseError as error:
            self._refuse(error)
            raise Damaged(str(error)) from error
        return found

    def _write(self, table: str, answers: Mapping[bytes, bytes]) -> None:
        if not answers:
            return
        insert = f"INSERT OR REPLACE INTO {table} VALUES (?, ?)"  # noqa: S608 - as above
        try:
            with closing(self._open()) as base:
                base.execute("BEGIN IMMEDIATE")
                base.executemany(insert, answers.items())
                base.execute(
                    "DELETE FROM trees WHERE rowid NOT IN"
                    " (SELECT rowid FROM trees ORDER BY rowid DESC LIMIT ?)",
                    (TREES_KEPT,),
                )
                base.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            self._refuse(error)
            self._discard()

    def _discard(self) -> None:
        self.path.unlink(missing_ok=True)

    def _refuse(self, error: sqlite3.DatabaseError) -> None:
        """Raise UsageError where a new database could do no better than this one."""
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _NOT_OURS:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> UsageError:
        return UsageError(
            f"the inventory cache {self.path} cannot be used: {error}",
            next_step="make its directory writable, or name another store with --store",
        )


def _key(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).digest()


def _pack(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


def _unpack(data: bytes) -> Any:
    try:
        return json.loads(zlib.decompress(data))
    except (zlib.error, ValueError, TypeError) as error:
        raise Damaged(str(error)) from error
