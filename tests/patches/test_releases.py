"""The ddtree set on the real releases of family A: recorded results, and no edit to spare."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from inventory import Cache, run
from inventory.model import Inventory
from patcher.ledger import load_ledger
from patcher.model import Outcome
from patcher.patchset import Patch, PatchSet, load_set
from patcher.plan import make_plan
from patcher.probe import Subject
from patcher.release import Release, load_releases, record
from patcher.tree import Tree
from patcher.verify import checks, climb
from patcher.verify.check import Context

SET = load_set("ddtree")
RELEASES = load_releases(SET)

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def subjects(release_tree: Callable[[str], Tree], cache: Cache) -> Callable[[str], Subject]:
    known: dict[str, Subject] = {}

    def subject(version: str) -> Subject:
        if version not in known:
            tree = release_tree(version)
            known[version] = Subject(tree, run(tree, cache))
        return known[version]

    return subject


def verified(patch_set: PatchSet, subject: Subject, cache: Cache) -> tuple[Release, str]:
    """The record, and the level that does not hold (empty: all hold)."""
    plan = make_plan(patch_set, subject)
    assert plan.outcome is Outcome.APPLIED, [f.message for f in plan.all_findings()]
    after = subject.tree.with_changes(plan.changes.contents)

    def survey(tree: Tree) -> Inventory:
        return run(tree, cache)

    context = Context(plan, after, load_ledger(patch_set), survey)
    results = list(climb(context, checks()))
    reached = [r.check.level for r in results if r.holds]
    failed = "" if results[-1].holds else results[-1].check.level
    return record(plan, reached[-1] if reached else "", {}), failed


@pytest.mark.parametrize("version", sorted(RELEASES))
def test_a_recorded_release_is_as_recorded(
    version: str, subjects: Callable[[str], Subject], cache: Cache
) -> None:
    found, failed = verified(SET, subjects(version), cache)
    assert failed == ""
    assert list(RELEASES[version].differences(found)) == []


def test_family_a_is_recorded() -> None:
    assert {"0.5.11", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.13.post1"} <= set(RELEASES)


def test_a_record_tells_every_difference() -> None:
    one = RELEASES["0.5.11"]
    other = replace(
        one,
        python_sha256="0" * 64,
        level="names",
        patches={**one.patches, "enum-member": "conflict"},
        counts={},
        wheels=dict.fromkeys(one.wheels, "0" * 64),
    )
    told = "\n".join(one.differences(other))
    for word in ("code:", "level:", "patch enum-member:", "query dispatch:", "wheel cp312:"):
        assert word in told


def _without_one_edit(subject: Subject) -> Iterator[tuple[str, PatchSet]]:
    """The set with each edit that this release uses taken out in turn."""
    for patch in SET.patches:
        for at, strategy in enumerate(patch.strategies):
            if not strategy.edits or not strategy.when.holds(subject):
                continue
            for index, edit in enumerate(strategy.edits):
                left = strategy.edits[:index] + strategy.edits[index + 1 :]
                changed = replace(strategy, edits=left)
                strategies = (*patch.strategies[:at], changed, *patch.strategies[at + 1 :])
                yield f"{patch.id}: {edit.describe()}", _with(patch, strategies)
            break


def _with(patch: Patch, strategies: tuple[object, ...]) -> PatchSet:
    new = replace(patch, strategies=strategies)
    return replace(SET, patches=tuple(new if p.id == patch.id else p for p in SET.patches))


@pytest.mark.parametrize("version", sorted(RELEASES))
def test_without_any_one_edit_a_level_fails(
    version: str, subjects: Callable[[str], Subject], cache: Cache
) -> None:
    subject = subjects(version)
    spared = [
        what for what, less in _without_one_edit(subject) if not verified(less, subject, cache)[1]
    ]
    assert spared == []


def test_a_release_without_dflash_is_refused(subjects: Callable[[str], Subject]) -> None:
    plan = make_plan(SET, subjects("0.5.10"))
    assert plan.outcome is Outcome.CONFLICT
    assert "no DFLASH" in plan.findings[0].message
    assert plan.changes.files == {}
