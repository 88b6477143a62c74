"""Answers as plain values: tables of rows, ready for a terminal, for JSON and for a picture."""

from __future__ import annotations

import csv
import datetime as dt
import enum
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import TimestampType

from gateway.analytics.coverage import Period
from gateway.durable_files import write_durably
from gateway.escapes import escaped, spreadsheet_text

Value: TypeAlias = str | int | float | bool | dt.datetime | None
Row: TypeAlias = Mapping[str, Value]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Form(enum.Enum):
    """The form of a column's values for people."""

    TEXT = "text"
    COUNT = "count"
    RATE = "rate"
    SECONDS = "seconds"
    TIME = "time"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: its name in rows and JSON.
        heading: its heading for people.
        form: the form of its values for people.
        absent: the text where there is no value.
        optional: it is not shown where no row has a value.
        most: the maximum length of a shown text, in characters; 0 for all.
    """

    name: str
    heading: str
    form: Form = Form.TEXT
    absent: str = ""
    optional: bool = False
    most: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a report.

    Attributes:
        name: its name in JSON.
        title: its title for people.
        columns: the columns that people are shown; rows may hold more.
        rows: the rows in order of importance.
        of: the number of rows in all; ``rows`` are the first of them.
        nothing: the meaning of a table without rows.
        by_source: people are shown the rows of a source together.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    of: int
    nothing: str
    by_source: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """The data drawn over time, in steps.

    Attributes:
        drawn: the period from the first record to the last.
        step_seconds: the length of a step; ``step`` in rows: seconds from the begin of ``drawn`` to the
            step's.
        throughput: ``source``, ``step``, ``published``, ``delivered``, ``acknowledged`` per second.
        depths: ``queue``, ``step``, ``messages`` of the queues that matter most.
        events: ``severity``, ``step``, ``events``.
        gaps: ``from_ts``, ``to_ts``.
    """

    drawn: Period
    step_seconds: int
    throughput: tuple[Row, ...] = ()
    depths: tuple[Row, ...] = ()
    events: tuple[Row, ...] = ()
    gaps: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a period.

    Attributes:
        log: the path of the log's folder.
        period: the requested period.
        contents: the contents of the period, by name: see `gateway.analytics.reports.quality.contents`.
        tables: the tables, in order.
        series: the data that the page draws, each broker once.
        again: sources whose broker totals and page count by another source.
    """

    log: str
    period: Period
    contents: Row
    tables: tuple[Table, ...]
    series: Series
    again: frozenset[str] = frozenset()

    def table(self, name: str) -> Table:
        """Return the table of this name."""
        return next(table for table in self.tables if table.name == name)

    def once(self, name: str) -> list[Row]:
        """Return the rows of a table, without brokers that are counted by another source."""
        return [row for row in self.table(name).rows if row["source"] not in self.again]

    def as_json(self, most_rows: int | None = None) -> dict[str, object]:
        """Return the report for programs: times as text, else unchanged; ``most_rows`` rows a table."""
        return {
            "log": self.log,
            "begin": _plain(self.period.begin),
            "end": _plain(self.period.end),
            "contents": _plain_row(self.contents),
            "tables": {table.name: self.plain_rows(table.name)[:most_rows] for table in self.tables},
        }

    def plain_rows(self, name: str) -> list[dict[str, object]]:
        """Return the rows of a table for programs: times as text, everything else as it is."""
        return [_plain_row(row) for row in self.table(name).rows]


def collected(frame: DataFrame) -> list[dict[str, Value]]:
    """Return the rows of a small DataFrame; times in UTC (PySpark's would be local time without a zone)."""
    times = {name.name for name in frame.schema.fields if isinstance(name.dataType, TimestampType)}
    columns = [F.unix_micros(name).alias(name) if name in times else F.col(name) for name in frame.columns]
    return [
        {name: _value(value, is_time=name in times) for name, value in row.asDict().items()}
        for row in frame.select(*columns).collect()
    ]


def number(row: Row, name: str) -> float:
    """Return a number of a row; an absent one counts as 0."""
    value = row[name]
    assert value is None or isinstance(value, int | float)
    return 0.0 if value is None else float(value)


def _value(value: object, *, is_time: bool) -> Value:
    if is_time and isinstance(value, int):
        return _EPOCH + dt.timedelta(microseconds=value)
    if isinstance(value, Decimal):
        # A counter is a DECIMAL in Spark: as an int it keeps all digits.
        return int(value) if value == value.to_integral_value() else float(value)
    assert value is None or isinstance(value, str | int | float | bool)
    return value


def _plain(value: Value) -> object:
    return f"{value.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}" if isinstance(value, dt.datetime) else value


def _plain_row(row: Row) -> dict[str, object]:
    return {name: _plain(value) for name, value in row.items()}


_DIGITS: Final = 3
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def readable(value: Value, form: Form = Form.TEXT) -> str:
    """Return a value as its column shows it; an absent one is empty."""
    if value is None:
        return ""
    if isinstance(value, dt.datetime):
        return f"{value.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S}"
    if isinstance(value, str) or form is Form.TEXT:
        return escaped(str(value))
    if form is Form.SECONDS:
        return duration(float(value))
    if form is Form.SHARE:
        return f"{100 * float(value):.0f} %"
    return f"{round(value):,}" if form is Form.COUNT else rounded(float(value))


def rounded(value: float) -> str:
    """Return a number with three significant digits, all digits before the point, and no zeros at the end."""
    if value == 0:
        return "0"
    # 999.5 and more is rounded to four digits.
    if abs(value) >= 10**_DIGITS - 0.5:
        return f"{value:,.0f}"
    text = f"{value:.{_DIGITS}g}"
    return f"{value:.6f}".rstrip("0").rstrip(".") if "e" in text else text


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: ``2 h 5 min``, ``12 s``, ``0.25 s``."""
    sign, rest = ("-", -seconds) if seconds < 0 else ("", seconds)
    # Below a minute the fraction matters; above it a second does.
    if rest < _UNITS[-2][0]:
        return f"{sign}{rounded(rest)} s"
    whole = round(rest)
    parts: list[str] = []
    for size, unit in _UNITS:
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return sign + " ".join(part for part in parts[:2] if part)


def cut(text: str, length: int) -> str:
    """Return at most ``length`` characters of ``text``; one of them shows that there are more.

    A sentence keeps its beginning. A name, which has no space, keeps both ends: names that begin alike differ
    at their ends.
    """
    if len(text) <= length:
        return text
    end = 0 if " " in text else (length - 1) // 2
    return text[: length - 1 - end] + "\N{HORIZONTAL ELLIPSIS}" + text[len(text) - end :]


def short(value: float) -> str:
    """Return a number in a short form: 12.3 k, 4.56 M."""
    for size, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= size:
            return f"{rounded(value / (1e3 if unit == ' k' else size))}{unit}"
    return rounded(value)


def write_files(report: Report, folder: Path) -> list[Path]:
    """Write ``report.json`` and a CSV file for each table, mode 0600; return the files.

    Raises:
        OSError: a file cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    plain = report.as_json()
    whole = folder / "report.json"
    write_durably(whole, json.dumps(plain, indent=2) + "\n")
    names = [table.name for table in report.tables]
    return [whole, *(_write_table(report, name, folder / f"{name}.csv") for name in names)]


def _csv_cell(value: object) -> object:
    return spreadsheet_text(escaped(value)) if isinstance(value, str) else value


def _write_table(report: Report, name: str, file: Path) -> Path:
    rows = report.plain_rows(name)
    # Rows may hold more than people are shown.
    names = list(rows[0]) if rows else [column.name for column in report.table(name).columns]
    lines = io.StringIO(newline="")
    writer = csv.DictWriter(lines, fieldnames=names)
    writer.writeheader()
    writer.writerows({name: _csv_cell(value) for name, value in row.items()} for row in rows)
    write_durably(file, lines.getvalue())
    return file
