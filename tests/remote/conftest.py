"""A small sglang with a change to push, and a real sshd on loopback."""

from __future__ import annotations

import base64
import getpass
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from patcher.push.plan import Change, PushPlan, build_plan
from patcher.targets.base import Target
from patcher.targets.local import LocalTarget

DISTINFO = "sglang-0.5.11.dist-info"
SPEC = "sglang/srt/spec_info.py"
ARGS = "sglang/srt/server_args.py"
BUILDER = "sglang/srt/ddtree/builder.py"
PACKAGE = "sglang/srt/ddtree/__init__.py"
OBSOLETE = "sglang/srt/obsolete.py"
RECORD = f"{DISTINFO}/RECORD"

OLD: dict[str, bytes] = {
    "sglang/__init__.py": b"",
    "sglang/version.py": b'__version__ = "0.5.11"\n',
    "sglang/srt/__init__.py": b"",
    SPEC: b"DFLASH = 'DFLASH'\r\n\r\ndef is_dflash(x):\r\n    return x == DFLASH\r\n",
    ARGS: b"from sglang.srt.spec_info import DFLASH\n\nCHOICES = [DFLASH]\n",
    OBSOLETE: b"LEFT = 1\n",
    "sglang/srt/unrelated.py": b"VALUE = 1\n",
    "sglang/srt/configs/N=7168,block_shape=[128, 128].json": b"{}\n",
    f"{DISTINFO}/METADATA": b"Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.11\n",
    f"{DISTINFO}/INSTALLER": b"pip\n",
}
NEW: dict[str, bytes | None] = {
    ARGS: b"from sglang.srt.ddtree.builder import NAME\n"
    b"from sglang.srt.spec_info import DFLASH, DDTREE\n\nCHOICES = [DFLASH, DDTREE, NAME]\n",
    SPEC: OLD[SPEC] + b"DDTREE = 'DDTREE'\r\n",
    PACKAGE: b"",
    BUILDER: b"from sglang.srt.spec_info import DDTREE\n\nNAME = DDTREE.lower()\n",
    OBSOLETE: None,
}
TOUCHED = (*NEW, RECORD)


def record_of(files: dict[str, bytes]) -> bytes:
    rows = []
    for path, content in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        shown = f'"{path}"' if "," in path else path
        rows.append(f"{shown},sha256={digest},{len(content)}\n")
    return ("".join(rows) + f"{RECORD},,\n").encode()


@dataclass
class Install:
    """A package's parent directory, with what there was to begin with."""

    root: Path
    files: dict[str, bytes] = field(default_factory=dict)

    def write(self) -> Install:
        self.files = {**OLD, RECORD: record_of(OLD)}
        for path, content in self.files.items():
            where = self.root / path
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_bytes(content)
            os.utime(where, (1_700_000_000, 1_700_000_000))
        (self.root / ARGS).chmod(0o640)
        return self

    def read(self, path: str) -> bytes | None:
        where = self.root / path
        return where.read_bytes() if where.exists() else None

    def image(self, times: bool = True) -> dict[str, tuple[object, ...]]:
        """Bytes, mode, and with ``times`` also inode and mtime, of every file; no bytecode."""
        rows: dict[str, tuple[object, ...]] = {}
        for path in sorted(self.root.rglob("*")):
            name = path.relative_to(self.root).as_posix()
            if name.startswith(".ddpatch") or name.endswith(".pyc") or not path.is_file():
                continue
            status = path.lstat()
            exact = (status.st_ino, status.st_mtime_ns) if times else ()
            rows[name] = (path.read_bytes(), status.st_mode, *exact)
        return rows

    def plan(self, **changed: bytes) -> PushPlan:
        wanted = {**NEW, **changed}
        return build_plan(
            [Change(path, self.files.get(path), new) for path, new in wanted.items()],
            set_name="ddtree",
            set_version="1",
            distinfo=DISTINFO,
            record=self.files[RECORD],
            dispatch={ARGS},
        )

    @property
    def target(self) -> Target:
        return LocalTarget.parse(str(self.root), sys.executable, "")

    @property
    def is_new(self) -> bool:
        return all(self.read(path) == new for path, new in NEW.items())


@pytest.fixture
def install(tmp_path: Path) -> Install:
    return Install(tmp_path / "site").write()


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory where there is one: nothing here loses power, so fsync may be free."""
    fast = Path("/dev/shm")
    where = fast if fast.is_dir() and os.access(fast, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        yield Path(folder)


@dataclass
class Sshd:
    """A running sshd, and a configuration for ssh(1) that leads to it under several names."""

    port: int
    home: Path
    config: Path
    known_hosts: Path
    host_key: str
    log: Path
    user: str

    @property
    def rc(self) -> Path:
        """The shell start-up file that the server runs before each command."""
        return self.home / "rc.sh"


def _keygen(path: Path) -> None:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)]
    subprocess.run(command, check=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


SSHD_CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey {home}/host_key
AuthorizedKeysFile {home}/client_key.pub
StrictModes no
UsePAM no
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowTcpForwarding yes
MaxStartups 100
LogLevel ERROR
PermitRootLogin yes
ForceCommand /bin/sh {home}/shell.sh
"""
SSH_CONFIG = """\
Host *
  UserKnownHostsFile {known}
  GlobalKnownHostsFile /dev/null
  IdentityFile {home}/client_key
  IdentitiesOnly yes
  IdentityAgent none
Include {home}/extra.conf
"""
EXTRA = """\
Host box
  HostName 127.0.0.1
  Port {port}
Host far
  HostName 127.0.0.1
  Port {port}
  ProxyJump box
Host piped
  HostName 127.0.0.1
  Port {port}
  ProxyCommand {python} {home}/pipe.py %h %p
Host other
  HostName 127.0.0.1
  Port {port}
  HostKeyAlias another-name
"""
PIPE = """\
import os, select, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
while True:
    for f in select.select([s, 0], [], [])[0]:
        data = s.recv(65536) if f is s else os.read(0, 65536)
        if not data:
            sys.exit(0)
        if f is s:
            os.write(1, data)
        else:
            s.sendall(data)
"""


@pytest.fixture(scope="session")
def sshd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    binary = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if binary is None or shutil.which("ssh") is None:
        pytest.skip("no OpenSSH server here: install openssh-server to run the ssh tests")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    home = tmp_path_factory.mktemp("sshd")
    _keygen(home / "host_key")
    _keygen(home / "client_key")
    port = _free_port()
    names = {"port": port, "home": home, "python": sys.executable, "known": home / "known_hosts"}
    (home / "sshd_config").write_text(SSHD_CONFIG.format(**names))
    (home / "config").write_text(SSH_CONFIG.format(**names))
    (home / "extra.conf").write_text(EXTRA.format(**names))
    (home / "pipe.py").write_text(PIPE)
    (home / "shell.sh").write_text(f'. {home}/rc.sh\neval "$SSH_ORIGINAL_COMMAND"\n')
    (home / "rc.sh").write_text("")
    key = " ".join((home / "host_key.pub").read_text().split()[:2])
    log = home / "log"
    with log.open("wb") as stream:
        child = subprocess.Popen(
            [binary, "-D", "-e", "-f", str(home / "sshd_config")], stderr=stream
        )
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if child.poll() is not None or time.monotonic() > deadline:
                child.kill()
                child.wait()
                raise RuntimeError(f"sshd did not start: {log.read_text()}") from None
            time.sleep(0.02)
    yield Sshd(port, home, home / "config", home / "known_hosts", key, log, getpass.getuser())
    child.terminate()
    child.wait(10)


@pytest.fixture
def sshd(sshd_server: Sshd, monkeypatch: pytest.MonkeyPatch) -> Sshd:
    """The server, with its host key known and no noise."""
    name = f"[127.0.0.1]:{sshd_server.port}"
    sshd_server.known_hosts.write_text(f"{name} {sshd_server.host_key}\n")
    sshd_server.rc.write_text("")
    monkeypatch.setenv("DDPATCH_SSH_CONFIG", str(sshd_server.config))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return sshd_server
