"""The command line: one file per command, found by walking the package, loaded when called."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import click

from patcher import __version__
from patcher.cli.app import CONTEXT, SECTIONS, App, error_report
from patcher.cli.show import show
from patcher.model import UsageError

_SHARED = {"app", "complete", "progress", "show"}
_ORDER = ("snapshot", "apply", "verify", "push", "rollback")
_SECTIONS = ("Main job", "Look", "Prove", "Write patches", "Shell")


class _Commands(click.Group):
    """A group whose commands are the modules of this package."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command; an error is one JSON document too where ``--json`` was asked for."""
        words = extra.get("args") or (args[0] if args else None) or sys.argv[1:]
        as_json = "--json" in words
        try:
            return super().main(*args, **{**extra, "standalone_mode": not as_json})
        except click.Abort:
            raise SystemExit(130) from None
        except click.ClickException as error:
            wrong = UsageError(error.format_message(), next_step="see `ddpatch COMMAND --help`")
            show(error_report("ddpatch", wrong), as_json=as_json)
            raise SystemExit(int(wrong.exit_code)) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(
            m.name.replace("_", "-")
            for m in pkgutil.iter_modules(__path__)
            if m.name not in _SHARED
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{__name__}.{cmd_name.replace('-', '_')}")
        found = module.cmd
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), 1)
            if near:
                raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
        for name in self.list_commands(ctx):
            found = self.get_command(ctx, name)
            assert found is not None
            place = _ORDER.index(name) if name in _ORDER else len(_ORDER)
            sections[SECTIONS[name]].append((place, name, found.get_short_help_str(70)))
        for section in filter(sections.__contains__, _SECTIONS):
            with formatter.section(section):
                formatter.write_dl([(name, text) for _, name, text in sorted(sections[section])])


@click.group(
    cls=_Commands,
    context_settings=CONTEXT,
    epilog=(
        "TARGET is user@host[:port], a name from ddpatch.toml or the ssh configuration, local, "
        "local:PATH, or pypi:VERSION. SNAPSHOT is a target's name for its newest snapshot, or "
        "NAME@N for the N-th newest. Exit codes: 0 done, 1 a finding, 2 usage, 3 target not "
        "reached, 4 refused so that nothing is lost, 5 rolled back, 6 recovery needed."
    ),
)
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the git store (default: the user's data folder).",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file (default: the nearest ddpatch.toml).",
)
@click.version_option(__version__, prog_name="ddpatch")
@click.pass_context
def cli(ctx: click.Context, store: Path | None, config: Path | None) -> None:
    """Graft a patch set into an installed SGLang, prove it, push it, and take it back.

    The main job, from a laptop to a GPU host:

    \b
      ddpatch snapshot HOST      bring the install into the local store
      ddpatch inventory HOST     see the speculative-decoding code, completely
      ddpatch apply HOST         patch the snapshot; nothing on the host changes
      ddpatch verify             prove the patched tree
      ddpatch push HOST          put it on the host, atomically
      ddpatch rollback HOST      take it back, to the byte
    """
    ctx.obj = App(store, config)


def main() -> None:
    """Entry point of the ``ddpatch`` command."""
    try:
        cli.main(prog_name="ddpatch")
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; nothing is half done\n")
        raise SystemExit(130) from None
