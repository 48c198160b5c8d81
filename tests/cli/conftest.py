"""Installs of a real SGLang to play with, and ddpatch as a function."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from patcher.cli import cli
from patcher.tree import Tree


@dataclass(frozen=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Ddpatch = Callable[..., Answer]


@pytest.fixture
def store_folder(tmp_path: Path, inventory_cache: Path) -> Path:
    """A store of its own, with the inventories that earlier tests have made."""
    folder = tmp_path / "store"
    folder.mkdir(mode=0o700)
    (folder / "cache").symlink_to(inventory_cache)
    return folder


@pytest.fixture(scope="session")
def inventory_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def ddpatch(store_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ddpatch:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DDPATCH_STORE", raising=False)
    monkeypatch.delenv("DDPATCH_CONFIG", raising=False)

    def run(*words: str, store: Path = store_folder) -> Answer:
        result = CliRunner().invoke(cli, ["--store", str(store), *words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture(scope="session")
def unpacked(release_tree: Callable[[str], Tree], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SGLang 0.5.11 on disk, never touched: the source of hard-linked copies."""
    folder = tmp_path_factory.mktemp("unpacked")
    tree = release_tree("0.5.11")
    for path, entry in tree.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(tree.read(path))
        target.chmod(entry.mode)
    return folder


@pytest.fixture
def site(unpacked: Path, tmp_path: Path) -> Iterator[Path]:
    """An install made of hard links, as uv makes them; its source must stay as it is."""
    before = image(unpacked)
    folder = tmp_path / "site-packages"
    shutil.copytree(unpacked, folder, copy_function=os.link)
    yield folder
    assert image(unpacked) == before


def image(folder: Path) -> dict[str, tuple[int, int]]:
    """Path to mode and to a hash of the content, without ddpatch's own folder."""
    return {
        name: (path.stat().st_mode, hash(path.read_bytes()))
        for path in folder.rglob("*")
        if path.is_file()
        and not (name := path.relative_to(folder).as_posix()).startswith(".ddpatch")
        and not name.endswith(".pyc")
    }


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Edit a file by hand, without writing through its hard links."""
    data = change(path.read_bytes())
    mode = path.stat().st_mode
    path.unlink()
    path.write_bytes(data)
    path.chmod(mode)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Mount something below a test's folder; it is unmounted afterwards."""
    places: list[Path] = []

    def mount(place: Path, *options: str) -> None:
        subprocess.run(["mount", *options, str(place)], check=True)
        places.append(place)

    yield mount
    for place in reversed(places):
        subprocess.run(["umount", str(place)], check=True)
