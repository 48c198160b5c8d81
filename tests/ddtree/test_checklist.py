"""The checklist names tests and scenarios that exist."""

from __future__ import annotations

import re
from pathlib import Path

from . import render

_HERE = Path(__file__).parent
_TEXT = (render.ROOT / "docs" / "ddtree-checklist.md").read_text()


def test_names_in_the_checklist() -> None:
    files = {path.name: path.read_text() for path in _HERE.glob("*.py")}
    named = set(re.findall(r"`(test_\w+)`|::(test_\w+)|(test_\w+)\.py", _TEXT))
    for name in {next(filter(None, groups)) for groups in named}:
        known = f"{name}.py" in files or any(f"def {name}(" in text for text in files.values())
        assert known, name


def test_scenarios_in_the_checklist() -> None:
    steps = (_HERE / "release_step.py").read_text()
    named = set(re.findall(r"`release:(\w+)`", _TEXT)) - {"NAME"}
    assert len(named) > 5
    for name in named:
        assert f'"{name}": {name},' in steps, name
