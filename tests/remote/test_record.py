"""RECORD: reading, comparing, rewriting."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patcher.model import FileEntry, InstallFacts, Manifest, UsageError
from patcher.targets.record import compare, encode_hash, parse, updated
from tests.remote.conftest import ARGS, DISTINFO, OLD, RECORD, Install, record_of


def manifest(install: Install) -> Manifest:
    with install.target.connect() as session:
        snapshot = session.snapshot(())
        for _ in snapshot.contents:
            pass
        return snapshot.manifest


def test_what_differs(install: Install) -> None:
    record = install.files[RECORD]
    assert not compare(manifest(install), record)
    (install.root / ARGS).write_bytes(b"other\n")
    (install.root / "sglang/version.py").unlink()
    (install.root / "sglang/new.py").write_bytes(b"")
    found = compare(manifest(install), record)
    assert (found.modified, found.missing, found.foreign) == (
        (ARGS,),
        ("sglang/version.py",),
        ("sglang/new.py",),
    )


def test_rows_that_are_none_of_ours() -> None:
    facts = InstallFacts("1", "/x", DISTINFO)
    entry = FileEntry("sglang/a.py", 0o644, 1, "0" * 64)
    record = (
        f"sglang/a.py,{encode_hash('0' * 64)},1\r\n"
        "sglang/__pycache__/a.cpython-312.pyc,,\r\n../../bin/sglang,sha256=x,3\r\n"
        "tools/x.py,sha256=y,3\r\n"
    ).encode()
    assert not compare(Manifest(facts, {"sglang/a.py": entry}), record)


def test_only_the_changed_rows_change() -> None:
    record = record_of(OLD).replace(b"\n", b"\r\n")
    new = updated(record, {ARGS: b"x", "sglang/version.py": None, "sglang/z,[1].py": b"zz"})
    old_lines, new_lines = record.splitlines(keepends=True), new.splitlines(keepends=True)
    assert len(set(old_lines) - set(new_lines)) == 2
    assert new_lines[-1].startswith(b'"sglang/z,[1].py",sha256=') and new.endswith(b",2\r\n")
    rows = parse(new)
    assert "sglang/version.py" not in rows and rows[ARGS][1] == "1"


def test_a_record_without_a_last_newline() -> None:
    assert updated(b"a,,", {"sglang/b": b""}).startswith(b"a,,\nsglang/b,sha256=")


def test_a_record_that_is_not_text() -> None:
    with pytest.raises(UsageError, match="RECORD"):
        parse(b"\xff\xfe")


names = st.text(st.sampled_from('ab,"[ü'), min_size=1).map(lambda name: f"sglang/{name}")


@settings(deadline=None)
@given(
    st.dictionaries(names, st.binary(max_size=9)), st.dictionaries(names, st.none() | st.binary())
)
def test_updating_is_what_a_new_install_would_write(
    files: dict[str, bytes], changes: dict[str, bytes | None]
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    import hashlib

    for path, content in files.items():
        writer.writerow([path, encode_hash(hashlib.sha256(content).hexdigest()), len(content)])
    after = {p: c for p, c in {**files, **changes}.items() if c is not None}
    found = parse(updated(text.getvalue().encode(), changes))
    assert found == {
        p: (encode_hash(hashlib.sha256(c).hexdigest()), str(len(c))) for p, c in after.items()
    }
