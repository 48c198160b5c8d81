"""The store keeps every byte, moves only what is new, and refuses what it cannot trust."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patcher.model import FileEntry, InstallFacts, Manifest, UsageError
from patcher.refs import PatchCommit, SnapshotRef
from patcher.store import Store

FILES = {
    "sglang/__init__.py": b"x = 1\n",
    "sglang/run.sh": b"#!/bin/sh\n",
    "sglang/data with space, [1].json": b"{}",
    'sglang/\xc3\xbc"\\.py'.encode("latin-1").decode(): b"\r\n\x00\xff",
    "sglang/empty.py": b"",
}


def manifest(files: dict[str, bytes], version: str = "1.0") -> Manifest:
    entries = {
        path: FileEntry(
            path,
            0o755 if path.endswith(".sh") else 0o640,
            len(data),
            hashlib.sha256(data).hexdigest(),
            2,
        )
        for path, data in files.items()
    }
    return Manifest(InstallFacts(version=version, root="/r", gpus=("H200",)), entries)


def put(store: Store, files: dict[str, bytes], slug: str = "host") -> SnapshotRef:
    known = store.known()
    new = {hashlib.sha256(d).hexdigest(): d for d in files.values()}
    missing = [(sha, d) for sha, d in new.items() if sha not in known]
    return store.put_snapshot(slug, slug, manifest(files), missing)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def test_a_snapshot_comes_back_as_it_was(store: Store) -> None:
    ref = put(store, FILES)
    with Store.open(store.folder) as opened:
        again = opened.tree(ref)
        assert {path: again.read(path) for path in again} == FILES
    assert again.files["sglang/run.sh"].mode == 0o755
    assert again.files["sglang/__init__.py"].nlink == 2
    assert again.facts == manifest(FILES).facts


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.text(st.characters(exclude_characters="/\0\n", exclude_categories=["Cs"]), min_size=1)
        .filter(lambda n: n not in {".", "..", ".git"} and ".git" not in n.lower())
        .map(lambda n: f"sglang/{n}"),
        st.binary(max_size=40),
        max_size=5,
    )
)
def test_any_name_and_any_bytes_survive(tmp_path_factory: object, files: dict[str, bytes]) -> None:
    with Store.open(tmp_path_factory.mktemp("s") / "store") as store:  # type: ignore[attr-defined]
        tree = store.tree(put(store, files))
        assert {path: tree.read(path) for path in tree} == files


def test_an_unchanged_target_keeps_its_snapshot(store: Store) -> None:
    assert put(store, FILES) == put(store, FILES)
    assert len(store.history("host")) == 1


def test_snapshots_are_numbered_newest_first(store: Store) -> None:
    old = put(store, FILES)
    new = put(store, {**FILES, "sglang/empty.py": b"now\n"})
    assert [s.oid for s in store.history("host")] == [new.oid, old.oid]
    assert store.find("host", 2) is not None
    assert store.tree(store.history("host")[1]).read("sglang/empty.py") == b""
    assert store.find("host", 3) is None


def test_only_new_content_is_needed(store: Store) -> None:
    put(store, FILES)
    changed = {**FILES, "sglang/new.py": b"new\n"}
    ref = store.put_snapshot(
        "host", "host", manifest(changed), [(hashlib.sha256(b"new\n").hexdigest(), b"new\n")]
    )
    assert store.tree(ref).read("sglang/run.sh") == FILES["sglang/run.sh"]


def test_a_snapshot_with_a_hole_is_not_recorded(store: Store) -> None:
    with pytest.raises(UsageError, match="lacks 5 file"):
        store.put_snapshot("host", "host", manifest(FILES), [])
    assert store.history("host") == []


def test_a_stream_that_breaks_leaves_nothing(store: Store) -> None:
    def broken() -> Iterator[tuple[str, bytes]]:
        yield hashlib.sha256(b"").hexdigest(), b""
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        store.put_snapshot("host", "host", manifest(FILES), broken())
    assert store.history("host") == []


def test_a_patched_series_has_a_commit_per_patch_and_reads_back(store: Store) -> None:
    ref = put(store, FILES)
    commits = [
        PatchCommit("Add a\n\nWhy.\n\nPatch: a", {"sglang/a.py": b"a\n"}),
        PatchCommit(
            "Change it\n\nPatch: b", {"sglang/__init__.py": b"y\r\n", "sglang/run.sh": None}
        ),
    ]
    patched = store.put_patched(ref, "s@1", "", commits)
    assert patched.patches == ("a", "b")
    assert store.last_patched() == patched
    tree = store.patched_tree(patched)
    assert tree.read("sglang/__init__.py") == b"y\r\n"
    assert tree.read("sglang/a.py") == b"a\n"
    assert "sglang/run.sh" not in tree
    again = store.put_patched(ref, "s@1", "", commits)
    assert again.oid == patched.oid


def test_the_series_reads_well_in_git(store: Store) -> None:
    ref = put(store, FILES)
    store.put_patched(
        ref, "s@1", "", [PatchCommit("Add a\n\nWhy.\n\nPatch: a", {"sglang/a.py": b"1\n"})]
    )
    git = ["git", f"--git-dir={store.folder / 'store.git'}"]
    log = subprocess.run(
        [*git, "log", "-p", "-1", "--format=%s%n%b", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert log.startswith("Add a\nWhy.\n")
    assert "+1" in log
    assert ".ddpatch" not in log
    check = subprocess.run([*git, "fsck", "--strict"], capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stderr


def test_the_store_is_private(store: Store) -> None:
    assert store.folder.stat().st_mode & 0o777 == 0o700


def test_a_store_that_others_can_read_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    with pytest.raises(UsageError, match="can be read by others") as caught:
        Store.open(folder)
    assert "chmod 700" in caught.value.next_step


def test_a_store_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        Store.open(path)


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make somebody else's folder")
def test_somebody_elses_store_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    with pytest.raises(UsageError, match="belongs to another user"):
        Store.open(folder)


def test_a_store_of_a_newer_ddpatch_is_refused(store: Store) -> None:
    (store.folder / "ddpatch-store.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(UsageError, match="format 99"):
        Store.open(store.folder)


def test_the_users_git_configuration_does_not_reach_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text("[core]\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    with Store.open(tmp_path / "store") as store:
        tree = store.tree(put(store, FILES))
        assert {path: tree.read(path) for path in tree} == FILES
