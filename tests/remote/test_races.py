"""Somebody else writes into the tree, between any two steps of a push or a rollback."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.targets.agent import faults
from patcher.targets.agent.frames import AgentError
from tests.remote.conftest import ARGS, BUILDER, OBSOLETE, OLD
from tests.remote.faultdriver import Case, count, prepared

MINE = b"# mine\n"


def _edit(root: Path, path: str) -> str:
    if not (root / path).exists():
        return ""
    with (root / path).open("ab") as stream:
        stream.write(MINE)
    return path


def edit(root: Path) -> str:
    """Append in place to a file that is replaced."""
    return _edit(root, ARGS)


def edit_new(root: Path) -> str:
    """Append in place to a file that is new."""
    return _edit(root, BUILDER)


def edit_gone(root: Path) -> str:
    """Append in place to a file that is deleted."""
    return _edit(root, OBSOLETE)


def replace(root: Path) -> str:
    """Put another file there, as an editor or an installer does."""
    draft = root / "sglang/draft"
    draft.write_bytes(MINE)
    draft.replace(root / ARGS)
    return ARGS


def create(root: Path) -> str:
    """Make a file of our name, if there is none yet."""
    (root / BUILDER).parent.mkdir(exist_ok=True)
    try:
        with (root / BUILDER).open("xb") as stream:
            stream.write(MINE)
    except FileExistsError:
        return ""
    return BUILDER


class Hook(faults.Faults):
    """Does something when a point is passed."""

    def __init__(self, at: int, what: Callable[[], None]) -> None:
        super().__init__()
        outer = self

        class Names(list[str]):
            def append(self, name: str) -> None:
                super().append(name)
                if len(self) == at:
                    outer.hit = name
                    what()

        self.hit = ""
        self.names = Names()


@pytest.mark.parametrize("action", ["push", "rollback"])
@pytest.mark.parametrize("other", [edit, edit_new, edit_gone, replace, create])
def test_nothing_of_theirs_is_lost(
    other: Callable[[Path], str],
    action: str,
    memory: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("patcher.targets.agent.procs.running", lambda root: ([], 0))
    umask = os.umask(0)
    try:
        total = len(count(prepared(memory / "case", action), action))
        outcomes: set[str] = set()
        for at in range(1, total + 1):
            outcomes.add(one(memory / "case", action, other, at, monkeypatch))
    finally:
        os.umask(umask)
    if (other, action) != (edit_gone, "rollback"):  # there is no such file to edit then
        assert len(outcomes) > 1  # both accepted and refused: the hook did come in between


def one(
    folder: Path,
    action: str,
    other: Callable[[Path], str],
    at: int,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    case = prepared(folder, action)
    root = case.install.root
    theirs: list[str] = []
    hook = Hook(at, lambda: theirs.append(other(root)))
    monkeypatch.setattr(faults, "ACTIVE", hook)
    try:
        getattr(case, action)()
        told = "ok"
    except AgentError as error:
        told = error.code
    finally:
        monkeypatch.setattr(faults, "ACTIVE", None)
    # One window cannot be closed without renameat2(2): between the last look and the rename.
    window = other is replace and hook.hit == "rename server_args.py"
    if theirs and theirs[0] and not window:
        found = case.install.read(theirs[0]) or b""
        assert MINE in found, f"{at} {hook.hit}: told {told}, their bytes are gone"
    assert told not in ("bug", "io"), f"{at} {hook.hit}"
    if told in ("undone", "drift"):
        mine = {theirs[0]} if theirs else set()
        for path in OLD.keys() - mine:
            assert case.install.read(path) == OLD[path], f"{at} {hook.hit}: {path}"
    settled = case.status()
    assert not case.status()["recovered"], f"{at} {hook.hit}"
    if told == "stuck":
        assert settled["journal"] == "conflict"
    return told


def test_the_window_that_is_left_is_known(tmp_path: Path) -> None:
    """Should this ever fail, the window is closed: take the exception out of the test above."""
    case = Case(tmp_path / "case")
    assert "rename server_args.py" in count(case, "push")
