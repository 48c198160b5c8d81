"""What a push, a rollback, a status and a history tell. Times are UTC, hashes sha256 in hex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from patcher.model import FileState

Kind = Literal["add", "replace", "delete"]


@dataclass(frozen=True, slots=True)
class Process:
    """A process that runs from the tree; ``started`` in seconds since the epoch.

    ``importing``: it is so young that it may still be importing the package.
    """

    pid: int
    command: str
    started: float
    importing: bool
    why: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """An interrupted push that this request has settled first.

    ``was`` is its journal state, ``action`` one of ``discarded`` (the tree was never touched),
    ``finished``, ``undone``, ``conflict``.
    """

    id: str
    was: str
    action: str


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a push; ``old`` and ``new`` are empty where the file is absent."""

    path: str
    kind: Kind
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class PushResult:
    """What a push did (``pushed``), would do (``dry-run``) or need not do (``nothing-to-do``).

    ``files`` stand in the order of the commit. ``need`` and ``free`` are bytes. ``hidden`` counts
    processes that this user may not look into, -1 where there is no ``/proc``.
    """

    outcome: Literal["pushed", "dry-run", "nothing-to-do"]
    id: str
    files: tuple[FileChange, ...]
    need: int
    free: int
    processes: tuple[Process, ...] = ()
    hidden: int = 0
    recovered: tuple[Recovered, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """The push that was undone, and its files in the order of the undoing.

    ``kept`` are those that were left as they are because the caller asked for it; they are not
    among ``files``.
    """

    id: str
    files: tuple[str, ...]
    dry_run: bool = False
    processes: tuple[Process, ...] = ()
    hidden: int = 0
    recovered: tuple[Recovered, ...] = ()
    notes: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What a file that was pushed once is now, with the hash it should have and the one it has.

    It should be what the newest standing push wants; where none stands on it, what it was before
    the oldest push, or before a later one that found it with none below. Absent is a content, too:
    a path that is rightly absent is `ours` where we removed a file, and not listed otherwise.

    - ``ours``: as the newest standing push wants it
    - ``pristine``: as before; drift all the same where a standing push wants something else
    - ``missing``: should be there, and is not
    - ``orphan``: ours, left behind: as some push wrote it, but it should be otherwise now
      (an installer came over it, an older set was put back, or a rollback was to keep it)
    - ``modified``: edited: neither of the above, at a path that should have a file, or was ours
      and was kept by a rollback
    - ``foreign``: somebody else's, at a path that should have none
    """

    path: str
    state: FileState
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """The state of a target: the push that stands (``id`` empty for none) and every file.

    ``journal`` is ``none`` (never pushed), ``clean``, ``busy`` (``owner`` says by whom; nothing
    else is known then) or ``conflict``. ``reinstalled``: an installer has written over the push.
    """

    journal: Literal["none", "clean", "busy", "conflict"]
    id: str = ""
    set_name: str = ""
    set_version: str = ""
    files: tuple[FileStatus, ...] = ()
    reinstalled: bool = False
    owner: str = ""
    conflicts: tuple[str, ...] = ()
    processes: tuple[Process, ...] = ()
    hidden: int = 0
    recovered: tuple[Recovered, ...] = ()

    @property
    def drifted(self) -> tuple[FileStatus, ...]:
        """The files that are not what the last push or rollback has left."""
        good = {FileState.OURS, FileState.PRISTINE}
        return tuple(r for r in self.files if r.expected != r.found or r.state not in good)


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One push or rollback; ``state`` is what has become of the push since.

    ``host`` and ``user`` are the target's, ``client`` is who asked, as ``user@machine``.
    """

    id: str
    action: Literal["push", "rollback"]
    time: str
    set_name: str
    set_version: str
    state: str
    host: str
    user: str
    client: str
    files: tuple[str, ...]
