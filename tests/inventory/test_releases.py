"""What the queries find in official releases, held against facts gathered by other means."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import inventory
from inventory.model import Inventory, Row
from patcher.source import Source
from patcher.tree import Tree
from tests.inventory.places import points_at_code

pytestmark = pytest.mark.network

Release = Callable[[str], Tree]
DATA = Path(__file__).parent / "data"
SPEC_INFO = "sglang/srt/speculative/spec_info.py"
SITES: dict[str, list[list[str]]] = json.loads((DATA / "dflash_sites.json").read_text())
COUNTS: dict[str, dict[str, int]] = json.loads((DATA / "counts.json").read_text())

RELEASES = ["0.5.6", "0.5.10", "0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.19", "0.5.23"]

_INVENTORIES: dict[str, Inventory] = {}


@pytest.fixture
def asked(release_tree: Release) -> Callable[[str], Inventory]:
    """Give the inventory of a release, taken once."""

    def ask(version: str) -> Inventory:
        if version not in _INVENTORIES:
            _INVENTORIES[version] = inventory.run(release_tree(version))
        return _INVENTORIES[version]

    return ask


Asked = Callable[[str], Inventory]


def only(rows: object) -> Row:
    (row,) = rows  # type: ignore[misc]
    assert isinstance(row, Row)
    return row


def one(found: Inventory, query: str, **fields: object) -> Row:
    return only(list(found.where(query, **fields)))


# ------------------------------------------------------------------- dispatch sites


def dflash_sites(found: Inventory) -> set[tuple[str, str, str]]:
    """Sites on DFLASH and on verify inputs as such, where DFLASH is a guest.

    The list they are held against leaves out the files of DFLASH itself and the package's own
    test kits (which build a ``DFlashVerifyInput`` from 0.5.13 on), and names members of
    ``SpecInputType`` without the type.
    """
    return {
        (row.site.path, row.site.scope, str(row.fields["symbol"]).rpartition(".")[2])
        for row in found.of("dispatch")
        if ("DFLASH" in row.fields["on"] or row.fields["symbol"] == "is_verify_input")  # type: ignore[operator]
        and not re.search(r"/dflash\w*\.py$|^sglang/test/", row.site.path)
    }


@pytest.mark.parametrize(("version", "number"), [("0.5.11", 24), ("0.5.12", 25), ("0.5.13", 28)])
def test_dflash_sites(version: str, number: int, asked: Asked) -> None:
    listed = {(path, scope, symbol) for path, scope, symbol in SITES[version]}
    assert len(listed) == number
    assert dflash_sites(asked(version)) == listed


def test_dflash_sites_after_the_code_moved(asked: Asked) -> None:
    listed = {(path, scope, symbol) for path, scope, symbol in SITES["0.5.14"]}
    assert dflash_sites(asked("0.5.14")) == listed


def test_a_release_without_dflash_has_no_site(asked: Asked) -> None:
    found = asked("0.5.10")
    assert not list(found.where("algorithms", role="member", name="DFLASH"))
    assert {symbol for _, _, symbol in dflash_sites(found)} == {"is_verify_input"}
    assert list(found.where("dispatch", family="eagle"))


# ---------------------------------------------------------------- the seed, in whole


def test_all_files_are_accounted_for(asked: Asked) -> None:
    coverage = asked("0.5.11").coverage
    assert coverage.seen == 1882
    assert coverage.parsed + coverage.ruled_out == 1882
    assert coverage.unreadable == {}


@pytest.mark.parametrize("version", sorted(COUNTS))
def test_counts(version: str, asked: Asked) -> None:
    found = asked(version)
    assert {name: len(rows) for name, rows in found.rows.items()} == COUNTS[version]


def test_every_row_points_at_code(release_tree: Release, asked: Asked) -> None:
    tree = release_tree("0.5.11")
    for name, rows in asked("0.5.11").rows.items():
        for row in rows:
            assert points_at_code(tree.source(row.site.path), row), (name, row)


def test_every_symbol_stands_where_its_row_says(release_tree: Release, asked: Asked) -> None:
    tree = release_tree("0.5.11")
    for row in asked("0.5.11").of("dispatch"):
        source = tree.source(row.site.path)
        text = source.lines(row.site.line, row.site.end_line).decode()
        name = str(row.fields["symbol"]).rpartition(".")[2]
        assert name.lower() in text.lower(), row


def test_members_of_the_seed(asked: Asked) -> None:
    found = asked("0.5.11")
    lines = {
        row.fields["name"]: row.site.line
        for row in found.where("algorithms", role="member", path=SPEC_INFO)
    }
    assert lines == {
        "DFLASH": 18,
        "EAGLE": 19,
        "EAGLE3": 20,
        "STANDALONE": 21,
        "NGRAM": 22,
        "NONE": 23,
    }
    assert one(found, "algorithms", role="alias").fields["name"] == "NEXTN"
    assert one(found, "algorithms", role="alias").fields["value"] == "EAGLE"


def test_no_hook_of_the_seed_carries_an_algorithm(asked: Asked) -> None:
    path = "sglang/srt/server_args.py"
    hooks = list(asked("0.5.11").where("extension_points", kind="choices", path=path))
    assert len(hooks) == 12
    assert {row.fields["carries"] for row in hooks} == {"no"}
    assert {row.fields["callers"] for row in hooks} == {()}
    assert not list(asked("0.5.11").where("extension_points", carries="yes"))
    plugins = one(asked("0.5.11"), "extension_points", extends="sglang.srt.plugins")
    assert plugins.fields["carries"] == "indirectly"


def test_choices_of_the_seed_are_a_literal(asked: Asked) -> None:
    row = one(asked("0.5.11"), "arguments", argument="speculative_algorithm", role="choices")
    assert row.fields["choices"] == ("DFLASH", "EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM")
    assert (row.site.line, row.site.scope) == (5367, "ServerArgs.add_cli_args")


def test_kernels_of_the_seed(asked: Asked) -> None:
    found = asked("0.5.11")
    build = one(found, "tree_kernels", role="definition", name="build_tree_kernel_efficient")
    assert build.fields["import_path"] == (
        "sglang.srt.speculative.eagle_utils.build_tree_kernel_efficient"
    )
    assert re.findall(r"(\w+):", str(build.fields["signature"]))[:11] == [
        "verified_id",
        "parent_list",
        "top_scores_index",
        "draft_tokens",
        "seq_lens",
        "seq_lens_sum",
        "topk",
        "spec_steps",
        "num_verify_tokens",
        "tree_mask_mode",
        "tree_mask_buf",
    ]
    verify = one(found, "tree_kernels", role="definition", name="verify_tree_greedy_func")
    assert str(verify.fields["signature"]).startswith(
        "(predicts: torch.Tensor, accept_index: torch.Tensor, accept_token_num: torch.Tensor"
    )
    rebuilt = {
        str(row.fields["import_path"])
        for row in found.where("tree_kernels", name="reconstruct_indices_from_tree_mask")
        if row.fields["role"] == "import"
    }
    assert rebuilt == {"sgl_kernel.speculative.reconstruct_indices_from_tree_mask"}


def test_width_of_the_seed(asked: Asked) -> None:
    row = one(
        asked("0.5.11"),
        "graph_runners",
        role="width",
        scope="CudaGraphRunner.__init__",
        value="self.speculative_num_draft_tokens",
    )
    assert row.fields["when"] == "model_runner.spec_algorithm.is_speculative()"


def test_importers_of_the_seed(asked: Asked) -> None:
    rows = {str(row.fields["module"]): row for row in asked("0.5.11").of("modules")}
    info = rows["sglang.srt.speculative.dflash_info"]
    assert "DFlashVerifyInput" in info.fields["classes"]  # type: ignore[operator]
    assert info.fields["imported_by"] == (
        "sglang/srt/model_executor/cuda_graph_runner.py",
        "sglang/srt/model_executor/model_runner.py",
        "sglang/srt/speculative/dflash_worker.py",
    )
    assert "sglang.srt.models.dflash" in rows


def test_classes_of_dflash_in_the_seed(asked: Asked) -> None:
    found = asked("0.5.11")
    classes = {
        row.site.path.removeprefix("sglang/srt/"): row.fields["classes"]
        for row in found.where("modules", role="module")
        if "dflash" in row.site.path
    }
    assert classes == {
        "speculative/dflash_info.py": ("DFlashDraftInput", "DFlashVerifyInput"),
        "speculative/dflash_utils.py": ("DFlashDraftConfig",),
        "speculative/dflash_worker.py": ("DFlashWorker",),
        "models/dflash.py": (
            "DFlashAttention",
            "DFlashMLP",
            "DFlashDecoderLayer",
            "DFlashDraftModel",
        ),
    }


def test_every_dispatch_site_is_counted_with_its_file(asked: Asked) -> None:
    found = asked("0.5.11")
    sites = {row.site.path: row.fields["sites"] for row in found.of("modules")}
    told = Counter(row.site.path for row in found.of("dispatch"))
    assert {path: number for path, number in sites.items() if number} == told
    assert sites["sglang/srt/server_args.py"] == told["sglang/srt/server_args.py"] > 10


def test_validations_of_the_seed_say_the_whole_condition(asked: Asked) -> None:
    refused = {
        (row.site.line, row.fields["argument"]): row.fields["refuses"]
        for row in asked("0.5.11").where("arguments", path="sglang/srt/server_args.py")
    }
    assert refused[3535, "speculative_eagle_topk"] == (
        'self.speculative_algorithm in ("EAGLE", "EAGLE3", "STANDALONE")'
        ' and (self.attention_backend == "trtllm_mha"'
        ' or self.decode_attention_backend == "trtllm_mha"'
        ' or self.prefill_attention_backend == "trtllm_mha")'
        " and self.speculative_eagle_topk > 1"
    )
    assert refused[2453, "speculative_algorithm"] == (
        "not self.enable_mamba_extra_buffer() and not self.disable_radix_cache"
        " and self.speculative_algorithm is not None and not is_hip()"
    )


@pytest.mark.parametrize("version", ["0.5.11", "0.5.23"])
def test_every_condition_parses(version: str, asked: Asked) -> None:
    found = asked(version)
    for query, columns in {
        "arguments": ("refuses", "demands", "when"),
        "graph_runners": ("when",),
    }.items():
        for row in found.of(query):
            for column in columns:
                ast.parse(str(row.fields[column]) or "1", mode="eval")


def test_the_argument_that_names_the_algorithm_comes_first_and_its_reads_last(
    asked: Asked,
) -> None:
    rows = asked("0.5.11").of("arguments")
    first = [row for row in rows if row.fields["argument"] == "speculative_algorithm"]
    assert rows[: len(first)] == tuple(first)
    roles = [role for role, _ in itertools.groupby(row.fields["role"] for row in first)]
    assert roles == ["declaration", "option", "choices", "derivation", "validation", "read"]


@pytest.mark.parametrize("version", RELEASES)
def test_no_release_misses_an_anchor(version: str, asked: Asked) -> None:
    assert asked(version).missing == ()


def test_workers_of_the_seed(asked: Asked) -> None:
    found = asked("0.5.11")
    chosen = {
        row.fields["name"]: row.fields["value"] for row in found.where("algorithms", role="worker")
    }
    assert chosen["DFlashWorker"] == "self.is_dflash()"
    assert chosen["EAGLEWorkerV2"] == "self.is_eagle() and enable_overlap"
    row = one(found, "workers", owner="DFlashWorker", name="forward_batch_generation")
    assert "batch" in str(row.fields["signature"])


# ------------------------------------------------------------- releases, one by one


@cache
def _members(version: str) -> tuple[int, int]:
    return {
        "0.5.10": (5, 18),
        "0.5.11": (6, 18),
        "0.5.12": (7, 32),
        "0.5.13": (7, 35),
        "0.5.14": (7, 35),
        "0.5.19": (8, 39),
        "0.5.23": (9, 39),
    }[version]


LATER = ["0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.19", "0.5.23"]


@pytest.mark.parametrize("version", ["0.5.10", *LATER])
def test_members(version: str, asked: Asked) -> None:
    rows = sorted(row.site.line for row in asked(version).where("algorithms", role="member"))
    assert (len(rows), rows[0]) == _members(version)


@pytest.mark.parametrize("version", LATER)
def test_dflash_has_one_worker_behind_one_predicate(version: str, asked: Asked) -> None:
    found = asked(version)
    workers = [
        row
        for row in found.where("algorithms", role="worker")
        if row.fields["value"] == "self.is_dflash()"
    ]
    assert re.fullmatch(r"DFlashWorker(V2)?", str(only(workers).fields["name"]))
    asks = list(
        found.where("dispatch", symbol="is_dflash", scope="SpeculativeAlgorithm.create_worker")
    )
    assert len(asks) == 1


@pytest.mark.parametrize("version", LATER)
def test_an_algorithm_can_be_registered(version: str, asked: Asked) -> None:
    found = asked(version)
    registries = list(found.where("extension_points", kind="registry"))
    assert bool(registries) == bool(list(found.where("algorithms", role="plugin-class")))
    assert bool(registries) == (version != "0.5.11")
    assert all(row.fields["carries"] == "yes" for row in registries)
    hooks = list(found.where("extension_points", kind="choices"))
    assert len(hooks) >= 12
    assert {row.fields["carries"] for row in hooks} == {"no"}


@pytest.mark.parametrize("version", LATER)
def test_arguments_are_declared_once(version: str, asked: Asked) -> None:
    found = asked(version)
    for name in ("speculative_algorithm", "speculative_eagle_topk", "speculative_num_draft_tokens"):
        rows = [
            row
            for row in found.where("arguments", argument=name, role="declaration", value="None")
            if row.site.scope in ("ServerArgs", "Spec")
        ]
        assert only(rows).fields["type"]
        assert list(found.where("arguments", argument=name, role="derivation"))
    literal = list(found.where("arguments", argument="speculative_algorithm", role="choices"))
    assert bool(literal) == (version == "0.5.11")


@pytest.mark.parametrize("version", LATER)
def test_which_backends_read_a_mask(version: str, asked: Asked) -> None:
    told = {
        str(row.fields["name"]): row.fields["reads_mask"]
        for row in asked(version).of("attention_backends")
    }
    known = {
        "TritonAttnBackend": "yes",
        "FlashInferAttnBackend": "yes",
        "FlashAttentionBackend": "only if topk > 1",
        "MambaAttnBackendBase": "only if topk > 1",
        "FlashInferMLAAttnBackend": "no",
        "FlashMLABackend": "no",
        "TRTLLMHAAttnBackend": "no",
        "TRTLLMMLABackend": "no",
        "HybridAttnBackend": "delegates",
        "TboAttnBackend": "delegates",
    }
    assert {name: told[name] for name in known} == known
    assert told.get("CutlassMLABackend", "no") == "no"


@pytest.mark.parametrize("version", LATER)
def test_tree_utilities_stay_importable(version: str, asked: Asked) -> None:
    found = asked(version)
    for name in ("build_tree_kernel_efficient", "verify_tree_greedy_func"):
        homes = {
            home
            for row in found.where("tree_kernels", name=name)
            for home in row.fields.get("importable_from", ())  # type: ignore[union-attr]
        }
        assert "sglang.srt.speculative.eagle_utils" in homes


@pytest.mark.parametrize("version", ["0.5.11", "0.5.13"])
def test_the_words_rule_out_no_answer(version: str, release_tree: Release, asked: Asked) -> None:
    everywhere = tuple(replace(q, prefilter=(b"",), paths=("",)) for q in inventory.QUERIES)
    found = inventory.run(release_tree(version), queries=everywhere)
    assert found.coverage.ruled_out == 0
    assert found.rows == asked(version).rows


@pytest.mark.parametrize("version", ["0.5.11", "0.5.12", "0.5.13"])
def test_a_recorded_release_is_read_once(
    version: str, release_tree: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = release_tree(version)
    read: list[str] = []
    plain = tree.read
    monkeypatch.setattr(tree, "read", lambda path: read.append(path) or plain(path))
    inventory.run(tree)
    assert sorted(read) == sorted(tree.python_files())


def test_nothing_is_lost_to_a_byte_order_mark(release_tree: Release) -> None:
    tree = release_tree("0.5.11")
    source = tree.source("sglang/srt/models/qwen2_classification.py")
    assert source.bom
    assert isinstance(source, Source) and source.tree.body
