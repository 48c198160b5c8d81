"""Frozen records that the whole of ddpatch speaks in.

The vocabulary (patch outcomes, release statuses, file states, exit codes) is a public contract:
``CONTRACT.md`` lists every word, and no other word is used for the same thing anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum, StrEnum
from typing import Any

SCHEMA_VERSION = 1
"""Version of every JSON document that ddpatch prints or stores."""


class ExitCode(IntEnum):
    """Exit codes of the command line (``CONTRACT.md``)."""

    OK = 0
    FINDING = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    ROLLED_BACK = 5
    UNRECOVERED = 6


class Outcome(StrEnum):
    """What became of a patch, or of a whole patch set."""

    APPLIED = "applied"
    ALREADY_APPLIED = "already-applied"
    NOT_NEEDED = "not-needed"
    UPSTREAM_FIXED = "upstream-fixed"
    CONFLICT = "conflict"
    BLOCKED = "blocked"


class ReleaseStatus(StrEnum):
    """What is known about a patch set on one release."""

    SUPPORTED = "supported"
    APPLIES = "applies"
    INCOMPLETE = "incomplete"
    CONFLICT = "conflict"
    UNSUPPORTED = "unsupported"
    ERROR = "error"


class FileState(StrEnum):
    """What a file on a target is, seen from the snapshot and the pushes."""

    PRISTINE = "pristine"
    OURS = "ours"
    MODIFIED = "modified"
    FOREIGN = "foreign"
    MISSING = "missing"
    ORPHAN = "orphan"


class Severity(StrEnum):
    """How much a finding weighs: only errors make a command exit 1."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One regular file of an install.

    ``path`` is relative to the package's parent (``sglang/srt/…``), ``mode`` are the permission
    bits, ``size`` is in bytes, ``nlink`` the hard-link count on the target (uv links its cache),
    ``blob`` the git object id of the content in the store, empty where there is none.
    """

    path: str
    mode: int
    size: int
    sha256: str
    nlink: int = 1
    blob: str = ""


@dataclass(frozen=True, slots=True)
class InstallFacts:
    """What a target's own interpreter said about its SGLang, without importing it.

    ``root`` is the directory that holds ``sglang/`` (site-packages, or ``python/`` of a checkout);
    ``distinfo`` the name of the dist-info directory beside it, empty for a plain folder.
    """

    version: str
    root: str
    distinfo: str = ""
    editable: bool = False
    installer: str = ""
    python: str = ""
    python_version: str = ""
    torch: str = ""
    cuda: str = ""
    gpus: tuple[str, ...] = ()
    checkout: str = ""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the code. Lines and columns count from 1, columns in characters."""

    path: str
    line: int
    column: int = 1
    end_line: int = 0
    scope: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f" ({self.scope})" if self.scope else "")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place that nearly matches an anchor; ``score`` in 0..1, ``text`` its source."""

    site: Site
    score: float
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not hold, with everything a person needs to go on.

    ``code`` is stable (``anchor.count``, ``names.unresolved`` …); ``next_step`` is an imperative
    sentence, never empty for an error.
    """

    code: str
    message: str
    severity: Severity = Severity.ERROR
    level: str = ""
    patch: str = ""
    site: Site | None = None
    expected: str = ""
    found: str = ""
    nearest: tuple[Candidate, ...] = ()
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows for a person.

    A ``dense`` table has places (``path:line``) in its first column; a terminal groups its rows by
    file, cuts long cells with an ellipsis, and shows ``fold`` rows unless that is 0. A pipe always
    gets every row whole.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    dense: bool = False
    fold: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """What a command found out. Every renderer reads this one object and nothing else.

    ``data`` holds the command's own JSON keys; ``lines``, ``tables`` and the closing ``footer``
    are for people. ``body`` is text that stands for itself, a diff or a script: in a pipe it is
    all that is printed. ``syntax`` says how a terminal may colour it.
    """

    command: str
    exit_code: ExitCode
    data: Mapping[str, Any]
    headline: str
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    findings: tuple[Finding, ...] = ()
    footer: str = ""
    body: str = ""
    syntax: str = ""
    next_step: str = ""


class DdpatchError(Exception):
    """An expected failure: a sentence for the person, an exit code, and what to do next."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: ExitCode,
        next_step: str = "",
        findings: tuple[Finding, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.next_step = next_step
        self.findings = findings


class UsageError(DdpatchError):
    """The command, its configuration or its store cannot be used as given (exit 2)."""

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message, exit_code=ExitCode.USAGE, next_step=next_step)


class TargetError(DdpatchError):
    """The target cannot be reached, or refused us (exit 3)."""

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message, exit_code=ExitCode.UNREACHABLE, next_step=next_step)


class Refusal(DdpatchError):
    """Going on could lose something, so nothing was changed (exit 4)."""

    def __init__(
        self, message: str, *, next_step: str = "", findings: tuple[Finding, ...] = ()
    ) -> None:
        super().__init__(
            message, exit_code=ExitCode.REFUSED, next_step=next_step, findings=findings
        )


def to_json(value: Any) -> Any:
    """Turn records, enums and tuples into plain JSON values; empty optional fields stay out.

    A :class:`Site` inside a record is flattened into it, so that every row that points at code
    has ``path``, ``line``, ``column``, ``end_line`` and ``scope`` at its top level.
    """
    if isinstance(value, StrEnum | str):
        return str(value)
    if isinstance(value, IntEnum):
        return int(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(v) for v in value]
    if hasattr(value, "__dataclass_fields__"):
        row: dict[str, Any] = {}
        for f in fields(value):
            item = getattr(value, f.name)
            if isinstance(item, Site):
                row.update(to_json(item))
            elif item not in (None, "", ()):
                row[f.name] = to_json(item)
            elif isinstance(value, Site):
                row[f.name] = item
        return row
    raise TypeError(f"no JSON form for {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class Manifest:
    """All files of a snapshot, with the facts of the install they came from.

    ``skipped`` are entries that were left out (symbolic links, say), with the reason.
    """

    facts: InstallFacts
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
