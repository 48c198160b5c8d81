"""Sampling: what is emitted is distributed as the target's own tokens would be."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from . import load

torch = pytest.importorskip("torch", reason="torch is not installed: sampling not run")

from . import fakes  # noqa: E402

tree_module = load.module("tree")
accept = load.module("accept")
info_module = load.module_on_fakes("info")

DRAWS = 100_000
#: Chi-square values exceeded with probability 1e-5, by degrees of freedom.
CRITICAL = {2: 23.03, 3: 25.90, 8: 38.24}

# Tokens a, b, c = 0, 1, 2. The root offers a and b; a offers a and c, b offers b.
ROOT, UNDER_A, UNDER_B = [0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]
ANYWHERE = [1 / 3, 1 / 3, 1 / 3]
TREE = {
    "tokens": [2, 0, 1, 0, 2, 1],
    "parents": [-1, 0, 0, 1, 1, 2],
    "depths": [0, 1, 1, 2, 2, 2],
}
NODE_PROBS = [ROOT, UNDER_A, UNDER_B, ANYWHERE, ANYWHERE, ANYWHERE]
WIDTH = len(NODE_PROBS)


class TorchSampler:
    """The plain-torch part of SGLang's ``Sampler._sample_from_probs``."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, torch.Tensor, bool]] = []

    def _sample_from_probs(
        self, probs: torch.Tensor, info: Any, positions: torch.Tensor, simple: bool
    ) -> torch.Tensor:
        self.seen.append((info, positions, simple))
        if info.need_top_k_sampling:
            ordered, index = probs.sort(dim=-1, descending=True)
            rank = torch.arange(probs.shape[-1]).view(1, -1)
            ordered = torch.where(rank >= info.top_ks.view(-1, 1), 0.0, ordered)
            drawn = index.gather(1, torch.multinomial(ordered, 1))
        else:
            drawn = torch.multinomial(probs, 1)
        return drawn.view(-1).to(torch.int32)


def _tree(batch: int) -> Any:
    mask = torch.eye(WIDTH, dtype=torch.bool)
    for node in range(1, WIDTH):
        mask[node] |= mask[TREE["parents"][node]]
    return tree_module.DraftTree(
        torch.tensor(TREE["tokens"]).repeat(batch, 1),
        torch.tensor(TREE["parents"]).repeat(batch, 1),
        torch.tensor(TREE["depths"]).repeat(batch, 1),
        mask.repeat(batch, 1, 1),
    )


def _sampling(batch: int) -> SimpleNamespace:
    info = fakes.greedy_info(batch)
    info.is_all_greedy = False
    info.top_ks = torch.full((batch,), 1 << 30, dtype=torch.int32)
    return info


def _logits(batch: int, temperature: float = 1.0) -> torch.Tensor:
    return (torch.tensor(NODE_PROBS).log() * temperature).repeat(batch, 1)


def _walk_with(predicted: torch.Tensor) -> Any:
    return accept.walk(_tree(len(predicted)), predicted, 2)


def _chi_square(counts: list[int], probabilities: list[float]) -> float:
    total = sum(counts)
    return sum(
        (count - total * p) ** 2 / (total * p)
        for count, p in zip(counts, probabilities, strict=True)
    )


def _sample_and_walk(batch: int) -> torch.Tensor:
    predicted = accept.target_tokens(
        _logits(batch, 0.7),
        SimpleNamespace(**{**vars(_sampling(batch)), "temperatures": torch.full((batch, 1), 0.7)}),
        TorchSampler(),
        torch.zeros(batch * WIDTH, dtype=torch.int64),
        WIDTH,
    )
    found = _walk_with(predicted)
    return torch.cat([found.emitted, found.length.unsqueeze(1)], dim=1)


def _accept_by_ratio(batch: int) -> torch.Tensor:
    """The wrong rule: accept children one by one with min(1, p/q), q the drafter's marginal."""
    p, q = torch.tensor(ROOT), torch.tensor([0.4, 0.35, 0.25])
    emitted = torch.zeros((batch, 4), dtype=torch.int64)
    undecided = torch.ones(batch, dtype=torch.bool)
    for child in (0, 1):
        taken = undecided & (torch.rand(batch) < (p[child] / q[child]).clamp(max=1.0))
        emitted[taken, 0] = child
        emitted[taken, 3] = 1
        undecided &= ~taken
    residual = (p - q).clamp(min=0)
    count = int(undecided.sum())
    if count:
        emitted[undecided, 0] = torch.multinomial(residual, count, replacement=True)
    return emitted


def _first_token_fits(rule: Callable[[int], torch.Tensor]) -> bool:
    torch.manual_seed(11)
    emitted = rule(DRAWS)
    counts = torch.bincount(emitted[:, 0], minlength=3).tolist()
    return _chi_square(counts, ROOT) < CRITICAL[2]


def test_first_token_follows_the_target() -> None:
    assert _first_token_fits(_sample_and_walk)


def test_the_same_test_rejects_ratio_acceptance() -> None:
    assert not _first_token_fits(_accept_by_ratio)


def test_children_are_accepted_with_their_joint_probability() -> None:
    torch.manual_seed(12)
    accepted = int((_sample_and_walk(DRAWS)[:, 3] >= 1).sum())
    assert _chi_square([accepted, DRAWS - accepted], [0.8, 0.2]) < CRITICAL[2]


def test_second_token_follows_the_target_given_the_first() -> None:
    torch.manual_seed(13)
    result = _sample_and_walk(DRAWS)
    for first, probabilities in ((0, UNDER_A), (1, UNDER_B)):
        second = result[(result[:, 0] == first), 1]
        counts = torch.bincount(second, minlength=3).tolist()
        assert _chi_square(counts, probabilities) < CRITICAL[2]
    third = result[(result[:, 3] == 2), 2]
    assert _chi_square(torch.bincount(third, minlength=3).tolist(), ANYWHERE) < CRITICAL[2]


def test_batch_of_mixed_requests() -> None:
    """Greedy rows (top_k 1) take the argmax, sampled rows their own temperature."""
    torch.manual_seed(14)
    batch = 3 * 20_000
    info = _sampling(batch)
    info.need_top_k_sampling = True
    info.top_ks = torch.tensor([1, 2, 1 << 30], dtype=torch.int32).repeat(batch // 3)
    info.temperatures = torch.tensor([[1.0], [1.0], [0.5]]).repeat(batch // 3, 1)
    predicted = accept.target_tokens(
        _logits(batch), info, TorchSampler(), torch.zeros(batch * WIDTH), WIDTH
    )
    first = predicted[:, 0].view(-1, 3)
    assert first[:, 0].unique().tolist() == [0]
    two = torch.bincount(first[:, 1], minlength=3).tolist()
    assert two[2] == 0
    assert _chi_square(two[:2], [0.625, 0.375]) < CRITICAL[2]
    squares = torch.tensor(ROOT) ** 2
    cooler = torch.bincount(first[:, 2], minlength=3).tolist()
    assert _chi_square(cooler, (squares / squares.sum()).tolist()) < CRITICAL[2]


class LastOfTies:
    """A sampler whose top-1 is the last of equal tokens, which it may be."""

    def _sample_from_probs(
        self, probs: torch.Tensor, info: Any, positions: torch.Tensor, simple: bool
    ) -> torch.Tensor:
        return probs.shape[-1] - 1 - probs.flip(-1).argmax(-1)


def test_argmax_settles_ties_of_greedy_rows() -> None:
    logits = torch.zeros(2 * WIDTH, 3)
    info = _sampling(2)
    info.top_ks = torch.tensor([1, 3], dtype=torch.int32)
    info.need_top_k_sampling = True
    predicted = accept.target_tokens(logits, info, LastOfTies(), torch.zeros(1), WIDTH)
    assert predicted.tolist() == [[0] * WIDTH, [2] * WIDTH]


def test_greedy_batch_never_draws() -> None:
    sampler = TorchSampler()
    predicted = accept.target_tokens(
        _logits(2), fakes.greedy_info(2), sampler, torch.zeros(1), WIDTH
    )
    assert predicted.tolist() == [[0, 1, 2, 0, 0, 0]] * 2
    assert sampler.seen == []


def test_every_node_gets_its_requests_parameters() -> None:
    sampler = TorchSampler()
    info = _sampling(2)
    info.temperatures = torch.tensor([[0.5], [2.0]])
    info.top_ps = torch.tensor([0.8, 0.9])
    info.min_ps = torch.tensor([0.0, 0.1])
    info.sampling_seed = torch.tensor([7, 8])
    positions = torch.tensor([5, 6, 6, 7, 7, 7, 9, 10, 10, 11, 11, 11])
    accept.target_tokens(_logits(2), info, sampler, positions, WIDTH)
    seen, at, simple = sampler.seen[0]
    assert seen.temperatures.view(-1).tolist() == [0.5] * WIDTH + [2.0] * WIDTH
    assert seen.top_ps.tolist() == pytest.approx([0.8] * WIDTH + [0.9] * WIDTH)
    assert seen.min_ps.tolist() == pytest.approx([0.0] * WIDTH + [0.1] * WIDTH)
    assert seen.sampling_seed.tolist() == [7] * WIDTH + [8] * WIDTH
    assert at is positions
    assert simple
    # The batch's own parameters stay per request.
    assert info.top_ps.shape == (2,)


def _verify(info: Any, monkeypatch: pytest.MonkeyPatch, world_size: int = 1) -> torch.Tensor:
    group = fakes.Broadcasts(world_size)
    monkeypatch.setattr(info_module, "get_tp_group", lambda: group)
    verify_input = info_module.DDTreeVerifyInput(
        draft_token=None,
        positions=torch.zeros(WIDTH, dtype=torch.int64),
        draft_token_num=WIDTH,
        sampler=TorchSampler(),
    )
    predicted = verify_input._target_tokens(
        SimpleNamespace(sampling_info=info), SimpleNamespace(next_token_logits=_logits(1))
    )
    assert len(group.sent) == (world_size > 1 and not info.is_all_greedy)
    return predicted


def test_bias_penalties_and_processors_reach_every_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = [0, 1, 2, 0, 0, 0]
    info = fakes.greedy_info(1)
    assert _verify(info, monkeypatch)[0].tolist() == plain
    info.logit_bias = torch.tensor([[0.0, 50.0, 0.0]])
    assert _verify(info, monkeypatch)[0].tolist() == [1] * WIDTH
    info.logit_bias = None
    info.penalizer_orchestrator = fakes.Penalties(token=0)
    assert _verify(info, monkeypatch)[0].tolist() == [1, 1, 2, 1, 1, 1]
    assert info.penalizer_orchestrator.repeats == [WIDTH]
    info.penalizer_orchestrator = fakes.Penalties()
    info.has_custom_logit_processor, info.forbidden_token = True, 2
    assert _verify(info, monkeypatch)[0].tolist() == [0, 1, 0, 0, 0, 0]


def test_draws_are_rank_zeros_under_tensor_parallelism(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(1)
    _verify(_sampling(1), monkeypatch, world_size=2)
    _verify(fakes.greedy_info(1), monkeypatch, world_size=2)
