"""A subscriber that is slow: merged values, no lost create, delete or event, and a bound that holds."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.operations import OperationAnswer, OperationState
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    AlarmRecord,
    Batch,
    DeleteRecord,
    EventLogRecord,
    EventLogState,
    EventRecord,
    FeedMessage,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SnapshotEnded,
    UpdateRecord,
)
from gateway.feed.subscription import MAX_BATCH_RECORDS, SNAPSHOT_BATCH_RECORDS, Subscription
from gateway.model.observations import Severity
from gateway.model.operations import Outcome
from tests.feed.test_messages import OBJECT
from tests.feed.test_operation_messages import RECORD as OPERATION

ANSWER = OperationAnswer(1, "gw.1.o1", Outcome.APPLIED)


def created(row: int, **values: int) -> ObjectRecord:
    return msgspec.structs.replace(OBJECT, row=row, values={int(k[1:]): v for k, v in values.items()})


def updated(row: int, values: dict[int, int], absent: tuple[int, ...] = ()) -> UpdateRecord:
    return UpdateRecord(OBJECT.source, OBJECT.class_number, row, 2, 3, 4, 5, values, absent)


def deleted(row: int) -> DeleteRecord:
    return DeleteRecord(OBJECT.source, OBJECT.class_number, row, "n", 1, inferred=False)


def event(number: int) -> EventRecord:
    return EventRecord(f"gw.1.{number}", 1, 1, "", 1, Severity.INFO, {}, number)


def alarm(number: int, *, cleared: int = 0) -> AlarmRecord:
    return AlarmRecord(number, 1, "full", "full", Severity.MAJOR, None, "full", "gw.1.1", 1, cleared)


def agent(confirmed: int) -> AgentRecord:
    return AgentRecord(1, "1.0", fresh=True, since=1, confirmed=confirmed)


def taken(subscription: Subscription) -> list[FeedMessage]:
    messages: list[FeedMessage] = []
    while (message := subscription.take()) is not None:
        messages.append(message)
    return messages


def fed(limit: int, *records: Record) -> Subscription:
    subscription = Subscription(epoch=1, limit=limit)
    subscription.start_snapshot([], 0)
    taken(subscription)
    for number, record in enumerate(records, start=1):
        subscription.offer(Batch(1, number, (record,)))
    return subscription


def test_a_new_subscriber_gets_a_snapshot_in_small_batches_and_then_what_came_meanwhile() -> None:
    subscription = Subscription(epoch=1)
    assert subscription.needs_snapshot
    rows = [created(row) for row in range(SNAPSHOT_BATCH_RECORDS + 1)]
    subscription.start_snapshot(rows, 41)
    later = Batch(1, 42, (deleted(3),))
    subscription.offer(later)
    messages = taken(subscription)
    assert messages[0] == SnapshotBegan(1, 41)
    assert messages[3:] == [SnapshotEnded(1, 41), later]
    assert [len(m.records) for m in messages[1:3] if isinstance(m, Batch)] == [SNAPSHOT_BATCH_RECORDS, 1]


def test_what_fits_is_passed_on_as_it_is() -> None:
    subscription = fed(3, updated(1, {0: 1}), updated(1, {0: 2}), deleted(1))
    assert [m.sequence for m in taken(subscription) if isinstance(m, Batch)] == [1, 2, 3]
    assert subscription.merges == 0


def test_very_much_at_once_is_passed_on_in_several_messages() -> None:
    records = [created(row, p0=row) for row in range(1, 3 * MAX_BATCH_RECORDS)]
    subscription = fed(100_000)
    subscription.offer(Batch(1, 1, tuple(records)))
    messages = taken(subscription)
    assert [len(one.records) for one in messages if isinstance(one, Batch)] == [
        MAX_BATCH_RECORDS,
        MAX_BATCH_RECORDS,
        MAX_BATCH_RECORDS - 1,
    ]
    assert [record for one in messages if isinstance(one, Batch) for record in one.records] == records
    assert subscription.waiting == 0


def test_updates_of_a_slow_subscriber_are_merged_to_the_latest() -> None:
    subscription = fed(2, updated(1, {0: 1, 1: 1}), updated(2, {0: 9}), updated(1, {0: 2}, absent=(1,)))
    assert taken(subscription) == [Batch(1, 3, (updated(1, {0: 2}, absent=(1,)), updated(2, {0: 9})))]


def test_a_create_stays_a_create_with_its_latest_values() -> None:
    subscription = fed(1, created(1, p0=1, p1=1), updated(1, {0: 5}, absent=(1,)))
    (batch,) = taken(subscription)
    assert isinstance(batch, Batch)
    (record,) = batch.records
    assert isinstance(record, ObjectRecord)
    assert record.values == {0: 5}


def test_what_exceeds_the_limit_all_the_same_asks_for_a_new_snapshot_and_is_counted() -> None:
    subscription = fed(2, *(created(row) for row in range(3)))
    assert subscription.needs_snapshot
    assert subscription.overflows == 1
    assert taken(subscription) == []


def test_states_of_alarms_and_agents_are_merged_where_they_began() -> None:
    subscription = fed(5, agent(1), alarm(7), event(1), agent(2), alarm(7, cleared=5), alarm(8))
    assert taken(subscription) == [Batch(1, 6, (agent(2), alarm(7, cleared=5), event(1), alarm(8)))]


def test_that_an_agent_is_gone_is_reported_behind_the_end_of_its_objects() -> None:
    gone = AgentGoneRecord(1, "1.0", 9)
    subscription = fed(3, agent(1), alarm(7, cleared=5), event(1), gone)
    assert taken(subscription) == [Batch(1, 4, (alarm(7, cleared=5), event(1), gone))]
    subscription = fed(3, agent(1), gone, event(1), agent(2))
    assert taken(subscription) == [Batch(1, 4, (agent(2), event(1)))]


def test_the_event_log_stands_as_it_does_now() -> None:
    earlier, later = (EventLogRecord(EventLogState.WRITING, committed=number) for number in (1, 2))
    assert taken(fed(2, earlier, event(1), later)) == [Batch(1, 3, (later, event(1)))]


def test_an_operation_stands_as_it_does_now() -> None:
    begun = msgspec.structs.replace(OPERATION, state=OperationState.BEGUN, outcome=None)
    ended, another = OPERATION, msgspec.structs.replace(OPERATION, number=2)
    assert taken(fed(3, begun, event(1), another, ended)) == [Batch(1, 4, (ended, event(1), another))]


def test_an_answer_comes_after_observations_before_it_however_that_is_merged() -> None:
    subscription = fed(2, updated(1, {0: 1}))
    subscription.answer(ANSWER)
    for number in range(2, 5):
        subscription.offer(Batch(1, number, (updated(1, {0: number}),)))
    assert taken(subscription) == [
        Batch(1, 3, (updated(1, {0: 3}),)),
        ANSWER,
        Batch(1, 4, (updated(1, {0: 4}),)),
    ]
    assert subscription.answers == 0


def test_an_answer_waits_for_the_snapshot_that_a_slow_subscriber_needs() -> None:
    subscription = fed(2, created(1))
    subscription.answer(ANSWER)
    subscription.offer(Batch(1, 2, (created(2), created(3))))
    assert subscription.needs_snapshot
    assert taken(subscription) == []
    subscription.start_snapshot([], 2)
    assert taken(subscription) == [SnapshotBegan(1, 2), SnapshotEnded(1, 2), ANSWER]


def test_no_event_is_merged_away() -> None:
    subscription = fed(4, *(event(number) for number in range(1, 5)), updated(1, {0: 1}))
    assert subscription.needs_snapshot, "five records of which none can be merged do not fit"
    subscription = fed(5, *(event(n) for n in range(1, 5)), updated(1, {0: 1}), updated(1, {0: 2}))
    (batch,) = taken(subscription)
    assert isinstance(batch, Batch)
    assert [r.number for r in batch.records if isinstance(r, EventRecord)] == [1, 2, 3, 4]


def state_after(records: list[Record]) -> dict[int, dict[int, object]]:
    state: dict[int, dict[int, object]] = {}
    for record in records:
        if isinstance(record, ObjectRecord):
            state[record.row] = dict(record.values)
        elif isinstance(record, UpdateRecord):
            for position in record.absent:
                state[record.row].pop(position, None)
            state[record.row].update(record.values)
        elif isinstance(record, DeleteRecord):
            del state[record.row]
    return state


def key(record: ObjectRecord | DeleteRecord | EventRecord) -> tuple[type, int]:
    return type(record), record.number if isinstance(record, EventRecord) else record.row


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    alive: set[int] = set()
    history: list[Record] = []
    for row, what in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=40)):
        if row == 0:
            history.append(event(len(history)))
        elif row not in alive:
            alive.add(row)
            history.append(created(row, p0=what))
        elif what == 0:
            alive.discard(row)
            history.append(deleted(row))
        else:
            history.append(updated(row, {what % 3: what}, (what % 2 + 3,)))
    return history


@given(histories(), st.integers(1, 12))
def test_merging_never_changes_what_a_subscriber_ends_up_with(history: list[Record], limit: int) -> None:
    subscription = fed(limit, *history)
    if not subscription.needs_snapshot:
        seen = [r for m in taken(subscription) if isinstance(m, Batch) for r in m.records]
        assert state_after(seen) == state_after(history)
        lasting = ObjectRecord | DeleteRecord | EventRecord
        assert [key(r) for r in seen if isinstance(r, lasting)] == [
            key(r) for r in history if isinstance(r, lasting)
        ]
