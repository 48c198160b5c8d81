"""``ddpatch record``: write a release file."""

from __future__ import annotations

from dataclasses import replace

import click

from patcher.cli.app import App, command, exit_for, set_option
from patcher.model import ExitCode, Outcome, Report
from patcher.release import dump, load_releases, record
from patcher.targets.index import hashes
from patcher.verify import climb, up_to


@command("record", section="Write patches", short_help="Record a verified release of SGLang.")
@click.argument("version")
@set_option
@click.option("--check", "only_check", is_flag=True, help="Compare with the file, write nothing.")
def cmd(app: App, version: str, set_name: str | None, only_check: bool) -> Report:
    """Apply the set to an SGLang release, verify it, and write its release file.

    The file says what the probes chose, which level held, and how many sites each inventory query
    found. With --check the file stays as it is, and every difference is reported.
    """
    patch_set = app.patch_set(set_name)
    workspace = app.workspace
    plan, _ = workspace.plan(workspace.find(f"pypi:{version}"), patch_set)
    if plan.outcome is not Outcome.APPLIED:
        return Report(
            "record",
            ExitCode.FINDING,
            {"outcome": plan.outcome, "version": version},
            f"{patch_set.label} does not apply to sglang {version}: nothing was recorded",
            findings=plan.all_findings(),
        )
    results = list(climb(workspace.context_of(plan), up_to(None)))
    reached = [r.check.level for r in results if r.holds]
    findings = tuple(f for r in results for f in r.findings)
    wheels = hashes(version)
    found = record(plan, reached[-1] if reached else "", wheels)
    path = patch_set.folder / "releases" / f"{version}.toml"
    holds = all(r.holds for r in results)
    known = load_releases(patch_set).get(version)
    changes = list(known.differences(found)) if known else ["there was no release file"]
    if only_check:
        return Report(
            "record",
            exit_for(holds and not changes),
            {"outcome": "differs" if changes else "same", "version": version, "changes": changes},
            f"sglang {version}: {'differs from its' if changes else 'as in its'} release file",
            lines=tuple(changes),
            findings=findings,
            next_step=f"ddpatch record {version}" if changes else "",
        )
    if holds:
        found = replace(found, wheels={**(known.wheels if known else {}), **wheels})
        path.parent.mkdir(exist_ok=True)
        path.write_text(dump(found), encoding="utf-8")
    return Report(
        "record",
        exit_for(holds),
        {"outcome": "recorded" if holds else "fails", "version": version, "changes": changes},
        f"sglang {version}: recorded, verified up to `{found.level}`"
        if holds
        else f"sglang {version}: `{results[-1].check.level}` does not hold; nothing was recorded",
        lines=(*([f"written to {path}"] if holds else []), *changes),
        findings=findings,
    )
