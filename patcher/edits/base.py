"""What every edit is made of: an anchor that says where, and rules for white space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from patcher.changes import Conflict, Splice
from patcher.diagnose import SHOWN, nearest, where_is
from patcher.model import Candidate, Finding, Site, UsageError
from patcher.pattern import Match, Pattern
from patcher.probe import Fact, Subject
from patcher.source import Source, Unreadable


class Edit(Protocol):
    """One change to one file. Edits are frozen records; planning one touches nothing."""

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """The exact bytes to replace. Raises :class:`~patcher.changes.Conflict`."""

    def present(self, subject: Subject) -> bool:
        """Whether the tree already has what this edit brings."""

    def describe(self) -> str:
        """What it does and where, in a line."""


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """Where an edit goes: a file, a scope by qualified name, a pattern, and how often it matches.

    ``file`` is a path, or an inventory :class:`~patcher.probe.Fact` whose rows lie in one file.
    ``scope`` is the nearest class or function around the match (``""`` for module level, None for
    anywhere); ``where`` narrows metavariables by regular expression.
    """

    file: str | Fact
    pattern: str
    scope: str | None = None
    expect: int = 1
    where: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.expect < 1:
            raise UsageError(
                f"anchor `{self.pattern}` expects {self.expect} matches",
                next_step="an edit has one place or more; ask a probe whether code is absent",
            )

    def path(self, subject: Subject) -> str:
        """The file's path. Raises Conflict when the fact does not lead to exactly one file."""
        if isinstance(self.file, str):
            return self.file
        paths = sorted({row.site.path for row in self.file.rows(subject)})
        if len(paths) == 1:
            return paths[0]
        raise Conflict(
            Finding(
                code="anchor.file",
                message=f"{self.file.describe()}: {len(paths)} files hold it, expected one",
                expected="1 file",
                found=", ".join(paths) or "none",
                next_step="run `ddpatch inventory` and see where the code went",
            )
        )

    def locate(self, subject: Subject) -> list[Match]:
        """The matches, exactly as many as expected. Raises Conflict with the reason."""
        path = self.path(subject)
        if path not in subject.tree:
            raise Conflict(self._missing_file(subject, path))
        source = readable(subject, path)
        if self.scope and self.scope not in source.scopes:
            raise Conflict(self._missing_scope(subject, source))
        found = Pattern(self.pattern, self.where).find(source, self.scope)
        if len(found) != self.expect:
            raise Conflict(self._wrong_count(subject, source, found))
        return found

    def matches(self, subject: Subject) -> list[Match]:
        """The matches, however many: none where the file is not there or not Python."""
        path = self.path(subject)
        if path not in subject.tree:
            return []
        try:
            return Pattern(self.pattern, self.where).find(subject.tree.source(path), self.scope)
        except Unreadable:
            return []

    def _missing_file(self, subject: Subject, path: str) -> Finding:
        moved = where_is(subject.tree, self.scope or "", self.pattern)
        return Finding(
            code="anchor.file",
            message=f"there is no {path} in this tree",
            site=Site(path, 1, scope=self.scope or ""),
            expected=f"{path}" + (f" with {self.scope}" if self.scope else ""),
            found="no such file",
            nearest=moved,
            next_step=_look_at(moved, "find its new home with `ddpatch inventory`"),
        )

    def _missing_scope(self, subject: Subject, source: Source) -> Finding:
        assert self.scope
        moved = where_is(subject.tree, self.scope, self.pattern)
        return Finding(
            code="anchor.scope",
            message=f"{source.path} has no {self.scope}",
            site=Site(source.path, 1, scope=self.scope),
            expected=f"{self.scope} in {source.path}",
            found="not defined there",
            nearest=moved,
            next_step=_look_at(moved, "find its new home with `ddpatch inventory`"),
        )

    def _wrong_count(self, subject: Subject, source: Source, found: list[Match]) -> Finding:
        where = source.path + (f" ({self.scope})" if self.scope else "")
        near: tuple[Candidate, ...] = ()
        if not found:
            elsewhere = where_is(subject.tree, "", self.pattern)
            near = (*elsewhere, *nearest(source, self.pattern, self.scope))[:SHOWN]
        lines = ", ".join(str(m.site.line) for m in found)
        return Finding(
            code="anchor.count",
            message=(
                f"`{self.pattern}` matches {len(found)} time(s) in {where}, expected {self.expect}"
            ),
            site=found[0].site if found else near[0].site if near else Site(source.path, 1),
            expected=f"{self.expect} match(es) of `{self.pattern}`",
            found=f"{len(found)}" + (f" (lines {lines})" if lines else ""),
            nearest=near,
            next_step=(
                "narrow the anchor, or undo the hand-made copy in the install"
                if found
                else _look_at(near, "compare the file with its release: `ddpatch status TARGET`")
            ),
        )

    def describe(self) -> str:
        """Where it is, in a few words."""
        file = self.file if isinstance(self.file, str) else self.file.describe()
        return f"{file}" + (f" · {self.scope}" if self.scope else "") + f" · `{self.pattern}`"


def readable(subject: Subject, path: str) -> Source:
    """A file of the tree, parsed. Raises Conflict with the reason where it is not Python."""
    source = subject.tree.source(path)
    try:
        _ = source.tree
    except Unreadable as error:
        raise unreadable(error) from error
    return source


def unreadable(error: Unreadable) -> Conflict:
    """The conflict for a file that is not Python."""
    return Conflict(
        Finding(
            code="anchor.unreadable",
            message=f"{error.path} cannot be read as Python: {error.reason}",
            site=Site(error.path, 1),
            expected="a Python file",
            found=error.reason,
            next_step="compare the file with its release: `ddpatch status TARGET`",
        )
    )


def _look_at(candidates: tuple[object, ...], otherwise: str) -> str:
    if not candidates:
        return otherwise
    site = candidates[0].site  # type: ignore[attr-defined]
    return f"look at {site}: if that is the place, adapt the anchor"


def labelled(splices: tuple[Splice, ...], patch: str) -> tuple[Splice, ...]:
    """The same splices, each saying which patch it belongs to."""
    return tuple(replace(s, patch=patch) for s in splices)
