"""How the command line behaves: help, JSON, colours, errors, completion, configuration."""

import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from patcher.cli import cli
from patcher.cli.show import printable
from patcher.model import ExitCode, Report, Table
from patcher.report import renderers
from patcher.report.diff import unified
from tests.cli.conftest import Ddpatch

COMMANDS = cli.list_commands(click.Context(cli))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_and_takes_json(ddpatch: Ddpatch, name: str) -> None:
    answer = ddpatch(name, "--help")
    assert answer.code == 0
    assert "--json" in answer.out
    assert len(answer.out.splitlines()) > 8


def test_the_help_names_every_command_under_a_heading(ddpatch: Ddpatch) -> None:
    out = ddpatch("--help").out
    assert all(f"\n  {name} " in out for name in COMMANDS)
    assert "Main job:" in out


def test_a_mistyped_command_is_answered_with_the_nearest(ddpatch: Ddpatch) -> None:
    answer = ddpatch("snapshto")
    assert answer.code == 2
    assert "Did you mean 'snapshot'?" in answer.err


def test_an_error_is_one_json_document_too(ddpatch: Ddpatch) -> None:
    answer = ddpatch("apply", "--json")
    assert answer.code == 2
    document = answer.json
    assert document["schema_version"] == 1
    assert document["exit_code"] == 2
    assert document["next_step"]
    assert document["findings"][0]["code"] == "error.usage"


@pytest.mark.parametrize(
    "words", [("push",), ("apply", "--verson", "1"), ("snapshto",), ("completion", "tcsh")]
)
def test_a_usage_error_is_one_json_document_too(ddpatch: Ddpatch, words: tuple[str, ...]) -> None:
    answer = ddpatch(*words, "--json")
    assert answer.code == 2
    assert answer.json["exit_code"] == 2
    assert answer.json["next_step"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(ddpatch: Ddpatch, shell: str) -> None:
    out = ddpatch("completion", shell).out
    assert "_DDPATCH_COMPLETE" in out
    assert "ddpatch" in out


def test_a_store_without_permission_is_a_usage_error(ddpatch: Ddpatch, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    folder.chmod(0o755)
    answer = ddpatch("inventory", "pypi:0.5.11", "--json", store=folder)
    assert answer.code == 2
    assert "chmod 700" in answer.json["next_step"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hosts = 3", "hosts"),
        ("[hosts.a]\nprot = 22\n", "unknown key: prot"),
        ('[hosts.a]\nport = "22"\n', "expected int"),
        ("nonsense = 1\n", "unknown key(s) nonsense"),
        ("= 1\n", "ddpatch.toml"),
    ],
)
def test_a_bad_configuration_is_named(
    ddpatch: Ddpatch, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "ddpatch.toml").write_text(text)
    answer = ddpatch("snapshot", "a", "--json")
    assert answer.code == 2
    assert words in answer.json["headline"]


def test_the_configuration_can_name_the_store(tmp_path: Path, ddpatch: Ddpatch) -> None:
    (tmp_path / "ddpatch.toml").write_text('store = "there"\n')
    command = [sys.executable, "-m", "patcher", "inventory", "--json"]
    environment = {k: v for k, v in os.environ.items() if k != "DDPATCH_STORE"}
    root = Path(__file__).parents[2]
    environment["PYTHONPATH"] = str(root)
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert (tmp_path / "there" / "store.git").is_dir()
    assert json.loads(done.stdout)["headline"].endswith("there is no snapshot yet")
    assert "no snapshot" in done.stderr


def test_text_from_a_target_cannot_drive_the_terminal() -> None:
    assert printable("a\x1b[31mb\x07\r\u202e\ud800") == "a\\x1b[31mb\\x07\\r\\u202e\\ud800"
    assert printable("naïve …\n\tx") == "naïve …\n\tx"


def test_a_pipe_gets_every_row_whole() -> None:
    rows = tuple((f"a.py:{n}", "x" * 99) for n in range(50))
    table = Table("t", ("where", "b"), rows, dense=True, fold=12)
    report = Report("x", ExitCode.OK, {"n": 3}, "head", tables=(table,))
    text = renderers()["text"].render(report)
    assert text.count("x" * 99) == 50
    assert json.loads(renderers()["json"].render(report))["n"] == 3


def _on_terminal(columns: int, report: Report) -> str:
    """What a report looks like on a terminal of that width, without colour."""
    script = (
        "import pickle, sys; from patcher.cli.show import show; "
        "show(pickle.loads(sys.stdin.buffer.read()), as_json=False)"
    )
    main, secondary = os.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "xterm"}
    done = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=secondary,
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    os.close(secondary)
    assert done.stdin is not None
    done.stdin.write(pickle.dumps(report))
    done.stdin.close()
    output = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        output += part
    os.close(main)
    assert done.wait(30) == 0
    return re.sub(r"\x1b\[[0-9;]*[mK]", "", output.decode()).replace("\r\n", "\n")


def test_a_terminal_folds_and_says_by_how_much() -> None:
    rows = tuple((f"pkg/a.py:{n}", f"name{n}", "word " * 20, "z" * 30) for n in range(50))
    table = Table("t", ("where", "name", "text", "more"), rows, dense=True, fold=12)
    out = _on_terminal(60, Report("x", ExitCode.OK, {}, "head", tables=(table,)))
    assert out.count("pkg/a.py") == 1
    assert "name11" in out
    assert "name12" not in out
    assert "38 more rows (--all shows them); columns more" in out
    assert max(map(len, out.splitlines())) <= 60 + len("  … and 38 more rows (--all shows them)")


def test_a_diff_on_a_terminal_is_not_wrapped() -> None:
    body = "diff --git a/x b/x\n+" + "y" * 200 + "\n"
    report = Report("diff", ExitCode.OK, {}, "head", body=body, syntax="diff")
    assert "+" + "y" * 200 in _on_terminal(40, report)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\n", b"a\nc\n"),
        (b"a\r\nb\r\n", b"a\r\nx\r\nb\r\n"),
        (b"a", b"a\n"),
        (None, b"new\n"),
        (b"old\n", None),
        (b"a\x0cb\n\xe2\x80\xa8\n", b"a\x0cb\n\xe2\x80\xa8x\n"),
    ],
)
def test_a_diff_takes_one_file_to_the_other(
    tmp_path: Path, before: bytes | None, after: bytes | None
) -> None:
    path = tmp_path / "f.py"
    if before is not None:
        path.write_bytes(before)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        cwd=tmp_path,
        input=unified("f.py", before, after).encode(),
        check=True,
    )
    assert (path.read_bytes() if path.exists() else None) == after


def test_what_a_shell_may_complete(ddpatch: Ddpatch, tmp_path: Path) -> None:
    (tmp_path / "ddpatch.toml").write_text('store = "s"\n[hosts.gpu1]\nport = 22\n')
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "_DDPATCH_COMPLETE": "bash_complete",
        "COMP_WORDS": "ddpatch snapshot g",
        "COMP_CWORD": "2",
    }
    environment.pop("DDPATCH_STORE", None)
    done = subprocess.run(
        [sys.executable, "-m", "patcher"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "plain,gpu1\n"


def test_an_interrupt_leaves_exit_code_130(
    ddpatch: Ddpatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("patcher.workspace.Workspace.find", interrupted)
    answer = ddpatch("inventory", "pypi:0.5.11")
    assert answer.code == 130
    assert "nothing is half done" in answer.err


def test_the_environment_names_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ddpatch: Ddpatch
) -> None:
    from click.testing import CliRunner

    monkeypatch.setenv("DDPATCH_STORE", str(tmp_path / "from-environment"))
    (tmp_path / "ddpatch.toml").write_text('store = "from-file"\n')
    assert CliRunner().invoke(cli, ["inventory"]).exit_code == 2
    assert (tmp_path / "from-environment" / "store.git").is_dir()
    assert not (tmp_path / "from-file").exists()
