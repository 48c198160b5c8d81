"""Stand-ins for what SGLang imports and a machine without a GPU does not have.

This file is the whole list. ``PACKAGES`` are third-party packages: importing one, or anything
below it, gives a module whose every attribute is a class that can be subclassed, called, indexed
and used as a decorator, and that does nothing. None of them takes part in the decode step that
``release_step`` runs; code of SGLang itself is never replaced, except for the few functions of
``release_step.PATCHED``.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

#: Third-party packages, each with what SGLang wants it for.
PACKAGES = {
    "aiohttp": "HTTP client",
    "compressed_tensors": "quantisation formats",
    "dill": "pickling of custom logit processors",
    "einops": "tensor shapes in image models",
    "fastapi": "HTTP server",
    "flashinfer": "attention kernels",
    "gguf": "weight format",
    "huggingface_hub": "downloads",
    "IPython": "utilities for notebooks",
    "msgspec": "message encoding",
    "openai": "API types",
    "orjson": "JSON",
    "partial_json_parser": "tool calls",
    "PIL": "images",
    "psutil": "process information",
    "pybase64": "encoding",
    "pydantic": "API types",
    "regex": "tokenizer",
    "requests": "HTTP client",
    "safetensors": "weight format",
    "sentencepiece": "tokenizer",
    "setproctitle": "process names",
    "sgl_kernel": "CUDA kernels",
    "starlette": "HTTP server",
    "torchvision": "images",
    "tqdm": "progress bars",
    "transformers": "model configurations and tokenizers",
    "uvicorn": "HTTP server",
    "xgrammar": "grammars",
    "zmq": "message sockets",
}


class _Anything(type):
    """Metaclass of the stand-ins: attributes, items and calls all lead to another one."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name != "__func__":
            raise AttributeError(name)
        made = _Anything(name, (Standin,), {})
        setattr(cls, name, made)
        return made

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __setitem__(cls, key: Any, value: Any) -> None:
        pass

    def __contains__(cls, key: Any) -> bool:
        return False

    def __or__(cls, other: Any) -> Any:
        return cls

    def __ror__(cls, other: Any) -> Any:
        return cls

    def __iter__(cls) -> Any:
        return iter(())

    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        # As a decorator: leave alone what is decorated.
        if len(args) == 1 and not keywords and isinstance(args[0], types.FunctionType | type):
            return args[0]
        return super().__call__()


class Standin(metaclass=_Anything):
    """An object that accepts everything and does nothing."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        pass

    def __init__(self, *args: Any, **keywords: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return getattr(type(self), name)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if len(args) == 1 and not keywords and isinstance(args[0], types.FunctionType | type):
            return args[0]
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


#: Attributes that must be more than "anything".
SPECIAL: dict[tuple[str, str], Any] = {
    ("dill", "dumps"): lambda value: b"",
}


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if (self.__name__, name) in SPECIAL:
            return SPECIAL[self.__name__, name]
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made = _Anything(name, (Standin,), {})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for the listed packages, and remembers which were asked for."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        top = fullname.partition(".")[0]
        if top not in PACKAGES:
            return None
        self.used.add(top)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def install() -> Finder:
    """Put the stand-ins in front of whatever happens to be installed, so that runs are alike."""
    finder = Finder()
    sys.meta_path.insert(0, finder)
    return finder
