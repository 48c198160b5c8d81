"""Whether a name surely has no value yet where it is used."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from patcher.resolve.bindings import Binding, Kind
from patcher.resolve.program import Scope
from patcher.resolve.references import Reference


def used_too_early(
    node: ast.Name, at: Reference, where: Scope, bindings: Sequence[Binding]
) -> bool:
    """Whether every binding of a name in the same frame runs after this use of it.

    Text order is run order within one frame, except inside a loop that also holds the binding.
    """
    frame: Scope | None = at.scope
    while frame is not None and frame.kind == "comprehension" and frame is not where:
        frame = frame.parent
    if frame is not where or where.kind not in ("function", "module"):
        return False
    if at.deferred:
        return False
    use = (node.lineno, node.col_offset)
    for binding in bindings:
        if binding.kind is Kind.PARAMETER or not hasattr(binding.node, "lineno"):
            return False
        if isinstance(binding.node, ast.NamedExpr):  # a condition may stand after what it guards
            return False
        if _ready(binding) <= use or any(_contains(loop, binding.line) for loop in at.loops):
            return False
    return True


def _ready(binding: Binding) -> tuple[int, int]:
    """The position in the text at which a binding has been made."""
    node = binding.node
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return node.end_lineno or node.lineno, node.end_col_offset or 0
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _contains(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None)
    return bool(first <= line <= (last or first))
