"""The judge of these tests finds every error, and only errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE
from gateway.eventlog.query import ask
from gateway.eventlog.record import Delta, LogRecord, RecordKind
from tests.demo_check.ledger import PUBLISHED
from tests.end_to_end.judge import AGENT, CORE, Judge
from tests.end_to_end.shown import Shown, shown_by_snmp
from tests.end_to_end.truth import MARKER, Timeline
from tests.eventlog.logs import segment

NOW = 1_795_000_000.0
QUEUE = Shown("SNMP", "1", "rmqQueue shop|orders", "7", "shop|orders", False, True, 3, NOW, (NOW, NOW + 0.1))
MARKED = replace(QUEUE, thing=f"rmqQueue {MARKER}", full_name=MARKER, row="8")


def judge(
    last_seen: float = NOW, lengths: Timeline[int] | None = None, back_since: float = NOW - 900
) -> Judge:
    """Return a judge; all processes live, and the broker was last seen to have anything at ``last_seen``."""
    new = Judge(lambda _: last_seen, lambda before: before, lambda: back_since, lengths or Timeline())
    new.is_alive(CORE, NOW)
    new.is_alive(AGENT, NOW)
    return new


def lengths(*noted: tuple[float, int]) -> Timeline[int]:
    timeline: Timeline[int] = Timeline()
    for at, length in noted:
        timeline.note([length], NOW + at)
    return timeline


def test_what_a_timeline_held() -> None:
    timeline = lengths((-30, 1), (-20, 2), (-10, 3))
    assert timeline.held(NOW - 25, NOW - 15) == {1, 2}
    assert timeline.held(NOW - 10, NOW) == {3}
    assert timeline.held(NOW - 5, NOW) == {3}
    assert timeline.held(NOW - 90, NOW - 30) == {1}


def test_what_is_there_may_be_shown() -> None:
    assert list(judge().lies(QUEUE, SOURCE)) == []


def test_what_has_gone_long_ago_may_be_shown_as_stale_only() -> None:
    (lie,) = judge(NOW - 41).lies(QUEUE, SOURCE)
    assert "the broker has it no more, since 41.0 s" in lie
    assert list(judge(NOW - 41).lies(replace(QUEUE, fresh=False), SOURCE)) == []
    assert list(judge(NOW - 29).lies(QUEUE, SOURCE)) == []


def test_what_had_gone_before_everything_was_read_again_may_not_be_shown() -> None:
    judging = judge(NOW - 22)
    judging.source_is(SOURCE, "synchronised", NOW - 1, NOW)
    (lie,) = judging.lies(QUEUE, SOURCE)
    assert "had gone 21.0 s before everything was read again" in lie


def test_what_went_with_the_broker_may_not_be_shown_when_it_is_back() -> None:
    judging = judge(NOW - 9, back_since=NOW - 3)
    judging.source_is(SOURCE, "synchronised", NOW - 4, NOW)
    assert list(judging.lies(QUEUE, SOURCE)) == []  # not read again yet
    judging.source_is(SOURCE, "synchronised", NOW - 2, NOW)
    (lie,) = judging.lies(QUEUE, SOURCE)
    assert "had gone 7.0 s before everything was read again" in lie


def test_nothing_is_fresh_that_its_agent_does_not_confirm() -> None:
    judging = judge()
    judging.is_alive(CORE, NOW - 11)
    judging.is_alive(AGENT, NOW - 21)
    assert [lie.partition("but ")[2] for lie in judging.lies(QUEUE, SOURCE)] == [
        "the core is gone, since 11.0 s"
    ]
    assert [lie.partition("but ")[2] for lie in judging.lies(QUEUE, AGENT_SOURCE)] == [
        "the core is gone, since 11.0 s",
        "the agent is gone, since 21.0 s",
    ]


def test_nothing_is_fresh_whose_source_is_not_trusted() -> None:
    judging = judge()
    judging.source_is(SOURCE, "down", NOW - 12, NOW - 11)
    assert list(judging.lies(QUEUE, SOURCE)) == []  # it may be believed again since
    judging.source_is(SOURCE, "down", NOW - 12, NOW + 1)
    (lie,) = judging.lies(QUEUE, SOURCE)
    assert "its source is not believed" in lie
    judging.source_is(SOURCE, "synchronised", NOW, NOW)
    assert list(judging.lies(QUEUE, SOURCE)) == []


def test_a_value_must_have_been_true_when_it_was_sampled() -> None:
    moved = lengths((-90, 1), (-20, 2), (-1, 3))
    for length, sampled, fits in (
        (3, NOW, True),
        (2, NOW - 5, True),
        (1, NOW - 25, True),
        (1, NOW - 5, False),
    ):
        shown = replace(MARKED, length=length, sampled=sampled)
        assert (list(judge(lengths=moved).lies(shown, SOURCE)) == []) is fits, (length, sampled)


def test_an_old_value_is_not_fresh_however_it_is_dated() -> None:
    moved = lengths((-90, 1), (-50, 2))
    shown = replace(MARKED, length=1, sampled=NOW - 60)
    (lie,) = judge(lengths=moved).lies(shown, SOURCE)
    assert "60.0 s old, but had 2 to 2" in lie


def test_rows_are_never_given_twice_and_durable_objects_keep_theirs() -> None:
    judging = judge()
    assert list(judging.lies(QUEUE, SOURCE)) == []
    (reused,) = judging.lies(replace(QUEUE, full_name="shop|amq.gen#1", transient=True), SOURCE)
    assert "row 7 of rmqQueue" in reused
    (moved,) = judging.lies(replace(QUEUE, row="9"), SOURCE)
    assert "had the row 7, has now 9" in moved
    assert list(judging.lies(QUEUE, AGENT_SOURCE)) == []


def test_a_node_is_another_one_in_each_process() -> None:
    cells = {"FullName": "rabbit@shop", "Stale": "false", "Lifetime": "durable"}
    table = {
        "1.4": {f"rmqNodeRow{column}": cell for column, cell in cells.items()} | {"rmqNodeOsProcess": "99"}
    }
    (shown,) = shown_by_snmp("rmqNode", table, (NOW, NOW))
    assert (shown.thing, shown.source, shown.row) == ("rmqNode rabbit@shop 99", "1", "4")
    assert shown.sampled is None
    half = {"2.4": {"rmqNodeRowFullName": "rabbit@shop"}}
    assert list(shown_by_snmp("rmqNode", half, (NOW, NOW))) == []


def test_a_port_that_is_used_again_is_another_connection() -> None:
    judging = judge(NOW - 300)
    connection = replace(QUEUE, thing="rmqConnection 127.0.0.1:1 -> 127.0.0.1:2", transient=True)
    earlier = replace(connection, reading=(NOW - 300, NOW - 300))
    assert list(judging.lies(earlier, SOURCE)) == []
    again = replace(connection, row="9", full_name="127.0.0.1:1 -> 127.0.0.1:2#2")
    assert list(judging.lies(again, SOURCE)) == []  # came and went unseen by us
    later = replace(again, reading=(NOW + 31, NOW + 31))
    judging.is_alive(CORE, NOW + 31)
    (lie,) = judging.lies(later, SOURCE)
    assert "row 9" in lie


def test_a_connection_may_be_shown_that_was_made_after_one_of_its_port_was_seen_last() -> None:
    connection = replace(QUEUE, thing="rmqConnection 127.0.0.1:1 -> 127.0.0.1:2", transient=True)
    assert list(judge(NOW - 300).lies(replace(connection, created=NOW - 2), SOURCE)) == []
    (lie,) = judge(NOW - 300).lies(replace(connection, created=NOW - 302), SOURCE)
    assert "since 300.0 s" in lie
    never_seen = judge(0, back_since=NOW - 1)
    never_seen.source_is(SOURCE, "synchronised", NOW - 0.5, NOW)
    assert list(never_seen.lies(replace(connection, created=NOW - 302), SOURCE)) == []


CREATE, UPDATE, SNAPSHOT = RecordKind.CREATE, RecordKind.UPDATE, RecordKind.SNAPSHOT
LOST = Delta(reset=True)


@pytest.mark.parametrize(
    ("records", "published"),
    [
        pytest.param([(CREATE, None, None), (UPDATE, 4, 4), (UPDATE, 6, 2)], 6, id="from zero"),
        pytest.param([(CREATE, 4, None), (UPDATE, 6, 2)], 6, id="from the first value"),
        pytest.param([(CREATE, None, None), (UPDATE, 4, None), (UPDATE, 6, 2)], 6, id="a late first value"),
        pytest.param([(CREATE, None, None), (UPDATE, 4, 4), (SNAPSHOT, 4, None)], 4, id="another segment"),
        pytest.param([(CREATE, 4, 4), (SNAPSHOT, 4, None), (UPDATE, 6, 2)], 6, id="two segments"),
        pytest.param([(CREATE, 4, 4), (UPDATE, 5, None), (UPDATE, 6, 1)], 5, id="an unknown part"),
        pytest.param([(CREATE, None, None), (UPDATE, 5, LOST), (UPDATE, 6, Delta(1))], 1, id="not known"),
        pytest.param([(CREATE, 4, Delta(4)), (UPDATE, 3, Delta(-1, undone=True))], 3, id="taken back"),
        pytest.param([(CREATE, 4, 4), (UPDATE, 4, 4)], 8, id="doubled"),
        pytest.param([(SNAPSHOT, 4, None), (UPDATE, 6, 2)], 2, id="older than the period"),
    ],
)
def test_messages_published_are_counted_once(
    tmp_path: Path, records: list[tuple[RecordKind, int | None, int | Delta | None]], published: int
) -> None:
    segment(
        tmp_path,
        1,
        [
            LogRecord(
                kind=kind,
                ingest_ts="2026-11-20T14:05:06.000000Z",
                source=SOURCE,
                class_name="queue",
                object_id=f"{SOURCE}/rabbitmq:queue/1",
                object_name="shop|orders",
                values={} if value is None else {"messagesPublished": value},
                deltas=None if delta is None else {"messagesPublished": delta},
            )
            for kind, value, counted in records
            for delta in [Delta(counted) if isinstance(counted, int) else counted]
        ],
    )
    with ask(tmp_path, PUBLISHED, {"since": 0}) as answer:
        ((source, name, count, _),) = answer.rows
    assert (source, name, int(str(count))) == (SOURCE, "shop|orders", published)
