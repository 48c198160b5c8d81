"""What is found on a target, and a target that lies."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patcher.model import TargetError, UsageError
from patcher.targets import HostConfig, parse_target, slug
from patcher.targets.agent import frames
from patcher.targets.agent.files import bad_path
from patcher.targets.agent.journal import Journal, decode, encode
from patcher.targets.index import IndexTarget
from patcher.targets.local import LocalTarget, ProcessLink
from patcher.targets.program import arguments, command, program
from patcher.targets.session import AgentSession
from tests.remote.conftest import DISTINFO, OLD, Install


def test_facts_of_a_folder(install: Install) -> None:
    with install.target.connect() as session:
        facts = session.facts()
    assert (facts.version, facts.root, facts.distinfo) == ("0.5.11", str(install.root), DISTINFO)
    assert (facts.installer, facts.editable) == ("pip", False)
    assert facts.python == sys.executable
    assert facts.python_version == ".".join(map(str, sys.version_info[:3]))


def environment(tmp_path: Path) -> tuple[Path, Path]:
    """Make an interpreter with a site-packages of its own."""
    home = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    return home / "bin/python", next((home / "lib").glob("python3*")) / "site-packages"


def facts_of(python: Path, path: str = "") -> Any:
    with LocalTarget.parse("", str(python), path).connect() as session:
        return session.facts()


def test_facts_of_an_environment(tmp_path: Path) -> None:
    python, site = environment(tmp_path)
    with pytest.raises(UsageError, match="has no sglang") as caught:
        facts_of(python)
    assert "--python" in caught.value.next_step and "--path" in caught.value.next_step
    Install(site).write()
    (site / "torch").mkdir()
    (site / "torch/version.py").write_text(
        "__version__ = '2.9.1+cu128'\nfrom typing import Optional\ncuda: Optional[str] = '12.8'\n"
    )
    (site / "torch/__init__.py").write_text("raise SystemExit('torch was imported')\n")
    (site / "sglang/__init__.py").write_text("raise SystemExit('sglang was imported')\n")
    # A .pth file that prints must not get into the conversation.
    (site / "chatty.pth").write_text("import os; os.write(1, b'J' * 99)\n")
    facts = facts_of(python)
    assert (facts.version, facts.torch, facts.cuda) == ("0.5.11", "2.9.1+cu128", "12.8")
    assert facts.root == str(site)
    Install(site).write()
    (site / "sglang-0.5.10.dist-info").mkdir()
    with pytest.raises(UsageError, match="more than one") as caught:
        facts_of(python)
    assert "sglang-0.5.10.dist-info" in caught.value.message


def test_two_packages_on_the_path_are_refused(tmp_path: Path) -> None:
    python, site = environment(tmp_path)
    Install(site).write()
    other = Install(tmp_path / "other").write()
    (site / "other.pth").write_text(f"{other.root}\n")
    with pytest.raises(UsageError, match="more than one") as caught:
        facts_of(python)
    assert str(other.root) in caught.value.message and "--path" in caught.value.next_step
    assert facts_of(python, str(other.root)).root == str(other.root)


def test_an_editable_checkout(tmp_path: Path) -> None:
    python, site = environment(tmp_path)
    checkout = tmp_path / "checkout"
    package = checkout / "python"
    Install(package).write()
    info = package / DISTINFO
    info.rename(site / DISTINFO)
    (site / DISTINFO / "direct_url.json").write_text(
        json.dumps({"url": f"file://{package}", "dir_info": {"editable": True}})
    )
    (site / "editable.pth").write_text(f"{package}\n")
    assert facts_of(python).checkout == ""
    git = ["git", "-C", str(checkout), "-c", "user.name=t", "-c", "user.email=t@t"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    marker = tmp_path / "executed"
    monitor = tmp_path / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {marker}\n")
    monitor.chmod(0o755)
    subprocess.run([*git, "config", "core.fsmonitor", str(monitor)], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    marker.unlink(missing_ok=True)
    facts = facts_of(python)
    assert (facts.editable, facts.root, facts.distinfo) == (True, str(package), "")
    assert facts.checkout == head.stdout.strip()
    (package / "sglang/version.py").write_text("changed\n")
    assert facts_of(python, str(package)).checkout == head.stdout.strip() + "+dirty"
    assert not marker.exists()


def test_a_linked_package_is_refused(tmp_path: Path) -> None:
    install = Install(tmp_path / "real").write()
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sglang").symlink_to(install.root / "sglang")
    with pytest.raises(UsageError, match="symbolic link"):
        facts_of(Path(sys.executable), str(tmp_path / "site"))


def test_what_a_snapshot_leaves_out(install: Install, tmp_path: Path) -> None:
    (install.root / "sglang/__pycache__").mkdir()
    (install.root / "sglang/__pycache__/x.cpython-311.pyc").write_bytes(b"x")
    (install.root / "sglang/old.pyc").write_bytes(b"x")
    (install.root / "sglang/link.py").symlink_to("/etc/passwd")
    (install.root / "sglang/dir").symlink_to(tmp_path)
    os.mkfifo(install.root / "sglang/pipe")
    (install.root / ".git").mkdir()
    (install.root / "sglang/.gitattributes").write_text("*.py filter=evil\n")
    for name in (b"new\nline.py", b"latin-\xe9.py", b"back\\slash.py"):
        (install.root / "sglang" / os.fsdecode(name)).write_bytes(b"x = 1\n")
    (install.root / "sglang/.ddpatch").mkdir()
    (install.root / "sglang/.ddpatch/x.py").write_text("")
    with install.target.connect() as session:
        snapshot = session.snapshot(())
        contents = dict(snapshot.contents)
    assert snapshot.manifest.files.keys() == install.files.keys()
    assert len(contents) == len(set(install.files.values()))
    assert {s.path: s.reason for s in snapshot.skipped} == {
        "sglang/link.py": "symlink to /etc/passwd",
        "sglang/dir": f"symlink to {tmp_path}",
        "sglang/pipe": "not a regular file",
        "sglang/new\nline.py": "its name has a backslash or a character that cannot be printed",
        "sglang/latin-\\udce9.py": "its name is not UTF-8",
        "sglang/back\\slash.py": "its name has a backslash or a character that cannot be printed",
        "sglang/.ddpatch/x.py": "its name is in a directory that is not part of an install",
    }


def interpreter(version: str) -> str:
    """Find another Python: on the path, or among those of pyenv."""
    pyenv = shutil.which("pyenv")
    if pyenv is not None:
        asked = subprocess.run(
            [pyenv, "versions", "--bare"], capture_output=True, text=True, check=True
        )
        for name in asked.stdout.split():
            if name.startswith(f"{version}."):
                told = subprocess.run(
                    [pyenv, "prefix", name], capture_output=True, text=True, check=True
                )
                return f"{told.stdout.strip()}/bin/python"
    return shutil.which(f"python{version}") or pytest.skip(f"no python{version} here")


@pytest.mark.parametrize("version", ["3.6", "3.8", "3.12", "3.13"])
def test_other_interpreters(version: str, install: Install) -> None:
    before = install.image()
    target = LocalTarget.parse(str(install.root), interpreter(version), "")
    with target.connect() as session:
        assert session.facts().python_version.startswith(version)
        assert dict(session.snapshot(()).contents)
        assert session.push(install.plan()).outcome == "pushed"
        assert not session.status().drifted
        session.rollback()
        assert len(session.history()) == 2
    assert install.image() == before


class Liar:
    """A link whose agent says what the test wants."""

    protocol = frames.PROTOCOL

    def __init__(self, *answers: bytes, status: int = 0, end: bool = True) -> None:
        self.answers = list(answers)
        self.status = status
        self.end = end
        self.frames = 1
        self.closed = False
        self.out = b""

    def send(self, data: bytes) -> None:
        if data[8:14] == b"import":
            nonce = data.rpartition(b"main(")[2].split(b"'")[1].decode()
            hello = frames.json_frame({"protocol": self.protocol})
            self.out += frames.greeting(nonce) + hello
        elif b'"bye"' in data:
            if self.end:
                self.out += frames.frame(frames.END, json.dumps({"frames": self.frames}).encode())
        elif self.answers:
            self.out += self.answers.pop(0)

    def recv(self, size: int) -> bytes:
        data, self.out = self.out[:size], self.out[size:]
        return data

    def finish(self) -> int:
        return self.status

    def errors(self) -> str:
        return ""

    def close(self) -> None:
        self.closed = True


FACTS = frames.json_frame(
    {
        "ok": {
            **dict.fromkeys(("installer", "torch", "cuda", "checkout"), ""),
            "python": "p",
            "python_version": "3",
            "gpus": [],
            "editable": False,
            "version": "0.5.11",
            "root": "/site",
            "distinfo": DISTINFO,
        }
    }
)
GOOD = b"x = 1\n"
SHA = hashlib.sha256(GOOD).hexdigest()


def row(path: Any = "sglang/a.py", **other: Any) -> list[Any]:
    values = {"mode": 0o644, "size": len(GOOD), "mtime": 0, "sha": SHA, "nlink": 1, **other}
    return [path, *values.values()]


def manifest(*rows: Any, count: int | None = None, **more: Any) -> bytes:
    told = {"count": len(rows) if count is None else count, "skipped": [], **more}
    return frames.json_frame({"rows": list(rows)}) + frames.json_frame({"ok": told})


def lied(*answers: bytes, **options: Any) -> str:
    link = Liar(FACTS, *answers, **options)
    with pytest.raises(TargetError) as caught, AgentSession(link, "host") as session:
        for _ in session.snapshot(()).contents:
            pass
    assert link.closed
    # The trailer of this liar is wrong, too: that must not be what gave it away.
    assert "trailer" not in caught.value.message
    return caught.value.message


def data(*items: tuple[str, bytes]) -> bytes:
    return frames.frame(frames.DATA, frames.pack(list(items)))


DONE = frames.json_frame({"ok": {"count": 1}})


def test_an_agent_of_another_protocol_is_refused() -> None:
    link = Liar(FACTS)
    link.protocol = frames.PROTOCOL + 1
    with pytest.raises(TargetError, match="protocol") as caught, AgentSession(link, "host"):
        pass
    assert str(frames.PROTOCOL) in caught.value.message
    assert link.closed


def test_an_honest_liar_is_believed() -> None:
    link = Liar(FACTS, manifest(row()), data((SHA, GOOD)) + DONE)
    link.frames = 6
    with AgentSession(link, "host") as session:
        assert dict(session.snapshot(()).contents) == {SHA: GOOD}


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/passwd",
        "sglang/../../x",
        "sglang//a.py",
        "sglang/./a.py",
        "sglang/a\\b.py",
        "sglang/a\nb.py",
        "sglang/\x1b[31m.py",
        "sglang/\udcff.py",
        "sglang/" + "a" * 1100,
        "other/a.py",
        "sglang",
        "sglang/.git/config",
        "sglang/__pycache__/a.py",
        7,
    ],
)
def test_hostile_paths_refuse_the_whole_snapshot(path: Any) -> None:
    said = lied(manifest(row(), row(path)))
    assert "connection was lost" in said and "ended early" not in said


@pytest.mark.parametrize(
    "answer",
    [
        manifest(row(), row()),
        manifest(row("sglang/a"), row("sglang/a/b.py")),
        manifest(row(size=-1)),
        manifest(row(size=2**40)),
        manifest(row(mode=0o100644)),
        manifest(row(sha="A" * 64)),
        manifest(row(sha="ab")),
        manifest(["sglang/a.py"]),
        manifest(row(), count=2),
        manifest(row(), skipped=[["x"]]),
        manifest(*(row(f"sglang/{n}.py", size=2**26) for n in range(17))),
        frames.json_frame({"what": 1}),
        frames.json_frame([]),
        b"Z\0\0\0\0",
        b"J\xff\xff\xff\xff",
        b"J\0\0\0\2{]",
        manifest(row())[:-3],
    ],
    ids=range(17),
)
def test_a_manifest_that_no_honest_install_has(answer: bytes) -> None:
    assert "connection was lost" in lied(answer)


@pytest.mark.parametrize(
    "answer",
    [
        DONE,  # nothing came
        data((SHA, b"x = 2\n")) + DONE,  # not what it says
        data((hashlib.sha256(b"new").hexdigest(), b"new")) + DONE,  # not asked for
        data((SHA, GOOD), (SHA, GOOD)) + DONE,  # twice
        data((SHA, GOOD))[:-2],  # truncated
        data((SHA, GOOD)),  # no end
        frames.frame(frames.DATA, b"short") + DONE,
        frames.frame(frames.DATA, struct.pack(">32sQ", b"", 2**60)) + DONE,
    ],
    ids=range(8),
)
def test_contents_that_are_not_what_was_announced(answer: bytes) -> None:
    assert "connection was lost" in lied(manifest(row()), answer)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zlib.compress(b"\0" * (frames.MAX_FRAME + 1), 9)
    link = Liar(FACTS, manifest(row()), frames.frame(frames.DATA, bomb) + DONE)
    larger = pytest.raises(TargetError, match="larger than a frame")
    with larger, AgentSession(link, "host", squeeze=True) as session:
        list(session.snapshot(()).contents)


@pytest.mark.parametrize("how", [{"status": 1}, {"status": -1}, {"end": False}])
def test_an_end_without_trailer_or_status_is_an_error(how: dict[str, Any]) -> None:
    link = Liar(FACTS, **how)
    link.frames = 2
    lost = pytest.raises(TargetError, match="connection was lost")
    with lost, AgentSession(link, "h") as session:
        session.facts()


def test_a_trailer_that_counts_other_frames_is_an_error() -> None:
    link = Liar(FACTS)
    link.frames = 3
    with pytest.raises(TargetError, match="trailer says 3"), AgentSession(link, "h") as session:
        session.facts()


def test_a_snapshot_must_be_read_to_its_end(install: Install) -> None:
    with install.target.connect() as session:
        iterator = session.snapshot(()).contents
        next(iterator)
        with pytest.raises(TargetError, match="not read to the end"):
            session.status()


def test_an_idle_agent_gives_up(install: Install) -> None:
    link = ProcessLink(arguments(sys.executable))
    link.send(program("00", idle=1))
    while link.recv(4096):
        pass
    assert link.finish() == 1
    assert "no byte moved" in link.errors()
    link.close()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda ops: [["../x", "", ops[0][2], ops[0][3], 0o644]], "outside"),
        (lambda ops: [["/etc/x", "", ops[0][2], ops[0][3], 0o644]], "outside"),
        (lambda ops: [ops[0], ops[0]], "twice"),
        (lambda ops: [[*ops[0][:2], "0" * 64, *ops[0][3:]]], "without its content"),
        (lambda ops: [[*ops[0][:4], 0o4755]], "asks for mode"),
        (lambda ops: [[*ops[0][:3], 999, ops[0][4]]], "another size"),
    ],
)
def test_the_agent_does_not_trust_its_client_either(
    install: Install, change: Callable[[Any], Any], why: str
) -> None:
    plan = install.plan()
    ops = [
        [f.path, f.old, f.new, len(c.new or b""), c.mode]
        for f, c in zip(plan.files, plan.changes, strict=True)
    ]
    request = {
        "op": "push",
        "root": str(install.root),
        "distinfo": DISTINFO,
        "client": "x",
        "set": "x",
        "set_version": "1",
        "ops": change(ops),
        "imports": [],
        "contents": len(plan.contents),
        "dry_run": False,
        "allow_running": True,
    }
    before = install.image()
    target = install.target
    with target.connect() as session:
        assert isinstance(session, AgentSession)
        with pytest.raises(frames.AgentError, match=why):
            session.call(request, plan.contents)
    assert install.image() == before


def test_specs() -> None:
    kinds = {spec: parse_target(spec, {}).kind for spec in ("local", "local:/x", "pypi:1.0", "h")}
    assert kinds == {"local": "local", "local:/x": "local", "pypi:1.0": "index", "h": "ssh"}
    assert not parse_target("pypi:0.5.11", {}).writable
    assert parse_target("pypi:0.5.11.0post1", {}).name == "pypi:0.5.11.0.post1"
    assert parse_target("me@[::1]:22", {}).name == "me@[::1]:22"
    assert parse_target("local:x", {}).name == f"local:{Path.cwd() / 'x'}"


@pytest.mark.parametrize(
    "spec",
    ["", "-oProxyCommand=x", "a@-b", "-a@b", "a b", "a;b", "$(x)", "a@b:x", "a@b:0", "a@b:99999",
     "a\nb", "a@@b", "[::1", "local:", "pypi:", "pypi:x y", "a@b`id`", "h/x"],
)  # fmt: skip
def test_bad_specs_start_nothing(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process was started"))
    with pytest.raises(UsageError) as caught:
        parse_target(spec, {}).connect()
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("spec", "said", "step"),
    [
        ("0.5.11", "'0.5.11' is a version, not a host", "did you mean pypi:0.5.11?"),
        ("0.5.12.post1", "is a version", "did you mean pypi:0.5.12.post1?"),
        ("0.5.13rc1", "is a version", "did you mean pypi:0.5.13rc1?"),
        ("v0.5.11", "is a version", "did you mean pypi:0.5.11?"),
        ("0.5.11+cu128", "is a version", "did you mean pypi:0.5.11+cu128?"),
        ("me@0.5.11:22", "is a version", "did you mean pypi:0.5.11?"),
        ("127.1", "is a version", "pypi:127.1"),
        ("1.2.3.4.5", "is a version", "pypi:1.2.3.4.5"),
        ("256.1.1.1", "is a version", "pypi:256.1.1.1"),
        ("017.0.0.1", "is a version", "pypi:17.0.0.1"),
        ("0x7f.1", "no host name", "user@host"),
        ("0x7f000001", "no host name", "user@host"),
        ("node1@2", "node1@2 is a snapshot, not a target", "node1"),
        ("me@node1:22@2", "is a snapshot, not a target", "me@node1:22"),
        ("local@1", "is a snapshot, not a target", "local"),
        ("pypi:0.5.11@3", "is a snapshot, not a target", "pypi:0.5.11"),
        ("2", "'2' is a number, not a host", "NAME@2"),
        ("2:22", "'2' is a number, not a host", "NAME@2"),
        ("1..2", "no host name", "user@host"),
    ],
)
def test_a_version_or_a_number_is_no_host(
    spec: str, said: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process was started"))
    monkeypatch.setattr(socket, "create_connection", lambda *_: pytest.fail("it connected"))
    with pytest.raises(UsageError) as caught:
        parse_target(spec, {}).connect()
    assert said in caught.value.message and step in caught.value.next_step


@pytest.mark.parametrize(
    "spec",
    ["10.0.0.1", "me@10.0.0.1:22", "gpu1", "2gpu", "gpu-1.example.org", "7b", "3com.com", "[::1]",
     "1.gpu.example.org", "10.0.0.1.nip.io", "0.5.11.1"],
)  # fmt: skip
def test_addresses_and_names_stay_hosts(spec: str) -> None:
    assert parse_target(spec, {}).kind == "ssh"


def test_a_configured_host_may_have_any_name() -> None:
    assert parse_target("0.5.11", {"0.5.11": HostConfig(host="gpu1")}).kind == "ssh"


@pytest.mark.parametrize("spec", ["abc", "", "0.5.11 x"])
def test_what_is_no_version_says_so_however_it_was_given(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        IndexTarget.parse(spec)
    assert caught.value.message == f"{spec!r} is no version of SGLang"
    assert caught.value.next_step == "write it like 0.5.11"


@pytest.mark.parametrize("python", ["py thon", "/x;id", "$(id)", "/a'b", "-c", "python3 -c x", ""])
def test_bad_interpreters(python: str) -> None:
    with pytest.raises(UsageError):
        command(python, False)


def test_host_tables() -> None:
    host = HostConfig.from_table("gpu", {"host": "h", "port": 2222, "sudo": True})
    assert host == HostConfig("h", "", 2222, "", "", True)
    for table in ({"hots": "h"}, {"port": "22"}, {"sudo": 1}, {"port": True}):
        with pytest.raises(UsageError, match=r"\[hosts.gpu\]"):
            HostConfig.from_table("gpu", table)


@pytest.mark.parametrize(
    ("table", "said", "step"),
    [
        ({"port": "22"}, "port is '22', expected integer", "give port as an integer"),
        ({"port": True}, "port is True, expected integer", "give port as an integer"),
        ({"user": 7}, "user is 7, expected string", "give user as a string"),
        ({"sudo": "yes"}, "sudo is 'yes', expected true or false", "give sudo as true or false"),
    ],
)
def test_a_wrong_type_is_said_in_words(table: dict[str, object], said: str, step: str) -> None:
    with pytest.raises(UsageError) as caught:
        HostConfig.from_table("gpu", table)
    assert said in caught.value.message and step in caught.value.next_step
    assert f"[hosts.gpu] {said}" == caught.value.message


NAMES = st.text(st.sampled_from("ab.-@:/=%~^lock{}Ü \\"), min_size=1, max_size=12)


@settings(deadline=None)
@given(NAMES, NAMES)
def test_slugs_differ_and_are_legal_refs(one: str, two: str) -> None:
    assert (slug(one) == slug(two)) == (one == two)
    text = slug(one)
    assert not text.startswith((".", "-")) and not text.endswith((".", ".lock"))
    assert ".." not in text and not set(text) & set("~^:?*[\\ {}@/")


def test_git_takes_slugs() -> None:
    for name in ("me@host:22", ".a..b.lock", "local:/a b/[c]~^", "x.lock", "..", "a/b", "pypi:1!2"):
        ref = f"refs/heads/snapshot/{slug(name)}"
        assert subprocess.run(["git", "check-ref-format", ref], check=False).returncode == 0, ref


def test_paths_that_real_installs_have() -> None:
    for path in (*OLD, "sglang/a/N=7168,K=1 block_shape=[128, 128].json", "sglang/ü.py"):
        assert bad_path(path, DISTINFO) == "", path
    assert bad_path(f"{DISTINFO}/RECORD", "")


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9)), max_size=5), st.data())
def test_a_torn_journal_loses_its_tail_only(records: list[dict[str, str]], draw: Any) -> None:
    raw = b"".join(encode(record) for record in records)
    at = draw.draw(st.integers(0, len(raw)))
    whole = raw[:at].count(b"\n")
    assert decode(raw[:at], "j") == records[:whole]


def test_what_is_written_after_a_crash_replaces_a_torn_tail(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        journal = Journal(fd, "j")
        journal.append({"is": "begin"}, new=True)
        with (tmp_path / "journal").open("ab") as stream:
            stream.write(b"0123456789abcdef {" + b"x" * 500)
        again = Journal(fd, "j")
        again.load()
        again.append({"is": "committed"})
        assert decode((tmp_path / "journal").read_bytes(), "j") == again.records
        assert again.state == "committed"
    finally:
        os.close(fd)
