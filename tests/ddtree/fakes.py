"""The few SGLang names that the verify step takes, small enough to see through.

``test_releases`` runs the same step on the real ones; here a KV pool is a dictionary, so that
every slot can be accounted for.
"""

from __future__ import annotations

import enum
import sys
import types
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch


class CaptureHiddenMode(enum.Enum):
    NULL = 0
    LAST = 1
    FULL = 2


@dataclass
class DFlashVerifyInput:
    """Fields and slot allocation of ``sglang.srt.speculative.dflash_info.DFlashVerifyInput``."""

    draft_token: torch.Tensor
    positions: torch.Tensor
    draft_token_num: int
    topk: int = 1
    custom_mask: torch.Tensor | None = None
    capture_hidden_mode: CaptureHiddenMode = CaptureHiddenMode.FULL
    num_tokens_per_batch: int = -1

    def prepare_for_verify(
        self, batch: Any, page_size: int, *, build_custom_mask: bool = True
    ) -> None:
        assert page_size == 1
        assert not build_custom_mask, "the chain mask must not be built for a tree"
        if batch.forward_mode.is_idle():
            return
        batch.input_ids = self.draft_token
        batch.out_cache_loc = batch.token_to_kv_pool_allocator.alloc(len(self.draft_token))
        assign_req_to_token_pool_func(
            batch.req_pool_indices,
            batch.req_to_token_pool.req_to_token,
            batch.seq_lens,
            batch.seq_lens + self.draft_token_num,
            batch.out_cache_loc,
            batch.batch_size(),
        )


def assign_req_to_token_pool_func(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start: torch.Tensor,
    end: torch.Tensor,
    slots: torch.Tensor,
    batch_size: int,
) -> None:
    at = 0
    for row, begin, stop in zip(
        req_pool_indices.tolist(), start.tolist(), end.tolist(), strict=True
    ):
        req_to_token[row, begin:stop] = slots[at : at + stop - begin]
        at += stop - begin
    assert at == len(slots)


class Broadcasts:
    """A process group that records what rank 0 sends."""

    def __init__(self, world_size: int = 1) -> None:
        self.world_size = world_size
        self.sent: list[torch.Tensor] = []

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        assert src == 0
        self.sent.append(tensor)


TP_GROUP = Broadcasts()


def apply_custom_logit_processor(
    logits: torch.Tensor, info: Any, num_tokens_in_batch: int = 1
) -> None:
    assert logits.shape[0] == len(info.temperatures) * num_tokens_in_batch
    logits[:, info.forbidden_token] = -torch.inf


def install() -> None:
    """Make the fakes importable under SGLang's names."""
    names: dict[str, dict[str, Any]] = {
        "sglang.srt.distributed": {"get_tp_group": lambda: TP_GROUP},
        "sglang.srt.layers": {},
        "sglang.srt.layers.sampler": {"apply_custom_logit_processor": apply_custom_logit_processor},
        "sglang.srt.model_executor": {},
        "sglang.srt.model_executor.forward_batch_info": {"CaptureHiddenMode": CaptureHiddenMode},
        "sglang.srt.speculative.dflash_info": {"DFlashVerifyInput": DFlashVerifyInput},
        "sglang.srt.speculative.spec_utils": {
            "assign_req_to_token_pool_func": assign_req_to_token_pool_func
        },
    }
    for name, members in names.items():
        module = types.ModuleType(name)
        module.__dict__.update(members)
        sys.modules.setdefault(name, module)


class Slots:
    """Single-token KV slots, handed out in a shuffled order; a slot is freed at most once."""

    def __init__(self, size: int, seed: int = 0) -> None:
        order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
        self.free_list: list[int] = order.tolist()
        self.size = size

    def alloc(self, count: int) -> torch.Tensor:
        taken, self.free_list = self.free_list[:count], self.free_list[count:]
        assert len(taken) == count, "out of slots"
        return torch.tensor(taken, dtype=torch.int64)

    def free(self, slots: torch.Tensor) -> None:
        for slot in slots.tolist():
            assert slot not in self.free_list, f"slot {slot} freed twice"
            self.free_list.append(slot)

    @property
    def used(self) -> set[int]:
        return set(range(self.size)) - set(self.free_list)


@dataclass
class Req:
    """A request, with SGLang's finish rules for stop tokens and length."""

    prompt: list[int]
    stop: frozenset[int] = frozenset()
    max_new_tokens: int = 1000
    ignore_eos: bool = False
    require_reasoning: bool = False
    output_ids: list[int] = field(default_factory=list)
    finished_reason: str | None = None
    kv_committed_len: int = 0
    kv_allocated_len: int = 0
    spec_verify_ct: int = 0
    spec_accepted_drafts: int = 0
    histogram: list[int] = field(default_factory=list)
    reasoning_tokens: list[int] = field(default_factory=list)

    def check_finished(self) -> None:
        if len(self.output_ids) >= self.max_new_tokens:
            self.finished_reason = "length"
        elif self.output_ids[-1] in self.stop and not self.ignore_eos:
            self.finished_reason = "stop"

    def finished(self) -> bool:
        return self.finished_reason is not None

    def update_spec_acceptance_histogram(self, accepted: int) -> None:
        self.histogram.append(accepted)

    def update_reasoning_tokens(self, token: int, think_end_id: int) -> None:
        self.reasoning_tokens.append(token)


class Penalties:
    """A penalty orchestrator that takes one token away from every request."""

    def __init__(self, token: int | None = None) -> None:
        self.is_required = token is not None
        self.token = token
        self.repeats: list[int] = []

    def apply(self, logits: torch.Tensor, repeat: int) -> None:
        self.repeats.append(repeat)
        logits[:, self.token] -= 1e6


def greedy_info(batch_size: int) -> SimpleNamespace:
    return SimpleNamespace(
        is_all_greedy=True,
        has_custom_logit_processor=False,
        penalizer_orchestrator=Penalties(),
        logit_bias=None,
        temperatures=torch.ones(batch_size, 1),
        top_ps=torch.ones(batch_size),
        top_ks=torch.ones(batch_size, dtype=torch.int32),
        min_ps=torch.zeros(batch_size),
        sampling_seed=None,
        need_top_k_sampling=False,
        need_top_p_sampling=False,
        need_min_p_sampling=False,
    )


class Batch:
    """What the verify step reads and writes of a ``ScheduleBatch``.

    ``kv`` maps a slot to the token whose entry it holds.
    """

    def __init__(self, reqs: list[Req], slots: Slots, room: int = 64) -> None:
        self.reqs = reqs
        self.token_to_kv_pool_allocator = slots
        self.kv: dict[int, int] = {}
        self.device = "cpu"
        self.forward_mode = SimpleNamespace(is_idle=lambda: False)
        self.model_config = SimpleNamespace(think_end_id=None)
        self.sampling_info = greedy_info(len(reqs))
        lens = [len(r.prompt) for r in reqs]
        self.seq_lens = torch.tensor(lens, dtype=torch.int64)
        self.seq_lens_cpu = self.seq_lens.clone()
        self.seq_lens_sum = sum(lens)
        # Rows in another order than the batch.
        self.req_pool_indices = torch.arange(len(reqs) - 1, -1, -1)
        table = torch.full((len(reqs), max(lens) + room), -1, dtype=torch.int64)
        self.req_to_token_pool = SimpleNamespace(req_to_token=table)
        self.out_cache_loc = slots.alloc(0)
        for row, req in zip(self.req_pool_indices.tolist(), reqs, strict=True):
            own = slots.alloc(len(req.prompt))
            table[row, : len(req.prompt)] = own
            self.kv.update(zip(own.tolist(), req.prompt, strict=True))
            req.kv_committed_len = req.kv_allocated_len = len(req.prompt)

    def batch_size(self) -> int:
        return len(self.reqs)

    def write_kv(self) -> None:
        """What the target forward does: every verified node's entry goes to its slot."""
        self.kv.update(zip(self.out_cache_loc.tolist(), self.input_ids.tolist(), strict=True))

    def cached_tokens(self, request: int) -> list[int]:
        """The tokens whose entries attention will read for a request, in order."""
        row = int(self.req_pool_indices[request])
        count = int(self.seq_lens[request])
        table = self.req_to_token_pool.req_to_token
        return [self.kv[slot] for slot in table[row, :count].tolist()]

    def mapped_slots(self) -> list[int]:
        table = self.req_to_token_pool.req_to_token
        return [
            slot
            for row, count in zip(
                self.req_pool_indices.tolist(), self.seq_lens.tolist(), strict=True
            )
            for slot in table[row, :count].tolist()
        ]
