"""CONTRACT.md says what scripts may rely on; these tests hold it, and hold it to its word."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from patcher.model import FileState, Outcome, ReleaseStatus, UsageError
from patcher.patchset import load_set
from patcher.release import dump, load_releases
from tests.cli.conftest import Ddpatch, ddpatch, inventory_cache, store_folder

__all__ = ["ddpatch", "inventory_cache", "store_folder"]

ROOT = Path(__file__).parents[1]
CONTRACT = (ROOT / "CONTRACT.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", CONTRACT)))


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[f"{p}::{n}" for p, n in NAMED])
def test_every_test_that_the_contract_names_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}


def test_every_line_of_the_contract_names_a_test() -> None:
    rows = [line for line in CONTRACT.splitlines() if line.startswith("| ")]
    heads = {"| rule |", "| code |", "| of |", "| format"}
    bare = [r for r in rows if "::" not in r and not any(r.startswith(h) for h in heads)]
    assert len(rows) > 30
    assert bare == []


@pytest.mark.parametrize(
    ("words", "row"),
    [(Outcome, "| a patch |"), (ReleaseStatus, "| a release |"), (FileState, "| a file on")],
)
def test_words(words: type[Outcome], row: str) -> None:
    line = next(x for x in CONTRACT.splitlines() if x.startswith(row))
    assert re.findall(r"`([a-z-]+)`", line.split("|")[2]) == [str(w) for w in words]


COMMON = {"schema_version", "command", "exit_code", "headline", "findings", "next_step"}
KEYS = {
    ("snapshot", "pypi:0.5.11"): {
        "outcome",
        "target",
        "snapshot",
        "facts",
        "files",
        "moved",
        "record",
        "skipped",
        "sets",
    },
    ("inventory", "pypi:0.5.11"): {
        "target",
        "version",
        "digest",
        "coverage",
        "missing",
        "queries",
    },
    ("apply", "pypi:0.5.11"): {
        "outcome",
        "target",
        "version",
        "set",
        "dry_run",
        "patches",
        "changes",
    },
    ("verify",): {"outcome", "target", "version", "set", "level", "levels"},
    ("diff",): {"target", "version", "set", "files", "diff"},
    ("test",): {"outcome", "set", "cases", "release", "patches"},
}
PLACE = {"path", "line", "column", "end_line", "scope"}


@pytest.mark.network
def test_keys(ddpatch: Ddpatch) -> None:
    documents = {words: ddpatch(*words, "--json").json for words in KEYS}
    for words, document in documents.items():
        assert set(document) == COMMON | KEYS[words], words
    inventory = documents["inventory", "pypi:0.5.11"]
    coverage = inventory["coverage"]
    unreadable = coverage.get("unreadable", {})
    assert coverage["seen"] == coverage["parsed"] + coverage["ruled_out"] + len(unreadable)
    for query in inventory["queries"]:
        assert query["count"] == len(query["sites"]) > 0, query["id"]
        assert all(set(site) >= PLACE for site in query["sites"])
    changes = documents["apply", "pypi:0.5.11"]["changes"]
    assert all(set(change) >= PLACE for change in changes)


@pytest.mark.network
def test_finding_keys(ddpatch: Ddpatch) -> None:
    (finding,) = ddpatch("apply", "pypi:0.5.10", "--json").json["findings"]
    assert set(finding) >= {"code", "message", "severity", "next_step"}
    folder = Path(__file__).parent / "sets" / "greeting"
    other = ddpatch("apply", "pypi:0.5.10", "--set", str(folder), "--json")
    assert other.code == 1


def test_a_newer_release_file_is_refused(tmp_path: Path) -> None:
    base = load_set("ddtree")
    known = load_releases(base)["0.5.11"]
    folder = tmp_path / "releases"
    folder.mkdir()
    text = dump(known)
    (folder / "0.5.11.toml").write_text(text)
    assert load_releases(replace(base, folder=tmp_path))["0.5.11"] == known
    (folder / "0.5.11.toml").write_text(text.replace("format = 1", "format = 2"))
    with pytest.raises(UsageError, match="format 2"):
        load_releases(replace(base, folder=tmp_path))
