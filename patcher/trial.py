"""Try a patch: its own cases, and the patch alone on a release. For the person who writes it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from inventory.model import Coverage, Inventory
from patcher.changes import Splice, splice
from patcher.model import Finding, Outcome, UsageError
from patcher.patchset import Patch, PatchCase, Strategy
from patcher.plan import PatchPlan, plan_patch, plan_strategy
from patcher.probe import Subject
from patcher.tree import Tree


@dataclass(frozen=True)
class CaseResult:
    """What became of one case: passed, or why not (a diff of expected and got, or findings)."""

    patch: Patch
    case: PatchCase
    problem: str = ""
    findings: tuple[Finding, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the case holds."""
        return not self.problem


def strategy_of(patch: Patch, name: str) -> Strategy:
    """A patch's strategy by id. Raises UsageError with the ids there are."""
    for strategy in patch.strategies:
        if strategy.id == name:
            return strategy
    known = ", ".join(s.id for s in patch.strategies)
    raise UsageError(f"patch {patch.id} has no strategy {name!r}", next_step=f"one of: {known}")


def run_case(patch: Patch, case: PatchCase) -> CaseResult:
    """Apply one strategy to the case's files and compare.

    A case without ``after`` must be refused, with findings and without a change. A case with
    ``after`` must come out exactly so; applied to its own result it must be refused, since no
    edit may go in twice.
    """
    strategy = strategy_of(patch, case.strategy)
    subject = _subject(dict(case.before))
    planned = plan_strategy(patch, strategy, subject)
    if case.after is None:
        if planned.outcome is Outcome.APPLIED:
            return CaseResult(patch, case, "it applies, but the case says that it must not")
        return CaseResult(patch, case, findings=planned.findings)
    if planned.outcome is not Outcome.APPLIED:
        reason = "; ".join(f.message for f in planned.findings) or str(planned.outcome)
        return CaseResult(patch, case, f"it does not apply: {reason}", planned.findings)
    result = _result(subject.tree, planned.splices, case)
    if problem := "\n".join(_differences(case.after, result)):
        return CaseResult(patch, case, problem)
    again = plan_strategy(patch, strategy, _subject(result))
    if again.outcome is Outcome.APPLIED:
        return CaseResult(patch, case, "it applies a second time to its own result")
    return CaseResult(patch, case)


def _subject(files: dict[str, str]) -> Subject:
    return Subject(Tree.of(files), Inventory("", "", Coverage(len(files), len(files), 0), {}))


def _result(tree: Tree, splices: tuple[Splice, ...], case: PatchCase) -> dict[str, str]:
    result = dict(case.before)
    paths = {s.path for s in splices}
    for path in paths:
        before = tree.read(path) if path in tree else b""
        mine = [s for s in splices if s.path == path]
        result[path] = splice(before, mine).decode()
    return result


def _differences(expected: Mapping[str, str], got: dict[str, str]) -> Iterator[str]:
    for path in sorted(set(expected) | set(got)):
        want, have = expected.get(path, ""), got.get(path, "")
        if want != have:
            yield from difflib.unified_diff(
                want.splitlines(), have.splitlines(), f"{path} (expected)", f"{path} (got)", "", ""
            )


def try_alone(patch: Patch, subject: Subject) -> PatchPlan:
    """What becomes of a patch alone on a tree, as if all that it requires were there."""
    return plan_patch(replace(patch, requires=()), subject, {})
