"""The system calls of a push, each behind a fault point, relative to open directories.

Nothing here follows a symbolic link: directories are opened one component at a time with
``O_NOFOLLOW`` (``openat(2)``), so a link that somebody puts into the tree during a push cannot
lead a write out of it.
"""

import errno
import hashlib
import os
import stat
from typing import Dict, List, Optional, Tuple

from .faults import pt
from .frames import AgentError

DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def link(name: str, new: str, fd: int, new_fd: int) -> None:
    """``linkat(2)``: never overwrites."""
    pt("link " + new)
    os.link(name, new, src_dir_fd=fd, dst_dir_fd=new_fd, follow_symlinks=False)


def rename(name: str, new: str, fd: int, new_fd: int) -> None:
    """``renameat(2)``: overwrites."""
    pt("rename " + new)
    os.rename(name, new, src_dir_fd=fd, dst_dir_fd=new_fd)


def unlink(name: str, fd: int) -> None:
    """``unlinkat(2)``."""
    pt("unlink " + name)
    os.unlink(name, dir_fd=fd)


def mkdir(name: str, fd: int, mode: int) -> None:
    """``mkdirat(2)``; the agent's umask is 0."""
    pt("mkdir " + name)
    os.mkdir(name, mode, dir_fd=fd)


def rmdir(name: str, fd: int) -> None:
    """``unlinkat(2)`` of a directory."""
    pt("rmdir " + name)
    os.rmdir(name, dir_fd=fd)


def fsync(fd: int, name: str) -> None:
    """``fsync(2)``."""
    pt("fsync " + name)
    os.fsync(fd)


def write(fd: int, data: bytes, name: str) -> None:
    """Write all of ``data``, with a fault point in the middle."""
    half = len(data) // 2
    for part in (data[:half], data[half:]):
        pt("write " + name)
        view = memoryview(part)
        while view:
            view = view[os.write(fd, view) :]


def give(fd: int, like: os.stat_result) -> None:
    """``fchown(2)`` to the owner of ``like``; only root can give files away, so others keep."""
    found = os.fstat(fd)
    if os.geteuid() == 0 and (found.st_uid, found.st_gid) != (like.st_uid, like.st_gid):
        pt("chown")
        os.fchown(fd, like.st_uid, like.st_gid)


def open_dir(name: str, fd: int) -> int:
    """Open a directory below ``fd``; the caller closes it."""
    return os.open(name, DIR_FLAGS, dir_fd=fd)


def names(fd: int) -> List[str]:
    """Return the sorted names in an open directory."""
    return sorted(os.listdir(fd))


def remove_tree(name: str, fd: int) -> None:
    """Remove a directory of regular files and such directories, following no link."""
    inner = open_dir(name, fd)
    try:
        for entry in names(inner):
            if stat.S_ISDIR(os.stat(entry, dir_fd=inner, follow_symlinks=False).st_mode):
                remove_tree(entry, inner)
            else:
                unlink(entry, inner)
    finally:
        os.close(inner)
    rmdir(name, fd)


def lstat(name: str, fd: int) -> Optional[os.stat_result]:
    """``fstatat(2)`` without following; None where nothing is."""
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def open_regular(name: str, fd: int) -> int:
    """Open a regular file for reading, or raise ``OSError``; the caller closes it."""
    handle = os.open(name, FILE_FLAGS, dir_fd=fd)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return handle


def read(name: str, fd: int) -> bytes:
    """Return the content of a regular file."""
    with os.fdopen(open_regular(name, fd), "rb") as stream:
        return stream.read()


def sha256(name: str, fd: int) -> str:
    """Return the sha256 of a regular file, in hex; empty where nothing is.

    A symbolic link, a directory or a special file gives a word instead, which no hash equals.
    """
    found = lstat(name, fd)
    if found is None:
        return ""
    if not stat.S_ISREG(found.st_mode):
        return "symlink" if stat.S_ISLNK(found.st_mode) else "not-a-file"
    digest = hashlib.sha256()
    with os.fdopen(open_regular(name, fd), "rb") as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


class Tree:
    """A package's parent directory; gives (open directory, name) for a path below it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open: Dict[str, int] = {"": self.fd}

    def directory(self, path: str) -> int:
        """Return the open directory ``path``, or raise :class:`AgentError` or ``OSError``."""
        if path not in self._open:
            head, _, name = path.rpartition("/")
            above = self.directory(head)
            found = lstat(name, above)
            if found is not None and not stat.S_ISDIR(found.st_mode):
                raise AgentError(
                    "not-a-directory",
                    f"{self.root}/{path} is not a real directory (a symbolic link?)",
                    path=path,
                )
            self._open[path] = open_dir(name, above)
        return self._open[path]

    def at(self, path: str) -> Tuple[int, str]:
        """Return the open parent directory of ``path`` and its last component."""
        head, _, name = path.rpartition("/")
        return self.directory(head), name

    def lstat(self, path: str) -> Optional[os.stat_result]:
        """Return what is at ``path``, or None (also where its directory is missing)."""
        try:
            fd, name = self.at(path)
        except FileNotFoundError:
            return None
        return lstat(name, fd)

    def sha256(self, path: str) -> str:
        """Return the sha256 of the file at ``path``, empty where nothing is."""
        try:
            fd, name = self.at(path)
        except FileNotFoundError:
            return ""
        return sha256(name, fd)

    def forget(self, path: str) -> None:
        """Close the directory ``path``, because it is about to be removed."""
        fd = self._open.pop(path, None)
        if fd is not None:
            os.close(fd)

    def close(self) -> None:
        """Close every directory."""
        for fd in self._open.values():
            os.close(fd)
        self._open = {}
