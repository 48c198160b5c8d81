"""Writing to the store: one ``git fast-import`` stream (git-fast-import(1))."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import IO

from patcher.model import UsageError

IDENTITY = "ddpatch <ddpatch@localhost>"
"""Author of every commit: the same content has the same commit id."""


class FastImport:
    """A ``git fast-import`` process as a context manager; nothing is written if it fails."""

    def __init__(self, git_dir: Path, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [
                "git",
                f"--git-dir={git_dir}",
                "fast-import",
                "--quiet",
                "--force",
                "--done",
                "--depth=0",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> IO[bytes]:
        assert self._process.stdin
        return self._process.stdin

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._process as process:
            if kind is not None and not issubclass(kind, BrokenPipeError):
                process.kill()
                process.communicate()
                return
            assert process.stderr
            errors = process.communicate(b"done\n")[1] if kind is None else process.stderr.read()
        if self._process.returncode != 0:
            reason = errors.decode(errors="replace").strip().split("\n")[0]
            raise UsageError(
                f"the store {self._folder} could not be written: {reason or 'git said nothing'}",
                next_step="make room there, or name another folder with --store",
            )


def write_commit(
    stream: IO[bytes], branch: str, message: str, when: int, parent: str | None
) -> None:
    """Begin a commit at ``when`` (Unix time); its files follow."""
    text = message.encode()
    head = f"commit {branch}\ncommitter {IDENTITY} {when} +0000\ndata {len(text)}\n"
    stream.write(head.encode() + text + b"\n")
    if parent is not None:
        stream.write(b"from %s\n" % parent.encode())


def write_blob(stream: IO[bytes], number: int, data: bytes) -> bytes:
    """Write content on its own, and return the mark that stands for it."""
    stream.write(b"blob\nmark :%d\ndata %d\n%s\n" % (number, len(data), data))
    return b":%d" % number


def write_entry(stream: IO[bytes], path: str, mode: int, where: bytes) -> None:
    """Put content that is there already (a mark or an object id) at a path."""
    git_mode = b"100755" if mode & 0o111 else b"100644"
    stream.write(b"M %s %s %s\n" % (git_mode, where, quoted(path)))


def write_file(stream: IO[bytes], path: str, data: bytes, mode: int = 0o644) -> None:
    """Put new content at a path."""
    write_entry(stream, path, mode, b"inline")
    stream.write(b"data %d\n%s\n" % (len(data), data))


def quoted(path: str) -> bytes:
    """Return a path in the quoted form that takes any byte."""
    raw = path.encode(errors="surrogateescape")
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
