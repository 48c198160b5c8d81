"""What every target offers, whatever carries it: the types that the rest of ddpatch uses."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, Protocol

from patcher.model import InstallFacts, Manifest, UsageError

if TYPE_CHECKING:
    from patcher.push.plan import PushPlan
    from patcher.push.records import HistoryRow, PushResult, RollbackResult, TargetStatus

Kind = Literal["ssh", "local", "index"]

_TYPES = {str: "string", int: "integer", bool: "true or false"}
_ARTICLES = {str: "a ", int: "an ", bool: ""}
_PLAIN = re.compile(r"[A-Za-z0-9_-]")


class Progress(Protocol):
    """Called while something long runs; ``total`` is None where nobody knows it."""

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Take note of ``done`` of ``total`` in ``stage``."""


def quiet(stage: str, done: int, total: int | None) -> None:
    """Take no note of progress."""


@dataclass(frozen=True, slots=True)
class HostConfig:
    """One ``[hosts.NAME]`` table of ``ddpatch.toml``.

    ``host`` may itself be an alias of the ssh configuration (empty: NAME is). ``python`` is the
    target's interpreter, ``path`` the folder that holds ``sglang/``, ``identity`` a private key
    file, ``sudo`` runs the agent as root through ``sudo -n``.
    """

    host: str = ""
    user: str = ""
    port: int = 0
    python: str = ""
    path: str = ""
    sudo: bool = False
    identity: str = ""

    @classmethod
    def from_table(cls, name: str, table: Mapping[str, object]) -> HostConfig:
        """Read a table of the configuration; an unknown key or a wrong type is a usage error."""
        kinds = {f.name: type(f.default) for f in fields(cls)}
        values: dict[str, object] = {}
        for key, value in table.items():
            if key not in kinds:
                raise UsageError(
                    f"[hosts.{name}] has an unknown key: {key}",
                    next_step=f"use one of {', '.join(sorted(kinds))}",
                )
            if type(value) is not kinds[key]:
                raise UsageError(
                    f"[hosts.{name}] {key} is {value!r}, expected {_TYPES[kinds[key]]}",
                    next_step=f"give {key} as {_ARTICLES[kinds[key]]}{_TYPES[kinds[key]]}",
                )
            values[key] = value
        return cls(**values)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something in the install that a snapshot leaves out, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An install as it was at one moment.

    ``contents`` gives (sha256 hex, bytes) once for each content that the store lacks, checked
    against its hash; it reads from the target while it is iterated, and it must be iterated to
    its end before the session does anything else. ``fetched`` says how many it will give.
    ``mtimes`` are nanoseconds since the epoch, for information only: nothing is decided by them.
    """

    manifest: Manifest
    contents: Iterator[tuple[str, bytes]]
    fetched: int
    skipped: tuple[Skipped, ...] = ()
    mtimes: Mapping[str, int] | None = None


class Session(Protocol):
    """An open connection to a target. One request at a time; not for threads."""

    def facts(self) -> InstallFacts:
        """Ask what is installed; raises UsageError for none, two, or one that cannot be used."""

    def snapshot(self, known: Container[str]) -> Snapshot:
        """Take a manifest, and the contents whose sha256 (hex) is not in ``known``."""

    def push(
        self, plan: PushPlan, *, dry_run: bool = False, allow_running: bool = False
    ) -> PushResult:
        """Bring the plan's files onto the target, all or none; see :mod:`patcher.push.client`."""

    def rollback(
        self, *, keep: Sequence[str] = (), dry_run: bool = False, allow_running: bool = False
    ) -> RollbackResult:
        """Undo the newest push that stands; files in ``keep`` stay as they are."""

    def status(self) -> TargetStatus:
        """Say what each file that was ever pushed is now."""

    def history(self) -> tuple[HistoryRow, ...]:
        """List pushes and rollbacks, oldest first."""


class Target(Protocol):
    """A place that has, or is, an SGLang install."""

    @property
    def name(self) -> str:
        """The name in the words of the user; snapshots are stored under it."""

    @property
    def slug(self) -> str:
        """The name as a legal component of a git ref, different for different names."""

    @property
    def kind(self) -> Kind:
        """What carries it."""

    @property
    def writable(self) -> bool:
        """Whether a push is possible at all."""

    def connect(self, progress: Progress = quiet) -> AbstractContextManager[Session]:
        """Open a session; leaving it without an exception checks that it ended properly."""


def slug(name: str) -> str:
    """Return a legal git ref component for ``name``; no two names have the same one.

    Every byte that is not a letter, digit, ``_``, ``-`` or harmless dot becomes ``=XX``
    (``git-check-ref-format(1)``): ``me@host:22`` gives ``me=40host=3A22``.
    """
    out = []
    for at, char in enumerate(name):
        harmless = _PLAIN.fullmatch(char) and not (char == "-" and at == 0)
        if char == ".":
            rest = name[at:]
            harmless = at > 0 and len(rest) > 1 and rest[1] != "." and rest.lower() != ".lock"
        out.append(char if harmless else "".join(f"={byte:02X}" for byte in char.encode()))
    return "".join(out)


def printable(text: str, limit: int = 2000) -> str:
    """Return text of a target for a terminal: control characters escaped, length bounded."""
    shown = "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    ).strip()
    return shown if len(shown) <= limit else shown[:limit] + f" … ({len(shown) - limit} more)"
