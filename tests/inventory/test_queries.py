"""Every query answers its own examples, and documents what it answers with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

import inventory
from inventory.model import PLACE, Case, Query
from patcher.tree import Tree

_CASES = [
    pytest.param(query, case, id=f"{query.id}: {case.title}")
    for query in inventory.QUERIES
    for case in query.cases
]
_DEFINITIONS = "sglang/srt/speculative/spec_info.py"
_BESIDE = "sglang/srt/x.py"


def _answers(query: Query, case: Case) -> list[dict[str, Any]]:
    found = inventory.run(Tree.of(case.files)).of(query.id)
    if _BESIDE in case.files:  # the definitions around it have a case of their own
        found = tuple(row for row in found if row.site.path != _DEFINITIONS)
    return [inventory.row_to(row) for row in found]


def _asked_for(row: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in wanted}


@pytest.mark.parametrize(("query", "case"), _CASES)
def test_example(query: Query, case: Case) -> None:
    rows = _answers(query, case)
    assert len(rows) == len(case.rows), rows
    for row, wanted in zip(rows, case.rows, strict=True):
        assert _asked_for(row, wanted) == dict(wanted)


@pytest.mark.parametrize("query", inventory.QUERIES, ids=lambda q: q.id)
def test_documented(query: Query) -> None:
    assert re.fullmatch(r"[a-z_]+", query.id)
    assert query.title and query.why.endswith(".")
    assert query.prefilter
    assert any(case.rows for case in query.cases), "no example with an answer"
    assert not set(PLACE) & set(query.columns)
    for case in query.cases:
        for row in inventory.run(Tree.of(case.files)).of(query.id):
            assert set(row.fields) == set(query.columns)


def test_one_query_per_file() -> None:
    assert [q.id for q in inventory.QUERIES] == [
        "algorithms",
        "arguments",
        "attention_backends",
        "dispatch",
        "extension_points",
        "graph_runners",
        "modules",
        "spec_inputs",
        "tree_kernels",
        "workers",
    ]
