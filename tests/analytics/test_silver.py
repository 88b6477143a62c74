"""Silver: the contents of records, by subject, worked out by hand."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from gateway.analytics import gold, silver
from gateway.analytics.reports.answers import collected
from gateway.eventlog.record import Delta, LogRecord, RecordKind
from gateway.model.times import MINUTE
from tests.analytics.logs import WrittenLog, after, counted, event, frame, of_object, reported, text

pytestmark = pytest.mark.xdist_group("spark")

MOST = 2**64 - 1


def values(found: DataFrame) -> dict[str, tuple[object, ...]]:
    rows = found.select("element", "type", "integer", "number", "boolean", "text").collect()
    return {row["element"]: tuple(row)[1:] for row in rows}


def test_every_value_has_its_type_and_none_is_rounded(spark: SparkSession, log: WrittenLog) -> None:
    record = reported(
        of_object(RecordKind.UPDATE, 0, 1),
        None,
        ["gone"],
        most=MOST,
        least=-(2**63),
        share=0.5,
        durable=True,
        name="orders",
        empty="",
        tags=["a", 1],
        arguments={"x-max": MOST},
        nothing=None,
    )
    odd = reported(of_object(RecordKind.UPDATE, 0, 1), **{"group.field $['x']": 7})
    assert values(silver.samples(frame(spark, log, [record, odd]))) == {
        "most": ("integer", Decimal(MOST), float(MOST), None, None),
        "least": ("integer", Decimal(-(2**63)), -float(2**63), None, None),
        "share": ("number", None, 0.5, None, None),
        "durable": ("boolean", None, None, True, None),
        "name": ("text", None, None, None, "orders"),
        "empty": ("text", None, None, None, ""),
        "tags": ("list", None, None, None, '["a",1]'),
        "arguments": ("map", None, None, None, f'{{"x-max":{MOST}}}'),
        "nothing": ("absent", None, None, None, None),
        "gone": ("absent", None, None, None, None),
        "group.field $['x']": ("integer", Decimal(7), 7.0, None, None),
    }


def test_a_rate_is_what_was_added_by_the_time_between_samples(spark: SparkSession, log: WrittenLog) -> None:
    def update(**delta: Delta) -> LogRecord:
        element = next(iter(delta))
        return counted(reported(of_object(RecordKind.UPDATE, 0, 1), 0, **{element: MOST}), **delta)

    records = [
        update(steady=Delta(120, MINUTE)),
        update(again=Delta(30, MINUTE, True)),
        update(most=Delta(MOST, MINUTE)),
        update(unmeasured=Delta(5)),
        update(standing=Delta(5, 0)),
        update(undone=Delta(-5, undone=True)),
        update(unknown=Delta(reset=True)),
        reported(of_object(RecordKind.SNAPSHOT, 0, 1), 0, repeated=9),
    ]
    columns = ("element", "delta", "interval_ns", "reset", "rate")
    found = silver.samples(frame(spark, log, records)).select(*columns).collect()
    assert {row["element"]: tuple(row)[1:] for row in found} == {
        "steady": (Decimal(120), MINUTE, False, 2.0),
        "again": (Decimal(30), MINUTE, True, 0.5),
        "most": (Decimal(MOST), MINUTE, False, MOST / 60),
        "unmeasured": (Decimal(5), None, False, None),
        "standing": (Decimal(5), 0, False, None),
        "undone": (Decimal(-5), None, False, None),
        "unknown": (None, None, True, None),
        "repeated": (None, None, None, None),
    }


def test_unreadable_values_cost_their_record_only(spark: SparkSession, log: WrittenLog) -> None:
    records = frame(
        spark, log, [reported(of_object(RecordKind.UPDATE, 0, row), messages=row) for row in (1, 2)]
    )
    broken = records.selectExpr(
        "* EXCEPT (values)", "CASE WHEN row = 1 THEN '{\"messages\":' ELSE values END AS values"
    )
    assert values(silver.samples(broken.select(*records.columns), ["messages"])) == {
        "messages": ("integer", Decimal(2), 2.0, None, None)
    }


def made(
    seconds: float, row: int, created: float | None = None, kind: RecordKind = RecordKind.CREATE
) -> LogRecord:
    record = reported(of_object(kind, seconds, row), consumers=1)
    return record if created is None else replace(record, create_ts=text(after(created)))


def ended(
    seconds: float,
    row: int,
    created: float | None = None,
    deleted: float | None = None,
    *,
    inferred: bool = False,
) -> LogRecord:
    return replace(
        of_object(RecordKind.DELETE, seconds, row),
        create_ts=None if created is None else text(after(created)),
        delete_ts=None if deleted is None else text(after(deleted)),
        inferred=True if inferred else None,
    )


def changed(seconds: float, row: int) -> LogRecord:
    return reported(of_object(RecordKind.UPDATE, seconds, row), messages=1)


LIVES: dict[str, tuple[list[LogRecord], list[tuple[object, ...]]]] = {
    "lives on": ([made(0, 1, 0), changed(60, 1)], [("living", True, False, None)]),
    "by the agent's clock": (
        [made(10.2, 2, 10), ended(40.9, 2, 10, 40.5)],
        [("deleted", True, False, 30.5)],
    ),
    "by the gateway's clock, where the agent told no times": (
        [made(10, 3), ended(25, 3)],
        [("deleted", True, False, 15.0)],
    ),
    "there before the log": (
        [made(0, 4, kind=RecordKind.SNAPSHOT), ended(9, 4)],
        [("deleted", False, False, None)],
    ),
    "there before the log, and its creation known": (
        [made(0, 5, -100, RecordKind.SNAPSHOT), ended(9, 5, -100, 8)],
        [("deleted", False, False, 108.0)],
    ),
    "came and went in one moment": (
        [made(1, 6, 0.75), ended(1, 6, 0.75, 1)],
        [("deleted", True, False, 0.25)],
    ),
    "nobody told its end": ([made(0, 7), ended(20, 7, inferred=True)], [("deleted", True, True, 20.0)]),
    "made again under its name": (
        [made(0, 8, 0), ended(10, 8, 0, 10), made(20, 8, 20), changed(30, 8)],
        [("deleted", True, False, 10.0), ("living", True, False, None)],
    ),
    "made again, and its end was not heard": (
        [made(0, 9, 0), made(50, 9, 50, RecordKind.SNAPSHOT), ended(60, 9, 50, 60)],
        [("lost", True, None, None), ("deleted", False, False, 10.0)],
    ),
    "shown again at each segment": (
        [made(0, 10, 0), made(600, 10, 0.4, RecordKind.SNAPSHOT), made(1200, 10, 0, RecordKind.SNAPSHOT)],
        [("living", True, False, None)],
    ),
    "a change that was recorded late begins no life": (
        [made(0, 11), ended(5, 11), changed(6, 11)],
        [("deleted", True, False, 5.0)],
    ),
    "an end before its beginning is of unknown length": (
        [made(0, 12, 30), ended(5, 12, 30, 5)],
        [("deleted", True, False, 5.0)],
    ),
}


def test_what_is_not_shown_any_more_was_lost(spark: SparkSession, log: WrittenLog) -> None:
    def start(seconds: float) -> LogRecord:
        return LogRecord(kind=RecordKind.START, ingest_ts=text(after(seconds)))

    def shown(seconds: float, row: int) -> LogRecord:
        return made(seconds, row, kind=RecordKind.SNAPSHOT)

    records = [
        *(start(0), shown(0, 1), shown(0, 2), shown(0, 3)),
        *(start(600), shown(600, 2), shown(600, 3), ended(700, 3)),
        *(start(1200), made(1200, 4)),
    ]
    bronze = frame(spark, log, records)
    states = {row["object_id"][-1]: row["state"] for row in silver.lives(bronze).collect()}
    assert states == {"1": "lost", "2": "living", "3": "deleted", "4": "living"}
    again = {row["object_id"][-1]: row["state"] for row in silver.lives(silver.life_marks(bronze)).collect()}
    assert again == states


def test_lives_of_objects(spark: SparkSession, log: WrittenLog) -> None:
    records = [record for reported_records, _ in LIVES.values() for record in reported_records]
    rows = silver.lives(frame(spark, log, records)).orderBy("object_id", "life").collect()
    found: dict[int, list[tuple[object, ...]]] = {}
    for row in rows:
        number = int(row["object_id"].rpartition("/")[2])
        lost = row["inferred"] if row["state"] != "living" else False
        found.setdefault(number, []).append((row["state"], row["began"], lost, row["seconds"]))
    assert found == {number: expected for number, (_, expected) in enumerate(LIVES.values(), 1)}


def test_events_states_gaps_and_schemas(spark: SparkSession, log: WrittenLog) -> None:
    elements = [
        {"name": "messages", "group": "statistic", "type": "u64", "kind": "gauge", "unit": "messages"}
    ]
    records = [
        event(1, "alarmSet", 1, severity="critical", state="raised", condition="memory", values={"a": 1}),
        LogRecord(kind=RecordKind.SOURCE, ingest_ts=text(after(2)), source="rabbitmq", state="down"),
        LogRecord(
            kind=RecordKind.AGENT, ingest_ts=text(after(3)), source="rabbitmq", agent="a", state="stale"
        ),
        LogRecord(
            kind=RecordKind.GAP,
            ingest_ts=text(after(4)),
            source="rabbitmq",
            from_ts=text(after(1)),
            to_ts=text(after(3.5)),
            lost=7,
        ),
        LogRecord(
            kind=RecordKind.SCHEMA,
            ingest_ts=text(after(5)),
            package="rabbitmq",
            class_name="queue",
            values={"elements": elements},
        ),
    ]
    bronze = frame(spark, log, records)
    (happened,) = collected(silver.events(bronze).drop("dt"))
    assert (happened["event_id"], happened["condition"]) == ("6f1c.1.1", "memory")
    assert (happened["ingest_ts"], happened["values"]) == (after(1), '{"a":1}')
    states = silver.source_states(bronze).orderBy("seq").collect()
    assert [(row["source"], row["agent"], row["state"]) for row in states] == [
        ("rabbitmq", None, "down"),
        ("rabbitmq", "a", "stale"),
    ]
    (gap,) = silver.gaps(bronze).collect()
    assert (gap["seconds"], gap["lost"]) == (2.5, 7)
    (element,) = silver.schemas(bronze).collect()
    assert (element["class"], element["element"], element["type"], element["kind"]) == (
        "queue",
        "messages",
        "u64",
        "gauge",
    )


def operation(seconds: float, number: int, state: str, **fields: object) -> LogRecord:
    """A record of an operation at the source."""
    record = LogRecord(
        kind=RecordKind.OPERATION,
        ingest_ts=text(after(seconds)),
        source="rabbitmq",
        operation_id=f"6f1c.1.o{number}",
        operation="set",
        state=state,
    )
    return replace(record, **fields)


def test_operations_and_what_came_of_them_by_the_hour(spark: SparkSession, log: WrittenLog) -> None:
    records = [
        operation(1, 1, "begun", values={"limit": 5}),
        operation(2, 1, "begun"),  # told again at a segment's head
        operation(3, 1, "ended", outcome="unknown", latency_ns=2 * 10**9),
        operation(4, 2, "ended", outcome="refused", attempts=980),
        operation(5, 3, "ended", outcome="applied", operation="invoke", method="purge"),
        operation(6, 1, "settled", outcome="applied", former={"limit": 4}),
    ]
    found = silver.operations(frame(spark, log, records))
    reported = [(row["state"], row["outcome"], row["attempts"]) for row in found.orderBy("seq").collect()]
    assert reported[2:4] == [("ended", "unknown", 1), ("ended", "refused", 980)]
    rows = gold.operations_by_hour(found).collect()
    assert {(row["operation"], row["state"], row["outcome"]): row["operations"] for row in rows} == {
        ("set", "ended", "unknown"): 1,
        ("set", "ended", "refused"): 980,
        ("set", "settled", "applied"): 1,
        ("invoke", "ended", "applied"): 1,
    }


def test_deltas_are_the_samples_of_counters(spark: SparkSession, log: WrittenLog) -> None:
    records = [
        reported(of_object(RecordKind.CREATE, 0, 1), 0, messagesPublished=1, messages=1),
        counted(
            reported(
                of_object(RecordKind.UPDATE, 60, 1), 60, messagesPublished=MOST, getsEmpty=3, messages=2
            ),
            messagesPublished=Delta(MOST - 1, MINUTE),
            getsEmpty=Delta(3, None, True),
        ),
        reported(of_object(RecordKind.SNAPSHOT, 61, 1), 60, messagesPublished=MOST),
    ]
    bronze = frame(spark, log, records)
    deltas = silver.deltas(bronze)
    counters = silver.samples(bronze).where("delta IS NOT NULL OR reset").select(*deltas.columns)
    assert sorted(deltas.collect()) == sorted(counters.collect())
    assert deltas.count() == 2


def test_times_are_reported_in_utc(spark: SparkSession, log: WrittenLog) -> None:
    (row,) = collected(frame(spark, log, [changed(0.000001, 1)]).select("ingest_ts"))
    assert row == {"ingest_ts": dt.datetime(2026, 11, 20, 12, 0, 0, 1, tzinfo=dt.UTC)}
