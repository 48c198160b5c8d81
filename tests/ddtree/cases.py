"""The recorded trees and walks, ready to feed to a builder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_DATA = json.loads((Path(__file__).parent / "data" / "trees.json").read_text())
_ROOT_TOKEN = 900


@dataclass(frozen=True)
class Case:
    """One draft and budget with the tree that must come out."""

    name: str
    log_probs: np.ndarray  # float32 [depth, top_k]
    tokens: np.ndarray  # int64 [depth, top_k]
    root_token: int
    budget: int
    expected: dict[str, Any]

    @property
    def size(self) -> int:
        return len(self.expected["nodes"])

    @property
    def width(self) -> int:
        return self.budget + 1

    def column(self, field: str, padding: Any) -> list[Any]:
        """A field of the expected nodes, root first, padded to the verify width."""
        column = [node[field] for node in self.expected["nodes"]]
        if field == "token":
            column[0] = self.root_token
        return column + [padding] * (self.width - self.size)

    def links(self, field: str) -> list[int]:
        return self.expected[field] + [-1] * (self.width - self.size)

    def mask(self) -> np.ndarray:
        mask = np.eye(self.width, dtype=bool)
        for node, seen in enumerate(self.expected["sees"]):
            mask[node] = False
            mask[node, seen] = True
        return mask


def _case(record: dict[str, Any]) -> Case:
    draft = _DATA["drafts"][record["draft"]]
    rows = [[-np.inf if v is None else v for v in row] for row in draft["log_probs"]]
    top_k = record["top_k"] or len(rows[0])
    return Case(
        name=record["name"],
        log_probs=np.array(rows, dtype=np.float32)[:, :top_k].copy(),
        tokens=np.array(draft["tokens"], dtype=np.int64)[:, :top_k].copy(),
        root_token=draft.get("root", _ROOT_TOKEN),
        budget=record["budget"],
        expected=record,
    )


CASES = {record["name"]: _case(record) for record in _DATA["trees"]}
WALKS: dict[str, dict[str, Any]] = {record["name"]: record for record in _DATA["walks"]}
