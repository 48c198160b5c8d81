"""The batched builders and the kernel, bit for bit against the reference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: batched builders not run")
np = pytest.importorskip("numpy", reason="numpy is not installed: batched builders not run")
pytest.importorskip("triton", reason="triton is not installed: kernel not run")

from . import load  # noqa: E402
from .cases import CASES, Case  # noqa: E402
from .strategies import Draft, drafts  # noqa: E402

reference = load.module("reference")
tree_module = load.module("tree")
triton_module = load.module("triton")

BUILDERS = {
    "table": tree_module.TableBuilder,
    "frontier": tree_module.FrontierBuilder,
    "triton": triton_module.TritonBuilder,
}


def _build(builder: str, draft: Draft) -> Any:
    _, depth, top_k = draft.log_probs.shape
    return BUILDERS[builder](draft.budget, depth, top_k, "cpu").build(
        torch.from_numpy(draft.roots),
        torch.from_numpy(draft.log_probs),
        torch.from_numpy(draft.tokens),
    )


def _assert_as_reference(built: Any, draft: Draft) -> None:
    _, next_token, next_sibling = built.links()
    for request, root in enumerate(draft.roots):
        wanted = reference.build_reference_tree(
            draft.log_probs[request], draft.tokens[request], int(root), draft.budget
        )
        assert built.tokens[request].tolist() == wanted.tokens
        assert built.parents[request].tolist() == wanted.parents
        assert built.depths[request].tolist() == wanted.depths
        assert (built.mask[request].numpy() == wanted.visible).all()
        assert next_token[request].tolist() == wanted.next_token()
        assert next_sibling[request].tolist() == wanted.next_sibling()


def _batch_of(*cases: Case, times: int = 1) -> Draft:
    return Draft(
        log_probs=np.stack([c.log_probs for c in cases] * times),
        tokens=np.stack([c.tokens for c in cases] * times),
        roots=np.array([c.root_token for c in cases] * times, dtype=np.int64),
        budget=cases[0].budget,
    )


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("name", CASES)
def test_recorded_tree(name: str, builder: str) -> None:
    case = CASES[name]
    built = _build(builder, _batch_of(case))
    assert built.tokens[0].tolist() == case.column("token", case.root_token)
    assert built.parents[0].tolist() == case.column("parent", -1)
    assert built.depths[0].tolist() == case.column("depth", 0)
    assert (built.mask[0].numpy() == case.mask()).all()
    index, next_token, next_sibling = built.links()
    assert index[0].tolist() == list(range(case.width))
    assert next_token[0].tolist() == case.links("next_token")
    assert next_sibling[0].tolist() == case.links("next_sibling")
    start = case.expected["start"]
    positions = built.positions(torch.tensor([start]))[0].tolist()
    assert positions[: case.size] == case.expected["positions"]
    assert positions[case.size :] == [start] * (case.width - case.size)


@settings(max_examples=60)
@given(drafts(max_budget=tree_module.TABLE_MAX_BUDGET))
def test_table_equals_reference(draft: Draft) -> None:
    _assert_as_reference(_build("table", draft), draft)


@settings(max_examples=40)
@given(drafts(max_budget=256, max_batch=3))
def test_frontier_equals_reference(draft: Draft) -> None:
    _assert_as_reference(_build("frontier", draft), draft)


@settings(max_examples=25)
@given(drafts(max_budget=40, max_batch=3))
def test_kernel_equals_reference(draft: Draft) -> None:
    _assert_as_reference(_build("triton", draft), draft)


@pytest.mark.slow
@settings(max_examples=100)
@given(drafts(max_budget=256, max_batch=3))
def test_kernel_equals_reference_at_every_budget(draft: Draft) -> None:
    _assert_as_reference(_build("triton", draft), draft)


@pytest.mark.slow
@settings(max_examples=200)
@given(drafts(max_budget=256, max_batch=4), st.data())
def test_torch_builders_equal_reference_at_every_budget(draft: Draft, data: st.DataObject) -> None:
    names = ["frontier"] + ["table"] * (draft.budget <= tree_module.TABLE_MAX_BUDGET)
    _assert_as_reference(_build(data.draw(st.sampled_from(names)), draft), draft)


@pytest.mark.parametrize("builder", ["frontier", "triton"])
@pytest.mark.parametrize("budget", [64, 127, 255, 256, 511])
def test_large_budgets(builder: str, budget: int) -> None:
    if builder == "triton" and budget > 256:
        pytest.skip("the interpreter needs seconds; the packed key's limit is tested in torch")
    random = np.random.default_rng(budget)
    logits = random.normal(size=(1, 15, budget)) * 1.5
    logits -= np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    draft = Draft(
        log_probs=-np.sort(-logits).astype(np.float32),
        tokens=np.argsort(random.random((1, 15, budget))).astype(np.int64),
        roots=np.array([3]),
        budget=budget,
    )
    _assert_as_reference(_build(builder, draft), draft)


def test_scores_that_differ_only_by_rounding_keep_the_order() -> None:
    """Sums that round to one float are a tie, to be settled by rank tuple in every form."""
    log_probs = np.array([[[-1e-8, -2e-8, -3e-8], [-30.0, -30.5, -31.0]]], dtype=np.float32)
    tokens = np.array([[[1, 2, 3], [4, 5, 6]]], dtype=np.int64)
    draft = Draft(log_probs, tokens, np.array([0]), 9)
    for builder in BUILDERS:
        _assert_as_reference(_build(builder, draft), draft)


def test_uneven_batch_equals_single_runs() -> None:
    """A request that runs out of prefixes beside one that does not; neither sees the other."""
    short = CASES["minus_infinity"]
    full = Case("full", CASES["tie_6"].log_probs, CASES["tie_6"].tokens, 77, 6, {})
    for builder in BUILDERS:
        for times in (1, 8, 16):
            batch = _batch_of(short, full, times=times)
            built = _build(builder, batch)
            _assert_as_reference(built, batch)
            pads = built.mask[0, 5:]
            assert pads.nonzero().tolist() == [[0, 5], [1, 6]]


@pytest.mark.parametrize("builder", BUILDERS)
def test_constants_per_row_change_nothing(builder: str) -> None:
    """Rows need a common normaliser among themselves only as far as scores compare."""
    random = np.random.default_rng(5)
    logits = random.normal(size=(2, 6, 40)).astype(np.float32)
    shifted = logits + random.normal(size=(2, 6, 1)).astype(np.float32) * 8
    trees = []
    for rows in (logits, shifted):
        values, ids = torch.topk(torch.log_softmax(torch.from_numpy(rows).double(), -1), 16)
        draft = Draft(values.float().numpy(), ids.numpy(), np.array([1, 2]), 16)
        trees.append(_build(builder, draft))
    assert trees[0].tokens.tolist() == trees[1].tokens.tolist()
    assert trees[0].parents.tolist() == trees[1].parents.tolist()


@pytest.mark.parametrize(
    ("budget", "entries"), [(16, 397), (32, 3_576), (64, 29_934)], ids=["16", "32", "64"]
)
def test_size_of_the_table(budget: int, entries: int) -> None:
    levels = tree_module.candidate_ranks(budget, 15, budget)
    assert sum(len(level) for level in levels) == entries


@pytest.mark.parametrize("builder", ["table", "frontier"])
def test_nothing_is_read_back_to_the_host(builder: str) -> None:
    """Under fake tensors any value that reaches Python, or sizes a result, raises."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    made = BUILDERS[builder](9, 4, 9, "cpu")
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        roots = mode.from_tensor(torch.zeros(3, dtype=torch.int64))
        log_probs = mode.from_tensor(torch.zeros(3, 4, 9))
        tokens = mode.from_tensor(torch.zeros(3, 4, 9, dtype=torch.int64))
        lens = mode.from_tensor(torch.zeros(3, dtype=torch.int64))
        built = made.build(roots, log_probs, tokens)
        built.links()
        assert built.mask.shape == (3, 10, 10)
        assert built.packed_mask(lens, 60).shape == (900,)
        load.module("accept").walk(built, tokens.new_zeros((3, 10)), 4)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5))
@example([0, 0])
@example([3, 0, 5])
def test_packed_mask(lens: list[int]) -> None:
    case = CASES["more_than_there_is"]
    built = _build("table", _batch_of(case, times=len(lens)))
    packed = built.packed_mask(torch.tensor(lens), sum(lens))
    wanted = [
        np.concatenate([np.ones((case.width, n), dtype=bool), case.mask()], axis=1).ravel()
        for n in lens
    ]
    assert (packed.numpy() == np.concatenate(wanted)).all()


@pytest.mark.parametrize(("budget", "depth"), [(0, 4), (512, 4), (4, 0), (4, 32)])
def test_shapes_that_do_not_fit_the_key_are_refused(budget: int, depth: int) -> None:
    for make in (tree_module.make_tree_builder, triton_module.TritonBuilder):
        with pytest.raises(ValueError, match=r"builds trees of 1\.\.511 nodes and 1\.\.31 levels"):
            make(budget, depth, 4, "cpu")


def test_choice_of_builder() -> None:
    small = tree_module.make_tree_builder(32, 2, 4, "cpu")
    large = tree_module.make_tree_builder(33, 2, 4, "cpu")
    assert isinstance(small, tree_module.TableBuilder)
    assert isinstance(large, tree_module.FrontierBuilder)
