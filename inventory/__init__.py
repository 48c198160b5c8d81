"""What a release of SGLang says about speculative decoding: one query per file, one pass for all.

A module of this package that exports ``QUERY`` is a query; the engine finds it by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from inventory import _engine
from inventory._cache import Cache
from inventory._codec import inventory_from, inventory_to, row_to
from inventory._engine import Progress
from inventory.model import Case, Coverage, Inventory, Query, Row, Value
from patcher.tree import Tree

__all__ = [
    "QUERIES",
    "Cache",
    "Case",
    "Coverage",
    "Inventory",
    "Progress",
    "Query",
    "Row",
    "Value",
    "inventory_from",
    "inventory_to",
    "row_to",
    "run",
]

QUERIES: tuple[Query, ...] = _engine.discover(sys.modules[__name__])
"""All queries, by id."""


def run(
    tree: Tree,
    cache: Cache | None = None,
    progress: Progress | None = None,
    queries: Sequence[Query] = QUERIES,
) -> Inventory:
    """Answer the queries about every Python file of a tree, from ``cache`` where it knows."""
    return _engine.run(tree, queries, cache, progress)
