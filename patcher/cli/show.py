"""Put a report on the screen: JSON, plain text in a pipe, tables and colour on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from patcher.model import ExitCode, Finding, Report, Severity, Table
from patcher.report import json as json_report
from patcher.report import text

if TYPE_CHECKING:
    from rich.console import Console

_WIDEST, _NARROWEST, _GAP = 36, 12, 2
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "blue"}


def show(report: Report, *, as_json: bool) -> None:
    """Write the report to standard output; for ``--json`` people's text goes to standard error.

    Raises OSError where standard output cannot be written.
    """
    if as_json:
        click.echo(json_report.render(report))
        if report.exit_code is not ExitCode.OK:
            click.echo(printable(report.headline), err=True)
    elif sys.stdout is not None and sys.stdout.isatty():
        _terminal(report)
    elif report.body:
        # a diff or a script is bytes: carriage returns and byte-order marks are part of it
        click.echo(report.body.encode(errors="surrogateescape"), nl=not report.body.endswith("\n"))
    else:
        click.echo(printable(text.render(report)))


def printable(content: str) -> str:
    """Control characters and broken text from a target, made visible rather than obeyed."""
    safe = "".join(c if c in "\n\t\u00a0" or c.isprintable() else repr(c)[1:-1] for c in content)
    return safe.encode(errors="backslashreplace").decode()


def _terminal(report: Report) -> None:
    from rich.console import Console
    from rich.text import Text

    plain = bool(os.environ.get("NO_COLOR"))
    console = Console(highlight=False, no_color=plain)
    if report.body and not report.tables:
        _body(report)
        return
    good = report.exit_code is ExitCode.OK
    console.print(Text(printable(report.headline), style="bold green" if good else "bold red"))
    for line in report.lines:
        console.print(Text(f"  {printable(line)}"))
    for table in report.tables:
        if table.rows:
            (_places if table.dense else _table)(console, table)
    for finding in text.told(report):
        _finding(console, finding)
    if report.footer:
        console.print(Text(f"\n{printable(report.footer)}", style="bold"))
    if report.body:
        _body(report)
    if report.next_step:
        console.print(Text.assemble(("\nnext: ", "bold"), printable(report.next_step)))


def _body(report: Report) -> None:
    """Text as it is, never wrapped; the lines of a diff in colour."""
    for line in printable(report.body).rstrip("\n").split("\n"):
        colour = _diff_colour(line) if report.syntax == "diff" else None
        click.echo(line if os.environ.get("NO_COLOR") else click.style(line, fg=colour))


def _diff_colour(line: str) -> str | None:
    if line.startswith(("+++", "---", "diff ", "index ")):
        return None
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])


def _table(console: Console, table: Table) -> None:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        title=table.title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if any(table.columns) else None,
        show_header=any(table.columns),
        pad_edge=False,
    )
    for column in table.columns:
        drawn.add_column(column, overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    console.print(drawn)


def _places(console: Console, table: Table) -> None:
    """A table of places: a line per file, its rows below it by line number."""
    from rich.text import Text

    shown = table.rows[: table.fold or None]
    lines = [row[0].rpartition(":") for row in shown]
    cells = [(line, *row[1:]) for (_, _, line), row in zip(lines, shown, strict=True)]
    names = ("line", *table.columns[1:])
    widths = _widths(names, cells, console.width - 4)
    console.print(Text(f"\n{table.title}", style="bold"))
    console.print(Text(_aligned(names, widths), style="dim"), soft_wrap=True)
    path = ""
    for (file, _, _), row in zip(lines, cells, strict=True):
        if file != path:
            path = file
            console.print(Text(f"  {printable(file)}", style="cyan"), soft_wrap=True)
        console.print(Text(_aligned(row, widths)), soft_wrap=True)
    left_out = []
    if folded := len(table.rows) - len(shown):
        left_out.append(f"{folded:,} more rows (--all shows them)")
    if len(widths) < len(names):
        left_out.append(f"columns {', '.join(names[len(widths) :])} (a wider terminal, or --json)")
    if left_out:
        console.print(Text(f"  … and {'; '.join(left_out)}", style="dim"))


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for cell, width in zip(cells, widths, strict=False):
        text_ = printable(cell).replace("\n", " ")
        parts.append((text_ if len(text_) <= width else text_[: width - 1] + "…").ljust(width))
    return "    " + "  ".join(parts).rstrip()


def _widths(names: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Widths of the columns that fit, first come first served; the last one takes what is left."""
    wanted = [max(len(n), *(len(row[i]) for row in rows)) for i, n in enumerate(names)]
    widths: list[int] = []
    for index, longest in enumerate(wanted):
        alone = index == len(wanted) - 1
        width = min(longest if alone else min(longest, _WIDEST), room)
        if width < min(longest, _NARROWEST):
            break
        widths.append(width)
        room -= width + _GAP
    return widths


def _finding(console: Console, finding: Finding) -> None:
    from rich.text import Text

    first, *rest = text.finding_lines(finding)
    word, colon, message = first.partition(":")
    style = f"bold {_COLOURS[finding.severity]}"
    console.print()
    console.print(Text.assemble((word + colon, style), printable(message)))
    for line in rest:
        console.print(Text(printable(line)))
