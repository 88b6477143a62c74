"""Rows as JSON: lines as they were, and all other values that SQL can return."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from uuid import UUID

import pytest

from gateway.eventlog.query import json_of_row, line_of_row, text_of_value

TIME = dt.datetime(2026, 11, 20, 15, 5, 6, tzinfo=dt.timezone(dt.timedelta(hours=1)))
ON_LINE = "2026-11-20T14:05:06.000000Z"


def test_a_record_is_as_it_was_on_its_line() -> None:
    columns = ("seq", "ingest_ts", "source", "values", "absent")
    row = (2**63 - 1, TIME, None, '{"most":18446744073709551615,"tenth":0.10}', ["rate"])
    assert line_of_row(columns, row) == (
        b'{"seq":9223372036854775807,"ingest_ts":"%s","values":{"most":18446744073709551615,"tenth":0.10},'
        b'"absent":["rate"]}' % ON_LINE.encode()
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (2**64 * 10**20, 2**64 * 10**20),
        (Decimal(2**64 - 1), 2**64 - 1),
        (Decimal("0.5"), 0.5),
        (float("nan"), "nan"),
        (TIME, ON_LINE),
        (dt.datetime(2026, 11, 20), "2026-11-20T00:00:00.000000"),  # noqa: DTZ001  as of a TIMESTAMP without zone
        (dt.date(2026, 11, 20), "2026-11-20"),
        (dt.timedelta(seconds=90), "0:01:30"),
        (b"\x00\xff", "00ff"),
        ([1, {"a": TIME}], [1, {"a": ON_LINE}]),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ],
)
def test_a_row_of_any_query_is_json(value: object, expected: object) -> None:
    assert json.loads(json_of_row(("found",), (value,))) == {"found": expected}


def test_json_in_its_column_is_json_and_in_others_text() -> None:
    row = ('{"a":1}', '{"a":1}', "no json")
    assert json.loads(json_of_row(("values", "other", "deltas"), row)) == {
        "values": {"a": 1},
        "other": '{"a":1}',
        "deltas": "no json",
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, ""), ("text", "text"), (True, "true"), (7, "7"), (["a", 1], '["a", 1]'), (TIME, ON_LINE)],
)
def test_values_in_a_table(value: object, expected: str) -> None:
    assert text_of_value(value) == expected
