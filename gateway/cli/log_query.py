"""``amqp-gateway log query``: SQL over the whole log, or records of a time; as a table, JSON or CSV."""

from __future__ import annotations

import csv
import datetime as dt
import itertools
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Unpack

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.cli.log_options import (
    Chosen,
    duration,
    folder_option,
    log_folder,
    selection,
    selection_options,
    time,
)
from gateway.cli.options import config_option
from gateway.eventlog.query import (
    TABLE,
    Answer,
    LogReadError,
    QueryError,
    ask,
    json_of_row,
    line_of_row,
    text_of_value,
)
from gateway.eventlog.readable import harmless
from gateway.service.processes.exit_codes import CommandError, ExitCode

_SHOWN = 'ingest_ts, kind, source, class, object_name, event, severity, state, text, "values"'
_WIDE = 100_000
"""Characters of a table's line where there is no terminal to fit it into."""


@click.command()
@click.argument("sql", required=False)
@config_option
@folder_option
@click.option("--last", type=duration, metavar="DURATION", help="Of the time until now: 90s, 15min, 24h, 7d.")
@click.option(
    "--from",
    "after",
    type=time,
    metavar="TIME",
    help="Ingested then or later; UTC, unless it says otherwise.",
)
@click.option("--to", "before", type=time, metavar="TIME", help="Ingested before then.")
@selection_options
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), help="Rows at most, 0 for all; 1000 where a table is shown."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each row, on a line.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV with a header.")
@click.option("--memory", default=1024, type=click.IntRange(min=64), help="MiB for data (1024).")
@click.option("--threads", default=2, type=click.IntRange(min=1), help="At most (2).")
def query(  # noqa: PLR0913  one for each option
    sql: str | None,
    config: Path | None,
    folder: Path | None,
    *,
    last: dt.timedelta | None,
    after: dt.datetime | None,
    before: dt.datetime | None,
    limit: int | None,
    as_json: bool,
    as_csv: bool,
    memory: int,
    threads: int,
    **chosen: Unpack[Chosen],
) -> None:
    """Ask the log in SQL (of DuckDB), as the table log; or show its records of a time.

    \b
    amqp-gateway log query --last 1h --class queue
    amqp-gateway log query "SELECT kind, count(*) FROM log GROUP BY kind"

    With SQL, a time bounds what the table holds, and with it what has to be read. Nothing is written, and no
    file outside the log's folder is read.
    """  # noqa: D301  click's mark for lines that are left as they are
    if last is not None:
        if after is not None:
            raise click.UsageError("give either --last or --from")
        after = (before or dt.datetime.now(tz=dt.UTC)) - last
    if as_json and as_csv:
        raise click.UsageError("give either --json or --csv")
    if sql is not None and _is_chosen(chosen):
        raise click.UsageError(
            "with SQL records are chosen by its WHERE: only --last, --from and --to go with it"
        )
    place = log_folder(config, folder)
    condition, parameters = selection(chosen).condition()
    asked = sql or (
        f"SELECT {'*' if as_json or as_csv else _SHOWN} FROM {TABLE} WHERE {condition} "  # noqa: S608  ours
        "ORDER BY ingest_ts, log_id, seq"
    )
    os.nice(10)  # a gateway on the same machine comes first
    try:
        with ask(
            place,
            asked,
            None if sql else parameters,
            after=after,
            before=before,
            memory_mebibytes=memory,
            threads=threads,
        ) as answer:
            if as_json:
                _show_json(answer, limit or 0, as_lines=sql is None)
            elif as_csv:
                _show_csv(answer, limit or 0)
            else:
                _show_table(answer, 1000 if limit is None else limit)
    except QueryError as error:
        raise CommandError(ExitCode.USAGE, f"{error}") from error
    except LogReadError as error:
        raise CommandError(ExitCode.STATE, f"{error}") from error


def _is_chosen(chosen: Chosen) -> bool:
    return any(chosen.values())


def _show_json(answer: Answer, limit: int, *, as_lines: bool) -> None:
    for row in _at_most(answer.rows, limit):
        click.echo(line_of_row(answer.columns, row) if as_lines else json_of_row(answer.columns, row))


def _show_csv(answer: Answer, limit: int) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.columns)
    for row in _at_most(answer.rows, limit):
        writer.writerow([text_of_value(value) for value in row])


def _show_table(answer: Answer, limit: int) -> None:
    rows = list(_at_most(answer.rows, limit + 1 if limit else 0))
    more = bool(limit) and len(rows) > limit
    del rows[limit or len(rows) :]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(answer.columns):
        is_number = all(isinstance(row[number], int | float) for row in rows)
        table.add_column(
            Text(harmless(name)), justify="right" if is_number and rows else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(harmless(text_of_value(value))) for value in row))
    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    console.print(table)
    if more:
        click.echo(f"the first {limit:,} rows; more with --limit", err=True)


def _at_most(rows: Iterator[tuple[object, ...]], limit: int) -> Iterable[tuple[object, ...]]:
    return itertools.islice(rows, limit) if limit else rows
