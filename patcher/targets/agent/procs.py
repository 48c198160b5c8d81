"""Processes that run from a tree, as far as ``proc(5)`` lets us see.

A running server keeps the modules that it has imported, so it needs a restart to get a patch; a
process that is still importing can end up with a mixture.
"""

import importlib.util
import os
import re
import stat
import sys
import time
from typing import Any, Dict, List, NamedTuple, Tuple

_SGLANG = re.compile(r"(.*/)?sglang(\.[A-Za-z_][\w.]*|::.*)?\Z")
_WORD = re.compile(r"\bsglang\b")
_SPAWNED = re.compile(r"from multiprocessing\.(spawn|forkserver) import ")
_TRACKER = "from multiprocessing.resource_tracker import "
"""What multiprocessing runs: children that import again, and a helper that never does."""

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


class _Process(NamedTuple):
    """What ``proc(5)`` tells about one process; what may not be read is empty."""

    pid: str
    args: List[str]
    parent: str
    exe: str
    cwd: str

    @classmethod
    def read(cls, pid: str) -> "_Process":
        """Read a process; one without a command line is a kernel thread, a zombie, or gone."""
        raw = _read("/proc/" + pid + "/cmdline")
        fields = _read("/proc/" + pid + "/stat").rpartition(b")")[2].split()
        return cls(
            pid,
            raw.decode("utf-8", "surrogateescape").rstrip("\0").split("\0") if raw else [],
            fields[1].decode() if len(fields) > 1 else "",
            _link("/proc/" + pid + "/exe"),
            _link("/proc/" + pid + "/cwd"),
        )

    @property
    def is_python(self) -> bool:
        """Whether an interpreter runs; a server may have renamed itself (``sglang::scheduler``)."""
        name = self.exe or self.args[0]
        return "python" in os.path.basename(name) or (
            not self.exe and self.args[0].startswith("sglang")
        )

    def maps(self, path: str) -> bool:
        """Whether a library below ``path`` is mapped."""
        return os.fsencode(path + "/") in _read("/proc/" + self.pid + "/maps")

    def environ(self, name: str) -> str:
        """Return a variable of the environment that it was started with."""
        start = os.fsencode(name + "=")
        for row in _read("/proc/" + self.pid + "/environ").split(b"\0"):
            if row.startswith(start):
                return os.fsdecode(row[len(start) :])
        return ""

    def resolved(self, path: str) -> str:
        """Return a path of its command line or environment as an absolute one."""
        return os.path.normpath(os.path.join(self.cwd or "/", path))

    def program(self) -> Tuple[str, str]:
        """Return the code behind ``-c``, and the path of the script: at most one of the two."""
        rest = self.args[1:]
        while rest and rest[0].startswith("-"):
            flag = rest.pop(0)
            if flag.startswith("--"):
                continue
            if flag[-1] in "cm":
                return (rest[0] if flag[-1] == "c" and rest else "", "")
            if flag in ("-X", "-W") and rest:
                rest.pop(0)
        return "", self.resolved(rest[0]) if rest else ""


def _script(path: str) -> str:
    """Return the beginning of a script; nothing for a pipe (or our own input, by /dev/stdin)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):  # not there, or not for us to read
        return ""
    with os.fdopen(fd, "rb") as stream:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return stream.read(1 << 20).decode("utf-8", "replace")


def _names_sglang(process: _Process) -> bool:
    """Tell whether it is about SGLang at all: by its arguments, its code or its script."""
    if any(_SGLANG.match(arg) for arg in process.args):
        return True
    if not process.is_python:
        return False
    code, script = process.program()
    if script:
        code = _script(script)
    return bool(_WORD.search(code) or _SPAWNED.match(code))


def _runs_under(process: _Process, prefix: str) -> bool:
    """Tell whether its interpreter, or the script that it runs, is one of an environment."""

    def inside(path: str) -> bool:
        folder = os.path.realpath(os.path.dirname(path))
        return (folder + "/").startswith(os.path.realpath(prefix) + "/")

    words = process.args[:2]
    if any(word.startswith(prefix + "/") for word in words):
        return True
    if "/" in words[0]:
        return inside(process.resolved(words[0]))
    for folder in process.environ("PATH").split(":"):
        if os.access(folder + "/" + words[0], os.X_OK):
            return inside(folder + "/" + words[0])
    return False


def _why(process: _Process, root: str, prefix: str) -> str:
    """Say what ties a process to the tree, or return an empty string.

    ``prefix`` is the environment whose interpreter imports from the tree, empty for none.
    """
    package = root + "/sglang"
    named = _names_sglang(process)
    if not process.is_python:
        return "it has a library of the package mapped" if named and process.maps(package) else ""
    for arg in process.args:
        path = process.resolved(arg) if "/" in arg else arg
        if path == package or path.startswith(package + "/"):
            return "its command line names the package"
    for folder in (package, root + "/sgl_kernel"):
        if process.maps(folder):
            return "it has a library of the package mapped"
    under = bool(prefix) and _runs_under(process, prefix)
    if under and sys.prefix != sys.base_prefix and not named:
        return "a Python of this environment; whether it has imported sglang cannot be seen"
    if not named:
        return ""
    return _tie(process, root, prefix, under)


def _tie(process: _Process, root: str, prefix: str, under: bool) -> str:
    """Say what makes a process that is about SGLang import it from this tree."""
    _, script = process.program()
    if process.cwd == root or (process.cwd + "/").startswith(root + "/sglang/"):
        return "sglang with its working directory in the tree"
    if script and os.path.realpath(os.path.dirname(script)) == root:
        return "sglang by a script beside the package"
    paths = process.environ("PYTHONPATH").split(":")
    if any(path and os.path.realpath(process.resolved(path)) == root for path in paths):
        return "sglang with the tree in its PYTHONPATH"
    if not prefix:
        return ""
    # A server renames itself, so the environment is looked up, too.
    if under:
        return "sglang under this environment's interpreter"
    if "/" not in process.args[0] and process.environ("VIRTUAL_ENV") == prefix:
        return "sglang in this virtual environment"
    if process.maps(root):
        return "sglang with a library of this environment mapped"
    if os.path.realpath(sys.executable) == process.exe and sys.prefix == sys.base_prefix:
        return "sglang under this interpreter"
    return ""


def _with_children(processes: Dict[str, _Process], found: Dict[str, str]) -> Dict[str, str]:
    """Add what the found processes have started in their own interpreter: it imports again."""
    more = dict(found)
    for pid, process in processes.items():
        above = process.parent
        while pid not in more and above in processes:
            if above in found and process.exe and processes[above].exe == process.exe:
                more[pid] = "started by process " + above
            above = processes[above].parent
    return more


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

    Nothing tells which modules a process has imported, so they are told by what they would import:
    Python that names sglang (arguments, code, script) where this tree comes first, any Python of
    a virtual environment that has this tree, and what such processes have started.

    Each has ``pid``, ``command`` (at most 300 characters), ``started`` (seconds since the epoch),
    ``importing`` (younger than :data:`IMPORTING_S`) and ``why``. We and our ancestors stay out.
    """
    ours = _ancestors()
    boot = _boot_time()
    prefix = sys.prefix if _imports_from(root) else ""
    own = _Process.read(str(os.getpid())).args[1:]
    processes: Dict[str, _Process] = {}
    hidden = 0
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # no /proc on this system: nothing can be said
        return [], -1
    for pid in pids:
        process = _Process.read(pid)
        if pid in ours or not process.args:
            continue
        if not os.access("/proc/" + pid + "/environ", os.R_OK):
            hidden += 1
        other_agent = "-c" in own and process.args[1:] == own  # the lock is for those
        if not other_agent and not any(_TRACKER in arg for arg in process.args):
            processes[pid] = process
    why = {pid: _why(process, root, prefix) for pid, process in processes.items()}
    why = _with_children(processes, {pid: text for pid, text in why.items() if text})
    found = []
    for pid in sorted(why, key=int):
        started = _started(pid, boot)
        command = " ".join(processes[pid].args).encode("utf-8", "replace").decode("utf-8")
        found.append(
            {
                "pid": int(pid),
                "command": command[:300],
                "started": started,
                "importing": time.time() - started < IMPORTING_S,
                "why": why[pid],
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
