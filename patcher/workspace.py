"""What the commands do, without the command line: snapshots, plans, patched trees, verification.

A workspace joins the store with the targets and keeps inventories, so that the same question is
never answered twice.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from inventory import Cache, run
from inventory.model import Inventory
from patcher.ledger import load_ledger
from patcher.manifest import TreeManifest, pristine, read_manifest
from patcher.model import Outcome, UsageError
from patcher.patchset import PatchSet, load_set
from patcher.plan import Plan, make_plan
from patcher.probe import Subject
from patcher.store import PatchCommit, PatchedRef, SnapshotRef, Store
from patcher.targets import HostConfig, Progress, Target, parse_target, quiet, slug_of
from patcher.targets.record import RecordDiff, compare_record
from patcher.tree import Tree
from patcher.verify.check import Context


@dataclass(frozen=True)
class Snapped:
    """A snapshot that was just taken: where it is, what moved, how it differs from RECORD."""

    ref: SnapshotRef
    tree: Tree
    files: int
    moved: int
    moved_bytes: int
    unchanged: bool
    record: RecordDiff | None


@dataclass(frozen=True)
class Applied:
    """A set that was applied (or not): the plan, the outcome, and the patched tree if there is one.

    ``replaced`` is what was in the tree before, when a set was there already.
    """

    snapshot: SnapshotRef
    plan: Plan
    outcome: Outcome
    patched: PatchedRef | None = None
    replaced: TreeManifest | None = None


@dataclass
class Workspace:
    """The store, the configured hosts, and where progress goes."""

    store: Store
    hosts: Mapping[str, HostConfig] = field(default_factory=dict)
    progress: Progress = quiet

    # ---------------------------------------------------------------- snapshots

    def target(self, spec: str, *, python: str | None = None, path: str | None = None) -> Target:
        """The target that a word on the command line means."""
        return parse_target(spec, self.hosts, python=python, path=path)

    def snapshot(self, spec: str, *, python: str | None = None, path: str | None = None) -> Snapped:
        """Bring a target's install into the store; only content that it lacks is moved."""
        target = self.target(spec, python=python, path=path)
        known = self.store.known()
        moved: dict[str, int] = {}
        with target.connect(self.progress) as session:
            before = self.store.find(target.slug)
            taken = session.snapshot(known)

            def contents() -> Iterator[tuple[str, bytes]]:
                for sha256, data in taken.contents:
                    moved[sha256] = len(data)
                    yield sha256, data

            ref = self.store.put_snapshot(target.name, target.slug, taken.manifest, contents())
        tree = self.store.tree(ref)
        return Snapped(
            ref=ref,
            tree=tree,
            files=len(tree),
            moved=len(moved),
            moved_bytes=sum(moved.values()),
            unchanged=before is not None and before.oid == ref.oid,
            record=compare_record(tree),
        )

    def find(self, name: str | None) -> SnapshotRef:
        """A snapshot by name: ``TARGET`` for its newest, ``TARGET@N`` for the N-th newest.

        A target without a snapshot gets one now. None means the newest snapshot of all.
        """
        if name is None:
            newest = self.store.targets()
            if not newest:
                raise UsageError(
                    "there is no snapshot yet",
                    next_step="`ddpatch snapshot TARGET`, or name a release: `--version 0.5.11`",
                )
            return newest[0]
        numbered = re.fullmatch(r"(.+)@(\d+)", name)
        if numbered and (history := self.store.history(self._slug(numbered[1]))):
            ref = self.store.find(history[0].slug, int(numbered[2]))
            if ref is None:
                raise UsageError(
                    f"{numbered[1]} has {len(history)} snapshot(s); there is no number "
                    f"{numbered[2]}",
                    next_step=f"`ddpatch history {numbered[1]}` lists them",
                )
            return ref
        ref = self.store.find(self._slug(name))
        return ref or self.snapshot(name).ref

    def _slug(self, name: str) -> str:
        return slug_of(name, self.hosts)

    # --------------------------------------------------------------- questions

    def survey(self, tree: Tree) -> Inventory:
        """The inventory of a tree, from the cache where it is known."""
        return run(tree, Cache(self.store.cache), self.progress)

    def subject(self, ref: SnapshotRef) -> Subject:
        """A snapshot with its inventory."""
        tree = self.store.tree(ref)
        return Subject(tree, self.survey(tree))

    def plan(self, ref: SnapshotRef, patch_set: PatchSet) -> tuple[Plan, TreeManifest | None]:
        """Plan a set on a snapshot's pristine tree; the second value is what was in it already."""
        tree = self.store.tree(ref)
        told = read_manifest(tree, patch_set.manifest)
        if told is not None:
            tree = pristine(tree, told, patch_set.manifest, self.store.content)
        return make_plan(patch_set, Subject(tree, self.survey(tree))), told

    # ----------------------------------------------------------------- patching

    def apply(self, ref: SnapshotRef, patch_set: PatchSet, *, dry_run: bool = False) -> Applied:
        """Plan a set, and unless it is a dry run write the patched tree to the store.

        A tree that has exactly this set in it already stays as it is (``already-applied``); one
        with another version of it gets the new one in its place.
        """
        plan, told = self.plan(ref, patch_set)
        if plan.outcome is not Outcome.APPLIED:
            return Applied(ref, plan, plan.outcome, replaced=told)
        snapshot = self.store.tree(ref)
        wanted = plan.changes.contents
        there = all(p in snapshot and snapshot.read(p) == data for p, data in wanted.items())
        stale = [p for p in (told.files if told else ()) if p not in wanted]
        if there and not stale:
            current = self.store.patched(ref.slug)
            return Applied(ref, plan, Outcome.ALREADY_APPLIED, current, told)
        if dry_run:
            return Applied(ref, plan, Outcome.APPLIED, replaced=told)
        before = self.store.patched(ref.slug)
        patched = self.store.put_patched(ref, patch_set.label, _series(plan, snapshot, told))
        again = before is not None and before.oid == patched.oid
        outcome = Outcome.ALREADY_APPLIED if again else Outcome.APPLIED
        return Applied(ref, plan, outcome, patched, told)

    def patched(self, name: str | None) -> PatchedRef:
        """The patched tree of a target; None means the one that was applied last."""
        if name is None:
            found = self.store.last_patched()
        else:
            found = self.store.patched(self._slug(name))
            numbered = re.fullmatch(r"(.+)@\d+", name)
            if found is None and numbered:
                found = self.store.patched(self._slug(numbered[1]))
        if found is None:
            what = f" of {name}" if name else ""
            raise UsageError(
                f"there is no patched tree{what} yet",
                next_step=f"`ddpatch apply {name or 'TARGET'}`",
            )
        return found

    def context(self, ref: PatchedRef) -> Context:
        """Everything that verification looks at, planned anew from the snapshot."""
        patch_set = load_set(ref.set_label.partition("@")[0])
        plan, _ = self.plan(ref.snapshot, patch_set)
        tree = self.store.patched_tree(ref)
        return Context(plan, tree, load_ledger(patch_set), self.survey)


def _series(plan: Plan, snapshot: Tree, told: TreeManifest | None) -> list[PatchCommit]:
    """One commit per patch, cumulative; one before them that takes an older set out."""
    commits: list[PatchCommit] = []
    last: dict[str, bytes | None] = {}
    if told is not None:
        pristine_tree = plan.subject.tree
        last = {
            path: pristine_tree.read(path) if path in pristine_tree else None
            for path in (*told.files, plan.patch_set.manifest)
        }
        message = f"Take out {told.set_label}\n\nThe originals, before {plan.patch_set.label}.\n"
        commits.append(PatchCommit(message, {p: d for p, d in last.items() if p in snapshot}))
    applied = [p for p in plan.patches if p.outcome is Outcome.APPLIED]
    done: list[str] = []
    for planned in applied:
        done.append(planned.patch.id)
        contents = plan.changes.up_to(done)
        files = {path: data for path, data in contents.items() if last.get(path) != data}
        last = {**last, **files}
        patch = planned.patch
        upstream = f"Upstream: {patch.upstream}\n" if patch.upstream else ""
        why = textwrap.fill(patch.why, 76)
        message = f"{patch.title}\n\n{why}\n\nPatch: {patch.id}\n{upstream}"
        commits.append(PatchCommit(message.rstrip("\n"), files))
    return commits
