"""Events and the alarm of a source that is down, up again, or was not received for a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.feed.records import EventRecord, GapRecord
from gateway.model.observations import (
    ClassNotReadable,
    EventState,
    Gap,
    Severity,
    SourceState,
    SourceStateSeen,
)
from gateway.model.times import SECOND
from tests.inventory.playbook import NOW, Playbook, of, vhost

RAISED, CLEARED, ONE_SHOT = EventState.RAISED, EventState.CLEARED, EventState.ONE_SHOT


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    return Playbook(tmp_path)


def reported(playbook: Playbook, *states: SourceState, detail: str = "") -> list[EventRecord]:
    return [e for state in states for e in of(EventRecord, playbook.publish(SourceStateSeen(state, detail)))]


def brief(events: list[EventRecord]) -> list[tuple[str, Severity, EventState, str]]:
    return [(event.text, event.severity, event.state, event.condition) for event in events]


def test_a_source_that_is_known_for_the_first_time_is_up(playbook: Playbook) -> None:
    states = (SourceState.CONNECTING, SourceState.SYNCHRONISING, SourceState.SYNCHRONISED)
    assert brief(reported(playbook, *states)) == [
        ("source shop is synchronised", Severity.INFO, ONE_SHOT, "")
    ]


@pytest.mark.parametrize("state", [SourceState.DOWN, SourceState.CONNECTING])
@pytest.mark.parametrize("before", [SourceState.SYNCHRONISED, SourceState.DEGRADED])
def test_a_source_that_was_trusted_and_is_not_reached_is_down(
    playbook: Playbook, before: SourceState, state: SourceState
) -> None:
    reported(playbook, before)
    (down,) = reported(playbook, state, detail="nothing listens there")
    text = f"source shop is {state.value}: nothing listens there"
    assert brief([down]) == [(text, Severity.MAJOR, RAISED, "sourceDown")]
    assert down.values == {0: state.value, 1: "nothing listens there"}
    (up,) = reported(playbook, SourceState.SYNCHRONISING, before)
    assert brief([up]) == [(f"source shop is {before.value}", Severity.CLEARED, CLEARED, "sourceDown")]


def test_a_source_that_is_down_from_the_start_is_reported_but_one_that_only_tries_is_not(
    playbook: Playbook,
) -> None:
    assert not reported(playbook, SourceState.CONNECTING, SourceState.SYNCHRONISING, SourceState.CONNECTING)
    assert [event.state for event in reported(playbook, SourceState.DOWN)] == [RAISED]


def test_trying_again_and_again_is_reported_once(playbook: Playbook) -> None:
    reported(playbook, SourceState.SYNCHRONISED)
    states = (SourceState.CONNECTING, SourceState.DOWN, SourceState.SYNCHRONISING) * 3
    assert len(reported(playbook, *states)) == 1


def test_staleness_is_not_the_end(playbook: Playbook) -> None:
    reported(playbook, SourceState.SYNCHRONISED)
    assert not reported(playbook, SourceState.DEGRADED, SourceState.SYNCHRONISING, SourceState.SYNCHRONISED)


def test_a_source_that_is_lost_during_a_resync_was_trusted_before(playbook: Playbook) -> None:
    reported(playbook, SourceState.SYNCHRONISED)
    assert len(reported(playbook, SourceState.SYNCHRONISING, SourceState.CONNECTING)) == 1


@pytest.mark.parametrize(
    ("partly", "text"),
    [
        (False, "cannot be read since 1970-01-01T00:00:05Z: why; what is known of its objects is stale"),
        (True, "is read in part since 1970-01-01T00:00:05Z: why; the others of its objects are stale"),
    ],
    ids=["whole", "part"],
)
def test_a_class_that_is_not_read_is_an_alarm_until_it_is(
    playbook: Playbook, *, partly: bool, text: str
) -> None:
    reported(playbook, SourceState.SYNCHRONISED)
    lacking = (ClassNotReadable("shop:queue", "why", 5 * SECOND, partly),)
    degraded = SourceStateSeen(SourceState.DEGRADED, not_readable=lacking)
    events = of(EventRecord, [*playbook.publish(degraded), *playbook.publish(degraded)])
    condition = 'classNotReadable "shop:queue"'
    assert brief(events) == [(f"shop: shop:queue {text}", Severity.MINOR, RAISED, condition)]
    again = reported(playbook, SourceState.SYNCHRONISED)
    assert brief(again) == [("shop: shop:queue is read again", Severity.CLEARED, CLEARED, condition)]


def test_a_gap_is_a_record_and_an_event(playbook: Playbook) -> None:
    playbook.synchronise(vhost("/", "v1"))
    records = playbook.publish(Gap(NOW, NOW + 90 * SECOND, "the queue overflowed"))
    assert of(GapRecord, records) == [GapRecord(1, NOW, NOW + 90 * SECOND, "the queue overflowed")]
    (event,) = of(EventRecord, records)
    assert event.values == {0: NOW, 1: NOW + 90 * SECOND, 2: "the queue overflowed"}
    text = "shop: for 1 min 30 s from 2023-11-14T22:13:20Z on: the queue overflowed"
    assert brief([event]) == [(text, Severity.WARNING, ONE_SHOT, "")]
