"""Renderers of a :class:`~patcher.model.Report`: one file each, found by walking the package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from patcher.model import Report


@dataclass(frozen=True)
class Renderer:
    """A way to write a report down: its name, what it is for, and the function that does it."""

    name: str
    what: str
    render: Callable[[Report], str]


def renderers() -> dict[str, Renderer]:
    """All renderers by name."""
    found = [
        module.RENDERER
        for info in pkgutil.iter_modules(__path__)
        if hasattr(module := importlib.import_module(f"{__name__}.{info.name}"), "RENDERER")
    ]
    return {r.name: r for r in found}
