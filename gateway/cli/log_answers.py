"""The answers of ``amqp-gateway log query``: JSON, CSV that no spreadsheet evaluates, and tables.

A row of a table is one line, whatever the width of the terminal: columns that do not fit are left out, which
is reported, and long texts are cut.
"""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.escapes import escaped, printable_json, spreadsheet_text
from gateway.eventlog.query import Answer, is_json, json_of_row, line_of_row, text_of_value
from gateway.table_widths import fitting

Row = tuple[object, ...]

_WIDE: Final = 100_000
"""Characters of a table's line, if standard output is no terminal."""

_LEFT_OUT_FIRST: Final = ("values", "state", "severity", "text", "source")
"""The columns of records that a narrow table leaves out before all others, in this order."""


def show_json(answer: Answer, limit: int, *, as_lines: bool) -> None:
    """Print each row as an object of JSON on one line; ``as_lines``: as it is in the log."""
    for row in _at_most(answer.rows, limit):
        print_json(
            line_of_row(answer.columns, row) if as_lines else json_of_row(answer.columns, row).encode()
        )


def print_json(line: bytes) -> None:
    """Print a line of JSON, in UTF-8; on a terminal what does not print there is escaped, as JSON escapes."""
    is_terminal = sys.stdout.isatty()
    click.echo(printable_json(line.decode("utf-8", "replace"), sys.stdout.encoding) if is_terminal else line)


def show_csv(answer: Answer, limit: int) -> None:
    """Print CSV with a header; texts are as in tables, but none is one that a spreadsheet evaluates."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(spreadsheet_text(escaped(name)) for name in answer.columns)
    for row in _at_most(answer.rows, limit):
        texts = _texts(answer.columns, row)
        writer.writerow(
            spreadsheet_text(text) if isinstance(value, str) else text
            for text, value in zip(texts, row, strict=True)
        )


def show_table(answer: Answer, limit: int, *, of_records: bool) -> None:
    """Print a table of at most ``limit`` rows, 0 for all.

    Args:
        answer: the answer.
        limit: the number of rows.
        of_records: whether the columns are those of all records, some of which are always empty.
    """
    rows = list(_at_most(answer.rows, limit + 1 if limit else 0))
    more = bool(limit) and len(rows) > limit
    del rows[limit or len(rows) :]
    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    names = [escaped(name) for name in answer.columns]
    texts = [_texts(answer.columns, row) for row in rows]
    places = fitting(names, texts, rows, console.width, _LEFT_OUT_FIRST if of_records else ())
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for place, width in places.items():
        is_number = bool(rows) and all(isinstance(row[place], int | float) for row in rows)
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(Text(names[place]), width=width, no_wrap=True, overflow="ellipsis", justify=justify)
    for line in texts:
        table.add_row(*(Text(line[place]) for place in places))
    with console.capture() as captured:
        console.print(table)
    # By lines: the console would end the command itself where its reader has ended.
    sys.stdout.writelines(captured.get().splitlines(keepends=True))
    left_out = [name for place, name in enumerate(names) if place not in places]
    if left_out:
        click.echo(f"too narrow for {', '.join(left_out)}: --json shows all", err=True)
    if more:
        click.echo(f"the first {limit:,} rows: --limit shows more", err=True)


def _texts(columns: Sequence[str], row: Row) -> list[str]:
    return [
        printable_json(text_of_value(value), sys.stdout.encoding)
        if is_json(name, value)
        else escaped(text_of_value(value))
        for name, value in zip(columns, row, strict=True)
    ]


def _at_most(rows: Iterator[Row], limit: int) -> Iterable[Row]:
    return itertools.islice(rows, limit) if limit else rows
