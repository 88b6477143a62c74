"""The records that are made of a feed, and their times."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import msgspec
import pytest

from gateway.eventlog.record import Delta, LogRecord, RecordKind
from gateway.eventlog.recorder import STEP_OBJECTS, RecorderSettings
from gateway.feed.records import ObjectRecord, UpdateRecord
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import Counting, SourceState
from gateway.model.schema import Element
from gateway.model.times import MINUTE, SECOND
from gateway.model.values import Reference, ValueType
from tests.eventlog.feeds import (
    ARGUMENTS,
    DELIVERED,
    DEPTH,
    NAME,
    ODDITY,
    PAUSED,
    PUBLISHED,
    QUEUE,
    ROOT,
    SHOP,
    T0,
    VHOST,
    Shop,
    deletion,
    queue,
    update,
)
from tests.eventlog.records import kinds

EVERYTHING = RecorderSettings(statistics_interval=1)
LOST = Delta(reset=True)
"""The entry of a counter of which something is not known."""


def test_an_object_that_begins_is_reported_whole() -> None:
    (record,) = Shop().publish(queue(7, {NAME: "q7", VHOST: ROOT, DEPTH: 3, ARGUMENTS: {"x-max-length": 9}}))
    assert record == LogRecord(
        kind=RecordKind.CREATE,
        ingest_ts="2026-11-20T15:00:00.000000Z",
        source="shop",
        dialect="qmf",
        package="shop",
        class_name="queue",
        object_id="shop/shop:queue/7",
        object_name="/|q7",
        parent_id="shop/shop:vhost/1",
        row=7,
        native_id="n7",
        agent="1.0",
        lifetime="durable",
        sample_ts="2026-11-20T15:00:00.000000Z",
        sample_ns=T0,
        create_ts="2026-11-20T14:59:59.000000Z",
        reset_ts="2026-11-20T15:00:00.000000Z",
        values={"name": "q7", "vhost": "shop/shop:vhost/1", "arguments": {"x-max-length": 9}, "depth": 3},
    )


def test_an_object_goes_on_in_a_version_of_its_class_with_more_elements() -> None:
    shop = Shop(EVERYTHING)
    shop.publish(queue(1, {NAME: "q1", VHOST: ROOT, DEPTH: 3, PUBLISHED: 10}))
    colour = Element("colour", ValueType.STRING, optional=True)
    key = replace(QUEUE.schema.key, hash=b"\x02" * 16)
    schema = replace(QUEUE.schema, key=key, properties=(*QUEUE.schema.properties, colour))
    grown = msgspec.structs.replace(QUEUE, number=30, schema=schema)
    # Statistics come one position later.
    values: dict[int, FeedValue] = {NAME: "q1", VHOST: ROOT, 4: "red", 1 + DEPTH: 3, 1 + PUBLISHED: 12}
    follows = msgspec.structs.replace(queue(1, values, now=T0 + SECOND), class_number=30)
    left = msgspec.structs.replace(deletion(1, inferred=True), number=0)
    records = [*shop.publish(grown, left, follows), *shop.wait(10 * SECOND)]
    assert kinds(records) == ["schema", "update", "update"]
    assert [record.values for record in records[1:]] == [{"colour": "red"}, {"published": 12}]
    assert records[2].deltas == {"published": Delta(2, SECOND, reset=False)}
    later = UpdateRecord(1, 30, 1, T0, T0, T0, T0, {4: "blue"})
    assert [record.values for record in shop.publish(later)] == [{"colour": "blue"}]


def test_an_object_whose_version_is_left_without_another_one_has_ended() -> None:
    shop = Shop(EVERYTHING)
    shop.publish(queue(1))
    assert kinds(shop.publish(msgspec.structs.replace(deletion(1), number=0))) == ["delete"]


def test_what_a_source_reports_before_it_is_known_was_there_already() -> None:
    shop = Shop(source=msgspec.structs.replace(SHOP, state=SourceState.SYNCHRONISING))
    assert kinds(shop.publish(queue(1))) == ["snapshot"]
    assert kinds(shop.publish(SHOP, queue(2))) == ["source", "create"]
    # It is known from now on: what a resync finds came into being meanwhile.
    shop.publish(msgspec.structs.replace(SHOP, state=SourceState.DOWN))
    assert kinds(shop.publish(queue(3))) == ["create"]


def test_schemas_are_reported_once_and_at_the_head_of_each_segment_that_needs_them() -> None:
    shop = Shop()
    assert kinds(shop.began) == ["source", "agent", "schema", "schema", "schema"]
    queue_schema = shop.began[2]
    assert (queue_schema.package, queue_schema.class_name) == ("shop", "queue")
    assert queue_schema.values is not None
    assert queue_schema.values["elements"][:2] == [  # type: ignore[index]
        {"name": "name", "group": "property", "type": "string", "index": True, "access": "read-only"},
        {"name": "vhost", "group": "property", "type": "reference", "access": "read-only"}
        | {"references": "vhost"},
    ]
    assert shop.publish(QUEUE) == []
    assert kinds(shop.head()) == ["schema", "source", "agent"], "no object: only events"
    assert kinds(shop.publish(queue(1))) == ["schema", "create"], "so that this segment can be read alone"
    assert kinds(shop.publish(queue(2))) == ["create"]
    assert kinds(shop.head()) == ["schema", "schema", "source", "agent", "snapshot", "snapshot"]


def test_a_property_is_reported_at_once_and_alone() -> None:
    shop = Shop()
    shop.publish(queue())
    (record,) = shop.publish(update({PAUSED: True, DEPTH: 5}))
    assert (record.kind, record.values, record.absent) == (RecordKind.UPDATE, {"paused": True}, None)
    (record,) = shop.publish(update({}, PAUSED))
    assert (record.values, record.absent) == (None, ["paused"])
    (record,) = shop.wait(MINUTE)
    assert record.values == {"depth": 5}


def test_statistics_are_reported_once_in_an_interval_merged_to_the_latest() -> None:
    shop = Shop()
    shop.publish(queue())
    recorded = []
    for second in range(180):
        shop.publish(update({DEPTH: second + 1}, now=shop.now))
        recorded += shop.wait(SECOND)
    assert kinds(recorded) == ["update"] * 3
    first, second, third = (int(str((record.values or {})["depth"])) for record in recorded)
    assert (second - first, third - second) == (60, 60)


def test_what_did_not_change_is_not_reported() -> None:
    shop = Shop()
    shop.publish(queue())
    assert shop.publish(update({}, now=T0 + SECOND)) == []
    assert shop.mirror.wake_at is None
    assert shop.wait(10 * MINUTE) == []


def test_objects_are_due_at_instants_that_are_spread_over_the_interval() -> None:
    shop = Shop()
    for row in range(1, 601):
        shop.publish(queue(row))
    for row in range(1, 601):
        shop.publish(update({DEPTH: 1}, row=row))
    for _ in range(12):
        assert 40 <= len(shop.wait(5 * SECOND)) <= 60


def test_many_that_are_due_are_reported_in_steps() -> None:
    shop = Shop()
    for row in range(1, 2 * STEP_OBJECTS + 11):
        shop.publish(queue(row))
        shop.publish(update({DEPTH: 1}, row=row))
    shop.now += MINUTE + SECOND
    assert [len(shop.mirror.tick(shop.now)) for _ in range(4)] == [STEP_OBJECTS, STEP_OBJECTS, 10, 0]


@pytest.mark.parametrize(
    ("class_name", "interval"),
    [("shop:queue", 5), ("shop:vhost", 7), ("shop:user", 7), ("rabbitmq:queue", 9), ("other:thing", 11)],
)
def test_the_interval_of_a_class_is_that_of_the_first_pattern_that_fits(
    class_name: str, interval: int
) -> None:
    settings = RecorderSettings(11, {"shop:queue": 5, "shop:*": 7, "*:queue": 9})
    assert settings.interval(class_name) == interval


def test_an_interval_below_a_tenth_of_a_second_reports_each_change() -> None:
    shop = Shop(EVERYTHING)
    shop.publish(queue())
    recorded = [record for depth in range(1, 6) for record in shop.publish(update({DEPTH: depth}))]
    assert [record.values for record in recorded] == [{"depth": depth} for depth in range(1, 6)]


def test_a_counter_has_a_delta_over_the_time_between_its_samples() -> None:
    shop = Shop(EVERYTHING)
    (created,) = shop.publish(queue(1, {DEPTH: 0, PUBLISHED: 100}))
    assert created.deltas is None, "at first sight nothing is known of before"
    (record,) = shop.publish(update({PUBLISHED: 130, DEPTH: 2, DELIVERED: 5}, now=T0 + 3 * SECOND))
    assert record.deltas == {"published": Delta(30, 3 * SECOND)}, "delivered is told for the first time"
    (record,) = shop.publish(update({DELIVERED: 6}, now=T0 + 4 * SECOND))
    assert record.deltas == {"delivered": Delta(1, SECOND)}
    (record,) = shop.publish(update({PUBLISHED: 131}, now=T0 + 3 * SECOND))
    assert record.deltas == {"published": Delta(1)}, "an agent's clock was set back: no interval"


def new_queue(values: dict[int, FeedValue]) -> ObjectRecord:
    """A queue that was created a second after the shop was read."""
    return msgspec.structs.replace(queue(1, values, now=T0 + 2 * SECOND), created=T0 + SECOND)


def test_an_object_that_was_created_since_all_was_read_has_counted_from_zero() -> None:
    shop = Shop(EVERYTHING)
    (created,) = shop.publish(new_queue({DEPTH: 0, PUBLISHED: 100}))
    assert created.kind is RecordKind.CREATE
    assert created.deltas == {"published": Delta(100)}, "nobody knows since when"
    (record,) = shop.publish(update({PUBLISHED: 130, DELIVERED: 5}, now=T0 + 3 * SECOND))
    assert record.deltas == {"published": Delta(30, SECOND), "delivered": Delta(5)}
    (record,) = shop.publish(update({DELIVERED: 7}, now=T0 + 4 * SECOND))
    assert record.deltas == {"delivered": Delta(2, SECOND)}


def test_a_new_object_that_may_go_on_with_the_counts_of_another_one_has_no_delta_at_first() -> None:
    """RabbitMQ keeps the counters of a queue for two minutes, for the next one of its name."""
    shop = Shop(EVERYTHING)
    doubtful = msgspec.structs.replace(new_queue({PUBLISHED: 100}), counting=Counting.UNKNOWN)
    (created,) = shop.publish(doubtful)
    assert (created.kind, created.absent, created.deltas) == (RecordKind.CREATE, None, {"published": LOST})
    (record,) = shop.publish(update({PUBLISHED: 130, DELIVERED: 5}, now=T0 + 3 * SECOND))
    assert record.deltas == {"published": Delta(30, SECOND), "delivered": LOST}


def test_a_new_object_that_counted_nothing_has_no_deltas() -> None:
    shop = Shop(EVERYTHING)
    (created,) = shop.publish(new_queue({PUBLISHED: 0}))
    assert (created.values, created.deltas) == ({"published": 0}, None)
    (record,) = shop.publish(update({PUBLISHED: 3}, now=T0 + 3 * SECOND))
    assert record.deltas == {"published": Delta(3, SECOND)}


def test_a_new_object_that_began_again_before_it_was_read_has_counted_all_it_shows() -> None:
    shop = Shop(EVERYTHING)
    shop.publish(new_queue({DEPTH: 0}))
    (record,) = shop.publish(began(update({PUBLISHED: 4}, now=T0 + 3 * SECOND, reset=T0 + 2 * SECOND)))
    assert record.deltas == {"published": Delta(4, reset=True)}


@pytest.mark.parametrize("created", [0, T0 - SECOND], ids=["no time", "before all was read"])
def test_an_object_that_only_became_visible_has_no_delta_at_first(created: int) -> None:
    """Its value was counted before the gateway read it."""
    shop = Shop(EVERYTHING)
    (record,) = shop.publish(msgspec.structs.replace(queue(1, {PUBLISHED: 100}), created=created))
    assert (record.kind, record.deltas) == (RecordKind.CREATE, None)


def test_an_object_that_was_created_while_its_source_was_not_read_yet_has_no_delta_at_first() -> None:
    shop = Shop(EVERYTHING, msgspec.structs.replace(SHOP, state=SourceState.SYNCHRONISING))
    (record,) = shop.publish(new_queue({PUBLISHED: 100}))
    assert (record.kind, record.deltas) == (RecordKind.SNAPSHOT, None)


def began(record: UpdateRecord) -> UpdateRecord:
    """The same, with the proof that all counters began again."""
    return msgspec.structs.replace(record, counting=Counting.BEGAN)


def test_counters_that_began_again_have_counted_all_they_show() -> None:
    shop = Shop(EVERYTHING)
    shop.publish(queue(1, {PUBLISHED: 100, DELIVERED: 7}))
    (record,) = shop.publish(began(update({PUBLISHED: 109}, now=T0 + SECOND, reset=T0 + SECOND)))
    assert record.reset_ts == "2026-11-20T15:00:01.000000Z"
    assert record.values == {"published": 109, "delivered": 7}, "that stands where it stood: counted again"
    assert record.deltas == {
        "published": Delta(109, SECOND, reset=True),
        "delivered": Delta(7, SECOND, reset=True),
    }


def test_what_was_counted_before_counters_began_again_is_recorded_first() -> None:
    shop = Shop()
    shop.publish(queue(1, {PUBLISHED: 100}))
    shop.publish(update({PUBLISHED: 130}, now=T0 + 3 * SECOND))
    before, record = shop.publish(began(update({PUBLISHED: 4}, now=T0 + 5 * SECOND, reset=T0 + 5 * SECOND)))
    assert (before.values, before.deltas) == ({"published": 130}, {"published": Delta(30, 3 * SECOND)})
    assert record.deltas == {"published": Delta(4, 2 * SECOND, reset=True)}, "a start of the gateway lacks it"


def readings(*published: int | None, apart: int = 5 * SECOND, shop: Shop | None = None) -> list[LogRecord]:
    """Return the updates of a queue of which these numbers are read one after the other."""
    shop = shop or Shop(EVERYTHING)
    first = T0 + SECOND
    shop.publish(queue(1, {PUBLISHED: published[0]} if published[0] is not None else {}, now=first))
    recorded: list[LogRecord] = []
    known, reset = published[0] or 0, T0
    for number, value in enumerate(published[1:], start=1):
        now = first + number * apart
        recorded += shop.wait(max(0, now - shop.now))
        if value is not None and value < known:
            reset = now  # as the inventory does, for front ends
        changed: dict[int, FeedValue] = {}
        if value is not None and value != published[number - 1]:
            changed = {PUBLISHED: value}
        recorded += shop.publish(update(changed, *([PUBLISHED] * (value is None)), now=now, reset=reset))
        known = known if value is None else value
    return recorded + shop.wait(2 * MINUTE)


def deltas(records: list[LogRecord]) -> list[Delta]:
    """Return the entries of the counter."""
    return [record.deltas["published"] for record in records if record.deltas]


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        ((1000, 700, 1000), []),
        ((1000, 0, 1000, 0, 1000), []),
        ((1000, 700, 1020), [Delta(20)]),
        ((1000, 700, 690, 1020), [Delta(20)]),
        ((1000, None, 1020, None, 1030), [Delta(20), Delta(10)]),
        ((1000, None, 990, 1020), [Delta(20)]),
        ((1000, 700), [LOST]),
        ((1000, 690, 690, 720), [Delta(30, reset=True)]),
        ((1000, 700, 690, 720), [Delta(20, reset=True)]),
        ((1000, 700, 700, 700, 720), [LOST, Delta(20, 5 * SECOND)]),
        ((1000, 700, 700, 700, 720, 1010, 1020), [LOST, Delta(20, 5 * SECOND), LOST, Delta(10, 5 * SECOND)]),
        ((1000, 700, 700, 700, 1000), [LOST, LOST]),
        ((1000, 5_001_000, 1000), [Delta(5_000_000, 5 * SECOND), Delta(-5_000_000, undone=True)]),
        ((1000, 1010, 1005), [Delta(10, 5 * SECOND), Delta(-5, undone=True)]),
        ((0, 1000, 1000, 0), [Delta(1000, 5 * SECOND), Delta(-1000, undone=True)]),
        ((0, 1000, 1000, 1000, 0, 10, 20, 30), [Delta(1000, 5 * SECOND), Delta(20, reset=True), Delta(10)]),
        ((0, 1000, 1000, 1000, 7, 7, 7), [Delta(1000, 5 * SECOND), LOST]),
        ((250, 5), [LOST]),
    ],
    ids=[
        "it was never less",
        "it was read as 0 for a moment, twice",
        "it rose meanwhile",
        "it fell further before it returned",
        "it was absent, twice",
        "it was absent, and less for a moment",
        "it stays",
        "it counts on from its lowest value",
        "its lowest value may be the one that was wrong",
        "it counts on",
        "it counts on and reaches what it had",
        "it returns too late",
        "it was never so much",
        "a listing was ahead of the next one",
        "two readings were ahead",
        "all came at once, was shown by three readings, and statistics began again",
        "it is no less than before the rise, but the rise was shown by three readings",
        "a counter of 8 bits wrapped, or not: that is not known",
    ],
)
def test_what_counts_of_a_counter_that_was_less_for_a_moment(
    published: tuple[int | None, ...], expected: list[Delta]
) -> None:
    found = [msgspec.structs.replace(one, interval_ns=None) for one in deltas(readings(*published))]
    assert found == [msgspec.structs.replace(one, interval_ns=None) for one in expected]


def test_a_fall_waits_for_a_minute_where_no_reading_follows() -> None:
    shop = Shop(EVERYTHING)
    shop.publish(queue(1, {PUBLISHED: 1000}))
    shop.publish(update({PUBLISHED: 700}, now=T0 + SECOND))
    assert shop.wait(MINUTE - SECOND) == []
    (record,) = shop.wait(2 * SECOND)
    assert (record.values, record.deltas) == ({"published": 700}, {"published": LOST})
    assert shop.wait(10 * MINUTE) == []


def test_a_fall_waits_for_a_minute_also_where_the_clock_is_set_back() -> None:
    shop = Shop(EVERYTHING)
    shop.publish(queue(1, {PUBLISHED: 1000}))
    shop.publish(update({PUBLISHED: 700}, now=T0 + SECOND))
    shop.now -= 3600 * SECOND
    assert shop.wait(SECOND) == []
    (record,) = shop.wait(MINUTE + SECOND)
    assert record.deltas == {"published": LOST}


def test_a_rise_that_was_not_recorded_yet_and_is_taken_back_is_in_no_record() -> None:
    shop = Shop()
    shop.publish(queue(1, {PUBLISHED: 1000}))
    for second, value in enumerate((5_001_000, 1000, 1001, 1002), start=1):
        assert shop.publish(update({PUBLISHED: value}, now=T0 + second * SECOND, reset=T0 + second)) == []
    (record,) = shop.wait(2 * MINUTE)
    assert record.deltas == {"published": Delta(2, 4 * SECOND)}


def test_what_was_counted_before_a_fall_is_recorded_before_it() -> None:
    shop = Shop()
    shop.publish(queue(1, {PUBLISHED: 1000}))
    shop.publish(update({PUBLISHED: 1500}, now=T0 + SECOND))
    shop.publish(update({PUBLISHED: 1600}, now=T0 + 2 * SECOND))
    (before,) = shop.publish(update({PUBLISHED: 3}, now=T0 + 3 * SECOND, reset=T0 + 3 * SECOND))
    assert before.deltas == {"published": Delta(600, 2 * SECOND)}
    (record,) = shop.wait(2 * MINUTE)
    assert record.deltas == {"published": LOST}


def test_doubt_of_one_counter_is_no_doubt_of_another() -> None:
    shop = Shop(EVERYTHING)
    shop.publish(queue(1, {PUBLISHED: 1000, DELIVERED: 90}))
    (record,) = shop.publish(update({PUBLISHED: 3, DELIVERED: 95}, now=T0 + SECOND, reset=T0 + SECOND))
    assert record.deltas == {"delivered": Delta(5, SECOND)}, "the discontinuity is the row's"
    (record,) = shop.publish(update({DELIVERED: 97}, now=T0 + 2 * SECOND, reset=T0 + SECOND))
    assert record.deltas == {"delivered": Delta(2, SECOND)}


def test_what_is_not_known_of_all_counters_ends_the_wait_of_one_that_fell() -> None:
    """A node of a cluster was killed, and the queue's listing came before that of nodes."""
    shop = Shop(EVERYTHING)
    shop.publish(queue(1, {PUBLISHED: 8000}))
    assert shop.publish(update({PUBLISHED: 5000}, now=T0 + SECOND, reset=T0 + SECOND)) == []
    doubt = update({}, now=T0 + 2 * SECOND, reset=T0 + 2 * SECOND)
    (record,) = shop.publish(msgspec.structs.replace(doubt, counting=Counting.UNKNOWN))
    assert (record.values, record.deltas) == ({"published": 5000}, {"published": LOST})
    (record,) = shop.publish(update({PUBLISHED: 5010}, now=T0 + 3 * SECOND))
    assert record.deltas == {"published": Delta(10, SECOND)}
    (record,) = shop.publish(update({PUBLISHED: 8030}, now=T0 + 4 * SECOND))
    assert record.deltas == {"published": LOST}, "the node may be back with what it had"


@pytest.mark.parametrize("doubt", [update({}), queue(1, {PUBLISHED: 8000})], ids=["changes", "whole"])
def test_a_doubt_with_the_values_of_before_is_one_of_the_next_reading(
    doubt: UpdateRecord | ObjectRecord,
) -> None:
    """What a node had counted that is gone now is in the last reading still."""
    shop = Shop(EVERYTHING)
    shop.publish(queue(1, {PUBLISHED: 8000}))
    shop.publish(msgspec.structs.replace(doubt, reset=T0 + SECOND, counting=Counting.UNKNOWN))
    (record,) = shop.publish(update({PUBLISHED: 8030}, now=T0 + SECOND, reset=T0 + SECOND))
    assert record.deltas == {"published": LOST}
    (record,) = shop.publish(update({PUBLISHED: 8037}, now=T0 + 2 * SECOND, reset=T0 + SECOND))
    assert record.deltas == {"published": Delta(7, SECOND)}


def test_a_rise_that_counted_for_nothing_is_not_taken_back() -> None:
    """A node of a cluster came back with what it had counted; then one reading was behind."""
    shop = Shop(EVERYTHING)
    shop.publish(queue(1, {PUBLISHED: 5000}))
    doubt = update({PUBLISHED: 8000}, now=T0 + SECOND, reset=T0 + SECOND)
    (record,) = shop.publish(msgspec.structs.replace(doubt, counting=Counting.UNKNOWN))
    assert record.deltas == {"published": LOST}
    assert shop.publish(update({PUBLISHED: 7990}, now=T0 + 2 * SECOND, reset=T0 + 2 * SECOND)) == []
    assert deltas(shop.wait(2 * MINUTE)) == [LOST]


def test_a_head_while_a_counter_waits_has_its_recorded_value() -> None:
    shop = Shop(EVERYTHING)
    shop.publish(queue(1, {PUBLISHED: 1000}))
    shop.publish(update({PUBLISHED: 700}, now=T0 + SECOND))
    whole = shop.head()[-1]
    assert (whole.kind, whole.values) == (RecordKind.SNAPSHOT, {"published": 1000})
    assert shop.publish(update({PUBLISHED: 1000}, now=T0 + 2 * SECOND)) == []


def test_the_end_of_an_object_ends_the_wait_of_its_counters() -> None:
    shop = Shop(EVERYTHING)
    shop.publish(queue(1, {PUBLISHED: 1000}))
    shop.publish(update({PUBLISHED: 700}, now=T0 + SECOND))
    last, end = shop.publish(deletion())
    assert (last.deltas, end.kind) == ({"published": LOST}, RecordKind.DELETE)


def test_a_value_that_no_counter_can_have_does_not_count() -> None:
    assert [one.delta for one in deltas(readings(1000, -3, 1020))] == [20]


def test_a_counter_that_was_absent_for_a_while_goes_on_from_what_it_had() -> None:
    shop = Shop(EVERYTHING)
    shop.publish(queue(1, {PUBLISHED: 100}))
    (record,) = shop.publish(update({}, PUBLISHED))
    assert (record.values, record.absent, record.deltas) == (None, ["published"], None)
    assert record.former == {"published": 100}, "for a gateway that is started before it is there again"
    (record,) = shop.publish(update({PUBLISHED: 120}, now=T0 + SECOND))
    assert (record.values, record.deltas) == ({"published": 120}, {"published": Delta(20)})


def test_a_counter_that_was_absent_when_all_began_again_has_counted_all_it_shows() -> None:
    shop = Shop(EVERYTHING)
    shop.publish(queue(1, {PUBLISHED: 100, DELIVERED: 90}))
    shop.publish(update({}, PUBLISHED))
    (record,) = shop.publish(began(update({}, DELIVERED, reset=T0 + SECOND)))
    assert (record.absent, record.former) == (["delivered"], {"delivered": None})
    (record,) = shop.publish(update({PUBLISHED: 120, DELIVERED: 9}, now=T0 + 2 * SECOND, reset=T0 + SECOND))
    assert record.deltas == {"published": Delta(120, reset=True), "delivered": Delta(9, reset=True)}
    (record,) = shop.publish(update({PUBLISHED: 121}, now=T0 + 3 * SECOND, reset=T0 + SECOND))
    assert record.deltas == {"published": Delta(1, SECOND)}


def test_what_came_and_went_before_it_was_reported_is_not_reported() -> None:
    shop = Shop()
    shop.publish(queue(1, {DEPTH: 0}))
    shop.publish(update({DELIVERED: 1}))
    shop.publish(update({}, DELIVERED))
    assert shop.wait(MINUTE) == []


def test_what_was_reported_absent_is_not_reported_absent_again() -> None:
    shop = Shop()
    shop.publish(queue(1, {DEPTH: 3}))
    shop.publish(update({}, DEPTH))
    assert [record.absent for record in shop.wait(MINUTE)] == [["depth"]]
    shop.publish(update({DEPTH: 1}))
    shop.publish(update({}, DEPTH))
    assert shop.wait(MINUTE) == []


def test_a_property_reported_meanwhile_does_not_shorten_the_interval_of_counters() -> None:
    shop = Shop()
    shop.publish(queue(1, {PUBLISHED: 0}))
    shop.publish(update({PUBLISHED: 5}, now=T0 + 10 * SECOND))
    (property_reported,) = shop.publish(update({PAUSED: True}, now=T0 + 10 * SECOND))
    assert property_reported.deltas is None
    (record,) = shop.wait(MINUTE)
    assert record.deltas == {"published": Delta(5, 10 * SECOND)}


def test_the_last_values_of_an_object_are_reported_before_its_end() -> None:
    shop = Shop()
    created, last, end = shop.publish(
        queue(1, {PUBLISHED: 1}), update({PUBLISHED: 5}, now=T0 + SECOND), deletion(deleted=T0 + 2 * SECOND)
    )
    assert kinds([created, last, end]) == ["create", "update", "delete"]
    assert (last.values, last.deltas) == ({"published": 5}, {"published": Delta(4, SECOND)})
    assert end.object_id == "shop/shop:queue/1"
    assert (end.create_ts, end.delete_ts) == ("2026-11-20T14:59:59.000000Z", "2026-11-20T15:00:02.000000Z")
    assert (end.inferred, end.values) == (None, None)
    assert len(shop.mirror) == 0
    shop.publish(queue(2), update({DEPTH: 1}, row=2), deletion(2))
    assert shop.mirror.wake_at is None, "what is gone is not waited for"
    assert shop.wait(10 * MINUTE) == []


def test_an_end_that_was_not_reported_has_no_time() -> None:
    shop = Shop()
    shop.publish(queue())
    (end,) = shop.publish(deletion(inferred=True))
    assert (end.inferred, end.delete_ts) == (True, None)


def test_an_object_that_came_back_reports_all_that_is_new_at_once() -> None:
    shop = Shop()
    shop.publish(queue(1, {NAME: "q1", VHOST: ROOT, DEPTH: 9, PUBLISHED: 50}))
    again = msgspec.structs.replace(
        queue(1, {NAME: "q1", VHOST: ROOT, PUBLISHED: 50}),
        native_id="n2",
        created=T0 + SECOND,
        reset=T0 + 2 * SECOND,
        counting=Counting.BEGAN,
        statistics_sampled=T0 + 2 * SECOND,
    )
    (record,) = shop.publish(again)
    assert record.kind is RecordKind.UPDATE
    assert (record.native_id, record.create_ts) == ("n2", "2026-11-20T15:00:01.000000Z")
    assert (record.values, record.absent) == ({"published": 50}, ["depth"])
    assert record.deltas == {"published": Delta(50, 2 * SECOND, reset=True)}
    assert record.inferred is None


def test_an_object_without_a_time_of_creation_that_came_back_is_inferred_to_be_the_same() -> None:
    shop = Shop()
    shop.publish(msgspec.structs.replace(queue(1), created=0))
    (record,) = shop.publish(msgspec.structs.replace(queue(1), created=0, native_id="n2"))
    assert (record.kind, record.native_id, record.inferred) == (RecordKind.UPDATE, "n2", True)
    (record,) = shop.publish(update({NAME: "q2"}))
    assert record.inferred is None


def test_an_object_that_belongs_to_another_one_says_so_at_once() -> None:
    shop = Shop()
    shop.publish(queue(1, {VHOST: ROOT, DEPTH: 9}))
    other = ObjectLink("shop:vhost", 2, "other")
    (record,) = shop.publish(msgspec.structs.replace(queue(1, {VHOST: other, DEPTH: 10}), parent=other))
    assert record.parent_id == "shop/shop:vhost/2"
    assert record.values == {"vhost": "shop/shop:vhost/2"}
    assert [record.values for record in shop.wait(MINUTE)] == [{"depth": 10}]


def test_values_that_json_has_no_form_for_are_text_and_integers_keep_their_bits() -> None:
    identifier = UUID(int=7)
    values: dict[int, FeedValue] = {
        0: T0 + 123_456_789,
        1: b"\x00\xff",
        2: ObjectLink("shop:oddity", 0, "never seen"),
        3: identifier,
        4: (1, b"\x01", (float("nan"), Reference("n3"))),
        5: 1_500_000_000,
        6: float("inf"),
        7: 2**64 - 1,
        8: -(2**63),
    }
    (reported,) = Shop().publish(msgspec.structs.replace(queue(1, values), class_number=ODDITY.number))
    assert msgspec.json.decode(msgspec.json.encode(reported))["values"] == {
        "born": "2026-11-20T15:00:00.123456789Z",
        "token": "00ff",
        "twin": "never seen",
        "id": str(identifier),
        "parts": [1, "01", ["nan", "n3"]],
        "age": 1_500_000_000,
        "ratio": "inf",
        "largest": 18_446_744_073_709_551_615,
        "smallest": -9_223_372_036_854_775_808,
    }


def test_a_creation_time_that_is_not_known_is_absent_and_an_element_of_zero_is_a_time() -> None:
    shop = Shop()
    odd = msgspec.structs.replace(queue(1, {0: 0, 5: 0}), class_number=ODDITY.number, created=0)
    (reported,) = shop.publish(odd)
    values = {"born": "1970-01-01T00:00:00.000000000Z", "age": 0}
    assert (reported.values, reported.create_ts) == (values, None)
