"""Requests ``push`` and ``rollback``.

Everything up to the record ``committing`` leaves the tree alone and is thrown away on failure.
From there on a failure goes back by itself, and a crash is finished by the next request.
"""

import contextlib
import errno
from typing import Any, Dict, Iterator, List, Mapping, NoReturn, Optional

from . import check, disk, expect, procs, swap
from .frames import AgentError
from .journal import BEGIN, COMMITTED, COMMITTING, CONFLICT, FORMAT, ROLLING_BACK
from .stage import Staging
from .state import NAME, State, Transaction, owner


class Critical:
    """While this is entered, a signal that would end the agent waits until it is left."""

    active = False
    pending = False

    def __enter__(self) -> None:
        Critical.active = True

    def __exit__(self, *_: Any) -> None:
        Critical.active = False
        if Critical.pending:
            raise SystemExit(1)

    @classmethod
    def signal(cls, _number: int, _stack: Any) -> None:
        """Handle SIGTERM, SIGINT and SIGHUP."""
        if not cls.active:
            raise SystemExit(1)
        cls.pending = True


def refused(error: OSError) -> AgentError:
    """Turn a failed system call from before the commit into an answer."""
    text = "{}: {}".format(error.filename or "the file system", error.strerror or error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return AgentError("space", text)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return AgentError("unwritable", text, paths=[])
    return AgentError("io", text)


def _prepare(tree: disk.Tree, txn: Transaction, contents: Mapping[str, bytes]) -> List[str]:
    """Stage and keep every file, then say that the commit begins."""
    staging = Staging(tree, txn, [])
    ops = txn.journal.ops
    for number, op in enumerate(ops):
        if op.new:
            staging.stage(str(number), op, contents[op.new])
    copies = [str(n) for n, op in enumerate(ops) if op.old and staging.keep(str(n), op)]
    disk.fsync(txn.new, "new")
    disk.fsync(txn.old, "old")
    drift = []
    for number, op in enumerate(ops):
        found = disk.sha256(str(number), txn.old) if op.old else tree.sha256(op.path)
        if found != op.old:
            drift.append({"path": op.path, "expected": op.old or "absent", "found": found})
    if drift:
        raise AgentError("drift", f"{len(drift)} files changed just now", files=drift)
    txn.mark(COMMITTING, copies=copies)
    return staging.notes


def _stuck(txn: Transaction, error: OSError) -> AgentError:
    return AgentError(
        "stuck",
        f"push {txn.id} stopped in state {txn.journal.state}: {error}",
        id=txn.id,
        state=txn.journal.state,
    )


def _back(tree: disk.Tree, txn: Transaction, keep: List[str]) -> List[Dict[str, Any]]:
    """Go back; one error (a full disk, say) is tried again before we give up."""
    try:
        return swap.backward(tree, txn, keep)
    except OSError:
        try:
            return swap.backward(tree, txn, keep)
        except OSError as error:
            raise _stuck(txn, error) from error


def _tidy(txn: Transaction, kept: bool, notes: List[str]) -> None:
    try:
        swap.clean(txn, kept)
    except OSError as error:  # the commit stands; the next request tidies up
        notes.append(f"leftovers in .ddpatch: {error}")


def _undo_commit(tree: disk.Tree, txn: Transaction, cause: Exception) -> NoReturn:
    row = cause.row if isinstance(cause, swap.ConflictError) else {"error": str(cause)}
    # Where the journal cannot grow we go back all the same: recovery would then find its way
    # forward blocked by the files that are old again, and end up where we do.
    with contextlib.suppress(OSError):
        txn.mark(ROLLING_BACK, why=row, keep=[])
    left = _back(tree, txn, [])
    if left:
        raise AgentError(
            "stuck",
            "files were in the way of going back",
            id=txn.id,
            state=CONFLICT,
            conflicts=left,
        )
    _tidy(txn, False, [])
    if isinstance(cause, swap.ConflictError):
        message = "{path} changed during the commit".format(**row)
    else:
        message = f"the commit failed: {cause}"
    raise AgentError("undone", message, id=txn.id, why=row)


def _run(
    state: State,
    tree: disk.Tree,
    ready: check.Ready,
    request: Dict[str, Any],
    contents: Mapping[str, bytes],
) -> Dict[str, Any]:
    begin: Dict[str, Any] = {
        "is": BEGIN,
        "format": FORMAT,
        "set": request["set"],
        "set_version": request["set_version"],
        "owner": owner(state.client),
        "over": expect.newest(state),
        "ops": [list(op) for op in ready.ops],
        "dirs": ready.dirs,
    }
    try:
        txn = state.begin(begin)
    except OSError as error:
        raise refused(error) from error
    try:
        try:
            notes = _prepare(tree, txn, contents)
        except (OSError, AgentError) as error:
            answer = refused(error) if isinstance(error, OSError) else error
            try:
                state.discard(txn)
            except OSError as second:
                raise AgentError(
                    "stuck",
                    f"{answer.message}; and push {txn.id} could not be discarded: {second}",
                    id=txn.id,
                    state=BEGIN,
                ) from second
            raise answer from error
        try:
            swap.forward(tree, txn)
        except (OSError, AgentError, swap.ConflictError) as error:
            _undo_commit(tree, txn, error)
        _tidy(txn, True, notes)
        return {"id": txn.id, "notes": notes}
    finally:
        txn.close()


def recover(tree: disk.Tree, state: State) -> List[Dict[str, Any]]:
    """Finish or undo what a crash has left; a failure of that is an answer, too."""
    try:
        return swap.recover(tree, state)
    except OSError as error:
        raise AgentError(
            "stuck", f"an interrupted push could not be settled: {error}", state="recovery"
        ) from error


def _importers(request: Dict[str, Any], found: List[Dict[str, Any]]) -> None:
    young = [row for row in found if row["importing"]]
    if young and not request["allow_running"]:
        raise AgentError("importers", "processes may be importing this package", processes=young)


def push(request: Dict[str, Any], contents: Mapping[str, bytes]) -> Dict[str, Any]:
    """Answer ``push``; with ``dry_run`` nothing is written."""
    tree = disk.Tree(request["root"])
    try:
        return _push(tree, request, contents)
    finally:
        tree.close()


def _push(
    tree: disk.Tree, request: Dict[str, Any], contents: Mapping[str, bytes]
) -> Dict[str, Any]:
    ops = check.parse_ops(request, contents)
    processes, hidden = procs.running(request["root"])
    answer = {
        "outcome": "dry-run",
        "id": "",
        "processes": processes,
        "hidden": hidden,
        "recovered": [],
        "notes": [],
    }

    def inspect(state: Optional[State], again: bool = False) -> check.Ready:
        try:
            ready = check.preflight(tree, ops, state is not None)
        except AgentError as error:
            if state is None or error.code != "drift":
                raise
            raise expect.explained(error, state) from error
        answer.update(need=ready.need, free=ready.free)
        if ready.done:
            answer["outcome"] = "nothing-to-do"
        elif not again:
            check.verify(tree, ops, contents, request["imports"])
        return ready

    exists = disk.lstat(NAME, tree.fd) is not None
    if request["dry_run"]:
        if not exists:
            inspect(None)
            return answer
        with opened(tree, request, create=False) as state:
            _refuse_unfinished(state)
            inspect(state)
        return answer
    if not exists and inspect(None).done:
        return answer
    _importers(request, processes)
    with Critical(), opened(tree, request, create=True) as state:
        answer["recovered"] = recover(tree, state)
        swap.refuse_unfinished(state)
        ready = inspect(state, again=not exists)  # the contents were verified, then
        if not ready.done:
            answer.update(_run(state, tree, ready, request, contents))
            answer["outcome"] = "pushed"
    return answer


@contextlib.contextmanager
def opened(tree: disk.Tree, request: Dict[str, Any], create: bool) -> Iterator[State]:
    """Hold the lock of the state directory."""
    try:
        state = State.open(request["root"], tree.fd, request["client"], create)
    except FileNotFoundError:
        raise AgentError("no-push", "ddpatch has never pushed here") from None
    except OSError as error:
        raise refused(error) from error
    try:
        with state:
            yield state
    finally:
        state.close()


def _refuse_unfinished(state: State) -> None:
    swap.refuse_unfinished(state)
    for name in state.ids():
        txn = state.load(name)
        found = txn.journal.state
        txn.close()
        if found in (BEGIN, COMMITTING, ROLLING_BACK):
            raise AgentError("unfinished", f"push {name} was cut in state {found}", id=name)


def rollback(request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer ``rollback``: undo the newest push that stands.

    With a file in the way nothing is changed at all, unless ``keep`` names it. ``keep`` may name
    files of that push only.
    """
    tree = disk.Tree(request["root"])
    try:
        with Critical(), opened(tree, request, create=False) as state:
            return _rollback(tree, state, request)
    finally:
        tree.close()


def _newest(state: State) -> Transaction:
    for name in reversed(state.ids()):
        txn = state.load(name)
        if txn.journal.state in (COMMITTED, CONFLICT):
            return txn
        txn.close()
    raise AgentError("no-push", "there is no push to undo")


def _rollback(tree: disk.Tree, state: State, request: Dict[str, Any]) -> Dict[str, Any]:
    recovered = recover(tree, state)
    txn = _newest(state)
    try:
        txn.open_files()
        ops = txn.journal.ops
        keep = request["keep"]
        unknown = sorted(set(keep) - {op.path for op in ops})
        if unknown:
            raise AgentError(
                "keep",
                f"not part of push {txn.id}",
                id=txn.id,
                unknown=unknown,
                files=sorted(op.path for op in ops),
            )
        blocked = swap.blockers(tree, txn, keep)
        if blocked:
            raise AgentError("in-the-way", f"{len(blocked)} files are not ours", conflicts=blocked)
        check.writable(tree, ops, True)
        processes, hidden = procs.running(request["root"])
        answer: Dict[str, Any] = {
            "id": txn.id,
            "files": [op.path for op in reversed(ops) if op.path not in keep],
            "kept": [op.path for op in reversed(ops) if op.path in keep],
            "processes": processes,
            "hidden": hidden,
            "recovered": recovered,
            "notes": [],
        }
        if request["dry_run"]:
            return answer
        _importers(request, processes)
        try:
            txn.mark(ROLLING_BACK, keep=keep, owner=owner(state.client))
        except OSError as error:
            raise refused(error) from error
        left = _back(tree, txn, keep)
        if left:
            raise AgentError(
                "stuck", "files got in the way", id=txn.id, state=CONFLICT, conflicts=left
            )
        _tidy(txn, False, answer["notes"])
        return answer
    finally:
        txn.close()
