"""The algorithm itself: modules of its own, rendered for what the release's code shows."""

from pathlib import Path

from patcher.edits import AddFile, variables_from
from patcher.patchset import Patch, Strategy
from patches.ddtree._layout import HOME, MODULES

_VARIABLES = variables_from(Path(__file__).parent / "context.toml")

PATCH = Patch(
    id="modules",
    title="Add the DDTree modules",
    why=(
        "Tree builder, accept walk, verify input, worker and argument handler live in files of "
        "their own; SGLang's files only get the few lines that lead there."
    ),
    upstream="https://arxiv.org/abs/2604.12989",
    strategies=(
        Strategy(
            id="rendered",
            edits=tuple(
                AddFile(
                    path=f"{HOME}/{name}.py",
                    template=f"ddtree/{HOME}/{name}.py.j2",
                    variables=_VARIABLES,
                )
                for name in MODULES
            ),
        ),
    ),
)
