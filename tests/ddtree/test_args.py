"""The argument handler: what it derives, and every refusal with the flag that helps."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from . import load, render

# The handler takes two constants from the tree module, which needs torch.
pytest.importorskip("torch", reason="torch is not installed: the argument handler not run")

OLD_WINDOW, NEW_WINDOW = "speculative_dflash_draft_window_size", "speculative_draft_window_size"


@pytest.fixture(params=[OLD_WINDOW, NEW_WINDOW], scope="module")
def window_field(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def args(window_field: str, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The handler as rendered for either name of the window argument."""
    load.module("tree")
    values = {**render.NEUTRAL, "draft_window_field": window_field}
    text = render.render(values)["sglang/srt/speculative/ddtree_args.py"]
    path = Path(tmp_path_factory.mktemp("args")) / "ddtree_args.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"ddtree_args_{window_field}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def good(window_field: str) -> dict[str, Any]:
    return {
        "device": "cuda",
        "speculative_draft_model_path": "drafter",
        "speculative_draft_model_revision": "main",
        "trust_remote_code": False,
        "json_model_override_args": "{}",
        "enable_dp_attention": False,
        "pp_size": 1,
        "attn_cp_size": 1,
        "disaggregation_mode": "null",
        "page_size": 1,
        "speculative_accept_threshold_single": 1.0,
        "speculative_accept_threshold_acc": 1.0,
        "speculative_adaptive": False,
        "speculative_attention_mode": "prefill",
        "speculative_ddtree_budget": None,
        "speculative_num_draft_tokens": None,
        "speculative_dflash_block_size": 16,
        "speculative_num_steps": None,
        "speculative_eagle_topk": None,
        "max_running_requests": None,
        "disable_overlap_schedule": False,
        "enable_mixed_chunk": True,
        window_field: None,
        "backends": ("triton", "triton"),
        "mla": False,
    }


def _handle(args: ModuleType, values: dict[str, Any], **changes: Any) -> SimpleNamespace:
    server_args = SimpleNamespace(**{**values, **changes})
    server_args.get_attention_backends = lambda: server_args.backends
    server_args.use_mla_backend = lambda: server_args.mla
    args.handle_ddtree_args(server_args)
    return server_args


def test_defaults(args: ModuleType, good: dict[str, Any]) -> None:
    done = _handle(args, good)
    assert done.speculative_ddtree_budget == 31
    assert done.speculative_num_draft_tokens == 32
    assert done.speculative_dflash_block_size == 16
    assert (done.speculative_num_steps, done.speculative_eagle_topk) == (1, 1)
    assert done.max_running_requests == 48
    assert done.disable_overlap_schedule is True
    assert done.enable_mixed_chunk is False


def test_deriving_twice_changes_nothing(args: ModuleType, good: dict[str, Any]) -> None:
    once = vars(_handle(args, good, speculative_ddtree_budget=63))
    again = vars(_handle(args, {k: v for k, v in once.items() if k in good}))
    assert {k: again[k] for k in good} == {k: once[k] for k in good}


@pytest.mark.parametrize(
    ("budget", "running"), [(1, 48), (31, 48), (63, 24), (127, 12), (255, 8), (511, 8)]
)
def test_running_requests_follow_the_budget(
    args: ModuleType, good: dict[str, Any], budget: int, running: int
) -> None:
    changes = {"speculative_ddtree_budget": budget, "speculative_dflash_block_size": 2}
    done = _handle(args, good, **changes)
    assert done.max_running_requests == running
    assert done.speculative_num_draft_tokens == budget + 1
    kept = _handle(args, good, **changes, max_running_requests=99)
    assert kept.max_running_requests == 99


def test_smallest_budget_for_a_block(args: ModuleType, good: dict[str, Any]) -> None:
    """The draft block borrows KV slots and table columns that are sized for the verify width."""
    assert _handle(args, good, speculative_ddtree_budget=15).speculative_num_draft_tokens == 16


def test_verify_width_alone_gives_the_budget(args: ModuleType, good: dict[str, Any]) -> None:
    assert _handle(args, good, speculative_num_draft_tokens=24).speculative_ddtree_budget == 23


def test_eagle_shape_is_set_to_one(
    args: ModuleType, good: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    done = _handle(args, good, speculative_num_steps=5, speculative_eagle_topk=4)
    assert (done.speculative_num_steps, done.speculative_eagle_topk) == (1, 1)
    assert "speculative_num_steps" in caplog.text
    assert "speculative_eagle_topk" in caplog.text


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"device": "cpu"}, "--device cuda"),
        ({"speculative_draft_model_path": None}, "--speculative-draft-model-path"),
        ({"enable_dp_attention": True}, "--enable-dp-attention"),
        ({"pp_size": 2}, "--pp-size 1"),
        ({"attn_cp_size": 2}, "--attention-context-parallel-size"),
        ({"disaggregation_mode": "decode"}, "--disaggregation-mode"),
        ({"page_size": 16}, "--page-size 1"),
        (
            {"speculative_accept_threshold_single": 0.9},
            "--speculative-accept-threshold-single at 1.0",
        ),
        ({"speculative_accept_threshold_acc": 0.5}, "--speculative-accept-threshold-acc at 1.0"),
        ({"speculative_adaptive": True}, "--speculative-adaptive"),
        ({"mla": True}, "--speculative-algorithm DFLASH"),
        ({"backends": ("fa3", "fa3")}, "--attention-backend triton or flashinfer"),
        ({"backends": ("fa4", "fa4")}, "--attention-backend triton or flashinfer"),
        ({"backends": ("trtllm_mha", "trtllm_mha")}, "--attention-backend triton or flashinfer"),
        ({"backends": ("fa3", "triton")}, "--speculative-attention-mode"),
        (
            {"backends": ("triton", "fa3"), "speculative_attention_mode": "decode"},
            "--speculative-attention-mode",
        ),
        ({"backends": (None, None)}, "--attention-backend triton or flashinfer"),
        ({"speculative_ddtree_budget": 0}, "--speculative-algorithm DFLASH"),
        ({"speculative_ddtree_budget": -3}, "--speculative-ddtree-budget"),
        ({"speculative_ddtree_budget": 512}, "--speculative-ddtree-budget"),
        ({"speculative_num_draft_tokens": 1}, "--speculative-ddtree-budget"),
        (
            {"speculative_ddtree_budget": 31, "speculative_num_draft_tokens": 16},
            "--speculative-num-draft-tokens",
        ),
        ({"speculative_ddtree_budget": 14}, "--speculative-ddtree-budget to 15"),
        ({"speculative_ddtree_budget": 14}, "--speculative-dflash-block-size to 15"),
        ({"speculative_dflash_block_size": 1}, "--speculative-dflash-block-size"),
        ({"speculative_dflash_block_size": 64}, "--speculative-dflash-block-size"),
    ],
)
def test_refusal_names_the_flag(
    args: ModuleType, good: dict[str, Any], changes: dict[str, Any], flag: str
) -> None:
    with pytest.raises(ValueError, match="DDTREE") as refused:
        _handle(args, good, **changes)
    assert flag in str(refused.value)


@pytest.mark.parametrize(
    ("backends", "mode"),
    [
        (("triton", "triton"), "prefill"),
        (("flashinfer", "flashinfer"), "decode"),
        (("triton", "fa3"), "prefill"),
        (("fa3", "flashinfer"), "decode"),
    ],
)
def test_backend_that_verifies_is_what_counts(
    args: ModuleType, good: dict[str, Any], backends: tuple[str, str], mode: str
) -> None:
    _handle(args, good, backends=backends, speculative_attention_mode=mode)


def test_window_is_held_against_the_block_not_the_tree(
    args: ModuleType, good: dict[str, Any], window_field: str
) -> None:
    done = _handle(args, good, speculative_ddtree_budget=127, **{window_field: "16"})
    assert getattr(done, window_field) == 16
    with pytest.raises(ValueError, match="draft block") as refused:
        _handle(args, good, **{window_field: 15})
    assert f"--{window_field.replace('_', '-')}" in str(refused.value)


@pytest.mark.parametrize(("configured", "block_size"), [(10, 10), (None, 16)])
def test_block_size_comes_from_the_drafter(
    args: ModuleType,
    good: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    configured: int | None,
    block_size: int,
) -> None:
    asked: list[Any] = []

    def get_config(path: str, **keywords: Any) -> Any:
        asked.append((path, keywords))
        return "config"

    def parse(*, draft_hf_config: Any) -> Any:
        assert draft_hf_config == "config"
        return SimpleNamespace(resolve_block_size=lambda: configured)

    for name, members in {
        "sglang.srt.utils": {},
        "sglang.srt.utils.hf_transformers_utils": {"get_config": get_config},
        "sglang.srt.speculative.dflash_utils": {"parse_dflash_draft_config": parse},
    }.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)
    done = _handle(args, good, speculative_dflash_block_size=None)
    assert done.speculative_dflash_block_size == block_size
    assert asked[0][0] == "drafter"
    assert asked[0][1]["revision"] == "main"


@pytest.mark.parametrize("window", [None, -1, 0])
def test_plain_target_is_accepted(args: ModuleType, window: int | None) -> None:
    args.check_target(SimpleNamespace(mambaish_config=None, sliding_window_size=window))


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"mambaish_config": object(), "sliding_window_size": None}, "Mamba"),
        ({"mambaish_config": None, "sliding_window_size": 128}, "sliding-window"),
    ],
)
def test_target_is_refused(args: ModuleType, target: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        args.check_target(SimpleNamespace(**target))
    assert "--speculative-algorithm DFLASH" in str(refused.value)
