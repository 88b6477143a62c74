"""Alarms across a restart of the gateway are known again; the first observation clears those that ended."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.feed.records import EventRecord
from gateway.mapping.rules import Mapping
from gateway.model.observations import EventLearned, EventState, ObjectSeen, SourceState, SourceStateSeen
from gateway.model.schema import EventSchema
from gateway.model.times import SECOND
from gateway.yaml_documents import parse_document
from tests.inventory.plant import (
    MAPPING,
    SCHEMAS,
    about,
    alarms,
    event,
    events,
    machine,
    plant,
    standing,
    visitor,
)
from tests.inventory.playbook import Playbook

ONE_SHOT, CLEARED = EventState.ONE_SHOT, EventState.CLEARED


@pytest.fixture
def before(tmp_path: Path) -> Playbook:
    """Return a gateway that ran on the same state, and was killed: nothing is closed in order."""
    playbook = plant(tmp_path)
    playbook.synchronise(machine())
    return playbook


def restarted(tmp_path: Path) -> Playbook:
    """Return another gateway on the state, a minute later."""
    playbook = plant(tmp_path, boot=2)
    playbook.now += 60 * SECOND
    return playbook


def reported(playbook: Playbook, *objects: ObjectSeen) -> list[str]:
    """Return the texts of the events of conditions that a resync causes."""
    return [e.text for e in events(playbook.synchronise(*objects)) if e.state is not ONE_SHOT]


def test_an_alarm_that_still_stands_is_the_same_and_not_reported_again(
    tmp_path: Path, before: Playbook
) -> None:
    former = alarms(before.publish(machine(hot=True)))
    playbook = restarted(tmp_path)
    assert alarms(playbook.snapshot()) == former, "from the first moment"
    assert reported(playbook, machine(hot=True)) == []
    assert alarms(playbook.snapshot()) == former


def test_one_that_ended_meanwhile_is_cleared_by_the_first_look(tmp_path: Path, before: Playbook) -> None:
    (former,) = alarms(before.publish(machine(hot=True)))
    playbook = restarted(tmp_path)
    assert reported(playbook, machine()) == ["cleared after 1 min: press is too hot (0 of 100)"]
    (later,) = alarms(playbook.publish(machine(hot=True)))
    assert later.number > former.number


@pytest.mark.parametrize("raising", ["heatRose", "doorOpened"])
def test_one_whose_object_is_gone_is_cleared_when_all_is_reported(
    tmp_path: Path, before: Playbook, raising: str
) -> None:
    before.publish(about(raising))
    playbook = restarted(tmp_path)
    (text,) = reported(playbook, machine("saw", "m2"))
    assert text.startswith("cleared after 1 min, its object is gone: ")
    assert not standing(playbook)


def test_a_resync_that_fell_short_ends_nothing(tmp_path: Path, before: Playbook) -> None:
    before.publish(machine(hot=True))
    playbook = restarted(tmp_path)
    playbook.synchronise(complete=False)
    assert standing(playbook) == ["overheated"]


def test_what_only_events_report_lasts_until_its_event(tmp_path: Path, before: Playbook) -> None:
    before.publish(about("doorOpened"), event("strikeBegan"))
    playbook = restarted(tmp_path)
    assert reported(playbook, machine(native_id="m7")) == []
    assert standing(playbook) == ["open", "strike"]
    playbook.publish(about("doorClosed", "m7"), event("strikeEnded"))
    assert not standing(playbook)


def test_an_alarm_that_ended_before_is_not_back(tmp_path: Path, before: Playbook) -> None:
    before.publish(machine(hot=True))
    before.publish(machine())
    assert not standing(restarted(tmp_path))


def test_a_new_incarnation_of_a_name_inherits_no_alarm(tmp_path: Path) -> None:
    transient = "    lifetime: {default: transient}\n"
    alarm = "    alarms: {here: {element: badge, not_empty: true, severity: info, text: '{name} is here'}}\n"
    mapping = parse_document(MAPPING.replace(transient, transient + alarm), Mapping, Path("plant.yaml"))
    first = Playbook(tmp_path, mapping=mapping, schemas=SCHEMAS)
    (former,) = alarms(first.synchronise(visitor("Bob", "v1", created=5)))
    second = Playbook(tmp_path, boot=2, mapping=mapping, schemas=SCHEMAS)
    over, new = alarms(second.synchronise(visitor("Bob", "v1", created=5)))
    assert (over.number, over.cleared) == (former.number, second.now)
    assert (new.condition, new.cleared) == (former.condition, 0), "raised after the former one is cleared"
    assert new.subject != former.subject


def test_an_alarm_of_which_no_rule_reports_any_more_is_cleared(tmp_path: Path, before: Playbook) -> None:
    before.publish(about("doorOpened"), event("strikeBegan"))
    fewer = MAPPING.replace("clears: open", "").replace("clears: strike", "")
    mapping = parse_document(fewer, Mapping, Path("plant.yaml"))
    playbook = Playbook(tmp_path, boot=2, mapping=mapping, schemas=SCHEMAS)
    assert reported(playbook, machine()) == [
        "cleared after 0 s, nothing reports it any more: a door of press is open",
        "cleared after 0 s, nothing reports it any more: strike",
    ]


def test_a_source_that_was_down_before_is_not_reported_down_again(tmp_path: Path, before: Playbook) -> None:
    before.publish(SourceStateSeen(SourceState.DOWN, "no answer"))
    playbook = restarted(tmp_path)
    assert not events(playbook.publish(SourceStateSeen(SourceState.DOWN, "no answer")))
    assert standing(playbook) == ["sourceDown"]
    (up,) = events(playbook.synchronise(machine()))
    assert (up.state, up.condition) == (CLEARED, "sourceDown")
    assert not standing(playbook)


def test_an_alarm_that_cannot_be_read_is_raised_again(tmp_path: Path, before: Playbook) -> None:
    before.publish(machine(hot=True))
    before.index.close()
    with closing(sqlite3.connect(tmp_path / "instances.sqlite3")) as database, database:
        database.execute("UPDATE alarms SET alarm = '{'")
    playbook = restarted(tmp_path)
    assert not standing(playbook)
    assert [alarm.name for alarm in alarms(playbook.synchronise(machine(hot=True)))] == ["overheated"]
    assert len(playbook.index.alarms(1)) == 1


def recalled(playbook: Playbook, *records: EventRecord) -> Playbook:
    """Return the gateway with the earlier events of the event log."""
    playbook.inventory.recall(records, {})
    return playbook


def test_one_that_was_cleared_without_a_record_is_reported_by_the_first_look(
    tmp_path: Path, before: Playbook
) -> None:
    """The core was killed after the index was on the disk, and before the event was."""
    raised = events(before.publish(machine(hot=True), event("strikeBegan")))
    before.publish(machine(), event("strikeEnded"))
    playbook = recalled(restarted(tmp_path), *raised)
    cleared = [one for one in events(playbook.synchronise(machine())) if one.state is CLEARED]
    assert sorted((one.condition, one.text) for one in cleared) == [
        (one.condition, f"cleared before the gateway was started again: {one.text}")
        for one in sorted(raised, key=lambda one: one.condition)
    ]
    assert not standing(playbook)
    assert not events(playbook.synchronise(machine())), "once"


def test_a_clearing_that_is_recorded_or_received_again_is_not_reported_by_the_gateway(
    tmp_path: Path, before: Playbook
) -> None:
    raised = events(before.publish(machine(hot=True), event("strikeBegan")))
    cleared = events(before.publish(machine(), event("strikeEnded")))
    playbook = recalled(restarted(tmp_path), *raised, *cleared)
    assert reported(playbook, machine()) == []
    playbook = recalled(restarted(tmp_path), *raised)
    playbook.publish(*(EventLearned(one) for one in SCHEMAS if isinstance(one, EventSchema)))
    again = events(playbook.publish(event("strikeEnded")))
    later = [one for one in events(playbook.synchronise(machine(hot=True))) if one.state is not ONE_SHOT]
    assert [one.state for one in (*again, *later)] == [CLEARED, EventState.RAISED]


def test_one_that_is_active_is_not_reported_as_cleared(tmp_path: Path, before: Playbook) -> None:
    raised = events(before.publish(machine(hot=True), event("strikeBegan")))
    playbook = recalled(restarted(tmp_path), *raised)
    assert reported(playbook, machine(hot=True)) == []
    assert standing(playbook) == ["strike", "overheated"]
