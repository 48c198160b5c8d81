"""The main job through the command line, on a real SGLang 0.5.11."""

import ast
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Ddpatch, image, rewrite

pytestmark = pytest.mark.network

SPEC_INFO = "sglang/srt/speculative/spec_info.py"
SERVER_ARGS = "sglang/srt/server_args.py"
RUNNER = "sglang/srt/model_executor/cuda_graph_runner.py"


def test_the_whole_job_and_back_to_the_byte(ddpatch: Ddpatch, site: Path) -> None:
    target = f"local:{site}"
    before = image(site)
    taken = ddpatch("snapshot", target, "--json").json
    assert taken["facts"]["version"] == "0.5.11"
    assert taken["record"] == {}
    applied = ddpatch("apply", target, "--json").json
    assert applied["outcome"] == "applied"
    assert image(site) == before
    assert ddpatch("verify", "--json").json["level"] == "dispatch"
    asked = ddpatch("push", target, "--dry-run", "--json").json
    assert asked["outcome"] == "dry-run"
    assert image(site) == before
    pushed = ddpatch("push", target, "--json").json
    assert pushed["outcome"] == "pushed"
    order = [f["path"] for f in pushed["push"]["files"]]
    assert order[-1].endswith("RECORD")
    assert order.index(SPEC_INFO) > order.index("sglang/srt/speculative/ddtree_worker.py")
    assert "--speculative-algorithm DDTREE" in pushed["launch"]
    status = ddpatch("status", target, "--json")
    assert status.code == 0
    assert {f["state"] for f in status.json["status"]["files"]} == {"ours"}
    assert ddpatch("push", target, "--json").json["outcome"] == "nothing-to-do"
    assert ddpatch("rollback", target, "--json").code == 0
    assert image(site) == before
    after = ddpatch("status", target, "--json")
    assert after.code == 0
    assert {f["state"] for f in after.json["status"]["files"]} == {"pristine"}
    actions = [row["action"] for row in ddpatch("history", target, "--json").json["pushes"]]
    assert actions == ["push", "rollback"]


def test_a_pushed_tree_is_seen_as_applied_and_can_be_snapped_again(
    ddpatch: Ddpatch, site: Path
) -> None:
    target = f"local:{site}"
    ddpatch("snapshot", target)
    ddpatch("apply", target)
    ddpatch("push", target)
    again = ddpatch("snapshot", target, "--json").json
    assert again["snapshot"]["number"] == 1
    assert again["moved"]["contents"] < 20
    answer = ddpatch("apply", target, "--json").json
    assert answer["outcome"] == "already-applied"
    assert {p["outcome"] for p in answer["patches"]} <= {"already-applied", "not-needed"}
    assert ddpatch("push", target, "--json").json["outcome"] == "nothing-to-do"


def test_applying_again_changes_nothing(ddpatch: Ddpatch, store_folder: Path) -> None:
    first = ddpatch("apply", "--version", "0.5.11", "--json").json
    git = ["git", f"--git-dir={store_folder / 'store.git'}", "rev-parse", "HEAD"]
    head = subprocess.run(git, capture_output=True, check=True).stdout
    second = ddpatch("apply", "pypi:0.5.11", "--json").json
    assert (first["outcome"], second["outcome"]) == ("applied", "already-applied")
    assert subprocess.run(git, capture_output=True, check=True).stdout == head
    assert first["changes"] == second["changes"]


def test_a_dry_run_shows_the_diff_and_writes_nothing(ddpatch: Ddpatch) -> None:
    answer = ddpatch("apply", "pypi:0.5.11", "--dry-run", "--diff")
    assert answer.code == 0
    assert "+    DDTREE = auto()" in answer.out
    assert ddpatch("verify").code == 2


def test_the_whole_patched_package_can_be_written_out(ddpatch: Ddpatch, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert ddpatch("apply", "pypi:0.5.11", "-o", str(out)).code == 0
    assert b"DDTREE = auto()" in (out / SPEC_INFO).read_bytes()
    assert (out / "sglang/srt/speculative/ddtree_worker.py").is_file()
    assert sum(1 for p in out.rglob("*") if p.is_file()) > 2500
    again = ddpatch("apply", "pypi:0.5.11", "-o", str(out))
    assert again.code == 2
    assert "not empty" in again.out


def test_the_diff_is_one_that_git_applies(ddpatch: Ddpatch, site: Path, tmp_path: Path) -> None:
    ddpatch("apply", f"local:{site}")
    text = ddpatch("diff", f"local:{site}").out
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(site), str(copy)], check=True)
    for command in (["git", "init", "-q"], ["git", "apply", "-"]):
        subprocess.run(command, cwd=copy, input=text, text=True, check=True)
    data = (copy / SPEC_INFO).read_text()
    assert "def is_ddtree" in data
    assert ast.parse(data)


def test_the_series_has_a_commit_per_patch_with_its_reason(ddpatch: Ddpatch) -> None:
    ddpatch("apply", "pypi:0.5.11")
    text = ddpatch("diff", "--per-patch").out
    assert text.index("Add DDTREE to SpeculativeAlgorithm") < text.index("Create a DDTreeWorker")
    assert "Patch: graph-capture" in text


# --------------------------------------------------------- what is not as it should be


def test_a_release_without_dflash_is_a_finding(ddpatch: Ddpatch) -> None:
    answer = ddpatch("apply", "pypi:0.5.10", "--json")
    assert answer.code == 1
    assert answer.json["outcome"] == "conflict"
    assert "no DFLASH" in answer.json["findings"][0]["message"]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda d: d.replace(b"if self.is_dflash():", b"if self.is_dflash_v9():"), 0),
        (
            lambda d: d.replace(
                b"        if self.is_dflash():\n",
                b"        if self.is_dflash():\n            pass\n\n        if self.is_dflash():\n",
            ),
            2,
        ),
    ],
    ids=["gone", "twice"],
)
def test_an_anchor_that_was_edited_by_hand_is_a_finding(
    ddpatch: Ddpatch, site: Path, change: object, found: int
) -> None:
    rewrite(site / SPEC_INFO, change)  # type: ignore[arg-type]
    before = image(site)
    answer = ddpatch("apply", f"local:{site}", "--json")
    assert answer.code == 1
    (finding,) = [f for f in answer.json["findings"] if f["code"] == "anchor.count"]
    assert f"matches {found} time(s)" in finding["message"]
    assert finding["path"] == SPEC_INFO
    assert finding["line"] > 60
    assert finding["next_step"]
    if found == 0:
        assert finding["nearest"][0]["score"] > 0.7
        assert "is_dflash_v9" in finding["nearest"][0]["text"]
    assert image(site) == before
    assert ddpatch("verify").code == 2


def test_a_snapshot_says_how_the_install_differs_from_record(ddpatch: Ddpatch, site: Path) -> None:
    rewrite(site / SPEC_INFO, lambda d: d + b"# mine\n")
    (site / "sglang/srt/mine.py").write_text("x = 1\n")
    (site / "sglang/profiler.py").unlink()
    record = ddpatch("snapshot", f"local:{site}", "--json").json["record"]
    assert record == {
        "modified": [SPEC_INFO],
        "missing": ["sglang/profiler.py"],
        "foreign": ["sglang/srt/mine.py"],
    }


def test_a_file_that_changed_after_the_snapshot_stops_the_push(
    ddpatch: Ddpatch, site: Path
) -> None:
    target = f"local:{site}"
    ddpatch("apply", target)
    rewrite(site / SERVER_ARGS, lambda d: d + b"# somebody else\n")
    before = image(site)
    answer = ddpatch("push", target, "--json")
    assert answer.code == 4
    assert SERVER_ARGS in json.dumps(answer.json["findings"])
    assert "snapshot" in answer.json["next_step"]
    assert image(site) == before


def test_crlf_and_bom_files_are_patched_byte_for_byte(ddpatch: Ddpatch, site: Path) -> None:
    def windows(data: bytes) -> bytes:
        return data.replace(b"\n", b"\r\n")

    rewrite(site / SPEC_INFO, windows)
    rewrite(site / RUNNER, lambda d: b"\xef\xbb\xbf" + d)
    target = f"local:{site}"
    originals = {p: (site / p).read_bytes() for p in (SPEC_INFO, RUNNER)}
    assert ddpatch("apply", target).code == 0
    assert ddpatch("verify", target).code == 0
    assert ddpatch("push", target).code == 0
    patched = (site / SPEC_INFO).read_bytes()
    assert patched.count(b"\n") == patched.count(b"\r\n")
    assert b"    DDTREE = auto()\r\n" in patched
    assert (site / RUNNER).read_bytes().startswith(b"\xef\xbb\xbf")
    kept = set(patched.splitlines(keepends=True))
    lost = [x for x in originals[SPEC_INFO].splitlines(keepends=True) if x not in kept]
    assert len(lost) == 1
    assert b"return self == SpeculativeAlgorithm.DFLASH" in lost[0]
    assert ddpatch("rollback", target).code == 0
    assert {p: (site / p).read_bytes() for p in originals} == originals


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount")
def test_a_full_disk_while_staging_is_refused(
    ddpatch: Ddpatch, site: Path, tmp_path: Path, mounted: object
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    size = sum(p.stat().st_size + 4096 for p in site.rglob("*") if p.is_file())
    mounted(small, "-t", "tmpfs", "-o", f"size={size // 1024 + 20_000}k", "tmpfs")  # type: ignore[operator]
    subprocess.run(["cp", "-r", f"{site}/.", str(small)], check=True)
    target = f"local:{small}"
    assert ddpatch("apply", target).code == 0
    free = os.statvfs(small)
    with (small / "filler").open("wb") as filler:
        filler.write(bytes(free.f_bavail * free.f_frsize - 300_000))
    before = image(small)
    answer = ddpatch("push", target, "--json")
    assert answer.code == 4
    assert "free; the push needs" in answer.json["headline"]
    assert image(small) == before


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="needs root to mount")
def test_an_unwritable_site_packages_refuses_us(
    ddpatch: Ddpatch, site: Path, mounted: object
) -> None:
    target = f"local:{site}"
    assert ddpatch("apply", target).code == 0
    mounted(site, "--bind", str(site))  # type: ignore[operator]
    subprocess.run(["mount", "-o", "remount,bind,ro", str(site)], check=True)
    answer = ddpatch("push", target, "--json")
    assert answer.code == 3
    assert answer.json["next_step"]


def test_no_sglang_there_is_a_usage_error(ddpatch: Ddpatch, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    answer = ddpatch("snapshot", f"local:{empty}", "--json")
    assert answer.code == 2
    assert "--path" in answer.json["next_step"] or "sglang" in answer.json["headline"]


def test_a_version_that_does_not_agree_is_a_usage_error(ddpatch: Ddpatch, site: Path) -> None:
    ddpatch("snapshot", f"local:{site}")
    answer = ddpatch("apply", f"local:{site}", "--version", "0.5.12", "--json")
    assert answer.code == 2
    assert "0.5.11, not 0.5.12" in answer.json["headline"]


def test_pushing_to_a_release_is_a_usage_error(ddpatch: Ddpatch) -> None:
    ddpatch("apply", "pypi:0.5.11")
    answer = ddpatch("push", "pypi:0.5.11", "--json")
    assert answer.code == 2
    assert "-o" in answer.json["next_step"]
