"""The manifest of an install, and its contents by hash.

Both ends use :func:`bad_path`: the agent for what it is told to write, the client for what it is
told that the target has.
"""

import hashlib
import os
import re
import stat
import time
import zlib
from typing import Any, Dict, Iterator, List, Tuple

from .disk import FILE_FLAGS
from .frames import PACK_SIZE, AgentError, Channel, pack

MAX_FILES = 20000
MAX_FILE = 64 * 1024 * 1024
MAX_TOTAL = 1024 * 1024 * 1024
"""Caps of a snapshot: files, bytes in one file, bytes in all."""

MAX_PATH = 1024

_DISTINFO = re.compile(r"sglang-[A-Za-z0-9.!+_]+\.dist-info\Z")
_PYC = (".pyc", ".pyo")
_ROWS = 500


def is_distinfo(name: str) -> bool:
    """Tell whether ``name`` is the name of a dist-info directory of sglang."""
    return _DISTINFO.match(name) is not None


def bad_path(path: str, distinfo: str) -> str:
    """Say why ``path`` may not be part of an install, or return an empty string.

    Allowed are relative paths below ``sglang/`` or the given dist-info, in printable UTF-8, with
    neither empty nor dot components.
    """
    if not path.startswith("sglang/") and not (distinfo and path.startswith(distinfo + "/")):
        return "is outside the package"
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not UTF-8"
    if size > MAX_PATH:
        return f"is longer than {MAX_PATH} bytes"
    if "\\" in path or not path.isprintable():
        return "has a backslash or a character that cannot be printed"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "has an empty or a dot component"
    if any(part in ("__pycache__", ".git", ".ddpatch") for part in parts):
        return "is in a directory that is not part of an install"
    return ""


def _walk(root: str, top: str, distinfo: str, skipped: List[List[str]]) -> Iterator[str]:
    """Give the regular files below ``top``; what no install has by rights goes to ``skipped``."""
    stack = [top]
    while stack:
        path = stack.pop()
        with os.scandir(root + "/" + path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            inner = path + "/" + entry.name
            if entry.is_symlink():
                skipped.append([inner, "symlink to " + os.readlink(root + "/" + inner)])
            elif entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__" and not entry.name.startswith(".git"):
                    stack.append(inner)
            elif entry.is_file(follow_symlinks=False):
                if not entry.name.endswith(_PYC) and not entry.name.startswith(".git"):
                    why = bad_path(inner, distinfo)
                    if why:
                        skipped.append([inner, "its name " + why])
                    else:
                        yield inner
            else:
                skipped.append([inner, "not a regular file"])


def read_file(root: str, path: str) -> Tuple[os.stat_result, bytes]:
    """Return status and content of a regular file, following no link at its last component."""
    fd = os.open(root + "/" + path, FILE_FLAGS)
    with os.fdopen(fd, "rb") as stream:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise AgentError("changed", path + " is no longer a regular file", path=path)
        if status.st_size > MAX_FILE:
            raise AgentError(
                "caps", f"{path} has {status.st_size} bytes, more than a snapshot takes"
            )
        return status, stream.read(MAX_FILE + 1)


class Files:
    """Requests ``manifest`` and ``fetch``; remembers in between which path has which content."""

    def __init__(self) -> None:
        self._root = ""
        self._by_sha: Dict[str, str] = {}

    def manifest(self, request: Dict[str, Any], channel: Channel) -> Dict[str, Any]:
        """Hash every regular file of the package and its dist-info; rows go out as they come."""
        root = self._root = request["root"]
        skipped: List[List[str]] = []
        rows: List[List[Any]] = []
        count = total = 0
        said = time.time()
        self._by_sha = {}
        for top in ("sglang", request["distinfo"]):
            if not top:
                continue
            if os.path.islink(root + "/" + top) or not os.path.isdir(root + "/" + top):
                raise AgentError("changed", f"{root}/{top} is not a real directory", path=top)
            for path in _walk(root, top, request["distinfo"], skipped):
                status, content = read_file(root, path)
                count += 1
                total += len(content)
                if count > MAX_FILES or total > MAX_TOTAL:
                    raise AgentError(
                        "caps",
                        f"the install has more than {MAX_FILES} files or {MAX_TOTAL} bytes",
                    )
                sha = hashlib.sha256(content).hexdigest()
                self._by_sha.setdefault(sha, path)
                mode = stat.S_IMODE(status.st_mode)
                rows.append([path, mode, len(content), status.st_mtime_ns, sha, status.st_nlink])
                if len(rows) == _ROWS:
                    channel.send({"rows": rows})
                    rows = []
                if time.time() - said > 0.2:
                    channel.progress("hash", count, 0)
                    said = time.time()
        channel.send({"rows": rows})
        return {"count": count, "bytes": total, "skipped": skipped}

    def fetch(self, request: Dict[str, Any], channel: Channel) -> Dict[str, Any]:
        """Stream the contents asked for, each once, small ones together."""
        squeeze = bool(request["zlib"])
        batch: List[Tuple[str, bytes]] = []
        size = 0
        for sha in request["want"]:
            path = self._by_sha.get(sha)
            if path is None:
                raise AgentError("protocol", "no file of this install has sha256 " + str(sha))
            content = read_file(self._root, path)[1]
            if hashlib.sha256(content).hexdigest() != sha:
                raise AgentError("changed", path + " changed while it was read", path=path)
            batch.append((sha, content))
            size += len(content)
            if size >= PACK_SIZE:
                self._flush(batch, squeeze, channel)
                batch, size = [], 0
        if batch:
            self._flush(batch, squeeze, channel)
        return {"count": len(request["want"])}

    @staticmethod
    def _flush(batch: List[Tuple[str, bytes]], squeeze: bool, channel: Channel) -> None:
        payload = pack(batch)
        channel.send_data(zlib.compress(payload, 1) if squeeze else payload)
