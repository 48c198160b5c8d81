"""Plain text: the same words on a terminal, in a pipe and in a log. Colour is added elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from patcher.model import Finding, Report, Severity, Table
from patcher.report import Renderer

_MARK = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render(report: Report) -> str:
    """The report as lines of text."""
    return "\n".join(lines(report))


def lines(report: Report) -> Iterator[str]:
    """Headline, tables, findings, next step."""
    yield report.headline
    yield from (f"  {line}" for line in report.lines)
    for table in report.tables:
        yield ""
        yield from table_lines(table)
    for finding in report.findings:
        yield ""
        yield from finding_lines(finding)
    if report.footer:
        yield ""
        yield report.footer
    if report.next_step:
        yield ""
        yield f"next: {report.next_step}"


def table_lines(table: Table) -> Iterator[str]:
    """A table as aligned columns; says how many rows it leaves out."""
    if table.title:
        yield table.title
    rows = [table.columns, *table.rows] if any(table.columns) else list(table.rows)
    widths = [max(len(row[n]) for row in rows) for n in range(len(table.columns))] if rows else []
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  " + "  ".join(cells).rstrip()
    if table.folded:
        yield f"  … and {table.folded} more (--json has them all)"


def finding_lines(finding: Finding) -> Iterator[str]:
    """A finding: what, where, expected, found, nearest, next step."""
    where = f" [{finding.patch}]" if finding.patch else ""
    yield f"{_MARK[finding.severity]}{where}: {finding.message}"
    if finding.site is not None:
        yield f"  at        {finding.site}"
    if finding.expected:
        yield f"  expected  {finding.expected}"
    if finding.found:
        yield f"  found     {finding.found}"
    for candidate in finding.nearest:
        yield f"  nearest   {candidate.score:.2f}  {candidate.site}  {candidate.text}"
    if finding.next_step:
        yield f"  next      {finding.next_step}"


RENDERER = Renderer("text", "aligned lines for people, pipes and logs", render)
