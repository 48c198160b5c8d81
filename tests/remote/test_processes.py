"""Processes that really run from a tree, and those that only look like it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from patcher.model import Refusal
from patcher.targets.base import Target
from patcher.targets.local import LocalTarget
from tests.remote.conftest import Install
from tests.remote.test_session import environment

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs proc(5)")

IMPORTS = "import sglang, sys; print('up', flush=True); sys.stdin.read()"
SPAWNS = """\
import multiprocessing, sys
def work():
    import sglang, sys, time
    print('up', flush=True)
    time.sleep(60)
if __name__ == '__main__':
    child = multiprocessing.get_context('spawn').Process(target=work, daemon=True)
    child.start()
    print(child.pid, flush=True)
    sys.stdin.read()
    child.kill()
    child.join()
"""
ORPHANS = SPAWNS.replace("daemon=True", "daemon=False").replace(
    "    sys.stdin.read()\n", "    sys.stdin.read(); import os; os._exit(0)\n"
)
FORKS = """\
import os, sys
import sglang
if os.fork() == 0:
    print(os.getpid(), flush=True)
sys.stdin.read()
"""


@contextmanager
def started(
    command: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, lines: int = 1
) -> Iterator[list[int]]:
    """Start a process, wait for some lines, and give its id and the ids that it printed."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    child = subprocess.Popen(
        command, cwd=cwd, env={**clean, **(env or {})}, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdin is not None and child.stdout is not None
    told = [child.stdout.readline().strip() for _ in range(lines)]
    assert all(told), told
    try:
        yield [child.pid, *(int(word) for word in told if word.isdecimal())]
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait(10)


def seen(target: Target, install: Install) -> dict[int, str]:
    with target.connect() as session:
        dry = session.push(install.plan(), dry_run=True)
        young = {p.pid for p in dry.processes if p.importing}
        assert young == {p.pid for p in dry.processes}
        if young:
            before = install.image()
            with pytest.raises(Refusal, match="may still be importing") as caught:
                session.push(install.plan())
            assert all(str(pid) in caught.value.message for pid in young)
            assert install.image() == before
        assert {p.pid for p in session.status().processes} == young
    return {p.pid: p.why for p in dry.processes}


@pytest.mark.parametrize("how", ["folder", "path", "relative", "package"])
def test_a_process_that_imported_from_the_folder(how: str, install: Install) -> None:
    where, env = install.root, {}
    if how == "path":
        where, env = install.root.parent, {"PYTHONPATH": f"/nowhere:{install.root}"}
    elif how == "relative":
        where, env = install.root.parent, {"PYTHONPATH": install.root.name}
    elif how == "package":
        where, env = install.root / "sglang/srt", {"PYTHONPATH": str(install.root)}
    with started([sys.executable, "-c", IMPORTS], where, env) as pids:
        assert seen(install.target, install).keys() == set(pids)


def test_a_spawned_child_is_seen_with_its_parent(install: Install, tmp_path: Path) -> None:
    script = tmp_path / "sglang_serve.py"
    script.write_text(SPAWNS)
    env = {"PYTHONPATH": str(install.root)}
    with started([sys.executable, str(script)], tmp_path, env, lines=2) as pids:
        assert len(pids) == 2
        found = seen(install.target, install)
        assert found.keys() == set(pids)
        assert not any("resource_tracker" in why for why in found.values())


def test_a_spawned_child_is_seen_without_its_parent(install: Install, tmp_path: Path) -> None:
    script = tmp_path / "serve.py"
    script.write_text(ORPHANS)
    env = {"PYTHONPATH": str(install.root)}
    with started([sys.executable, str(script)], tmp_path, env, lines=2) as pids:
        child = pids[1]
    try:
        assert child in seen(install.target, install)
    finally:
        os.kill(child, 9)


def test_a_forked_child_is_seen(install: Install) -> None:
    with started([sys.executable, "-c", FORKS], install.root) as pids:
        assert seen(install.target, install).keys() == set(pids)


@pytest.fixture
def venv(tmp_path: Path) -> tuple[Path, Install, Target]:
    """An environment of its own with the package in it."""
    python, site = environment(tmp_path)
    install = Install(site).write()
    launcher = site / "sglang/launch_server.py"
    launcher.write_bytes(b"import sys; print('up', flush=True); sys.stdin.read()\n")
    (site / "sglang/__main__.py").write_bytes(launcher.read_bytes())
    return python, install, LocalTarget.parse("", str(python), "")


@pytest.mark.parametrize(
    "how", ["module", "flags", "code", "package", "path", "activated", "script", "name"]
)
def test_a_process_of_the_environment(
    how: str, venv: tuple[Path, Install, Target], tmp_path: Path
) -> None:
    python, install, target = venv
    full, env, script = str(python), {}, tmp_path / "serve.py"
    script.write_text(IMPORTS.replace("; ", "\n"))
    command = {
        "module": [full, "-m", "sglang.launch_server", "--port", "1"],
        "flags": [full, "-X", "dev", "-um", "sglang.launch_server"],
        "code": [full, "-uc", IMPORTS],
        "package": [full, "-m", "sglang"],
        "path": ["python", "-m", "sglang.launch_server"],
        "activated": ["python", "-c", IMPORTS],
        "script": [full, str(script)],
        "name": [full, "-c", "from sglang.srt import spec_info;" + IMPORTS],
    }[how]
    if how == "path":  # as a service's Environment=PATH= does
        env = {"PATH": f"{python.parent}:{os.environ['PATH']}"}
        command = ["/usr/bin/env", *command]
    elif how == "activated":
        env = {"PATH": f"{python.parent}:{os.environ['PATH']}", "VIRTUAL_ENV": sys.prefix}
        env["VIRTUAL_ENV"] = str(python.parents[1])
        command = ["/usr/bin/env", *command]
    with started(command, tmp_path, env) as pids:
        found = seen(target, install)
        assert found.keys() == set(pids)


def test_a_script_of_the_environment_and_its_spawned_child(
    venv: tuple[Path, Install, Target], tmp_path: Path
) -> None:
    python, install, target = venv
    script = tmp_path / "serve.py"
    script.write_text(SPAWNS)
    with started([str(python), str(script)], tmp_path, lines=2) as pids:
        assert len(pids) == 2
        assert seen(target, install).keys() == set(pids)


def test_what_only_names_the_package_is_not_a_user_of_it(install: Install, tmp_path: Path) -> None:
    """An editor, a pager, a wrapper, and another interpreter's sglang."""
    other = Install(tmp_path / "other").write()
    package = str(install.root / "sglang")
    wait = "printf 'up\\n'; read x"
    with ExitStack() as stack:
        for command, where in (
            (["/bin/sh", "-c", wait, "vim", f"{package}/version.py"], install.root),
            (["/bin/sh", "-c", wait, "grep", "sglang"], install.root),
            (["/bin/sh", "-c", wait, f"{sys.executable} -m sglang.launch_server"], install.root),
            ([sys.executable, "-c", IMPORTS], other.root),
            ([sys.executable, "-c", IMPORTS.replace("sglang", "json")], tmp_path),
        ):
            stack.enter_context(started(command, where))
        assert seen(install.target, install) == {}


def test_a_script_that_is_a_pipe_is_not_read(install: Install, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-c", IMPORTS.replace("sglang", "json")]
    wait = ["/bin/sh", "-c", "printf 'up\\n'; exec \"$@\"", "sh", sys.executable]
    with ExitStack() as stack:
        stack.enter_context(started(command, tmp_path))
        stack.enter_context(started([*wait, "/dev/stdin"], tmp_path))
        (blocked,) = stack.enter_context(started([*wait, str(tmp_path / "pipe")], tmp_path))
        try:
            assert seen(install.target, install) == {}
        finally:
            os.kill(blocked, 9)


def test_an_old_process_is_listed_and_does_not_refuse(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    from patcher.targets.agent import procs

    with started([sys.executable, "-c", IMPORTS], install.root) as pids:
        monkeypatch.setattr(procs, "IMPORTING_S", -5)  # the boot time is in whole seconds
        found, _ = procs.running(str(install.root))
        assert [(row["pid"], row["importing"]) for row in found] == [(pids[0], False)]
