"""Official releases: ``pypi:VERSION``, the wheel from the index that pip is configured with.

Wheels are kept in the user's cache directory (``DDPATCH_CACHE`` names another), so a release is
fetched once and works offline from then on.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from email.parser import HeaderParser
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

import platformdirs
from packaging.version import InvalidVersion, Version

from patcher.model import FileEntry, InstallFacts, Manifest, TargetError, UsageError
from patcher.targets.agent import files
from patcher.targets.base import Kind, Progress, Skipped, Snapshot, printable, quiet, slug

if TYPE_CHECKING:
    from patcher.push.plan import PushPlan
    from patcher.push.records import HistoryRow, PushResult, RollbackResult, TargetStatus

CACHE_VARIABLE = "DDPATCH_CACHE"

_PYTHONS = ("3.12", "3.11", "3.10")
_PLATFORMS = ("manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64", "any")
_TAGS = ("cp312", "cp311", "cp310", "py3")
_FROM_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")
_TIMEOUT_S = 900


def cache_dir() -> Path:
    """Return the directory that wheels are kept in."""
    given = os.environ.get(CACHE_VARIABLE)
    return (Path(given) if given else platformdirs.user_cache_path("ddpatch")) / "wheels"


def _cached(folder: Path, version: Version) -> Path | None:
    """Return the wheel of a release that is already here, the newest Python's first."""
    found = []
    for path in folder.glob("sglang-*.whl"):
        parts = path.stem.split("-")
        if len(parts) < 5:
            continue
        number, tag = parts[1], parts[-3]
        with contextlib.suppress(InvalidVersion):  # not a wheel that pip has put here
            if tag in _TAGS and Version(number) == version:
                found.append((_TAGS.index(tag), path))
    return min(found)[1] if found else None


def hashes(version: str) -> dict[str, str]:
    """Python tag to sha256 (hex) of each wheel of a release that the cache holds."""
    found = {}
    for path in sorted(cache_dir().glob("sglang-*.whl")):
        _, number, tag, *_ = path.name.split("-")
        if Version(number) == Version(version):
            found[tag] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _near(version: Version, offered: Sequence[str]) -> list[str]:
    """Return the offered versions around the one asked for, oldest first."""
    known = sorted({Version(v) for v in offered})
    below = [v for v in known if v < version][-3:]
    above = [v for v in known if v > version][:3]
    return [str(v) for v in (*below, *above)]


def _download(folder: Path, version: Version, progress: Progress) -> Path:
    """Let pip fetch the wheel; raises UsageError for a release that is not, TargetError else."""
    offered: list[str] = []
    said = ""
    for number, python in enumerate(_PYTHONS):
        progress("download", number, None)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as draft:
            command = [
                *(sys.executable, "-m", "pip", "download", f"sglang=={version}"),
                *("--no-deps", "--only-binary", ":all:", "--dest", draft),
                *("--python-version", python, "--implementation", "cp"),
                *(word for platform in _PLATFORMS for word in ("--platform", platform)),
                *("--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
            ]
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=_TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise TargetError(
                    f"pip did not fetch sglang {version} within {_TIMEOUT_S} s",
                    next_step="check the network and the index that pip is configured with",
                ) from error
            wheels = list(Path(draft).glob("sglang-*.whl"))
            if done.returncode == 0 and wheels:
                _check_zip(wheels[0])
                return wheels[0].replace(folder / wheels[0].name)
            said = done.stderr
            if "No module named pip" in said:
                raise UsageError(
                    f"{sys.executable} has no pip, which ddpatch fetches releases with",
                    next_step=f"run `{sys.executable} -m ensurepip`, or put the wheel of sglang "
                    f"{version} into {folder}",
                )
            for match in _FROM_VERSIONS.finditer(said):
                offered += [v.strip() for v in match[1].split(",") if v.strip() not in ("", "none")]
    if offered:
        near = _near(version, offered)
        raise UsageError(
            f"the package index has no sglang {version} as a Linux wheel",
            next_step=f"take one that it has, near that: {', '.join(near)}",
        )
    raise TargetError(
        f"the package index gave no sglang {version}: {printable(said)[-600:]}",
        next_step="check the network and `pip config list`, or put the wheel into " + str(folder),
    )


def _check_zip(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as wheel:
            wheel.infolist()
    except (zipfile.BadZipFile, OSError) as error:
        raise TargetError(
            f"{path.name} is not a readable wheel: {error}", next_step="fetch it again"
        ) from error


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time fetch into the cache."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise UsageError(
            f"the cache {folder} cannot be used: {error.strerror}",
            next_step=f"name another directory in {CACHE_VARIABLE}",
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch(version: Version, progress: Progress = quiet) -> Path:
    """Return the wheel of a release, from the cache or the index."""
    folder = cache_dir()
    found = _cached(folder, version)
    if found is None:
        with _alone(folder):
            found = _cached(folder, version) or _download(folder, version, progress)
    return found


@dataclass
class WheelSession:
    """A wheel read as if it were an install; pushing is refused."""

    name: str
    version: Version
    progress: Progress = quiet
    _zip: zipfile.ZipFile | None = field(default=None, repr=False)
    _path: Path = field(default=Path(), repr=False)

    def __enter__(self) -> Self:
        self._path = fetch(self.version, self.progress)
        try:
            self._zip = zipfile.ZipFile(self._path)
        except (zipfile.BadZipFile, OSError) as error:
            raise UsageError(
                f"{self._path} cannot be read: {error}",
                next_step="remove that file, then run again to fetch it anew",
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._zip is not None:
            self._zip.close()

    @property
    def _wheel(self) -> zipfile.ZipFile:
        if self._zip is None:
            raise RuntimeError("the session is not open")
        return self._zip

    def facts(self) -> InstallFacts:
        """Read version and dist-info from the wheel; ``root`` is its file name."""
        distinfo = f"sglang-{self._path.name.split('-')[1]}.dist-info"
        try:
            text = self._wheel.read(f"{distinfo}/METADATA").decode("utf-8", "replace")
        except (KeyError, zipfile.BadZipFile) as error:
            raise UsageError(
                f"{self._path} has no metadata of sglang: {error}",
                next_step="remove that file, then run again to fetch it anew",
            ) from error
        tag = self._path.stem.split("-")[-3]
        python = f"{tag[2]}.{tag[3:]}" if tag.startswith("cp") else ""
        return InstallFacts(
            version=HeaderParser().parsestr(text)["Version"],
            root=self._path.name,
            distinfo=distinfo,
            python_version=python,
        )

    def snapshot(self, known: Container[str]) -> Snapshot:
        """Read every file of the wheel, and keep those whose sha256 is not in ``known``."""
        facts = self.facts()
        entries: dict[str, FileEntry] = {}
        skipped = []
        wanted: dict[str, str] = {}
        members = self._wheel.infolist()
        for number, member in enumerate(members):
            why = self._skip(member, facts.distinfo, entries)
            if why:
                skipped.append(Skipped(printable(member.filename), why))
            if why or member.is_dir():
                continue
            content = self._read(member)
            digest = sha256(content).hexdigest()
            mode = stat.S_IMODE(member.external_attr >> 16) or 0o644
            entries[member.filename] = FileEntry(member.filename, mode, len(content), digest)
            if digest not in known:
                wanted.setdefault(digest, member.filename)
            if number % 100 == 0:
                self.progress("read", number, len(members))
        contents = (
            (digest, self._read(self._wheel.getinfo(path))) for digest, path in wanted.items()
        )
        return Snapshot(Manifest(facts, entries), contents, len(wanted), tuple(skipped))

    def _skip(self, member: zipfile.ZipInfo, distinfo: str, entries: dict[str, FileEntry]) -> str:
        """Say why a member stays out; raises UsageError for one that no honest wheel has."""
        kind = stat.S_IFMT(member.external_attr >> 16)
        path = member.filename.rstrip("/")
        if not path.startswith(("sglang/", f"{distinfo}/")) and path not in ("sglang", distinfo):
            if ".." in path.split("/") or path.startswith("/"):
                self._refuse(path, "leads out of the wheel")
            return "" if member.is_dir() else "not part of the package"
        why = "" if path in ("sglang", distinfo) else files.bad_path(path, distinfo)
        if member.filename in entries:
            why = "comes twice"
        elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            why = "is not a regular file"
        elif member.file_size > files.MAX_FILE or len(entries) >= files.MAX_FILES:
            why = "is larger, or one more, than a snapshot takes"
        if why:
            self._refuse(path, why)
        return ""

    def _refuse(self, path: str, why: str) -> NoReturn:
        raise UsageError(
            f"{self._path}: {path!r} {why}",
            next_step="this is not an official wheel: remove it, and check pip's index",
        )

    def _read(self, member: zipfile.ZipInfo) -> bytes:
        try:
            with self._wheel.open(member) as stream:
                content = stream.read(files.MAX_FILE + 1)
        except (zipfile.BadZipFile, OSError) as error:
            raise UsageError(
                f"{self._path}: {member.filename} is damaged: {error}",
                next_step="remove that file, then run again to fetch it anew",
            ) from error
        if len(content) != member.file_size:
            self._refuse(member.filename, "has another size than it says")
        return content

    def _no_push(self) -> UsageError:
        return UsageError(
            f"{self.name} is a release of the package index, not an install",
            next_step="name a host, `local` or `local:PATH` as the target",
        )

    def push(
        self, plan: PushPlan, *, dry_run: bool = False, allow_running: bool = False
    ) -> PushResult:
        """Raise UsageError: nobody can push to the index."""
        raise self._no_push()

    def rollback(
        self, *, keep: Sequence[str] = (), dry_run: bool = False, allow_running: bool = False
    ) -> RollbackResult:
        """Raise UsageError."""
        raise self._no_push()

    def status(self) -> TargetStatus:
        """Raise UsageError."""
        raise self._no_push()

    def history(self) -> tuple[HistoryRow, ...]:
        """Raise UsageError."""
        raise self._no_push()


@dataclass(frozen=True)
class IndexTarget:
    """An official release."""

    version: Version
    kind: Kind = "index"
    writable: bool = False

    @classmethod
    def parse(cls, version: str) -> IndexTarget:
        """Read a version (PEP 440)."""
        try:
            return cls(Version(version))
        except InvalidVersion as error:
            raise UsageError(
                f"{version!r} is no version of SGLang", next_step="write it like 0.5.11"
            ) from error

    @property
    def name(self) -> str:
        """``pypi:VERSION``, the version in its normal form."""
        return f"pypi:{self.version}"

    @property
    def slug(self) -> str:
        """The name as a component of a git ref."""
        return slug(self.name)

    def connect(self, progress: Progress = quiet) -> WheelSession:
        """Fetch the wheel (once) and open it."""
        return WheelSession(self.name, self.version, progress)
