"""What an expression may stand for, as far as the text tells.

An expression has several values when several branches bind it; ``()`` is None, of which nothing
is claimed. A set of values with :data:`UNKNOWN` in it is unknown as a whole.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from patcher.resolve.bindings import Binding, FunctionNode
from patcher.resolve.program import Scope

if TYPE_CHECKING:
    from patcher.resolve.classes import ClassInfo


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that the text does not tell."""


@dataclass(frozen=True, slots=True)
class External:
    """A name of a package that is not in the tree, or a builtin, by its dotted path."""

    dotted: str


@dataclass(frozen=True, slots=True)
class ModuleValue:
    """A module or package of the tree."""

    dotted: str


@dataclass(frozen=True, slots=True)
class ClassValue:
    """A class of the tree itself; ``exact`` unless a subclass may stand in."""

    info: ClassInfo
    exact: bool = True


@dataclass(frozen=True, slots=True)
class InstanceValue:
    """An object of a class of the tree; ``exact`` unless it may be one of a subclass."""

    info: ClassInfo
    exact: bool = False


@dataclass(frozen=True, slots=True)
class SuperValue:
    """``super()`` inside a class."""

    info: ClassInfo


@dataclass(frozen=True, slots=True)
class FunctionValue:
    """A function of the tree; ``bound`` when its first parameter is already filled.

    ``launch`` is set once a kernel has got its grid: the launcher takes more keywords than the
    function has parameters.
    """

    node: FunctionNode
    scope: Scope
    owner: ClassInfo | None = None
    bound: bool = False
    launch: bool = False


@dataclass(frozen=True, slots=True)
class Many:
    """A homogeneous container of values."""

    element: Values


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple whose items are known one by one."""

    items: tuple[Values, ...]


@dataclass(frozen=True, slots=True)
class Alias:
    """A type expression that got a name of its own."""

    node: ast.expr
    scope: Scope


@dataclass(frozen=True, slots=True)
class Defined:
    """A name that a module's own statement binds."""

    scope: Scope
    binding: Binding


Value = (
    Unknown
    | External
    | ModuleValue
    | ClassValue
    | InstanceValue
    | SuperValue
    | FunctionValue
    | Many
    | Items
    | Alias
)
Values = tuple[Value, ...]
Target = Unknown | External | ModuleValue | Defined
"""What an import statement finally reaches."""

UNKNOWN: Final = Unknown()
NOTHING_KNOWN: Final[Values] = (UNKNOWN,)


def union(parts: Iterable[Values]) -> Values:
    """All values of all parts, each once; unknown as soon as one part is."""
    found: dict[Value, None] = {}
    for part in parts:
        found.update(dict.fromkeys(part))
    return NOTHING_KNOWN if UNKNOWN in found else tuple(found)


def is_known(values: Values) -> bool:
    """Whether something can be claimed about every one of the values."""
    return bool(values) and UNKNOWN not in values


def is_known_throughout(values: Values) -> bool:
    """Whether the values and what they hold are all known."""
    inner = [v.element for v in values if isinstance(v, Many)]
    inner += [item for v in values if isinstance(v, Items) for item in v.items]
    return is_known(values) and all(is_known_throughout(i) for i in inner)


def unpacked(values: Values, path: Sequence[int]) -> Values:
    """What unpacking values gives at a place: the second name of ``a, b = …`` is at ``(1,)``."""
    for position in path:
        parts: list[Values] = []
        for value in values:
            match value:
                case Items(items) if position < len(items):
                    parts.append(items[position])
                case Many(element):
                    parts.append(element)
                case _:
                    return NOTHING_KNOWN
        values = union(parts)
    return values
