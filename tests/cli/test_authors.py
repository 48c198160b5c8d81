"""The commands for those who write patches: ``test`` and ``record``, and sets of one's own."""

from pathlib import Path

import pytest

from tests.cli.conftest import Ddpatch

GREETING = Path(__file__).parents[1] / "sets" / "greeting"


def test_all_cases_of_the_set_hold(ddpatch: Ddpatch) -> None:
    answer = ddpatch("test", "--json")
    assert answer.code == 0
    assert len(answer.json["cases"]) > 10
    assert all(case["holds"] for case in answer.json["cases"])


def test_a_set_of_ones_own(ddpatch: Ddpatch) -> None:
    answer = ddpatch("test", "language", "--set", str(GREETING), "--json").json
    assert answer["set"] == "greeting@3"
    assert [case["patch"] for case in answer["cases"]] == ["language"]


def test_a_case_that_does_not_hold_shows_the_difference(ddpatch: Ddpatch, tmp_path: Path) -> None:
    copy = tmp_path / "broken"
    copy.mkdir()
    (copy / "__init__.py").write_text((GREETING / "__init__.py").read_text())
    text = (GREETING / "language.py").read_text()
    (copy / "language.py").write_text(text.replace('ESPERANTO = "x-eo"\\n', 'IDO = "x-eo"\\n'))
    answer = ddpatch("test", "--set", str(copy), "--json")
    assert answer.code == 1
    (finding,) = answer.json["findings"]
    assert '+    ESPERANTO = "x-eo"' in finding["message"]
    assert '-    IDO = "x-eo"' in finding["message"]


def test_a_patch_that_is_not_there_names_those_that_are(ddpatch: Ddpatch) -> None:
    answer = ddpatch("test", "nosuch", "--json")
    assert answer.code == 2
    assert "graph-capture" in answer.json["next_step"]


@pytest.mark.network
def test_a_patch_alone_on_a_release(ddpatch: Ddpatch) -> None:
    answer = ddpatch("test", "cli-choice", "--version", "0.5.13", "--json")
    assert answer.code == 0
    assert answer.json["patches"] == [
        {"id": "cli-choice", "outcome": "not-needed", "strategy": "free-string"}
    ]


@pytest.mark.network
def test_a_recorded_release_is_as_its_file_says(ddpatch: Ddpatch) -> None:
    answer = ddpatch("record", "0.5.11", "--check", "--json")
    assert answer.code == 0
    assert answer.json["outcome"] == "same"


@pytest.mark.network
def test_a_release_that_cannot_be_patched_is_not_recorded(ddpatch: Ddpatch) -> None:
    answer = ddpatch("record", "0.5.10", "--json")
    assert answer.code == 1
    assert "nothing was recorded" in answer.json["headline"]
