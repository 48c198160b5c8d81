"""Requests ``status`` and ``history``: what the pushes have left, file by file."""

from typing import Any, Dict, List, NamedTuple, Tuple

from . import disk, procs
from .frames import AgentError
from .journal import COMMITTED, CONFLICT, ROLLED_BACK, ROLLING_BACK
from .push import opened, recover
from .state import State


class _Want(NamedTuple):
    original: str
    ours: str
    stands: bool


def _wanted(state: State) -> Dict[str, _Want]:
    """Return for each touched path its content before all pushes, and ours now."""
    wanted: Dict[str, _Want] = {}
    for name in state.ids():
        txn = state.load(name)
        stands = txn.journal.state == COMMITTED
        for op in txn.journal.ops:
            known = wanted.get(op.path)
            if known is None:
                wanted[op.path] = _Want(op.old, op.new, stands)
            elif stands or not known.stands:
                original = known.original if known.stands else op.old
                wanted[op.path] = _Want(original, op.new, stands)
        txn.close()
    return wanted


def _state_of(want: _Want, found: str) -> str:
    """Return one of the six words for files; empty for a path that is rightly absent."""
    if found == want.original and not (want.stands and want.ours == want.original):
        return "pristine" if found or want.stands else ""
    if want.stands and found == want.ours:
        return "ours"
    if not found:
        return "missing"
    if found == want.ours:
        return "orphan"
    return "modified" if want.original or want.stands else "foreign"


def _files(tree: disk.Tree, state: State) -> Tuple[List[Dict[str, str]], bool]:
    rows = []
    for path, want in sorted(_wanted(state).items()):
        found = tree.sha256(path)
        word = _state_of(want, found)
        if want.stands and not want.original and not found:
            word = "missing"
        if word:
            expected = want.ours if want.stands else want.original
            rows.append(
                {
                    "path": path,
                    "state": word,
                    "expected": expected or "absent",
                    "found": found or "absent",
                }
            )
    # An installer that wrote over us brings the originals back and leaves our new files behind.
    replaced = [row for row in rows if row["state"] in ("pristine", "ours", "modified")]
    originals = {path for path, want in _wanted(state).items() if want.original and want.stands}
    reinstalled = bool(originals) and all(
        row["state"] == "pristine" for row in replaced if row["path"] in originals
    )
    if reinstalled:
        for row in rows:
            if row["state"] == "ours" and row["path"] not in originals:
                row["state"] = "orphan"
    return rows, reinstalled


def status(request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer ``status``. An interrupted push is settled first, unless somebody holds the lock."""
    processes, hidden = procs.running(request["root"])
    answer: Dict[str, Any] = {
        "journal": "none",
        "files": [],
        "recovered": [],
        "reinstalled": False,
        "owner": {},
        "set": "",
        "set_version": "",
        "id": "",
        "conflicts": [],
        "processes": processes,
        "hidden": hidden,
    }
    tree = disk.Tree(request["root"])
    try:
        with opened(tree, request, create=False) as state:
            answer["recovered"] = recover(tree, state)
            answer["journal"] = "clean"
            answer["files"], answer["reinstalled"] = _files(tree, state)
            for name in state.ids():
                txn = state.load(name)
                if txn.journal.state == COMMITTED:
                    answer.update(
                        id=name,
                        set=txn.journal.begin["set"],
                        set_version=txn.journal.begin["set_version"],
                    )
                elif txn.journal.state == CONFLICT:
                    answer["journal"] = "conflict"
                    answer["conflicts"] = txn.journal.last(CONFLICT)["conflicts"]
                txn.close()
    except AgentError as error:
        if error.code == "locked":
            answer.update(journal="busy", owner=error.detail["owner"])
        elif error.code != "no-push":
            raise
    finally:
        tree.close()
    return answer


def history(request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer ``history``: every push that touched the tree, and every rollback, oldest first."""
    rows = []
    recovered: List[Dict[str, Any]] = []
    tree = disk.Tree(request["root"])
    try:
        with opened(tree, request, create=False) as state:
            recovered = recover(tree, state)
            for name in state.ids():
                txn = state.load(name)
                begin = txn.journal.begin
                common = {
                    "id": name,
                    "set": begin["set"],
                    "set_version": begin["set_version"],
                    "files": [op.path for op in txn.journal.ops],
                    "state": txn.journal.state,
                }
                who = begin["owner"]
                rows.append(dict(common, action="push", time=who["time"], owner=who))
                back = txn.journal.last(ROLLED_BACK) or txn.journal.last(CONFLICT)
                if back:
                    asked = txn.journal.last(ROLLING_BACK)
                    who = asked.get("owner", who)
                    rows.append(dict(common, action="rollback", time=back["time"], owner=who))
                txn.close()
    except AgentError as error:
        if error.code != "no-push":
            raise
    finally:
        tree.close()
    rows.sort(key=lambda row: str(row["time"]))
    return {"rows": rows, "recovered": recovered}
