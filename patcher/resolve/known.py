"""Names of the standard library, torch and triton whose meaning the resolver relies on."""

from __future__ import annotations

MODEST_CLASS_DECORATORS = frozenset(
    {"dataclass", "total_ordering", "final", "runtime_checkable", "unique", "verify", "deprecated"}
)
"""Class decorators that add no attribute a caller would name."""

MODEST_METACLASSES = frozenset({"ABCMeta", "EnumMeta", "EnumType"})

PROPERTIES = ("property", "cached_property", "abstractproperty")

TRANSPARENT = frozenset(
    {
        "abstractmethod",
        "cache",
        "classmethod",
        "deprecated",
        "final",
        "inference_mode",
        "jit",
        "lru_cache",
        "no_grad",
        "override",
        "staticmethod",
    }
)
"""Function decorators that keep both the parameters and what is returned."""

SAME_PARAMETERS = TRANSPARENT | {"asynccontextmanager", "compile", "contextmanager", "script"}
"""Function decorators that keep the parameters."""

SEQUENCES = frozenset(
    {
        "Collection",
        "Deque",
        "FrozenSet",
        "Iterable",
        "Iterator",
        "List",
        "MutableSequence",
        "Sequence",
        "Set",
        "deque",
        "frozenset",
        "list",
        "set",
    }
)
"""Generic types that hold many values of one type."""

WRAPPERS = frozenset(
    {
        "Annotated",
        "ClassVar",
        "Final",
        "InitVar",
        "NotRequired",
        "Optional",
        "ReadOnly",
        "Required",
    }
)
"""Generic types that say something about their first parameter's type, but are not another."""

TYPING_LIBRARIES = ("typing.", "typing_extensions.", "builtins.", "collections.", "dataclasses.")

SAME_VALUE = frozenset(
    {"copy.copy", "copy.deepcopy", "builtins.reversed", "builtins.sorted", "builtins.list"}
)
"""Functions that give back what they are given, or a copy of it."""

LAUNCH_KEYWORDS = (
    "num_warps",
    "num_stages",
    "num_ctas",
    "maxnreg",
    "enable_fp_fusion",
    "launch_cooperative_grid",
    "launch_pdl",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
)
"""Keywords that a Triton launch takes beside the kernel's own parameters."""

READABLE_LIBRARIES = ("abc", "builtins", "enum", "typing")
"""Standard modules whose classes we know by looking at our own interpreter's."""

SPECIAL_BASES: dict[str, tuple[str, ...]] = {
    "typing.NamedTuple": (*dir(tuple), "_asdict", "_replace", "_fields", "_make"),
    "typing.TypedDict": tuple(dir(dict)),
    "msgspec.Struct": tuple(dir(object)),
}
"""Bases that are not what they look like, or not installed here, with what they bring in."""

MODULE_NAMES = frozenset(
    {
        "__annotations__",
        "__builtins__",
        "__cached__",
        "__class__",
        "__dict__",
        "__doc__",
        "__file__",
        "__loader__",
        "__name__",
        "__package__",
        "__path__",
        "__spec__",
    }
)
"""Names that every module has without binding them."""
