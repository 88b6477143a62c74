"""Records about other things than objects: events, gaps, sources, agents, heads of segments, log failures."""

from __future__ import annotations

import dataclasses
from itertools import islice

import msgspec

from gateway.eventlog.record import Delta, LogRecord, RecordKind
from gateway.eventlog.recorder import STRETCH, RecorderSettings
from gateway.eventlog.waiting import Pressure
from gateway.feed.records import AgentGoneRecord, GapRecord
from gateway.model.observations import EventState, SourceState
from gateway.model.times import MINUTE, SECOND
from tests.eventlog.feeds import (
    AGENT,
    DEPTH,
    PAUSED,
    PUBLISHED,
    SHOP,
    T0,
    Shop,
    deletion,
    event,
    queue,
    update,
)
from tests.eventlog.records import kinds, with_all_fields

EVERYTHING = RecorderSettings(statistics_interval=1)


def test_an_event_is_reported_with_the_id_that_it_has_everywhere() -> None:
    shop = Shop()
    (record,) = shop.publish(event())
    assert record == LogRecord(
        kind=RecordKind.EVENT,
        ingest_ts="2026-11-20T15:00:00.000000Z",
        source="shop",
        dialect="qmf",
        package="shop",
        class_name="queue",
        object_id="shop/shop:queue/1",
        object_name="/|q1",
        row=1,
        agent="1.0",
        event_id="gw.1.7",
        event="full",
        severity="major",
        state="raised",
        condition='full shop:queue "/|q1"',
        text="q1 is full",
        sample_ts="2026-11-20T15:00:00.000000Z",
        sample_ns=T0 + 5,
        values={"queue": "shop/shop:queue/1", "since": "2026-11-20T15:00:00.000000000Z"},
    )


def test_an_event_of_the_gateway_itself_has_no_source() -> None:
    (record,) = Shop().publish(event(source=0, agent="", subject=None, values={}, state=EventState.ONE_SHOT))
    assert (record.source, record.dialect, record.agent, record.object_id) == (None, None, None, None)
    assert (record.state, record.values) == ("one-shot", None)


def test_a_gap_says_from_when_to_when() -> None:
    (record,) = Shop().publish(GapRecord(1, T0, T0 + SECOND, "the link was down"))
    assert (record.kind, record.source, record.text) == (RecordKind.GAP, "shop", "the link was down")
    assert (record.from_ts, record.to_ts) == ("2026-11-20T15:00:00.000000Z", "2026-11-20T15:00:01.000000Z")


def test_a_source_is_reported_when_its_state_changes_and_its_counters_once_in_an_interval() -> None:
    shop = Shop()
    assert shop.publish(msgspec.structs.replace(SHOP, counters={"messages": 5})) == []
    down = msgspec.structs.replace(SHOP, state=SourceState.DOWN, detail="refused", since=T0 + 1)
    (record,) = shop.publish(msgspec.structs.replace(down, counters={"messages": 6}))
    assert (record.state, record.text) == ("down", "refused")
    assert record.deltas == {"messages": Delta(5)}, "no time has passed"
    shop.now += SECOND
    assert shop.publish(msgspec.structs.replace(down, counters={"messages": 11})) == []
    (record,) = shop.wait(MINUTE)
    assert record.values == {
        "messages": 11,
        "since": "2026-11-20T15:00:00.000000001Z",
        "last_heard": "2026-11-20T15:00:00.000000000Z",
        "heard_until": "2026-11-20T15:00:00.000000001Z",
        "read_whole": True,
        "read_whole_since": "2026-11-20T15:00:00.000000000Z",
    }
    assert record.deltas == {"messages": Delta(5, MINUTE)}
    assert shop.wait(10 * MINUTE) == []


def test_an_agent_is_reported_when_its_freshness_changes_and_not_with_each_heartbeat() -> None:
    shop = Shop()
    assert shop.publish(msgspec.structs.replace(AGENT, confirmed=T0 + SECOND)) == []
    (record,) = shop.publish(msgspec.structs.replace(AGENT, fresh=False, since=T0 + SECOND))
    assert (record.kind, record.agent, record.state) == (RecordKind.AGENT, "1.0", "stale")


def test_that_an_agent_is_gone_is_reported_once_and_no_head_reports_it() -> None:
    shop = Shop()
    gone = AgentGoneRecord(AGENT.source, AGENT.agent, T0 + SECOND)
    (record,) = shop.publish(gone)
    assert (record.kind, record.agent, record.state) == (RecordKind.AGENT, "1.0", "gone")
    assert record.values == {"since": "2026-11-20T15:00:01.000000000Z"}
    assert shop.publish(gone) == []
    assert kinds(with_all_fields(shop.mirror.head(lambda: shop.now))) == ["schema", "source"]


def test_a_head_reports_each_object_as_it_is_when_its_turn_comes() -> None:
    shop = Shop()
    for row in (1, 2, 3):
        shop.publish(queue(row, {PUBLISHED: 0}))
    head = shop.mirror.head(lambda: shop.now)
    *others, first = with_all_fields(islice(head, 5))
    assert kinds(others) == ["schema", "schema", "source", "agent"]
    assert (first.kind, first.object_id) == (RecordKind.SNAPSHOT, "shop/shop:queue/1")
    shop.publish(update({PUBLISHED: 4}, row=2, now=T0 + SECOND))
    shop.publish(deletion(3))
    waited, snapshot = with_all_fields(head)
    assert (waited.kind, waited.object_id, waited.deltas) == (
        RecordKind.UPDATE,
        "shop/shop:queue/2",
        {"published": Delta(4, SECOND)},
    )
    assert (snapshot.kind, snapshot.values) == (RecordKind.SNAPSHOT, {"published": 4})
    assert shop.wait(MINUTE) == [], "nothing of it waits any more"


def test_under_pressure_statistics_are_reported_less_often() -> None:
    shop = Shop()
    shop.publish(queue())
    shop.mirror.pressure = Pressure.MERGE
    recorded = []
    for second in range(3 * 60 * STRETCH):
        shop.publish(update({DEPTH: second + 1}))
        recorded += shop.wait(SECOND)
    assert len(recorded) == 3


def test_when_the_log_is_full_changes_wait_and_how_many_were_merged_is_reported() -> None:
    shop = Shop()
    shop.publish(queue())
    shop.mirror.pressure = Pressure.FULL
    assert shop.publish(update({PAUSED: True})) == []
    assert shop.publish(update({PAUSED: False, DEPTH: 4})) == []
    assert shop.wait(5 * MINUTE) == []
    assert kinds(shop.publish(event(), queue(2), deletion(2))) == ["event", "create", "delete"]
    shop.mirror.pressure = Pressure.NONE
    gap, change = shop.wait(MINUTE)
    assert (gap.kind, gap.source, gap.lost) == (RecordKind.GAP, None, 2)
    assert (gap.from_ts, gap.to_ts) == ("2026-11-20T15:00:00.000000Z", "2026-11-20T15:05:00.000000Z")
    assert change.values == {"paused": False, "depth": 4}


def test_a_clock_that_was_set_back_does_not_keep_values_waiting() -> None:
    shop = Shop()
    shop.publish(queue())
    shop.publish(update({DEPTH: 1}))
    shop.now -= 3600 * SECOND
    assert shop.publish() == []
    assert [record.values for record in shop.wait(MINUTE)] == [{"depth": 1}]
    shop.publish(update({DEPTH: 2}))
    assert [record.values for record in shop.wait(MINUTE)] == [{"depth": 2}]


def test_what_is_reported_of_unknown_objects_is_counted() -> None:
    shop = Shop()
    unknown = (
        update({DEPTH: 1}, row=99),
        deletion(99),
        event(class_number=77),
        msgspec.structs.replace(queue(), class_number=77),
        msgspec.structs.replace(queue(), source=77),
    )
    assert shop.publish(*unknown) == []
    assert shop.mirror.refused == len(unknown)


def test_a_source_that_is_the_broker_of_another_one_says_so_in_each_record() -> None:
    shop = Shop(dataclasses.replace(EVERYTHING, same_as={"shop": "store"}))
    away = shop.publish(msgspec.structs.replace(SHOP, state=SourceState.DOWN))
    for record in (shop.began[0], *away):
        assert record.kind is RecordKind.SOURCE
        assert record.values is not None
        assert record.values["same_as"] == "store"
