"""E3: the worker class that runs the algorithm."""

from patcher.edits import Anchor, InsertBefore
from patcher.patchset import Patch, PatchCase, Strategy

_FILE = "sglang/srt/speculative/spec_info.py"

PATCH = Patch(
    id="worker-dispatch",
    title="Create a DDTreeWorker for DDTREE",
    why=(
        "create_worker picks the class that drafts and verifies. is_dflash() is true for DDTREE, "
        "so its branch must come first."
    ),
    requires=("predicates", "modules"),
    strategies=(
        Strategy(
            id="create-worker",
            edits=(
                InsertBefore(
                    anchor=Anchor(
                        file=_FILE,
                        scope="SpeculativeAlgorithm.create_worker",
                        pattern="if self.is_dflash(): $...BODY",
                    ),
                    code="""
                        if self.is_ddtree():
                            if enable_overlap:
                                raise ValueError(
                                    "DDTREE does not support overlap scheduling (spec v2)."
                                )
                            from sglang.srt.speculative.ddtree_worker import DDTreeWorker

                            return DDTreeWorker
                    """,
                    blank_lines=1,
                ),
            ),
        ),
    ),
    cases=(
        PatchCase(
            title="the branch goes before DFLASH's",
            strategy="create-worker",
            before={
                _FILE: """\
class SpeculativeAlgorithm(Enum):
    def create_worker(self, server_args):
        enable_overlap = not server_args.disable_overlap_schedule

        # block drafters
        if self.is_dflash():
            return DFlashWorker
""",
            },
            after={
                _FILE: """\
class SpeculativeAlgorithm(Enum):
    def create_worker(self, server_args):
        enable_overlap = not server_args.disable_overlap_schedule

        if self.is_ddtree():
            if enable_overlap:
                raise ValueError(
                    "DDTREE does not support overlap scheduling (spec v2)."
                )
            from sglang.srt.speculative.ddtree_worker import DDTreeWorker

            return DDTreeWorker

        # block drafters
        if self.is_dflash():
            return DFlashWorker
""",
            },
        ),
        PatchCase(
            title="a DFLASH branch that is gone is a conflict",
            strategy="create-worker",
            before={
                _FILE: """\
class SpeculativeAlgorithm(Enum):
    def create_worker(self, server_args):
        return WORKERS[self]
""",
            },
        ),
    ),
)
