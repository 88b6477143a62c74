"""Lasting conditions are raised and cleared once, by values of objects and by events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from gateway.feed.access import Quoted
from gateway.feed.records import AlarmRecord, DeleteRecord, EventRecord, ObjectRecord, UpdateRecord
from gateway.inventory.alarms import HOLD, MAX_LINKS, AlarmTable, links_of
from gateway.model.observations import (
    AgentLost,
    ClassLearned,
    EventState,
    Severity,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from tests.inventory.plant import (
    MACHINE,
    about,
    alarms,
    event,
    events,
    link,
    machine,
    plant,
    standing,
)
from tests.inventory.playbook import NOW, Playbook

RAISED, CLEARED, ONE_SHOT = EventState.RAISED, EventState.CLEARED, EventState.ONE_SHOT
OVERHEATED = 'overheated plant:machine "press"'


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    playbook = plant(tmp_path)
    playbook.synchronise(machine())
    playbook.now += 60 * SECOND
    return playbook


def states(records: list[EventRecord]) -> list[tuple[EventState, str]]:
    return [(record.state, record.condition) for record in records]


def test_what_an_object_shows_raises_an_alarm_with_an_event_of_the_gateway(playbook: Playbook) -> None:
    records = playbook.publish(machine(hot=True, load=42))
    assert [type(record) for record in records] == [UpdateRecord, EventRecord, AlarmRecord]
    (reported,), (alarm,) = events(records), alarms(records)
    assert reported.text == "press is too hot (42 of 100)"
    assert (reported.severity, reported.state, reported.condition) == (Severity.CRITICAL, RAISED, OVERHEATED)
    assert (reported.subject, reported.values) == (link(), {0: "overheated"})
    assert alarm == AlarmRecord(
        number=alarm.number,
        source=1,
        name="overheated",
        condition=OVERHEATED,
        severity=Severity.CRITICAL,
        subject=link(),
        text=reported.text,
        event_id=reported.event_id,
        raised=playbook.now,
        quoted=Quoted(("load",)),
    )
    assert reported.quoted == alarm.quoted


def test_the_alarm_of_an_event_and_its_end_say_what_their_texts_quote(playbook: Playbook) -> None:
    (raised,) = alarms(playbook.publish(about("heatRose")))
    assert raised.quoted == Quoted((), (link(),), "plant:heatRose")
    (raised,) = alarms(playbook.publish(machine("saw", "m2", hot=True)))
    (ended,) = events(playbook.publish(machine("saw", "m2")))
    assert raised.quoted == ended.quoted == Quoted(("load",))


def test_too_many_references_are_unknown_ones() -> None:
    found = [link("press", row) for row in range(1, MAX_LINKS + 1)]
    known = links_of([found[0], (found[0],) * MAX_LINKS, {"all": tuple(found)}, "a text"])
    assert known is not None
    assert set(known) == set(found)
    assert links_of([tuple(found), link("press", MAX_LINKS + 1)]) is None


def test_it_is_reported_once_however_often_it_is_shown(playbook: Playbook) -> None:
    playbook.publish(machine(hot=True))
    assert not events(playbook.publish(machine(hot=True, load=7)))
    assert len(standing(playbook)) == 1


def test_when_it_is_shown_no_more_the_alarm_is_cleared(playbook: Playbook) -> None:
    (raised,) = alarms(playbook.publish(machine(hot=True)))
    playbook.now += 200 * SECOND
    records = playbook.publish(machine(hot=False))
    (reported,) = events(records)
    assert (reported.severity, reported.state, reported.condition) == (Severity.CLEARED, CLEARED, OVERHEATED)
    assert reported.text == "cleared after 3 min 20 s: press is too hot (0 of 100)"
    assert alarms(records) == [msgspec.structs.replace(raised, cleared=playbook.now)]
    assert not standing(playbook)


def test_an_absent_value_shows_nothing(playbook: Playbook) -> None:
    playbook.publish(machine(hot=True))
    assert states(events(playbook.publish(machine(hot=None)))) == [(CLEARED, OVERHEATED)]


def test_each_time_it_is_raised_an_alarm_has_another_greater_number(playbook: Playbook) -> None:
    numbers = []
    for _ in range(3):
        numbers += [alarm.number for alarm in alarms(playbook.publish(machine(hot=True)))]
        playbook.publish(machine(hot=False))
    assert numbers == sorted(set(numbers))


def test_a_second_threshold_keeps_an_alarm_from_flapping(playbook: Playbook) -> None:
    reported = [
        [record.state for record in events(playbook.publish(machine(load=load)))]
        for load in (89, 90, 89, 70, 69, 89, 90)
    ]
    assert reported == [[], [RAISED], [], [], [CLEARED], [], [RAISED]]


def test_an_event_raises_it_and_no_second_one_is_made(playbook: Playbook) -> None:
    records = playbook.publish(about("heatRose"))
    (reported,), (alarm,) = events(records), alarms(records)
    assert (reported.state, reported.condition) == (RAISED, OVERHEATED)
    assert (alarm.event_id, alarm.text) == (reported.event_id, reported.text)
    assert not events(playbook.publish(machine(hot=True))), "the object shows the same"
    assert len(standing(playbook)) == 1


def test_an_event_that_comes_second_confirms_it(playbook: Playbook) -> None:
    playbook.publish(machine(hot=True))
    records = playbook.publish(about("heatRose"))
    assert states(events(records)) == [(RAISED, OVERHEATED)], "who receives it knows it for the same"
    assert not alarms(records)


def test_a_clearing_event_clears_it_whatever_severity_its_rule_has(playbook: Playbook) -> None:
    playbook.publish(about("heatRose"))
    records = playbook.publish(about("heatFell"))
    assert [(e.severity, e.state) for e in events(records)] == [(Severity.CLEARED, CLEARED)]
    assert [alarm.cleared for alarm in alarms(records)] == [playbook.now]


def test_a_clearing_event_is_reported_as_one_also_where_nothing_stands(playbook: Playbook) -> None:
    """The gateway may have started since: a receiver may have an alarm that the gateway does not have."""
    records = playbook.publish(about("heatFell"))
    assert states(events(records)) == [(CLEARED, OVERHEATED)]
    assert not alarms(records)


def test_in_one_body_the_event_counts_whatever_comes_first(playbook: Playbook) -> None:
    records = playbook.publish(machine(hot=True), about("heatRose"))
    assert states(events(records)) == [(RAISED, OVERHEATED)]
    assert len(alarms(records)) == 1


def test_an_object_that_lags_behind_an_event_is_not_trusted_for_a_while(playbook: Playbook) -> None:
    playbook.publish(about("heatRose"))
    playbook.now += HOLD - SECOND
    assert not events(playbook.publish(machine(hot=False, load=1)))
    assert not events(playbook.tick(0.5))
    assert states(events(playbook.tick(1))) == [(CLEARED, OVERHEATED)], "it still shows the opposite"


def test_what_an_event_cleared_is_raised_again_if_the_object_still_shows_it(playbook: Playbook) -> None:
    playbook.publish(machine(hot=True))
    playbook.publish(about("heatFell"))
    assert not events(playbook.publish(machine(hot=True, load=1)))
    assert states(events(playbook.tick(16))) == [(RAISED, OVERHEATED)]


def test_nothing_follows_when_the_object_agrees_in_time(playbook: Playbook) -> None:
    playbook.publish(about("heatRose"))
    playbook.publish(machine(hot=True))
    assert not events(playbook.tick(16))


def test_a_clock_that_is_set_back_prolongs_no_disbelief(playbook: Playbook) -> None:
    playbook.publish(about("heatRose"))
    playbook.now -= 3600 * SECOND
    assert states(events(playbook.tick(1))) == [(CLEARED, OVERHEATED)]


def test_an_object_that_is_stale_decides_nothing_until_it_is_current_again(playbook: Playbook) -> None:
    playbook.publish(about("heatRose"))
    playbook.publish(AgentLost("1.0"))
    assert not events(playbook.tick(20))
    assert standing(playbook) == ["overheated"]
    playbook.synchronise(machine())
    assert states(events(playbook.tick(1))) == [(CLEARED, OVERHEATED)]


def test_alarms_stand_while_the_source_is_down_and_are_judged_again_by_the_resync(playbook: Playbook) -> None:
    playbook.publish(machine(hot=True), machine("saw", "m2", hot=True))
    playbook.publish(SourceStateSeen(SourceState.DOWN, "no answer"))
    assert standing(playbook) == ["overheated", "overheated", "sourceDown"]
    records = playbook.synchronise(machine(), machine("saw", "m2", hot=True))
    assert states(events(records)) == [(CLEARED, OVERHEATED), (CLEARED, "sourceDown")]


@pytest.mark.parametrize("name", ["overheated", "open"])
def test_an_alarm_ends_with_its_object(playbook: Playbook, name: str) -> None:
    playbook.publish(about({"overheated": "heatRose", "open": "doorOpened"}[name]))
    records = playbook.publish(machine(deleted=NOW + 9))
    assert [type(record) for record in records[-3:]] == [DeleteRecord, EventRecord, AlarmRecord]
    (reported,) = events(records)
    assert (reported.state, reported.condition) == (CLEARED, f'{name} plant:machine "press"')
    assert "cleared after 0 s, its object is gone: " in reported.text
    assert not standing(playbook)


def test_an_alarm_ends_with_an_object_that_a_resync_does_not_report(playbook: Playbook) -> None:
    playbook.publish(about("doorOpened"))
    assert states(events(playbook.synchronise())) == [(CLEARED, 'open plant:machine "press"')]


def test_a_condition_that_only_events_report_lasts_over_a_resync(playbook: Playbook) -> None:
    playbook.publish(about("doorOpened"))
    assert not events(playbook.synchronise(machine()))
    assert not events(playbook.tick(60))
    assert states(events(playbook.publish(about("doorClosed")))) == [(CLEARED, 'open plant:machine "press"')]


def test_a_condition_without_an_object_ends_with_its_event_only(playbook: Playbook) -> None:
    playbook.publish(event("strikeBegan"))
    assert not events(playbook.synchronise())
    (reported,) = events(playbook.publish(event("strikeEnded")))
    assert (reported.state, reported.condition, reported.severity) == (CLEARED, "strike", Severity.CLEARED)
    assert not standing(playbook)


def test_an_event_about_an_object_that_is_gone_stands_for_itself(playbook: Playbook) -> None:
    playbook.publish(machine(deleted=NOW + 9))
    records = playbook.publish(about("doorOpened"))
    assert states(events(records)) == [(ONE_SHOT, "")]
    assert not alarms(records)


def test_an_event_about_an_object_never_seen_stands_for_itself(playbook: Playbook) -> None:
    assert states(events(playbook.publish(about("doorOpened", "m9")))) == [(ONE_SHOT, "")]


def test_what_came_and_went_in_one_body_raises_nothing(playbook: Playbook) -> None:
    records = playbook.publish(machine("brief", "m7", hot=True, deleted=NOW + 1))
    assert [type(record) for record in records] == [ObjectRecord, DeleteRecord]


def test_an_alarm_outlives_the_native_id_of_its_object(playbook: Playbook) -> None:
    playbook.publish(machine(hot=True))
    playbook.publish(about("doorOpened"))
    assert not events(playbook.synchronise(machine(native_id="m77", hot=True), restarted=True))
    assert standing(playbook) == ["overheated", "open"]
    assert len(events(playbook.publish(about("doorClosed", "m77")))) == 1


def test_under_a_new_version_of_its_class_an_object_keeps_the_alarms_that_can_be_tested(
    playbook: Playbook,
) -> None:
    playbook.publish(machine(hot=True, load=95))
    playbook.publish(about("doorOpened"))
    newer = replace(MACHINE, key=ClassKey("plant", "machine", b"2" * 16), statistics=MACHINE.statistics[:1])
    playbook.publish(ClassLearned(newer))
    seen = replace(machine(), key=newer.key, statistics=(True,))
    assert states(events(playbook.publish(seen))) == [
        (CLEARED, 'overloaded plant:machine "press"'),
        (CLEARED, 'open plant:machine "press"'),
    ]
    assert standing(playbook) == ["overheated"]


def test_each_object_has_alarms_of_its_own(playbook: Playbook) -> None:
    playbook.publish(machine(hot=True, leaks=("oil",), state=0), machine("saw", "m2", hot=True))
    assert [(a.name, a.text) for a in alarms(playbook.snapshot())] == [
        ("overheated", "press is too hot (0 of 100)"),
        ("leaking", 'leaks at ["oil"]'),
        ("stopped", "press is stopped"),
        ("overheated", "saw is too hot (0 of 100)"),
    ]


def test_more_alarms_than_the_bound_are_refused_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AlarmTable.__init__, "__defaults__", (2,))
    playbook = plant(tmp_path)
    playbook.synchronise(*(machine(f"press{n}", f"m{n}", hot=True) for n in range(3)))
    assert len(standing(playbook)) == 2
    assert playbook.source_record().counters["alarms_refused"] == 1
    assert states(events(playbook.publish(about("doorOpened", "m1")))) == [(ONE_SHOT, "")]
    playbook.publish(SourceStateSeen(SourceState.DOWN))
    assert "sourceDown" in standing(playbook), "alarms without an object are few"
    playbook.publish(machine("press0", "m0", deleted=NOW))
    playbook.publish(machine("press2", "m2", hot=True))
    assert len(standing(playbook)) == 3, "one that ended makes room"


def test_a_long_condition_is_cut_and_still_distinguishes_objects(playbook: Playbook) -> None:
    long = "é" * 300
    playbook.publish(*(machine(long + end, f"m{end}", hot=True) for end in "ab"))
    one, other = (alarm.condition for alarm in alarms(playbook.snapshot()))
    assert one.startswith('overheated plant:machine "éé')
    assert one != other
    assert max(len(one.encode()), len(other.encode())) <= 255
