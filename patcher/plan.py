"""From a patch set and a tree to a plan: which strategy of each patch, and the exact bytes.

Planning is pure. Probes choose the strategies, every anchor is looked up in the pristine tree,
and the whole set is applied or nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from patcher.changes import ChangeSet, Conflict, FileChange, Splice, splice
from patcher.edits.base import Edit, labelled
from patcher.manifest import manifest_module
from patcher.model import Finding, Outcome, Severity, Site, UsageError
from patcher.patchset import Patch, PatchSet, Strategy
from patcher.pattern import PatternError
from patcher.probe import Subject
from patcher.source import Source, Unreadable


@dataclass(frozen=True)
class PatchPlan:
    """What becomes of one patch: its outcome, the strategy taken, its splices, and why not."""

    patch: Patch
    outcome: Outcome
    strategy: str = ""
    note: str = ""
    splices: tuple[Splice, ...] = ()
    added: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A plan for a whole set, and the change set that it leads to (empty on a conflict)."""

    patch_set: PatchSet
    subject: Subject
    patches: tuple[PatchPlan, ...]
    changes: ChangeSet
    findings: tuple[Finding, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """``applied`` when every patch has its place, else ``conflict``."""
        bad = {Outcome.CONFLICT, Outcome.BLOCKED}
        if self.findings or any(p.outcome in bad for p in self.patches):
            return Outcome.CONFLICT
        if any(p.outcome is Outcome.APPLIED for p in self.patches):
            return Outcome.APPLIED
        return Outcome.NOT_NEEDED

    def all_findings(self) -> tuple[Finding, ...]:
        """Findings about the set as a whole, then patch by patch."""
        return self.findings + tuple(f for p in self.patches for f in p.findings)


def make_plan(patch_set: PatchSet, subject: Subject) -> Plan:
    """Plan a set on a pristine tree. Never raises for what it finds; see ``Plan.outcome``."""
    try:
        return _planned(patch_set, subject)
    except Unreadable as error:
        finding = Finding(
            code="file.unreadable",
            message=f"{error.path} cannot be read as Python: {error.reason}",
            site=Site(error.path, 1),
            expected="a Python file",
            found=error.reason,
            next_step="compare the file with its release",
        )
        return Plan(patch_set, subject, (), _nothing(patch_set, subject), (finding,))


def _planned(patch_set: PatchSet, subject: Subject) -> Plan:
    unmet = tuple(_unmet(patch_set, subject))
    if unmet:
        return Plan(patch_set, subject, (), _nothing(patch_set, subject), unmet)
    plans: list[PatchPlan] = []
    outcomes: dict[str, Outcome] = {}
    for patch in patch_set.patches:
        planned = plan_patch(patch, subject, outcomes)
        outcomes[patch.id] = planned.outcome
        plans.append(planned)
    plan = Plan(patch_set, subject, tuple(plans), _nothing(patch_set, subject))
    if plan.outcome is not Outcome.APPLIED:
        return plan
    try:
        return replace(plan, changes=_changes(plan))
    except Conflict as conflict:
        return replace(plan, findings=conflict.findings)


def _unmet(patch_set: PatchSet, subject: Subject) -> Iterator[Finding]:
    for requirement in patch_set.requires:
        if not requirement.probe.holds(subject):
            yield Finding(
                code="set.requires",
                message=requirement.otherwise,
                expected=requirement.probe.describe(),
                found="it does not hold",
                next_step="use a release that has it",
            )
            yield from unread(subject, Severity.WARNING)


def unread(subject: Subject, severity: Severity) -> Iterator[Finding]:
    """Findings for code that nobody has looked at: unreadable files, and those left out."""
    packages = {path.partition("/")[0] for path in subject.tree.python_files()}
    for path, reason in sorted(
        {**subject.inventory.coverage.unreadable, **subject.tree.skipped}.items()
    ):
        if path.endswith(".py") and path.partition("/")[0] in packages:
            yield Finding(
                code="file.unread",
                message=f"{path} was not read: {reason}",
                severity=severity,
                site=Site(path, 1),
                expected="a regular file that is Python",
                found=reason,
                next_step="compare the file with its release",
            )


def plan_patch(patch: Patch, subject: Subject, outcomes: Mapping[str, Outcome]) -> PatchPlan:
    """Plan one patch, given what became of the patches before it."""
    if patch.retire_when is not None and patch.retire_when.holds(subject):
        return PatchPlan(patch, Outcome.UPSTREAM_FIXED, note=patch.retire_note)
    stopped = {Outcome.CONFLICT, Outcome.BLOCKED}
    waiting = [needed for needed in patch.requires if outcomes[needed] in stopped]
    if waiting:
        finding = Finding(
            code="patch.blocked",
            message=f"{patch.id} needs {', '.join(waiting)}, which cannot be applied",
            patch=patch.id,
            expected=f"{', '.join(waiting)} applied",
            found=str(outcomes[waiting[0]]),
            next_step=f"mend {waiting[0]} first",
        )
        return PatchPlan(patch, Outcome.BLOCKED, findings=(finding,))
    strategy = next((s for s in patch.strategies if s.when.holds(subject)), None)
    if strategy is None:
        return PatchPlan(patch, Outcome.CONFLICT, findings=(_no_strategy(patch),))
    if not strategy.edits:
        return PatchPlan(patch, Outcome.NOT_NEEDED, strategy.id, strategy.note)
    return plan_strategy(patch, strategy, subject)


def plan_strategy(patch: Patch, strategy: Strategy, subject: Subject) -> PatchPlan:
    """Plan one strategy of a patch, collecting every conflict rather than the first one."""
    splices: list[Splice] = []
    findings: list[Finding] = []
    for edit in strategy.edits:
        try:
            new = edit.plan(subject)
            if edit.present(subject):
                findings.append(_present(edit, new))
            splices += new
        except Conflict as conflict:
            findings += conflict.findings
        except PatternError as error:
            raise UsageError(
                f"patch {patch.id}, strategy {strategy.id}: {error.message}",
                next_step=error.next_step,
            ) from error
    findings = list(dict.fromkeys(replace(f, patch=patch.id) for f in findings))
    return PatchPlan(
        patch,
        Outcome.CONFLICT if findings else Outcome.APPLIED,
        strategy.id,
        strategy.note,
        labelled(tuple(splices), patch.id),
        tuple(s.path for s in splices if s.path not in subject.tree),
        tuple(findings),
    )


def _no_strategy(patch: Patch) -> Finding:
    asked = "; ".join(f"{s.id}: {s.when.describe()}" for s in patch.strategies)
    return Finding(
        code="strategy.none",
        message=f"no strategy of {patch.id} fits this release",
        patch=patch.id,
        expected=f"one of — {asked}",
        found="none of these probes holds",
        next_step="see what the release has instead with `ddpatch inventory`, and add a strategy",
    )


def _present(edit: Edit, splices: tuple[Splice, ...]) -> Finding:
    return Finding(
        code="edit.present",
        message=f"the code is already there, and no ddpatch manifest says so: {edit.describe()}",
        site=Site(splices[0].path, 1) if splices else None,
        expected="a pristine tree",
        found="code that this patch would add",
        next_step="restore the original file, or `ddpatch rollback TARGET`, and take a snapshot",
    )


def _nothing(patch_set: PatchSet, subject: Subject) -> ChangeSet:
    version = subject.tree.facts.version
    return ChangeSet(patch_set.name, patch_set.version, version, (), {})


def _changes(plan: Plan) -> ChangeSet:
    tree = plan.subject.tree
    by_path: dict[str, list[Splice]] = {}
    for planned in plan.patches:
        for one in planned.splices:
            by_path.setdefault(one.path, []).append(one)
    files = {path: _file_change(plan, path, by_path[path]) for path in sorted(by_path)}
    applied = tuple(p.patch.id for p in plan.patches if p.outcome is Outcome.APPLIED)
    release = tree.facts.version
    partial = ChangeSet(plan.patch_set.name, plan.patch_set.version, release, applied, files)
    path = plan.patch_set.manifest
    data = manifest_module(plan.patch_set, partial)
    told = FileChange(path, None, data, 0o644, (Splice(path, 0, 0, data),), applied)
    return replace(partial, files={**files, path: told})


def _file_change(plan: Plan, path: str, splices: list[Splice]) -> FileChange:
    tree = plan.subject.tree
    if bad := _bad_path(path):
        raise Conflict(
            Finding(
                code="file.path",
                message=f"{path!r} {bad}",
                expected="a relative path below the package's parent",
                found=path,
                next_step="name the file as `package/folder/name.py`",
            )
        )
    patches = tuple(dict.fromkeys(s.patch for s in splices))
    if path not in tree:
        if len(splices) > 1:
            raise Conflict(
                Finding(
                    code="file.twice",
                    message=f"{' and '.join(patches)} both add {path}",
                    site=Site(path, 1),
                    expected="one patch that adds it",
                    found=f"{len(splices)}",
                    next_step="let one of them add the file",
                )
            )
        return FileChange(path, None, splices[0].data, 0o644, tuple(splices), patches)
    before = tree.read(path)
    try:
        after = splice(before, splices)
    except ValueError as error:
        raise Conflict(
            Finding(
                code="edit.overlap",
                message=str(error),
                site=_where(path, before, splices),
                expected="edits that do not touch each other",
                found=f"patches {', '.join(patches)}",
                next_step="merge the two edits into one patch, or narrow an anchor",
            )
        ) from error
    ordered = tuple(sorted(splices, key=lambda s: (s.start, s.end)))
    return FileChange(path, before, after, tree.files[path].mode, ordered, patches)


def _bad_path(path: str) -> str:
    if path.startswith("/"):
        return "is absolute"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "leads out of the tree, or is not plain"
    return "" if path.isprintable() else "has control characters"


def _where(path: str, before: bytes, splices: list[Splice]) -> Site:
    source = Source(path, before)
    at = 0
    for one in sorted(splices, key=lambda s: (s.start, s.end)):
        if one.start < at:
            return source.site_at(one.start, one.end)
        at = one.end
    return Site(path, 1)
