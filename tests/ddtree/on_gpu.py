"""The device half of the tree on a real GPU: same trees, no host syncs, inside CUDA graphs.

Run as ``python -m tests.ddtree.on_gpu``; prints one JSON document. Needs torch, triton, numpy and
jinja2, no SGLang. ``test_on_gpu`` runs it where there is a GPU.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)

import numpy as np
import torch

from . import load

tree_module = load.module("tree")
triton_module = load.module("triton")
reference = load.module("reference")
accept = load.module("accept")

DEPTH = 15


def draft(batch: int, budget: int, seed: int, *, ties: bool = False) -> tuple[torch.Tensor, ...]:
    """Roots, log-probabilities and tokens of a batch on the GPU."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(batch, DEPTH, budget)) * 2
    if ties:
        logits = np.round(logits)
    logits -= np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    rows = -np.sort(-logits).astype(np.float32)
    if ties:
        rows[0, 1, budget // 2 :] = -np.inf
    tokens = np.argsort(random.random((batch, DEPTH, budget + 7)))[:, :, :budget]
    roots = random.integers(0, 9, batch)
    return tuple(
        torch.from_numpy(np.ascontiguousarray(x)).cuda()
        for x in (roots.astype(np.int64), rows, tokens.astype(np.int64))
    )


def assert_as_reference(built: Any, inputs: tuple[torch.Tensor, ...], budget: int) -> None:
    roots, rows, tokens = (x.cpu().numpy() for x in inputs)
    for i, root in enumerate(roots):
        wanted = reference.build_reference_tree(rows[i], tokens[i], int(root), budget)
        assert built.tokens[i].tolist() == wanted.tokens
        assert built.parents[i].tolist() == wanted.parents
        assert built.depths[i].tolist() == wanted.depths
        assert (built.mask[i].cpu().numpy() == wanted.visible).all()


def microseconds(run: Callable[[], Any], rounds: int = 7, calls: int = 50) -> float:
    """Median time of one call inside a CUDA graph of ``calls``."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1000 / calls)
    return round(statistics.median(times), 1)


def check_kernel() -> int:
    checked = 0
    for budget in (1, 2, 3, 7, 15, 31, 32, 63, 64, 127, 128, 200, 255, 256, 511):
        for ties in (False, True):
            inputs = draft(3, budget, budget, ties=ties)
            builder = triton_module.TritonBuilder(budget, DEPTH, budget, "cuda")
            assert_as_reference(builder.build(*inputs), inputs, budget)
            checked += 3
    return checked


def check_torch_builders() -> int:
    for budget in (7, 31, 32, 64):
        inputs = draft(3, budget, budget, ties=True)
        builder = tree_module.make_tree_builder(budget, DEPTH, budget, "cuda")
        assert_as_reference(builder.build(*inputs), inputs, budget)
    return 4


def check_normaliser() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for columns in (5, 49_152, 151_936):
            logits = (torch.randn(33, columns, device="cuda") * 9).to(dtype)
            logits[3, columns // 2 :] = -torch.inf
            found = triton_module.log_sum_exp(logits)
            torch.testing.assert_close(found, torch.logsumexp(logits.float(), dim=-1))


def check_no_sync() -> None:
    """Build, positions, mask and walk never wait for the device."""
    inputs = draft(8, 31, 1)
    lens = torch.arange(8, device="cuda") + 5
    predicted = torch.randint(0, 30, (8, 32), device="cuda")
    builders = [
        triton_module.TritonBuilder(31, DEPTH, 31, "cuda"),
        tree_module.TableBuilder(31, DEPTH, 31, "cuda"),
        tree_module.FrontierBuilder(31, DEPTH, 31, "cuda"),
    ]
    for builder in builders:
        builder.build(*inputs)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for builder in builders:
            built = builder.build(*inputs)
            built.links()
            built.positions(lens)
            built.packed_mask(lens, 68)
            accept.walk(built, predicted, DEPTH)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def check_graphs() -> None:
    """A captured build follows the values that are in its inputs at replay."""
    for make in (
        triton_module.TritonBuilder,
        tree_module.FrontierBuilder,
        tree_module.TableBuilder,
    ):
        budget = 31
        builder = make(budget, DEPTH, budget, "cuda")
        static = draft(4, budget, 5)
        for _ in range(2):
            builder.build(*static)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            built = builder.build(*static)
            found = accept.walk(built, built.tokens, DEPTH)
        for seed in (6, 7):
            fresh = draft(4, budget, seed, ties=True)
            for into, value in zip(static, fresh, strict=True):
                into.copy_(value)
            graph.replay()
            torch.cuda.synchronize()
            assert_as_reference(built, fresh, budget)
            again = accept.walk(built, built.tokens, DEPTH)
            assert torch.equal(found.path, again.path)
            assert torch.equal(found.length, again.length)


def timings() -> list[dict[str, Any]]:
    rows = []
    for budget in (15, 31, 63, 127, 255):
        for batch in (1, 16, 64):
            inputs = draft(batch, budget, 3)
            builder = triton_module.TritonBuilder(budget, DEPTH, budget, "cuda")
            built = builder.build(*inputs)
            predicted = built.tokens.clone()
            lens = torch.full((batch,), 1000, device="cuda")
            row = {
                "budget": budget,
                "batch": batch,
                "kernel_us": microseconds(lambda b=builder, i=inputs: b.build(*i)),
                "walk_us": microseconds(lambda t=built, p=predicted: accept.walk(t, p, DEPTH)),
                "mask_us": microseconds(
                    lambda t=built, n=lens, b=batch: t.packed_mask(n, 1000 * b)
                ),
            }
            if budget <= tree_module.TABLE_MAX_BUDGET:
                table = tree_module.TableBuilder(budget, DEPTH, budget, "cuda")
                row["table_us"] = microseconds(lambda b=table, i=inputs: b.build(*i), calls=5)
            rows.append(row)
    return rows


def head_timings() -> list[dict[str, Any]]:
    """What goes before the tree: the drafter's head over a large vocabulary."""
    head = load.module("head")
    vocabulary, hidden_size, top_k = 151_936, 2_560, 31
    weight = torch.randn(vocabulary, hidden_size, dtype=torch.bfloat16, device="cuda")
    shard = SimpleNamespace(
        num_org_elements=vocabulary,
        num_org_elements_padded=vocabulary,
        num_added_elements=0,
        org_vocab_start_index=0,
        added_vocab_start_index=vocabulary,
    )
    lm_head = SimpleNamespace(weight=weight, shard_indices=shard)
    group = SimpleNamespace(world_size=1)
    rows = []
    for batch in (1, 16, 64):
        hidden = torch.randn(batch * DEPTH, hidden_size, dtype=torch.bfloat16, device="cuda")
        logits = torch.matmul(hidden[:256], weight.T)
        rows.append(
            {
                "batch": batch,
                "head_us": microseconds(
                    lambda h=hidden: head.draft_top_k(h, lm_head, top_k, group), calls=5
                ),
                "matmul_us": microseconds(lambda h=hidden: h @ weight.T, calls=5),
                "top_k_us_per_256_rows": microseconds(
                    lambda x=logits: torch.topk(x, top_k), calls=5
                ),
                "normaliser_us_per_256_rows": microseconds(
                    lambda x=logits: triton_module.log_sum_exp(x), calls=5
                ),
            }
        )
    return rows


def main() -> None:
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": sys.modules["triton"].__version__,
        "kernel_trees": check_kernel(),
        "torch_trees": check_torch_builders(),
    }
    check_normaliser()
    check_no_sync()
    check_graphs()
    if "--times" in sys.argv:
        found["times"] = timings()
        found["head"] = head_timings()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
