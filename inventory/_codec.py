"""The JSON form of an inventory, complete in both directions.

Every row is flat: ``path``, ``line``, ``column``, ``end_line``, ``scope``, then the query's own
columns. Arrays read back as tuples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inventory.model import PLACE, Coverage, FileAnswer, Inventory, Row, Value
from patcher.model import SCHEMA_VERSION, DdpatchError, ExitCode, Site


def inventory_to(inventory: Inventory) -> dict[str, Any]:
    """The whole inventory as JSON values."""
    coverage = inventory.coverage
    return {
        "schema_version": SCHEMA_VERSION,
        "version": inventory.version,
        "digest": inventory.digest,
        "coverage": {
            "seen": coverage.seen,
            "parsed": coverage.parsed,
            "ruled_out": coverage.ruled_out,
            "unreadable": dict(coverage.unreadable),
        },
        "missing": list(inventory.missing),
        "queries": [
            {"id": name, "count": len(rows), "sites": [row_to(row) for row in rows]}
            for name, rows in inventory.rows.items()
        ],
    }


def inventory_from(value: Mapping[str, Any]) -> Inventory:
    """Read back what :func:`inventory_to` wrote; a newer schema is refused."""
    if value["schema_version"] != SCHEMA_VERSION:
        raise DdpatchError(
            f"an inventory of schema {value['schema_version']}; this ddpatch reads"
            f" {SCHEMA_VERSION}",
            exit_code=ExitCode.USAGE,
            next_step="upgrade ddpatch, or take the inventory again",
        )
    return Inventory(
        version=value["version"],
        digest=value["digest"],
        coverage=Coverage(**value["coverage"]),
        rows={q["id"]: tuple(row_from(s) for s in q["sites"]) for q in value["queries"]},
        missing=tuple(value.get("missing", ())),
    )


def row_to(row: Row) -> dict[str, Any]:
    """One row, flat."""
    site = row.site
    return {
        "path": site.path,
        "line": site.line,
        "column": site.column,
        "end_line": site.end_line,
        "scope": site.scope,
        **row.fields,
    }


def row_from(value: Mapping[str, Any]) -> Row:
    """Read back one row."""
    fields: dict[str, Value] = {
        name: tuple(item) if isinstance(item, list) else item
        for name, item in value.items()
        if name not in PLACE
    }
    return Row(Site(*(value[name] for name in PLACE)), fields)


def answer_to(answer: FileAnswer) -> list[Any]:
    """What one file answered, without its path."""
    rows = {name: [row_to(row) for row in found] for name, found in answer.rows.items()}
    return [answer.state, answer.reason, rows]


def answer_from(value: list[Any]) -> FileAnswer:
    """Read back what one file answered."""
    state, reason, rows = value
    return FileAnswer(
        state, reason, {name: tuple(row_from(row) for row in found) for name, found in rows.items()}
    )
