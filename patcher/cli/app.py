"""What all commands share: options, the workspace, progress, and how a report is shown."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import click

from patcher.cli import complete
from patcher.cli.progress import progress_for
from patcher.cli.show import show
from patcher.config import Config, load_config, store_folder
from patcher.model import DdpatchError, ExitCode, Finding, Report, UsageError
from patcher.patchset import PatchSet, load_set
from patcher.refs import SnapshotRef
from patcher.store import Store
from patcher.workspace import Workspace

_Function = TypeVar("_Function", bound=Callable[..., Any])

SECTIONS: dict[str, str] = {}
"""Command to the heading under which it is listed."""

_UNSURE = (
    "stopped; the target finishes or undoes what it has begun, it never stays half-way: "
    "`ddpatch status TARGET` tells which"
)
_STOPPED = {
    "push": _UNSURE,
    "rollback": _UNSURE,
    "": "stopped; nothing is half done",
}

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@dataclass
class App:
    """The options that stand before the command, and what is made from them."""

    store_option: Path | None = None
    config_option: Path | None = None
    json: bool = False

    @cached_property
    def config(self) -> Config:
        """The configuration file, read once."""
        return load_config(self.config_option)

    @cached_property
    def workspace(self) -> Workspace:
        """The workspace over the store."""
        store = Store.open(store_folder(self.store_option, self.config))
        click.get_current_context().call_on_close(store.close)
        return Workspace(store, self.config.hosts, progress_for(sys.stderr))

    def patch_set(self, name: str | None) -> PatchSet:
        """The patch set of ``--set``, or the configured one."""
        return load_set(name or self.config.patch_set)


def command(
    name: str, *, section: str, **attributes: Any
) -> Callable[[Callable[..., Report]], click.Command]:
    """Make a click command of a function that takes the :class:`App` and returns a report.

    Adds ``--json``; shows the report; turns expected errors into their message and exit code.
    ``section`` is the heading under which the command is listed.
    """

    def make(function: Callable[..., Report]) -> click.Command:
        @functools.wraps(function)
        def run(*args: Any, json: bool, **options: Any) -> None:
            app = click.get_current_context().ensure_object(App)
            app.json = json
            try:
                report = function(app, *args, **options)
            except DdpatchError as error:
                report = error_report(name, error)
            except (click.ClickException, click.exceptions.Exit):
                raise
            except Exception as error:
                if os.environ.get("DDPATCH_DEBUG"):
                    raise
                report = error_report(name, _unexpected(error))
            except KeyboardInterrupt:
                sys.stderr.write(f"\n{_STOPPED.get(name, _STOPPED[''])}\n")
                raise SystemExit(130) from None
            try:
                show(report, as_json=json)
            except OSError as error:
                reason = error.strerror or str(error)
                sys.stderr.write(f"standard output cannot be written: {reason}\n")
                raise SystemExit(int(ExitCode.USAGE)) from None
            raise SystemExit(int(report.exit_code))

        made = click.command(name, cls=click.Command, context_settings=CONTEXT, **attributes)(run)
        made.params.append(
            click.Option(["--json"], is_flag=True, help="One JSON document on standard output.")
        )
        SECTIONS[name] = section
        return made

    return make


def _unexpected(error: Exception) -> UsageError:
    """The error for a fault of ddpatch itself: a sentence, and a file with the traceback."""
    with tempfile.NamedTemporaryFile("w", prefix="ddpatch-", suffix=".txt", delete=False) as note:
        note.write("".join(traceback.format_exception(error)))
    where = traceback.extract_tb(error.__traceback__)[-1]
    return UsageError(
        f"ddpatch itself went wrong: {type(error).__name__}: {error} "
        f"({Path(where.filename).name}:{where.lineno})",
        next_step=f"please report it with {note.name}; the store can be made anew with --store",
    )


def error_report(command_name: str, error: DdpatchError) -> Report:
    """The report of an expected failure."""
    finding = Finding(
        code=f"error.{error.exit_code.name.lower()}",
        message=error.message,
        next_step=error.next_step,
    )
    return Report(
        command=command_name,
        exit_code=error.exit_code,
        data={"outcome": "error"},
        headline=f"{command_name}: {error.message}",
        findings=error.findings or (finding,),
        next_step="" if error.findings and not error.next_step else error.next_step,
    )


def target_options(function: _Function) -> _Function:
    """``--python`` and ``--path``: which install on the target is meant."""
    function = click.option(
        "--path", help="Folder on the target that holds sglang/, if Python would find another."
    )(function)
    return click.option(
        "--python", help="Python interpreter on the target that runs SGLang (absolute path)."
    )(function)


def set_option(function: _Function) -> _Function:
    """``--set``: which patch set."""
    return click.option(
        "--set",
        "set_name",
        metavar="NAME[@VERSION]",
        shell_complete=complete.sets,
        help="Patch set (default: ddtree).",
    )(function)


def exit_for(holds: bool) -> ExitCode:
    """0 for what holds, 1 for a finding."""
    return ExitCode.OK if holds else ExitCode.FINDING


def plural(count: int, noun: str, more: str | None = None) -> str:
    """``1 file``, ``2 files``."""
    return f"{count:,} {noun if count == 1 else more or noun + 's'}"


def describe(ref: SnapshotRef) -> str:
    """A snapshot in words: its name, and when it was taken (UTC)."""
    taken = time.strftime("%Y-%m-%d %H:%M", time.gmtime(ref.time))
    return f"{ref.target}@{ref.number}, taken {taken} UTC"
