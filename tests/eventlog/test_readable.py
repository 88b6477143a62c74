"""Records as lines for people: the text of each kind, without control sequences for a terminal."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.eventlog.record import DETAIL_LENGTH, Delta, LogRecord, RecordKind, readable_line

NOW = "2026-11-20T14:05:06.123456Z"
WHEN = "2026-11-20 14:05:06.123"


def line(record: LogRecord, *, whole: bool = False) -> str:
    return readable_line(msgspec.json.decode(msgspec.json.encode(record)), whole=whole).removeprefix(
        f"{WHEN}  "
    )


def reported(kind: RecordKind, **fields: object) -> LogRecord:
    return msgspec.convert({"kind": kind, "ingest_ts": NOW, **fields}, LogRecord)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            reported(
                RecordKind.CREATE,
                source="orders",
                **{"class": "queue"},
                object_name="/|q",
                values={"durable": True},
            ),
            "create     orders queue /|q  durable=true",
        ),
        (
            reported(
                RecordKind.UPDATE,
                source="orders",
                **{"class": "queue"},
                object_name="/|q",
                values={"published": 7, "name": "x"},
                deltas={"published": Delta(7, reset=True)},
                absent=["rate"],
            ),
            "update     orders queue /|q  published=7 (reset, +7) name=x absent: rate",
        ),
        (
            reported(
                RecordKind.DELETE, source="orders", **{"class": "queue"}, object_name="/|q", inferred=True
            ),
            "delete     orders queue /|q  inferred",
        ),
        (
            reported(RecordKind.EVENT, severity="major", event="nodeDown", state="raised", text="gone"),
            "event      major nodeDown raised  gone",
        ),
        (
            reported(RecordKind.SOURCE, source="orders", state="down", text="refused"),
            "source     orders  down refused",
        ),
        (
            reported(RecordKind.AGENT, source="orders", agent="a:b:c", state="silent"),
            "agent      orders a:b:c  silent",
        ),
        (
            reported(RecordKind.GAP, source="orders", from_ts=NOW, to_ts=NOW, lost=3, text="overflow"),
            f"gap        orders  from {WHEN} to {WHEN} 3 lost overflow",
        ),
        (
            reported(
                RecordKind.SCHEMA,
                source="orders",
                package="rabbitmq",
                **{"class": "queue"},
                values={"much": 1},
            ),
            "schema     orders rabbitmq:queue",
        ),
        (
            reported(
                RecordKind.OPERATION, source="orders", principal="ann", outcome="applied", object_name="/|q"
            ),
            "operation  orders /|q  by ann applied",
        ),
        (reported(RecordKind.START, values={"why": "age"}), "start        why=age"),
    ],
    ids=lambda value: value.kind if isinstance(value, LogRecord) else "",
)
def test_what_a_line_says(record: LogRecord, expected: str) -> None:
    assert line(record) == expected


def test_long_values_are_cut_unless_all_are_asked_for() -> None:
    record = reported(RecordKind.CREATE, object_name="q", values={"arguments": "x" * 1000})
    assert line(record) == f"create     q  arguments={'x' * (DETAIL_LENGTH - 10)}…"
    assert line(record, whole=True).endswith("x" * 1000)


def test_control_sequences_of_a_terminal_are_shown() -> None:
    shown = line(
        reported(RecordKind.CREATE, object_name="a\x1b[31m", values={"to": "b\n\u202e", "map": {"c": "\x9b"}})
    )
    assert shown == 'create     a\\x1b[31m  to=b\\n\\u202e map={"c":"\\u009b"}'


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(
    ["kind", "ingest_ts", "class", "object_name", "values", "deltas", "absent", "text", "lost", "from_ts"]
)


@given(st.dictionaries(names, anything))
def test_whatever_is_on_a_line_of_the_log_gives_one_line(record: dict[str, object]) -> None:
    assert readable_line(record).isprintable()
