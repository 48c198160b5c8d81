"""A push or a rollback that is cut at any point leaves a state that the next command settles."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def drive(action: str, kind: str, folder: Path, seed: int = 0) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.remote.faultdriver", action, kind, str(folder), str(seed)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["violations"] == []
    return result


@pytest.mark.parametrize(("action", "least"), [("push", 65), ("rollback", 35)])
@pytest.mark.parametrize("kind", ["kill", "stacked"])
def test_kill_at_every_point_once(action: str, least: int, kind: str, memory: Path) -> None:
    result = drive(action, kind, memory / "case")
    assert result["points"] >= least
    # The kill does cut things in half: otherwise this test would prove nothing.
    assert result["after"]["mixed"] >= 5
    assert {"old", "new"} <= result["after"].keys()


@pytest.mark.parametrize(("action", "settled"), [("push", "error:old"), ("rollback", "ok:old")])
def test_error_at_every_point_undoes_itself(action: str, settled: str, memory: Path) -> None:
    result = drive(action, "error", memory / "case")
    assert not [key for key in result["after"] if "mixed" in key or "crash" in key]
    assert result["after"][settled] > result["points"] * 0.8


@pytest.mark.parametrize("action", ["push", "rollback"])
def test_kill_and_then_kill_the_recovery(action: str, memory: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    result = drive(action, "double", memory / "case", seed)
    assert result["after"]["killed twice"] >= 3
