"""Runs ``on_gpu`` where there is a GPU, in a process that compiles the kernel for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from . import render


def _run(module: str, *arguments: str) -> Any:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", f"{__package__}.{module}", *arguments],
        cwd=render.ROOT,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def test_device_half() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: GPU half not run")
    if not torch.cuda.is_available():
        pytest.skip("no GPU here: kernel compiled, CUDA graphs and sync-freedom not run")
    assert _run("on_gpu")["kernel_trees"] == 90


def test_tensor_parallel_ranks() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: ranks not run")
    if torch.cuda.device_count() < 2:
        pytest.skip("fewer than two GPUs here: vocabulary-parallel drafting over NCCL not run")
    assert _run("on_gpus", "2")["ranks"] == 2
