"""``ddpatch test``: try a patch, for the person who writes it."""

from __future__ import annotations

import click

from patcher.cli import complete
from patcher.cli.app import App, command, exit_for, plural, set_option
from patcher.model import Finding, Outcome, Report, Table
from patcher.plan import PatchPlan
from patcher.trial import CaseResult, run_case, try_alone


@command("test", section="Write patches", short_help="Run a patch's cases, and try it alone.")
@click.argument("patch", required=False, shell_complete=complete.patches)
@click.option("--version", metavar="V", help="Also try the patch on this SGLang release.")
@set_option
def cmd(app: App, patch: str | None, version: str | None, set_name: str | None) -> Report:
    """Run the cases of PATCH (of every patch without one), and try it on a release.

    Cases stand in the patch's own file: files before, files after. A patch that is tried on a
    release is tried alone, as if all that it requires were there.

    \b
    Examples:
      ddpatch test graph-capture
      ddpatch test graph-capture --version 0.5.13
      ddpatch test --set ./my-set
    """
    patch_set = app.patch_set(set_name)
    patches = (patch_set.patch(patch),) if patch else patch_set.patches
    results = [run_case(p, case) for p in patches for case in p.cases]
    tried: list[PatchPlan] = []
    if version is not None:
        subject = app.workspace.subject(app.workspace.find(f"pypi:{version}"))
        tried = [try_alone(p, subject) for p in patches]
    bad = {Outcome.CONFLICT, Outcome.BLOCKED}
    holds = all(r.passed for r in results) and not any(t.outcome in bad for t in tried)
    passed = sum(r.passed for r in results)
    return Report(
        command="test",
        exit_code=exit_for(holds),
        data={
            "outcome": "holds" if holds else "fails",
            "set": patch_set.label,
            "cases": [_case_json(r) for r in results],
            "release": version or "",
            "patches": [
                {"id": t.patch.id, "outcome": t.outcome, "strategy": t.strategy} for t in tried
            ],
        },
        headline=f"{patch_set.label}: {passed} of {plural(len(results), 'case')} hold",
        tables=tuple(_tables(results, tried, version)),
        findings=(*(_problem(r) for r in results if not r.passed), *_findings(tried)),
    )


def _case_json(result: CaseResult) -> dict[str, object]:
    return {
        "patch": result.patch.id,
        "title": result.case.title,
        "strategy": result.case.strategy,
        "holds": result.passed,
        "problem": result.problem,
    }


def _tables(results: list[CaseResult], tried: list[PatchPlan], version: str | None) -> list[Table]:
    rows = tuple(("holds" if r.passed else "fails", r.patch.id, r.case.title) for r in results)
    tables = [Table("", ("", "patch", "case"), rows)]
    if tried:
        alone = tuple((str(t.outcome), t.patch.id, t.strategy, t.note) for t in tried)
        tables.append(Table(f"on sglang {version}", ("outcome", "patch", "strategy", ""), alone))
    return tables


def _findings(tried: list[PatchPlan]) -> list[Finding]:
    return [f for t in tried for f in t.findings]


def _problem(result: CaseResult) -> Finding:
    return Finding(
        code="case.fails",
        message=f"{result.case.title}:\n{result.problem}",
        patch=result.patch.id,
        expected="the files of `after`" if result.case.after is not None else "a refusal",
        found="another result",
        next_step="mend the edit, or the case",
    )
