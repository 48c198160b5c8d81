"""Configuration: ``ddpatch.toml`` and the defaults, with one precedence everywhere.

Command line, then environment (``DDPATCH_STORE``, ``DDPATCH_CONFIG``), then the file, then the
default. The file is looked for in the current folder and its parents, then in the user's
configuration folder.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from patcher.model import UsageError
from patcher.targets import HostConfig

_NAME = "ddpatch.toml"
_TOP = {"store", "hosts", "set"}


@dataclass(frozen=True)
class Config:
    """What a configuration file can say. ``file`` is where it was read, None for no file."""

    store: Path | None = None
    patch_set: str = "ddtree"
    hosts: Mapping[str, HostConfig] = field(default_factory=dict)
    file: Path | None = None


def load_config(explicit: Path | None) -> Config:
    """Read the configuration. Raises UsageError for a file that is not there or makes no sense."""
    path = explicit or _environment("DDPATCH_CONFIG") or _nearest()
    if path is None:
        return Config()
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"the configuration {path} cannot be read: {error.strerror}",
            next_step="name another file with --config",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}", next_step="mend the file: it must be TOML") from error
    if unknown := set(document) - _TOP:
        raise UsageError(
            f"{path}: unknown key(s) {', '.join(sorted(unknown))}",
            next_step=f"known keys: {', '.join(sorted(_TOP))}",
        )
    for key, kind in (("store", str), ("set", str)):
        if key in document and not isinstance(document[key], kind):
            raise UsageError(f"{path}: {key} must be a string", next_step=f'write {key} = "…"')
    store, hosts = document.get("store"), document.get("hosts", {})
    if not isinstance(hosts, dict):
        raise UsageError(f"{path}: hosts must be a table", next_step="write [hosts.NAME]")
    return Config(
        store=_below(path, store) if store is not None else None,
        patch_set=str(document.get("set", Config.patch_set)),
        hosts={name: _host(path, name, row) for name, row in hosts.items()},
        file=path,
    )


def _below(path: Path, folder: str) -> Path:
    try:
        return path.parent / Path(folder).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{path}: store: {error}", next_step="write the folder out") from error


def store_folder(option: Path | None, config: Config) -> Path:
    """Where the store is: option, environment, file, or the user's data folder."""
    if option is not None and not option.absolute().parent.is_dir():
        raise UsageError(
            f"there is no folder {option.absolute().parent} to make the store in",
            next_step="check --store: only its last part is made",
        )
    default = Path(platformdirs.user_data_dir("ddpatch"))
    return option or _environment("DDPATCH_STORE") or config.store or default


def _host(path: Path, name: str, row: Any) -> HostConfig:
    if not isinstance(row, dict):
        raise UsageError(f"{path}: hosts.{name} must be a table", next_step=f"[hosts.{name}]")
    return HostConfig.from_table(name, row)


def _environment(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value) if value else None


def _nearest() -> Path | None:
    here = Path.cwd()
    places = [here, *here.parents, Path(platformdirs.user_config_dir("ddpatch"))]
    return next((p / _NAME for p in places if (p / _NAME).is_file()), None)
