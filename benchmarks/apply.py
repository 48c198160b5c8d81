"""``python -m benchmarks.apply``: a whole ``ddpatch apply`` beside other ways to change the files.

Peers, on the same release and with the same result: ``git apply`` of the finished diff in an
unpacked tree (no search, no checks), and what any LibCST codemod has to do at least: parse the
files that are edited, with positions, and write them again.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_RELEASE = "0.5.11"
_RUNS = 5
_CODEMOD = """
import sys, libcst
from libcst.metadata import MetadataWrapper, PositionProvider
for path in sys.argv[1:]:
    wrapper = MetadataWrapper(libcst.parse_module(open(path, "rb").read()))
    wrapper.resolve(PositionProvider)
    wrapper.module.bytes
"""


def _median(run: Callable[[], None]) -> float:
    times = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main() -> None:
    """Print the medians of five runs, and their ratios to ``ddpatch apply``."""
    with tempfile.TemporaryDirectory() as folder:
        store, tree = Path(folder) / "store", Path(folder) / "tree"
        environment = {**os.environ, "DDPATCH_STORE": str(store)}

        def ddpatch(*words: str) -> str:
            command = [sys.executable, "-m", "patcher", *words]
            done = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            return done.stdout

        started = time.perf_counter()
        ddpatch("snapshot", f"pypi:{_RELEASE}")
        snapped = time.perf_counter()
        ddpatch("inventory", f"pypi:{_RELEASE}", "--json")
        mapped = time.perf_counter()
        ddpatch("apply", f"pypi:{_RELEASE}")
        diff = ddpatch("diff")
        paths = [line[6:] for line in diff.splitlines() if line.startswith("--- a/")]

        def forget() -> None:
            git = ["git", f"--git-dir={store / 'store.git'}"]
            subprocess.run([*git, "symbolic-ref", "HEAD", "refs/heads/patched/none"], check=True)
            name = f"refs/heads/patched/pypi=3A{_RELEASE}"
            subprocess.run([*git, "update-ref", "-d", name], check=True)

        def apply() -> None:
            forget()
            ddpatch("apply", f"pypi:{_RELEASE}")

        ddpatch("apply", f"pypi:{_RELEASE}", "-o", str(tree))
        reverse = ["git", "apply", "--reverse", "-"]
        forward = ["git", "apply", "-"]
        text = diff.encode()

        def git_apply() -> None:
            subprocess.run(reverse, cwd=tree, input=text, check=True)
            subprocess.run(forward, cwd=tree, input=text, check=True)

        def codemod() -> None:
            files = [str(tree / p) for p in paths]
            subprocess.run([sys.executable, "-c", _CODEMOD, *files], check=True)

        ours = _median(apply)
        rows = [
            ("ddpatch apply, whole process", ours),
            ("git apply, there and back, halved", _median(git_apply) / 2),
            ("LibCST parse, positions and write", _median(codemod)),
        ]
    print(f"sglang {_RELEASE}: snapshot of the wheel {snapped - started:.2f} s, ", end="")
    print(f"first inventory as a whole process {mapped - snapped:.2f} s")
    for name, seconds in rows:
        print(f"{name:36} {seconds:6.2f} s   {seconds / ours:5.2f} x ddpatch")


if __name__ == "__main__":
    main()
