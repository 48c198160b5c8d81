"""E4: the handler that checks and derives the arguments of the algorithm."""

from patcher.edits import Anchor, InsertBefore
from patcher.patchset import Patch, PatchCase, Strategy
from patcher.probe import Fact

_SERVER_ARGS = "sglang/srt/server_args.py"
_HOOK = "sglang/srt/arg_groups/speculative_hook.py"

PATCH = Patch(
    id="argument-derivation",
    title="Derive and check DDTREE's arguments before DFLASH's",
    why=(
        "DFLASH's handler insists that the draft block and the verify window are equally wide. "
        "DDTREE verifies budget + 1 nodes whatever the block width, so it has a handler of its "
        "own. The dispatch compares strings: is_dflash() does not reach it."
    ),
    requires=("modules", "budget-argument"),
    strategies=(
        Strategy(
            id="server-args",
            when=Fact(
                "dispatch",
                {
                    "path": _SERVER_ARGS,
                    "scope": "ServerArgs._handle_speculative_decoding",
                    "symbol": "DFLASH",
                },
            ),
            edits=(
                InsertBefore(
                    anchor=Anchor(
                        file=_SERVER_ARGS,
                        scope="ServerArgs._handle_speculative_decoding",
                        pattern='if self.speculative_algorithm == "DFLASH": $...BODY',
                    ),
                    code="""
                        if self.speculative_algorithm == "DDTREE":
                            from sglang.srt.speculative.ddtree_args import handle_ddtree_args

                            handle_ddtree_args(self)
                    """,
                    blank_lines=1,
                ),
            ),
        ),
        Strategy(
            id="speculative-hook",
            when=Fact(
                "dispatch",
                {"path": _HOOK, "scope": "handle_speculative_decoding", "symbol": "DFLASH"},
            ),
            edits=(
                InsertBefore(
                    anchor=Anchor(
                        file=_HOOK,
                        scope="handle_speculative_decoding",
                        pattern='if server_args.speculative_algorithm == "DFLASH": $...BODY',
                    ),
                    code="""
                        if server_args.speculative_algorithm == "DDTREE":
                            from sglang.srt.speculative.ddtree_args import handle_ddtree_args

                            handle_ddtree_args(server_args)
                    """,
                    blank_lines=1,
                ),
            ),
        ),
    ),
    cases=(
        PatchCase(
            title="a method of ServerArgs",
            strategy="server-args",
            before={
                _SERVER_ARGS: """\
class ServerArgs:
    def _handle_speculative_decoding(self):
        if self.speculative_algorithm == "DFLASH":
            self.speculative_num_steps = 1
""",
            },
            after={
                _SERVER_ARGS: """\
class ServerArgs:
    def _handle_speculative_decoding(self):
        if self.speculative_algorithm == "DDTREE":
            from sglang.srt.speculative.ddtree_args import handle_ddtree_args

            handle_ddtree_args(self)

        if self.speculative_algorithm == "DFLASH":
            self.speculative_num_steps = 1
""",
            },
        ),
        PatchCase(
            title="a function over the arguments, in a chain of elif",
            strategy="speculative-hook",
            before={
                _HOOK: """\
def handle_speculative_decoding(server_args):
    if server_args.speculative_algorithm == "DFLASH":
        _handle_dflash(server_args)
    elif server_args.speculative_algorithm == "NGRAM":
        _handle_ngram(server_args)
""",
            },
            after={
                _HOOK: """\
def handle_speculative_decoding(server_args):
    if server_args.speculative_algorithm == "DDTREE":
        from sglang.srt.speculative.ddtree_args import handle_ddtree_args

        handle_ddtree_args(server_args)

    if server_args.speculative_algorithm == "DFLASH":
        _handle_dflash(server_args)
    elif server_args.speculative_algorithm == "NGRAM":
        _handle_ngram(server_args)
""",
            },
        ),
    ),
)
