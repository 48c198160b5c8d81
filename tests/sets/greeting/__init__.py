"""A tiny set over a tiny package: it keeps the machine from knowing any particular set."""

from patcher.patchset import PatchSet, Requirement
from patcher.probe import Shows

SET = PatchSet(
    name="greeting",
    version="3",
    title="Greet in Esperanto",
    manifest="greeter/_ddpatch_manifest.py",
    requires=(
        Requirement(
            probe=Shows("greeter/core.py", "class Language($...): $..."),
            otherwise="this greeter has no languages",
        ),
    ),
    shows=(Shows("greeter/core.py", "ESPERANTO = $_", "Language", 1),),
    launch="python -m greeter --language esperanto",
)
