"""Push, status, rollback and history on a tree on this machine, through the real agent."""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patcher.model import DdpatchError, ExitCode, FileState, Refusal, TargetError, UsageError
from patcher.push.plan import Change, PushPlan, build_plan
from patcher.push.records import PushResult, RollbackResult, TargetStatus
from patcher.targets.local import LocalTarget, ProcessLink
from patcher.targets.program import arguments
from patcher.targets.session import AgentSession
from tests.remote.conftest import (
    ARGS,
    BUILDER,
    DISTINFO,
    NEW,
    OBSOLETE,
    OLD,
    PACKAGE,
    RECORD,
    SPEC,
    TOUCHED,
    Install,
    record_of,
)


def push(install: Install, plan: PushPlan | None = None, **options: bool) -> PushResult:
    with install.target.connect() as session:
        return session.push(plan or install.plan(), **options)


def rollback(install: Install, *keep: str) -> RollbackResult:
    with install.target.connect() as session:
        return session.rollback(keep=keep)


def status(install: Install) -> TargetStatus:
    with install.target.connect() as session:
        return session.status()


def states(install: Install) -> dict[str, FileState]:
    return {row.path: row.state for row in status(install).files}


def test_push_then_rollback_gives_back_the_very_files(install: Install) -> None:
    before = install.image()
    with install.target.connect() as session:
        result = session.push(install.plan())
        assert result.outcome == "pushed"
        assert install.is_new
        told = session.status()
        assert {row.state for row in told.files} == {FileState.OURS}
        assert (told.journal, told.set_name, told.drifted) == ("clean", "ddtree", ())
        undone = session.rollback()
        assert undone.id == result.id
        assert install.image() == before  # bytes, modes, inodes and times
        assert {row.state for row in session.status().files} == {FileState.PRISTINE}
        rows = session.history()
    assert [(row.action, row.state, row.id) for row in rows] == [
        ("push", "rolled-back", result.id),
        ("rollback", "rolled-back", result.id),
    ]
    assert not (install.root / PACKAGE).parent.exists()


def test_new_modules_first_dispatch_last_record_at_the_end(install: Install) -> None:
    order = [change.path for change in install.plan().files]
    assert order[-1] == RECORD
    assert order.index(SPEC) < order.index(BUILDER) < order.index(ARGS)
    assert order.index(PACKAGE) < order.index(BUILDER)
    assert order.index(OBSOLETE) == len(order) - 2


def test_modes_are_kept_and_times_are_fresh(install: Install) -> None:
    old = (install.root / ARGS).stat()
    push(install)
    new = (install.root / ARGS).stat()
    assert (new.st_mode, (install.root / BUILDER).stat().st_mode & 0o777) == (old.st_mode, 0o644)
    assert new.st_mtime > time.time() - 60
    state = install.root / ".ddpatch"
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "lock").read_bytes() == b""


def test_old_and_new_never_share_the_second_that_bytecode_is_matched_by(install: Install) -> None:
    now = time.time() + 0.5
    os.utime(install.root / ARGS, (now, now))
    push(install)
    assert int((install.root / ARGS).stat().st_mtime) != int(now)


def test_record_rows_follow_the_files(install: Install) -> None:
    push(install)
    files = {p: c for p, c in {**OLD, **NEW}.items() if c is not None}
    with install.target.connect() as session:
        snapshot = session.snapshot(())
        contents = dict(snapshot.contents)
    from patcher.targets.record import compare

    record = contents[snapshot.manifest.files[RECORD].sha256]
    assert not compare(snapshot.manifest, record)
    assert sorted(record.splitlines()) == sorted(record_of(files).splitlines())


def test_bytecode_of_touched_modules_goes_and_other_stays(install: Install) -> None:
    cache = install.root / "sglang/srt/__pycache__"
    cache.mkdir()
    touched = ["server_args.cpython-312.pyc", "server_args.cpython-39.opt-2.pyc"]
    kept = ["unrelated.cpython-312.pyc", "server_args_more.cpython-312.pyc"]
    for name in (*touched, *kept):
        (cache / name).write_bytes(b"x")
    legacy = (install.root / ARGS).with_suffix(".pyc")
    legacy.write_bytes(b"x")
    push(install)
    assert sorted(p.name for p in cache.iterdir()) == sorted(kept)
    assert not legacy.exists()
    (cache / touched[0]).write_bytes(b"x")
    rollback(install)
    assert sorted(p.name for p in cache.iterdir()) == sorted(kept)


def test_code_compiled_under_the_old_time_does_not_survive_a_rollback(install: Install) -> None:
    """An importer looks at the old file, the push lands, it compiles the new one as the old."""
    old = (install.root / SPEC).stat()
    push(install)
    where = Path(importlib.util.cache_from_source(str(install.root / SPEC)))
    where.parent.mkdir(exist_ok=True)
    code = compile(b"DFLASH = 'POISON'", SPEC, "exec")

    stamp = struct.pack("<3I", 0, int(old.st_mtime), old.st_size)
    where.write_bytes(importlib.util.MAGIC_NUMBER + stamp + marshal.dumps(code))
    rollback(install)
    done = subprocess.run(
        [sys.executable, "-c", "import sglang.srt.spec_info as s; print(s.DFLASH)"],
        cwd=install.root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "DFLASH"


def test_a_hard_linked_file_is_not_written_through(install: Install, tmp_path: Path) -> None:
    cache = tmp_path / "cache.py"
    os.link(install.root / ARGS, cache)
    inode = cache.stat().st_ino
    push(install)
    assert cache.read_bytes() == OLD[ARGS]
    rollback(install)
    assert (install.root / ARGS).stat().st_ino == inode
    assert cache.stat().st_nlink == 2


def test_pushing_again_does_nothing(install: Install) -> None:
    push(install)
    image = install.image()
    assert push(install).outcome == "nothing-to-do"
    assert install.image() == image
    assert len(list((install.root / ".ddpatch").iterdir())) == 2


def test_dry_run_changes_nothing_at_all(install: Install) -> None:
    before = install.image()
    result = push(install, dry_run=True)
    assert result.outcome == "dry-run"
    assert result.need > 0 and result.free > result.need
    assert [row.path for row in result.files] == [c.path for c in install.plan().changes]
    assert install.image() == before
    assert not (install.root / ".ddpatch").exists()


def test_pushes_stack_and_come_off_one_by_one(install: Install) -> None:
    push(install)
    middle = install.image()
    now = {path: install.read(path) for path in TOUCHED}
    record = now[RECORD]
    assert record is not None
    second = build_plan(
        [Change(SPEC, now[SPEC], b"DFLASH = DDTREE = 2\n"), Change(BUILDER, now[BUILDER], None)],
        set_name="ddtree",
        set_version="2",
        distinfo=DISTINFO,
        record=record,
    )
    result = push(install, second)
    assert states(install)[SPEC] is FileState.OURS
    assert rollback(install).id == result.id
    assert install.image() == middle
    rollback(install)
    with pytest.raises(Refusal, match="no push to undo"):
        rollback(install)


def refused(install: Install, error: type[DdpatchError]) -> DdpatchError:
    """Push, expecting an error and a tree that has not changed."""
    before = install.image()
    with pytest.raises(error) as caught:
        push(install)
    assert install.image() == before
    assert caught.value.next_step
    return caught.value


@pytest.mark.parametrize("path", [ARGS, RECORD])
def test_drift_is_refused_and_names_the_file(install: Install, path: str) -> None:
    with (install.root / path).open("ab") as stream:
        stream.write(b"# edited\n")
    error = refused(install, Refusal)
    assert [f.site.path for f in error.findings if f.site] == [path]
    assert error.findings[0].expected != error.findings[0].found
    assert f"ddpatch snapshot local:{install.root}" in error.next_step
    assert not (install.root / ".ddpatch").exists()


def test_a_changed_mode_or_time_is_no_drift(install: Install) -> None:
    (install.root / ARGS).chmod(0o600)
    os.utime(install.root / SPEC)
    push(install)
    assert (install.root / ARGS).stat().st_mode & 0o777 == 0o600


def test_a_foreign_file_at_a_new_path_is_untouched(install: Install) -> None:
    foreign = install.root / BUILDER
    foreign.parent.mkdir()
    foreign.write_bytes(b"mine\n")
    error = refused(install, Refusal)
    assert error.findings[0].expected == "absent"
    assert foreign.read_bytes() == b"mine\n"


def test_a_missing_file_is_drift(install: Install) -> None:
    (install.root / ARGS).unlink()
    assert refused(install, Refusal).findings[0].found == "absent"


def test_a_link_instead_of_a_file_or_directory_is_not_followed(
    install: Install, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (install.root / "sglang/srt/ddtree").symlink_to(outside)
    assert "not a real directory" in refused(install, Refusal).message
    (install.root / "sglang/srt/ddtree").unlink()
    (outside / "spec.py").write_bytes(OLD[SPEC])
    (install.root / SPEC).unlink()
    (install.root / SPEC).symlink_to(outside / "spec.py")
    assert refused(install, Refusal).findings[0].found == "symlink"
    assert sorted(p.name for p in outside.iterdir()) == ["spec.py"]


@contextmanager
def holding(install: Install) -> Iterator[None]:
    code = (
        "import fcntl,json,sys;f=open(sys.argv[1],'w');fcntl.flock(f,2);"
        "f.write(json.dumps({'client':'eve@laptop','pid':7,'user':'eve','host':'h','time':'now'}));"
        "f.flush();print('held',flush=True);sys.stdin.read()"
    )
    state = install.root / ".ddpatch"
    state.mkdir(mode=0o700, exist_ok=True)
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(state / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None and child.stdin is not None
    child.stdout.readline()
    try:
        yield
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait(10)


def test_a_held_lock_names_its_owner(install: Install) -> None:
    with holding(install):
        assert "eve@laptop" in refused(install, Refusal).message
        told = status(install)
        assert told.journal == "busy" and "eve@laptop" in told.owner
    push(install)


def test_syntax_and_names_are_checked_on_the_host(install: Install) -> None:
    plan = install.plan()
    with pytest.raises(DdpatchError) as caught:
        install.plan(**{ARGS: b"def broken(:\n"})
    assert caught.value.exit_code is ExitCode.FINDING
    wrong = install.plan(**{ARGS: b"from sglang.srt.unrelated import VALUE, NOWHERE\n"})
    error = refused_plan(install, wrong)
    assert [f.level for f in error.findings] == ["names"]
    assert "NOWHERE" in error.message and "VALUE" not in error.message
    broken = PushPlan(
        "x",
        "1",
        tuple(
            Change(c.path, c.old, b"def f(:\n" if c.path == ARGS else c.new) for c in plan.changes
        ),
        (),
    )
    assert [f.level for f in refused_plan(install, broken).findings] == ["parse"]


def refused_plan(install: Install, plan: PushPlan) -> DdpatchError:
    before = install.image()
    with pytest.raises(DdpatchError) as caught:
        push(install, plan)
    assert caught.value.exit_code is ExitCode.FINDING
    assert install.image() == before
    return caught.value


def test_an_import_that_was_broken_before_is_not_reported(install: Install) -> None:
    install.files[ARGS] = b"from sglang.srt.gone import X\n" + OLD[ARGS]
    (install.root / ARGS).write_bytes(install.files[ARGS])
    changed = NEW[ARGS]
    assert changed is not None
    push(install, install.plan(**{ARGS: b"from sglang.srt.gone import X\n" + changed}))


@contextmanager
def server(install: Install) -> Iterator[int]:
    """A process that looks like a server that runs from the tree."""
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(install.root / "sglang/launch_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None and child.stdin is not None
    child.stdout.readline()
    try:
        yield child.pid
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait(10)


def test_a_process_that_may_be_importing_stops_a_push(install: Install) -> None:
    with server(install) as pid:
        seen = push(install, dry_run=True).processes
        assert [(p.pid, p.importing) for p in seen] == [(pid, True)]
        assert abs(seen[0].started - time.time()) < 60
        assert str(pid) in refused(install, Refusal).message
        assert [p.pid for p in push(install, allow_running=True).processes] == [pid]
        with pytest.raises(Refusal):
            rollback(install)


def test_rollback_refuses_edited_files_whole_and_can_keep_them(install: Install) -> None:
    push(install)
    with (install.root / ARGS).open("ab") as stream:
        stream.write(b"# mine\n")
    (install.root / BUILDER).write_bytes(b"mine\n")
    edited = install.image()
    assert states(install)[ARGS] is FileState.MODIFIED
    with pytest.raises(Refusal) as caught:
        rollback(install)
    assert {f.site.path for f in caught.value.findings if f.site} == {ARGS, BUILDER}
    assert install.image() == edited
    rollback(install, ARGS, BUILDER)
    assert install.read(ARGS) == edited[ARGS][0]
    assert install.read(BUILDER) == b"mine\n"
    assert install.read(SPEC) == OLD[SPEC]
    found = states(install)
    assert found[ARGS] is FileState.MODIFIED and found[BUILDER] is FileState.MODIFIED


def test_status_words(install: Install) -> None:
    push(install)
    (install.root / BUILDER).unlink()
    (install.root / SPEC).write_bytes(OLD[SPEC])
    (install.root / ARGS).write_bytes(b"other\n")
    found = states(install)
    assert found == {
        ARGS: FileState.MODIFIED,
        BUILDER: FileState.MISSING,
        OBSOLETE: FileState.OURS,
        PACKAGE: FileState.OURS,
        RECORD: FileState.OURS,
        SPEC: FileState.PRISTINE,
    }
    assert {row.path for row in status(install).drifted} == {ARGS, BUILDER, SPEC}


def test_a_reinstall_leaves_orphans(install: Install) -> None:
    push(install)
    for path, content in install.files.items():
        (install.root / path).unlink(missing_ok=True)
        (install.root / path).write_bytes(content)
    told = status(install)
    assert told.reinstalled
    orphans = {row.path for row in told.files if row.state is FileState.ORPHAN}
    assert orphans == {PACKAGE, BUILDER}
    rollback(install)
    assert install.image(times=False).keys() == install.files.keys()


def test_a_journal_from_the_future_is_refused(install: Install) -> None:
    push(install)
    journal = next((install.root / ".ddpatch").glob("*/journal"))
    import hashlib

    record = json.loads(journal.read_bytes().splitlines()[0].partition(b" ")[2])
    record["format"] = 99
    text = json.dumps(record).encode()
    journal.write_bytes(hashlib.sha256(text).hexdigest()[:16].encode() + b" " + text + b"\n")
    with pytest.raises(UsageError, match="newer ddpatch"):
        rollback(install)


def test_a_damaged_journal_stops_everything(install: Install) -> None:
    push(install)
    journal = next((install.root / ".ddpatch").glob("*/journal"))
    raw = bytearray(journal.read_bytes())
    raw[40] ^= 1
    journal.write_bytes(raw)
    image = install.image()
    with pytest.raises(DdpatchError) as caught:
        rollback(install)
    assert caught.value.exit_code is ExitCode.UNRECOVERED
    assert install.image() == image


def test_a_state_directory_that_others_can_write_is_refused(install: Install) -> None:
    (install.root / ".ddpatch").mkdir()
    (install.root / ".ddpatch").chmod(0o777)
    refused(install, TargetError)


def arm(session: object, **how: object) -> None:
    assert isinstance(session, AgentSession)
    session.call({"op": "faults", "arm": how})


def points(install: Install) -> list[str]:
    """Name the fault points of a first push, found on a copy."""
    scratch = Install(install.root.parent / "scratch").write()
    with scratch.target.connect() as session:
        arm(session)
        session.push(scratch.plan())
        assert isinstance(session, AgentSession)
        names: list[str] = session.call({"op": "points"})["names"]
    return names


def test_everything_is_on_the_disk_before_it_is_relied_upon(install: Install) -> None:
    names = points(install)
    committing = names.index("fsync journal committing")
    visible = [n for n, name in enumerate(names) if name.startswith("rename ") and ".py" in name]
    assert names.index("fsync journal begin") < names.index("fsync journal directory")
    for number, change in enumerate(install.plan().changes):
        if change.new is not None:
            written = max(n for n, name in enumerate(names) if name == f"write new {number}")
            assert written < names.index(f"fsync new {number}") < committing
    for name in ("fsync new", "fsync old", "fsync state directory"):
        assert names.index(name) < committing
    assert committing < min(visible)
    done = names.index("write journal committed")
    for folder in ("sglang/srt", "sglang/srt/ddtree", DISTINFO):
        assert max(visible) < names.index(f"fsync {folder}") < done


def test_a_failure_midway_is_taken_back_and_is_exit_5(install: Install) -> None:
    before = install.image()
    at = points(install).index("rename server_args.py") + 1
    with install.target.connect() as session:
        arm(session, fail_at=at, error="EIO")
        with pytest.raises(DdpatchError) as caught:
            session.push(install.plan())
    assert caught.value.exit_code is ExitCode.ROLLED_BACK
    assert "the host is as before" in caught.value.message
    assert install.image() == before


def test_a_full_disk_while_staging_is_exit_4(install: Install) -> None:
    at = points(install).index("write new 1") + 1
    before = install.image()
    with install.target.connect() as session:
        arm(session, fail_at=at, error="ENOSPC")
        with pytest.raises(Refusal):
            session.push(install.plan())
    assert install.image() == before


def test_where_links_are_not_to_be_had_originals_are_copied(install: Install) -> None:
    old = install.image()
    names = points(install)
    # The first link of a push keeps an original.
    at = next(n for n, name in enumerate(names, 1) if name.startswith("link "))
    with install.target.connect() as session:
        arm(session, fail_at=at, error="EMLINK")
        session.push(install.plan())
        session.rollback()
    new = install.image()
    other = [p for p in old if new[p] != old[p]]
    assert len(other) == 1
    content, mode, _, mtime = old[other[0]]
    assert new[other[0]][:2] == (content, mode)
    assert new[other[0]][3] == mtime


def test_a_killed_agent_is_settled_by_the_next_command(install: Install) -> None:
    at = points(install).index("rename server_args.py") + 1
    lost = pytest.raises(TargetError, match="connection was lost")
    with lost as caught, install.target.connect() as session:
        arm(session, kill_at=at)
        session.push(install.plan())
    assert "ddpatch status" in caught.value.next_step
    assert not install.is_new
    with pytest.raises(Refusal, match="was cut in state committing"):
        push(install, dry_run=True)
    told = status(install)
    assert [(r.was, r.action) for r in told.recovered] == [("committing", "finished")]
    assert install.is_new


def test_recovery_goes_back_when_a_file_was_changed_in_between(install: Install) -> None:
    before = install.image()
    at = points(install).index("rename server_args.py") + 1
    with pytest.raises(TargetError), install.target.connect() as session:
        arm(session, kill_at=at)
        session.push(install.plan())
    edited = install.root / ARGS
    with edited.open("ab") as stream:
        stream.write(b"# mine\n")
    told = status(install)
    assert [r.action for r in told.recovered] == ["undone"]
    assert install.read(ARGS) == OLD[ARGS] + b"# mine\n"
    for path in before.keys() - {ARGS}:
        assert install.image()[path] == before[path]


def test_an_edit_of_a_pushed_file_before_recovery_is_kept(install: Install) -> None:
    at = points(install).index("rename server_args.py") + 1
    with pytest.raises(TargetError), install.target.connect() as session:
        arm(session, kill_at=at)
        session.push(install.plan())
    (install.root / BUILDER).write_bytes(b"mine\n")
    told = status(install)
    assert told.journal == "conflict" and told.conflicts == (BUILDER,)
    assert install.read(BUILDER) == b"mine\n"
    with pytest.raises(Refusal, match="half undone"):
        push(install)
    rollback(install, BUILDER)
    assert status(install).journal == "clean"
    assert install.read(ARGS) == OLD[ARGS]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change users or mount")


@pytest.fixture
def open_install() -> Iterator[Install]:
    """An install where another user can get to (pytest's own directories are closed)."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Install(Path(folder) / "site").write()


def as_nobody(install: Install) -> AgentSession:
    setpriv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    link = ProcessLink(
        [*setpriv, *arguments(shutil.which("python3", path="/usr/bin") or "python3")]
    )
    return AgentSession(link, "host", path=str(install.root))


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("locked", ["", "sglang/srt"])
def test_an_unwritable_directory_is_found_before_anything(
    open_install: Install, locked: str
) -> None:
    install = open_install
    for path in (install.root, *install.root.rglob("*")):
        if str(path.relative_to(install.root)) != (locked or "."):
            shutil.chown(path, "nobody")
    before = install.image()
    with as_nobody(install) as session, pytest.raises(TargetError, match="not writable") as caught:
        session.push(install.plan())
    assert "sudo" in caught.value.next_step
    assert install.image() == before


@pytest.mark.root
@needs_root
def test_a_disk_that_really_fills_up(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        install = Install(disk / "site").write()
        filler = disk / "filler"
        seen = set()
        for free in range(0, 65536 + 4096 * 40, 4096 * 4):
            filler.unlink(missing_ok=True)
            room = os.statvfs(disk)
            filler.write_bytes(b"x" * max(0, room.f_bavail * room.f_frsize - free))
            before = install.image()
            try:
                push(install)
            except Refusal as error:
                seen.add("refused")
                assert "free" in error.message or "space" in error.message.lower()
                assert install.image() == before
            else:
                seen.add("pushed")
                assert install.is_new
                rollback(install)
                assert install.image() == before
        assert seen == {"refused", "pushed"}
    finally:
        subprocess.run(["umount", str(disk)], check=True)


contents = st.binary(max_size=60).map(lambda b: b"# " + b.hex().encode() + b"\n")


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    changes=st.dictionaries(
        st.sampled_from(
            [ARGS, SPEC, OBSOLETE, BUILDER, PACKAGE, "sglang/new/deep/x.py", "sglang/a b,[1].json"]
        ),
        st.none() | contents,
        min_size=1,
    ),
    modes=st.lists(st.sampled_from([0o600, 0o644, 0o755]), min_size=3, max_size=3),
    seconds=st.integers(min_value=0, max_value=2**31),
)
def test_push_then_rollback_is_identity(
    tmp_path_factory: pytest.TempPathFactory,
    changes: dict[str, bytes | None],
    modes: list[int],
    seconds: int,
) -> None:
    install = Install(tmp_path_factory.mktemp("site")).write()
    for path, mode in zip((ARGS, SPEC, OBSOLETE), modes, strict=True):
        (install.root / path).chmod(mode)
        os.utime(install.root / path, (seconds, seconds))
    before = install.image()
    plan = build_plan(
        [Change(path, install.files.get(path), new) for path, new in changes.items()],
        set_name="any",
        set_version="1",
        distinfo=DISTINFO,
        record=install.files[RECORD],
    )
    real = {p: new for p, new in changes.items() if new != install.files.get(p)}
    with LocalTarget.parse(str(install.root), sys.executable, "").connect() as session:
        result = session.push(plan)
        assert result.outcome == ("pushed" if real else "nothing-to-do")
        assert all(install.read(path) == new for path, new in real.items())
        if real:
            session.rollback()
    assert install.image() == before
    folders = {p.name for p in install.root.rglob("*") if p.is_dir() and ".ddpatch" not in str(p)}
    assert "deep" not in folders and "ddtree" not in folders
