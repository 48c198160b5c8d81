"""Plain text: the same words on a terminal, in a pipe and in a log. Colour is added elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

from patcher.model import Finding, Report, Severity, Table
from patcher.report import Renderer

_SHA256 = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_MARK = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render(report: Report) -> str:
    """The report as lines of text."""
    return "\n".join(lines(report))


def lines(report: Report) -> Iterator[str]:
    """Headline, tables, findings, next step; or the body alone where there is one."""
    if report.body:
        yield report.body.rstrip("\n")
        return
    yield report.headline
    yield from (f"  {line}" for line in report.lines)
    for table in report.tables:
        yield ""
        yield from table_lines(table)
    for finding in told(report):
        yield ""
        yield from finding_lines(finding)
    if report.footer:
        yield ""
        yield report.footer
    if report.next_step:
        yield ""
        yield f"next: {report.next_step}"


def told(report: Report) -> list[Finding]:
    """The findings that say more than the headline does."""
    return [
        f
        for f in report.findings
        if f.site or f.expected or f.found or f.message not in report.headline
    ]


def table_lines(table: Table) -> Iterator[str]:
    """A table as aligned columns, every row whole."""
    if not table.rows:
        return
    if table.title:
        yield table.title
    rows = [table.columns, *table.rows] if any(table.columns) else list(table.rows)
    widths = [max(len(row[n]) for row in rows) for n in range(len(table.columns))] if rows else []
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  " + "  ".join(cells).rstrip()


def short(text: str) -> str:
    """Text for a person: a sha256 is as good as its first twelve digits."""
    return _SHA256.sub(lambda m: m[1], text)


def finding_lines(finding: Finding) -> Iterator[str]:
    """A finding: what, where, expected, found, nearest, next step."""
    where = f" [{finding.patch}]" if finding.patch else ""
    yield f"{_MARK[finding.severity]}{where}: {finding.message}"
    if finding.site is not None:
        yield f"  at        {finding.site}"
    if finding.expected:
        yield f"  expected  {short(finding.expected)}"
    if finding.found:
        yield f"  found     {short(finding.found)}"
    for candidate in finding.nearest:
        yield f"  nearest   {candidate.score:.2f}  {candidate.site}  {candidate.text}"
    if finding.next_step:
        yield f"  next      {finding.next_step}"


RENDERER = Renderer("text", "aligned lines for people, pipes and logs", render)
