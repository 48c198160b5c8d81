"""Targets on this machine: the same agent, as a child process instead of over ssh."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from patcher.model import UsageError
from patcher.targets.base import Kind, Progress, quiet, slug
from patcher.targets.program import arguments
from patcher.targets.session import AgentSession

IDLE_S = 300.0
"""Seconds without a byte after which a local agent counts as dead."""


class ProcessLink:
    """A child process: no shell, its own session (so that Ctrl-C does not cut a commit)."""

    def __init__(self, command: list[str], idle: float = IDLE_S) -> None:
        self._idle = idle
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,
            )
        except OSError:
            self._errors.close()
            raise

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    def send(self, data: bytes) -> None:
        """Write all of ``data``."""
        if self._child.stdin is None:
            raise OSError("the agent's input is closed")
        view = memoryview(data)
        while view:
            view = view[self._child.stdin.write(view) or 0 :]

    def recv(self, size: int) -> bytes:
        """Return between 1 and ``size`` bytes, or none at the end."""
        if self._child.stdout is None:
            return b""
        ready, _, _ = select.select([self._child.stdout], [], [], self._idle)
        if not ready:
            raise TimeoutError(f"no byte for {self._idle:.0f} s")
        return os.read(self._child.stdout.fileno(), size)

    def finish(self) -> int:
        """Wait for the process to end and return its status."""
        try:
            return self._child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return -1

    def errors(self) -> str:
        """Return the first 64 KiB of standard error."""
        return os.pread(self._errors.fileno(), 65536, 0).decode("utf-8", "replace")

    def close(self) -> None:
        """Close the pipes; the agent ends by itself, after a commit that is under way."""
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None and not stream.closed:
                stream.close()
        try:
            self._child.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._errors.close()


@dataclass(frozen=True)
class LocalTarget:
    """``local`` (this interpreter's install) or ``local:PATH`` (a folder that holds sglang/)."""

    name: str
    python: str
    path: str = ""
    kind: Kind = "local"
    writable: bool = True

    @classmethod
    def parse(cls, folder: str, python: str, path: str) -> LocalTarget:
        """Make a target; ``folder`` is what stands behind ``local:``."""
        if folder and path:
            raise UsageError(
                f"local:{folder} and --path {path} both name a folder",
                next_step="leave one of them out",
            )
        chosen = str(Path(folder or path).expanduser().absolute()) if folder or path else ""
        name = f"local:{chosen}" if folder else "local"
        return cls(name, python or sys.executable, chosen)

    @property
    def slug(self) -> str:
        """The name as a component of a git ref."""
        return slug(self.name)

    def connect(self, progress: Progress = quiet) -> AgentSession:
        """Start the agent in the target's interpreter."""
        try:
            link = ProcessLink(arguments(self.python))
        except OSError as error:
            raise UsageError(
                f"{self.name}: {self.python} cannot be started: {error.strerror}",
                next_step="name an interpreter with --python",
            ) from error
        return AgentSession(link, self.name, path=self.path, python=self.python, progress=progress)
