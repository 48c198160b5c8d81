"""Fault points. Every change to the disk passes one; they do nothing unless a test arms them.

A test first counts the points of a run, then repeats it with a kill or an error at each of them,
so a new step is covered without touching the test.
"""

import errno
import os
import signal
from typing import List, Optional


class Faults:
    """What happens at which point (counted from 1)."""

    def __init__(self) -> None:
        self.names: List[str] = []
        self.kill_at = 0
        self.fail_at = 0
        self.error = ""

    def arm(self, kill_at: int = 0, fail_at: int = 0, error: str = "") -> None:
        """Start counting anew; kill the process or raise ``OSError`` at the given point."""
        self.names = []
        self.kill_at, self.fail_at, self.error = kill_at, fail_at, error


ACTIVE: Optional[Faults] = None


def activate() -> Faults:
    """Switch counting on, for the rest of this process."""
    global ACTIVE  # noqa: PLW0603
    ACTIVE = Faults()
    return ACTIVE


def pt(name: str) -> None:
    """Pass the point ``name``."""
    if ACTIVE is None:
        return
    ACTIVE.names.append(name)
    if len(ACTIVE.names) == ACTIVE.kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    if len(ACTIVE.names) == ACTIVE.fail_at:
        raise OSError(getattr(errno, ACTIVE.error), "injected at " + name)
