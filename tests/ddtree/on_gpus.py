"""Vocabulary-parallel drafting on real ranks: every rank must build the same tree.

Run as ``python -m tests.ddtree.on_gpus RANKS``; prints one JSON document. Needs torch with NCCL.
"""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from . import load

VOCABULARY, HIDDEN, ADDED, PADDING = 151_936, 512, 6, 64
BATCH, DEPTH, BUDGET = 4, 15, 31


class Group:
    """What the workers take from SGLang's ``GroupCoordinator``."""

    def __init__(self) -> None:
        self.world_size = dist.get_world_size()

    def all_gather_into_tensor(self, out: torch.Tensor, own: torch.Tensor) -> None:
        dist.all_gather_into_tensor(out, own)

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        dist.broadcast(tensor, src)


def _shard(weight: torch.Tensor, added: torch.Tensor, rank: int, ranks: int) -> Any:
    base_each, added_each = len(weight) // ranks, len(added) // ranks
    base = weight[rank * base_each : (rank + 1) * base_each]
    extra = added[rank * added_each : (rank + 1) * added_each]
    filler = torch.full((PADDING, HIDDEN), 9.0, dtype=weight.dtype, device=weight.device)
    shard = SimpleNamespace(
        num_org_elements=base_each,
        num_org_elements_padded=base_each + PADDING,
        num_added_elements=added_each,
        org_vocab_start_index=rank * base_each,
        added_vocab_start_index=len(weight) + rank * added_each,
    )
    return SimpleNamespace(weight=torch.cat([base, filler, extra, filler]), shard_indices=shard)


def _run(rank: int, ranks: int, port: int) -> None:
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks
    )
    head, accept = load.module("head"), load.module("accept")
    triton_module = load.module("triton")
    torch.manual_seed(0)
    # Coarse values in bfloat16: ties across the shards, many of them.
    weight = (torch.randn(VOCABULARY, HIDDEN) * 4).round().div(4).bfloat16().cuda()
    added = (torch.randn(ADDED, HIDDEN) * 4).round().div(4).bfloat16().cuda()
    hidden = (torch.randn(BATCH * DEPTH, HIDDEN) * 2).round().div(2).bfloat16().cuda()
    group = Group()
    own = head.draft_top_k(hidden, _shard(weight, added, rank, ranks), BUDGET, group)
    whole = head.draft_top_k(
        hidden, _shard(weight, added, 0, 1), BUDGET, SimpleNamespace(world_size=1)
    )
    torch.testing.assert_close(own[0], whole[0], rtol=1e-4, atol=1e-4)
    shape = (BATCH, DEPTH, BUDGET)
    tree = triton_module.TritonBuilder(BUDGET, DEPTH, BUDGET, "cuda").build(
        torch.arange(BATCH, device="cuda"), own[0].view(shape), own[1].view(shape)
    )
    for tensor in (own[0], own[1], tree.tokens, tree.parents, tree.depths, tree.mask):
        gathered = [torch.empty_like(tensor) for _ in range(ranks)]
        dist.all_gather(gathered, tensor.contiguous())
        assert all(torch.equal(gathered[0], other) for other in gathered)
    drawn = torch.full((BATCH, BUDGET + 1), rank, device="cuda")
    assert int(accept.broadcast_drawn(drawn, group).max()) == 0
    ties = int((own[0][:, 1:] == own[0][:, :-1]).sum())
    if rank == 0:
        print(json.dumps({"ranks": ranks, "tied_neighbours": ties}))
    dist.destroy_process_group()


def main() -> None:
    ranks = int(sys.argv[1])
    mp.spawn(_run, args=(ranks, 29_611), nprocs=ranks)


if __name__ == "__main__":
    main()
