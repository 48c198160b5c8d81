"""E7: third-party algorithms that are registered by name keep working."""

from patcher.edits import AddMethod
from patcher.patchset import Patch, PatchCase, Strategy
from patcher.probe import Fact, Not

_FILE = "sglang/srt/speculative/spec_registry.py"
_REGISTRY = Fact("algorithms", {"role": "plugin-class", "name": "CustomSpecAlgo"})

PATCH = Patch(
    id="registry-conformance",
    title="Keep CustomSpecAlgo conforming to the enum",
    why=(
        "Where algorithms can be registered, every is_* predicate of the enum must exist on "
        "CustomSpecAlgo too: without this one, registering any third-party algorithm raises."
    ),
    requires=("predicates",),
    strategies=(
        Strategy(id="no-registry", when=Not(_REGISTRY), note="no algorithm registry here"),
        Strategy(
            id="custom-spec-algo",
            when=_REGISTRY,
            edits=(
                AddMethod(
                    file=_FILE,
                    cls="CustomSpecAlgo",
                    after="is_dflash",
                    code="""
                        def is_ddtree(self) -> bool:
                            return False
                    """,
                ),
            ),
        ),
    ),
    cases=(
        PatchCase(
            title="a default of False after is_dflash",
            strategy="custom-spec-algo",
            before={
                _FILE: """\
class CustomSpecAlgo:
    def is_dflash(self) -> bool:
        return False

    def is_ngram(self) -> bool:
        return False
""",
            },
            after={
                _FILE: """\
class CustomSpecAlgo:
    def is_dflash(self) -> bool:
        return False

    def is_ddtree(self) -> bool:
        return False

    def is_ngram(self) -> bool:
        return False
""",
            },
        ),
    ),
)
