"""Load the rendered modules without an SGLang, on what little they take from it."""

from __future__ import annotations

import importlib
import sys
import tempfile
import types
from functools import lru_cache
from pathlib import Path

from . import render

PACKAGE = "sglang.srt.speculative"


@lru_cache(maxsize=1)
def _installed() -> Path:
    """Put stub packages and the rendered files on the import path, once per process."""
    parent = Path(tempfile.mkdtemp(prefix="ddtree-"))
    render.write(render.NEUTRAL, parent)
    for name in ("sglang", "sglang.srt", PACKAGE):
        module = types.ModuleType(name)
        module.__path__ = [str(parent.joinpath(*name.split(".")))]
        sys.modules[name] = module
    return parent


def module(name: str) -> types.ModuleType:
    """A rendered module that needs nothing of SGLang: tree, reference, triton, head, accept."""
    _installed()
    return importlib.import_module(f"{PACKAGE}.ddtree_{name}")


def module_on_fakes(name: str) -> types.ModuleType:
    """A rendered module on top of ``fakes``: args, info."""
    _installed()
    from . import fakes

    fakes.install()
    return importlib.import_module(f"{PACKAGE}.ddtree_{name}")
