"""Runs ``on_gpu`` where there is a GPU, in a process that compiles the kernel for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from . import render


def test_device_half() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: GPU half not run")
    if not torch.cuda.is_available():
        pytest.skip("no GPU here: kernel compiled, CUDA graphs and sync-freedom not run")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", f"{__package__}.on_gpu"],
        cwd=render.ROOT,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout)["kernel_trees"] == 90
