"""Every patch's own cases, and the rules that a well-made set keeps."""

import pytest

from patcher.ledger import Status, load_ledger
from patcher.patchset import Patch, PatchCase, available, load_set
from patcher.trial import run_case

SETS = {name: load_set(name) for name in available()}
CASES = [
    pytest.param(patch, case, id=f"{name}:{patch.id}:{case.title}")
    for name, patch_set in SETS.items()
    for patch in patch_set.patches
    for case in patch.cases
]


@pytest.mark.parametrize(("patch", "case"), CASES)
def test_case(patch: Patch, case: PatchCase) -> None:
    result = run_case(patch, case)
    assert result.passed, result.problem


@pytest.mark.parametrize("name", SETS)
def test_every_strategy_with_edits_on_code_has_a_case(name: str) -> None:
    for patch in SETS[name].patches:
        anchored = {s.id for s in patch.strategies if any(hasattr(e, "anchor") for e in s.edits)}
        assert anchored <= {c.strategy for c in patch.cases}, patch.id


@pytest.mark.parametrize("name", SETS)
def test_every_patch_says_why(name: str) -> None:
    for patch in SETS[name].patches:
        assert len(patch.why) > 40, patch.id
        assert patch.title[0].isupper(), patch.id
        assert not patch.title.endswith("."), patch.id


@pytest.mark.parametrize("name", SETS)
def test_every_patched_ledger_entry_names_a_patch_that_edits_that_file(name: str) -> None:
    patch_set = SETS[name]
    for entry in load_ledger(patch_set).entries.values():
        if entry.status is Status.PATCHED:
            files = {
                getattr(edit, "file", None) or getattr(getattr(edit, "anchor", None), "file", None)
                for patch in entry.patches
                for strategy in patch_set.patch(patch).strategies
                for edit in strategy.edits
            }
            assert entry.key[0] in files, entry
