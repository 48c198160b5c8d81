"""``ddpatch verify``: prove a patched tree."""

from __future__ import annotations

from collections.abc import Sequence

import click

from patcher.cli import complete
from patcher.cli.app import App, command, exit_for, plural
from patcher.model import Report, Table, UsageError
from patcher.verify import LevelResult, climb, up_to
from patcher.verify.check import Check


@command("verify", section="Prove", short_help="Prove the patched tree, level by level.")
@click.argument(
    "name", metavar="[TARGET|SNAPSHOT]", required=False, shell_complete=complete.targets
)
@click.option("--version", metavar="V", help="The patched tree of this SGLang release.")
@click.option(
    "--level",
    metavar="LEVEL",
    shell_complete=complete.levels,
    help="Stop after this level (default: the highest).",
)
def cmd(app: App, name: str | None, version: str | None, level: str | None) -> Report:
    """Prove a patched tree in the store, level by level, without running any of it.

    \b
      bytes     only declared regions changed
      parse     every changed file compiles for the target's Python
      names     every import and attribute that new code takes from SGLang resolves
      calls     every call from new code binds; every override fits its base
      dispatch  no place that branches is undecided; the algorithm shows where it must

    The first level that does not hold is the last one that is tried. What can neither be proved nor
    refuted without running it (tensors, plugins, setattr) passes and is counted as unknown.
    """
    levels = up_to(level)
    if name is not None and version is not None:
        raise UsageError("a target and --version name two trees", next_step="give one of them")
    ref = app.workspace.patched(f"pypi:{version}" if version else name)
    results = list(climb(app.workspace.context(ref), levels))
    holds = len(results) == len(levels) and all(r.holds for r in results)
    reached = [r.check.level for r in results if r.holds]
    findings = tuple(f for r in results for f in r.findings)
    target = ref.snapshot.target
    return Report(
        command="verify",
        exit_code=exit_for(holds),
        data={
            "outcome": "holds" if holds else "fails",
            "target": target,
            "version": ref.snapshot.version,
            "set": ref.set_label,
            "level": reached[-1] if reached else "",
            "levels": [_json(check, results) for check in levels],
        },
        headline=(
            f"{ref.set_label} on {target}: verified up to `{reached[-1]}`"
            if holds
            else f"{ref.set_label} on {target}: `{results[-1].check.level}` does not hold"
        ),
        tables=(Table("", ("level", "", "checked", "proves"), _rows(levels, results)),),
        findings=findings,
        next_step=_next(target) if holds else "",
    )


def _next(target: str) -> str:
    if target.startswith("pypi:"):
        return f"ddpatch diff {target}"
    return f"ddpatch push {target} --dry-run"


def _state(check: Check, results: Sequence[LevelResult]) -> str:
    for result in results:
        if result.check is check:
            return "holds" if result.holds else plural(len(result.findings), "finding")
    return "not tried"


def _rows(levels: Sequence[Check], results: Sequence[LevelResult]) -> tuple[tuple[str, ...], ...]:
    return tuple((c.level, _state(c, results), _extent(c, results), c.proves) for c in levels)


def _extent(check: Check, results: Sequence[LevelResult]) -> str:
    """How much a level has looked at, and how much of it nobody can know without running it."""
    for result in results:
        if result.check is check:
            evidence = result.evidence
            unknown = f", {evidence.unknown:,} unknown" if evidence.unknown else ""
            return plural(evidence.checked, evidence.unit) + unknown
    return ""


def _json(check: Check, results: Sequence[LevelResult]) -> dict[str, object]:
    found = next((r for r in results if r.check is check), None)
    return {
        "level": check.level,
        "proves": check.proves,
        "tried": found is not None,
        "holds": found is not None and found.holds,
        "findings": len(found.findings) if found else 0,
        "checked": found.evidence.checked if found else 0,
        "unknown": found.evidence.unknown if found else 0,
    }
