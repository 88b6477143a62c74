"""Rows of the log's table as they would stand on lines."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

import msgspec

_JSON = frozenset({"values", "deltas"})


def line_of_row(columns: Sequence[str], row: Iterable[object]) -> bytes:
    """The line of a record, without its end: fields in the order of columns, absent ones left out.

    Args:
        columns: names, `gateway.eventlog.columns.COLUMNS` or a part of them.
        row: their values as DuckDB gives them.
    """
    fields = zip(columns, row, strict=True)
    return msgspec.json.encode({name: _form(name, value) for name, value in fields if value is not None})


def time_on_line(time: dt.datetime) -> str:
    """RFC 3339 in UTC with six digits of a second, as times are on lines."""
    return f"{time.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _form(name: str, value: object) -> object:
    if isinstance(value, dt.datetime):
        return time_on_line(value)
    return msgspec.Raw(value.encode()) if name in _JSON and isinstance(value, str) else value
