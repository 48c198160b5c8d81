"""The kinds of edit, one file each. A kind is a frozen record with ``plan`` and ``present``."""

from patcher.edits.base import Anchor, Edit
from patcher.edits.call import WrapCall
from patcher.edits.condition import WidenCondition
from patcher.edits.element import AddElement, AddKeyword
from patcher.edits.expression import ReplaceExpression
from patcher.edits.file import AddFile, Choice, Variable, variables_from
from patcher.edits.imports import AddImport
from patcher.edits.member import AddField, AddMember, AddMethod
from patcher.edits.statement import InsertAfter, InsertBefore

__all__ = [
    "AddElement",
    "AddField",
    "AddFile",
    "AddImport",
    "AddKeyword",
    "AddMember",
    "AddMethod",
    "Anchor",
    "Choice",
    "Edit",
    "InsertAfter",
    "InsertBefore",
    "ReplaceExpression",
    "Variable",
    "WidenCondition",
    "WrapCall",
    "variables_from",
]
