"""``ddpatch inventory``: map the speculative-decoding code."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

import click

from inventory import QUERIES, row_to
from inventory.model import Inventory, Query, Row
from patcher.cli import complete
from patcher.cli.app import App, command, describe, plural
from patcher.model import ExitCode, Report, Table, UsageError

_FOLD = 12


@command("inventory", section="Look", short_help="Map the speculative-decoding code, completely.")
@click.argument(
    "name", metavar="[TARGET|SNAPSHOT]", required=False, shell_complete=complete.targets
)
@click.option(
    "--query",
    "wanted",
    multiple=True,
    metavar="ID",
    shell_complete=complete.queries,
    help="Only this query, all of its rows (repeatable).",
)
@click.option("--match", metavar="REGEX", help="Only rows in which something matches.")
@click.option("--all", "unfolded", is_flag=True, help="Fold nothing on a terminal.")
@click.option("--list", "listing", is_flag=True, help="List the queries and what they are for.")
def cmd(
    app: App,
    name: str | None,
    wanted: tuple[str, ...],
    match: str | None,
    unfolded: bool,
    listing: bool,
) -> Report:
    """Map the speculative-decoding code of a target, a snapshot or a release.

    Every hit is a classified site: what it is, in which scope, what it decides on. The last line
    proves that nothing was passed over: files seen = parsed + ruled out + unreadable. A terminal
    folds long lists and says by how much; a pipe and --json get everything.

    \b
    Examples:
      ddpatch inventory pypi:0.5.11
      ddpatch inventory gpu1 --query dispatch
      ddpatch inventory gpu1 --query arguments --match speculative_algorithm
      ddpatch inventory gpu1 --json | jq '.queries[] | select(.id=="algorithms").sites'
    """
    if listing:
        return _listing()
    queries = _chosen(wanted)
    matches = _matcher(match)
    started = time.perf_counter()
    ref = app.workspace.find(name)
    found = app.workspace.subject(ref).inventory
    seconds = time.perf_counter() - started
    rows = {q.id: [row for row in found.of(q.id) if matches(row)] for q in queries}
    coverage = found.coverage
    unreadable = tuple((path, reason) for path, reason in sorted(coverage.unreadable.items()))
    return Report(
        command="inventory",
        exit_code=ExitCode.OK,
        data={
            "target": ref.target,
            "version": found.version,
            "digest": found.digest,
            "coverage": coverage,
            "missing": found.missing,
            "queries": [_query_json(q, rows[q.id]) for q in queries],
        },
        headline=f"inventory of {ref.target}: sglang {found.version}",
        lines=(f"snapshot  {describe(ref)}", *_missing(found)),
        tables=(
            *(_table(q, rows[q.id], fold=not (wanted or match or unfolded)) for q in queries),
            *([Table("unreadable", ("file", "reason"), unreadable)] if unreadable else []),
        ),
        footer=_coverage(found, seconds),
    )


def _missing(found: Inventory) -> list[str]:
    if not found.missing:
        return []
    names = ", ".join(found.missing)
    return [f"missing   every release has had these, and this one has not: {names}"]


def _coverage(found: Inventory, seconds: float) -> str:
    c = found.coverage
    return (
        f"coverage: {c.seen:,} files seen = {c.parsed:,} parsed + {c.ruled_out:,} ruled out by "
        f"content + {len(c.unreadable):,} unreadable ({seconds:.1f} s)"
    )


def _matcher(pattern: str | None) -> Callable[[Row], bool]:
    try:
        wanted = re.compile(pattern or "")
    except re.error as error:
        raise UsageError(
            f"--match {pattern!r} is no regular expression: {error}",
            next_step="see Python's re; a plain word matches itself",
        ) from error

    def matches(row: Row) -> bool:
        texts = (row.site.path, row.site.scope, *(_cell(row, c) for c in row.fields))
        return any(wanted.search(text) for text in texts)

    return matches


def _chosen(wanted: Sequence[str]) -> list[Query]:
    known = {q.id: q for q in QUERIES}
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"there is no query {name!r}", next_step=f"one of: {', '.join(sorted(known))}"
            )
    return [known[name] for name in wanted] or list(QUERIES)


def _query_json(query: Query, rows: Sequence[Row]) -> dict[str, object]:
    return {
        "id": query.id,
        "title": query.title,
        "count": len(rows),
        "sites": [row_to(row) for row in rows],
    }


def _table(query: Query, rows: Sequence[Row], *, fold: bool) -> Table:
    columns = [c for c in query.columns if any(row.fields.get(c) for row in rows)]
    return Table(
        title=f"{query.title} · {query.id} · {plural(len(rows), 'site')}",
        columns=("where", *columns),
        rows=tuple(
            (f"{row.site.path}:{row.site.line}", *(_cell(row, c) for c in columns)) for row in rows
        ),
        dense=True,
        fold=_FOLD if fold else 0,
    )


def _cell(row: Row, column: str) -> str:
    value = row.fields.get(column, "")
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _listing() -> Report:
    return Report(
        command="inventory",
        exit_code=ExitCode.OK,
        data={"queries": [{"id": q.id, "title": q.title, "why": q.why} for q in QUERIES]},
        headline=f"{plural(len(QUERIES), 'query', 'queries')}",
        tables=(Table("", ("id", "why"), tuple((q.id, q.why) for q in QUERIES)),),
    )
