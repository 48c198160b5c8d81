"""The agent's loop: one answer to each request, until ``bye``."""

import os
import signal
import sys
import traceback
from typing import Any, Dict

from . import faults
from .facts import facts
from .files import MAX_TOTAL, Files
from .frames import PROTOCOL, AgentError, Channel, FrameError, greeting
from .push import Critical, push, refused, rollback
from .query import history, status


def _contents(request: Dict[str, Any], channel: Channel) -> Dict[str, bytes]:
    """Take the contents of a push: all of them, before anything is looked at."""
    contents: Dict[str, bytes] = {}
    total = 0
    while len(contents) < request["contents"]:
        before = len(contents)
        for sha, data in channel.contents():
            contents[sha] = data
            total += len(data)
        if len(contents) == before or total > MAX_TOTAL:
            raise FrameError("contents do not add up")
    return contents


def _answer(request: Dict[str, Any], channel: Channel, files: Files) -> Dict[str, Any]:
    op = request.get("op")
    if op == "facts":
        return facts(request)
    if op == "manifest":
        return files.manifest(request, channel)
    if op == "fetch":
        return files.fetch(request, channel)
    if op == "push":
        return push(request, _contents(request, channel))
    if op == "rollback":
        return rollback(request)
    if op == "status":
        return status(request)
    if op == "history":
        return history(request)
    if op == "faults":  # tests only: count the fault points, or fail at one
        faults.activate().arm(**request["arm"])
        return {}
    if op == "points":
        return {"names": faults.ACTIVE.names if faults.ACTIVE else []}
    raise AgentError("protocol", f"unknown request {op!r}")


def _serve(channel: Channel) -> None:
    files = Files()
    while True:
        request = channel.request()
        if request.get("op") == "bye":
            channel.end()
            return
        try:
            answer: Dict[str, Any] = {"ok": _answer(request, channel, files)}
        except AgentError as error:
            answer = {"error": dict(error.detail, code=error.code, message=error.message)}
        except (TimeoutError, EOFError, FrameError):
            raise
        except OSError as error:
            told = refused(error)
            answer = {"error": dict(told.detail, code=told.code, message=told.message)}
        except Exception:  # noqa: BLE001 - a bug of ours is reported with its place, not hidden
            answer = {"error": {"code": "bug", "message": traceback.format_exc()}}
        channel.send(answer)


def main(nonce: str, idle: int) -> None:
    """Run the agent on standard input and output.

    Output of anything else (a ``.pth`` file, say) goes to standard error from here on.
    """
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.umask(0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, Critical.signal)
    channel = Channel(sys.stdin.buffer, out, idle)
    try:
        channel.raw(greeting(nonce))
        channel.send({"protocol": PROTOCOL, "pid": os.getpid(), "python": sys.executable})
        _serve(channel)
    except (EOFError, OSError, FrameError) as error:
        sys.stderr.write(f"ddpatch agent: {error}\n")
        sys.stderr.flush()
        os._exit(1)
