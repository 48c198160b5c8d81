"""Before the commit: the new files, complete beside the tree, and the old ones, kept."""

import errno
import os
from typing import List, NamedTuple, Tuple

from . import disk
from .faults import pt
from .frames import AgentError
from .journal import REPLACE, Op
from .state import Transaction

_NO_LINK = (errno.EMLINK, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def _xattrs(source: int, target: int) -> List[str]:
    """Copy extended attributes (``xattr(7)``); return those that may not be set."""
    refused_names = []
    try:
        names = os.listxattr(source)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP):
            return []
        raise
    for name in names:
        value = os.getxattr(source, name)
        pt("setxattr " + name)
        try:
            os.setxattr(target, name, value)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP):
                raise
            refused_names.append(name)
    return refused_names


class Staging(NamedTuple):
    """Writes the new files and keeps the old ones, for one transaction."""

    tree: disk.Tree
    txn: Transaction
    notes: List[str]

    def _like(self, fd: int, source: int, path: str) -> os.stat_result:
        """Give the open file ``fd`` owner, attributes and mode of the open file ``source``."""
        status = os.fstat(source)
        disk.give(fd, status)
        for name in _xattrs(source, fd):
            self.notes.append(f"{path}: attribute {name} could not be kept")
        pt("chmod")
        os.fchmod(fd, status.st_mode & 0o7777)
        return status

    def stage(self, number: str, op: Op, content: bytes) -> None:
        """Write one new file beside the tree, complete and durable."""
        parent, name = self._place(op.path)
        pt("create new " + number)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(number, flags, 0o600, dir_fd=self.txn.new)
        try:
            disk.write(fd, content, "new " + number)
            if op.kind == REPLACE:
                source = disk.open_regular(name, parent)
                try:
                    before = self._like(fd, source, op.path)
                finally:
                    os.close(source)
                # A pyc is matched by size and whole seconds: never let old and new agree on both.
                if int(os.fstat(fd).st_mtime) == int(before.st_mtime):
                    stamp = before.st_mtime_ns + 2 * 10**9
                    pt("utime")
                    os.utime(fd, ns=(stamp, stamp))
            else:
                disk.give(fd, os.fstat(parent))
                pt("chmod")
                os.fchmod(fd, op.mode)
            disk.fsync(fd, "new " + number)
        finally:
            os.close(fd)
        if disk.sha256(number, self.txn.new) != op.new:
            raise AgentError("io", f"{op.path} does not read back as it was written")

    def _place(self, path: str) -> Tuple[int, str]:
        """Return the nearest directory of ``path`` that exists, and the file's name."""
        folder, _, name = path.rpartition("/")
        while self.tree.lstat(folder) is None:
            folder = folder.rpartition("/")[0]
        return self.tree.directory(folder), name

    def keep(self, number: str, op: Op) -> bool:
        """Keep the original: a hard link, or a copy where links are not to be had (True)."""
        fd, name = self.tree.at(op.path)
        try:
            disk.link(name, number, fd, self.txn.old)
            return False
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
        source = disk.open_regular(name, fd)
        try:
            pt("create old " + number)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            copy = os.open(number, flags, 0o600, dir_fd=self.txn.old)
            try:
                disk.write(copy, disk.read(name, fd), "old " + number)
                status = self._like(copy, source, op.path)
                pt("utime")
                os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
                disk.fsync(copy, "old " + number)
            finally:
                os.close(copy)
        finally:
            os.close(source)
        return True
