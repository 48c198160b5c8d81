"""Progress on standard error: a bar on a terminal, nothing in a pipe."""

from __future__ import annotations

import os
import time
from typing import TextIO

from patcher.targets import Progress, quiet

_WIDTH = 28
_EVERY = 0.08


def progress_for(stream: TextIO) -> Progress:
    """A progress callback for a stream; silent where nobody watches."""
    return _Bar(stream) if stream.isatty() and os.environ.get("TERM") != "dumb" else quiet


class _Bar:
    """One line that is drawn over; cleared when its stage is done."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = 0.0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        finished = total is not None and done >= total
        if not finished and now - self._drawn < _EVERY:
            return
        self._drawn = now
        if finished:
            self._stream.write("\r\x1b[K")
        elif total:
            filled = _WIDTH * done // total
            bar = "━" * filled + "╺" * (filled < _WIDTH) + " " * (_WIDTH - filled - 1)
            self._stream.write(f"\r\x1b[K{stage}  {bar}  {done:,} / {total:,}")
        else:
            self._stream.write(f"\r\x1b[K{stage}  {done:,}")
        self._stream.flush()
