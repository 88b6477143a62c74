"""Rows of the log's table as JSON: as they would stand on lines, or whatever was asked."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

import msgspec

_JSON = frozenset({"values", "deltas", "former", "found"})


def line_of_row(columns: Sequence[str], row: Iterable[object]) -> bytes:
    """The line of a record, without its end: fields in the order of columns, absent ones left out.

    Args:
        columns: names, `gateway.eventlog.columns.COLUMNS` or a part of them.
        row: their values as DuckDB gives them.
    """
    fields = zip(columns, row, strict=True)
    return msgspec.json.encode({name: _form(name, value) for name, value in fields if value is not None})


def json_of_row(columns: Sequence[str], row: Iterable[object]) -> str:
    """A row of any query as an object of JSON, on one line: absent is null, times are as on lines.

    Integers keep all their digits. What has no form in JSON is text.
    """
    fields = zip(columns, row, strict=True)
    return json.dumps({name: _in_json(name, value) for name, value in fields}, ensure_ascii=False)


def text_of_value(value: object) -> str:
    """A value as text in a table: absent is empty, times are as on lines, what is nested is JSON."""
    if value is None:
        return ""
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def time_on_line(time: dt.datetime) -> str:
    """RFC 3339 in UTC with six digits of a second, as times are on lines; without zone where it has none."""
    if time.tzinfo is None:
        return time.isoformat(timespec="microseconds")
    return f"{time.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _form(name: str, value: object) -> object:
    if isinstance(value, dt.datetime):
        return time_on_line(value)
    return msgspec.Raw(value.encode()) if name in _JSON and isinstance(value, str) else value


def _in_json(name: str, value: object) -> object:
    if name in _JSON and isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value  # another column that is called so
    return _plain(value)


def _plain(value: object) -> object:  # noqa: PLR0911  one line for each type
    """What JSON has a form for."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dt.datetime):
        return time_on_line(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return str(value)
