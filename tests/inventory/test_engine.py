"""The engine counts every file once, asks each once, and believes only a cache that is its own."""

from __future__ import annotations

import json
import random
import sqlite3
import stat
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inventory
from inventory import _engine
from inventory._cache import TREES_KEPT, Cache
from inventory.model import Inventory, Query, Row
from patcher.model import DdpatchError, UsageError
from patcher.source import Source
from patcher.tree import Tree

SPEC = "sglang/srt/speculative/spec_info.py"
FILES: Mapping[str, bytes] = {
    SPEC: b"class SpeculativeAlgorithm(Enum):\n    DFLASH = auto()\n"
    b"    def is_dflash(self) -> bool:\n        return self == SpeculativeAlgorithm.DFLASH\n",
    "sglang/srt/bom.py": b"\xef\xbb\xbfif spec_algorithm.is_dflash(): pass\n",
    "sglang/srt/crlf.py": b"x = 1\r\nif spec_algorithm.is_dflash():\r\n    pass\r\n",
    "sglang/srt/plain.py": b"print('nothing to see')\n",
    "sglang/srt/broken.py": b"spec_algorithm = (\n",
    "sglang/srt/latin.py": b"# -*- coding: latin-1 -*-\nspec_algorithm = '\xe9'\n",
    "sglang/srt/null.py": b"spec_algorithm = 1\0\n",
    "sglang/srt/data.json": b"{}",
    "sglang-1.dist-info/x.py": b"spec_algorithm",
}


def tree(files: Mapping[str, bytes] = FILES, version: str = "1") -> Tree:
    return Tree.of(dict(files), version)


class CountingTree(Tree):
    """A tree that tells which files were read."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        plain = tree(files)
        super().__init__(plain.files, lambda entry: plain.read(entry.path), plain.facts)
        self.seen: list[str] = []

    def read(self, path: str) -> bytes:
        self.seen.append(path)
        return super().read(path)


def test_every_python_file_is_counted_once() -> None:
    coverage = inventory.run(tree()).coverage
    assert coverage.seen == 7
    assert coverage.parsed == 3
    assert coverage.ruled_out == 1
    assert coverage.seen == coverage.parsed + coverage.ruled_out + len(coverage.unreadable)


def test_an_unreadable_file_has_its_reason() -> None:
    reasons = inventory.run(tree()).coverage.unreadable
    assert list(reasons) == ["sglang/srt/broken.py", "sglang/srt/latin.py", "sglang/srt/null.py"]
    assert reasons["sglang/srt/broken.py"] == "line 1: '(' was never closed"
    assert reasons["sglang/srt/latin.py"] == "encoded as iso-8859-1, not UTF-8"
    assert "null bytes" in reasons["sglang/srt/null.py"]


def test_byte_order_mark_and_crlf_do_not_hide_a_site() -> None:
    places = {
        (row.site.path, row.site.line, row.site.column)
        for row in inventory.run(tree()).where("dispatch", kind="predicate-call")
    }
    assert places == {("sglang/srt/bom.py", 1, 4), ("sglang/srt/crlf.py", 2, 4)}


@given(st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_the_order_of_files_does_not_matter(chance: random.Random) -> None:
    paths = list(FILES)
    chance.shuffle(paths)
    assert inventory.run(tree({p: FILES[p] for p in paths})) == inventory.run(tree())


@given(st.dictionaries(st.from_regex(r"sglang/[a-z]{1,6}\.py", fullmatch=True), st.binary()))
@settings(max_examples=50, deadline=None)
def test_coverage_adds_up_whatever_the_bytes(files: dict[str, bytes]) -> None:
    coverage = inventory.run(tree(files)).coverage
    assert coverage.seen == len(files)
    assert coverage.seen == coverage.parsed + coverage.ruled_out + len(coverage.unreadable)


def test_progress_ends_with_all_files() -> None:
    told: list[tuple[int, int]] = []
    inventory.run(tree(), progress=lambda done, total: told.append((done, total)))
    assert told == [(n, 7) for n in range(1, 8)]


def test_one_query_can_be_asked_alone() -> None:
    only = [q for q in inventory.QUERIES if q.id == "tree_kernels"]
    found = inventory.run(tree(), queries=only)
    assert list(found.rows) == ["tree_kernels"]
    assert (found.coverage.parsed, found.coverage.ruled_out) == (0, 7)
    with pytest.raises(KeyError):
        found.of("dispatch")


# ------------------------------------------------------------------ words and names

NEW = {
    SPEC: b"class SpeculativeAlgorithm(Enum):\n    PHOENIX = auto()\n"
    b"    def is_phoenix(self) -> bool:\n        return self == SpeculativeAlgorithm.PHOENIX\n",
    "sglang/srt/asks.py": b"if x.is_phoenix(): pass\n",
    "sglang/srt/says.py": b"if 'phoenix' in x: pass\n",
    "sglang/srt/else.py": b"x = 1\n",
}


def test_a_file_with_nothing_but_a_name_of_this_tree_is_asked() -> None:
    found = inventory.run(tree(NEW))
    elsewhere = {
        row.site.path: row.fields["symbol"] for row in found.of("dispatch") if row.site.path != SPEC
    }
    assert elsewhere == {"sglang/srt/asks.py": "is_phoenix", "sglang/srt/says.py": "PHOENIX"}
    assert (found.coverage.parsed, found.coverage.ruled_out) == (3, 1)


def test_an_unreadable_file_with_a_name_of_this_tree_has_its_reason() -> None:
    found = inventory.run(tree({**NEW, "sglang/srt/broken.py": b"x.is_phoenix(\n"}))
    assert list(found.coverage.unreadable) == ["sglang/srt/broken.py"]
    assert found.coverage.seen == 5


def test_names_are_asked_for_with_a_cache_too(tmp_path: Path) -> None:
    fresh = inventory.run(tree(NEW), Cache(tmp_path))
    more = tree({**NEW, "sglang/srt/new.py": b"assert x.is_phoenix()\n"})
    again = inventory.run(more, Cache(tmp_path))
    assert fresh == inventory.run(tree(NEW))
    assert again == inventory.run(more)


def test_names_lead_to_more_names() -> None:
    backend = "class AttentionBackend:\n    def init_forward_metadata(self, b): ...\n"
    found = inventory.run(
        tree(
            {
                "sglang/srt/base_attn_backend.py": backend.encode(),
                "sglang/srt/a.py": b"class One(AttentionBackend): ...\n",
                "sglang/srt/b.py": b"class Two(One): ...\n",
                "sglang/srt/c.py": b"class Three(\n    Two\n): ...\n",
            }
        )
    )
    assert {r.fields["name"] for r in found.of("attention_backends")} == {"One", "Two", "Three"}


@pytest.mark.parametrize("text", ["DFLASH", "dflash", "DFlash"])
def test_a_word_may_be_of_either_case(text: str) -> None:
    found = inventory.run(tree({**FILES, "sglang/srt/new.py": f"if x == '{text}': ...\n".encode()}))
    assert [r.fields["symbol"] for r in found.where("dispatch", path="sglang/srt/new.py")] == [
        "DFLASH"
    ]


# ---------------------------------------------------------- what every release must have

_ANCHORS = {name for query in inventory.QUERIES for name in query.expects}


def test_an_anchor_that_is_nowhere_is_said() -> None:
    found = inventory.run(tree())
    assert set(found.missing) == _ANCHORS - {"SpeculativeAlgorithm", "spec_info"}
    assert len(set(found.missing)) == len(found.missing)


def test_a_renamed_anchor_is_said() -> None:
    renamed = FILES[SPEC].replace(b"SpeculativeAlgorithm", b"DraftingAlgorithm")
    found = inventory.run(tree({**FILES, SPEC: renamed}))
    assert found.of("algorithms") == () and found.of("dispatch") == ()
    assert set(found.missing) >= {"SpeculativeAlgorithm", "is_eagle()"}


def test_an_anchor_of_a_query_that_was_not_asked_is_not_missed() -> None:
    only = [q for q in inventory.QUERIES if q.id == "workers"]
    assert inventory.run(tree(), queries=only).missing == ("BaseSpecWorker",)


def test_a_runtime_without_the_family_misses_the_family() -> None:
    assert inventory.run(tree({"sglang/srt/x.py": b""})).missing == ("sglang/srt/speculative/",)
    assert inventory.run(tree({"sglang/x.py": b""})).missing == ()


def test_what_is_missing_is_kept(tmp_path: Path) -> None:
    fresh = inventory.run(tree(), Cache(tmp_path))
    assert inventory.run(tree(), Cache(tmp_path)).missing == fresh.missing != ()
    value = inventory.inventory_to(fresh)
    assert value["missing"] == list(fresh.missing)


# ---------------------------------------------------------------------------- order


def _query(order: tuple[tuple[str, tuple[str, ...]], ...]) -> Query:
    def visit(source: Source) -> list[Row]:
        words = source.data.decode().split("=")[1].split()
        return [
            Row(source.site_at(0, 1), {"n": len(words), "word": word.strip('"')}) for word in words
        ]

    return Query("q", "t", "w.", {"word": "a", "n": "b"}, (b"x",), visit, order=order)


def _words(order: tuple[tuple[str, tuple[str, ...]], ...], **files: str) -> list[str]:
    data = {
        f"sglang/{path.replace('__', '/')}.py": f"x='{text}'\n".replace("'", '"').encode()
        for path, text in files.items()
    }
    rows = inventory.run(tree(data), queries=[_query(order)]).of("q")
    assert all(list(row.fields) == ["word", "n"] for row in rows)
    return [str(row.fields["word"]) for row in rows]


def test_rows_go_by_the_values_that_a_query_names_first() -> None:
    assert _words((("word", ("use",)),), a="one use", b="use two") == ["use", "use", "one", "two"]
    assert _words((("word", ("b",)), ("word", ())), a="c b a", b="b") == ["b", "b", "a", "c"]


def test_the_greatest_number_comes_first() -> None:
    assert _words((("n", ()),), a="one", b="two two") == ["two", "two", "one"]


def test_rows_go_from_the_speculative_package_outwards() -> None:
    found = _words(
        (),
        srt__hardware_backend__npu__x="npu",
        srt__layers__xpu_backend="xpu",
        srt__layers__x="runtime",
        srt__speculative__x="own",
        bench="aside",
        test__x="test",
    )
    assert found == ["own", "runtime", "aside", "test", "npu", "xpu"]


# ------------------------------------------------------------------------ discovery


def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> ModuleType:
    folder = tmp_path / f"found_{tmp_path.name.replace('-', '_')}"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return __import__(folder.name)


_QUERY = """\
from inventory.model import Query
QUERY = Query("{}", "t", "w.", {{}}, (b"x",), lambda source: ())
"""


def test_a_new_file_is_a_new_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _package(tmp_path, monkeypatch, b=_QUERY.format("two"), a=_QUERY.format("one"), _c="")
    assert [q.id for q in _engine.discover(found)] == ["one", "two"]


def test_a_file_without_a_query_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="a exports no QUERY"):
        _engine.discover(_package(tmp_path, monkeypatch, a="x = 1\n"))


def test_two_queries_of_one_name_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = _QUERY.format("one")
    with pytest.raises(ValueError, match="two queries are called 'one'"):
        _engine.discover(_package(tmp_path, monkeypatch, a=same, b=same))


# ----------------------------------------------------------------------------- JSON


def test_json_is_complete_and_reads_back() -> None:
    found = inventory.run(tree())
    value = json.loads(json.dumps(inventory.inventory_to(found)))
    assert inventory.inventory_from(value) == found
    assert value["schema_version"] == 1
    assert value["coverage"]["seen"] == 7
    for query in value["queries"]:
        assert query["count"] == len(query["sites"]) == len(found.of(query["id"]))
        for site in query["sites"]:
            assert {"path", "line", "column", "end_line", "scope"} <= site.keys()


def test_json_of_another_schema_is_refused() -> None:
    value = inventory.inventory_to(inventory.run(tree()))
    with pytest.raises(DdpatchError, match="schema 99"):
        inventory.inventory_from({**value, "schema_version": 99})


# ---------------------------------------------------------------------------- cache


def test_a_known_tree_is_answered_without_reading(tmp_path: Path) -> None:
    first = CountingTree(FILES)
    fresh = inventory.run(first, Cache(tmp_path / "c"))
    assert len(first.seen) == 7
    again = CountingTree(FILES)
    assert inventory.run(again, Cache(tmp_path / "c")) == fresh == inventory.run(tree())
    assert again.seen == []


def test_a_changed_tree_costs_its_changed_files(tmp_path: Path) -> None:
    inventory.run(CountingTree(FILES), Cache(tmp_path))
    changed = {**FILES, "sglang/srt/plain.py": b"assert spec_algorithm.is_dflash()\n"}
    patched = CountingTree(changed)
    found = inventory.run(patched, Cache(tmp_path))
    assert patched.seen == ["sglang/srt/plain.py"]
    assert found == inventory.run(tree(changed))
    assert found != inventory.run(tree())


def test_the_same_bytes_at_another_path_are_asked_anew(tmp_path: Path) -> None:
    inventory.run(tree(), Cache(tmp_path))
    moved = {**FILES, "sglang/srt/speculative/new.py": FILES["sglang/srt/plain.py"]}
    found = inventory.run(tree(moved), Cache(tmp_path))
    assert any(found.where("modules", path="sglang/srt/speculative/new.py"))


def test_the_version_is_the_trees_own(tmp_path: Path) -> None:
    inventory.run(tree(version="1"), Cache(tmp_path))
    assert inventory.run(tree(version="2"), Cache(tmp_path)).version == "2"


def test_only_the_owner_can_read_the_cache(tmp_path: Path) -> None:
    inventory.run(tree(), Cache(tmp_path / "new"))
    (made,) = (tmp_path / "new").iterdir()
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700


def _spoil(path: Path, sql: str) -> None:
    base = sqlite3.connect(path)
    with base:
        base.execute(sql)
    base.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE trees SET answer = x'00'",
        "UPDATE trees SET answer = NULL",
        "DELETE FROM trees",
        "PRAGMA user_version = 77",
    ],
)
@pytest.mark.parametrize("files", ["UPDATE files SET answer = x'789c'", "DELETE FROM files"])
def test_a_spoilt_answer_is_given_anew(tmp_path: Path, sql: str, files: str) -> None:
    fresh = inventory.run(tree(), Cache(tmp_path))
    _spoil(tmp_path / "inventory.sqlite", files)
    _spoil(tmp_path / "inventory.sqlite", sql)
    assert inventory.run(tree(), Cache(tmp_path)) == fresh
    again = CountingTree(FILES)
    assert inventory.run(again, Cache(tmp_path)) == fresh
    assert again.seen == []


@pytest.mark.parametrize("keep", [0, 40, 3000])
def test_a_damaged_database_is_replaced(tmp_path: Path, keep: int) -> None:
    fresh = inventory.run(tree(), Cache(tmp_path))
    path = tmp_path / "inventory.sqlite"
    path.write_bytes(path.read_bytes()[:keep] + b"\xff" * 5000)
    assert inventory.run(tree(), Cache(tmp_path)) == fresh
    again = CountingTree(FILES)
    assert inventory.run(again, Cache(tmp_path)) == fresh
    assert again.seen == []


def test_answers_of_another_engine_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory.run(tree(), Cache(tmp_path))
    monkeypatch.setattr(_engine, "_code_digest", lambda: b"another")
    again = CountingTree(FILES)
    inventory.run(again, Cache(tmp_path))
    assert len(again.seen) == 7


def test_answers_of_fewer_queries_are_not_used(tmp_path: Path) -> None:
    inventory.run(tree(), Cache(tmp_path), queries=inventory.QUERIES[:1])
    assert inventory.run(tree(), Cache(tmp_path)) == inventory.run(tree())


def test_old_trees_make_room(tmp_path: Path) -> None:
    for number in range(TREES_KEPT + 3):
        inventory.run(tree({"sglang/a.py": b"%d" % number}), Cache(tmp_path))
    base = sqlite3.connect(tmp_path / "inventory.sqlite")
    (kept,) = base.execute("SELECT count(*) FROM trees").fetchone()
    base.close()
    assert kept == TREES_KEPT


def test_a_directory_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cache .*inventory\.sqlite cannot be used") as error:
        inventory.run(tree(), Cache(tmp_path / "file"))
    assert "--store" in error.value.next_step


def test_a_neighbour_that_writes_is_waited_for_and_then_said(tmp_path: Path) -> None:
    inventory.run(tree(), Cache(tmp_path))
    neighbour = sqlite3.connect(tmp_path / "inventory.sqlite", isolation_level=None)
    neighbour.execute("BEGIN EXCLUSIVE")
    with pytest.raises(UsageError, match="locked"):
        inventory.run(tree(), Cache(tmp_path, patience_s=0.01))
    neighbour.execute("ROLLBACK")
    neighbour.close()


def test_a_query_may_drop_and_change_rows_last() -> None:
    def visit(source: Source) -> list[Row]:
        return [Row(source.site_at(0, 1), {"n": len(source.data)})]

    def resolve(rows: object, whole: Inventory) -> list[Row]:
        return [Row(r.site, {"n": -1}) for r in whole.of("q") if r.fields["n"] == 2]

    query = Query("q", "t", "w.", {"n": "size"}, (b"x",), visit, resolve)
    found = inventory.run(tree({"sglang/a.py": b"x\n", "sglang/b.py": b"xx\n"}), queries=[query])
    assert [(r.site.path, r.fields) for r in found.of("q")] == [("sglang/a.py", {"n": -1})]
