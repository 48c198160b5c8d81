"""A second process that asks half of the files, where a whole release is to be asked.

It is started before the files are read, so that its own start costs nothing, and speaks in length-
prefixed frames and JSON. Whatever it does not answer is asked by the first process: it can only
save time.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, BinaryIO, Self

from inventory._codec import answer_from, answer_to
from inventory.model import FileAnswer
from patcher.source import Source

WORTH_IT = 400
"""Files from which a second process saves more than it costs."""

_PROGRAM = "import sys; sys.path[:] = {path!r}; from inventory._second import main; main()"


def available() -> bool:
    """Whether there is a second processor to use, and an interpreter to run on it."""
    return bool(sys.executable) and (os.cpu_count() or 1) > 1


class Second:
    """The first process's end: give files once, take their answers once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):  # what it did not read is of no use now
                stream.close()
        self._process.wait()

    def give(self, sources: Iterable[Source]) -> None:
        """Send files to ask; returns when they are sent."""
        assert self._process.stdin is not None
        try:
            for source in sources:
                _send(self._process.stdin, source)
            self._process.stdin.close()
        except BrokenPipeError:
            return  # it is gone: nothing will come back, and `take` finds that out

    def take(self) -> Mapping[str, FileAnswer]:
        """What it answered: all files that were given, or none where it failed."""
        assert self._process.stdout is not None
        said = self._process.stdout.read()
        if self._process.wait() != 0:
            return {}
        return {path: answer_from(value) for path, value in json.loads(said).items()}


def halves(sources: Sequence[Source]) -> tuple[list[Source], list[Source]]:
    """Two parts of about the same number of bytes."""
    parts: tuple[list[Source], list[Source]] = ([], [])
    sizes = [0, 0]
    for source in sorted(sources, key=lambda s: (-len(s.data), s.path)):
        lighter = sizes.index(min(sizes))
        parts[lighter].append(source)
        sizes[lighter] += len(source.data)
    return parts


def _send(stream: Any, source: Source) -> None:
    stream.write(json.dumps([source.path, len(source.data)]).encode() + b"\n")
    stream.write(source.data)


def serve(given: BinaryIO, ask: Callable[[Source], FileAnswer]) -> dict[str, list[Any]]:
    """Read all frames, so that the first process can go on, and then answer them."""
    sources = []
    while header := given.readline():
        path, size = json.loads(header)
        sources.append(Source(path, given.read(size)))
    sources.reverse()
    answers = {}
    while sources:  # each syntax tree goes when its file is answered
        source = sources.pop()
        answers[source.path] = answer_to(ask(source))
    return answers


def main() -> None:
    """The second process: all queries, from standard input to standard output."""
    from inventory import QUERIES, _engine

    gc.disable()
    answers = serve(sys.stdin.buffer, lambda source: _engine.ask(source, QUERIES))
    sys.stdout.write(json.dumps(answers))
