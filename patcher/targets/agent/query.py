"""Requests ``status`` and ``history``: what the pushes have left, file by file."""

from typing import Any, Dict, List, Tuple

from . import disk, expect, procs
from .frames import AgentError
from .journal import CONFLICT, ROLLED_BACK, ROLLING_BACK
from .push import opened, recover


def _files(tree: disk.Tree, wants: Dict[str, expect.Want]) -> Tuple[List[Dict[str, str]], bool]:
    found = {path: tree.sha256(path) for path in sorted(wants)}
    words = {path: wants[path].word(found[path]) for path in found}
    # An installer that wrote over us brings the originals back and leaves our new files behind.
    replaced = [
        path
        for path, want in wants.items()
        if want.stands and want.originals[-1] and want.ours not in want.originals
    ]
    reinstalled = bool(replaced) and all(words[path] == expect.PRISTINE for path in replaced)
    rows = []
    for path, word in words.items():
        want = wants[path]
        if reinstalled and word == expect.OURS and want.ours and not want.originals[-1]:
            word = expect.ORPHAN  # noqa: PLW2901
        if word:
            rows.append(
                {
                    "path": path,
                    "state": word,
                    "expected": want.expected(found[path]) or "absent",
                    "found": found[path] or "absent",
                }
            )
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
            told = expect.expected(state)
            answer["files"], answer["reinstalled"] = _files(tree, told.files)
            if told.standing is not None:
                stands = told.standing
                answer.update(id=stands.id, set=stands.set, set_version=stands.set_version)
            for name in state.ids():
                txn = state.load(name)
                if txn.journal.state == CONFLICT:
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
