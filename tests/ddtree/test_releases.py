"""DDTREE inside each release it is made for: patched, imported, and decoding on a CPU."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import inventory
from patcher.changes import ChangeSet
from patcher.model import Outcome
from patcher.patchset import load_set
from patcher.plan import make_plan
from patcher.probe import Subject
from patcher.tree import Tree

from . import render, standins

pytestmark = pytest.mark.network

RELEASES = ("0.5.11", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.13.post1")
HOME = "sglang/srt/speculative"
MODULES = ("accept", "args", "head", "info", "reference", "tree", "triton", "worker")


@cache
def _changes(tree: Tree) -> ChangeSet:
    plan = make_plan(load_set("ddtree"), Subject(tree, inventory.run(tree)))
    assert plan.outcome is Outcome.APPLIED, plan.all_findings()
    return plan.changes


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest, release_tree: Callable[[str], Tree]) -> Tree:
    return release_tree(request.param)


def _write(tree: Tree, parent: Path) -> None:
    for path in tree:
        if path.startswith("sglang/"):
            target = parent / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(tree.read(path))
    for path, change in _changes(tree).files.items():
        assert change.after is not None
        (parent / path).write_bytes(change.after)


def test_rendered_modules(release: Tree) -> None:
    """All there, whole, for Python 3.10 on, and of a size that can be read."""
    files = _changes(release).files
    found = {path for path in files if Path(path).name.startswith("ddtree_")}
    assert found == {f"{HOME}/ddtree_{name}.py" for name in MODULES}
    for path in sorted(found):
        after = files[path].after
        assert after is not None
        text = after.decode()
        ast.parse(text, feature_version=(3, 10))
        assert "{{" not in text
        assert "{%" not in text
        assert text.count("\n") <= 400
        assert max(len(line) for line in text.splitlines()) <= 100


def test_context_names_what_the_templates_ask_for() -> None:
    """Every variable is told, has a choice for another release, and is used."""
    context = render.ROOT / "patches" / "ddtree" / "context.toml"
    variables = tomllib.loads(context.read_text())["variable"]
    assert {v["name"] for v in variables} == set(render.NEUTRAL)
    templates = "".join(path.read_text() for path in render.TEMPLATES.rglob("*.j2"))
    for variable in variables:
        assert variable["description"]
        assert len({choice["value"] for choice in variable["choice"]}) == 2
        assert variable["name"] in templates


def test_a_release_uses_only_names_of_its_own(release: Tree) -> None:
    """No name that another release has in its place is left in the rendered text."""
    names = {
        "current_token_field": ("verified_id", "bonus_tokens"),
        "correct_drafts_counter": ("spec_accepted_drafts", "spec_num_correct_drafts"),
        "finish_check": ("check_finished", "update_finish_state"),
    }
    worker = _changes(release).files[f"{HOME}/ddtree_worker.py"].after
    info = _changes(release).files[f"{HOME}/ddtree_info.py"].after
    assert worker is not None
    assert info is not None
    text = (worker + info).decode()
    own = release.read(f"{HOME}/dflash_info.py").decode()
    for old, new in names.values():
        assert (old in text) != (new in text)
        assert (old if old in text else new) in own


def _run(parent: Path) -> dict[str, Any]:
    """All scenarios of ``release_step`` in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-m", f"{__package__}.release_step", str(parent)],
        cwd=render.ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout))


def test_decode_through_the_scheduler_types(release: Tree, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: decode steps not run")
    pytest.importorskip("triton", reason="triton is not installed: decode steps not run")
    _write(release, tmp_path)
    found = _run(tmp_path)

    arguments = found["arguments"]
    assert (arguments["algorithm"], arguments["budget"]) == ("DDTREE", 7)
    assert (arguments["verify_width"], arguments["block"]) == (8, 5)
    assert arguments["overlap_off"] is True
    assert arguments["predicates"] == ["DDTREE", True, True, False, False]
    assert sorted(arguments["refused"]) == [
        "attention_backend",
        "disaggregation_mode",
        "enable_dp_attention",
        "page_size",
        "pp_size",
        "speculative_accept_threshold_acc",
        "speculative_ddtree_budget",
    ]
    assert all("DDTREE" in words for words in arguments["refused"].values())

    assert found["capture"] == {
        "target": ["DDTreeVerifyInput", 10, True, True],
        "draft": ["DFlashVerifyInput", 5, False, True],
    }

    greedy = found["greedy"]
    assert (greedy["draft_block"], greedy["verify_width"]) == (5, 10)
    assert set(greedy["emitted_per_step"]) == {1, 2, 3, 4, 5}
    ends = {name: reason for name, (_, reason) in greedy["outputs"].items()}
    assert ends["b"] == ends["d"] == "FINISH_MATCHED_TOKEN"
    assert {ends[name] for name in "acefg"} == {"FINISH_LENGTH"}

    assert max(found["singles"]["steps"]) < 15
    assert max(found["chain"]["emitted_per_step"]) == 5
    assert found["window"]["window"] == 7
    assert max(found["seeded"]["emitted_per_step"]) == 5
    assert len(found["processed"]["began"]) > 2
    assert set(found["standins"]) <= set(standins.PACKAGES)
