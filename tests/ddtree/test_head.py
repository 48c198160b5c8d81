"""Top-K of the drafter's head: normalisers, shards, added vocabulary, ties."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from . import load

torch = pytest.importorskip("torch", reason="torch is not installed: the head not run")

head = load.module("head")

HIDDEN = 8


def _head(weight: torch.Tensor, **shard: int) -> Any:
    fields = {
        "num_org_elements": weight.shape[0],
        "num_org_elements_padded": weight.shape[0],
        "num_added_elements": 0,
        "org_vocab_start_index": 0,
        "added_vocab_start_index": 0,
    }
    return SimpleNamespace(weight=weight, shard_indices=SimpleNamespace(**{**fields, **shard}))


def _shards(base: torch.Tensor, added: torch.Tensor, ranks: int, padding: int) -> list[Any]:
    """Vocabulary split as SGLang's: per rank its base rows, padding, its added rows, padding."""
    heads = []
    base_each, added_each = -(-len(base) // ranks), -(-len(added) // ranks)
    for rank in range(ranks):
        own = base[rank * base_each : (rank + 1) * base_each]
        extra = added[rank * added_each : (rank + 1) * added_each]
        # Padding rows that would win everywhere if they were looked at.
        filler = torch.full((padding, HIDDEN), 100.0)
        short = torch.full((base_each - len(own) + padding, HIDDEN), 100.0)
        heads.append(
            _head(
                torch.cat([own, short, extra, filler]),
                num_org_elements=len(own),
                num_org_elements_padded=base_each + padding,
                num_added_elements=len(extra),
                org_vocab_start_index=rank * base_each,
                added_vocab_start_index=len(base) + rank * added_each,
            )
        )
    return heads


class Group:
    """One rank's view of an all-gather whose other contributions are known."""

    def __init__(self, world_size: int, gathered: list[torch.Tensor]) -> None:
        self.world_size = world_size
        self._gathered = iter(gathered)

    def all_gather_into_tensor(self, out: torch.Tensor, own: torch.Tensor) -> None:
        everyone = next(self._gathered)
        assert any(torch.equal(own.reshape(-1), part.reshape(-1)) for part in everyone)
        assert out.numel() == everyone.numel()
        out.copy_(everyone.reshape(out.shape))


def _on_all_ranks(
    hidden: torch.Tensor, heads: list[Any], top_k: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    parts = [head.local_top_k(hidden, one, top_k) for one in heads]
    gathered = [torch.stack(column) for column in zip(*parts, strict=True)]
    return [head.draft_top_k(hidden, one, top_k, Group(len(heads), gathered)) for one in heads]


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("top_k", [1, 4, 12])
@pytest.mark.parametrize("num_added", [0, 5])
def test_shards_give_what_one_rank_gives(ranks: int, top_k: int, num_added: int) -> None:
    torch.manual_seed(ranks * 100 + top_k)
    base, added = torch.randn(17, HIDDEN), torch.randn(num_added, HIDDEN)
    hidden = torch.randn(6, HIDDEN)
    whole = torch.log_softmax(hidden @ torch.cat([base, added]).T, dim=-1)
    values, ids = torch.topk(whole, top_k)
    for log_probs, tokens in _on_all_ranks(hidden, _shards(base, added, ranks, 3), top_k):
        assert tokens.tolist() == ids.tolist()
        torch.testing.assert_close(log_probs, values)


def test_one_rank_with_added_vocabulary() -> None:
    torch.manual_seed(0)
    base, added = torch.randn(10, HIDDEN), torch.randn(4, HIDDEN)
    hidden = torch.randn(5, HIDDEN)
    (one,) = _shards(base, added, 1, 2)
    log_probs, tokens = head.draft_top_k(hidden, one, 14, SimpleNamespace(world_size=1))
    whole = torch.log_softmax(hidden @ torch.cat([base, added]).T, dim=-1)
    torch.testing.assert_close(log_probs, torch.sort(whole, descending=True).values)
    assert tokens.sort(dim=1).values.tolist() == [list(range(14))] * 5
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(5))


def test_budget_over_the_vocabulary_is_filled_with_dead_entries() -> None:
    hidden = torch.randn(2, HIDDEN)
    log_probs, tokens = head.draft_top_k(
        hidden, _head(torch.randn(3, HIDDEN)), 8, SimpleNamespace(world_size=1)
    )
    assert log_probs.shape == tokens.shape == (2, 8)
    assert torch.isinf(log_probs[:, 3:]).all()
    assert torch.isfinite(log_probs[:, :3]).all()


def test_shard_without_base_vocabulary() -> None:
    torch.manual_seed(3)
    hidden = torch.randn(4, HIDDEN)
    base = torch.randn(5, HIDDEN)
    heads = [_head(base), _head(torch.full((2, HIDDEN), 50.0), num_org_elements=0)]
    whole = torch.log_softmax(hidden @ base.T, dim=-1)
    for log_probs, tokens in _on_all_ranks(hidden, heads, 4):
        values, ids = torch.topk(whole, 4)
        assert tokens.tolist() == ids.tolist()
        torch.testing.assert_close(log_probs, values)


def test_ties_across_shards_give_every_rank_the_same_tree() -> None:
    row = torch.randn(1, HIDDEN)
    base = row.repeat(12, 1)
    hidden = torch.randn(6, HIDDEN)
    found = _on_all_ranks(hidden, _shards(base, torch.randn(0, HIDDEN), 3, 1), 6)
    for log_probs, tokens in found[1:]:
        assert torch.equal(log_probs, found[0][0])
        assert torch.equal(tokens, found[0][1])
    assert all(len(set(row)) == 6 for row in found[0][1].tolist())


def test_chunks_change_nothing() -> None:
    torch.manual_seed(4)
    one, hidden = _head(torch.randn(30, HIDDEN)), torch.randn(23, HIDDEN)
    group = SimpleNamespace(world_size=1)
    whole = head.draft_top_k(hidden, one, 5, group, chunk_size=256)
    parts = head.draft_top_k(hidden, one, 5, group, chunk_size=7)
    assert torch.equal(whole[1], parts[1])
    torch.testing.assert_close(whole[0], parts[0])


def test_low_precision_weights_are_normalised_in_float32() -> None:
    torch.manual_seed(5)
    weight = torch.randn(64, HIDDEN).bfloat16()
    hidden = torch.randn(9, HIDDEN)
    log_probs, _ = head.draft_top_k(hidden, _head(weight), 64, SimpleNamespace(world_size=1))
    assert log_probs.dtype == torch.float32
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(9), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("columns", [1, 7, 4096, 9001])
def test_normaliser_kernel(dtype: str, columns: int) -> None:
    pytest.importorskip("triton", reason="triton is not installed: kernel not run")
    torch.manual_seed(columns)
    logits = (torch.randn(5, columns) * 20).to(getattr(torch, dtype))
    logits[1] = -torch.inf
    logits[2, columns // 2 :] = -torch.inf
    logits[3, 0] = 300.0
    found = load.module("triton").log_sum_exp(logits)
    torch.testing.assert_close(found, torch.logsumexp(logits.float(), dim=-1))
