"""A name that nobody else may register."""

from patcher.edits import AddElement, Anchor
from patcher.patchset import Patch, PatchCase, Strategy
from patcher.probe import Not, Shows

_FILE = "sglang/srt/speculative/spec_registry.py"
_PATTERN = "_RESERVED_NAMES = frozenset($NAMES)"
_LITERAL = Shows(_FILE, _PATTERN, "")

PATCH = Patch(
    id="reserved-name",
    title="Reserve the name DDTREE",
    why=(
        "Where the names of built-in algorithms are listed by hand, a third party could register "
        "DDTREE without an error, and never be asked: the enum member comes first."
    ),
    requires=("enum-member",),
    strategies=(
        Strategy(
            id="derived",
            when=Not(_LITERAL),
            note="no registry here, or its reserved names are derived from the enum",
        ),
        Strategy(
            id="literal",
            when=_LITERAL,
            edits=(
                AddElement(
                    anchor=Anchor(file=_FILE, scope="", pattern=_PATTERN),
                    to="NAMES",
                    element='"DDTREE"',
                ),
            ),
        ),
    ),
    cases=(
        PatchCase(
            title="one name more in the set",
            strategy="literal",
            before={
                _FILE: """\
_RESERVED_NAMES = frozenset(
    {"DFLASH", "EAGLE", "NONE"}
)
""",
            },
            after={
                _FILE: """\
_RESERVED_NAMES = frozenset(
    {"DFLASH", "EAGLE", "NONE", "DDTREE"}
)
""",
            },
        ),
    ),
)
