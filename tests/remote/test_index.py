"""Releases of the package index, from a folder that pip takes for one: no network."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from patcher.model import TargetError, UsageError
from patcher.targets import Target, parse_target
from patcher.targets.record import compare
from tests.remote.conftest import DISTINFO, OLD, RECORD, Install, record_of


def wheel(
    folder: Path,
    version: str = "0.5.11",
    tag: str = "cp312-cp312-manylinux_2_34_x86_64",
    more: Mapping[str, bytes] = {},
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"sglang-{version}-{tag}.whl"
    info = f"sglang-{version}.dist-info"
    files = {
        p.replace(DISTINFO, info): c.replace(b"0.5.11", version.encode()) for p, c in OLD.items()
    }
    python, abi, platform = tag.split("-")
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: {python}-{abi}-{platform}\n"
    ).encode()
    files[f"{info}/RECORD"] = record_of(files).replace(RECORD.encode(), f"{info}/RECORD".encode())
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**files, **more}.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("DDPATCH_CACHE", str(tmp_path / "cache"))
    return folder


def read(target: Target) -> dict[str, bytes]:
    with target.connect() as session:
        snapshot = session.snapshot(())
        contents = dict(snapshot.contents)
    assert snapshot.fetched == len(contents)
    return {path: contents[entry.sha256] for path, entry in snapshot.manifest.files.items()}


def test_a_release_is_fetched_once_and_read_offline(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(index)
    wheel(index, tag="cp311-cp311-manylinux_2_34_x86_64", more={"sglang/only311.py": b""})
    target = parse_target("pypi:0.5.11", {})
    files = read(target)
    assert {p: files[p] for p in OLD} == OLD and "sglang/only311.py" not in files
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    with target.connect() as session:
        facts = session.facts()
        assert (facts.version, facts.python_version, facts.distinfo) == ("0.5.11", "3.12", DISTINFO)
        everything = session.snapshot(())
        known = dict(everything.contents)
        assert not compare(everything.manifest, known[everything.manifest.files[RECORD].sha256])
        assert session.snapshot(known).fetched == 0


def test_older_releases_are_for_any_python(index: Path) -> None:
    wheel(index, "0.5.10", "py3-none-any")
    assert read(parse_target("pypi:0.5.10", {}))["sglang/version.py"] == b'__version__ = "0.5.10"\n'


def test_another_python_is_taken_where_the_newest_has_no_wheel(index: Path) -> None:
    wheel(index, tag="cp310-cp310-manylinux2014_x86_64")
    with parse_target("pypi:0.5.11", {}).connect() as session:
        assert session.facts().python_version == "3.10"


def test_a_release_that_is_not_names_its_neighbours(index: Path) -> None:
    for version in ("0.5.9", "0.5.10", "0.5.12", "0.6.0"):
        wheel(index, version, "py3-none-any")
    with pytest.raises(UsageError, match=r"no sglang 0\.5\.11") as caught:
        read(parse_target("pypi:0.5.11", {}))
    assert "0.5.10, 0.5.12" in caught.value.next_step


def test_an_index_that_gives_nothing_is_a_target_error(index: Path) -> None:
    index.mkdir()
    with pytest.raises(TargetError, match="gave no sglang"):
        read(parse_target("pypi:0.5.11", {}))


def test_two_at_once_fetch_once(index: Path, tmp_path: Path) -> None:
    wheel(index)
    results: list[dict[str, bytes]] = []
    threads = [
        threading.Thread(target=lambda: results.append(read(parse_target("pypi:0.5.11", {}))))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2 and results[0] == results[1]
    assert [p.name[:6] for p in (tmp_path / "cache/wheels").iterdir() if p.name != ".lock"] == [
        "sglang"
    ]


@pytest.mark.parametrize("name", ["../evil.py", "/etc/evil", "sglang/../../evil", "sglang/a\nb"])
def test_a_wheel_that_no_release_has(index: Path, name: str) -> None:
    wheel(index, more={name: b"x"})
    with pytest.raises(UsageError, match="official"):
        try:
            read(parse_target("pypi:0.5.11", {}))
        except UsageError as error:
            raise UsageError(error.next_step) from error


def test_other_top_folders_are_left_out_and_said(index: Path) -> None:
    wheel(index, more={"tools/x.py": b"x"})
    with parse_target("pypi:0.5.11", {}).connect() as session:
        snapshot = session.snapshot(())
        list(snapshot.contents)
    assert [s.path for s in snapshot.skipped] == ["tools/x.py"]


def test_a_broken_wheel_in_the_cache_says_what_to_do(index: Path, tmp_path: Path) -> None:
    path = wheel(tmp_path / "cache/wheels")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UsageError, match="cannot be read") as caught:
        read(parse_target("pypi:0.5.11", {}))
    assert "remove that file" in caught.value.next_step


def test_nobody_pushes_to_the_index(index: Path, install: Install) -> None:
    wheel(index)
    with parse_target("pypi:0.5.11", {}).connect() as session:
        for call in (lambda: session.push(install.plan()), session.rollback, session.status,
                     session.history):  # fmt: skip
            with pytest.raises(UsageError, match="not an install"):
                call()
