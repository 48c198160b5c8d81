"""The second process saves time and nothing else: what it cannot answer, the first one asks."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import inventory
from inventory import _engine, _second
from inventory._codec import answer_from
from inventory.model import FileAnswer
from patcher.source import Source
from patcher.tree import Tree

FILES = {f"sglang/f{n}.py": f"# {'x' * n}\nif algo.is_dflash(): ...\n" for n in range(20)} | {
    "sglang/spec.py": "class SpeculativeAlgorithm(Enum):\n    DFLASH = auto()\n"
    "    def is_dflash(self) -> bool: return self == SpeculativeAlgorithm.DFLASH\n",
    "sglang/broken.py": "dflash = (\n",
}


@pytest.fixture
def alone() -> inventory.Inventory:
    assert len(FILES) < _second.WORTH_IT
    return inventory.run(Tree.of(FILES))


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Use a second process for any number of files; tells how many it was given."""
    sent: list[int] = []
    give = _second.Second.give

    def counted(self: _second.Second, sources: list[Source]) -> None:
        sent.append(len(sources))
        give(self, sources)

    monkeypatch.setattr(_engine, "WORTH_IT", 1)
    monkeypatch.setattr(_engine, "available", lambda: True)
    monkeypatch.setattr(_second.Second, "give", counted)
    return sent


def test_both_together_answer_as_one_alone(alone: inventory.Inventory, busy: list[int]) -> None:
    told: list[tuple[int, int]] = []
    found = inventory.run(Tree.of(FILES), progress=lambda done, total: told.append((done, total)))
    assert found == alone
    assert len(busy) == 1 and 0 < busy[0] < 22
    assert told == [(n, 22) for n in range(1, 23)]


@pytest.mark.parametrize(
    "program",
    ["raise SystemExit(3)", "import sys; sys.stdin.buffer.read(); raise ValueError"],
    ids=["dies at once", "dies at the end"],
)
def test_a_second_process_that_dies_costs_only_time(
    alone: inventory.Inventory,
    busy: list[int],
    monkeypatch: pytest.MonkeyPatch,
    program: str,
) -> None:
    monkeypatch.setattr(_second, "_PROGRAM", program)
    big = {f"sglang/big{n}.py": "# dflash\n" + "x = 1\n" * 20_000 for n in range(4)}
    assert inventory.run(Tree.of(FILES | big)).rows == alone.rows
    assert busy


def test_it_is_ended_when_the_first_fails(monkeypatch: pytest.MonkeyPatch, busy: list[int]) -> None:
    ended: list[object] = []
    leave = _second.Second.__exit__

    def seen(self: _second.Second, *why: object) -> None:
        leave(self, *why)  # type: ignore[arg-type]
        ended.append(self._process.returncode)

    monkeypatch.setattr(_second.Second, "__exit__", seen)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inventory.run(Tree.of(FILES), progress=stop)
    assert ended and ended[0] is not None


def test_other_queries_are_asked_alone(busy: list[int]) -> None:
    inventory.run(Tree.of(FILES), queries=inventory.QUERIES[:2])
    assert busy == []


@given(st.lists(st.tuples(st.text(), st.binary()), unique_by=lambda pair: pair[0]))
def test_frames_carry_any_path_and_bytes(files: list[tuple[str, bytes]]) -> None:
    stream = io.BytesIO()
    for path, data in files:
        _second._send(stream, Source(path, data))
    stream.seek(0)
    answers = _second.serve(stream, lambda source: FileAnswer("unreadable", source.data.hex()))
    back = {p: answer_from(v).reason for p, v in json.loads(json.dumps(answers)).items()}
    assert back == {path: data.hex() for path, data in files}


@given(st.lists(st.binary(max_size=50)))
def test_halves_lose_nothing(contents: list[bytes]) -> None:
    sources = [Source(f"{n}.py", data) for n, data in enumerate(contents)]
    one, two = _second.halves(sources)
    assert sorted(s.path for s in [*one, *two]) == sorted(s.path for s in sources)
    sizes = [sum(len(s.data) for s in part) for part in (one, two)]
    assert abs(sizes[0] - sizes[1]) <= 50


def test_all_files_are_read_before_the_first_is_asked() -> None:
    """Whoever gives files is not kept waiting until they are answered."""
    stream = io.BytesIO(b'["a.py", 1]\nx["b.py", 1]\ny')
    left: list[int] = []

    def ask(source: Source) -> FileAnswer:
        left.append(len(stream.getvalue()) - stream.tell())
        return FileAnswer("parsed")

    assert list(_second.serve(stream, ask)) == ["a.py", "b.py"]
    assert left == [0, 0]
