"""RECORD, the list of installed files (PyPA "Recording installed projects", PEP 376 and 427).

Rows are ``path,sha256=<urlsafe base64 without padding>,size`` as CSV; RECORD itself has neither
hash nor size. Installers write the rows in any order and keep ours; ``pip uninstall`` removes
what the rows name, so a new file needs one.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass

from patcher.model import Manifest, UsageError


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """How an install differs from its RECORD: paths from the package's parent, sorted.

    ``modified`` have another sha256 or size than their row, ``missing`` have a row and no file,
    ``foreign`` have a file and no row. Bytecode and files outside the package are left out.
    """

    modified: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.modified or self.missing or self.foreign)


def encode_hash(sha256: str) -> str:
    """Return RECORD's form of a sha256 in hex."""
    return "sha256=" + base64.urlsafe_b64encode(bytes.fromhex(sha256)).rstrip(b"=").decode("ascii")


def parse(record: bytes) -> dict[str, tuple[str, str]]:
    """Return path -> (hash, size) as they stand in RECORD; raises UsageError for bad bytes."""
    rows: dict[str, tuple[str, str]] = {}
    try:
        for row in csv.reader(io.StringIO(record.decode("utf-8"), newline="")):
            if row:
                path, digest, size = (*row, "", "")[:3]
                rows[path] = (digest, size)
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(
            f"RECORD of this install cannot be read: {error}",
            next_step="reinstall the package, or name its folder with --path",
        ) from error
    return rows


def compare(manifest: Manifest, record: bytes) -> RecordDifference:
    """Say how the files of a manifest differ from RECORD's rows."""
    tops = tuple(f"{top}/" for top in ("sglang", manifest.facts.distinfo) if top)
    rows = {
        path: row
        for path, row in parse(record).items()
        if path.startswith(tops) and not path.endswith((".pyc", ".pyo"))
    }
    modified = []
    for path, (digest, size) in rows.items():
        entry = manifest.files.get(path)
        if entry is None or not digest:
            continue
        same_hash = digest == encode_hash(entry.sha256) or not digest.startswith("sha256=")
        if not same_hash or (size and int(size) != entry.size):
            modified.append(path)
    return RecordDifference(
        tuple(sorted(modified)),
        tuple(sorted(rows.keys() - manifest.files.keys())),
        tuple(sorted(manifest.files.keys() - rows.keys())),
    )


def updated(record: bytes, changes: Mapping[str, bytes | None]) -> bytes:
    """Return RECORD with the rows of the changed files; all other bytes stay as they are.

    ``changes`` maps a path to its new content, or None where it is removed. New rows go to the
    end, sorted, with the line ending that the file has.
    """
    ending = b"\r\n" if b"\r\n" in record else b"\n"
    out = []
    left = dict(changes)
    for line in record.splitlines(keepends=True):
        row = next(csv.reader([line.decode("utf-8")]), [])
        if row and row[0] in changes:
            content = left.pop(row[0], None)
            if content is not None:
                out.append(_row(row[0], content) + ending)
        else:
            out.append(line)
    if out and not out[-1].endswith(b"\n"):
        out[-1] += ending
    out.extend(_row(path, new) + ending for path, new in sorted(left.items()) if new is not None)
    return b"".join(out)


def _row(path: str, content: bytes) -> bytes:
    text = io.StringIO()
    digest = encode_hash(hashlib.sha256(content).hexdigest())
    csv.writer(text, lineterminator="").writerow([path, digest, len(content)])
    return text.getvalue().encode("utf-8")
