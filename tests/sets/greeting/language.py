"""The language itself."""

from patcher.edits import AddMember
from patcher.patchset import Patch, PatchCase, Strategy
from patcher.probe import Shows

PATCH = Patch(
    id="language",
    title="Add the language",
    why="A language is a member of the enum that everything is looked up by.",
    retire_when=Shows("greeter/core.py", 'ESPERANTO = "eo"', "Language"),
    retire_note="the greeter speaks Esperanto already",
    strategies=(
        Strategy(
            id="enum",
            edits=(
                AddMember(
                    file="greeter/core.py",
                    cls="Language",
                    after="ENGLISH",
                    name="ESPERANTO",
                    value='"x-eo"',
                ),
            ),
        ),
    ),
    cases=(
        PatchCase(
            title="one member more",
            strategy="enum",
            before={"greeter/core.py": 'class Language:\n    ENGLISH = "en"\n'},
            after={
                "greeter/core.py": 'class Language:\n    ENGLISH = "en"\n    ESPERANTO = "x-eo"\n'
            },
        ),
    ),
)
