"""What the commands do, without the command line: snapshots, plans, patched trees, verification.

A workspace joins the store with the targets and keeps inventories, so that the same question is
never answered twice.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from inventory import Cache, run
from inventory.model import Inventory
from patcher.ledger import load_ledger
from patcher.manifest import TreeManifest, manifests, pristine
from patcher.model import Manifest, Outcome, Refusal, UsageError
from patcher.patchset import PatchSet, load_set
from patcher.probe import Subject
from patcher.push.plan import Change, PushPlan, build_plan
from patcher.refs import PatchCommit, PatchedRef, SnapshotRef
from patcher.store import Store
from patcher.targets import HostConfig, Progress, Target, parse_target, quiet, slug
from patcher.targets.base import Skipped
from patcher.targets.record import RecordDifference, compare
from patcher.tree import Tree

if TYPE_CHECKING:
    from patcher.plan import Plan
    from patcher.verify.check import Context

_NUMBERED = re.compile(r"(.+)@(\d+)")


@dataclass(frozen=True)
class Snapped:
    """A snapshot that was just taken: where it is, what moved, how it differs from RECORD."""

    ref: SnapshotRef
    tree: Tree
    files: int
    moved: int
    moved_bytes: int
    unchanged: bool
    record: RecordDifference | None
    skipped: tuple[Skipped, ...] = ()


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
        """The target that a word on the command line means.

        What a snapshot has found out stays true for the commands that follow: without ``python``
        and ``path``, the interpreter and the folder of its newest snapshot are taken.
        """
        if not spec.isprintable():
            raise UsageError(f"{spec!r} is no name for a target", next_step="use plain characters")
        numbered = _NUMBERED.fullmatch(spec)
        if numbered and self.store.find(self._slug(numbered[1])) is not None:
            raise UsageError(
                f"{spec} is a snapshot, and a target is asked for",
                next_step=f"name the target alone: {numbered[1]}",
            )
        if python is None and path is None and not spec.startswith(("pypi:", "local:")):
            ref = self.store.find(slug(spec))
            if ref is not None:
                facts = self.store.manifest(ref.oid).facts
                python, path = facts.python or None, facts.root
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

            skipped = {entry.path: entry.reason for entry in taken.skipped}
            manifest = replace(taken.manifest, skipped=skipped)
            ref = self.store.put_snapshot(target.name, target.slug, manifest, contents())
        tree = self.store.tree(ref)
        return Snapped(
            ref=ref,
            tree=tree,
            files=len(tree),
            moved=len(moved),
            moved_bytes=sum(moved.values()),
            unchanged=before is not None and before.oid == ref.oid,
            record=_record(self.store.manifest(ref.oid), tree),
            skipped=taken.skipped,
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
                    next_step="`ddpatch snapshot TARGET`, or name a release: pypi:0.5.11",
                )
            return newest[0]
        numbered = _NUMBERED.fullmatch(name)
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
        if ref is not None:
            return ref
        try:
            return self.snapshot(name).ref
        except UsageError as error:
            if "--python" not in error.next_step:
                raise
            raise UsageError(
                error.message,
                next_step=f"`ddpatch snapshot {name} …` takes these options: {error.next_step}",
            ) from error

    def _slug(self, name: str) -> str:
        if name.startswith(("local:", "pypi:")):
            return parse_target(name, self.hosts).slug
        return slug(name)

    # --------------------------------------------------------------- questions

    def survey(self, tree: Tree) -> Inventory:
        """The inventory of a tree, from the cache where it is known."""

        def told(done: int, total: int) -> None:
            self.progress("inventory", done, total)

        return run(tree, Cache(self.store.cache), told)

    def subject(self, ref: SnapshotRef) -> Subject:
        """A snapshot with its inventory."""
        tree = self.store.tree(ref)
        return Subject(tree, self.survey(tree))

    def plan(self, ref: SnapshotRef, patch_set: PatchSet) -> tuple[Plan, TreeManifest | None]:
        """Plan a set on a snapshot's pristine tree; the second value is what was in it already."""
        from patcher.plan import make_plan  # LibCST takes a third of a second to load

        tree = self.store.tree(ref)
        told = None
        for path, found in manifests(tree):
            if found.set_name != patch_set.name or path != patch_set.manifest:
                raise Refusal(
                    f"{ref.target} has another patch set in it: {found.set_label} ({path})",
                    next_step=f"`ddpatch rollback {ref.target}` takes it out; then snapshot again",
                )
            told = found
            tree = pristine(tree, told, path, self.store.content)
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
            if current is None and not dry_run:
                # patched from elsewhere: the series is empty, and everything else works on it
                message = f"{patch_set.label} was in the snapshot already\n"
                current = self.store.put_patched(
                    ref, patch_set.label, patch_set.source, [PatchCommit(message, {})]
                )
            return Applied(ref, plan, Outcome.ALREADY_APPLIED, current, told)
        if dry_run:
            return Applied(ref, plan, Outcome.APPLIED, replaced=told)
        before = self.store.patched(ref.slug)
        patched = self.store.put_patched(
            ref, patch_set.label, patch_set.source, _series(plan, snapshot, told)
        )
        again = before is not None and before.oid == patched.oid
        outcome = Outcome.ALREADY_APPLIED if again else Outcome.APPLIED
        return Applied(ref, plan, outcome, patched, told)

    def patched(self, name: str | None) -> PatchedRef:
        """The patched tree of a target; None means the one that was applied last."""
        numbered = _NUMBERED.fullmatch(name or "")
        if name is None:
            found = self.store.last_patched()
        elif numbered and self.store.history(self._slug(numbered[1])):
            found = self.store.patched(self._slug(numbered[1]))
            if found is not None and found.snapshot.number != int(numbered[2]):
                raise UsageError(
                    f"the patched tree of {numbered[1]} is of snapshot "
                    f"@{found.snapshot.number}, not @{numbered[2]}",
                    next_step=f"`ddpatch apply {name}` makes one of that snapshot",
                )
        else:
            found = self.store.patched(self._slug(name))
        if found is None:
            what = f" of {name}" if name else ""
            raise UsageError(
                f"there is no patched tree{what} yet",
                next_step=f"`ddpatch apply {name or 'TARGET'}`",
            )
        return found

    @staticmethod
    def set_of(ref: PatchedRef) -> str:
        """The name (or folder) by which a patched tree's set is loaded again."""
        return ref.set_source or ref.set_label.partition("@")[0]

    def context(self, ref: PatchedRef) -> Context:
        """Everything that verification looks at, planned anew from the snapshot."""
        plan, _ = self.plan(ref.snapshot, load_set(self.set_of(ref)))
        return self.context_of(plan, self.store.patched_tree(ref))

    def context_of(self, plan: Plan, patched: Tree | None = None) -> Context:
        """What verification looks at for a plan; by default the tree that the plan leads to."""
        from patcher.verify.check import Context

        tree = patched or plan.subject.tree.with_changes(plan.changes.contents)
        return Context(plan, tree, load_ledger(plan.patch_set), self.survey)

    def sets_in(self, tree: Tree) -> list[str]:
        """The patch sets (``name@version``) that a tree says it has in it."""
        return [told.set_label for _, told in manifests(tree)]


def push_plan(workspace: Workspace, ref: PatchedRef, patch_set: PatchSet) -> PushPlan:
    """The plan that takes a target from the snapshot to the patched tree of the store."""
    base = workspace.store.tree(ref.snapshot)
    changes = [
        Change(path, base.read(path) if path in base else None, new)
        for path, new in workspace.store.patched_changes(ref).items()
    ]
    facts = base.facts
    record = f"{facts.distinfo}/RECORD"
    listed = record in base and not facts.editable
    return build_plan(
        changes,
        set_name=patch_set.name,
        set_version=patch_set.version,
        distinfo=facts.distinfo,
        record=base.read(record) if listed else None,
        dispatch=[c.path for c in changes if c.kind == "replace"],
    )


def _record(manifest: Manifest, tree: Tree) -> RecordDifference | None:
    """How the install differs from its RECORD; None for an editable install or a plain folder."""
    path = f"{manifest.facts.distinfo}/RECORD"
    if manifest.facts.editable or path not in tree:
        return None
    return compare(manifest, tree.read(path))


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
