"""The module by which a patched tree tells what is in it, and how such a tree is read back.

It is generated, part of the change set, and readable without ddpatch: the server's log and
``python -c`` can show it. A tree that carries one is never patched on top: it is first taken back
to the originals, whose hashes the module names.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patcher.model import Finding, Refusal, Site, UsageError
from patcher.tree import Tree

if TYPE_CHECKING:
    from patcher.changes import ChangeSet
    from patcher.patchset import PatchSet

FORMAT = 1
"""Version of the module's layout; a newer one is refused."""

NAME = "_ddpatch_manifest.py"
"""File name of the module, whatever set it belongs to and wherever it lies."""

Find = Callable[[str], bytes | None]
"""Gives content by its sha256, or None."""

_TITLE = '"""What ddpatch grafted into this package. Generated: do not edit."""\n'


@dataclass(frozen=True)
class TreeManifest:
    """What a patched tree says of itself: set, release, patches, and files as hash pairs.

    ``files`` maps a path to (sha256 before, sha256 after); an empty first hash means added.
    """

    set_name: str
    set_version: str
    release: str
    patches: tuple[str, ...]
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def set_label(self) -> str:
        """``name@version``."""
        return f"{self.set_name}@{self.set_version}"


def manifest_module(patch_set: PatchSet, changes: ChangeSet) -> bytes:
    """The module's source for a change set that does not hold it yet."""
    lines = [
        _TITLE,
        f"FORMAT = {FORMAT}",
        f'SET = "{patch_set.name}"',
        f'SET_VERSION = "{patch_set.version}"',
        f'RELEASE = "{changes.release}"',
        "PATCHES = (",
        *(f'    "{patch}",' for patch in changes.patches),
        ")",
        "# path: (sha256 before, sha256 after); an empty first hash is a file that was added",
        "FILES = {",
    ]
    for path, change in sorted(changes.files.items()):
        lines += [
            f'    "{path}": (',
            f'        "{change.before_sha256}",',
            f'        "{change.after_sha256}",',
            "    ),",
        ]
    return "\n".join([*lines, "}", ""]).encode()


def read_manifest(tree: Tree, path: str) -> TreeManifest | None:
    """What the tree says of itself, or None where no such module is there.

    The module is read, never run. Raises UsageError for one that makes no sense or that a newer
    ddpatch wrote.
    """
    if path not in tree:
        return None
    values: dict[str, Any] = {}
    try:
        for node in ast.parse(tree.read(path)).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                values[node.targets[0].id] = ast.literal_eval(node.value)
        if values["FORMAT"] > FORMAT:
            raise UsageError(
                f"{path} was written by a newer ddpatch (format {values['FORMAT']})",
                next_step="upgrade ddpatch",
            )
        return TreeManifest(
            values["SET"],
            values["SET_VERSION"],
            values["RELEASE"],
            tuple(values["PATCHES"]),
            {str(p): (str(b), str(a)) for p, (b, a) in values["FILES"].items()},
        )
    except (
        SyntaxError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        MemoryError,
    ) as error:
        raise UsageError(
            f"{path} is there, but it is no ddpatch manifest: {error}",
            next_step="take a snapshot of a clean install, or roll the last push back",
        ) from error


def _edited(tree: Tree, manifest: TreeManifest) -> Iterator[Finding]:
    """Files that the manifest lists, and that are neither as it left them nor as it found them."""
    for path, (before, after) in manifest.files.items():
        found = tree.files[path].sha256 if path in tree else ""
        if found not in (before, after):
            yield Finding(
                code="manifest.edited",
                message=f"{path} is not what {manifest.set_label} made of it",
                site=Site(path, 1),
                expected=after,
                found=found or "no file",
                next_step="keep the change elsewhere and restore the file",
            )


def manifests(tree: Tree) -> Iterator[tuple[str, TreeManifest]]:
    """Path and content of every ddpatch manifest in a tree."""
    for path in sorted(tree.files):
        if path.rpartition("/")[2] == NAME:
            told = read_manifest(tree, path)
            if told is not None:
                yield path, told


def pristine(tree: Tree, manifest: TreeManifest, path: str, find: Find) -> Tree:
    """The tree as it was before ddpatch: originals put back, added files taken away.

    ``find`` gives content by sha256. Raises Refusal for a file that is neither ours nor the
    original (somebody's work, which going back would lose), and UsageError naming the first
    original that is not to be had.
    """
    edited = tuple(_edited(tree, manifest))
    if edited:
        raise Refusal(
            f"{len(edited)} file(s) were changed after {manifest.set_label} was put in: "
            f"{', '.join(str(f.site.path) for f in edited if f.site)}",
            next_step="take these changes out (keep them elsewhere), and take a snapshot again",
            findings=edited,
        )
    changes: dict[str, bytes | None] = {path: None}
    for changed, (before, _) in manifest.files.items():
        if not before:
            if changed in tree:
                changes[changed] = None
            continue
        if changed in tree and tree.files[changed].sha256 == before:
            continue
        original = find(before)
        if original is None:
            raise UsageError(
                f"this tree has {manifest.set_label} in it, and the original of {changed} "
                f"(sha256 {before[:12]}…) is not in the store",
                next_step=f"`ddpatch snapshot pypi:{manifest.release}`, or roll the push back",
            )
        changes[changed] = original
    return tree.with_changes(changes)
