"""Add something to a class body: an enum member, a field, a method."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import dataclass

from patcher.changes import Splice
from patcher.edits.base import Anchor
from patcher.edits.statement import InsertAfter
from patcher.edits.template import dedented
from patcher.matching import same
from patcher.pattern import PatternError
from patcher.probe import Fact, Subject
from patcher.source import Source, Unreadable

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, kw_only=True)
class _Member(ABC):
    file: str | Fact
    cls: str

    def _after(self, pattern: str, code: str, blank_lines: int = 0) -> InsertAfter:
        anchor = Anchor(file=self.file, scope=self.cls, pattern=pattern)
        return InsertAfter(anchor=anchor, code=code, blank_lines=blank_lines)

    @abstractmethod
    def _insertion(self) -> InsertAfter:
        """The insertion that this edit comes down to."""

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        return self._insertion().plan(subject)

    @abstractmethod
    def _name(self) -> str:
        """What the class has afterwards."""

    def present(self, subject: Subject) -> bool:
        """Whether the class body defines the name already, whatever as."""
        name = self._name()
        patterns = (f"{name} = $_", f"{name}: $_", f"def {name}($...): $...")
        anchors = (Anchor(file=self.file, scope=self.cls, pattern=p) for p in patterns)
        return any(anchor.matches(subject) for anchor in anchors)


@dataclass(frozen=True, kw_only=True)
class AddMember(_Member):
    """Add an enum member ``name = value`` after the member called ``after``."""

    after: str
    name: str
    value: str = "auto()"

    def _insertion(self) -> InsertAfter:
        return self._after(f"{self.after} = $_", f"{self.name} = {self.value}")

    def _name(self) -> str:
        return self.name

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"add member {self.cls}.{self.name}"


@dataclass(frozen=True, kw_only=True)
class AddField(_Member):
    """Add an annotated field (a dataclass field, say) after the field called ``after``."""

    after: str
    name: str
    annotation: str
    default: str | None = None

    def _insertion(self) -> InsertAfter:
        code = f"{self.name}: {self.annotation}"
        if self.default is not None:
            code += f" = {self.default}"
        return self._after(f"{self.after}: $_", code)

    def _name(self) -> str:
        return self.name

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"add field {self.cls}.{self.name}"


@dataclass(frozen=True, kw_only=True)
class AddMethod(_Member):
    """Add a method, one blank line after the method called ``after``."""

    after: str
    code: str

    def _insertion(self) -> InsertAfter:
        return self._after(f"def {self.after}($...): $...", self.code, blank_lines=1)

    def _method(self) -> ast.FunctionDef | ast.AsyncFunctionDef:
        tree = Source("", dedented(self.code).encode())
        try:
            found = [n for n in tree.tree.body if isinstance(n, _FUNCTIONS)]
        except Unreadable as error:
            raise PatternError(
                f"the method to add to {self.cls} is not Python: {error.reason}",
                next_step="write a whole method, `def` and body",
            ) from error
        if len(found) == 1 == len(tree.tree.body):
            return found[0]
        raise PatternError(
            f"the code to add to {self.cls} is not one method",
            next_step="write a whole method, `def` and body",
        )

    def _name(self) -> str:
        return self._method().name

    def present(self, subject: Subject) -> bool:
        """Whether the class has that very method, or another of its name that it would replace.

        One with a decorator (a setter, an overload) can share its name with others.
        """
        method = self._method()
        kind = "async def" if isinstance(method, ast.AsyncFunctionDef) else "def"
        anchor = Anchor(file=self.file, scope=self.cls, pattern=f"{kind} {method.name}($...): $...")
        found = [match.node for match in anchor.matches(subject)]
        if not method.decorator_list:
            return bool(found)
        return any(same(node, method) for node in found)

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"add method {self.cls}.{self._name()}"
