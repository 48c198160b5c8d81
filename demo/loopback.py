"""A throw-away OpenSSH server on loopback, with keys and configuration of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_SERVER = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/client_key.pub
StrictModes no
UsePAM no
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
LogLevel ERROR
"""
_CLIENT = """\
Host {name}
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/client_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
"""


@dataclass(frozen=True)
class Loopback:
    """A running server: the ssh configuration that leads to it, under ``name``."""

    name: str
    config: Path
    port: int


def sshd_binary() -> str | None:
    """The path of an OpenSSH server on this machine, or None."""
    if shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        return None
    return shutil.which("sshd", path=f"/usr/sbin:/usr/local/sbin:{os.environ.get('PATH', '')}")


@contextmanager
def loopback_sshd(folder: Path, name: str = "gpu1") -> Iterator[Loopback]:
    """Start sshd on a free loopback port; it ends with the block.

    Raises RuntimeError with the server's own words when it does not come up in ten seconds.
    """
    binary = sshd_binary()
    if binary is None:
        raise RuntimeError("there is no OpenSSH server here")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for key in ("host_key", "client_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "demo", "-f", folder / key]
        subprocess.run(command, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    words = {"folder": folder, "port": port, "name": name}
    (folder / "sshd_config").write_text(_SERVER.format(**words))
    (folder / "ssh_config").write_text(_CLIENT.format(**words))
    host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}\n")
    log = folder / "sshd.log"
    with log.open("wb") as stream:
        server = subprocess.Popen([binary, "-D", "-e", "-f", folder / "sshd_config"], stderr=stream)
    try:
        _wait(server, port, log)
        yield Loopback(name, folder / "ssh_config", port)
    finally:
        server.terminate()
        server.wait(10)


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sshd did not start: {log.read_text()}") from None
            time.sleep(0.02)
