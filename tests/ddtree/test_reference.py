"""The NumPy reference against the recorded trees and against brute force."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy", reason="numpy is not installed: the reference not run")

from . import load  # noqa: E402
from .cases import CASES  # noqa: E402
from .strategies import Draft, drafts  # noqa: E402

reference = load.module("reference")


@pytest.mark.parametrize("name", CASES)
def test_recorded_tree(name: str) -> None:
    case = CASES[name]
    tree = reference.build_reference_tree(case.log_probs, case.tokens, case.root_token, case.budget)
    assert tree.size == case.size
    assert tree.tokens == case.column("token", case.root_token)
    assert tree.parents == case.column("parent", -1)
    assert tree.depths == case.column("depth", 0)
    assert tree.scores == pytest.approx(case.column("score", 0.0), abs=1e-6)
    assert [list(r) for r in tree.ranks] == case.column("ranks", [])
    assert (tree.visible == case.mask()).all()
    assert tree.next_token() == case.links("next_token")
    assert tree.next_sibling() == case.links("next_sibling")
    start = case.expected["start"]
    assert [start + d for d in tree.depths[: tree.size]] == case.expected["positions"]


def _every_prefix(log_probs: np.ndarray) -> list[tuple[float, tuple[int, ...]]]:
    """All prefixes with their scores, best first, by enumeration."""
    found = []
    depth, top_k = log_probs.shape
    for length in range(1, depth + 1):
        for ranks in itertools.product(range(top_k), repeat=length):
            score = np.float32(0)
            for level, rank in enumerate(ranks):
                row = log_probs[level]
                usable = np.cumprod(row > -np.inf)[rank] > 0
                score = np.float32(score + row[rank]) if usable else np.float32(-np.inf)
                if score == -np.inf:
                    break
            if score > -np.inf:
                found.append((-float(score), ranks))
    return sorted(found)


@given(drafts(max_budget=12, max_depth=4, max_batch=1))
def test_heap_finds_what_enumeration_finds(draft: Draft) -> None:
    log_probs = draft.log_probs[0][:, :4]
    tree = reference.build_reference_tree(
        log_probs, draft.tokens[0], int(draft.roots[0]), draft.budget
    )
    best = _every_prefix(log_probs)[: draft.budget]
    assert tree.ranks[1 : tree.size] == [ranks for _, ranks in best]
    assert tree.scores[1 : tree.size] == [-negated for negated, _ in best]


@given(drafts(max_budget=64, max_batch=1))
def test_tree_is_a_tree(draft: Draft) -> None:
    tree = reference.build_reference_tree(
        draft.log_probs[0], draft.tokens[0], int(draft.roots[0]), draft.budget
    )
    children = set()
    for node in range(1, tree.size):
        parent = tree.parents[node]
        assert parent < node
        assert tree.depths[node] == tree.depths[parent] + 1
        assert tree.scores[node] <= tree.scores[parent]
        assert (tree.parents[node], tree.tokens[node]) not in children
        children.add((parent, tree.tokens[node]))
        # Sum of the products of the leading ranks bounds the place in the order.
        ranks = np.array(tree.ranks[node]) + 1
        assert np.cumprod(ranks).sum() <= draft.budget
    assert all(a >= b for a, b in itertools.pairwise(tree.scores[1 : tree.size]))
    for node in range(tree.size, draft.budget + 1):
        assert tree.visible[node].nonzero()[0].tolist() == [node]


@given(drafts(max_budget=24, max_depth=6, max_batch=1), st.integers(1, 24))
def test_certificate_is_never_wrong(draft: Draft, cap: int) -> None:
    log_probs, tokens = draft.log_probs[0], draft.tokens[0]
    vocabulary = log_probs.shape[1]
    cap = min(cap, vocabulary)
    whole = reference.build_reference_tree(log_probs, tokens, 0, draft.budget)
    capped = reference.build_reference_tree(log_probs[:, :cap], tokens[:, :cap], 0, draft.budget)
    if reference.is_certainly_exact(capped, cap, vocabulary):
        assert capped.ranks == whole.ranks


def test_certificate_sees_a_cap_that_bites() -> None:
    full, cut = CASES["cap_not_reached"], CASES["cap_reached"]
    for case, top_k, exact in ((full, 8, True), (cut, 2, False)):
        tree = reference.build_reference_tree(
            case.log_probs, case.tokens, case.root_token, case.budget
        )
        assert reference.is_certainly_exact(tree, top_k, 8) is exact


def test_no_budget_is_the_root_alone() -> None:
    case = CASES["basic"]
    tree = reference.build_reference_tree(case.log_probs, case.tokens, 5, 0)
    assert (tree.size, tree.tokens, tree.visible.tolist()) == (1, [5], [[True]])


def test_all_dead_first_row_leaves_the_root() -> None:
    for value in (-np.inf, np.nan):
        log_probs = np.array([[value, value], [-0.5, -1.0]], dtype=np.float32)
        tree = reference.build_reference_tree(log_probs, np.zeros((2, 2), np.int64), 5, 3)
        assert tree.size == 1
