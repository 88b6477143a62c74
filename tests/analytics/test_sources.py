"""The trusted, silent and absent agents of sources."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from gateway.analytics import silver
from gateway.analytics.reports.answers import collected
from gateway.analytics.reports.quality import silence
from gateway.eventlog.record import LogRecord, RecordKind
from tests.analytics.logs import WrittenLog, after, frame, text

pytestmark = pytest.mark.xdist_group("spark")


def start(seconds: float) -> LogRecord:
    return LogRecord(kind=RecordKind.START, ingest_ts=text(after(seconds)), values={"version": 1})


def agent(seconds: float, name: str, state: str) -> LogRecord:
    time = text(after(seconds))
    return LogRecord(kind=RecordKind.AGENT, ingest_ts=time, source="qpid", agent=name, state=state)


def stood(spark: SparkSession, log: WrittenLog, records: list[LogRecord]) -> dict[object, tuple[object, ...]]:
    """Return each agent's state at 400 s, whether it is silent, how often it fell silent, and the seconds."""
    written = frame(spark, log, records)
    found = silence(silver.source_states(written), silver.shown_since(written), after(400))
    columns = ("state", "silent", "times", "silent_seconds")
    return {row["agent"]: tuple(row[name] for name in columns) for row in collected(found)}


def test_an_agent_that_left_is_not_waited_for(spark: SparkSession, log: WrittenLog) -> None:
    records = [start(0), agent(10, "a", "fresh"), agent(20, "a", "stale"), agent(50, "a", "gone")]
    assert stood(spark, log, [*records, agent(60, "b", "fresh"), agent(100, "b", "stale")]) == {
        "a": ("gone", False, 1, 30.0),
        "b": ("stale", True, 1, 300.0),
    }


def test_what_two_segments_do_not_show_is_not_there_any_more(spark: SparkSession, log: WrittenLog) -> None:
    begun = [start(0), *(agent(10, name, "fresh") for name in "abc"), agent(50, "c", "stale")]
    once = [*begun, start(100), agent(110, "a", "fresh")]
    assert stood(spark, log, once) == {
        "a": ("fresh", False, 0, 0.0),
        "b": ("fresh", False, 0, 0.0),  # the last segment may still be telling what there is
        "c": ("stale", True, 1, 350.0),
    }
    assert stood(spark, log, [*once, start(200), agent(210, "a", "fresh")]) == {
        "a": ("fresh", False, 0, 0.0),
        "b": ("gone", False, 0, 0.0),
        "c": ("gone", False, 1, 50.0),
    }
