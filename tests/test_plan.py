"""Plans over a tiny package and a tiny set: the machine knows nothing of any particular set."""

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.model import Coverage, Inventory
from patcher.changes import Splice, splice
from patcher.edits import Anchor, InsertAfter
from patcher.ledger import load_ledger
from patcher.manifest import TreeManifest, manifest_module, manifests, pristine, read_manifest
from patcher.model import Outcome, Refusal, UsageError
from patcher.patchset import Patch, PatchSet, Strategy, load_set, ordered
from patcher.plan import Plan, make_plan
from patcher.probe import Shows, Subject
from patcher.tree import Tree
from patcher.verify import checks, climb
from patcher.verify.check import Context

SET_FOLDER = str(Path(__file__).parent / "sets" / "greeting")

CORE = """\
\"\"\"Greets.\"\"\"

import enum


class Language(enum.Enum):
    ENGLISH = "en"
    FRENCH = "fr"


class Greeter:
    language: Language

    def greet(self, name):
        # the usual
        return f"Hello, {name}!"
"""


def greeter(**changes: str) -> Tree:
    files = {"greeter/__init__.py": "", "greeter/core.py": CORE, "greeter/data.bin": "\x00"}
    return Tree.of(
        {**files, **{p.replace("__", "/") + ".py": c for p, c in changes.items()}}, "1.0"
    )


def nothing(tree: Tree) -> Inventory:
    return Inventory("", tree.digest, Coverage(len(tree), 0, len(tree)), {"dispatch": ()})


def planned(tree: Tree, patch_set: PatchSet | None = None) -> Plan:
    return make_plan(patch_set or load_set(SET_FOLDER), Subject(tree, nothing(tree)))


def patched(plan: Plan) -> Tree:
    return plan.subject.tree.with_changes(plan.changes.contents)


def outcomes(plan: Plan) -> Mapping[str, str]:
    return {p.patch.id: str(p.outcome) for p in plan.patches}


def test_a_set_applies_as_a_whole() -> None:
    plan = planned(greeter())
    assert plan.outcome is Outcome.APPLIED
    assert outcomes(plan) == {"language": "applied", "words": "applied"}
    assert set(plan.changes.files) == {
        "greeter/core.py",
        "greeter/esperanto.py",
        "greeter/_ddpatch_manifest.py",
    }
    scope: dict[str, object] = {}
    code = plan.changes.files["greeter/core.py"].after
    exec(compile(code, "core.py", "exec"), scope)
    assert scope["Language"]("x-eo").name == "ESPERANTO"  # type: ignore[operator]


def test_a_template_variable_follows_its_probe() -> None:
    plain = planned(greeter()).changes.files["greeter/esperanto.py"].after
    polite = CORE.replace("    language: Language\n", "    language: Language\n    polite: bool\n")
    other = planned(greeter(greeter__core=polite)).changes.files["greeter/esperanto.py"].after
    assert b"Saluton" in plain
    assert b"Bonan tagon" in other


def test_one_conflict_blocks_what_needs_it_and_changes_nothing() -> None:
    plan = planned(greeter(greeter__core=CORE.replace('ENGLISH = "en"', 'EN = "en"')))
    assert plan.outcome is Outcome.CONFLICT
    assert outcomes(plan) == {"language": "conflict", "words": "blocked"}
    assert plan.changes.files == {}
    assert [f.code for f in plan.all_findings()] == ["anchor.count", "patch.blocked"]


def test_a_set_says_what_it_requires() -> None:
    plan = planned(greeter(greeter__core="x = 1\n"))
    assert plan.outcome is Outcome.CONFLICT
    assert plan.patches == ()
    (finding,) = plan.findings
    assert finding.message == "this greeter has no languages"


def test_what_upstream_has_is_not_patched_again() -> None:
    core = CORE.replace('FRENCH = "fr"', 'FRENCH = "fr"\n    ESPERANTO = "eo"')
    assert outcomes(planned(greeter(greeter__core=core)))["language"] == "upstream-fixed"


def test_code_that_is_there_without_a_manifest_is_a_conflict() -> None:
    core = CORE.replace('FRENCH = "fr"', 'FRENCH = "fr"\n    ESPERANTO = "x-eo"')
    plan = planned(greeter(greeter__core=core))
    assert next(f.code for f in plan.all_findings()) == "edit.present"


def test_a_file_in_the_way_is_a_conflict() -> None:
    plan = planned(greeter(greeter__esperanto="mine = 1\n"))
    assert [f.code for f in plan.all_findings()] == ["file.exists"]


def test_the_patched_tree_tells_what_is_in_it_and_goes_back_to_the_byte() -> None:
    before = greeter()
    plan = planned(before)
    after = patched(plan)
    told = read_manifest(after, plan.patch_set.manifest)
    assert told is not None
    assert told.set_label == "greeting@3"
    assert told.patches == ("language", "words")
    originals = {before.files[p].sha256: before.read(p) for p in before}
    back = pristine(after, told, plan.patch_set.manifest, originals.get)
    assert back.digest == before.digest
    assert planned(back).changes == plan.changes


def test_a_missing_original_is_named() -> None:
    plan = planned(greeter())
    told = read_manifest(patched(plan), plan.patch_set.manifest)
    assert told is not None
    with pytest.raises(UsageError, match=r"greeter/core\.py"):
        pristine(patched(plan), told, plan.patch_set.manifest, lambda _: None)


@pytest.mark.parametrize("path", ["greeter/core.py", "greeter/esperanto.py"])
def test_going_back_to_the_originals_loses_nobodys_edit(path: str) -> None:
    plan = planned(greeter())
    after = patched(plan)
    told = read_manifest(after, plan.patch_set.manifest)
    assert told is not None
    edited = after.with_changes({path: after.read(path) + b"# mine\n"})
    with pytest.raises(Refusal) as caught:
        pristine(edited, told, plan.patch_set.manifest, lambda _: b"")
    assert [f.site.path for f in caught.value.findings if f.site] == [path]
    assert caught.value.findings[0].expected == after.files[path].sha256
    assert caught.value.findings[0].found == edited.files[path].sha256
    assert path in caught.value.message


def test_a_file_that_is_an_original_already_stays_and_the_others_go_back() -> None:
    before = greeter()
    plan = planned(before)
    after = patched(plan)
    told = read_manifest(after, plan.patch_set.manifest)
    assert told is not None
    half = after.with_changes({"greeter/core.py": before.read("greeter/core.py")})
    back = pristine(half, told, plan.patch_set.manifest, lambda _: None)
    assert back.digest == before.digest


def test_what_was_added_goes_and_what_was_changed_goes_back_in_any_order() -> None:
    old, new = b"old\n", b"new\n"
    tree = Tree.of({"p/a.py": new, "p/b.py": new, "p/c.py": new, "p/m.py": ""})
    sha = {data: Tree.of({"x": data}).files["x"].sha256 for data in (old, new)}
    files = {
        "p/a.py": ("", sha[new]),
        "p/b.py": (sha[old], sha[new]),
        "p/c.py": (sha[old], sha[new]),
    }
    told = TreeManifest("s", "1", "r", (), files)
    back = pristine(tree, told, "p/m.py", {sha[old]: old}.get)
    assert {path: back.read(path) for path in back} == {"p/b.py": old, "p/c.py": old}


def test_every_manifest_in_a_tree_is_found() -> None:
    after = patched(planned(greeter()))
    assert [(p, m.set_label) for p, m in manifests(after)] == [
        ("greeter/_ddpatch_manifest.py", "greeting@3")
    ]
    assert list(manifests(greeter())) == []
    content = after.read("greeter/_ddpatch_manifest.py")
    deep = greeter().with_changes({"greeter/deep/down/_ddpatch_manifest.py": content})
    assert [p for p, _ in manifests(deep)] == ["greeter/deep/down/_ddpatch_manifest.py"]


@pytest.mark.parametrize("content", ["FORMAT = 99\n", "x = (\n", "FORMAT = 1\n", "FORMAT = f()\n"])
def test_a_manifest_that_makes_no_sense_is_refused(content: str) -> None:
    tree = greeter(greeter___ddpatch_manifest=content)
    assert "greeter/_ddpatch_manifest.py" in tree
    with pytest.raises(UsageError):
        read_manifest(tree, "greeter/_ddpatch_manifest.py")


def test_the_manifest_is_plain_python() -> None:
    plan = planned(greeter())
    values: dict[str, object] = {}
    exec(plan.changes.contents[plan.patch_set.manifest].decode(), values)
    assert values["SET"] == "greeting"
    assert set(values["FILES"]) == set(plan.changes.files) - {plan.patch_set.manifest}  # type: ignore[call-overload]
    assert manifest_module(plan.patch_set, replace(plan.changes, files={})).startswith(b'"""')


def test_every_step_of_the_series_parses_and_the_last_one_is_the_whole() -> None:
    changes = planned(greeter()).changes
    first = changes.up_to(["language"])
    assert set(first) == {"greeter/core.py"}
    for step in (first, changes.up_to(["language", "words"])):
        for path, data in step.items():
            ast.parse(data, path)
    assert changes.up_to(["language", "words"]) == changes.contents


def test_overlapping_splices_are_refused() -> None:
    with pytest.raises(ValueError, match="overlapping"):
        splice(b"abcdef", [Splice("f", 0, 3, b"x"), Splice("f", 2, 4, b"y")])


def test_two_patches_may_insert_at_one_place_in_their_order() -> None:
    def patch(name: str) -> Patch:
        edit = InsertAfter(
            anchor=Anchor(file="greeter/core.py", pattern="import enum"), code=f"import {name}"
        )
        return Patch(id=name, title="T", why="W", strategies=(Strategy(id="s", edits=(edit,)),))

    base = load_set(SET_FOLDER)
    plan = planned(greeter(), replace(base, patches=(patch("zlib"), patch("abc"))))
    code = plan.changes.files["greeter/core.py"].after.decode()
    assert code.index("import zlib") < code.index("import abc")


def _patch(name: str, *requires: str) -> Patch:
    return Patch(id=name, title="T", why="W", requires=requires, strategies=())


def test_patches_are_ordered_by_what_they_require() -> None:
    assert [p.id for p in ordered([_patch("b", "a"), _patch("a"), _patch("c", "b")])] == [
        "a",
        "b",
        "c",
    ]


@pytest.mark.parametrize(
    ("patches", "words"),
    [
        ([_patch("a"), _patch("a")], "two patches"),
        ([_patch("a", "z")], "not in the set"),
        ([_patch("a", "b"), _patch("b", "a")], "in a circle"),
    ],
)
def test_a_set_that_cannot_be_ordered_says_why(patches: list[Patch], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ordered(patches)


@pytest.mark.parametrize("name", ["nosuch", "ddtree@99", "./tests"])
def test_a_set_that_is_not_there_says_which_are(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_set(name)
    assert caught.value.next_step


def test_no_strategy_fits_names_the_probes() -> None:
    patch = Patch(
        id="p",
        title="T",
        why="W",
        strategies=(Strategy(id="s", when=Shows("greeter/core.py", "nothing_here")),),
    )
    plan = planned(greeter(), replace(load_set(SET_FOLDER), patches=(patch,)))
    (finding,) = plan.all_findings()
    assert finding.code == "strategy.none"
    assert "nothing_here" in finding.expected


# ----------------------------------------------------- verification of the tiny set


def context(plan: Plan, tree: Tree) -> Context:
    return Context(plan, tree, load_ledger(plan.patch_set), nothing)


def failing(plan: Plan, tree: Tree) -> str:
    results = list(climb(context(plan, tree), checks()))
    assert results
    return "" if results[-1].holds else results[-1].check.level


def test_the_ladder_is_climbed_in_order() -> None:
    assert [c.level for c in checks()] == ["bytes", "parse", "names", "calls", "dispatch"]
    plan = planned(greeter())
    assert failing(plan, patched(plan)) == ""


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({"greeter/data.bin": b"\x01"}, "bytes"),
        ({"greeter/extra.py": b"x = 1\n"}, "bytes"),
        ({"greeter/__init__.py": None}, "bytes"),
        ({"greeter/esperanto.py": None}, "bytes"),
        ({"greeter/core.py": CORE.encode()}, "bytes"),
    ],
    ids=["undeclared", "added", "removed", "lost", "undone"],
)
def test_bytes_rejects_a_tree_that_differs(change: dict[str, bytes | None], level: str) -> None:
    plan = planned(greeter())
    assert failing(plan, patched(plan).with_changes(change)) == level


def _with(plan: Plan, path: str, data: bytes) -> Plan:
    """The plan, as if its patch had written this: what a wrong patch would do."""
    change = replace(plan.changes.files[path], after=data, before=None, splices=())
    changes = replace(plan.changes, files={**plan.changes.files, path: change})
    return replace(plan, changes=changes)


@pytest.mark.parametrize(
    ("code", "level"),
    [
        ("def greeting(name:\n", "parse"),
        ("def greeting(name):\n    return undefined_thing\n", "names"),
        ("from greeter.core import Nothing\n\ndef greeting(name): return Nothing\n", "names"),
        (
            "from greeter.core import Greeter\n\ndef greeting(name):\n"
            "    return Greeter().greet(name, 2)\n",
            "calls",
        ),
    ],
)
def test_each_level_rejects_what_the_one_below_lets_through(code: str, level: str) -> None:
    plan = _with(planned(greeter()), "greeter/esperanto.py", code.encode())
    assert failing(plan, patched(plan)) == level


def test_dispatch_rejects_a_tree_that_does_not_show_what_the_set_brings() -> None:
    plan = planned(greeter())
    lost = plan.changes.files["greeter/core.py"].after.replace(b'ESPERANTO = "x-eo"', b"", 1)
    lost = lost.replace(b"is Language.ESPERANTO", b"is Language.FRENCH")
    broken = _with(plan, "greeter/core.py", lost)
    assert failing(broken, patched(broken)) == "dispatch"


def test_the_patch_set_requires_nothing_of_ddtree() -> None:
    machine = Path(__file__).parents[1] / "patcher"
    guilty = [
        path
        for path in machine.rglob("*.py")
        if "ddtree" in path.read_text(encoding="utf-8").lower().replace("patches/ddtree", "")
        and path.name not in {"config.py", "patchset.py", "app.py", "apply.py", "test.py"}
    ]
    assert guilty == []


def test_nothing_in_the_machine_imports_a_set_by_name() -> None:
    machine = Path(__file__).parents[1] / "patcher"
    for path in machine.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names.append(node.module or "")
            assert not any(n.startswith("patches.") for n in names), path
