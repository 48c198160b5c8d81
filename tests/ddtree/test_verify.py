"""Walk and commit: what is emitted, what stays in the cache, what is given back."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: the verify step not run")
np = pytest.importorskip("numpy", reason="numpy is not installed: the verify step not run")

from . import fakes, load  # noqa: E402
from .cases import CASES, WALKS  # noqa: E402

tree_module = load.module("tree")
accept = load.module("accept")
info = load.module_on_fakes("info")

VOCABULARY = 1000
NO_TOKEN = 999
PROMPT = [801, 802, 803]


@dataclass
class Step:
    """A verify step over some trees, with the target's token at every node given."""

    tree: Any
    predicted: torch.Tensor
    max_depth: int
    reqs: list[fakes.Req]
    slots_seed: int = 0
    batch: fakes.Batch = field(init=False)
    result: Any = field(init=False)
    logits_output: Any = field(init=False)

    def run(self) -> Step:
        bs, width = self.tree.tokens.shape
        self.batch = fakes.Batch(self.reqs, fakes.Slots(64 * bs + 40 * bs, self.slots_seed))
        verify_input = info.DDTreeVerifyInput(
            draft_token=self.tree.tokens.view(-1),
            positions=self.tree.positions(self.batch.seq_lens).view(-1),
            draft_token_num=width,
            tree=self.tree,
            max_depth=self.max_depth,
            sampler=None,
        )
        verify_input.prepare_for_verify(self.batch, 1)
        self.batch.write_kv()
        logits = torch.zeros(bs * width, VOCABULARY)
        logits[torch.arange(bs * width), self.predicted.view(-1)] = 9.0
        # A hidden state that names its row.
        hidden = torch.arange(bs * width, dtype=torch.float32).unsqueeze(1).repeat(1, 2)
        self.logits_output = SimpleNamespace(next_token_logits=logits, hidden_states=hidden)
        self.result = verify_input.verify(
            batch=self.batch, logits_output=self.logits_output, page_size=1
        )
        return self


def _tree_of(name: str) -> Any:
    case = CASES[name]
    builder = tree_module.TableBuilder(case.budget, *case.log_probs.shape, "cpu")
    return builder.build(
        torch.tensor([case.root_token]),
        torch.from_numpy(case.log_probs)[None],
        torch.from_numpy(case.tokens)[None],
    )


def _predicted(walk: dict[str, Any]) -> torch.Tensor:
    predicted = torch.full((1, CASES[walk["tree"]].width), NO_TOKEN)
    for node, token in walk["predicted"].items():
        predicted[0, int(node)] = token
    return predicted


def _step(walk_name: str, **request: Any) -> Step:
    walk = WALKS[walk_name]
    return Step(
        tree=_tree_of(walk["tree"]),
        predicted=_predicted(walk),
        max_depth=CASES[walk["tree"]].log_probs.shape[0],
        reqs=[fakes.Req(PROMPT, **request)],
    ).run()


def _assert_consistent(step: Step) -> None:
    """Invariants of any commit: lengths, cache content, every slot mapped or free, once."""
    batch = step.batch
    bonus, commit_lens, hidden, correct = step.result
    width = step.predicted.shape[1]
    total = 0
    rows = []
    for i, req in enumerate(batch.reqs):
        emitted = req.output_ids
        root = int(step.tree.tokens[i, 0])
        assert batch.cached_tokens(i) == [*req.prompt, root, *emitted[:-1]]
        assert int(commit_lens[i]) == len(emitted) == correct[i] + 1
        assert int(bonus[i]) == emitted[-1]
        assert req.kv_committed_len == req.kv_allocated_len == len(req.prompt) + len(emitted)
        assert (req.spec_verify_ct, req.spec_accepted_drafts) == (1, len(emitted) - 1)
        assert req.histogram == [len(emitted) - 1]
        # The path by the tree's own tokens, to know which hidden states must come back.
        node, path = 0, [0]
        for token in emitted[:-1]:
            node = next(
                j
                for j in range(width)
                if step.tree.parents[i, j] == node and step.tree.tokens[i, j] == token
            )
            path.append(node)
        rows += [i * width + j for j in path]
        total += len(req.prompt) + len(emitted)
    assert hidden[:, 0].tolist() == rows
    assert batch.seq_lens.tolist() == batch.seq_lens_cpu.tolist()
    assert batch.seq_lens_sum == total == int(batch.seq_lens.sum())
    mapped = batch.mapped_slots()
    assert len(set(mapped)) == len(mapped) == total
    assert set(mapped) == batch.token_to_kv_pool_allocator.used
    assert bonus.dtype == torch.int64
    assert commit_lens.dtype == torch.int32
    assert step.logits_output.hidden_states is None


@pytest.mark.parametrize("name", WALKS)
def test_recorded_walk(name: str) -> None:
    walk = WALKS[name]
    found = accept.walk(
        _tree_of(walk["tree"]),
        _predicted(walk),
        CASES[walk["tree"]].log_probs.shape[0],
    )
    count = len(walk["path"])
    assert found.path[0].tolist() == walk["path"] + [-1] * (found.path.shape[1] - count)
    assert found.emitted[0, :count].tolist() == walk["emitted"]
    assert int(found.length[0]) == walk["correct_drafts"] == walk["commit_len"] - 1
    assert int(found.emitted[0, found.length[0]]) == walk["bonus"]


@pytest.mark.parametrize("name", WALKS)
def test_recorded_walk_is_committed(name: str) -> None:
    step = _step(name)
    assert step.reqs[0].output_ids == WALKS[name]["emitted"]
    assert not step.reqs[0].finished()
    _assert_consistent(step)


@pytest.mark.parametrize(
    ("request_args", "emitted", "reason"),
    [
        ({"stop": frozenset({20})}, [11, 20], "stop"),
        ({"stop": frozenset({11})}, [11], "stop"),
        ({"stop": frozenset({99})}, [11, 20, 99], "stop"),
        ({"max_new_tokens": 1}, [11], "length"),
        ({"max_new_tokens": 2}, [11, 20], "length"),
        ({"max_new_tokens": 3}, [11, 20, 99], "length"),
        ({"stop": frozenset({20}), "ignore_eos": True}, [11, 20, 99], None),
    ],
)
def test_end_inside_the_path(
    request_args: dict[str, Any], emitted: list[int], reason: str | None
) -> None:
    step = _step("second_branch", **request_args)
    assert step.reqs[0].output_ids == emitted
    assert step.reqs[0].finished_reason == reason
    _assert_consistent(step)


def test_padding_is_never_accepted() -> None:
    """Pads carry the root's token: a target that predicts it must still find no child."""
    tree = _tree_of("one_hot_5")
    pads = [i for i in range(6) if i and tree.parents[0, i] < 0]
    assert pads == [4, 5]
    root = int(tree.tokens[0, 0])
    step = Step(tree, torch.full((1, 6), root), 3, [fakes.Req(PROMPT)]).run()
    assert step.reqs[0].output_ids == [root]
    _assert_consistent(step)


def test_reasoning_tokens_are_counted_as_they_are_taken() -> None:
    walk = WALKS["second_branch"]
    req = fakes.Req(PROMPT, stop=frozenset({20}), require_reasoning=True)
    step = Step(_tree_of(walk["tree"]), _predicted(walk), 2, [req])
    original = fakes.Batch.__init__

    def with_think_end(self: fakes.Batch, *args: Any) -> None:
        original(self, *args)
        self.model_config.think_end_id = 5

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fakes.Batch, "__init__", with_think_end)
        step.run()
    assert req.reasoning_tokens == [11, 20]


def _random_steps(seed: int, count: int) -> list[dict[str, Any]]:
    """Trees with targets that follow a branch more often than not, and early ends."""
    random = np.random.default_rng(seed)
    depth, top_k, budget = 5, 6, 14
    logits = np.round(random.normal(size=(count, depth, top_k)) * 2) / 2
    logits[random.random((count, depth, top_k)) < 0.1] = -np.inf
    log_probs = -np.sort(-logits).astype(np.float32)
    # Few token ids, 0 among them, so that they recur across depths and branches.
    tokens = np.argsort(random.random((count, depth, 9)))[:, :, :top_k].astype(np.int64)
    roots = random.integers(0, 9, count).astype(np.int64)
    builder = tree_module.FrontierBuilder(budget, depth, top_k, "cpu")
    tree = builder.build(*(torch.from_numpy(x) for x in (roots, log_probs, tokens)))
    predicted = torch.from_numpy(random.integers(0, 9, (count, budget + 1)))
    for i in range(count):
        for node in range(budget + 1):
            children = [j for j in range(budget + 1) if tree.parents[i, j] == node]
            if children and random.random() < 0.8:
                predicted[i, node] = tree.tokens[i, random.choice(children)]
    steps = []
    for i in range(count):
        one = tree_module.DraftTree(
            tree.tokens[i : i + 1],
            tree.parents[i : i + 1],
            tree.depths[i : i + 1],
            tree.mask[i : i + 1],
        )
        request = {
            "prompt": random.integers(0, 9, random.integers(1, 12)).tolist(),
            "stop": frozenset(random.integers(0, 9, random.integers(0, 2)).tolist()),
            "max_new_tokens": int(random.choice([1, 2, 3, 50])),
        }
        steps.append({"tree": one, "predicted": predicted[i : i + 1], "request": request})
    return steps


@pytest.mark.parametrize("seed", range(6))
def test_batch_of_32_equals_32_single_runs(seed: int) -> None:
    steps = _random_steps(seed, 32)
    together = Step(
        tree_module.DraftTree(
            *(
                torch.cat([getattr(s["tree"], name) for s in steps])
                for name in ("tokens", "parents", "depths", "mask")
            )
        ),
        torch.cat([s["predicted"] for s in steps]),
        5,
        [fakes.Req(**s["request"]) for s in steps],
        slots_seed=seed,
    ).run()
    _assert_consistent(together)
    lengths = set()
    for i, part in enumerate(steps):
        alone = Step(
            part["tree"], part["predicted"], 5, [fakes.Req(**part["request"])], slots_seed=seed + i
        ).run()
        _assert_consistent(alone)
        assert together.reqs[i].output_ids == alone.reqs[0].output_ids
        assert together.reqs[i].finished_reason == alone.reqs[0].finished_reason
        assert together.batch.cached_tokens(i) == alone.batch.cached_tokens(0)
        lengths.add(len(alone.reqs[0].output_ids))
    assert len(lengths) > 2, "the steps must differ for this to mean something"


def test_path_that_overlaps_where_it_goes() -> None:
    """Nodes 0, 1, 2, 4, 5 are kept: the slot of node 4 is what node 3's place would be."""
    rows = torch.tensor([[-1, 0, 1, 0, 2, 4, 5]])
    tokens = torch.tensor([[50, 51, 52, 60, 53, 54, 61]])
    depths = torch.tensor([[0, 1, 2, 1, 3, 4, 5]])
    mask = torch.eye(7, dtype=torch.bool)[None].clone()
    for node in range(1, 7):
        mask[0, node] |= mask[0, rows[0, node]]
    tree = tree_module.DraftTree(tokens, rows, depths, mask)
    predicted = torch.tensor([[51, 52, 53, NO_TOKEN, 54, 99, NO_TOKEN]])
    step = Step(tree, predicted, 5, [fakes.Req(PROMPT)]).run()
    assert step.reqs[0].output_ids == [51, 52, 53, 54, 99]
    _assert_consistent(step)
    kept, freed = accept.split_rows(np.array([[0, 1, 2, 4, 5, -1]]), [5], 7)
    assert kept.tolist() == [0, 1, 2, 4, 5]
    assert freed.tolist() == [3, 6]


def test_one_copy_to_the_host_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []
    original = torch.Tensor.cpu

    def counted(self: torch.Tensor) -> torch.Tensor:
        copies.append(tuple(self.shape))
        return original(self)

    monkeypatch.setattr(torch.Tensor, "cpu", counted)
    step = _step("second_branch")
    assert copies == [(1, 3 + 3 + 1)]
    assert step.reqs[0].output_ids == [11, 20, 99]


def test_idle_batch() -> None:
    batch = SimpleNamespace(forward_mode=SimpleNamespace(is_idle=lambda: True), device="cpu")
    verify_input = info.DDTreeVerifyInput(None, None, 4)
    verify_input.prepare_for_verify(batch, 1)
    bonus, commit_lens, hidden, correct = verify_input.verify(
        batch=batch, logits_output=None, page_size=1
    )
    assert (len(bonus), len(commit_lens), len(hidden), correct) == (0, 0, 0, [])


def test_target_without_hidden_states_is_an_error() -> None:
    batch = SimpleNamespace(forward_mode=SimpleNamespace(is_idle=lambda: False))
    output = SimpleNamespace(hidden_states=None)
    with pytest.raises(RuntimeError, match="hidden states"):
        info.DDTreeVerifyInput(None, None, 4).verify(batch=batch, logits_output=output, page_size=1)


def test_capture_input_binds_the_mask_buffer() -> None:
    buffer = torch.ones(10, dtype=torch.bool)
    made = info.build_ddtree_capture_input(SimpleNamespace(speculative_num_draft_tokens=32), buffer)
    assert made.custom_mask is buffer
    assert made.draft_token_num == 32
    assert made.capture_hidden_mode is fakes.CaptureHiddenMode.FULL
