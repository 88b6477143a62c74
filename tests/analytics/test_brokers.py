"""Two sources that read one broker are reported, and counted once."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import duckdb
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from gateway.analytics import pipeline
from gateway.analytics.brokers import BrokerFacts, Reader, RunningNode
from gateway.analytics.coverage import Period
from gateway.analytics.reports import layout, page
from gateway.analytics.reports.answers import Report, Row, Value
from gateway.analytics.reports.brokers import Broker, brokers
from gateway.analytics.reports.findings import findings
from gateway.analytics.reports.report import make_report
from gateway.eventlog.record import Delta, LogRecord, RecordKind
from gateway.model.times import MINUTE
from tests.analytics.logs import LOG_ID, WrittenLog, after, counted, of_object, reported, text

ONE, TWO, THREE = (Reader(LOG_ID, name) for name in ("one", "two", "three"))
PUBLISHED = "messagesPublished"
SHOP = RunningNode("shop", "rabbit@shop", "815", after(-3600))


def received(reader: Reader, messages: int, first: float = 0, last: float = 600) -> dict[str, Value]:
    return {**reader._asdict(), "messages": messages, "first": after(first), "last": after(last)}


def found(
    rows: Sequence[Row],
    names: dict[Reader, str] | None = None,
    nodes: dict[Reader, list[RunningNode]] | None = None,
) -> list[tuple[list[Reader], list[Reader]]]:
    """Return the sources of each broker, and those that are counted."""
    reported_brokers: list[Broker] = brokers(rows, names or {}, nodes or {})
    return [(broker.readers, broker.counted) for broker in reported_brokers]


def test_the_source_that_reported_most_messages_is_counted() -> None:
    rows = [received(ONE, 7), received(TWO, 9), received(THREE, 5)]
    assert found(rows, {ONE: "two"}) == [([THREE], [THREE]), ([ONE, TWO], [TWO])]
    assert found(rows, {ONE: "two", THREE: "two"}) == [([ONE, THREE, TWO], [TWO])]


def test_what_is_said_of_a_source_that_was_not_listened_to_changes_nothing() -> None:
    assert found([received(ONE, 7)], {ONE: "two", THREE: "one"}) == [([ONE], [ONE])]


def test_a_source_that_took_the_place_of_another_is_counted_too() -> None:
    rows = [received(ONE, 7, 0, 300), received(TWO, 9, 310, 600)]
    assert found(rows, {ONE: "two"}) == [([ONE, TWO], [TWO, ONE])]


@pytest.mark.parametrize(
    ("other", "is_one"),
    [
        (SHOP, True),
        (RunningNode("shop", "rabbit@shop", "815", after(-3596)), True),
        (RunningNode("shop", "rabbit@shop", "815", after(-3590)), False),
        (RunningNode("shop", "rabbit@shop", "816", after(-3600)), False),
        (RunningNode("shop", "rabbit@other", "815", after(-3600)), False),
        (RunningNode("store", "rabbit@shop", "815", after(-3600)), False),
    ],
)
def test_the_same_start_of_the_same_node_is_the_same_broker(other: RunningNode, *, is_one: bool) -> None:
    begun_before = RunningNode("shop", "rabbit@shop", "22", after(-7200))
    nodes = {ONE: [begun_before, SHOP], TWO: [other]}
    assert (len(found([received(ONE, 1), received(TWO, 1)], nodes=nodes)) == 1) is is_one


def of(source: str, record: LogRecord) -> LogRecord:
    return replace(
        record, source=source, object_id=str(record.object_id).replace("rabbitmq/", f"{source}/", 1)
    )


def state(source: str, **values: object) -> LogRecord:
    return LogRecord(
        kind=RecordKind.SOURCE,
        ingest_ts=text(after(0)),
        source=source,
        dialect="rabbitmq",
        state="synchronised",
        values=values or None,
    )


def of_a_broker(source: str, started: str, published: int) -> Iterator[LogRecord]:
    """A node, two queues, one of which grows, and a connection that comes and goes, read by a source."""
    node = reported(
        of_object(RecordKind.SNAPSHOT, 0, 1, "node", "rabbit@shop"),
        0,
        clusterName="shop",
        osProcess=815,
        startTime=started,
    )
    yield of(source, node)
    for minute in range(6):
        sampled = 60 * minute
        orders = reported(of_object(RecordKind.UPDATE, sampled, 1, name="/|orders"), sampled, messages=minute)
        gained = Delta(published if minute else 0, MINUTE)
        yield of(source, counted(orders, messagesPublished=gained))
        yield of(
            source, reported(of_object(RecordKind.UPDATE, sampled, 2, name="/|mail"), sampled, messages=3)
        )
    connection = of_object(RecordKind.CREATE, 60, 1, "connection", "127.0.0.1:4711 -> 127.0.0.1:5672")
    yield of(source, reported(connection, 60, user="web"))
    yield of(source, replace(connection, kind=RecordKind.DELETE, ingest_ts=text(after(120))))


def report_of(spark: SparkSession, log: WrittenLog, records: list[LogRecord], most_rows: int = 20) -> Report:
    log.segment(sorted(records, key=lambda record: record.ingest_ts))
    return make_report(spark, log.path, Period(after(0), after(600)), lambda _: None, most_rows)


COLUMNS = ("broker", "sources", "published", "queues", "growing", "opened", "ended", "open")


def totals(report: Report) -> list[tuple[Value, ...]]:
    return [tuple(row[name] for name in COLUMNS) for row in report.table("brokers").rows]


@pytest.mark.xdist_group("spark")
@pytest.mark.prove
def test_one_broker_that_two_sources_read_is_counted_once(
    spark: SparkSession, log: WrittenLog, tmp_path: Path
) -> None:
    """The agent's start of the node differs by a second: it is worked out from an uptime."""
    records = [
        state("direct"),
        *of_a_broker("direct", "2026-11-20T11:00:00.000000000Z", 100),
        state("agent"),
        *of_a_broker("agent", "2026-11-20T11:00:01.000000000Z", 99),
        state("other"),
        *of_a_broker("other", "2026-11-20T11:30:00.000000000Z", 7),
    ]
    report = report_of(spark, log, records)
    assert totals(report) == [
        ("direct", "agent, direct", 500, 2, 1, 1, 1, 0),
        ("other", "other", 35, 2, 1, 1, 1, 0),
        (None, None, 535, 4, 2, 2, 2, 0),
    ]
    shared = {row["source"]: row["broker"] for row in report.table("overview").rows}
    assert shared == {"agent": "direct", "direct": "direct", "other": None}
    # Each source has its own rows all the same; what is drawn, and said in sentences, is each broker once.
    assert {row["source"] for row in report.table("queues").rows} == {"direct", "agent", "other"}
    assert {row["source"] for row in report.series.throughput} == {"direct", "other"}
    assert {str(row["object_id"]).partition("/")[0] for row in report.series.depths} == {"direct", "other"}
    said = findings(report)
    assert not any("of agent" in sentence for sentence in said)
    one = "sources agent, direct are one broker (cluster shop): totals are those of direct"
    assert said[-1] == one
    out = io.StringIO()
    layout.show(report, out)
    assert f"! {one}\n" in out.getvalue()
    page.draw(report, tmp_path / "page.png")


ANALYTICS = (Path(__file__).parents[2] / "docs" / "analytics.md").read_text(encoding="utf-8")


@pytest.mark.xdist_group("spark")
def test_gold_names_the_broker_so_that_a_reader_counts_it_once(
    spark: SparkSession, log: WrittenLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second batch, which shows no node, goes on with what the first one showed."""
    first = [
        state("direct"),
        *of_a_broker("direct", "2026-11-20T11:00:00.000000000Z", 100),
        state("agent"),
        *of_a_broker("agent", "2026-11-20T11:00:01.000000000Z", 99),
        state("other"),
        *of_a_broker("other", "2026-11-20T11:30:00.000000000Z", 7),
        state("copy", same_as="other"),
        *of_a_broker("copy", "2026-11-20T12:00:00.000000000Z", 6),
    ]
    then = [
        counted(
            of(source, reported(of_object(RecordKind.UPDATE, 7200, 1, name="/|orders"), 7200)),
            **{PUBLISHED: d},
        )
        for source, d in (
            ("direct", Delta(3, MINUTE)),
            ("agent", Delta(4, MINUTE)),
            ("copy", Delta(5, MINUTE)),
        )
    ]
    log.lake(sorted(first, key=lambda record: record.ingest_ts))
    log.lake(then)
    run = partial(pipeline.run, spark, log.path, str(tmp_path / "tables"), interval_seconds=None)
    run(done=lambda _: None, files_per_batch=1)
    monkeypatch.chdir(tmp_path / "tables")
    _, question = re.findall(r"```sql\n(.*?)```", ANALYTICS, re.DOTALL)
    assert duckdb.connect().execute(question).fetchall() == [
        (f"{LOG_ID}/agent", "/|orders", 504),
        (f"{LOG_ID}/copy", "/|orders", 40),
    ]


def test_who_reads_a_broker_is_known_from_earlier_batches() -> None:
    before = BrokerFacts().after({ONE: ""}, {ONE: [SHOP], TWO: [SHOP]})
    assert before.brokers({}, {}) == {ONE: ONE, TWO: ONE}
    kept = BrokerFacts.from_json(json.loads(json.dumps(before.as_json())))
    assert kept.brokers({}, {}) == {ONE: ONE, TWO: ONE}


def test_a_node_that_was_started_again_is_one_before_both_sources_say_so() -> None:
    again = RunningNode("shop", "rabbit@shop", "816", after(60))
    before = BrokerFacts().after({}, {ONE: [SHOP], TWO: [SHOP]})
    assert before.brokers({}, {ONE: [again]}) == {ONE: ONE, TWO: ONE}
    then = before.after({}, {ONE: [again]})
    assert then.brokers({}, {TWO: [again]}) == {ONE: ONE, TWO: ONE}


def test_a_source_that_reads_another_broker_from_now_on_is_another_one() -> None:
    other = RunningNode("store", "rabbit@store", "7", after(0))
    before = BrokerFacts().after({THREE: "one"}, {ONE: [SHOP], TWO: [SHOP]})
    assert before.brokers({}, {}) == {ONE: ONE, TWO: ONE, THREE: ONE}
    now = before.after({THREE: ""}, {TWO: [other]})
    assert now.brokers({}, {}) == {}
