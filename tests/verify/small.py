"""Small trees with one new file, and what the two static levels say about it."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

from patcher.model import Finding
from patcher.resolve.calling import CallsResult, examine_calls
from patcher.resolve.naming import NamesResult, examine_names
from patcher.tree import Tree

NEW = "sglang/new.py"
WHOLE = ((1, 100_000),)


def tree_of(files: Mapping[str, str]) -> Tree:
    """A tree of dedented files under ``sglang/``, packages included."""
    texts = {f"sglang/{path}": dedent(text) for path, text in files.items()}
    folders = {p.rpartition("/")[0] for p in texts}
    inits = {f"{f}/__init__.py": "" for f in folders}
    return Tree.of({"sglang/__init__.py": "", **inits, **texts})


def names(new: str, files: Mapping[str, str]) -> NamesResult:
    """What level ``names`` says about a new file beside others."""
    before = tree_of(files)
    after = before.with_changes({NEW: dedent(new).encode()})
    return examine_names(before, after, {NEW: WHOLE})


def calls(new: str, files: Mapping[str, str]) -> CallsResult:
    """What level ``calls`` says about a new file beside others."""
    before = tree_of(files)
    after = before.with_changes({NEW: dedent(new).encode()})
    return examine_calls(before, after, {NEW: WHOLE})


def messages(findings: list[Finding]) -> list[str]:
    """The messages of findings, in order."""
    return [f.message for f in findings]
