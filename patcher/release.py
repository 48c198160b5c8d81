"""Release files: what is recorded about a set on one release, once it has been verified.

Nothing is decided by them: probes choose strategies. They say what the probes said, so that a
release that answers otherwise (a re-upload, a fork) is seen, and they make a release *supported*.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patcher.model import ReleaseStatus, UsageError
from patcher.patchset import PatchSet
from patcher.plan import Plan
from patcher.tree import Tree

FORMAT = 1
"""Version of the files' layout; a newer one is refused."""


@dataclass(frozen=True)
class Release:
    """One release file.

    ``python_sha256`` is one hash over the paths and contents of the package's ``.py`` files;
    ``level`` the highest verification level that held; ``patches`` the strategy (or, without one,
    the outcome) of each patch; ``counts`` the rows of each inventory query. ``wheels`` has the
    sha256 of each official wheel that was looked at, by its Python tag: a release can have one
    per Python.
    """

    version: str
    python_sha256: str
    level: str
    patches: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    wheels: Mapping[str, str] = field(default_factory=dict)

    def differences(self, other: Release) -> Iterator[str]:
        """What another record says differently, a line each."""
        if self.python_sha256 != other.python_sha256:
            yield f"code: {self.python_sha256[:12]} is now {other.python_sha256[:12]}"
        if self.level != other.level:
            yield f"level: {self.level} is now {other.level}"
        for name, mine, theirs in (
            ("patch", self.patches, other.patches),
            ("query", self.counts, other.counts),
        ):
            for key in sorted(set(mine) | set(theirs)):
                before, after = mine.get(key, "absent"), theirs.get(key, "absent")
                if before != after:
                    yield f"{name} {key}: {before} is now {after}"
        for tag in sorted(set(self.wheels) & set(other.wheels)):
            if self.wheels[tag] != other.wheels[tag]:
                yield f"wheel {tag}: another file than before under the same name"


def record(plan: Plan, level: str, wheels: Mapping[str, str]) -> Release:
    """The record of a plan that was verified up to ``level``; ``wheels`` are hashes by tag."""
    inventory = plan.subject.inventory
    return Release(
        version=plan.subject.tree.facts.version,
        python_sha256=python_digest(plan.subject.tree),
        level=level,
        patches={p.patch.id: p.strategy or str(p.outcome) for p in plan.patches},
        counts={query: len(rows) for query, rows in sorted(inventory.rows.items())},
        wheels=wheels,
    )


def python_digest(tree: Tree) -> str:
    """One sha256 over the package's ``.py`` files: equal for all wheels of a release."""
    total = hashlib.sha256()
    for path in tree.python_files():
        total.update(f"{path}\0{tree.files[path].sha256}\n".encode(errors="surrogateescape"))
    return total.hexdigest()


def status(patch_set: PatchSet, tree: Tree) -> ReleaseStatus:
    """``supported`` when this very code is recorded, else ``applies`` (nothing is known of it)."""
    known = load_releases(patch_set).get(tree.facts.version)
    if known is not None and known.python_sha256 == python_digest(tree):
        return ReleaseStatus.SUPPORTED
    return ReleaseStatus.APPLIES


def load_releases(patch_set: PatchSet) -> dict[str, Release]:
    """All release files of a set, by version. Raises UsageError for one that makes no sense."""
    return {
        r.version: r for r in map(_load, sorted((patch_set.folder / "releases").glob("*.toml")))
    }


def _load(path: Path) -> Release:
    try:
        row = tomllib.loads(path.read_text(encoding="utf-8"))
        if row["format"] > FORMAT:
            raise UsageError(
                f"{path.name} has format {row['format']}; this ddpatch knows {FORMAT}",
                next_step="upgrade ddpatch",
            )
        return Release(
            row["version"],
            row["python_sha256"],
            row["level"],
            row["patches"],
            row["inventory"],
            row["wheels"],
        )
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise UsageError(
            f"release file {path.name} makes no sense: {error}",
            next_step="write it again: `ddpatch record VERSION`",
        ) from error


def dump(release: Release) -> str:
    """A release as the text of its file."""
    lines = [
        f"format = {FORMAT}",
        f'version = "{release.version}"',
        f'python_sha256 = "{release.python_sha256}"',
        f'level = "{release.level}"',
        "",
        "[wheels]",
        *(f'{tag} = "{sha256}"' for tag, sha256 in sorted(release.wheels.items())),
        "",
        "[patches]",
        *(f'{patch} = "{what}"' for patch, what in sorted(release.patches.items())),
        "",
        "[inventory]",
        *(f"{query} = {count}" for query, count in sorted(release.counts.items())),
    ]
    return "\n".join([*lines, ""])
