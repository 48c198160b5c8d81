"""``ddpatch completion``: shell completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from patcher.cli.app import App, command
from patcher.model import ExitCode, Report


@command("completion", section="Shell", short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def cmd(app: App, shell: str) -> Report:
    """Print the completion script for bash, zsh or fish.

    \b
      bash   eval "$(ddpatch completion bash)"                    in ~/.bashrc
      zsh    eval "$(ddpatch completion zsh)"                     in ~/.zshrc
      fish   ddpatch completion fish > ~/.config/fish/completions/ddpatch.fish
    """
    made = get_completion_class(shell)
    assert made is not None
    root = click.get_current_context().find_root().command
    script = made(root, {}, "ddpatch", "_DDPATCH_COMPLETE").source()
    data = {"shell": shell, "script": script}
    return Report("completion", ExitCode.OK, data, f"completion for {shell}", body=script)
