"""``make demo``: fetch SGLang, patch it over SSH, and take the patch back to the byte.

Everything happens in a scratch folder that is gone afterwards. Where there is no OpenSSH server,
the same steps run on a local tree.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from packaging.version import Version

from demo.loopback import loopback_sshd, sshd_binary
from patcher.targets.index import fetch

_RELEASE = "0.5.11"


class Demo:
    """The scratch folder, and the steps that are told one by one."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.site = scratch / "venv" / "site-packages"
        self.environment = {**os.environ, "DDPATCH_STORE": str(scratch / "store"), "NO_COLOR": "1"}
        self.step = 0

    def tell(self, what: str, outcome: str) -> None:
        """A step in a line, and what came of it in another."""
        self.step += 1
        print(f"\n{self.step}. {what}\n   {outcome}", flush=True)

    def install(self) -> None:
        """Install the official wheel into the scratch tree, as pip does."""
        started = time.perf_counter()
        wheel = fetch(Version(_RELEASE))
        tag = wheel.name.split("-")[2]
        python = f"{tag[2]}.{tag[3:]}" if tag.startswith("cp") else "3"
        platform = wheel.stem.split("-")[-1].split(".")[0]
        command = [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
            *("--disable-pip-version-check", "--no-compile", "--root-user-action", "ignore"),
            *("--python-version", python, "--platform", platform, "--only-binary", ":all:"),
            *("--target", str(self.site), str(wheel)),
        ]
        subprocess.run(command, check=True)
        files = sum(1 for p in self.site.rglob("*") if p.is_file())
        seconds = time.perf_counter() - started
        self.tell(
            f"pip install sglang=={_RELEASE} into a scratch tree",
            f"{files:,} files in {seconds:.1f} s ({wheel.name})",
        )

    def run(self, *words: str, expect: int = 0) -> Mapping[str, Any]:
        """Run ddpatch as a user would, with --json, and check its exit code."""
        command = [sys.executable, "-m", "patcher", *words, "--json"]
        done = subprocess.run(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != expect:
            sys.exit(
                f"ddpatch {' '.join(words)}: exit {done.returncode}, expected {expect}\n"
                f"{done.stdout}\n{done.stderr}"
            )
        answer: Mapping[str, Any] = json.loads(done.stdout)
        return answer

    def image(self) -> str:
        """One hash over every path, mode and content of the install."""
        total = hashlib.sha256()
        for path in sorted(p for p in self.site.rglob("*") if p.is_file()):
            name = path.relative_to(self.site).as_posix()
            if not name.startswith(".ddpatch/"):
                mode = path.stat().st_mode
                total.update(f"{name}\0{mode:o}\0".encode(errors="surrogateescape"))
                total.update(path.read_bytes())
        return total.hexdigest()

    def play(self, target: str, *options: str) -> None:
        """The main job on one target."""
        before = self.image()
        taken = self.run("snapshot", target, *options)
        self.tell(
            f"ddpatch snapshot {target}",
            f"sglang {taken['facts']['version']}: {taken['files']:,} files, "
            f"{taken['moved']['bytes'] / 1e6:.1f} MB moved",
        )
        found = self.run("inventory", target)
        coverage = found["coverage"]
        sites = sum(q["count"] for q in found["queries"])
        self.tell(
            f"ddpatch inventory {target}",
            f"{sites:,} sites from {len(found['queries'])} queries; {coverage['seen']:,} files "
            f"seen = {coverage['parsed']} parsed + {coverage['ruled_out']:,} ruled out + "
            f"{len(coverage.get('unreadable', {}))} unreadable",
        )
        applied = self.run("apply", target)
        done = [p["id"] for p in applied["patches"] if p["outcome"] == "applied"]
        self.tell(
            f"ddpatch apply {target}",
            f"{applied['set']} {applied['outcome']}: {len(done)} patches, "
            f"{len(applied['changes'])} files; nothing on the target has changed: "
            f"{'true' if self.image() == before else 'FALSE'}",
        )
        proved = self.run("verify", target)
        levels = ", ".join(level["level"] for level in proved["levels"] if level["holds"])
        self.tell(f"ddpatch verify {target}", f"{proved['outcome']}: {levels}")
        self._push(target)
        self._take_back(target, before)

    def _push(self, target: str) -> None:
        asked = self.run("push", target, "--dry-run")["push"]
        self.tell(
            f"ddpatch push {target} --dry-run",
            f"{len(asked['files'])} files in order, {asked['need'] / 1e6:.1f} MB needed",
        )
        pushed = self.run("push", target)
        self.tell(
            f"ddpatch push {target}",
            f"{pushed['outcome']}: first {pushed['push']['files'][0]['path']}, "
            f"last {pushed['push']['files'][-1]['path']}\n   launch: {pushed['launch']}",
        )
        state = self.run("status", target)
        states = [f["state"] for f in state["status"]["files"]]
        self.tell(f"ddpatch status {target}", f"{states.count('ours')} of {len(states)} are ours")

    def _take_back(self, target: str, before: str) -> None:
        undone = self.run("rollback", target)
        same = self.image() == before
        self.tell(
            f"ddpatch rollback {target}",
            f"{len(undone['rollback']['files'])} files back; every byte and mode as before: {same}",
        )
        if not same:
            sys.exit("the tree is not what it was before the push")
        state = self.run("status", target)
        states = [f["state"] for f in state["status"]["files"]]
        self.tell(
            f"ddpatch status {target}", f"{states.count('pristine')} of {len(states)} are pristine"
        )


def main() -> None:
    """Play the demo; exits non-zero at the first step that does not do what it should."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ddpatch-demo-") as folder, ExitStack() as stack:
        demo = Demo(Path(folder))
        demo.install()
        if sshd_binary() is None:
            print("\n   (no OpenSSH server here: playing on a local tree)")
            demo.play(f"local:{demo.site}")
        else:
            server = Path(folder) / "ssh"
            server.mkdir(mode=0o700)
            loopback = stack.enter_context(loopback_sshd(server))
            demo.environment["DDPATCH_SSH_CONFIG"] = str(loopback.config)
            demo.tell("start a throw-away sshd on loopback", f"port {loopback.port}")
            demo.play("gpu1", "--python", sys.executable, "--path", str(demo.site))
    print(f"\nThe main job ran from end to end in {time.perf_counter() - started:.1f} s.")


if __name__ == "__main__":
    main()
