"""E6: the verify input with which CUDA graphs are captured."""

from patcher.edits import Anchor, InsertAfter
from patcher.patchset import Patch, PatchCase, Strategy
from patcher.probe import Fact

_RUNNER = "sglang/srt/model_executor/cuda_graph_runner.py"

PATCH = Patch(
    id="graph-capture",
    title="Capture the target's verify graphs with a tree mask",
    why=(
        "DFLASH captures without a mask on backends that can express a chain by themselves; a tree "
        "replayed on such a graph is silently causal. Only the target verifies a tree: a mask on "
        "the draft would make its block attention wrong."
    ),
    requires=("predicates", "modules"),
    strategies=(
        Strategy(
            id="cuda-graph-runner",
            when=Fact(
                "dispatch",
                {
                    "path": _RUNNER,
                    "scope": "CudaGraphRunner.get_spec_info",
                    "symbol": "is_dflash",
                },
            ),
            edits=(
                InsertAfter(
                    anchor=Anchor(
                        file=_RUNNER,
                        scope="CudaGraphRunner.get_spec_info",
                        pattern="spec_info = None",
                    ),
                    code="""
                        if (
                            self.model_runner.spec_algorithm.is_ddtree()
                            and not self.model_runner.is_draft_worker
                        ):
                            from sglang.srt.speculative.ddtree_info import (
                                build_ddtree_capture_input,
                            )

                            return build_ddtree_capture_input(
                                self.model_runner.server_args, self.buffers.custom_mask
                            )
                    """,
                ),
            ),
        ),
    ),
    cases=(
        PatchCase(
            title="the tree branch returns before the others are asked",
            strategy="cuda-graph-runner",
            before={
                _RUNNER: """\
class CudaGraphRunner:
    def get_spec_info(self, num_tokens):
        spec_info = None
        if self.model_runner.spec_algorithm.is_dflash():
            spec_info = DFlashVerifyInput()
        return spec_info
""",
            },
            after={
                _RUNNER: """\
class CudaGraphRunner:
    def get_spec_info(self, num_tokens):
        spec_info = None
        if (
            self.model_runner.spec_algorithm.is_ddtree()
            and not self.model_runner.is_draft_worker
        ):
            from sglang.srt.speculative.ddtree_info import (
                build_ddtree_capture_input,
            )

            return build_ddtree_capture_input(
                self.model_runner.server_args, self.buffers.custom_mask
            )
        if self.model_runner.spec_algorithm.is_dflash():
            spec_info = DFlashVerifyInput()
        return spec_info
""",
            },
        ),
    ),
)
