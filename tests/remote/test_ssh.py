"""Targets over a real sshd: names, host keys, signing in, hops, and noise."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from patcher.model import TargetError, UsageError
from patcher.targets import HostConfig, Target, parse_target
from patcher.targets.agent.frames import NOISE_LIMIT
from patcher.targets.session import AgentSession
from patcher.targets.sshconfig import fingerprint, known_keys, parse_address, resolve
from tests.remote.conftest import Install, Sshd

pytestmark = pytest.mark.sshd


def target(spec: str, install: Install, **more: HostConfig) -> Target:
    return parse_target(spec, more, python=sys.executable, path=str(install.root))


def works(spec: str, install: Install, **more: HostConfig) -> None:
    with target(spec, install, **more).connect() as session:
        assert session.facts().version == "0.5.11"


@pytest.mark.parametrize("spec", ["box", "far", "piped", "plain"])
def test_a_host_is_what_openssh_says(spec: str, sshd: Sshd, install: Install) -> None:
    works(f"{sshd.user}@127.0.0.1:{sshd.port}" if spec == "plain" else spec, install)


def test_a_host_of_the_configuration_file(sshd: Sshd, install: Install) -> None:
    key = sshd.home / "client_key"
    host = HostConfig(
        "127.0.0.1", sshd.user, sshd.port, sys.executable, str(install.root), False, str(key)
    )
    with parse_target("gpu", {"gpu": host}).connect() as session:
        assert session.facts().root == str(install.root)
    works("gpu", install, gpu=HostConfig(host="box"))


def test_ssh_G_and_we_agree(sshd: Sshd) -> None:  # noqa: N802
    told = subprocess.run(
        ["ssh", "-G", "-F", str(sshd.config), "far"], capture_output=True, text=True, check=True
    ).stdout
    found = resolve(parse_address("far"))
    assert f"port {found.port}\n" in told and f"hostname {found.hostname}\n" in told
    assert f"user {found.user}\n" in told and "proxyjump box\n" in told
    assert [str(hop) for hop in found.proxy_jump] == ["box"]


def test_push_status_rollback_over_ssh(sshd: Sshd, install: Install) -> None:
    before = install.image()
    with target("far", install).connect() as session:
        assert session.push(install.plan()).outcome == "pushed"
        assert install.is_new
        assert not session.status().drifted
        session.rollback()
        assert {row.client for row in session.history()}
    assert install.image() == before


def test_a_snapshot_moves_only_what_is_new(sshd: Sshd, install: Install) -> None:
    with target("box", install).connect() as session:
        snapshot = session.snapshot(())
        store = dict(snapshot.contents)
        entries = snapshot.manifest.files
        assert {p: store[e.sha256] for p, e in entries.items()} == install.files
        assert {p: e.mode for p, e in entries.items()} == {
            p: (install.root / p).stat().st_mode & 0o7777 for p in install.files
        }
        (install.root / "sglang/version.py").write_bytes(b'__version__ = "0.5.11.post1"\n')
        again = session.snapshot(store)
        assert again.fetched == 1
        assert [c for _, c in again.contents] == [b'__version__ = "0.5.11.post1"\n']


@pytest.mark.parametrize("squeeze", [False, True])
def test_compression_changes_nothing(sshd: Sshd, install: Install, squeeze: bool) -> None:
    with target("box", install).connect() as session:
        assert isinstance(session, AgentSession)
        session._squeeze = squeeze
        assert len(dict(session.snapshot(()).contents)) == len(set(install.files.values()))


def shown_fingerprint(sshd: Sshd) -> str:
    command = ["ssh-keygen", "-lf", str(sshd.home / "host_key.pub")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[1]


@pytest.mark.parametrize("spec", ["box", "far"])
def test_an_unknown_host_key_is_refused(spec: str, sshd: Sshd, install: Install) -> None:
    sshd.known_hosts.write_text("")
    with pytest.raises(TargetError, match="is unknown") as caught:
        works(spec, install)
    assert shown_fingerprint(sshd) in caught.value.message
    assert f"ssh-keyscan -p {sshd.port} 127.0.0.1 >> {sshd.known_hosts}" in caught.value.next_step
    assert sshd.known_hosts.read_text() == ""


def other_key(tmp_path: Path, kind: str) -> str:
    path = tmp_path / kind
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(path)], check=True)
    return " ".join((tmp_path / f"{kind}.pub").read_text().split()[:2])


def test_a_changed_host_key_is_refused(sshd: Sshd, install: Install, tmp_path: Path) -> None:
    name = f"[127.0.0.1]:{sshd.port}"
    sshd.known_hosts.write_text(f"# a comment\n{name} {other_key(tmp_path, 'ed25519')}\n")
    with pytest.raises(TargetError, match="has CHANGED") as caught:
        works("box", install)
    assert f"{sshd.known_hosts}:2" in caught.value.message
    assert shown_fingerprint(sshd) in caught.value.message
    assert f"ssh-keygen -R '{name}'" in caught.value.next_step


def test_a_revoked_host_key_is_refused(sshd: Sshd, install: Install) -> None:
    name = f"[127.0.0.1]:{sshd.port}"
    sshd.known_hosts.write_text(f"@revoked {name} {sshd.host_key}\n{name} {sshd.host_key}\n")
    with pytest.raises(TargetError, match="revoked"):
        works("box", install)


def test_a_host_known_by_its_authority_only_says_so(
    sshd: Sshd, install: Install, tmp_path: Path
) -> None:
    key = other_key(tmp_path, "ed25519")
    sshd.known_hosts.write_text(f"@cert-authority *,[127.0.0.1]:{sshd.port} {key}\n")
    with pytest.raises(TargetError, match="certificate authority"):
        works("box", install)


def test_another_kind_of_key_is_not_a_change(sshd: Sshd, install: Install, tmp_path: Path) -> None:
    sshd.known_hosts.write_text(f"[127.0.0.1]:{sshd.port} {other_key(tmp_path, 'ecdsa')}\n")
    with pytest.raises(TargetError, match="known are other kinds"):
        works("box", install)


def test_hashed_wildcard_and_alias_lines_count(sshd: Sshd, install: Install) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-H", "-f", str(sshd.known_hosts)], check=True, capture_output=True
    )
    assert "127.0.0.1" not in sshd.known_hosts.read_text()
    works("box", install)
    sshd.known_hosts.write_text(f"[127.0.0.*]:{sshd.port} {sshd.host_key}\n")
    works("box", install)
    with pytest.raises(TargetError, match="another-name is unknown"):
        works("other", install)
    sshd.known_hosts.write_text(f"another-name {sshd.host_key}\n")
    works("other", install)


def test_a_match_under_the_bare_name_counts_as_in_ssh(
    sshd: Sshd, install: Install, tmp_path: Path
) -> None:
    sshd.known_hosts.write_text(f"127.0.0.1 {sshd.host_key}\n")
    works("box", install)
    sshd.known_hosts.write_text(f"127.0.0.1 {other_key(tmp_path, 'ed25519')}\n")
    with pytest.raises(TargetError, match="is unknown"):
        works("box", install)


def test_fingerprints_are_those_of_ssh(sshd: Sshd) -> None:
    (key,) = known_keys(f"[127.0.0.1]:{sshd.port}", (str(sshd.known_hosts),))
    assert fingerprint(key.blob) == shown_fingerprint(sshd)
    assert key.place == f"{sshd.known_hosts}:1"


def test_a_wrong_key_lists_what_was_tried(sshd: Sshd, install: Install, tmp_path: Path) -> None:
    other_key(tmp_path, "ed25519")
    path = tmp_path / "ed25519"
    host = HostConfig(host="box", identity=str(path))
    with pytest.raises(TargetError, match="did not let us in") as caught:
        works("gpu", install, gpu=host)
    assert f"{path} SHA256:" in caught.value.message and "refused" in caught.value.message
    gone = HostConfig(host="box", identity=str(tmp_path / "gone"))
    with pytest.raises(TargetError, match="no such file"):
        works("gpu", install, gpu=gone)


def tried(sshd: Sshd, install: Install, extra: str) -> str:
    """Return what is said when the key of the configuration is not to be had."""
    config = sshd.home / "tried.conf"
    config.write_text(
        f"Host *\n UserKnownHostsFile {sshd.known_hosts}\n IdentityAgent none\n{extra}\n"
        f"Include {sshd.home}/extra.conf\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DDPATCH_SSH_CONFIG", str(config))
        with pytest.raises(TargetError, match="did not let us in") as caught:
            works("box", install)
    return caught.value.message


def test_a_configured_key_that_is_not_there_is_named(
    sshd: Sshd, install: Install, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    said = tried(sshd, install, f" IdentityFile {gone}\n IdentityFile {tmp_path}/too")
    assert f"{gone}: no such file (IdentityFile of the ssh configuration)" in said
    assert f"{tmp_path}/too: no such file" in said and "no key to try" not in said


def test_the_default_keys_that_nobody_has_are_not_listed(
    sshd: Sshd, install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    said = tried(sshd, install, "")
    assert "no such file" not in said and "no IdentityFile is configured" in said
    said = tried(sshd, install, " IdentityFile none")
    assert "no such file" not in said and "no IdentityFile is configured" in said


def test_a_server_that_speaks_no_ssh_is_one_message(install: Install) -> None:
    code = (
        "import sys\nfrom patcher.targets import parse_target\n"
        "from patcher.model import TargetError\n"
        "try: parse_target(sys.argv[1], {}).connect()\n"
        "except TargetError as error: print(error.message)\n"
    )
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]

        def answer() -> None:
            with server.accept()[0] as client:
                client.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        done = subprocess.run(
            [sys.executable, "-c", code, f"x@127.0.0.1:{port}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        thread.join(10)
    assert "does not speak ssh with us" in done.stdout
    assert done.stderr == ""


def test_a_key_with_a_passphrase_points_to_ssh_add(
    sshd: Sshd, install: Install, tmp_path: Path
) -> None:
    path = tmp_path / "locked"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(path)], check=True
    )
    with pytest.raises(TargetError, match="has a passphrase") as caught:
        works("gpu", install, gpu=HostConfig(host="box", identity=str(path)))
    assert "secret" not in caught.value.message


@pytest.mark.skipif(shutil.which("ssh-agent") is None, reason="no ssh-agent here")
def test_keys_in_an_agent_are_used(sshd: Sshd, install: Install, tmp_path: Path) -> None:
    where = tmp_path / "agent"
    child = subprocess.Popen(["ssh-agent", "-D", "-a", str(where)], stdout=subprocess.DEVNULL)
    try:
        while not where.exists():
            assert child.poll() is None
        add = ["ssh-add", "-q", str(sshd.home / "client_key")]
        environ = dict(os.environ, SSH_AUTH_SOCK=str(where))
        subprocess.run(add, env=environ, check=True, capture_output=True)
        extra = sshd.home / "extra.conf"
        text = extra.read_text()
        config = sshd.home / "agent.conf"
        config.write_text(
            f"Host *\n UserKnownHostsFile {sshd.known_hosts}\n IdentityFile /nowhere\n"
            f" IdentityAgent {where}\n{text}"
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DDPATCH_SSH_CONFIG", str(config))
            works("box", install)
            config.write_text(config.read_text() + "Host *\n IdentitiesOnly yes\n")
            with pytest.raises(TargetError, match="did not let us in"):
                works("box", install)
    finally:
        child.terminate()
        child.wait(10)


def test_noise_of_start_up_files_is_skipped(sshd: Sshd, install: Install) -> None:
    sshd.rc.write_text("printf 'J\\0\\0\\0\\2{}welcome \\033[31m\\n'; echo oops >&2\n")
    works("box", install)
    sshd.rc.write_text(f"head -c {NOISE_LIMIT} /dev/zero\n")
    works("box", install)
    sshd.rc.write_text(f"head -c {NOISE_LIMIT + 1} /dev/zero\n")
    with pytest.raises(TargetError, match="did not start"):
        works("box", install)


def test_an_echo_of_the_input_is_not_an_agent(sshd: Sshd, install: Install) -> None:
    sshd.rc.write_text("exec cat\n")
    with pytest.raises(TargetError, match="did not start"):
        works("box", install)


def test_a_shell_that_refuses_is_quoted(sshd: Sshd, install: Install) -> None:
    sshd.rc.write_text("printf 'This account is \\033[1mnot available\\n' >&2; exit 1\n")
    with pytest.raises(TargetError, match="not available") as caught:
        works("box", install)
    assert "\x1b" not in caught.value.message and "\\x1b" in caught.value.message


def test_an_interpreter_that_is_not_there(sshd: Sshd) -> None:
    with pytest.raises(UsageError, match="/no/python cannot run") as caught:
        parse_target("box", {}, python="/no/python").connect().__enter__()
    assert "--python" in caught.value.next_step


def test_sudo_that_refuses_is_said(sshd: Sshd, install: Install, tmp_path: Path) -> None:
    fake = tmp_path / "sudo"
    fake.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    fake.chmod(0o755)
    sshd.rc.write_text(f"PATH={tmp_path}:$PATH\n")
    host = HostConfig("box", python=sys.executable, path=str(install.root), sudo=True)
    with pytest.raises(TargetError, match="sudo refused: sudo: a password is required"):
        parse_target("gpu", {"gpu": host}).connect().__enter__()
    fake.write_text('#!/bin/sh\n[ "$1" = -n ] || exit 9\nshift\nexec "$@"\n')
    with parse_target("gpu", {"gpu": host}).connect() as session:
        assert session.facts().version == "0.5.11"


def test_a_closed_port(sshd: Sshd, install: Install) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(TargetError, match="cannot be reached"):
        works(f"x@127.0.0.1:{port}", install)


def test_a_server_that_is_silent(
    sshd: Sshd, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patcher.targets.ssh.CONNECT_S", 0.3)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with pytest.raises(TargetError, match="does not speak ssh"):
            works(f"x@127.0.0.1:{server.getsockname()[1]}", install)


def test_a_jump_host_that_leads_nowhere(sshd: Sshd, install: Install) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    extra = sshd.home / "extra.conf"
    text = extra.read_text()
    extra.write_text(
        f"Host lost\n HostName 127.0.0.1\n Port {port}\n ProxyJump box\n"
        f"Host loop\n ProxyJump loop\n{text}"
    )
    try:
        with pytest.raises(TargetError, match="does not lead to"):
            works("lost", install)
        with pytest.raises((UsageError, TargetError)):
            works("loop", install)
    finally:
        extra.write_text(text)


def test_a_certificate_file_is_said_to_be_unsupported(sshd: Sshd, install: Install) -> None:
    config = sshd.home / "cert.conf"
    config.write_text(f"Include {sshd.config}\nHost *\n CertificateFile ~/x-cert.pub\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DDPATCH_SSH_CONFIG", str(config))
        with pytest.raises(UsageError, match="CertificateFile"):
            works("box", install)


@pytest.mark.parametrize("after", [10, 3000, 60_000, 92_000])
def test_a_cut_connection_is_never_a_result(after: int, sshd: Sshd, install: Install) -> None:
    """A proxy passes so many bytes to us and then closes both ends."""
    before = install.image()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        proxy = threading.Thread(target=relay, args=(server, sshd.port, after))
        proxy.start()
        port = server.getsockname()[1]
        sshd.known_hosts.write_text(f"[127.0.0.1]:{port} {sshd.host_key}\n")
        big = install.root / "sglang/big.json"
        big.write_bytes(os.urandom(90_000))
        try:
            spec = f"{sshd.user}@127.0.0.1:{port}"
            with pytest.raises(TargetError), target(spec, install).connect() as session:
                for _ in session.snapshot(()).contents:
                    pass
        finally:
            proxy.join(20)
        assert not proxy.is_alive()
    big.unlink()
    assert install.image() == before


def relay(server: socket.socket, port: int, limit: int) -> None:
    with server.accept()[0] as client, socket.create_connection(("127.0.0.1", port)) as back:

        def up() -> None:
            while data := client.recv(65536):
                back.sendall(data)

        def quietly() -> None:
            try:
                up()
            except OSError:
                return

        upward = threading.Thread(target=quietly)
        upward.start()
        passed = 0
        while passed < limit:
            data = back.recv(min(4096, limit - passed))
            if not data:
                break
            client.sendall(data)
            passed += len(data)
        client.shutdown(socket.SHUT_RDWR)
        back.shutdown(socket.SHUT_RDWR)
        upward.join(10)
