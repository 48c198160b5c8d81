"""The order of a query's rows and columns: what answers its question comes first.

Rows go by the query's own ``order``, then by how near their file is to speculative decoding, then
by file and place. The result does not depend on the order of files or on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from inventory.model import Query, Row, Value

_HOMES = re.compile(r"sglang/(?:srt|kernels/ops)/speculative/")
_HARDWARE = re.compile(r"hardware_backend/|[/_](?:ascend|cpu|hpu|mlx|musa|npu|xpu)[/_.]")
_ASIDE = re.compile(r"sglang/(?!srt/|kernels/)")


def ordered(query: Query, rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rows in the query's order, each with its fields in the order of the columns."""
    ranks = [(name, {value: n for n, value in enumerate(first)}) for name, first in query.order]

    def key(row: Row) -> tuple[Any, ...]:
        own = [_rank(row.fields.get(name, ""), first) for name, first in ranks]
        return own, nearness(row.site.path), place(row)

    return tuple(Row(row.site, _arranged(query, row)) for row in sorted(rows, key=key))


def nearness(path: str) -> int:
    """0 for the speculative packages, then the runtime, the rest of the package, other hardware."""
    if _HOMES.match(path):
        return 0
    if _HARDWARE.search(path):
        return 3
    return 2 if _ASIDE.match(path) else 1


def place(row: Row) -> tuple[str, int, int, str, str]:
    """File, line, column and scope; equal places go by their fields."""
    site = row.site
    return site.path, site.line, site.column, site.scope, repr(sorted(row.fields.items()))


def _rank(value: Value, first: dict[str, int]) -> tuple[int, str]:
    """Named values come first, as they are named; else the greatest number, or the alphabet."""
    if first:
        return first.get(str(value), len(first)), ""
    return (-value, "") if isinstance(value, int) else (0, str(value))


def _arranged(query: Query, row: Row) -> dict[str, Value]:
    known = {name: row.fields[name] for name in query.columns if name in row.fields}
    return known | dict(row.fields)
