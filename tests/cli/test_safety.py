"""Nothing of anybody's is lost in silence: hand edits, other sets, originals, odd bytes."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from patcher.model import FileEntry, InstallFacts, Manifest
from patcher.store import Store
from tests.cli.conftest import Ddpatch, image, rewrite

pytestmark = pytest.mark.network

SPEC_INFO = "sglang/srt/speculative/spec_info.py"
SERVER_ARGS = "sglang/srt/server_args.py"
WORKER = "sglang/srt/speculative/ddtree_worker.py"
ROOT = Path(__file__).parents[2]

MEMBER = """\
from patcher.edits import AddMember
from patcher.patchset import Patch, Strategy

PATCH = Patch(
    id="member",
    title="Add a member",
    why="An algorithm is named in the enum, as all the others are.",
    strategies=(
        Strategy(
            id="enum",
            edits=(
                AddMember(
                    file="sglang/srt/speculative/spec_info.py",
                    cls="SpeculativeAlgorithm",
                    after="DFLASH",
                    name="OTHER",
                ),
            ),
        ),
    ),
)
"""
EMPTY = """\
from pathlib import Path

from patcher.edits import AddFile
from patcher.patchset import Patch, Strategy

PATCH = Patch(
    id="empty",
    title="Add an empty package",
    why="A package has an __init__.py, and that one is often empty.",
    strategies=(
        Strategy(
            id="file",
            edits=(
                AddFile(
                    path="sglang/other/__init__.py",
                    template="empty.j2",
                    folder=Path(__file__).parent,
                ),
            ),
        ),
    ),
)
"""
RUNNER = (
    MEMBER.replace('id="member"', 'id="profiler"')
    .replace(
        """\
                AddMember(
                    file="sglang/srt/speculative/spec_info.py",
                    cls="SpeculativeAlgorithm",
                    after="DFLASH",
                    name="OTHER",
                ),
""",
        """\
                AddImport(file="sglang/profiler.py", module="sglang.other", name="nothing"),
""",
    )
    .replace("AddMember", "AddImport")
)


def make_set(folder: Path, name: str, version: str, manifest: str, **patches: str) -> Path:
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from patcher.patchset import PatchSet\n"
        f'SET = PatchSet(name="{name}", version="{version}", title="T", '
        f'manifest="sglang/{manifest}/_ddpatch_manifest.py")\n'
    )
    for module, code in patches.items():
        (folder / f"{module}.py").write_text(code)
    (folder / "empty.j2").write_text("")
    return folder


def pushed(ddpatch: Ddpatch, site: Path) -> str:
    target = f"local:{site}"
    for command in ("snapshot", "apply", "push"):
        assert ddpatch(command, target).code == 0
    return target


@pytest.mark.parametrize("path", [SERVER_ARGS, WORKER], ids=["changed", "added"])
def test_a_hand_edit_of_a_patched_host_is_not_lost(ddpatch: Ddpatch, site: Path, path: str) -> None:
    target = pushed(ddpatch, site)
    rewrite(site / path, lambda d: d + b"# hotfix\n")
    before = image(site)
    assert ddpatch("push", target).code == 4
    assert ddpatch("snapshot", target).code == 0
    answer = ddpatch("apply", target, "--json")
    assert answer.code == 4
    assert path in json.dumps(answer.json["findings"])
    assert image(site) == before


def test_a_manifest_cannot_have_somebody_elses_file_removed(ddpatch: Ddpatch, site: Path) -> None:
    target = pushed(ddpatch, site)
    (site / "sglang/mine.py").write_text("x = 1\n")
    manifest = site / "sglang/srt/speculative/_ddpatch_manifest.py"
    rewrite(
        manifest, lambda d: d.replace(b"FILES = {", b'FILES = {\n    "sglang/mine.py": ("", "00"),')
    )
    assert ddpatch("snapshot", target).code == 0
    answer = ddpatch("apply", target, "--json")
    assert answer.code == 4
    assert "sglang/mine.py" in answer.json["headline"]


def test_a_newer_version_takes_the_place_of_the_older_one(
    ddpatch: Ddpatch, tmp_path: Path, site: Path
) -> None:
    one = make_set(tmp_path / "one", "o", "1", "srt", member=MEMBER, profiler=RUNNER, empty=EMPTY)
    two = make_set(tmp_path / "two", "o", "2", "srt", member=MEMBER, empty=EMPTY)
    first, second = tmp_path / "first", tmp_path / "second"
    original = (site / "sglang/profiler.py").read_bytes()
    target = f"local:{site}"
    assert ddpatch("apply", target, "--set", str(one), "-o", str(first)).code == 0
    assert (first / "sglang/profiler.py").read_bytes() != original
    assert (first / "sglang/other/__init__.py").read_bytes() == b""
    ddpatch("snapshot", target)
    answer = ddpatch("apply", f"local:{first}", "--set", str(two), "-o", str(second), "--json")
    assert answer.code == 0
    assert (second / "sglang/profiler.py").read_bytes() == original
    assert (second / "sglang/other/__init__.py").is_file()
    assert b"OTHER = auto()" in (second / SPEC_INFO).read_bytes()
    whole = {p.relative_to(second).as_posix() for p in second.rglob("*") if p.is_file()}
    assert {p.relative_to(site).as_posix() for p in site.rglob("*.py")} <= whole


@pytest.mark.parametrize("manifest", ["srt", "other"])
def test_two_sets_do_not_stack(ddpatch: Ddpatch, tmp_path: Path, site: Path, manifest: str) -> None:
    one = make_set(tmp_path / "one", "o", "1", "srt", member=MEMBER)
    two = make_set(tmp_path / "two", "p", "1", manifest, empty=EMPTY)
    out = tmp_path / "out"
    assert ddpatch("apply", f"local:{site}", "--set", str(one), "-o", str(out)).code == 0
    answer = ddpatch("apply", f"local:{out}", "--set", str(two), "--json")
    assert answer.code == 4
    assert "o@1" in answer.json["headline"]


def test_a_host_that_was_patched_from_elsewhere_can_be_worked_on(
    ddpatch: Ddpatch, site: Path, tmp_path: Path
) -> None:
    target = pushed(ddpatch, site)
    other = tmp_path / "other-store"
    assert ddpatch("snapshot", "pypi:0.5.11", store=other).code == 0
    taken = ddpatch("snapshot", target, "--json", store=other)
    assert taken.json["sets"] == ["ddtree@1"]
    answer = ddpatch("apply", target, "--json", store=other)
    assert answer.json["outcome"] == "already-applied"
    assert ddpatch("verify", target, store=other).code == 0
    assert ddpatch("push", target, "--json", store=other).json["outcome"] == "nothing-to-do"


def test_a_numbered_snapshot_means_the_same_everywhere(ddpatch: Ddpatch, site: Path) -> None:
    target = f"local:{site}"
    ddpatch("apply", target)
    rewrite(site / "sglang/profiler.py", lambda d: d + b"# more\n")
    ddpatch("snapshot", target)
    ddpatch("apply", f"{target}@1")
    assert ddpatch("verify", f"{target}@1").code == 0
    assert ddpatch("diff", f"{target}@1", "--stat").code == 0
    assert ddpatch("verify", f"{target}@2").code == 2
    assert ddpatch("verify", f"{target}@77").code == 2
    assert ddpatch("push", f"{target}@1").code == 2


def test_json_stays_json_whatever_the_code_holds(ddpatch: Ddpatch, site: Path) -> None:
    odd = "\x7f\u00ad\U000f0000"
    code = f'\n\ndef odd(algorithm):\n    if algorithm.is_dflash() or "{odd}":\n        return 1\n'
    rewrite(site / "sglang/profiler.py", lambda d: d + code.encode())
    answer = ddpatch("inventory", f"local:{site}", "--query", "dispatch", "--json").json
    sites = [s for s in answer["queries"][0]["sites"] if s["scope"] == "odd"]
    assert sites
    assert odd in json.dumps(sites, ensure_ascii=False)


def test_the_diff_of_crlf_and_bom_files_can_be_applied(
    ddpatch: Ddpatch, site: Path, tmp_path: Path
) -> None:
    rewrite(site / SPEC_INFO, lambda d: d.replace(b"\n", b"\r\n"))
    rewrite(site / SERVER_ARGS, lambda d: b"\xef\xbb\xbf" + d)
    target, out = f"local:{site}", tmp_path / "out"
    assert ddpatch("apply", target, "-o", str(out)).code == 0
    command = [sys.executable, "-m", "patcher", "--store", str(tmp_path / "store"), "diff", target]
    raw = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(site), str(copy)], check=True)
    subprocess.run(["git", "init", "-q"], cwd=copy, check=True)
    for text in (raw, ddpatch("diff", target, "--json").json["diff"].encode()):
        apply = ["git", "apply", "--whitespace=nowarn"]
        subprocess.run([*apply, "-"], cwd=copy, input=text, check=True)
        for path in (SPEC_INFO, SERVER_ARGS):
            assert (copy / path).read_bytes() == (out / path).read_bytes()
        subprocess.run([*apply, "-R", "-"], cwd=copy, input=text, check=True)


def test_two_snapshots_at_once_are_both_kept(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with Store.open(folder):
        pass

    def take(number: int) -> None:
        data = b"%d\n" % number
        import hashlib

        sha = hashlib.sha256(data).hexdigest()
        entry = FileEntry("sglang/a.py", 0o644, len(data), sha)
        manifest = Manifest(InstallFacts(version="1", root="/"), {entry.path: entry})
        with Store.open(folder) as store:
            store.put_snapshot("host", "host", manifest, [(sha, data)])

    threads = [threading.Thread(target=take, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Store.open(folder) as store:
        assert len(store.history("host")) == 6


WRONG = """\
from patcher.edits import Anchor, InsertBefore
from patcher.patchset import Patch, Strategy

PATCH = Patch(
    id="wrong",
    title="Use a name that is not there",
    why="A push must not carry what a level of verification has refuted.",
    strategies=(
        Strategy(
            id="branch",
            edits=(
                InsertBefore(
                    anchor=Anchor(
                        file="sglang/srt/speculative/spec_info.py",
                        scope="SpeculativeAlgorithm.create_worker",
                        pattern="if self.is_dflash(): $...",
                    ),
                    code="prnt(selff)",
                ),
            ),
        ),
    ),
)
"""


def test_what_verification_refutes_is_not_pushed(
    ddpatch: Ddpatch, tmp_path: Path, site: Path
) -> None:
    wrong = make_set(tmp_path / "wrong", "w", "1", "srt", wrong=WRONG)
    target, before = f"local:{site}", image(site)
    assert ddpatch("apply", target, "--set", str(wrong)).code == 0
    assert ddpatch("verify", target).code == 1
    answer = ddpatch("push", target, "--json")
    assert answer.code == 1
    assert "level `names` does not hold" in answer.json["headline"]
    assert "selff" in json.dumps(answer.json["findings"])
    assert image(site) == before
    assert ddpatch("push", target, "--unverified").code == 0
    assert b"prnt(selff)" in (site / SPEC_INFO).read_bytes()
    assert ddpatch("rollback", target).code == 0
    assert image(site) == before
