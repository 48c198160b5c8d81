"""The main job through the command line over a real sshd, on a real SGLang."""

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Ddpatch, image
from tests.remote.conftest import Sshd, sshd, sshd_server

__all__ = ["sshd", "sshd_server"]

pytestmark = [pytest.mark.network, pytest.mark.sshd]


def test_the_whole_job_over_ssh(ddpatch: Ddpatch, sshd: Sshd, site: Path) -> None:
    before = image(site)
    options = ("--python", sys.executable, "--path", str(site))
    assert ddpatch("snapshot", "box", *options, "--json").json["facts"]["root"] == str(site)
    assert ddpatch("inventory", "box").code == 0
    assert ddpatch("apply", "box").code == 0
    assert ddpatch("verify", "box").code == 0
    # the interpreter and the folder are known from the snapshot
    assert ddpatch("push", "box", "--dry-run").code == 0
    assert image(site) == before
    assert ddpatch("push", "box").code == 0
    assert ddpatch("status", "box").code == 0
    assert image(site) != before
    assert ddpatch("rollback", "box").code == 0
    assert image(site) == before


def test_a_second_snapshot_moves_nothing(ddpatch: Ddpatch, sshd: Sshd, site: Path) -> None:
    options = ("--python", sys.executable, "--path", str(site))
    assert ddpatch("snapshot", "box", *options, "--json").json["moved"]["contents"] > 2000
    again = ddpatch("snapshot", "box", *options, "--json").json
    assert again["outcome"] == "unchanged"
    assert again["moved"]["contents"] == 0


def test_a_host_of_the_configuration(
    ddpatch: Ddpatch, sshd: Sshd, site: Path, tmp_path: Path
) -> None:
    (tmp_path / "ddpatch.toml").write_text(
        f'[hosts.gpu1]\nhost = "box"\npython = "{sys.executable}"\npath = "{site}"\n'
    )
    answer = ddpatch("snapshot", "gpu1", "--json").json
    assert answer["target"] == "gpu1"
    assert answer["facts"]["root"] == str(site)


def test_an_unknown_host_key_is_exit_3(ddpatch: Ddpatch, sshd: Sshd, site: Path) -> None:
    sshd.known_hosts.write_text("")
    answer = ddpatch("snapshot", "box", "--path", str(site), "--json")
    assert answer.code == 3
    assert "SHA256:" in answer.json["headline"]
    assert answer.json["next_step"]
