"""Import a name at the top of a module: into an import that is there, or after the last one."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import libcst as cst

from patcher.changes import Conflict, Splice
from patcher.edits.base import Anchor, readable
from patcher.edits.element import extended
from patcher.edits.lines import below, insert_at, on_lines_of, own_lines
from patcher.edits.proof import flaw, refused
from patcher.edits.region import rewrite
from patcher.matching import same
from patcher.model import Finding, Site
from patcher.pattern import PatternError
from patcher.probe import Fact, Subject
from patcher.source import Source, first_node


@dataclass(frozen=True, kw_only=True)
class AddImport:
    """Have ``from module import name`` at module level.

    A ``from module import (…)`` that is already there gets one name more; else a new line goes
    after the last import at module level (``TYPE_CHECKING`` blocks do not count), after the
    docstring, or below the comments that the file begins with. ``name`` may be ``name as other``.
    """

    file: str | Fact
    module: str
    name: str

    def _source(self, subject: Subject) -> Source:
        path = Anchor(file=self.file, pattern="$_").path(subject)
        if path not in subject.tree:
            raise Conflict(
                Finding(
                    code="anchor.file",
                    message=f"there is no {path} in this tree",
                    site=Site(path, 1),
                    expected=path,
                    found="no such file",
                    next_step="find its new home with `ddpatch inventory`",
                )
            )
        return readable(subject, path)

    def _wanted(self) -> ast.ImportFrom:
        try:
            (found,) = ast.parse(f"from {self.module} import {self.name}").body
            if isinstance(found, ast.ImportFrom):
                (alias,) = found.names
                if alias.name != "*":
                    return found
        except (SyntaxError, ValueError):
            pass
        raise PatternError(
            f"`from {self.module} import {self.name}` does not import one name",
            next_step="name a module, and one name (`name` or `name as other`)",
        )

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        source, wanted = self._source(subject), self._wanted()
        imports = [n for n in source.tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
        for node in imports:
            if isinstance(node, ast.ImportFrom) and _same_module(node, wanted):
                names = [*node.names, *wanted.names]
                meant = ast.ImportFrom(node.module, names, node.level)
                return (rewrite(source, node, self._extend, meant),)
        line = f"from {self.module} import {self.name}".encode() + source.newline
        body = source.tree.body
        if imports or _docstring(body):
            last = own_lines(source, imports[-1] if imports else body[0])
            one = insert_at(source, source.line_start(below(source, last)), line)
            around = on_lines_of(source, last)
            problem = flaw(source, around, one, [*around, wanted])
        elif body:
            one = insert_at(source, source.line_start(_below_header(source, body[0])), line)
            around = on_lines_of(source, own_lines(source, body[0], before=True))
            problem = flaw(source, around, one, [wanted, *around])
        else:
            return (insert_at(source, len(source.data), line),)
        if problem:
            raise refused(source, body[0], problem)
        return (one,)

    def _extend(self, found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.ImportFrom)
        assert not isinstance(found.names, cst.ImportStar)
        name, _, other = self.name.partition(" as ")
        new = cst.ImportAlias(
            name=cst.Name(name.strip()),
            asname=cst.AsName(name=cst.Name(other.strip())) if other else None,
        )
        names = list(found.names)
        if found.lpar is None or found.rpar is None:
            return found.with_changes(names=extended(names, new, None, None)[0])
        longer, rest = extended(
            names, new, found.lpar.whitespace_after, found.rpar.whitespace_before
        )
        return found.with_changes(
            names=longer, rpar=found.rpar.with_changes(whitespace_before=rest)
        )

    def present(self, subject: Subject) -> bool:
        """Whether the name is imported already at module level."""
        try:
            body = self._source(subject).tree.body
        except Conflict:
            return False
        wanted = self._wanted()
        return any(
            isinstance(node, ast.ImportFrom)
            and _same_module(node, wanted)
            and any(same(alias, wanted.names[0]) for alias in node.names)
            for node in body
        )

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"import {self.name} from {self.module}"


def _same_module(node: ast.ImportFrom, wanted: ast.ImportFrom) -> bool:
    same_name = (node.level, node.module) == (wanted.level, wanted.module)
    return same_name and node.names[0].name != "*"


def _docstring(body: list[ast.stmt]) -> bool:
    return bool(body) and (
        isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    )


def _below_header(source: Source, first: ast.stmt) -> int:
    """The line below the shebang, the encoding and the licence, above the first statement.

    The last of several blocks of comments belongs to the statement if it stands directly above.
    """
    start = first_node(first).lineno
    comments = [n for n in range(1, start) if source.lines(n, n).strip()]
    if not comments:
        return start
    ends = [n for n in comments if n + 1 not in comments]
    return ends[-2 if len(ends) > 1 and ends[-1] + 1 == start else -1] + 1
