"""Unified diffs of bytes, as ``git apply`` reads them."""

from __future__ import annotations

import difflib


def unified(path: str, before: bytes | None, after: bytes | None) -> str:
    r"""A unified diff of one file; None stands for a file that is not there.

    Bytes that are no UTF-8 are shown escaped; a missing last line end is said in git's words.
    """
    old, new = _lines(before), _lines(after)
    head = f"diff --git a/{path} b/{path}\n"
    if before is None:
        head += "new file mode 100644\n"
    elif after is None:
        head += "deleted file mode 100644\n"
    source = "/dev/null" if before is None else f"a/{path}"
    target = "/dev/null" if after is None else f"b/{path}"
    diff = difflib.unified_diff(old, new, source, target)
    cut = "\n\\ No newline at end of file\n"
    body = [line if line.endswith("\n") else line + cut for line in diff]
    return head + "".join(body) if body else ""


def _lines(data: bytes | None) -> list[str]:
    """Lines as git sees them: only a line feed ends one."""
    if not data:
        return []
    parts = data.decode(errors="backslashreplace").split("\n")
    lines = [part + "\n" for part in parts[:-1]]
    return lines + ([parts[-1]] if parts[-1] else [])
