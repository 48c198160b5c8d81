"""How long a snapshot of real SGLang takes over loopback sshd, against ``scp -r`` and ``rsync -a``.

``python -m benchmarks.snapshot [VERSION]`` starts a throw-away sshd, unpacks the official wheel
(from the cache, or fetched once), and prints medians of three with their ratios. Every method
runs as a whole process, into a new directory on the same disk; ours is the command itself, with
its store, and then its session alone, into one file. ``again`` is a second run on an unchanged
host: ours and rsync's then move no content.
"""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from patcher.targets import parse_target

RUNS = 3


def unpack(version: str, root: Path) -> tuple[int, int]:
    """Write a release into a folder; return its number of files and bytes."""
    total = 0
    with parse_target(f"pypi:{version}", {}).connect() as session:
        snapshot = session.snapshot(())
        contents = dict(snapshot.contents)
    for path, entry in snapshot.manifest.files.items():
        where = root / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(contents[entry.sha256])
        where.chmod(entry.mode)
        total += entry.size
    return len(snapshot.manifest.files), total


@contextmanager
def sshd(home: Path) -> Iterator[Path]:
    """Run an sshd on loopback; give the configuration that leads to it as ``bench``."""
    binary = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if binary is None:
        sys.exit("no sshd here: install openssh-server to run this benchmark")
    for name in ("host_key", "client_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / name)]
        subprocess.run(command, check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (home / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {home}/host_key\nStrictModes no\nUsePAM no\n"
        f"AuthorizedKeysFile {home}/client_key.pub\nPidFile none\nPermitRootLogin yes\n"
        "Subsystem sftp internal-sftp\n"
    )
    key = " ".join((home / "host_key.pub").read_text().split()[:2])
    (home / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n")
    config = home / "config"
    config.write_text(
        f"Host bench\n HostName 127.0.0.1\n Port {port}\n IdentityFile {home}/client_key\n"
        f" IdentitiesOnly yes\n UserKnownHostsFile {home}/known_hosts\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    child = subprocess.Popen([binary, "-D", "-f", str(home / "sshd_config")])
    try:
        for _ in range(500):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield config
    finally:
        child.terminate()
        child.wait(10)


STREAM = """\
import sys
from pathlib import Path
from patcher.targets import parse_target
root, python, into = sys.argv[1:]
with parse_target("bench", {}, python=python, path=root).connect() as session:
    with (Path(into) / "pack").open("wb") as pack:
        for _, content in session.snapshot(()).contents:
            pack.write(content)
"""


def main() -> None:
    """Measure and print."""
    version = sys.argv[1] if len(sys.argv) > 1 else "0.5.11"
    with tempfile.TemporaryDirectory() as folder, sshd(Path(folder)) as config:
        root = Path(folder) / "site"
        files, size = unpack(version, root)
        into = Path(folder) / "into"
        environ = dict(os.environ, DDPATCH_SSH_CONFIG=str(config), SSH_AUTH_SOCK="")
        ssh = f"ssh -F {config}"
        ours = [sys.executable, "-m", "patcher", "--store", str(into), "snapshot", "bench"]
        ours += ["--python", sys.executable, "--path", str(root)]
        stream = [sys.executable, "-c", STREAM, str(root), sys.executable, str(into)]
        rsync = ["rsync", "-a", "-e", ssh, f"bench:{root}/", f"{into}/"]
        methods: list[tuple[str, list[str], bool]] = [
            ("ddpatch snapshot", ours, False),
            ("  its session alone", stream, False),
            ("scp -r", ["scp", "-F", str(config), "-q", "-r", f"bench:{root}/.", str(into)], False),
            ("rsync -a", rsync, False),
            ("ddpatch snapshot, again", ours, True),
            ("rsync -a, again", rsync, True),
        ]
        print(f"sglang {version}: {files} files, {size / 1e6:.1f} MB, medians of {RUNS}")
        medians: dict[str, float] = {}

        def timed(run: Callable[[], object]) -> float:
            started = time.perf_counter()
            run()
            return time.perf_counter() - started

        times: dict[str, list[float]] = {name: [] for name, _, _ in methods}
        # The methods take turns, so that a busy moment of the machine hits all of them.
        for _ in range(RUNS):
            for name, command, again in methods:
                if shutil.which(command[0]) is None:
                    continue
                shutil.rmtree(into, ignore_errors=True)
                into.mkdir(mode=0o700)
                if again:
                    subprocess.run(command, env=environ, check=True, capture_output=True)

                def run(command: list[str] = command) -> None:
                    subprocess.run(command, env=environ, check=True, capture_output=True)

                times[name].append(timed(run))
        for name, values in times.items():
            if values:
                medians[name] = statistics.median(values)
                spread = f"{min(values):.2f}–{max(values):.2f}"
                print(f"  {name:26} {medians[name]:6.2f} s  ({spread})")
        for name, base in (
            ("scp -r", "ddpatch snapshot"),
            ("scp -r", "  its session alone"),
            ("rsync -a", "ddpatch snapshot"),
            ("rsync -a, again", "ddpatch snapshot, again"),
        ):
            if name in medians:
                ratio = medians[name] / medians[base]
                print(f"  {base.strip()} is {ratio:.1f} times as fast as {name}")


if __name__ == "__main__":
    main()
