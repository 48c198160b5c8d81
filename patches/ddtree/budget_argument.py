"""The one argument of its own that the algorithm has: how many nodes a tree may have."""

from patcher.edits import AddField, Anchor, InsertAfter
from patcher.patchset import Patch, PatchCase, Strategy

_FILE = "sglang/srt/server_args.py"

PATCH = Patch(
    id="budget-argument",
    title="Add --speculative-ddtree-budget",
    why=(
        "The budget is the number of tree nodes without the root; the verify window is one wider. "
        "It is the algorithm's main knob, and no argument that SGLang has means the same."
    ),
    strategies=(
        Strategy(
            id="dataclass-and-argparse",
            edits=(
                AddField(
                    file=_FILE,
                    cls="ServerArgs",
                    after="speculative_dflash_block_size",
                    name="speculative_ddtree_budget",
                    annotation="Optional[int]",
                    default="None",
                ),
                InsertAfter(
                    anchor=Anchor(
                        file=_FILE,
                        scope="ServerArgs.add_cli_args",
                        pattern='$PARSER.add_argument("--speculative-dflash-block-size", $...)',
                    ),
                    code="""
                        $PARSER.add_argument(
                            "--speculative-ddtree-budget",
                            type=int,
                            help="DDTREE only. Tree nodes to verify per step, without the root. "
                            "The verify window is one wider. Default: 31.",
                            default=ServerArgs.speculative_ddtree_budget,
                        )
                    """,
                ),
            ),
        ),
    ),
    cases=(
        PatchCase(
            title="a field beside DFLASH's, an option beside DFLASH's",
            strategy="dataclass-and-argparse",
            before={
                _FILE: """\
@dataclasses.dataclass
class ServerArgs:
    speculative_dflash_block_size: Optional[int] = None
    speculative_token_map: Optional[str] = None

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument(
            "--speculative-dflash-block-size",
            type=int,
        )
""",
            },
            after={
                _FILE: """\
@dataclasses.dataclass
class ServerArgs:
    speculative_dflash_block_size: Optional[int] = None
    speculative_ddtree_budget: Optional[int] = None
    speculative_token_map: Optional[str] = None

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument(
            "--speculative-dflash-block-size",
            type=int,
        )
        parser.add_argument(
            "--speculative-ddtree-budget",
            type=int,
            help="DDTREE only. Tree nodes to verify per step, without the root. "
            "The verify window is one wider. Default: 31.",
            default=ServerArgs.speculative_ddtree_budget,
        )
""",
            },
        ),
    ),
)
