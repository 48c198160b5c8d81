"""Level ``dispatch``: no place is undecided, and the patched tree shows what the set brings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from inventory.model import Row
from patcher.ledger import Status, dispatch_rows, key_of
from patcher.model import Finding, Outcome, Severity
from patcher.plan import unread
from patcher.verify.check import Check, Context, Evidence


def _run(context: Context) -> Evidence:
    rows = dispatch_rows(context.plan.patch_set, context.plan.subject)
    places = {key_of(row) for row in rows}
    return Evidence(tuple(_gaps(context, rows)), len(places), "dispatch site")


def _gaps(context: Context, rows: list[Row]) -> Iterator[Finding]:
    patch_set = context.plan.patch_set
    if patch_set.dispatch:
        for finding in unread(context.plan.subject, Severity.ERROR):
            yield replace(finding, level="dispatch")
    yield from context.ledger.gaps(rows)
    outcomes = {p.patch.id: p.outcome for p in context.plan.patches}
    for row in rows:
        entry = context.ledger.entries.get(key_of(row))
        if entry is None or entry.status is not Status.PATCHED:
            continue
        for patch in entry.patches:
            outcome = outcomes.get(patch, Outcome.BLOCKED)
            if outcome is not Outcome.APPLIED:
                yield Finding(
                    code="dispatch.unpatched",
                    message=f"{row.site} relies on patch {patch}, which is {outcome} here",
                    level="dispatch",
                    patch=patch,
                    site=row.site,
                    expected=f"{patch} applied",
                    found=str(outcome),
                    next_step="give the patch a strategy for this release, or decide anew",
                )
    for probe in patch_set.shows:
        if not probe.holds(context.patched_subject):
            yield Finding(
                code="dispatch.absent",
                message=f"the patched tree does not show it: {probe.describe()}",
                level="dispatch",
                expected=probe.describe(),
                found="it does not hold",
                next_step="see which patch should bring it with `ddpatch apply --dry-run`",
            )


CHECK = Check(
    level="dispatch",
    rank=5,
    proves="every dispatch site is decided, and the patched tree shows what the set brings",
    run=_run,
)
