"""Processes that run from a tree, as far as ``proc(5)`` lets us see.

A running server keeps the modules that it has imported, so it needs a restart to get a patch; a
process that is still importing can end up with a mixture.
"""

import importlib.util
import os
import re
import sys
import time
from typing import Any, Dict, List, Tuple

_SGLANG = re.compile(r"(.*/)?sglang(\.[A-Za-z_][\w.]*|::.*)?\Z")

IMPORTING_S = 120
"""A process younger than this many seconds may still be importing (SGLang takes its time)."""


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(4 << 20)
    except (OSError, ValueError):  # gone, or somebody else's
        return b""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:  # gone, or somebody else's
        return ""


def _boot_time() -> float:
    for line in _read("/proc/stat").splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return 0.0


def _started(pid: str, boot: float) -> float:
    fields = _read("/proc/" + pid + "/stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return 0.0
    return boot + int(fields[19]) / float(os.sysconf("SC_CLK_TCK"))


def _imports_from(root: str) -> bool:
    """Tell whether this interpreter would import the package from ``root``."""
    try:
        spec = importlib.util.find_spec("sglang")
    except (ImportError, AttributeError, ValueError):  # then it would not
        return False
    origin = spec.origin if spec is not None else None
    return bool(origin) and os.path.realpath(str(origin)) == root + "/sglang/__init__.py"


def _why(pid: str, args: List[str], root: str, prefix: str) -> str:
    """Say what ties a process to the tree, or return an empty string.

    ``prefix`` is the environment whose interpreter imports from the tree, empty for none.
    """
    package = root + "/sglang"
    cwd = _link("/proc/" + pid + "/cwd")
    if any(arg == package or arg.startswith(package + "/") for arg in args):
        return "its command line names the package"
    named = any(_SGLANG.match(arg) for arg in args)
    if not named and "python" not in os.path.basename(args[0]):
        return ""
    if (package + "/").encode("utf-8", "surrogateescape") in _read("/proc/" + pid + "/maps"):
        return "it has a library of the package mapped"
    if not named:
        return ""
    if cwd == root or cwd.startswith(package):
        return "sglang with its working directory in the tree"
    if not prefix:
        return ""
    # A server renames itself (sglang::scheduler), so the interpreter is looked up, too.
    if any(arg.startswith(prefix + "/") for arg in args[:2]):
        return "sglang under this environment's interpreter"
    environ = _read("/proc/" + pid + "/environ").split(b"\0")
    if b"VIRTUAL_ENV=" + prefix.encode("utf-8", "surrogateescape") in environ:
        return "sglang in this virtual environment"
    if (root + "/").encode("utf-8", "surrogateescape") in _read("/proc/" + pid + "/maps"):
        return "sglang with a library of this environment mapped"
    if os.path.realpath(sys.executable) == _link("/proc/" + pid + "/exe") and (
        sys.prefix == sys.base_prefix
    ):
        return "sglang under this interpreter"
    return ""


def _ancestors() -> List[str]:
    chain = []
    pid = str(os.getpid())
    while pid not in ("", "0") and pid not in chain:
        chain.append(pid)
        fields = _read("/proc/" + pid + "/stat").rpartition(b")")[2].split()
        pid = fields[1].decode() if len(fields) > 1 else ""
    return chain


def running(root: str) -> Tuple[List[Dict[str, Any]], int]:
    """Return the processes that use the tree, and how many processes we may not look into.

    Each has ``pid``, ``command`` (at most 300 characters), ``started`` (seconds since the epoch),
    ``importing`` (younger than :data:`IMPORTING_S`) and ``why``. We and our ancestors stay out.
    """
    ours = _ancestors()
    boot = _boot_time()
    prefix = sys.prefix if _imports_from(root) else ""
    found = []
    hidden = 0
    try:
        pids = sorted((name for name in os.listdir("/proc") if name.isdigit()), key=int)
    except OSError:  # no /proc on this system: nothing can be said
        return [], -1
    for pid in pids:
        raw = _read("/proc/" + pid + "/cmdline")
        if pid in ours or not raw:  # no command line: a kernel thread or a zombie
            continue
        if not os.access("/proc/" + pid + "/environ", os.R_OK):
            hidden += 1
        args = raw.decode("utf-8", "replace").rstrip("\0").split("\0")
        why = _why(pid, args, root, prefix)
        if why:
            started = _started(pid, boot)
            found.append(
                {
                    "pid": int(pid),
                    "command": " ".join(args)[:300],
                    "started": started,
                    "importing": time.time() - started < IMPORTING_S,
                    "why": why,
                }
            )
    return found, hidden


def interpreters() -> List[str]:
    """Return interpreters that run something called sglang now: a hint for ``--python``."""
    found = set()
    ours = _ancestors()
    for pid in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if pid.isdigit() and pid not in ours:
            args = _read("/proc/" + pid + "/cmdline").decode("utf-8", "replace").split("\0")
            python = os.path.basename(args[0]).startswith("python") and args[0].startswith("/")
            if python and any(_SGLANG.match(arg) for arg in args[1:]):
                found.add(args[0])
    return sorted(found)
