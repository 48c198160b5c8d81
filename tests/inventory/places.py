"""Whether a row's place is one at which a piece of Python begins and ends."""

from __future__ import annotations

import ast

from inventory.model import Row
from patcher.source import Source


def points_at_code(source: Source, row: Row) -> bool:
    """Whether the text from the row's line and column parses, up to some place on its end line."""
    site = row.site
    lines = source.data.decode("utf-8-sig").splitlines()[site.line - 1 : site.end_line]
    if not lines or not lines[0][site.column - 1 : site.column].strip():
        return False
    first = lines[0][site.column - 1 :]
    ends = range(len(lines[-1]), 0, -1)
    for end in ends:
        last = lines[-1][:end] if len(lines) > 1 else first[:end]
        text = "\n".join([first, *lines[1:-1], last]) if len(lines) > 1 else last
        if any(map(_parses, (f"({text}\n)", f"f({text}\n)", f"{' ' * (site.column - 1)}{text}"))):
            return True
    return False


def _parses(text: str) -> bool:
    try:
        ast.parse(f"if 1:\n{text}" if text.startswith(" ") else text)
    except SyntaxError:
        return False
    return True
