"""What is said in it."""

from pathlib import Path

from patcher.edits import AddFile, Anchor, Choice, InsertBefore, Variable
from patcher.patchset import Patch, Strategy
from patcher.probe import Not, Shows

_POLITE = Shows("greeter/core.py", "polite: bool", "Greeter")

PATCH = Patch(
    id="words",
    title="Say it in Esperanto",
    why="The words live in a module of their own, and the greeter asks it first.",
    requires=("language",),
    strategies=(
        Strategy(
            id="branch",
            edits=(
                AddFile(
                    path="greeter/esperanto.py",
                    template="esperanto.py.j2",
                    folder=Path(__file__).parent,
                    variables=(
                        Variable(
                            "word",
                            "what is said",
                            (Choice("Bonan tagon", _POLITE), Choice("Saluton", Not(_POLITE))),
                        ),
                    ),
                ),
                InsertBefore(
                    anchor=Anchor(
                        file="greeter/core.py",
                        scope="Greeter.greet",
                        pattern="return $X",
                    ),
                    code="""
                        if self.language is Language.ESPERANTO:
                            from greeter.esperanto import greeting

                            return greeting(name)
                    """,
                ),
            ),
        ),
    ),
)
