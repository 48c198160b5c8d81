"""Wrap a call in another: ``f(x)`` becomes ``g(f(x))``."""

from __future__ import annotations

from dataclasses import dataclass

from patcher.changes import Splice
from patcher.edits.base import Anchor
from patcher.edits.expression import ReplaceExpression
from patcher.pattern import MATCH
from patcher.probe import Subject


@dataclass(frozen=True, kw_only=True)
class WrapCall:
    """Pass the call that ``of`` stands for to ``function``, before ``arguments`` if there are any.

    ``arguments`` is source text and may use what the anchor bound: ``"self, $X"``.
    """

    anchor: Anchor
    function: str
    arguments: str = ""
    of: str = MATCH

    def _replacement(self) -> ReplaceExpression:
        rest = f", {self.arguments}" if self.arguments else ""
        by = f"{self.function}(${self.of}{rest})"
        return ReplaceExpression(anchor=self.anchor, by=by, of=self.of)

    def plan(self, subject: Subject) -> tuple[Splice, ...]:
        """See :class:`~patcher.edits.base.Edit`."""
        return self._replacement().plan(subject)

    def present(self, subject: Subject) -> bool:
        """See :class:`~patcher.edits.base.Edit`."""
        return self._replacement().present(subject)

    def describe(self) -> str:
        """See :class:`~patcher.edits.base.Edit`."""
        return f"wrap {self.anchor.describe()} in {self.function}"
