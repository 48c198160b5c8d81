"""Add something to a class body: an enum member, a field, a method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from patcher.changes import Splice
from patcher.edits.base import Anchor
from patcher.edits.statement import InsertAfter
from patcher.probe import Fact, Subject


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

    def present(self, subject: Subject) -> bool:
        """See :class:`~patcher.edits.base.Edit`."""
        return self._insertion().present(subject)


@dataclass(frozen=True, kw_only=True)
class AddMember(_Member):
    """Add an enum member ``name = value`` after the member called ``after``."""

    after: str
    name: str
    value: str = "auto()"

    def _insertion(self) -> InsertAfter:
        return self._after(f"{self.after} = $_", f"{self.name} = {self.value}")

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

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        head = next(line for line in self.code.strip().split("\n") if "def " in line)
        return f"add method {self.cls}: {head.strip().rstrip(':')}"
