"""``.ddpatch`` beside the package: the lock, and one directory for each transaction.

Layout (format 1)::

    .ddpatch/            0700
        lock             held with flock(2); holds its owner as JSON
        000001/journal   see the journal module
        000001/new/N     staged file N, until it is renamed or linked into the tree
        000001/old/N     file N as it was: a hard link to the original inode where possible

A transaction is made under a ``.tmp`` name and removed under a ``.trash`` name, so a directory
with a plain number always has a complete journal.
"""

import contextlib
import fcntl
import getpass
import json
import os
import socket
import stat
import time
from typing import Any, Dict, List

from . import disk
from .frames import AgentError
from .journal import Journal

NAME = ".ddpatch"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def owner(client: str) -> Dict[str, Any]:
    """Return who is doing something now; ``client`` is the operator's ``user@machine``."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as stream:
            boot = stream.read().strip()
    except OSError:  # no such file on this system
        boot = ""
    return {
        "host": socket.gethostname(),
        "user": getpass.getuser(),
        "pid": os.getpid(),
        "boot": boot,
        "client": client,
        "time": _now(),
    }


class Transaction:
    """One push: its directory, its journal, and its staged and kept files."""

    def __init__(self, name: str, state_fd: int, where: str) -> None:
        self.id = name.partition(".")[0]
        self.fd = disk.open_dir(name, state_fd)
        self.new = self.old = -1
        self.journal = Journal(self.fd, where + "/journal")

    def open_files(self) -> None:
        """Open the directories of staged and of kept files."""
        self.new = disk.open_dir("new", self.fd)
        self.old = disk.open_dir("old", self.fd)

    def close(self) -> None:
        """Close the directories."""
        for fd in (self.fd, self.new, self.old):
            if fd >= 0:
                os.close(fd)
        self.fd = self.new = self.old = -1

    def mark(self, state: str, **detail: Any) -> None:
        """Journal a state, durably."""
        self.journal.append(dict(detail, **{"is": state, "time": _now()}))


class State:
    """The open state directory; ``with`` holds its lock."""

    def __init__(self, root: str, fd: int, client: str) -> None:
        self.root = root
        self.where = root + "/" + NAME
        self.fd = fd
        self.client = client
        self._lock = -1

    @classmethod
    def open(cls, root: str, root_fd: int, client: str, create: bool) -> "State":
        """Open the state directory; where it is missing, make it or raise FileNotFoundError."""
        if create and disk.lstat(NAME, root_fd) is None:
            with contextlib.suppress(FileExistsError):  # somebody was faster: the lock decides
                disk.mkdir(NAME, root_fd, 0o700)
            disk.fsync(root_fd, "package parent")
        try:
            fd = disk.open_dir(NAME, root_fd)
        except PermissionError as error:
            owner_id = os.stat(NAME, dir_fd=root_fd, follow_symlinks=False).st_uid
            raise AgentError(
                "unwritable",
                f"{root}/{NAME} belongs to user id {owner_id}, not to {getpass.getuser()}",
                paths=[root + "/" + NAME],
            ) from error
        found = os.fstat(fd)
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
            os.close(fd)
            raise AgentError(
                "state-dir",
                f"{root}/{NAME} belongs to user id {found.st_uid} with mode "
                f"{stat.S_IMODE(found.st_mode):o}: others could write the journal",
            )
        return cls(root, fd, client)

    def close(self) -> None:
        """Close the directory."""
        os.close(self.fd)

    def __enter__(self) -> "State":
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open("lock", flags, 0o600, dir_fd=self.fd)
        except (PermissionError, OSError) as error:
            raise AgentError(
                "unwritable",
                f"{self.where}/lock cannot be opened: {error.strerror}",
                paths=[self.where],
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(fd, 4096).decode("utf-8", "replace")
            os.close(fd)
            try:
                detail = json.loads(holder)
            except ValueError:  # taken a moment ago, not yet written
                detail = {}
            raise AgentError("locked", "another ddpatch works here", owner=detail) from error
        except OSError as error:
            os.close(fd)
            raise AgentError(
                "no-lock", f"{self.where} has no working flock: {error.strerror}"
            ) from error
        os.ftruncate(fd, 0)
        os.write(fd, json.dumps(owner(self.client)).encode("ascii"))
        self._lock = fd
        return self

    def __exit__(self, *_: Any) -> None:
        os.ftruncate(self._lock, 0)
        os.close(self._lock)
        self._lock = -1

    def ids(self) -> List[str]:
        """Return the numbers of the transactions, oldest first."""
        return [name for name in disk.names(self.fd) if name.isdigit()]

    def load(self, name: str) -> Transaction:
        """Open a transaction and read its journal."""
        txn = Transaction(name, self.fd, self.where + "/" + name)
        try:
            txn.journal.load()
            if not txn.journal.records:
                raise AgentError("journal", f"{self.where}/{name} has no journal")
        except FileNotFoundError as error:
            txn.close()
            raise AgentError("journal", f"{self.where}/{name} has lost its journal") from error
        except AgentError:
            txn.close()
            raise
        return txn

    def begin(self, record: Dict[str, Any]) -> Transaction:
        """Make a transaction whose journal is complete before it gets its number."""
        number = "{:06d}".format(int((self.ids() or ["0"])[-1]) + 1)
        draft = number + ".tmp"
        disk.mkdir(draft, self.fd, 0o700)
        txn = Transaction(draft, self.fd, self.where + "/" + number)
        try:
            for name in ("new", "old"):
                disk.mkdir(name, txn.fd, 0o700)
            txn.journal.append(record, new=True)
            disk.rename(draft, number, self.fd, self.fd)
            disk.fsync(self.fd, "state directory")
            txn.open_files()
        except BaseException:
            txn.close()
            raise
        return txn

    def discard(self, txn: Transaction) -> None:
        """Remove a transaction that has not touched the tree."""
        txn.close()
        disk.rename(txn.id, txn.id + ".trash", self.fd, self.fd)
        disk.fsync(self.fd, "state directory")
        disk.remove_tree(txn.id + ".trash", self.fd)

    def sweep(self) -> None:
        """Remove drafts and trash that a crash has left."""
        for name in disk.names(self.fd):
            if name.endswith((".tmp", ".trash")):
                disk.remove_tree(name, self.fd)
