"""Drafts for property tests: ties, dead entries, certainties, caps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st


@dataclass(frozen=True)
class Draft:
    """Marginals of one batch."""

    log_probs: np.ndarray  # float32 [bs, depth, top_k], descending
    tokens: np.ndarray  # int64 [bs, depth, top_k], distinct within a row
    roots: np.ndarray  # int64 [bs]
    budget: int


#: How one depth's distribution looks.
SHAPES = ("smooth", "ties", "one_hot", "flat", "cut", "dead", "nan", "sharp")


def _row(shape: str, top_k: int, random: np.random.Generator) -> np.ndarray:
    logits = random.normal(size=top_k) * 2
    if shape == "ties":
        logits = np.round(logits)
    elif shape == "flat":
        logits = np.zeros(top_k)
    elif shape == "sharp":
        logits = logits * 20
    row = np.sort(logits - np.logaddexp.reduce(logits))[::-1].astype(np.float32)
    if shape == "one_hot":
        row[:] = -np.inf
        row[0] = 0.0
    elif shape == "cut":
        row[random.integers(1, top_k + 1) :] = -np.inf
    elif shape == "dead":
        row[:] = -np.inf
    elif shape == "nan":
        row[random.integers(0, top_k) :] = np.nan
    return row


@st.composite
def drafts(
    draw: st.DrawFn, *, max_budget: int = 256, max_depth: int = 15, max_batch: int = 4
) -> Draft:
    """A batch of marginals; every request and depth has a shape of its own."""
    budget = draw(st.integers(1, max_budget))
    depth = draw(st.integers(1, max_depth))
    top_k = draw(st.one_of(st.just(budget), st.integers(1, budget)))
    batch = draw(st.integers(1, max_batch))
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=batch * depth, max_size=batch * depth))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = np.stack([_row(shape, top_k, random) for shape in shapes])
    vocabulary = top_k + draw(st.integers(0, 40))
    tokens = np.stack([random.permutation(vocabulary)[:top_k] for _ in shapes])
    return Draft(
        log_probs=rows.reshape(batch, depth, top_k),
        tokens=tokens.reshape(batch, depth, top_k).astype(np.int64),
        roots=random.integers(0, vocabulary, batch).astype(np.int64),
        budget=budget,
    )
