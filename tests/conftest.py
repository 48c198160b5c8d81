"""What several test packages share: official releases as trees."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import settings

from patcher.targets.index import IndexTarget
from patcher.tree import Tree

# How long an example takes says nothing here: the machine may be doing something else.
settings.register_profile("ddpatch", deadline=None)
settings.load_profile("ddpatch")


@cache
def _release(version: str) -> Tree:
    with IndexTarget.parse(version).connect() as session:
        snapshot = session.snapshot(())
        contents = dict(snapshot.contents)
    manifest = snapshot.manifest
    return Tree(manifest.files, lambda entry: contents[entry.sha256], manifest.facts)


@pytest.fixture(scope="session")
def release_tree() -> Callable[[str], Tree]:
    """Give an official release as a tree; a test that asks for it is marked ``network``."""
    return _release
