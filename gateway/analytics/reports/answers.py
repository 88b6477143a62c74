"""Answers as plain values: tables of rows, ready for a terminal, for JSON and for a picture."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import TimestampType

from gateway.analytics.period import Period

Value: TypeAlias = str | int | float | bool | dt.datetime | None
Row: TypeAlias = Mapping[str, Value]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Form(enum.Enum):
    """How a column is shown to people."""

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
        name: in rows and JSON.
        heading: for people.
        form: likewise.
        absent: what is shown where there is no value.
        optional: it is not shown where no row has a value.
        most: characters that are shown of a text; 0 for all.
    """

    name: str
    heading: str
    form: Form = Form.TEXT
    absent: str = ""
    optional: bool = False
    most: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """An answer.

    Attributes:
        name: in JSON.
        title: for people.
        columns: what people are shown; rows may hold more.
        rows: in the order in which they matter.
        of: how many rows there are in all; ``rows`` are the first of them.
        nothing: what no rows mean.
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
    """What is drawn over time, in steps.

    Attributes:
        drawn: from the first record to the last.
        step_seconds: length of a step; ``step`` in rows: seconds from the begin of ``drawn`` to the step's.
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
    """Everything that was asked of a period.

    Attributes:
        log: path of the log's folder.
        period: what was asked for.
        contents: what there was, by name: see `gateway.analytics.reports.quality.contents`.
        tables: the answers, in order.
        series: what the page draws, each broker once.
        again: sources whose broker totals and page count by another source.
    """

    log: str
    period: Period
    contents: Row
    tables: tuple[Table, ...]
    series: Series
    again: frozenset[str] = frozenset()

    def table(self, name: str) -> Table:
        """The answer of this name."""
        return next(table for table in self.tables if table.name == name)

    def once(self, name: str) -> list[Row]:
        """The rows of a table that are of no broker which is counted by another source."""
        return [row for row in self.table(name).rows if row["source"] not in self.again]

    def as_json(self, most_rows: int | None = None) -> dict[str, object]:
        """For programs: times as text, everything else as it is; of a table ``most_rows`` rows at most."""
        return {
            "log": self.log,
            "begin": _plain(self.period.begin),
            "end": _plain(self.period.end),
            "contents": _plain_row(self.contents),
            "tables": {table.name: self.plain_rows(table.name)[:most_rows] for table in self.tables},
        }

    def plain_rows(self, name: str) -> list[dict[str, object]]:
        """The rows of a table for programs: times as text, everything else as it is."""
        return [_plain_row(row) for row in self.table(name).rows]


def collected(frame: DataFrame) -> list[dict[str, Value]]:
    """The rows of a small DataFrame; times in UTC (PySpark's own would be local time without a zone)."""
    times = {name.name for name in frame.schema.fields if isinstance(name.dataType, TimestampType)}
    columns = [F.unix_micros(name).alias(name) if name in times else F.col(name) for name in frame.columns]
    return [
        {name: _value(value, is_time=name in times) for name, value in row.asDict().items()}
        for row in frame.select(*columns).collect()
    ]


def number(row: Row, name: str) -> float:
    """A number of a row; what is not there counts as 0."""
    value = row[name]
    assert value is None or isinstance(value, int | float)
    return 0.0 if value is None else float(value)


def _value(value: object, *, is_time: bool) -> Value:
    if is_time and isinstance(value, int):
        return _EPOCH + dt.timedelta(microseconds=value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    assert value is None or isinstance(value, str | int | float | bool)
    return value


def _plain(value: Value) -> object:
    return f"{value.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}" if isinstance(value, dt.datetime) else value


def _plain_row(row: Row) -> dict[str, object]:
    return {name: _plain(value) for name, value in row.items()}
