"""E1: the algorithm's name."""

from patcher.edits import AddMember
from patcher.patchset import Patch, PatchCase, Strategy
from patcher.probe import Fact

PATCH = Patch(
    id="enum-member",
    title="Add DDTREE to SpeculativeAlgorithm",
    why="The algorithm is chosen by name; logs and metrics show the enum member.",
    retire_when=Fact("algorithms", {"role": "member", "name": "DDTREE"}),
    retire_note="SGLang has a DDTREE algorithm of its own",
    strategies=(
        Strategy(
            id="enum",
            edits=(
                AddMember(
                    file="sglang/srt/speculative/spec_info.py",
                    cls="SpeculativeAlgorithm",
                    after="DFLASH",
                    name="DDTREE",
                ),
            ),
        ),
    ),
    cases=(
        PatchCase(
            title="the member follows DFLASH, comments stay where they are",
            strategy="enum",
            before={
                "sglang/srt/speculative/spec_info.py": '''\
class SpeculativeAlgorithm(Enum):
    """Algorithms."""

    DFLASH = auto()  # a block drafter
    EAGLE = auto()
''',
            },
            after={
                "sglang/srt/speculative/spec_info.py": '''\
class SpeculativeAlgorithm(Enum):
    """Algorithms."""

    DFLASH = auto()  # a block drafter
    DDTREE = auto()
    EAGLE = auto()
''',
            },
        ),
    ),
)
