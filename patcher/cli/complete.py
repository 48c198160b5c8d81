"""What the shell may complete: targets, snapshots, queries, levels, patches, sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from patcher.config import Config, load_config, store_folder
from patcher.model import DdpatchError

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completer(words: Callable[[click.Context], Iterable[str]]) -> Completer:
    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        try:
            return [CompletionItem(w) for w in sorted(words(ctx)) if w.startswith(incomplete)]
        except DdpatchError:
            return []  # a shell that waits for completions is no place for an error

    return complete


def _targets(ctx: click.Context) -> Iterable[str]:
    from patcher.store import Store

    options = ctx.find_root().params
    config = load_config(options.get("config"))
    folder: Path = store_folder(options.get("store"), config)
    yield from ("local", "local:", "pypi:")
    yield from config.hosts
    if folder.is_dir():
        with Store.open(folder) as store:
            yield from (ref.target for ref in store.targets())


def _queries(ctx: click.Context) -> Iterable[str]:
    from inventory import QUERIES

    return (query.id for query in QUERIES)


def _levels(ctx: click.Context) -> Iterable[str]:
    from patcher.verify import checks

    return (check.level for check in checks())


def _sets(ctx: click.Context) -> Iterable[str]:
    from patcher.patchset import available

    return available()


def _patches(ctx: click.Context) -> Iterable[str]:
    from patcher.patchset import load_set

    return (patch.id for patch in load_set(ctx.params.get("set_name") or Config.patch_set).patches)


targets = _completer(_targets)
queries = _completer(_queries)
levels = _completer(_levels)
sets = _completer(_sets)
patches = _completer(_patches)
