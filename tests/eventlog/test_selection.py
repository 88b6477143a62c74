"""A choice of records means the same on lines and in SQL."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.eventlog.follow import CHANGES, Selection
from gateway.eventlog.query import ask
from gateway.eventlog.record import LogRecord, RecordKind
from tests.eventlog.logs import lines_of, segment
from tests.hypothesis_profiles import examples

WORDS = ("one", "two", "rabbitmq:one")
BEGIN = dt.datetime(2026, 11, 20, 14, tzinfo=dt.UTC)

word = st.none() | st.sampled_from(WORDS)
records = st.builds(
    LogRecord,
    kind=st.sampled_from(RecordKind),
    ingest_ts=st.integers(0, 5).map(lambda second: f"2026-11-20T14:00:0{second}.000000Z"),
    source=word,
    package=st.none() | st.just("rabbitmq"),
    class_name=word,
    object_id=word,
    object_name=word,
    native_id=word,
    event=word,
    severity=word,
)
words = st.frozensets(st.sampled_from(WORDS), max_size=2)
times = st.none() | st.integers(0, 6).map(lambda second: BEGIN + dt.timedelta(seconds=second))
selections = st.builds(
    Selection,
    kinds=st.just(frozenset()) | st.just(CHANGES) | st.just(frozenset({RecordKind.EVENT})),
    sources=words,
    classes=words,
    events=words,
    objects=words,
    severities=words,
    after=times,
    before=times,
)


@given(
    reported=st.lists(records, min_size=1, max_size=20), chosen=st.lists(selections, min_size=1, max_size=8)
)
@settings(max_examples=examples() // 5, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lines_and_sql_agree(
    reported: list[LogRecord], chosen: list[Selection], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = tmp_path_factory.mktemp("log")
    lines = lines_of(segment(folder, 1, reported).path)
    for selection in chosen:
        condition, parameters = selection.condition()
        with ask(folder, f"FROM log SELECT seq WHERE {condition} ORDER BY seq", parameters) as answer:
            found = [seq for (seq,) in answer.rows]
        assert found == [line["seq"] for line in lines if selection.has(line)]


@pytest.mark.parametrize("time", ["yesterday", None, 7, "2026-11-20T14:00:00"])
def test_what_has_no_time_lies_at_none(time: object) -> None:
    assert not Selection(after=BEGIN).has({"ingest_ts": time})
    assert Selection().has({"ingest_ts": time})


def test_fields_that_are_no_text_are_not_chosen() -> None:
    assert not Selection(kinds={"event"}).has({"kind": ["event"]})
