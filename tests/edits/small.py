"""A tree of one small file, and what an edit makes of it."""

from inventory.model import Coverage, Inventory
from patcher.changes import Conflict, splice
from patcher.edits import Anchor, Edit
from patcher.probe import Subject
from patcher.tree import Tree

PATH = "a.py"


def subject(code: str | bytes) -> Subject:
    return Subject(Tree.of({PATH: code}), Inventory("", "", Coverage(1, 1, 0), {}))


def at(pattern: str, scope: str | None = None, expect: int = 1, **where: str) -> Anchor:
    return Anchor(file=PATH, pattern=pattern, scope=scope, expect=expect, where=where)


def edited(edit: Edit, code: str | bytes) -> str:
    """The file afterwards, or ``conflict: CODE``."""
    before = subject(code)
    try:
        return splice(before.tree.read(PATH), edit.plan(before)).decode()
    except Conflict as conflict:
        (found,) = conflict.findings
        assert found.expected
        assert found.found
        assert found.next_step
        return f"conflict: {found.code}"
