"""The ledger knows every place, and a place that it does not know is a finding."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from inventory import Cache, run
from inventory.model import Row
from patcher.ledger import Ledger, Status, dispatch_rows, key_of, load_ledger
from patcher.model import Site, UsageError
from patcher.patchset import PatchSet, load_set
from patcher.plan import make_plan
from patcher.probe import Subject
from patcher.tree import Tree
from patcher.verify import climb, up_to
from patcher.verify.check import Context

SET = load_set("ddtree")
GOOD = """\
[[site]]
path = "sglang/a.py"
scope = "f"
symbols = ["is_dflash", "DFLASH"]
sites = [1, 2]
status = "inherited"
why = "the same for both"

[[site]]
path = "sglang/b.py"
scope = ""
symbols = "DFLASH"
sites = 1
status = "patched"
patches = ["enum-member", "predicates"]
"""


def ledger(folder: Path, text: str) -> Ledger:
    (folder / "ledger.toml").write_text(text)
    return load_ledger(replace(SET, folder=folder))


def test_an_entry_decides_about_each_of_its_symbols(tmp_path: Path) -> None:
    entries = ledger(tmp_path, GOOD).entries
    assert set(entries) == {
        ("sglang/a.py", "f", "is_dflash"),
        ("sglang/a.py", "f", "DFLASH"),
        ("sglang/b.py", "", "DFLASH"),
    }
    assert entries["sglang/b.py", "", "DFLASH"].patches == ("enum-member", "predicates")
    assert entries["sglang/a.py", "f", "DFLASH"].status is Status.INHERITED
    assert entries["sglang/a.py", "f", "DFLASH"].sites == (1, 2)
    assert entries["sglang/a.py", "f", "DFLASH"].why == "the same for both"


def test_a_set_without_a_ledger_has_an_empty_one(tmp_path: Path) -> None:
    assert load_ledger(replace(SET, folder=tmp_path)).entries == {}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('why = "the same for both"\n', "", "no reason"),
        ('status = "inherited"', 'status = "fine"', "not complete"),
        ('scope = "f"\n', "", "not complete"),
        ('patches = ["enum-member", "predicates"]', 'patches = ["nosuch"]', "does not have"),
        ('patches = ["enum-member", "predicates"]', 'why = "x"', "must name its patches"),
        ('why = "the', 'wy = "x"\nwhy = "the', "unknown keys: wy"),
        ('path = "sglang/b.py"\nscope = ""', 'path = "sglang/a.py"\nscope = "f"', "decided twice"),
        ("sites = [1, 2]\n", "", "not complete"),
        ("sites = 1\n", 'sites = "some"\n', "not complete"),
        ("[[site]]", "[[site", "ledger.toml"),
    ],
)
def test_a_bad_entry_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError, match=words) as caught:
        ledger(tmp_path, GOOD.replace(old, new, 1))
    assert "ledger" in caught.value.message


def row(path: str, scope: str, symbol: str, line: int) -> Row:
    return Row(Site(path, line, scope=scope), {"symbol": symbol, "test": f"{symbol}()"})


def test_gaps_are_what_is_new_and_what_is_more_or_less(tmp_path: Path) -> None:
    known = ledger(tmp_path, GOOD)
    decided = [row("sglang/a.py", "f", "DFLASH", 1), row("sglang/b.py", "", "DFLASH", 2)]
    assert list(known.gaps(decided)) == []
    assert list(known.gaps([*decided, row("sglang/a.py", "f", "DFLASH", 3)])) == []
    more = [row("sglang/b.py", "", "DFLASH", n) for n in (4, 5)]
    (counted,) = known.gaps(more)
    assert counted.code == "dispatch.recounted"
    assert "2 time(s): lines 4, 5" in counted.message
    assert counted.expected.startswith("1 place")
    (new,) = known.gaps(
        [row("sglang/a.py", "g", "DFLASH", 6), row("sglang/a.py", "g", "DFLASH", 7)]
    )
    assert new.code == "dispatch.undecided"
    assert new.site is not None
    assert (new.site.path, new.site.line) == ("sglang/a.py", 6)
    assert new.found == "DFLASH()"


def _levels(patch_set: PatchSet, tree: Tree, cache: Cache) -> tuple[str, list[str]]:
    """The level that fails, and the messages of its findings."""
    plan = make_plan(patch_set, Subject(tree, run(tree, cache)))
    after = tree.with_changes(plan.changes.contents)
    context = Context(plan, after, load_ledger(patch_set), lambda t: run(t, cache))
    last = list(climb(context, up_to(None)))[-1]
    return ("" if last.holds else last.check.level), [f.message for f in last.findings]


@pytest.mark.network
def test_a_new_place_in_a_release_is_incomplete(
    release_tree: Callable[[str], Tree], tmp_path: Path
) -> None:
    tree = release_tree("0.5.11")
    cache = Cache(tmp_path)
    assert _levels(SET, tree, cache)[0] == ""
    path = "sglang/srt/managers/io_struct.py"
    code = b"\n\ndef brand_new(algorithm):\n    if algorithm.is_dflash():\n        return 1\n"
    changed = tree.with_changes({path: tree.read(path) + code})
    level, messages = _levels(SET, changed, cache)
    assert level == "dispatch"
    (message,) = messages
    assert f"{path}:" in message
    assert "(brand_new) decides on is_dflash" in message


@pytest.mark.network
def test_a_new_place_does_not_hide_behind_an_old_entry(
    release_tree: Callable[[str], Tree], tmp_path: Path
) -> None:
    tree = release_tree("0.5.11")
    path = "sglang/srt/managers/scheduler.py"
    old = b"        if self.spec_algorithm.is_dflash()"
    code = tree.read(path)
    assert code.count(old) == 1
    second = b"        if self.spec_algorithm.is_dflash() and new():\n            pass\n" + old
    level, messages = _levels(
        SET, tree.with_changes({path: code.replace(old, second)}), Cache(tmp_path)
    )
    assert level == "dispatch"
    (message,) = messages
    assert "decides on is_dflash 2 time(s)" in message


@pytest.mark.network
def test_code_that_nobody_has_read_is_a_finding(
    release_tree: Callable[[str], Tree], tmp_path: Path
) -> None:
    tree = release_tree("0.5.11")
    broken = tree.with_changes({"sglang/srt/broken.py": b"if algo.is_dflash(:\n"})
    level, messages = _levels(SET, broken, Cache(tmp_path))
    assert (level, len(messages)) == ("dispatch", 1)
    assert "sglang/srt/broken.py was not read" in messages[0]
    linked = Tree(
        tree.files, lambda e: tree.read(e.path), tree.facts, skipped={"sglang/x.py": "a link"}
    )
    level, messages = _levels(SET, linked, Cache(tmp_path))
    assert level == "dispatch"
    assert messages == ["sglang/x.py was not read: a link"]


@pytest.mark.network
def test_every_entry_is_needed_by_a_recorded_release(
    release_tree: Callable[[str], Tree], tmp_path: Path
) -> None:
    cache = Cache(tmp_path)
    found = set()
    for version in ("0.5.11", "0.5.12", "0.5.13.post1"):
        tree = release_tree(version)
        found |= {key_of(row) for row in dispatch_rows(SET, Subject(tree, run(tree, cache)))}
    assert set(load_ledger(SET).entries) - found == set()
