"""The agent as it is sent: a constant command line, and a program for its standard input."""

from __future__ import annotations

import functools
import re
import secrets
from importlib import resources

from patcher.model import UsageError
from patcher.targets.agent import PARTS
from patcher.targets.agent.frames import IDLE_S

BOOTSTRAP = "import sys;b=sys.stdin.buffer;exec(b.read(int(b.read(8),16)))"
"""Reads a length (8 hex digits) and that many bytes of program. It has no quote, no backslash and
no ``!``, so every shell takes it between single quotes as it is."""

_PYTHON = re.compile(r"/[A-Za-z0-9_./+@-]+|python3?(?:\.[0-9]+)?")

_LOADER = """\
import sys, types
if sys.version_info < (3, 6):
    sys.stderr.write("ddpatch needs Python 3.6 or newer here; this is " + sys.version)
    sys.exit(9)
package = types.ModuleType("ddpatch_agent")
package.__path__ = []
sys.modules["ddpatch_agent"] = package
for name, source in {parts!r}:
    module = types.ModuleType("ddpatch_agent." + name)
    module.__package__ = "ddpatch_agent"
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(compile(source, "<ddpatch agent: " + name + ">", "exec"), module.__dict__)
sys.modules["ddpatch_agent.main"].main({nonce!r}, {idle!r})
"""


def new_nonce() -> str:
    """Return what this session's greeting is made from."""
    return secrets.token_hex(16)


@functools.cache
def _parts() -> tuple[tuple[str, str], ...]:
    folder = resources.files("patcher.targets.agent")
    return tuple((name, (folder / f"{name}.py").read_text("utf-8")) for name in PARTS)


def program(nonce: str, idle: int = IDLE_S) -> bytes:
    """Return what goes to the bootstrap's standard input first."""
    text = _LOADER.format(parts=_parts(), nonce=nonce, idle=idle).encode("utf-8")
    return f"{len(text):08x}".encode("ascii") + text


def arguments(python: str) -> list[str]:
    """Return the command that starts the agent, for a program that is started without a shell."""
    return [python, "-I", "-S", "-c", BOOTSTRAP]


def command(python: str, sudo: bool) -> str:
    """Return the command for a remote shell; nothing in it comes from a path or a file name."""
    if not _PYTHON.fullmatch(python):
        raise UsageError(
            f"{python!r} cannot be used as the target's interpreter",
            next_step="give --python an absolute path of plain characters, or a name like python3",
        )
    return f"exec {'sudo -n ' if sudo else ''}{python} -I -S -c '{BOOTSTRAP}'"
