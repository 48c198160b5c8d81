"""The resolver needs nothing but the standard library, so that it can be sent anywhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import patcher

CODE = """
import importlib, pkgutil, sys
before = set(sys.modules)
import patcher.resolve
for info in pkgutil.iter_modules(patcher.resolve.__path__, "patcher.resolve."):
    importlib.import_module(info.name)
for name in sorted(set(sys.modules) - before):
    if name.split(".")[0] not in sys.stdlib_module_names:
        print(name)
"""
ALLOWED = {"patcher", "patcher.collector", "patcher.model", "patcher.source", "patcher.tree"}


def test_it_imports_the_standard_library_only() -> None:
    root = Path(patcher.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=root, capture_output=True, text=True, check=True
    )
    loaded = {n for n in done.stdout.split() if not n.startswith("patcher.resolve")}
    assert loaded == ALLOWED
