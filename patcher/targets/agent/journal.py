"""The write-ahead journal of one transaction, and what its records say.

One record a line: the first 16 hex digits of the sha256 of the rest, a space, JSON. A torn last
line (a crash while it was written) is cut; a damaged line anywhere else is an error, because then
nobody knows what happened.
"""

import hashlib
import json
import os
from typing import Any, Dict, List, NamedTuple

from . import disk
from .faults import pt
from .frames import AgentError

FORMAT = 1
"""Version of the journal and of the layout of ``.ddpatch``; a newer one is refused."""

BEGIN = "begin"
COMMITTING = "committing"
COMMITTED = "committed"
ROLLING_BACK = "rolling-back"
ROLLED_BACK = "rolled-back"
CONFLICT = "conflict"

ADD = "add"
REPLACE = "replace"
DELETE = "delete"


class Op(NamedTuple):
    """One file of a push: sha256 in hex before and after, empty where the file is absent.

    ``mode`` is that of the new file; a replaced file keeps the mode that it has on the target.
    """

    path: str
    old: str
    new: str
    size: int
    mode: int

    @property
    def kind(self) -> str:
        """One of ``add``, ``replace``, ``delete``."""
        if not self.old:
            return ADD
        return REPLACE if self.new else DELETE


def encode(record: Dict[str, Any]) -> bytes:
    """Return the line of a record."""
    text = json.dumps(record, sort_keys=True).encode("ascii")
    return hashlib.sha256(text).hexdigest()[:16].encode("ascii") + b" " + text + b"\n"


def decode(data: bytes, where: str) -> List[Dict[str, Any]]:
    """Return the records of a journal, without a torn last one."""
    records = []
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        digest, _, text = line.partition(b" ")
        if hashlib.sha256(text).hexdigest()[:16].encode("ascii") != digest:
            if number == len(lines) - 1:
                break
            raise AgentError(
                "journal", f"{where} line {number} is damaged", path=where, line=number
            )
        records.append(json.loads(text.decode("ascii")))
    if records and records[0].get("format", 0) > FORMAT:
        raise AgentError(
            "newer",
            "{} was written by a newer ddpatch (format {}, this one reads {})".format(
                where, records[0]["format"], FORMAT
            ),
        )
    return records


class Journal:
    """The open journal of one transaction directory."""

    def __init__(self, fd: int, where: str) -> None:
        self._fd = fd
        self._where = where
        self.records: List[Dict[str, Any]] = []

    def load(self) -> None:
        """Read what is there."""
        self.records = decode(disk.read("journal", self._fd), self._where)

    def append(self, record: Dict[str, Any], new: bool = False) -> None:
        """Add a record durably: it is on the disk when this returns (``fsync(2)``)."""
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if new else 0)
        fd = os.open("journal", flags, 0o600, dir_fd=self._fd)
        try:
            # A torn tail from an earlier crash goes first: nothing may follow it.
            end = sum(len(encode(old)) for old in self.records)
            pt("truncate journal")
            os.ftruncate(fd, end)
            os.lseek(fd, end, os.SEEK_SET)
            try:
                disk.write(fd, encode(record), "journal " + record["is"])
                disk.fsync(fd, "journal " + record["is"])
            except OSError:
                os.ftruncate(fd, end)  # it did not happen, so it must not be read later
                raise
        finally:
            os.close(fd)
        if new:
            disk.fsync(self._fd, "journal directory")
        self.records.append(record)

    @property
    def begin(self) -> Dict[str, Any]:
        """The first record."""
        return self.records[0]

    @property
    def ops(self) -> List[Op]:
        """The files of the transaction, in the order of the commit."""
        return [Op(*row) for row in self.begin["ops"]]

    @property
    def dirs(self) -> List[str]:
        """The directories that the transaction makes, outermost first."""
        return list(self.begin["dirs"])

    @property
    def state(self) -> str:
        """The last state that is on the disk."""
        return str(self.records[-1]["is"])

    def last(self, state: str) -> Dict[str, Any]:
        """Return the newest record of a state, empty where there is none."""
        found: Dict[str, Any] = {}
        for record in self.records:
            if record["is"] == state:
                found = record
        return found
