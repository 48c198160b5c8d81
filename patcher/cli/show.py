"""Put a report on the screen: JSON, plain text in a pipe, tables and colour on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from patcher.model import ExitCode, Finding, Report, Severity, Table
from patcher.report import json as json_report
from patcher.report import text

_SHOWN_ROWS = 400
_WIDEST, _NARROWEST, _GAP = 36, 12, 3
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "blue"}


def show(report: Report, *, as_json: bool) -> None:
    """Write the report to standard output; for ``--json`` people's text goes to standard error."""
    if as_json:
        _write(json_report.render(report), err=False)
        if report.exit_code is not ExitCode.OK:
            _write(report.headline, err=True)
        return
    if sys.stdout.isatty():
        _terminal(report)
    else:
        _write(text.render(report), err=False)


def _write(content: str, *, err: bool) -> None:
    click.echo(printable(content), err=err)


def printable(content: str) -> str:
    """Control characters and broken text from a target, made visible rather than obeyed."""
    safe = "".join(
        c if c in "\n\t" or c.isprintable() or c == "\u00a0" else repr(c)[1:-1] for c in content
    )
    return safe.encode(errors="backslashreplace").decode()


def _terminal(report: Report) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, no_color=bool(os.environ.get("NO_COLOR")))
    good = report.exit_code is ExitCode.OK
    console.print(Text(printable(report.headline), style="bold green" if good else "bold red"))
    for line in report.lines:
        console.print(Text(f"  {printable(line)}"))
    for table in report.tables:
        _table(console, table)
    for finding in report.findings:
        _finding(console, finding)
    if report.footer:
        console.print(Text(f"\n{printable(report.footer)}", style="bold"))
    if report.next_step:
        console.print(Text.assemble(("\nnext: ", "bold"), printable(report.next_step)))


def _table(console: object, table: Table) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    assert isinstance(console, Console)
    shown = table.rows[:_SHOWN_ROWS]
    widths = _widths(table, shown, console.width) if table.dense else None
    count = len(table.columns) if widths is None else len(widths)
    drawn = RichTable(
        title=table.title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if any(table.columns) else None,
        show_header=any(table.columns),
        pad_edge=False,
    )
    for number, column in enumerate(table.columns[:count]):
        width = widths[number] if widths is not None else None
        dense = width is not None
        drawn.add_column(
            column, overflow="ellipsis" if dense else "fold", no_wrap=dense, width=width
        )
    for row in shown:
        drawn.add_row(*(Text(printable(cell)) for cell in row[:count]))
    console.print(drawn)
    left_out = []
    if folded := table.folded + len(table.rows) - len(shown):
        left_out.append(f"{folded} more rows")
    if count < len(table.columns):
        left_out.append(f"columns {', '.join(table.columns[count:])}")
    if left_out:
        console.print(Text(f"  … and {', '.join(left_out)} (--json has them all)", style="dim"))


def _widths(table: Table, rows: Sequence[tuple[str, ...]], room: int) -> list[int]:
    """Widths of the columns that fit, first come first served; the last one takes what is left."""
    widths: list[int] = []
    room -= 2
    for number, name in enumerate(table.columns):
        longest = max([len(name), *(len(row[number]) for row in rows)])
        wanted = longest if number == 0 else min(longest, _WIDEST)
        if room < min(wanted, _NARROWEST):
            break
        widths.append(min(wanted, room))
        room -= widths[-1] + _GAP
    return widths


def _finding(console: object, finding: Finding) -> None:
    from rich.console import Console
    from rich.text import Text

    assert isinstance(console, Console)
    first, *rest = text.finding_lines(finding)
    word, colon, message = first.partition(":")
    style = f"bold {_COLOURS[finding.severity]}"
    console.print()
    console.print(Text.assemble((word + colon, style), printable(message)))
    for line in rest:
        console.print(Text(printable(line)))
