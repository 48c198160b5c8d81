"""E5: the name among the choices of --speculative-algorithm."""

from patcher.edits import AddElement, Anchor
from patcher.patchset import Patch, PatchCase, Strategy
from patcher.probe import Fact, Not

_FILE = "sglang/srt/server_args.py"
_RESTRICTED = Fact("arguments", {"argument": "speculative_algorithm", "role": "choices"})

PATCH = Patch(
    id="cli-choice",
    title="Accept DDTREE on the command line",
    why="argparse refuses a name that is not in its list of choices, where there is such a list.",
    requires=("enum-member",),
    strategies=(
        Strategy(
            id="free-string",
            when=Not(_RESTRICTED),
            note="--speculative-algorithm takes any string here",
        ),
        Strategy(
            id="choices-literal",
            when=_RESTRICTED,
            edits=(
                AddElement(
                    anchor=Anchor(
                        file=_FILE,
                        scope="ServerArgs.add_cli_args",
                        pattern='$_.add_argument("--speculative-algorithm", $..., choices=$LIST)',
                    ),
                    to="LIST",
                    element='"DDTREE"',
                ),
            ),
        ),
    ),
    cases=(
        PatchCase(
            title="the list stays on one line, with its quotes and its neighbours",
            strategy="choices-literal",
            before={
                _FILE: """\
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument(
            "--speculative-algorithm",
            type=str,
            choices=["DFLASH", "EAGLE"],  # keep sorted
            help="Speculative algorithm.",
        )
""",
            },
            after={
                _FILE: """\
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument(
            "--speculative-algorithm",
            type=str,
            choices=["DFLASH", "EAGLE", "DDTREE"],  # keep sorted
            help="Speculative algorithm.",
        )
""",
            },
        ),
        PatchCase(
            title="a list with one name per line and a trailing comma stays one",
            strategy="choices-literal",
            before={
                _FILE: """\
class ServerArgs:
    def add_cli_args(parser):
        parser.add_argument(
            "--speculative-algorithm",
            choices=[
                "DFLASH",
                "EAGLE",
            ],
        )
""",
            },
            after={
                _FILE: """\
class ServerArgs:
    def add_cli_args(parser):
        parser.add_argument(
            "--speculative-algorithm",
            choices=[
                "DFLASH",
                "EAGLE",
                "DDTREE",
            ],
        )
""",
            },
        ),
    ),
)
