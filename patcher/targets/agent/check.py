"""Everything that can be known before a push changes anything.

In this order: paths, drift, permissions, space, syntax and names of the new contents. All
findings of one kind are reported together.
"""

import ast
import fcntl
import os
import struct
import warnings
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from . import disk
from .files import bad_path
from .frames import AgentError
from .journal import ADD, Op
from .names import Resolver, uses

_GETFLAGS = 0x80086601
_FIXED = 0x10 | 0x20
"""``FS_IMMUTABLE_FL`` and ``FS_APPEND_FL`` of ``ioctl_iflags(2)``."""


class Ready(NamedTuple):
    """What the check found: operations, directories to make, bytes needed and free."""

    ops: List[Op]
    dirs: List[str]
    need: int
    free: int
    done: bool


def parse_ops(request: Mapping[str, Any], contents: Mapping[str, bytes]) -> List[Op]:
    """Return the operations of a request, or raise :class:`AgentError` for one we do not do."""
    ops = [Op(*row) for row in request["ops"]]
    seen = set()
    for op in ops:
        why = bad_path(op.path, request["distinfo"])
        if op.path in seen:
            why = "comes twice"
        elif not op.old and not op.new:
            why = "has neither an old nor a new content"
        elif op.new and op.new not in contents:
            why = "comes without its content"
        elif op.new and len(contents[op.new]) != op.size:
            why = "has another size than announced"
        elif not 0 <= op.mode <= 0o777:
            why = f"asks for mode {op.mode:o}"
        if why:
            raise AgentError("path", f"{op.path!r} {why}", path=op.path)
        seen.add(op.path)
    return ops


def _missing_dirs(tree: disk.Tree, ops: List[Op]) -> List[str]:
    dirs: List[str] = []
    for op in ops:
        folder = op.path.rpartition("/")[0]
        chain = []
        while folder and tree.lstat(folder) is None:
            chain.append(folder)
            folder = folder.rpartition("/")[0]
        dirs += [path for path in reversed(chain) if path not in dirs]
    return dirs


def _fixed(fd: int) -> bool:
    try:
        raw = fcntl.ioctl(fd, _GETFLAGS, struct.pack("l", 0))
    except OSError:  # this file system has no such flags
        return False
    return bool(struct.unpack("l", raw)[0] & _FIXED)


def _file_reason(tree: disk.Tree, op: Op) -> str:
    found = tree.lstat(op.path)
    if found is None:
        return ""
    if found.st_uid != os.geteuid() and os.geteuid() != 0:
        return f"belongs to user id {found.st_uid}, and only root could keep it so"
    fd, name = tree.at(op.path)
    handle = disk.open_regular(name, fd)
    try:
        return "is immutable or append-only (chattr)" if _fixed(handle) else ""
    finally:
        os.close(handle)


def writable(tree: disk.Tree, ops: List[Op], state_exists: bool) -> None:
    """Raise :class:`AgentError` unless every directory and file can be changed by us."""
    reasons: Dict[str, str] = {}
    folders = {op.path.rpartition("/")[0] for op in ops}
    if not state_exists:
        folders.add("")
    device = os.fstat(tree.fd).st_dev
    for folder in sorted(folders):
        while folder and tree.lstat(folder) is None:
            folder = folder.rpartition("/")[0]  # noqa: PLW2901
        fd = tree.directory(folder)
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
            reasons[folder] = "is not writable"
        elif _fixed(fd):
            reasons[folder] = "is immutable or append-only (chattr)"
        elif os.fstat(fd).st_dev != device:
            reasons[folder] = "is on another file system than the package"
    for op in ops:
        reason = _file_reason(tree, op)
        if reason:
            reasons[op.path] = reason
    if reasons:
        lines = ["{} {}".format((tree.root + "/" + p).rstrip("/"), reasons[p]) for p in reasons]
        raise AgentError("unwritable", "; ".join(sorted(lines)), paths=sorted(reasons))


def _space(tree: disk.Tree, ops: List[Op]) -> Tuple[int, int]:
    info = os.statvfs(tree.fd)
    block = info.f_frsize or 4096
    need = 16 * block  # the journal and the directories
    for op in ops:
        need += 2 * (op.size // block + 1) * block  # a copy of the original, if it cannot be linked
    free = info.f_bavail * block
    inodes = 3 * len(ops) + 16
    if free < need or (info.f_files and info.f_favail < inodes):
        raise AgentError(
            "space",
            f"{tree.root} has {free} bytes and {info.f_favail} inodes free; "
            f"the push needs {need} and {inodes}",
            need=need,
            free=free,
        )
    return need, free


def preflight(tree: disk.Tree, ops: List[Op], state_exists: bool) -> Ready:
    """Check drift, permissions and space; raise :class:`AgentError` with all rows of a kind."""
    found = {op.path: tree.sha256(op.path) for op in ops}
    if all(found[op.path] == op.new for op in ops):
        return Ready(ops, [], 0, 0, True)
    drift = [
        {"path": op.path, "expected": op.old or "absent", "found": found[op.path] or "absent"}
        for op in ops
        if found[op.path] != op.old
    ]
    if drift:
        raise AgentError("drift", f"{len(drift)} files are not as expected", files=drift)
    dirs = _missing_dirs(tree, ops)
    writable(tree, ops, state_exists)
    need, free = _space(tree, ops)
    return Ready(ops, dirs, need, free, False)


def _parse(ops: List[Op], contents: Mapping[str, bytes]) -> List[Dict[str, Any]]:
    rows = []
    for op in ops:
        if not op.new or not op.path.endswith(".py"):
            continue
        line = 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(contents[op.new], op.path, "exec", dont_inherit=True)
            continue
        except SyntaxError as error:
            message, line = error.msg, error.lineno or 1
        except (ValueError, OverflowError, RecursionError, MemoryError) as error:
            message = f"{type(error).__name__}: {error}"
        rows.append({"level": "parse", "path": op.path, "line": line, "message": message})
    return rows


def _resolvers(
    tree: disk.Tree, ops: List[Op], contents: Mapping[str, bytes]
) -> Tuple[Resolver, Resolver]:
    changed = {op.path: op for op in ops}

    def on_disk(path: str) -> Optional[bytes]:
        try:
            fd, name = tree.at(path)
            return disk.read(name, fd)
        except (OSError, AgentError):  # absent, or no directory: there is no such module
            return None

    def patched(path: str) -> Optional[bytes]:
        if path in changed:
            return contents[changed[path].new] if changed[path].new else None
        return on_disk(path)

    def listing(path: str) -> Optional[List[str]]:
        try:
            return disk.names(tree.directory(path))
        except (OSError, AgentError):  # no such directory
            return None

    def patched_listing(path: str) -> Optional[List[str]]:
        fresh = [
            op.path[len(path) + 1 :].partition("/")[0]
            for op in ops
            if op.new and op.path.startswith(path + "/")
        ]
        old = listing(path)
        return None if old is None and not fresh else (old or []) + fresh

    return Resolver(patched, patched_listing), Resolver(on_disk, listing)


def verify(
    tree: disk.Tree,
    ops: List[Op],
    contents: Mapping[str, bytes],
    imports: List[List[Any]],
) -> None:
    """Compile every new Python file, then look up every name in ``imports``.

    ``imports`` has rows (path, line, module, name). An import that the file on the disk has too,
    and that fails there too, is not ours to report.
    """
    rows = _parse(ops, contents)
    if not rows:
        now, before = _resolvers(tree, ops, contents)
        old = {op.path for op in ops if op.kind != ADD}
        for path, line, module, name in imports:
            message = now.missing(module, name)
            if not message:
                continue
            if path in old and before.missing(module, name):
                fd, leaf = tree.at(path)
                if any(
                    (u.module, u.name) == (module, name)
                    for u in uses(path, ast.parse(disk.read(leaf, fd)))
                ):
                    continue
            rows.append({"level": "names", "path": path, "line": line, "message": message})
    if rows:
        raise AgentError("verify", "the patched tree does not hold on this host", findings=rows)
