"""The part of a push that touches the tree: forward, backward, and recovery after a crash.

Both directions look at what is there instead of remembering how far they came, so each may be
started again after a crash at any point, and neither overwrites what is not ours:

- a file is replaced only while it still is the very inode that was kept in ``old/``;
- a new file appears with ``link(2)``, which fails when the name is taken;
- going back replaces or removes only a file whose content is the one we wrote.

Bytecode is removed whenever its source changes, in both directions and also for steps that an
interrupted run had done already (a crash may have come between the two).
"""

import errno
import os
import re
from typing import Any, Dict, List, Tuple

from . import disk
from .frames import AgentError
from .journal import (
    ADD,
    BEGIN,
    COMMITTED,
    COMMITTING,
    CONFLICT,
    DELETE,
    REPLACE,
    ROLLED_BACK,
    ROLLING_BACK,
    Op,
)
from .state import State, Transaction


class ConflictError(Exception):
    """A file is neither what it was nor what we made of it."""

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(path)
        self.row = {"path": path, "expected": expected, "found": found or "absent"}


def _same(name: str, fd: int, other: str, other_fd: int) -> bool:
    one, two = disk.lstat(name, fd), disk.lstat(other, other_fd)
    return one is not None and two is not None and os.path.samestat(one, two)


def drop_bytecode(tree: disk.Tree, path: str) -> None:
    """Remove every compiled form of a module (PEP 3147 names, all tags and levels; legacy too)."""
    if not path.endswith(".py"):
        return
    try:
        fd, name = tree.at(path)
    except FileNotFoundError:
        return
    stem = name[: -len(".py")]
    if disk.lstat(stem + ".pyc", fd) is not None:
        disk.unlink(stem + ".pyc", fd)
    try:
        cache = disk.open_dir("__pycache__", fd)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if error.errno != errno.ELOOP:  # a symbolic link: not a cache of this tree
            raise
        return
    try:
        form = re.compile(re.escape(stem) + r"\.[^.]+(\.opt-[^.]+)?\.pyc\Z")
        for entry in disk.names(cache):
            if form.match(entry):
                disk.unlink(entry, cache)
    finally:
        os.close(cache)


def _apply(tree: disk.Tree, txn: Transaction, number: str, op: Op) -> None:
    """Do one step of the commit, or see that it is done; raise :class:`ConflictError` otherwise."""
    fd, name = tree.at(op.path)
    if op.kind == ADD:
        if not _same(name, fd, number, txn.new):
            try:
                disk.link(number, name, txn.new, fd)
            except FileExistsError:
                raise ConflictError(op.path, "absent", disk.sha256(name, fd)) from None
        return
    found = disk.sha256(name, fd)
    kept = _same(name, fd, number, txn.old) or (found == op.old and _is_copy(txn, number))
    if op.kind == DELETE:
        if kept or _taken(txn, number):
            _take(txn, number, op.path, fd, name, op.old)
        elif found:
            raise ConflictError(op.path, op.old, found)
    elif disk.lstat(number, txn.new) is None:  # renamed already
        if found != op.new:
            raise ConflictError(op.path, op.new, found)
    elif kept and found == op.old:
        disk.rename(number, name, txn.new, fd)
    else:
        raise ConflictError(op.path, op.old, found)


def _taken(txn: Transaction, number: str) -> bool:
    return disk.lstat("gone-" + number, txn.new) is not None


def _take(txn: Transaction, number: str, path: str, fd: int, name: str, expected: str) -> None:
    """Remove a file without a moment in which somebody else's could go with it.

    It is moved away first and looked at then; what is not ours comes back.
    """
    gone = "gone-" + number
    if not _taken(txn, number):
        disk.rename(name, gone, fd, txn.new)
    found = disk.sha256(gone, txn.new)
    if found != expected:
        if disk.lstat(name, fd) is None:
            disk.link(gone, name, txn.new, fd)
            disk.unlink(gone, txn.new)
        raise ConflictError(path, expected, found)
    disk.unlink(gone, txn.new)


def _swap_back(txn: Transaction, number: str, op: Op, fd: int, name: str) -> None:
    """Put the original back over our file, noticing an edit of ours at the last moment.

    Our inode stays linked meanwhile, so that an edit in place which comes in between is found and
    brought back. (A whole other file that is renamed over ours between the last look and the
    rename is not: ``renameat2(2)``, which could exchange the two, is out of Python's reach.)
    """
    gone, spare = "gone-" + number, "back-" + number
    if not _taken(txn, number):
        disk.link(name, gone, fd, txn.new)
    if disk.lstat(spare, txn.new) is None:
        disk.link(number, spare, txn.old, txn.new)
    if not _same(name, fd, gone, txn.new) or disk.sha256(gone, txn.new) != op.new:
        found = disk.sha256(name, fd)
        disk.unlink(gone, txn.new)
        raise ConflictError(op.path, op.new, found)
    disk.rename(spare, name, txn.new, fd)
    _look_back(txn, number, op, fd, name)


def _look_back(txn: Transaction, number: str, op: Op, fd: int, name: str) -> None:
    gone = "gone-" + number
    if not _taken(txn, number):
        return
    found = disk.sha256(gone, txn.new)
    if found != op.new and _same(name, fd, number, txn.old):
        disk.rename(gone, name, txn.new, fd)
        raise ConflictError(op.path, op.new, found)
    disk.unlink(gone, txn.new)


def _is_copy(txn: Transaction, number: str) -> bool:
    return number in txn.journal.last(COMMITTING).get("copies", [])


def _sync(tree: disk.Tree, ops: List[Op], dirs: List[str]) -> None:
    folders = {op.path.rpartition("/")[0] for op in ops} | {d.rpartition("/")[0] for d in dirs}
    for folder in sorted(folders):
        try:
            fd = tree.directory(folder)
        except FileNotFoundError:  # a directory that a rollback has removed
            continue
        disk.fsync(fd, folder)


def forward(tree: disk.Tree, txn: Transaction) -> None:
    """Bring the tree to the new state; raise :class:`ConflictError` or ``OSError`` on the way."""
    for path in txn.journal.dirs:
        fd, name = tree.at(path)
        if disk.lstat(name, fd) is None:
            disk.mkdir(name, fd, os.fstat(fd).st_mode & 0o7777)
        disk.give(tree.directory(path), os.fstat(fd))
    ops = txn.journal.ops
    for number, op in enumerate(ops):
        _apply(tree, txn, str(number), op)
        drop_bytecode(tree, op.path)
    _sync(tree, ops, txn.journal.dirs)
    for number, op in enumerate(ops):
        # An edit in place during the commit went into the inode that we keep.
        if op.old and disk.sha256(str(number), txn.old) != op.old:
            raise ConflictError(op.path, op.old, disk.sha256(str(number), txn.old))
        if tree.sha256(op.path) != op.new:
            raise ConflictError(op.path, op.new, tree.sha256(op.path))
    txn.mark(COMMITTED)


def clean(txn: Transaction, kept: bool) -> None:
    """Remove staged files, and with ``kept`` false the originals too."""
    for fd in (txn.new,) if kept else (txn.new, txn.old):
        for name in disk.names(fd):
            disk.unlink(name, fd)


def blockers(tree: disk.Tree, txn: Transaction, keep: List[str]) -> List[Dict[str, Any]]:
    """Return the files that a rollback would not know how to undo."""
    rows = []
    for number, op in enumerate(txn.journal.ops):
        found = tree.sha256(op.path)
        if found not in (op.old, op.new, "") and op.path not in keep:
            fd, name = tree.at(op.path)
            if not (op.old and _same(name, fd, str(number), txn.old)):
                rows.append(ConflictError(op.path, op.new or "absent", found).row)
    return rows


def _undo(tree: disk.Tree, txn: Transaction, number: str, op: Op) -> None:
    try:
        fd, name = tree.at(op.path)
    except FileNotFoundError:
        if not op.old:
            return
        raise
    found = disk.sha256(name, fd)
    if not op.old:
        if found and found != op.new:
            raise ConflictError(op.path, op.new, found)
        if found or _taken(txn, number):
            _take(txn, number, op.path, fd, name, op.new)
        return
    if not found:
        try:
            disk.link(number, name, txn.old, fd)
        except FileExistsError:
            raise ConflictError(op.path, op.old, disk.sha256(name, fd)) from None
    elif found == op.old or _same(name, fd, number, txn.old):
        _look_back(txn, number, op, fd, name)
    elif found == op.new and op.kind == REPLACE:
        _swap_back(txn, number, op, fd, name)
    else:
        raise ConflictError(op.path, op.new or "absent", found)


def backward(tree: disk.Tree, txn: Transaction, keep: List[str]) -> List[Dict[str, Any]]:
    """Bring the tree back to the old state; return the conflicts, which are left as they are.

    The kept inode itself comes back: bytes, mode, owner, times and hard links of before.
    """
    conflicts = []
    ops = txn.journal.ops
    for number, op in reversed(list(enumerate(ops))):
        if op.path not in keep:
            try:
                _undo(tree, txn, str(number), op)
            except ConflictError as conflict:
                conflicts.append(conflict.row)
        drop_bytecode(tree, op.path)
    for path in reversed(txn.journal.dirs):
        _remove_dir(tree, path)
    _sync(tree, ops, txn.journal.dirs)
    for op in ops:
        # Once more: an import that was under way could have compiled what it had read before.
        drop_bytecode(tree, op.path)
    if conflicts:
        txn.mark(CONFLICT, conflicts=conflicts)
    else:
        txn.mark(ROLLED_BACK, kept=keep)
    return conflicts


def _remove_dir(tree: disk.Tree, path: str) -> None:
    """Remove a directory that we made, unless somebody has put something into it."""
    try:
        fd, name = tree.at(path)
        inner = tree.directory(path)
    except FileNotFoundError:
        return
    left = disk.names(inner)
    if left == ["__pycache__"]:
        cache = disk.open_dir("__pycache__", inner)
        empty = not disk.names(cache)
        os.close(cache)
        if empty:
            disk.rmdir("__pycache__", inner)
            left = []
    if not left:
        disk.fsync(inner, path)
        tree.forget(path)
        disk.rmdir(name, fd)


def recover(tree: disk.Tree, state: State) -> List[Dict[str, Any]]:
    """Finish or undo what a crash has interrupted; doing it twice does nothing more."""
    done = []
    state.sweep()
    for name in state.ids():
        txn = state.load(name)
        try:
            found = txn.journal.state
            if found == BEGIN:
                action = "discarded"
                state.discard(txn)
            elif found in (COMMITTING, ROLLING_BACK):
                txn.open_files()
                action, _ = resume(tree, txn)
            else:
                if found != CONFLICT:
                    txn.open_files()
                    clean(txn, kept=found == COMMITTED)
                continue
            done.append({"id": name, "was": found, "action": action})
        finally:
            txn.close()
    return done


def resume(tree: disk.Tree, txn: Transaction) -> Tuple[str, List[Dict[str, Any]]]:
    """Take a transaction that has touched the tree to one of its two ends.

    Return what was done (``finished``, ``undone`` or ``conflict``), and the files in its way.
    """
    reasons: List[Dict[str, Any]] = []
    if txn.journal.state == COMMITTING:
        try:
            forward(tree, txn)
            clean(txn, kept=True)
            return "finished", reasons
        except ConflictError as conflict:
            reasons.append(conflict.row)
            txn.mark(ROLLING_BACK, why=conflict.row, keep=[])
    keep = list(txn.journal.last(ROLLING_BACK).get("keep", []))
    left = backward(tree, txn, keep)
    if left:
        return "conflict", left
    clean(txn, kept=False)
    return "undone", reasons


def refuse_unfinished(state: State) -> None:
    """Raise :class:`AgentError` when a transaction has conflicts that nobody has settled."""
    for name in state.ids():
        txn = state.load(name)
        found, record = txn.journal.state, txn.journal.last(CONFLICT)
        txn.close()
        if found == CONFLICT:
            raise AgentError(
                "conflict",
                f"push {name} is half undone: files were in the way",
                id=name,
                conflicts=record["conflicts"],
            )
