"""Import a name at the top of a module: into an import that is there, or after the last one."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import libcst as cst

from patcher.changes import Conflict, Splice
from patcher.edits.base import Anchor, block, insert_at, own_lines
from patcher.edits.element import extended
from patcher.edits.region import rewrite
from patcher.model import Finding, Site
from patcher.probe import Fact, Subject
from patcher.source import Source


@dataclass(frozen=True, kw_only=True)
class AddImport:
    """Have ``from module import name`` at module level.

    A ``from module import (…)`` that is already there gets one name more; else a new line goes
    after the last import at module level (``TYPE_CHECKING`` blocks do not count).
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
        return subject.tree.source(path)

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        source = self._source(subject)
        imports = [n for n in source.tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
        for node in imports:
            if isinstance(node, ast.ImportFrom) and self._same_module(node):
                return (rewrite(source, node, self._extend),)
        line = f"from {self.module} import {self.name}"
        if imports:
            last = own_lines(source, imports[-1], before=False)
            after = (last.end_lineno or last.lineno) + 1
        else:
            first = source.tree.body[:1]
            docstring = first and isinstance(first[0], ast.Expr)
            after = (first[0].end_lineno or 1) + 1 if docstring else 1
        return (insert_at(source, source.line_start(after), block(source, line, b"")),)

    def _same_module(self, node: ast.ImportFrom) -> bool:
        return "." * node.level + (node.module or "") == self.module and node.names[0].name != "*"

    def _extend(self, found: cst.CSTNode) -> cst.CSTNode:
        if isinstance(found, cst.SimpleStatementLine):
            return found.with_changes(body=[self._extend(found.body[0])])
        assert isinstance(found, cst.ImportFrom)
        assert not isinstance(found.names, cst.ImportStar)
        new = cst.ImportAlias(name=cst.Name(self.name))
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
        """See :class:`~patcher.edits.base.Edit`."""
        return any(
            isinstance(node, ast.ImportFrom)
            and self._same_module(node)
            and any(alias.name == self.name and not alias.asname for alias in node.names)
            for node in self._source(subject).tree.body
        )

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"import {self.name} from {self.module}"
