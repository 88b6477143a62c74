"""The record of the event log in the inventory, and the events when trouble begins and ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.feed.records import (
    AlarmRecord,
    Batch,
    EventClassRecord,
    EventLogRecord,
    EventLogState,
    EventRecord,
    Record,
)
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import HOLD, Inventory
from gateway.model.observations import EventState, Severity
from tests.components.opened_index import opened_index

NOW = 1_790_000_000 * 10**9
WELL = EventLogRecord(EventLogState.WRITING)
FULL = EventLogRecord(EventLogState.DISK_FULL, "3 MiB are free", lost=2)
SLOW = EventLogRecord(EventLogState.SLOW, "a commit took 3 s")


class Reported:
    """An inventory without sources, and its published batches."""

    def __init__(self, path: Path) -> None:
        self.index = opened_index(path)
        self.published: list[Batch] = []
        self.inventory = Inventory("gw", 3, ClassRegistry({}), self.index, self.published.append)

    def stands(self, record: EventLogRecord, now: int) -> list[Record]:
        """Apply a record of the event log; return the resulting records."""
        self.published.clear()
        self.inventory.event_log_changed(record, now)
        return [record for batch in self.published for record in batch.records]

    def tick(self, now: int) -> list[Record]:
        """Let a second pass; return the resulting records."""
        self.published.clear()
        self.inventory.tick(now)
        return [record for batch in self.published for record in batch.records]

    def event_name(self, record: Record) -> str:
        """Return the name of an event, by its class in the snapshot."""
        assert isinstance(record, EventRecord)
        classes = {c.number: c for c in self.inventory.snapshot()[0] if isinstance(c, EventClassRecord)}
        return str(classes[record.class_number].schema.key)


@pytest.fixture
def reported(tmp_path: Path) -> Iterator[Reported]:
    reported = Reported(tmp_path / "instances.sqlite3")
    yield reported
    reported.index.close()


def test_that_the_log_is_written_is_reported_once(reported: Reported) -> None:
    record, event = reported.stands(WELL, NOW)
    assert record == WELL
    assert reported.event_name(event) == "gateway:logWritten"
    assert isinstance(event, EventRecord)
    assert (event.source, event.state, event.condition) == (0, EventState.ONE_SHOT, ""), "no alarm was raised"
    assert event.severity is Severity.INFO
    assert reported.stands(WELL, NOW) == []
    assert reported.stands(EventLogRecord(EventLogState.WRITING, committed=5), NOW) == [
        EventLogRecord(EventLogState.WRITING, committed=5)
    ]


def raised_before(reported: Reported) -> EventRecord:
    """Return the event by which an earlier core raised the alarm."""
    _, event, _ = reported.stands(FULL, NOW)
    assert isinstance(event, EventRecord)
    return event


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("state", [EventLogState.WRITING, EventLogState.OFF])
def test_an_alarm_of_an_earlier_core_is_cleared_once(
    reported: Reported, tmp_path: Path, *, is_recorded: bool, state: EventLogState
) -> None:
    event = raised_before(reported)
    again = Reported(tmp_path / "again.sqlite3")
    events = [event] if is_recorded else []
    again.inventory.recall(events, {3: 1})
    if not is_recorded:
        again.inventory.expect_log_clearing()
    assert again.inventory.log_alarm_is_raised
    _, cleared = again.stands(EventLogRecord(state), NOW + HOLD)
    assert isinstance(cleared, EventRecord)
    assert (cleared.state, cleared.severity) == (EventState.CLEARED, Severity.CLEARED)
    assert cleared.condition == event.condition
    assert not again.inventory.log_alarm_is_raised
    assert again.tick(NOW + 2 * HOLD) == []
    again.index.close()


def test_a_log_that_is_off_has_no_trouble(reported: Reported) -> None:
    off = EventLogRecord(EventLogState.OFF)
    assert reported.stands(off, NOW) == [off]
    assert reported.tick(NOW + HOLD) == []


def test_trouble_is_an_event_and_an_alarm_until_it_is_over_for_a_while(reported: Reported) -> None:
    reported.stands(WELL, NOW)
    record, event, alarm = reported.stands(FULL, NOW + 5)
    assert record == FULL
    assert reported.event_name(event) == "gateway:logTrouble"
    assert isinstance(event, EventRecord)
    assert (event.severity, event.state, event.text) == (
        Severity.MAJOR,
        EventState.RAISED,
        "event log: disk-full: 3 MiB are free",
    )
    assert event.values == {0: "disk-full", 1: "3 MiB are free", 2: 2}
    assert isinstance(alarm, AlarmRecord)
    assert (alarm.source, alarm.event_id, alarm.raised) == (0, event.event_id, NOW + 5)
    assert [r for r in reported.inventory.snapshot()[0] if isinstance(r, EventLogRecord | AlarmRecord)] == [
        FULL,
        alarm,
    ]
    later = NOW + 5 + 60 * 10**9
    assert reported.stands(WELL, later) == [WELL]
    assert reported.tick(later + HOLD - 1) == []
    cleared, over = reported.tick(later + HOLD)
    assert isinstance(cleared, EventRecord)
    assert isinstance(over, AlarmRecord)
    assert (cleared.state, cleared.condition) == (EventState.CLEARED, alarm.condition)
    assert cleared.text == "the event log is written again after 1 min"
    assert (over.number, over.cleared) == (alarm.number, later + HOLD)
    assert reported.tick(later + 2 * HOLD) == []


def test_trouble_that_comes_and_goes_is_one_condition(reported: Reported) -> None:
    reported.stands(WELL, NOW)
    assert len(reported.stands(SLOW, NOW)) == 3
    for second in range(1, 5):
        assert reported.stands(WELL, NOW + second * 10**9) == [WELL]
        assert reported.stands(SLOW, NOW + second * 10**9 + 1) == [SLOW]


def test_trouble_of_another_kind_is_reported_again_and_is_the_same_alarm(reported: Reported) -> None:
    _, first, began = reported.stands(SLOW, NOW)
    _, second, goes_on = reported.stands(FULL, NOW + 9)
    assert isinstance(began, AlarmRecord)
    assert isinstance(goes_on, AlarmRecord)
    assert isinstance(first, EventRecord)
    assert isinstance(second, EventRecord)
    assert (first.severity, second.severity) == (Severity.WARNING, Severity.MAJOR)
    assert (goes_on.number, goes_on.raised) == (began.number, NOW)
    assert (goes_on.severity, goes_on.event_id) == (Severity.MAJOR, second.event_id)


def test_each_trouble_has_a_number_of_its_own_and_none_is_kept(reported: Reported) -> None:
    numbers = set()
    for round_ in range(3):
        now = NOW + round_ * 100 * 10**9
        alarm = reported.stands(FULL, now)[-1]
        assert isinstance(alarm, AlarmRecord)
        numbers.add(alarm.number)
        reported.stands(WELL, now + 10**9)
        assert reported.tick(now + 10**9 + HOLD)
    assert len(numbers) == 3
    assert reported.index.alarms(0) == []
