"""Decode with DDTREE through one release's own scheduler types, on a CPU.

Run as ``python -m tests.ddtree.release_step PARENT SCENARIO`` where PARENT holds a patched
``sglang`` package. Prints one JSON document. The release's own are: the patched modules, requests,
batches, KV pools, allocator, radix cache, sampler, argument classes, and ``DFlashWorker``
including its constructor. Ours are: a two-layer target and a drafter (``PATCHED`` below), and
attention computed in plain torch from what the release's verify input hands to a backend.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import os
import sys
import warnings
from array import array
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

os.environ["TRITON_INTERPRET"] = "1"
# The sampler's hash is compiled otherwise, through the interpreter.
os.environ["TORCHDYNAMO_DISABLE"] = "1"

import torch

from . import standins

VOCABULARY, HIDDEN, LAYERS = 24, 32, 2
SLOTS, ROWS, CONTEXT = 600, 8, 160
BUDGET, BLOCK = 9, 5
DEPTH = BLOCK - 1

#: Functions and classes of SGLang that are replaced, each with the reason.
PATCHED = {
    "sglang.srt.speculative.dflash_worker.TpModelWorker": "loads a model onto a GPU",
    "sglang.srt.speculative.dflash_worker.get_tp_group": "needs a process group",
    "sglang.srt.speculative.ddtree_worker.get_tp_group": "needs a process group",
    "sglang.srt.speculative.ddtree_info.get_tp_group": "needs a process group",
    "sglang.srt.layers.sampler.get_tp_group": "needs a process group",
    "sglang.srt.layers.sampler.is_dp_attention_enabled": "needs a process group",
}


def _positional(positions: torch.Tensor) -> torch.Tensor:
    """Features of an absolute position, so that a wrong position shows."""
    rates = torch.arange(1, HIDDEN + 1, dtype=torch.float64) / 7.0
    return torch.sin(positions.to(torch.float64).unsqueeze(-1) * rates)


class TinyModel:
    """A two-layer attention model in float64; also what plain decoding is computed with."""

    def __init__(self) -> None:
        random = torch.Generator().manual_seed(3)

        def weights(*shape: int) -> torch.Tensor:
            drawn = torch.randn(*shape, generator=random, dtype=torch.float64)
            return drawn / shape[0] ** 0.5

        self.embedding = weights(VOCABULARY, HIDDEN) * 5
        self.layers = [[weights(HIDDEN, HIDDEN) for _ in range(4)] for _ in range(LAYERS)]
        self.lm_head = SimpleNamespace(
            weight=weights(VOCABULARY, HIDDEN) * 8,
            shard_indices=SimpleNamespace(
                num_org_elements=VOCABULARY,
                num_org_elements_padded=VOCABULARY,
                num_added_elements=0,
                org_vocab_start_index=0,
                added_vocab_start_index=VOCABULARY,
            ),
        )

    def get_input_embeddings(self) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda ids: self.embedding[ids]

    def forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        attend: Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [n, vocabulary] and the features for the drafter [n, layers * hidden]."""
        x = self.embedding[ids] + _positional(positions)
        features = []
        for index, (wq, wk, wv, wo) in enumerate(self.layers):
            x = torch.tanh(x + attend(index, x @ wq, x @ wk, x @ wv) @ wo)
            features.append(x)
        return x @ self.lm_head.weight.T, torch.cat(features, dim=-1)

    def plain(self, tokens: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """A sequence from scratch under a causal mask."""
        count = len(tokens)
        causal = torch.ones(count, count, dtype=torch.bool).tril()
        return self.forward(
            torch.tensor(tokens),
            torch.arange(count),
            lambda _, q, k, v: _attention(q, k, v, causal),
        )


def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    scores = (q @ k.T / HIDDEN**0.5).masked_fill(~mask, -torch.inf)
    return torch.softmax(scores, dim=-1) @ v


class Release:
    """The release's names that the scenarios use."""

    def __init__(self) -> None:
        load = importlib.import_module
        self.schedule_batch = load("sglang.srt.managers.schedule_batch")
        self.memory_pool = load("sglang.srt.mem_cache.memory_pool")
        self.allocator = load("sglang.srt.mem_cache.allocator")
        self.radix = load("sglang.srt.mem_cache.radix_cache")
        self.cache_params = load("sglang.srt.mem_cache.cache_init_params")
        self.common = load("sglang.srt.mem_cache.common")
        self.server_args = load("sglang.srt.server_args")
        self.spec_info = load("sglang.srt.speculative.spec_info")
        self.sampler = load("sglang.srt.layers.sampler")
        self.sampling_params = load("sglang.srt.sampling.sampling_params")
        self.logits = load("sglang.srt.layers.logits_processor")
        self.dflash_worker = load("sglang.srt.speculative.dflash_worker")
        self.ddtree_worker = load("sglang.srt.speculative.ddtree_worker")
        self.reference = load("sglang.srt.speculative.ddtree_reference")
        self.algorithm = self.spec_info.SpeculativeAlgorithm.from_string("ddtree")
        group = SimpleNamespace(world_size=1, device_group=None, rank_in_group=0)
        for name in PATCHED:
            module, _, attribute = name.rpartition(".")
            value: Any = lambda: group  # noqa: E731
            if attribute == "is_dp_attention_enabled":
                value = lambda: False  # noqa: E731
            if attribute == "TpModelWorker":
                value = TinyDrafter
            assert hasattr(load(module), attribute), name
            setattr(load(module), attribute, value)

    def make_server_args(self, **changes: Any) -> Any:
        """Arguments of a DDTREE server, derived by the release's own handler."""
        args = self.server_args.ServerArgs(
            model_path="dummy",
            speculative_algorithm="DDTREE",
            speculative_draft_model_path="drafter",
            speculative_dflash_block_size=BLOCK,
            attention_backend="triton",
            page_size=1,
            device="cuda",
            sampling_backend="pytorch",
            moe_runner_backend="auto",
        )
        for field, value in {"speculative_ddtree_budget": BUDGET, **changes}.items():
            assert hasattr(args, field), field
            setattr(args, field, value)
        args.use_mla_backend = lambda: False
        return args

    def derive(self, args: Any) -> None:
        """Run the release's handler, with the drafter's configuration out of the way."""
        method = getattr(args, "_handle_speculative_decoding", None)
        names = ("sglang.srt.server_args", "sglang.srt.arg_groups.speculative_hook")
        for name in names:
            try:
                module = importlib.import_module(name)
            except ModuleNotFoundError:
                continue
            if hasattr(module, "_resolve_speculative_algorithm_alias"):
                module._resolve_speculative_algorithm_alias = lambda name, *_, **__: name
            if method is None and hasattr(module, "handle_speculative_decoding"):
                module.handle_speculative_decoding(args)
                return
        assert method is not None
        method()


class TinyTarget:
    """Stands where the target's ``TpModelWorker`` stands."""

    def __init__(self, release: Release, model: TinyModel) -> None:
        self.release, self.model, self.device = release, model, "cpu"
        self.pool = release.memory_pool.ReqToTokenPool(ROWS, CONTEXT, "cpu", False)
        self.kv = _kv_pool(release, LAYERS)
        self.allocator = release.allocator.TokenToKVPoolAllocator(
            SLOTS, torch.float64, "cpu", self.kv, False
        )
        # Slots in no order: what must not matter, must not matter.
        order = torch.randperm(SLOTS, generator=torch.Generator().manual_seed(1))
        self.allocator.free_pages = self.allocator.free_pages[order]
        self.model_runner = SimpleNamespace(
            model=model,
            device="cpu",
            attn_backend=SimpleNamespace(),
            sampler=release.sampler.Sampler(),
            mambaish_config=None,
            sliding_window_size=None,
            memory_pool_config=None,
            model_config=SimpleNamespace(context_len=CONTEXT, vocab_size=VOCABULARY),
        )
        self.tokenizer = None
        self.check_nodes = False

    def get_memory_pool(self) -> tuple[Any, Any]:
        return self.pool, self.allocator

    def forward_batch_generation(self, batch: Any, is_verify: bool = False, **_: Any) -> Any:
        if batch.seq_lens_sum is None:
            # As ForwardBatch.init_new does.
            batch.seq_lens_sum = int(batch.seq_lens_cpu.sum())
        logits, features = self._verify(batch) if is_verify else self._extend(batch)
        output = self.release.logits.LogitsProcessorOutput(
            next_token_logits=logits.float(), hidden_states=features
        )
        return SimpleNamespace(
            logits_output=output,
            next_token_ids=None if is_verify else self._first_tokens(batch, logits),
            can_run_cuda_graph=False,
        )

    def _first_tokens(self, batch: Any, logits: torch.Tensor) -> torch.Tensor:
        info = batch.sampling_info
        if info.is_all_greedy:
            return logits.argmax(-1)
        positions = batch.seq_lens - 1
        return _draw(self.model_runner.sampler, logits.float(), info, positions)

    def _store(self, layer: int, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        self.kv.k_buffer[layer][slots] = k.view(-1, 1, HIDDEN)
        self.kv.v_buffer[layer][slots] = v.view(-1, 1, HIDDEN)

    def _read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (
            self.kv.k_buffer[layer][slots].view(-1, HIDDEN),
            self.kv.v_buffer[layer][slots].view(-1, HIDDEN),
        )

    def _extend(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        ids = batch.input_ids
        extend = getattr(batch, "extend_seq_lens", None) or batch.extend_lens
        prefix = getattr(batch, "extend_prefix_lens", None) or batch.prefix_lens
        starts = [sum(extend[:i]) for i in range(len(extend))]
        positions = torch.cat([torch.arange(p, p + n) for p, n in zip(prefix, extend, strict=True)])

        def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            self._store(layer, batch.out_cache_loc, k, v)
            rows = []
            for i, (begin, count) in enumerate(zip(starts, extend, strict=True)):
                whole = prefix[i] + count
                slots = self.pool.req_to_token[batch.req_pool_indices[i], :whole].long()
                mask = torch.ones(count, whole, dtype=torch.bool).tril(prefix[i])
                rows.append(_attention(q[begin : begin + count], *self._read(layer, slots), mask))
            return torch.cat(rows)

        logits, features = self.model.forward(ids, positions, attend)
        last = torch.tensor([s + n - 1 for s, n in zip(starts, extend, strict=True)])
        return logits[last], features

    def _check_trees(self, info: Any, input_ids: torch.Tensor) -> None:
        """The trees are the reference's over the drafter's marginals, masked position first."""
        width = info.draft_token_num
        for i, marginals in enumerate(TinyDrafter.latest.marginals):
            values, ids = torch.log_softmax(marginals[1:], dim=-1).topk(width - 1, dim=-1)
            own = input_ids.view(-1, width)[i].tolist()
            wanted = self.release.reference.build_reference_tree(
                values.float().numpy(), ids.numpy(), own[0], width - 1
            )
            assert own == info.tree.tokens[i].tolist() == wanted.tokens
            assert info.tree.parents[i].tolist() == wanted.parents

    def _check_nodes(self, batch: Any, logits: torch.Tensor) -> None:
        """Every node's logits are those of its own path run as a plain chain."""
        tree = batch.spec_info.tree
        rows = logits.view(*tree.tokens.shape, -1)
        for i, row in enumerate(batch.req_pool_indices.tolist()):
            req = TinyDrafter.reqs[row]
            committed = [*req.origin_input_ids, *req.output_ids][:-1]
            for node, parent in enumerate(tree.parents[i].tolist()):
                if node and parent < 0:
                    continue
                path = tree.mask[i, node].nonzero().view(-1)
                chain = committed + tree.tokens[i, path].tolist()
                torch.testing.assert_close(rows[i, node], self.model.plain(chain)[0][-1])

    def _verify(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention as flashinfer reads it: indices, offsets and a flat mask."""
        info = batch.spec_info
        is_tree = hasattr(info, "tree")
        if is_tree:
            self._check_trees(info, batch.input_ids)
        indices, kv_at, q_at, mask = info.generate_attn_arg_prefill(
            batch.req_pool_indices,
            batch.seq_lens,
            int(batch.seq_lens.sum()),
            self.pool.req_to_token,
        )
        assert mask.dtype == torch.bool
        kv_at, q_at = kv_at.tolist(), q_at.tolist()

        def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            self._store(layer, batch.out_cache_loc, k, v)
            rows, mask_at = [], 0
            for i in range(len(kv_at) - 1):
                slots = indices[kv_at[i] : kv_at[i + 1]].long()
                own = q[q_at[i] : q_at[i + 1]]
                size = len(own) * len(slots)
                block = mask[mask_at : mask_at + size].view(len(own), len(slots))
                mask_at += size
                rows.append(_attention(own, *self._read(layer, slots), block))
            assert mask_at == mask.numel()
            return torch.cat(rows)

        logits, features = self.model.forward(batch.input_ids, info.positions, attend)
        if is_tree and self.check_nodes:
            self._check_nodes(batch, logits)
        return logits, features


def _kv_pool(release: Release, layers: int) -> Any:
    return release.memory_pool.MHATokenToKVPool(
        SLOTS, 1, torch.float64, 1, HIDDEN, layers, "cpu", False
    )


def _draw(sampler: Any, logits: torch.Tensor, info: Any, positions: torch.Tensor) -> torch.Tensor:
    """A draw of the release's own sampler, as plain decoding makes it."""
    probs = torch.softmax(logits / info.temperatures, dim=-1)
    simple = not (info.need_top_k_sampling or info.need_top_p_sampling or info.need_min_p_sampling)
    drawn = sampler._sample_from_probs(probs, info, positions, simple).long()
    return torch.where(info.top_ks == 1, logits.argmax(-1), drawn)


class TinyDrafter:
    """Stands where the draft ``TpModelWorker`` stands: an oracle with noise.

    Its "network" continues the true sequence with the target itself and blurs the result, so
    that trees are accepted to any depth, through siblings too. Its KV cache is real: what the
    worker wrote for the committed tokens is compared with the target's own features.
    """

    latest: ClassVar[TinyDrafter]
    target: ClassVar[TinyTarget]
    reqs: ClassVar[dict[int, Any]]

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords
        TinyDrafter.latest = self
        release, target = self.target.release, self.target
        random = torch.Generator().manual_seed(9)
        self.project = torch.randn(LAYERS * HIDDEN, HIDDEN, generator=random, dtype=torch.float64)
        attention = SimpleNamespace(
            kv_proj_only=lambda context: (context.clone(), context * 2),
            apply_k_norm=lambda k: k,
            apply_k_rope=lambda positions, k: k + _positional(positions),
            num_kv_heads=1,
            head_dim=HIDDEN,
            attn=SimpleNamespace(k_scale=None, v_scale=None, layer_id=0),
        )
        own_table = keywords["req_to_token_pool"]
        if own_table is None:
            own_table = release.memory_pool.ReqToTokenPool(ROWS, CONTEXT, "cpu", False)
        kv = _kv_pool(release, 1)
        # The fused store of the release is a GPU kernel; the buffers are its own.
        kv.set_kv_buffer = self._set_kv_buffer
        self.kv = kv
        self.model_runner = SimpleNamespace(
            model=SimpleNamespace(
                layers=[SimpleNamespace(self_attn=attention)],
                project_target_hidden=lambda features: features @ self.project,
                block_size=BLOCK,
            ),
            model_config=SimpleNamespace(
                hf_config={"block_size": BLOCK, "dflash_config": {"mask_token_id": 1}}
            ),
            req_to_token_pool=own_table,
            token_to_kv_pool=kv,
            token_to_kv_pool_allocator=target.allocator,
            attn_backend=None,
            forward=self.forward,
        )
        self.window: int | None = None
        self.marginals: list[torch.Tensor] = []
        self.sharp = False

    def _set_kv_buffer(
        self, layer: Any, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any
    ) -> None:
        self.kv.k_buffer[0][slots] = k
        self.kv.v_buffer[0][slots] = v

    def forward(self, forward_batch: Any) -> Any:
        assert forward_batch.forward_mode.is_target_verify()
        assert forward_batch.spec_info.draft_token_num == BLOCK
        assert forward_batch.spec_info.custom_mask is None
        assert forward_batch.seq_lens_cpu.tolist() == forward_batch.seq_lens.tolist()
        assert forward_batch.seq_lens_sum == int(forward_batch.seq_lens.sum())
        ids = forward_batch.input_ids.view(-1, BLOCK)
        embeds = self.target.model.embedding[ids].view(-1, HIDDEN)
        assert torch.equal(forward_batch.input_embeds, embeds)
        wanted = []
        for i, row in enumerate(forward_batch.req_pool_indices.tolist()):
            req = self.reqs[row]
            tokens = [*req.origin_input_ids, *req.output_ids]
            start = len(tokens) - 1
            assert ids[i].tolist() == [tokens[-1]] + [1] * DEPTH
            positions = forward_batch.positions.view(-1, BLOCK)[i].tolist()
            assert positions == list(range(start, start + BLOCK))
            self._check_cache(row, tokens[:-1], int(forward_batch.seq_lens[i]), i, forward_batch)
            wanted.append(self._marginals(tokens))
        self.marginals = wanted
        logits = torch.cat(wanted)
        hidden = logits @ torch.linalg.pinv(self.target.model.lm_head.weight).T
        return SimpleNamespace(logits_output=SimpleNamespace(hidden_states=hidden))

    def _check_cache(
        self, row: int, committed: list[int], length: int, i: int, forward_batch: Any
    ) -> None:
        """The draft cache holds the target's features of the committed tokens, in order."""
        visible = len(committed) if self.window is None else min(len(committed), self.window)
        assert length == visible
        table = self.model_runner.req_to_token_pool.req_to_token
        slots = table[row, :length].long()
        block = forward_batch.out_cache_loc.view(-1, BLOCK)[i]
        assert table[row, length : length + BLOCK].tolist() == block.tolist()
        _, features = self.target.model.plain(committed)
        context = (features @ self.project)[-length:]
        positions = torch.arange(len(committed))[-length:]
        k = self.kv.k_buffer[0][slots].view(-1, HIDDEN)
        v = self.kv.v_buffer[0][slots].view(-1, HIDDEN)
        torch.testing.assert_close(k, context + _positional(positions))
        torch.testing.assert_close(v, context * 2)

    def _marginals(self, tokens: list[int]) -> torch.Tensor:
        """Logits [block, vocabulary]: the true continuation first, second or third."""
        rows = [torch.zeros(VOCABULARY, dtype=torch.float64)]
        sequence = list(tokens)
        random = torch.Generator().manual_seed(len(tokens) * 31 + tokens[-1])
        for _ in range(DEPTH):
            true = int(self.target.model.plain(sequence)[0][-1].argmax())
            row = 2 * torch.randn(VOCABULARY, generator=random, dtype=torch.float64)
            row[true] = row.max() + float(torch.rand(1, generator=random) * 4 - 1)
            rows.append(row * 40 if self.sharp else row)
            sequence.append(true)
        return torch.stack(rows)


class Scheduler:
    """The few things that SGLang's scheduler does around a worker."""

    def __init__(self, release: Release, **arguments: Any) -> None:
        self.release = release
        self.args = release.make_server_args(**arguments)
        release.derive(self.args)
        release.server_args.set_global_server_args_for_scheduler(self.args)
        self.model = TinyModel()
        self.target = TinyTarget(release, self.model)
        TinyDrafter.target, TinyDrafter.reqs = self.target, {}
        self.algorithm = release.spec_info.SpeculativeAlgorithm.from_string(
            self.args.speculative_algorithm
        )
        worker_class = self.algorithm.create_worker(self.args)
        wanted = {
            "DDTREE": release.ddtree_worker.DDTreeWorker,
            "DFLASH": release.dflash_worker.DFlashWorker,
        }
        assert worker_class is wanted[self.args.speculative_algorithm]
        self.worker = worker_class(
            server_args=self.args,
            gpu_id=0,
            tp_rank=0,
            dp_rank=None,
            moe_ep_rank=0,
            attn_cp_rank=0,
            moe_dp_rank=0,
            nccl_port=0,
            target_worker=self.target,
        )
        self.drafter = TinyDrafter.latest
        self.drafter.window = self.worker.draft_window_size
        self.cache = release.radix.RadixCache(
            release.cache_params.CacheInitParams(
                disable=False,
                req_to_token_pool=self.target.pool,
                token_to_kv_pool_allocator=self.target.allocator,
                page_size=1,
            )
        )
        self.config = SimpleNamespace(
            vocab_size=VOCABULARY,
            is_encoder_decoder=False,
            is_matryoshka=False,
            think_end_id=None,
            hidden_size=HIDDEN,
            is_multimodal=False,
        )
        self.emitted_per_step: list[int] = []

    def request(self, name: str, prompt: list[int], **sampling: Any) -> Any:
        params = self.release.sampling_params.SamplingParams(**{"temperature": 0.0, **sampling})
        params.normalize(None)
        req = self.release.schedule_batch.Req(
            name, "", array("q", prompt), params, vocab_size=VOCABULARY, eos_token_ids=set()
        )
        if isinstance(req.output_ids, list):
            req.origin_input_ids = req.origin_input_ids_unpadded = prompt
        req.tokenizer = None
        return req

    def prefill(self, reqs: list[Any]) -> Any:
        batch = self.release.schedule_batch.ScheduleBatch.init_new(
            reqs,
            self.target.pool,
            self.target.allocator,
            self.cache,
            self.config,
            False,
            self.algorithm,
        )
        for req in reqs:
            req.init_next_round_input(self.cache)
            self.cache.inc_lock_ref(req.last_node)
            if hasattr(req, "fill_len"):
                # The prefill policy's part in the releases that keep the length apart.
                req.fill_len = len(req.full_untruncated_fill_ids)
                req.set_extend_input_len(req.fill_len - len(req.prefix_indices))
        batch.prepare_for_extend()
        if batch.input_ids is None:
            batch.input_ids = batch.prefill_input_ids_cpu
        for req in reqs:
            self.drafter.reqs[int(req.req_pool_idx)] = req
        result = self.worker.forward_batch_generation(batch)
        for req, token in zip(reqs, result.next_token_ids.tolist(), strict=True):
            req.output_ids.append(token)
            _check_finished(req)
            if req.finished():
                self.release.common.release_kv_cache(req, self.cache)
            else:
                self.cache.cache_unfinished_req(req)
        batch.filter_batch()
        return batch

    def decode(self, batch: Any) -> None:
        """One step, then what ``process_batch_result_decode`` does for spec v1."""
        batch.prepare_for_decode()
        before = [len(req.output_ids) for req in batch.reqs]
        free_before = self.target.allocator.available_size()
        result = self.worker.forward_batch_generation(batch)
        emitted = [len(r.output_ids) - n for r, n in zip(batch.reqs, before, strict=True)]
        self.emitted_per_step += emitted
        assert free_before - self.target.allocator.available_size() == sum(emitted)
        counts = getattr(result, "num_correct_drafts_per_req_cpu", None)
        if counts is None:
            counts = result.num_accepted_drafts_per_req_cpu
        assert counts == [n - 1 for n in emitted]
        lens = [len(r.origin_input_ids) + len(r.output_ids) - 1 for r in batch.reqs]
        assert batch.seq_lens.tolist() == batch.seq_lens_cpu.tolist() == lens
        assert batch.seq_lens_sum in (None, sum(lens))
        assert batch.forward_mode.is_decode()
        for req, count in zip(batch.reqs, lens, strict=True):
            assert req.kv_committed_len == req.kv_allocated_len == count
            if req.finished():
                self.release.common.release_kv_cache(req, self.cache)
        batch.filter_batch()

    def run(self, batch: Any, steps: int = 200) -> None:
        for _ in range(steps):
            if batch.is_empty():
                return
            self.decode(batch)
        assert batch.is_empty(), "requests did not finish"

    def assert_nothing_leaked(self) -> None:
        allocator = self.target.allocator
        assert allocator.available_size() + self.cache.evictable_size() == SLOTS
        assert self.cache.protected_size() == 0
        free = torch.cat([allocator.free_pages, allocator.release_pages]).tolist()
        assert len(set(free)) == len(free), "a slot was freed twice"

    def plain_decode(self, req: Any, draw: Any = None) -> list[int]:
        """What plain decoding gives for a request."""
        tokens, out = list(req.origin_input_ids), []
        params = req.sampling_params
        while True:
            logits = self.model.plain(tokens)[0][-1:]
            token = int(logits.argmax()) if draw is None else draw(logits, len(tokens) - 1)
            tokens.append(token)
            out.append(token)
            stops = params.stop_token_ids or set()
            if len(out) >= params.max_new_tokens or (token in stops and not params.ignore_eos):
                return out


def _check_finished(req: Any) -> None:
    (req.update_finish_state if hasattr(req, "update_finish_state") else req.check_finished)()


PROMPTS = [[5, 3, 8], [2, 2, 9, 11, 4, 7], [17], [6, 1, 0, 13, 20], [5, 3, 8, 10, 12]]


def greedy(release: Release) -> dict[str, Any]:
    """Requests of different lengths and ends, one batch joined by another, prefix reuse."""
    scheduler = Scheduler(release)
    scheduler.target.check_nodes = True
    plain = scheduler.request("probe", PROMPTS[1], max_new_tokens=14)
    middle = scheduler.plain_decode(plain)[7]
    reqs = [
        scheduler.request("a", PROMPTS[0], max_new_tokens=21),
        scheduler.request("b", PROMPTS[1], max_new_tokens=30, stop_token_ids=[middle]),
        scheduler.request("c", PROMPTS[2], max_new_tokens=2),
        scheduler.request("d", PROMPTS[3], max_new_tokens=17, stop_token_ids=[0, 3]),
    ]
    batch = scheduler.prefill(reqs)
    scheduler.decode(batch)
    scheduler.decode(batch)
    late = [
        scheduler.request(
            "e", [*PROMPTS[0], *scheduler.plain_decode(reqs[0])[:4]], max_new_tokens=12
        ),
        scheduler.request(
            "f", PROMPTS[4], max_new_tokens=9, ignore_eos=True, stop_token_ids=[middle]
        ),
    ]
    other = scheduler.prefill(late)
    batch.merge_batch(other)
    scheduler.run(batch)
    again = scheduler.request("g", [*PROMPTS[0], *list(reqs[0].output_ids)[:11]], max_new_tokens=8)
    scheduler.run(scheduler.prefill([again]))
    assert len(again.prefix_indices) > len(PROMPTS[0]) + 5, "the radix cache was not reused"
    scheduler.assert_nothing_leaked()
    found = {}
    for req in [*reqs, *late, again]:
        assert list(req.output_ids) == scheduler.plain_decode(req), req.rid
        found[req.rid] = [list(req.output_ids), type(req.finished_reason).__name__]
    return {
        "outputs": found,
        "emitted_per_step": scheduler.emitted_per_step,
        "draft_block": int(scheduler.drafter.keywords["server_args"].speculative_num_draft_tokens),
        "verify_width": int(scheduler.args.speculative_num_draft_tokens),
        "counters": [r.spec_verify_ct for r in reqs],
    }


def singles(release: Release) -> dict[str, Any]:
    """The same requests one at a time and together: outputs, steps and tokens must agree."""

    def steps(prompts: list[list[int]]) -> list[Any]:
        scheduler = Scheduler(release)
        reqs = [
            scheduler.request(str(i), prompt, max_new_tokens=15) for i, prompt in enumerate(prompts)
        ]
        scheduler.run(scheduler.prefill(reqs))
        scheduler.assert_nothing_leaked()
        return [(list(r.output_ids), r.spec_verify_ct) for r in reqs]

    prompts = PROMPTS[:4]
    together = steps(prompts)
    alone = [steps([prompt])[0] for prompt in prompts]
    assert together == alone
    return {"steps": [count for _, count in together]}


def chain(release: Release) -> dict[str, Any]:
    """With B = S - 1 and confident marginals the tree is DFLASH's chain: equal step for step."""
    found = []
    for changes in (
        {"speculative_algorithm": "DFLASH", "speculative_ddtree_budget": None},
        {"speculative_algorithm": "DDTREE", "speculative_ddtree_budget": BLOCK - 1},
    ):
        scheduler = Scheduler(release, **changes)
        assert scheduler.args.speculative_num_draft_tokens == BLOCK
        scheduler.drafter.sharp = True
        reqs = [
            scheduler.request(str(i), prompt, max_new_tokens=18)
            for i, prompt in enumerate(PROMPTS[:4])
        ]
        scheduler.run(scheduler.prefill(reqs))
        scheduler.assert_nothing_leaked()
        assert all(list(r.output_ids) == scheduler.plain_decode(r) for r in reqs)
        found.append(scheduler.emitted_per_step)
    assert found[0] == found[1]
    return {"emitted_per_step": found[0]}


def window(release: Release) -> dict[str, Any]:
    """The compact draft cache: a window that holds a block but not the sequence."""
    fields = [
        f
        for f in ("speculative_draft_window_size", "speculative_dflash_draft_window_size")
        if hasattr(release.server_args.ServerArgs, f)
    ]
    scheduler = Scheduler(release, **{fields[0]: 7})
    assert scheduler.worker.use_compact_draft_cache
    reqs = [scheduler.request(str(i), p, max_new_tokens=13) for i, p in enumerate(PROMPTS[:3])]
    scheduler.run(scheduler.prefill(reqs))
    scheduler.assert_nothing_leaked()
    for req in reqs:
        assert list(req.output_ids) == scheduler.plain_decode(req)
    return {"window": scheduler.worker.draft_window_size}


def seeded(release: Release) -> dict[str, Any]:
    """Seeded sampling: token for token what plain decoding draws with the same seeds."""
    scheduler = Scheduler(release, enable_deterministic_inference=True)
    settings = [
        {"temperature": 0.7, "sampling_seed": 5},
        {"temperature": 1.3, "sampling_seed": 6, "top_p": 0.8},
        {"temperature": 0.0},
        {"temperature": 1.0, "sampling_seed": 8, "top_k": 5},
    ]
    reqs = [
        scheduler.request(str(i), prompt, max_new_tokens=14, **setting)
        for i, (prompt, setting) in enumerate(zip(PROMPTS[:4], settings, strict=True))
    ]
    batch = scheduler.prefill(reqs)
    info = copy.copy(batch.sampling_info)
    scheduler.run(batch)
    scheduler.assert_nothing_leaked()
    for row, req in enumerate(reqs):
        own = copy.copy(info)
        for name in ("temperatures", "top_ps", "top_ks", "min_ps", "sampling_seed"):
            setattr(own, name, getattr(info, name)[row : row + 1].clone())

        def draw(logits: torch.Tensor, position: int, own: Any = own) -> int:
            at = torch.tensor([position])
            return int(_draw(scheduler.target.model_runner.sampler, logits.float(), own, at))

        assert list(req.output_ids) == scheduler.plain_decode(req, draw), req.rid
    return {"emitted_per_step": scheduler.emitted_per_step}


def processed(release: Release) -> dict[str, Any]:
    """Logit bias is exact; a penalty is one per request, of the tokens that began a step."""
    scheduler = Scheduler(release)
    banned = scheduler.plain_decode(scheduler.request("probe", PROMPTS[0], max_new_tokens=6))[3]
    biased = scheduler.request(
        "biased", PROMPTS[0], max_new_tokens=16, logit_bias={str(banned): -100.0}
    )
    plain = scheduler.request("plain", PROMPTS[1], max_new_tokens=16)
    fresh = scheduler.request("fresh", PROMPTS[3], max_new_tokens=12, presence_penalty=1e4)
    batch = scheduler.prefill([biased, plain, fresh])
    began = [fresh.output_ids[-1]]
    while not batch.is_empty():
        before = len(fresh.output_ids)
        scheduler.decode(batch)
        emitted = list(fresh.output_ids)[before:]
        assert not set(began) & set(emitted)
        began += emitted[-1:]
    scheduler.assert_nothing_leaked()

    def draw(logits: torch.Tensor, _: int) -> int:
        logits[:, banned] -= 100.0
        return int(logits.argmax())

    assert list(biased.output_ids) == scheduler.plain_decode(biased, draw)
    assert banned not in biased.output_ids
    assert list(plain.output_ids) == scheduler.plain_decode(plain)
    return {"began": began}


def arguments(release: Release) -> dict[str, Any]:
    """Flags as a command line gives them, and the algorithm's predicates."""
    parser = argparse.ArgumentParser()
    release.server_args.ServerArgs.add_cli_args(parser)
    parsed = parser.parse_args(
        [
            *("--model-path", "dummy", "--speculative-algorithm", "DDTREE"),
            *("--speculative-ddtree-budget", "7"),
        ]
    )
    args = release.make_server_args(speculative_ddtree_budget=parsed.speculative_ddtree_budget)
    release.derive(args)
    refused = {}
    for field, value in {
        "attention_backend": "fa3",
        "page_size": 16,
        "speculative_accept_threshold_acc": 0.9,
        "pp_size": 2,
        "enable_dp_attention": True,
        "speculative_ddtree_budget": 0,
        "disaggregation_mode": "decode",
    }.items():
        bad = release.make_server_args(**{field: value})
        try:
            release.derive(bad)
        except ValueError as error:
            refused[field] = str(error)
    algorithm = release.algorithm
    return {
        "algorithm": parsed.speculative_algorithm,
        "budget": args.speculative_ddtree_budget,
        "verify_width": args.speculative_num_draft_tokens,
        "block": args.speculative_dflash_block_size,
        "overlap_off": args.disable_overlap_schedule,
        "refused": refused,
        "predicates": [
            algorithm.name,
            algorithm.is_dflash(),
            algorithm.is_ddtree(),
            algorithm.is_eagle(),
            release.spec_info.SpeculativeAlgorithm.DFLASH.is_ddtree(),
        ],
    }


def capture(release: Release) -> dict[str, Any]:
    """What a graph runner captures with: a mask for the target, none for the draft."""
    runner_module = importlib.import_module("sglang.srt.model_executor.cuda_graph_runner")
    found = {}
    for draft in (False, True):
        runner = SimpleNamespace(
            model_runner=SimpleNamespace(
                spec_algorithm=release.algorithm,
                is_draft_worker=draft,
                attn_backend=SimpleNamespace(),
                server_args=SimpleNamespace(speculative_num_draft_tokens=BLOCK if draft else 10),
            ),
            buffers=SimpleNamespace(custom_mask=torch.ones(4, dtype=torch.bool)),
        )
        made = runner_module.CudaGraphRunner.get_spec_info(runner, 10)
        found["draft" if draft else "target"] = [
            type(made).__name__,
            made.draft_token_num,
            made.custom_mask is not None,
            made.is_verify_input(),
        ]
    return found


SCENARIOS: dict[str, Callable[[Release], dict[str, Any]]] = {
    "arguments": arguments,
    "capture": capture,
    "greedy": greedy,
    "singles": singles,
    "chain": chain,
    "window": window,
    "seeded": seeded,
    "processed": processed,
}


def main(parent: str, names: list[str]) -> None:
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(Path(parent).resolve()))
    finder = standins.install()
    torch.set_num_threads(1)
    release = Release()
    found: dict[str, Any] = {}
    for name in names:
        found[name] = SCENARIOS[name](release)
    found["standins"] = sorted(finder.used)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(SCENARIOS))
