"""A warning that would otherwise say that an argument has no effect."""

from patcher.edits import AddElement, Anchor
from patcher.patchset import Patch, PatchCase, Strategy
from patcher.probe import Not, Shows

_FILE = "sglang/srt/arg_groups/speculative_hook.py"
_SCOPE = "handle_speculative_decoding"
_PATTERN = "if server_args.speculative_algorithm not in $NAMES: logger.warning($...)"
_WARNS = Shows(_FILE, _PATTERN, _SCOPE)

PATCH = Patch(
    id="window-notice",
    title="Do not warn that the draft window has no effect",
    why=(
        "The draft window is honoured by DDTREE as it is by DFLASH; a warning that says otherwise "
        "sends people looking for a fault that is not there."
    ),
    strategies=(
        Strategy(id="silent", when=Not(_WARNS), note="no such warning here"),
        Strategy(
            id="warning",
            when=_WARNS,
            edits=(
                AddElement(
                    anchor=Anchor(file=_FILE, scope=_SCOPE, pattern=_PATTERN),
                    to="NAMES",
                    element='"DDTREE"',
                ),
            ),
        ),
    ),
    cases=(
        PatchCase(
            title="one name more in the tuple",
            strategy="warning",
            before={
                _FILE: """\
def handle_speculative_decoding(server_args):
    if server_args.speculative_algorithm not in ("EAGLE3", "DFLASH"):
        logger.warning("no effect")
""",
            },
            after={
                _FILE: """\
def handle_speculative_decoding(server_args):
    if server_args.speculative_algorithm not in ("EAGLE3", "DFLASH", "DDTREE"):
        logger.warning("no effect")
""",
            },
        ),
    ),
)
