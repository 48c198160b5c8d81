"""What this interpreter's SGLang is, found without importing it.

Sources: the path as ``site`` builds it, ``importlib.util.find_spec`` (so that editable finders
count), the dist-info directories (PyPA "Recording installed projects", PEP 610 for
``direct_url.json``), and the text of version files. Torch is never imported.
"""

import getpass
import importlib.util
import json
import os
import platform
import re
import site
import subprocess
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import unquote, urlsplit

from .files import is_distinfo
from .frames import AgentError
from .procs import interpreters

_VERSION = re.compile(
    r"""^(?:__version__|version)(?:\s*:[^=\n]+)?\s*=[^'"\n]*['"]([^'"\n]+)""", re.M
)
_CUDA = re.compile(r"""^cuda(?:\s*:[^=\n]+)?\s*=\s*['"]([^'"\n]+)""", re.M)


class Dist(NamedTuple):
    """One dist-info directory of sglang."""

    parent: str
    name: str
    version: str
    installer: str
    editable_from: str


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(1 << 20)
    except (OSError, ValueError):  # absent is an answer: every caller copes with empty
        return ""


def _header(text: str, name: str) -> str:
    for line in text.splitlines():
        if not line.strip():
            break
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _import_path() -> List[str]:
    """Return ``sys.path`` as the interpreter would have it without ``-I -S``."""
    site.main()
    if sys.prefix == sys.base_prefix and os.getuid() == os.geteuid():
        user = site.getusersitepackages()  # -I switches it off
        if os.path.isdir(user):
            site.addsitedir(user)
    return [path for path in sys.path if os.path.isdir(path)]


def _dists(folders: List[str]) -> List[Dist]:
    found: Dict[str, Dist] = {}
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            where = os.path.realpath(folder) + "/" + name
            if not is_distinfo(name) or not os.path.isdir(where):
                continue
            source = ""
            raw = _text(where + "/direct_url.json")
            if raw:
                try:
                    direct = json.loads(raw)
                    if direct.get("dir_info", {}).get("editable"):
                        source = unquote(urlsplit(direct["url"]).path)
                except (ValueError, KeyError, AttributeError) as error:
                    raise AgentError(
                        "bad-install", f"{where}/direct_url.json cannot be read: {error}"
                    ) from error
            found[where] = Dist(
                os.path.realpath(folder),
                name,
                _header(_text(where + "/METADATA"), "version"),
                _text(where + "/INSTALLER").strip(),
                os.path.realpath(source) if source else "",
            )
    return list(found.values())


def _packages(folders: List[str]) -> List[str]:
    """Return the real directories that hold a ``sglang`` package, in the order of the path."""
    found = [f for f in folders if os.path.isfile(f + "/sglang/__init__.py")]
    try:
        spec = importlib.util.find_spec("sglang")
    except (ImportError, AttributeError, ValueError) as error:
        raise AgentError(
            "bad-install", f"this interpreter cannot even look for sglang: {error}"
        ) from error
    if spec is not None and spec.origin and spec.origin.endswith("/sglang/__init__.py"):
        if not os.path.isfile(spec.origin):
            raise AgentError("bad-install", "sglang is inside an archive: " + spec.origin)
        found.insert(0, os.path.dirname(os.path.dirname(spec.origin)))
    unique: List[str] = []
    for folder in found:
        if os.path.realpath(folder + "/sglang") not in [
            os.path.realpath(other + "/sglang") for other in unique
        ]:
            unique.append(folder)
    return unique


def _locate(folders: List[str]) -> Tuple[str, Optional[Dist]]:
    packages = _packages(folders)
    dists = _dists(folders)
    if not packages:
        raise AgentError(
            "no-install",
            f"{sys.executable} has no sglang",
            searched=folders,
            running=interpreters(),
            leftovers=[dist.parent + "/" + dist.name for dist in dists],
        )
    if len(packages) > 1 or len(dists) > 1:
        raise AgentError(
            "two-installs",
            f"{sys.executable} finds more than one sglang",
            found=[folder + "/sglang" for folder in packages]
            + [dist.parent + "/" + dist.name for dist in dists],
        )
    return packages[0], dists[0] if dists else None


def _at(root: str, folders: List[str]) -> Tuple[str, Optional[Dist]]:
    """Take the folder the user named; an editable dist-info elsewhere may speak for it."""
    if not os.path.isfile(root + "/sglang/__init__.py"):
        raise AgentError(
            "no-install", f"{root} holds no sglang package", searched=[root], running=[]
        )
    real = os.path.realpath(root)
    beside = _dists([root])
    if len(beside) > 1:
        raise AgentError(
            "two-installs",
            f"{root} holds more than one dist-info of sglang",
            found=[dist.parent + "/" + dist.name for dist in beside],
        )
    for dist in beside or _dists(folders):
        source = dist.editable_from
        if dist.parent == real or (source and (real + "/").startswith(source + "/")):
            return root, dist
    return root, None


def _checkout(root: str) -> str:
    """Return the git commit of the tree, ``+dirty`` or ``+unknown`` behind it, or nothing.

    Hooks, the file-system monitor and optional locks stay off; git itself refuses to look into
    somebody else's checkout (``safe.directory``), which gives ``+unknown``.
    """
    top = root
    while not os.path.exists(top + "/.git"):
        if top in ("/", ""):
            return ""
        top = os.path.dirname(top)
    environ = dict(os.environ, GIT_OPTIONAL_LOCKS="0", LC_ALL="C")
    safe = ["git", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-C", root]

    def ask(*args: str) -> str:
        done = subprocess.run(
            safe + list(args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=True,
            env=environ,
        )
        return done.stdout.decode("utf-8", "replace").strip()

    try:
        head = ask("rev-parse", "HEAD")
        dirty = ask("status", "--porcelain", "--untracked-files=no", "--", "sglang")
    except (OSError, subprocess.SubprocessError):  # no git, no commit yet, not our checkout
        text = _text(top + "/.git/HEAD").strip()
        if text.startswith("ref: "):
            text = _text(top + "/.git/" + text[5:]).strip()
        return text + "+unknown"
    return head + ("+dirty" if dirty else "")


def _gpus() -> List[str]:
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):  # no driver here: no GPU names to give
        return []
    return [line.strip() for line in done.stdout.decode("utf-8", "replace").splitlines() if line]


def _torch(folders: List[str]) -> Tuple[str, str]:
    for folder in folders:
        text = _text(folder + "/torch/version.py")
        if text:
            version, cuda = _VERSION.search(text), _CUDA.search(text)
            return version.group(1) if version else "", cuda.group(1) if cuda else ""
    return "", ""


def _version(root: str, dist: Optional[Dist]) -> str:
    if dist is not None and dist.version:
        return dist.version
    for name in ("_version.py", "version.py"):
        match = _VERSION.search(_text(root + "/sglang/" + name))
        if match:
            return match.group(1)
    return ""


def facts(request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer ``facts``: where the install is and what it is."""
    path = request.get("path") or ""
    folders = _import_path()
    root, dist = _at(path.rstrip("/") or "/", folders) if path else _locate(folders)
    if os.path.islink(root + "/sglang"):
        raise AgentError(
            "bad-install",
            f"{root}/sglang is a symbolic link to {os.path.realpath(root + '/sglang')}; "
            "the folder that really holds the package must be named",
        )
    root = os.path.realpath(root)
    torch, cuda = _torch(folders)
    return {
        "version": _version(root, dist),
        "root": root,
        "distinfo": dist.name if dist is not None and dist.parent == root else "",
        "editable": bool(dist is not None and dist.editable_from),
        "installer": dist.installer if dist is not None else "",
        "python": sys.executable,
        "python_version": platform.python_version(),
        "torch": torch,
        "cuda": cuda,
        "gpus": _gpus(),
        "checkout": _checkout(root),
        "user": getpass.getuser(),
    }
