"""The report in a terminal."""

from __future__ import annotations

from typing import IO, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from gateway.analytics.reports.answers import Column, Form, Report, Row, Table, cut, number, readable
from gateway.analytics.reports.findings import findings

PLAIN_WIDTH: Final = 150
"""Columns where there is no terminal to ask."""

SEVERITY_STYLES: Final = {
    "critical": "bold red",
    "major": "red",
    "minor": "yellow",
    "warning": "yellow",
    "cleared": "green",
}


def show(report: Report, file: IO[str], most_rows: int = 20) -> None:
    """Write the report to ``file``; tables have ``most_rows`` rows at most."""
    console = Console(file=file, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, markup=False, emoji=False, width=PLAIN_WIDTH)
    period, contents = report.period, report.contents
    console.print(Text(f"Event log {readable(report.log)}", "bold"))
    console.print(f"{readable(period.begin)} to {readable(period.end)} UTC", soft_wrap=True)
    console.print(
        ", ".join(
            f"{readable(contents[name], Form.COUNT)} {label}"
            for name, label in (
                ("records", "records"),
                ("objects", "objects"),
                ("event", "events"),
                ("create", "beginnings"),
                ("delete", "ends"),
                ("gap", "gaps"),
            )
        ),
        soft_wrap=True,
    )
    if number(contents, "records") == 0:
        console.print("\nThe log holds nothing of this period.", soft_wrap=True)
        return
    for finding in findings(report):
        console.print(Text("! ", "bold red") + finding)
    for table in report.tables:
        console.print()
        _show_table(console, table, most_rows)


def _show_table(console: Console, table: Table, most_rows: int) -> None:
    rows = table.rows[:most_rows]
    rest = f" (the first {len(rows)} of {table.of:,})" if table.of > len(rows) else ""
    console.print(Text(table.title, "bold") + rest)
    if not rows:
        console.print(f"  {table.nothing}", soft_wrap=True)
        return
    if table.by_source:
        rows = tuple(sorted(rows, key=lambda row: str(row["source"] or "")))
    columns = [
        column
        for column in table.columns
        if not column.optional or any(row[column.name] is not None for row in rows)
    ]
    shown = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for column in columns:
        is_text = column.form is Form.TEXT
        shown.add_column(
            column.heading,
            justify="left" if is_text or column.form is Form.TIME else "right",
            overflow="fold",
            no_wrap=not is_text,
        )
    for row in rows:
        shown.add_row(*(Text(_cell(column, row)) for column in columns), style=_style(row))
    console.print(shown)


def _cell(column: Column, row: Row) -> str:
    value = row[column.name]
    if value is None:
        return column.absent
    text = readable(value, column.form)
    return cut(text, column.most) if column.most else text


def _style(row: Row) -> str:
    if row.get("silent"):
        return "red"
    return SEVERITY_STYLES.get(str(row.get("severity")), "")
