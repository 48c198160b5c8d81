"""E2: what the algorithm answers when it is asked what it is."""

from patcher.edits import AddMethod, Anchor, ReplaceExpression
from patcher.patchset import Patch, PatchCase, Strategy

_FILE = "sglang/srt/speculative/spec_info.py"

PATCH = Patch(
    id="predicates",
    title="Answer is_dflash() for DDTREE, and add is_ddtree()",
    why=(
        "DDTREE shares DFLASH's drafter, KV budget, hidden-state capture and request checks: one "
        "widened predicate gives it every one of those places. is_ddtree() tells the two apart "
        "where a tree needs something else."
    ),
    requires=("enum-member",),
    strategies=(
        Strategy(
            id="enum",
            edits=(
                ReplaceExpression(
                    anchor=Anchor(
                        file=_FILE,
                        scope="SpeculativeAlgorithm.is_dflash",
                        pattern="return $TEST",
                    ),
                    of="TEST",
                    by="self in (SpeculativeAlgorithm.DFLASH, SpeculativeAlgorithm.DDTREE)",
                ),
                AddMethod(
                    file=_FILE,
                    cls="SpeculativeAlgorithm",
                    after="is_dflash",
                    code="""
                        def is_ddtree(self) -> bool:
                            return self == SpeculativeAlgorithm.DDTREE
                    """,
                ),
            ),
        ),
    ),
    cases=(
        PatchCase(
            title="the predicate is widened and its sister follows it",
            strategy="enum",
            before={
                _FILE: """\
class SpeculativeAlgorithm(Enum):
    DFLASH = auto()

    def is_dflash(self) -> bool:
        return self == SpeculativeAlgorithm.DFLASH

    def is_ngram(self) -> bool:
        return self == SpeculativeAlgorithm.NGRAM
""",
            },
            after={
                _FILE: """\
class SpeculativeAlgorithm(Enum):
    DFLASH = auto()

    def is_dflash(self) -> bool:
        return self in (SpeculativeAlgorithm.DFLASH, SpeculativeAlgorithm.DDTREE)

    def is_ddtree(self) -> bool:
        return self == SpeculativeAlgorithm.DDTREE

    def is_ngram(self) -> bool:
        return self == SpeculativeAlgorithm.NGRAM
""",
            },
        ),
    ),
)
