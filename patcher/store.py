"""The local store: a bare git repository with one branch per target and per patched target.

``snapshot/<slug>`` holds one commit per snapshot: the package as it is on the target, and beside
it ``.ddpatch/manifest.json`` with the facts of the install and what git cannot hold (modes, sizes,
hashes, link counts). ``patched/<slug>`` holds the newest patched tree as one commit per patch on
top of its snapshot. ``HEAD`` points at the branch that was applied last.

Writing is one ``git fast-import`` stream; reading goes through GitPython.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Self

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # a missing git is told by Store.open
import git

from patcher.fastimport import FastImport, quoted, write_blob, write_commit, write_entry, write_file
from patcher.model import FileEntry, InstallFacts, Manifest, UsageError
from patcher.refs import (
    PatchCommit,
    PatchedRef,
    SnapshotRef,
    patched_branch,
    snapshot_branch,
    trailers,
)
from patcher.tree import Tree

FORMAT = 1
"""Version of the store's layout; a newer one is refused."""

_MANIFEST = ".ddpatch/manifest.json"
_FORMAT_FILE = "ddpatch-store.json"
_GIT_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
}


class Store:
    """The git store below ``folder``. Use :meth:`open`."""

    def __init__(self, folder: Path, repo: git.Repo) -> None:
        self.folder = folder
        self._repo = repo
        self._manifests: dict[str, Manifest] = {}

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Open the store, and make it (0700) when there is none.

        Raises UsageError where it cannot be used: no permission, readable by others, somebody
        else's, or written by a newer ddpatch.
        """
        if shutil.which("git") is None:
            raise UsageError(
                "there is no git on this machine, and the store is a git repository",
                next_step="install git, and see that it is on PATH",
            )
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            state = folder.stat()
        except OSError as error:
            raise _unusable(folder, error.strerror or str(error)) from error
        if not stat.S_ISDIR(state.st_mode):
            raise _unusable(folder, "not a directory")
        if state.st_uid != os.getuid():
            raise _unusable(folder, "it belongs to another user")
        if state.st_mode & 0o077:
            ours = (folder / _FORMAT_FILE).exists() or not any(folder.iterdir())
            raise UsageError(
                f"the store {folder} can be read by others (mode {state.st_mode & 0o777:04o})",
                next_step=f"chmod 700 {folder}"
                if ours
                else "name a folder of your own with --store",
            )
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise _unusable(folder, "no permission")
        _leave_the_users_git_alone()
        try:
            repo = cls._repository(folder)
        except (OSError, ValueError, git.GitError) as error:
            raise _unusable(folder, f"it is damaged ({error})") from error
        return cls(folder, repo)

    @staticmethod
    def _repository(folder: Path) -> git.Repo:
        bare = folder / "store.git"
        marker = folder / _FORMAT_FILE
        if marker.exists():
            document = json.loads(marker.read_text())
            found = document.get("format") if isinstance(document, dict) else None
            if not isinstance(found, int):
                raise ValueError(f"{_FORMAT_FILE} makes no sense")
            if found > FORMAT:
                raise UsageError(
                    f"the store {folder} has format {found}; this ddpatch knows {FORMAT}",
                    next_step="upgrade ddpatch, or name another folder with --store",
                )
            return git.Repo(bare)
        repo = git.Repo.init(bare, bare=True, initial_branch="patched/none")
        with repo.config_writer() as config:
            config.set_value("gc", "auto", 0)
            config.set_value("core", "compression", 1)
            config.set_value("core", "fsmonitor", "false")
            config.set_value("core", "hooksPath", os.devnull)
        marker.write_text(json.dumps({"format": FORMAT}) + "\n")
        return repo

    def close(self) -> None:
        """End the git processes that serve reads; the store can be used again afterwards."""
        self._repo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def cache(self) -> Path:
        """Where answers that can be made again are kept (inventories)."""
        return self.folder / "cache"

    # ------------------------------------------------------------------ reading

    def known(self) -> dict[str, str]:
        """sha256 of every content in the newest snapshots to its git blob."""
        found: dict[str, str] = {}
        for slug in self._slugs():
            newest = self._repo.commit(snapshot_branch(slug))
            for entry in self.manifest(newest.hexsha).files.values():
                found[entry.sha256] = entry.blob
        return found

    def targets(self) -> list[SnapshotRef]:
        """The newest snapshot of each target."""
        return sorted((self.history(s)[0] for s in self._slugs()), key=lambda r: -r.time)

    def history(self, slug: str) -> list[SnapshotRef]:
        """A target's snapshots, newest first; empty when there are none."""
        branch = snapshot_branch(slug)
        if branch not in {h.path for h in self._repo.heads}:
            return []
        return [
            self._snapshot_ref(slug, commit, number)
            for number, commit in enumerate(self._repo.iter_commits(branch), 1)
        ]

    def find(self, slug: str, number: int = 1) -> SnapshotRef | None:
        """A target's N-th newest snapshot, or None when there is none with that number."""
        found = self.history(slug)
        return found[number - 1] if 0 < number <= len(found) else None

    def manifest(self, oid: str) -> Manifest:
        """The manifest of a snapshot commit."""
        if oid not in self._manifests:
            document = json.loads((self._repo.commit(oid).tree / _MANIFEST).data_stream.read())
            if document["format"] > FORMAT:
                raise UsageError(
                    f"snapshot {oid[:12]} was written by a newer ddpatch",
                    next_step="upgrade ddpatch",
                )
            facts = document["facts"]
            facts["gpus"] = tuple(facts["gpus"])
            files = {row[0]: FileEntry(*row) for row in document["files"]}
            skipped = dict(document.get("skipped", []))
            self._manifests[oid] = Manifest(InstallFacts(**facts), files, skipped)
        return self._manifests[oid]

    def tree(self, snapshot: SnapshotRef) -> Tree:
        """The snapshot as a tree; contents are read from git when asked for, and checked."""
        manifest = self.manifest(snapshot.oid)
        return Tree(manifest.files, self._read, manifest.facts, skipped=manifest.skipped)

    def content(self, sha256: str) -> bytes | None:
        """Content by its hash, from any snapshot in the store, or None."""
        for slug in self._slugs():
            for snapshot in self.history(slug):
                for entry in self.manifest(snapshot.oid).files.values():
                    if entry.sha256 == sha256:
                        return self._read(entry)
        return None

    def patched(self, slug: str) -> PatchedRef | None:
        """The newest patched tree of a target, or None."""
        if patched_branch(slug) not in {h.path for h in self._repo.heads}:
            return None
        commit = self._repo.commit(patched_branch(slug))
        notes = trailers(str(commit.message))
        snapshot = next((s for s in self.history(slug) if s.oid == notes.get("Snapshot")), None)
        if snapshot is None or "Set" not in notes:
            return None
        patches = tuple(
            reversed(
                [
                    trailers(str(c.message)).get("Patch", "")
                    for c in self._repo.iter_commits(f"{snapshot.oid}..{commit.hexsha}")
                ]
            )
        )
        return PatchedRef(
            slug,
            commit.hexsha,
            snapshot,
            notes["Set"],
            tuple(filter(None, patches)),
            notes.get("Set-Folder", ""),
        )

    def last_patched(self) -> PatchedRef | None:
        """The patched tree that was applied last, or None."""
        path = self._repo.head.reference.path
        slug = path.removeprefix("refs/heads/patched/")
        return self.patched(slug)

    def patched_changes(self, ref: PatchedRef) -> dict[str, bytes | None]:
        """What a patched tree changes on its snapshot: path to new content, None for removed."""
        base = self._repo.commit(ref.snapshot.oid)
        found: dict[str, bytes | None] = {}
        for diff in base.diff(ref.oid, no_renames=True):
            path = diff.b_path or diff.a_path or ""
            blob = None if diff.deleted_file else diff.b_blob
            found[path] = blob.data_stream.read() if blob is not None else None
        return found

    def patched_tree(self, ref: PatchedRef) -> Tree:
        """The patched tree."""
        return self.tree(ref.snapshot).with_changes(self.patched_changes(ref))

    def patch_text(self, ref: PatchedRef, *, per_patch: bool = False) -> str:
        """The patched tree as a unified diff on its snapshot, or as one diff per patch.

        Bytes that are no UTF-8 come as surrogates (``surrogateescape``).
        """
        between = f"{ref.snapshot.oid}..{ref.oid}"
        words = ["log", "-p", "--reverse", between] if per_patch else ["diff", between]
        raw = self._repo.git.execute(
            ["git", *words[:1], "--no-color", "--no-ext-diff", "--no-textconv", *words[1:]],
            stdout_as_string=False,
            strip_newline_in_stdout=False,
        )
        assert isinstance(raw, bytes)
        return raw.decode(errors="surrogateescape")

    def _slugs(self) -> list[str]:
        prefix = "refs/heads/snapshot/"
        return [h.path.removeprefix(prefix) for h in self._repo.heads if h.path.startswith(prefix)]

    def _snapshot_ref(self, slug: str, commit: git.Commit, number: int) -> SnapshotRef:
        notes = trailers(str(commit.message))
        return SnapshotRef(
            target=notes.get("Target", slug),
            slug=slug,
            oid=commit.hexsha,
            number=number,
            version=notes.get("Version", ""),
            time=commit.committed_date,
        )

    def _read(self, entry: FileEntry) -> bytes:
        data: bytes = self._repo.odb.stream(bytes.fromhex(entry.blob)).read()
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise UsageError(
                f"the store holds another content for {entry.path} than its manifest says",
                next_step="take the snapshot again: `ddpatch snapshot TARGET`",
            )
        return data

    # ------------------------------------------------------------------ writing

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one process at a time write: a branch is only moved on from where it is."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def put_snapshot(
        self, target: str, slug: str, manifest: Manifest, contents: Iterable[tuple[str, bytes]]
    ) -> SnapshotRef:
        """Write a snapshot; ``contents`` are (sha256, bytes) of what the store did not have.

        A target that has not changed since its newest snapshot keeps that one. Nothing is
        recorded unless every file's content is there: raises UsageError otherwise.
        """
        with self._alone():
            return self._put_snapshot(target, slug, manifest, contents)

    def _put_snapshot(
        self, target: str, slug: str, manifest: Manifest, contents: Iterable[tuple[str, bytes]]
    ) -> SnapshotRef:
        known = self.known()
        new: list[tuple[str, bytes]] = []
        for sha256, data in contents:
            known[sha256] = _blob_id(data)
            new.append((sha256, data))
        missing = [e.path for e in manifest.files.values() if e.sha256 not in known]
        if missing:
            raise UsageError(
                f"the snapshot of {target} lacks {len(missing)} file(s), {missing[0]} first",
                next_step="take it again: `ddpatch snapshot TARGET`",
            )
        files = [
            FileEntry(e.path, e.mode, e.size, e.sha256, e.nlink, known[e.sha256])
            for e in sorted(manifest.files.values(), key=lambda e: e.path)
        ]
        document = {
            "format": FORMAT,
            "facts": asdict(manifest.facts),
            "skipped": sorted(manifest.skipped.items()),
            "files": [[e.path, e.mode, e.size, e.sha256, e.nlink, e.blob] for e in files],
        }
        table = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        parent = self.find(slug)
        if parent is not None and self._manifest_bytes(parent) == table:
            return parent
        facts = manifest.facts
        message = (
            f"Snapshot {target}: sglang {facts.version}\n\n"
            f"{len(files)} files, {len(new)} of them new to the store.\n\n"
            f"Target: {target}\nVersion: {facts.version}\nRoot: {facts.root}\n"
            f"Editable: {str(facts.editable).lower()}\nInstaller: {facts.installer or 'none'}\n"
            f"Python: {facts.python_version}\n"
        )
        branch = snapshot_branch(slug)
        with FastImport(Path(self._repo.git_dir), self.folder) as stream:
            marks = {sha: write_blob(stream, n, data) for n, (sha, data) in enumerate(new, 1)}
            write_commit(stream, branch, message, int(time.time()), parent.oid if parent else None)
            stream.write(b"deleteall\n")
            for entry in files:
                where = marks.get(entry.sha256, entry.blob.encode())
                write_entry(stream, entry.path, entry.mode, where)
            write_file(stream, _MANIFEST, table)
        self._manifests.clear()
        found = self.find(slug)
        assert found is not None
        return found

    def _manifest_bytes(self, snapshot: SnapshotRef) -> bytes:
        data: bytes = (self._repo.commit(snapshot.oid).tree / _MANIFEST).data_stream.read()
        return data

    def put_patched(
        self,
        snapshot: SnapshotRef,
        set_label: str,
        set_folder: str,
        commits: Sequence[PatchCommit],
    ) -> PatchedRef:
        """Replace the target's patched series by these commits on top of the snapshot.

        ``set_folder`` is where a set that does not come with ddpatch lies, else empty.
        Author and dates are fixed (the snapshot's), so the same series has the same commit ids.
        """
        branch = patched_branch(snapshot.slug)
        modes = self.manifest(snapshot.oid).files
        with self._alone(), FastImport(Path(self._repo.git_dir), self.folder) as stream:
            stream.write(b"reset %s\nfrom %s\n\n" % (branch.encode(), snapshot.oid.encode()))
            for commit in commits:
                message = f"{commit.message.rstrip()}\nSet: {set_label}\nSnapshot: {snapshot.oid}\n"
                if set_folder:
                    message += f"Set-Folder: {set_folder}\n"
                write_commit(stream, branch, message, snapshot.time, None)
                for path, data in sorted(commit.files.items()):
                    if data is None:
                        stream.write(b"D %s\n" % quoted(path))
                    else:
                        mode = modes[path].mode if path in modes else 0o644
                        write_file(stream, path, data, mode)
        self._repo.git.symbolic_ref("HEAD", branch)
        found = self.patched(snapshot.slug)
        assert found is not None
        return found


def _leave_the_users_git_alone() -> None:
    """Drop ``GIT_*`` from this process: neither variables nor configuration reach the store."""
    for name in [n for n in os.environ if n.startswith("GIT_")]:
        del os.environ[name]
    os.environ.update(_GIT_ENV)


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _unusable(folder: Path, reason: str) -> UsageError:
    return UsageError(
        f"the store {folder} cannot be used: {reason}",
        next_step="name a folder of your own with --store",
    )
