"""What every edit is made of: an anchor that says where, and rules for white space."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from patcher.changes import Conflict, Splice
from patcher.diagnose import SHOWN, nearest, where_is
from patcher.model import Candidate, Finding, Site
from patcher.pattern import Match, Pattern, substitute
from patcher.probe import Fact, Subject
from patcher.source import Source, Unreadable, first_node


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
        source = subject.tree.source(path)
        try:
            if self.scope and self.scope not in source.scopes:
                raise Conflict(self._missing_scope(subject, source))
            found = Pattern(self.pattern, self.where).find(source, self.scope)
        except Unreadable as error:
            raise Conflict(
                Finding(
                    code="anchor.unreadable",
                    message=f"{path} cannot be read as Python: {error.reason}",
                    site=Site(path, 1),
                    expected="a Python file",
                    found=error.reason,
                    next_step="compare the file with its release: `ddpatch status TARGET`",
                )
            ) from error
        if len(found) != self.expect:
            raise Conflict(self._wrong_count(subject, source, found))
        return found

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


def _look_at(candidates: tuple[object, ...], otherwise: str) -> str:
    if not candidates:
        return otherwise
    site = candidates[0].site  # type: ignore[attr-defined]
    return f"look at {site}: if that is the place, adapt the anchor"


# ------------------------------------------------------------------- white space


def own_lines(source: Source, node: ast.AST, *, before: bool) -> ast.stmt:
    """The statement around ``node``, if new lines can stand before or after it.

    Raises Conflict for an ``elif`` (nothing can stand before one) and for a statement that shares
    its line with another.
    """
    statement = source.statement(node)
    first = first_node(statement)
    start, end = source.span(statement)
    head = source.data[source.line_start(first.lineno) : start]
    tail = source.data[end : source.line_start((statement.end_lineno or first.lineno) + 1)]
    keyword = source.data[start : start + 5]
    if head.strip() or (not before and tail.split(b"#")[0].strip()):
        reason = "shares its line with other code"
    elif before and isinstance(statement, ast.If) and keyword.startswith(b"elif"):
        reason = "is an `elif`: nothing can stand before it"
    else:
        return statement
    site = source.site(statement)
    raise Conflict(
        Finding(
            code="anchor.place",
            message=f"{site}: the anchored statement {reason}",
            site=site,
            expected="a statement on lines of its own",
            found=source.lines(first.lineno, first.lineno).decode().strip(),
            next_step="anchor on the statement around it",
        )
    )


def block(source: Source, code: str, indent: bytes) -> bytes:
    """Code as the file would have it: its indentation, its line ends, a line end at the end."""
    lines = textwrap.dedent(code).strip("\n").split("\n")
    return b"".join(
        (indent + line.encode() if line.strip() else b"") + source.newline for line in lines
    )


def above_comments(source: Source, line: int, indent: bytes) -> int:
    """The first line of the comment block that stands directly above ``line``, or ``line``."""
    while line > 1:
        above = source.lines(line - 1, line - 1)
        if not above.startswith(indent + b"#"):
            break
        line -= 1
    return line


def parsed(template: str, match: Match) -> str:
    """A template with its metavariables filled in, ready to be placed."""
    return substitute(textwrap.dedent(template).strip("\n"), match)


def insert_at(source: Source, offset: int, data: bytes) -> Splice:
    """A splice that only adds; a missing line end before it is added too."""
    if offset and offset == len(source.data) and source.data[-1:] not in (b"\n", b"\r"):
        data = source.newline + data
    return Splice(source.path, offset, offset, data)


def labelled(splices: tuple[Splice, ...], patch: str) -> tuple[Splice, ...]:
    """The same splices, each saying which patch it belongs to."""
    return tuple(replace(s, patch=patch) for s in splices)
