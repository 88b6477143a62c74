"""Selection of the notifications that a receiver gets."""

from __future__ import annotations

from gateway.model.observations import Severity
from gateway.snmp.notifications.notification import MAX_CONDITIONS
from gateway.snmp.notifications.selection import Selection
from tests.snmp.notifications.story import cleared, event, raised

ALARM = "memoryAlarm node rabbit@a"


def test_what_is_less_severe_is_not_for_a_receiver() -> None:
    selection = Selection(Severity.MAJOR, ["*"])
    assert selection.urgency(event(severity=Severity.MINOR)) is None
    assert selection.urgency(event(severity=Severity.MAJOR)) is Severity.MAJOR
    assert selection.urgency(event(severity=Severity.CRITICAL)) is Severity.CRITICAL


def test_names_are_matched_by_any_of_the_patterns_whole_and_by_case() -> None:
    selection = Selection(Severity.INFO, ["rabbitmq:alarm*", "gateway:source[UD]*"])
    assert selection.urgency(event(name="rabbitmq:alarmSet")) is Severity.INFO
    assert selection.urgency(event(name="gateway:sourceDown")) is Severity.INFO
    assert selection.urgency(event(name="gateway:sourceLost")) is None
    assert selection.urgency(event(name="rabbitmq:Alarm")) is None
    assert selection.urgency(event(name="a:rabbitmq:alarmSet")) is None


def test_an_end_goes_where_its_beginning_went() -> None:
    selection = Selection(Severity.CRITICAL, ["*Set"])
    selection.note_sent(raised(1, ALARM))
    end = cleared(2, ALARM)
    assert selection.urgency(end) is Severity.CRITICAL
    selection.note_sent(end)
    assert selection.urgency(end) is None


def test_an_end_of_another_source_or_condition_does_not() -> None:
    selection = Selection(Severity.CRITICAL, ["*"])
    selection.note_sent(raised(1, ALARM))
    assert selection.urgency(cleared(2, "memoryAlarm node rabbit@b")) is None


def test_an_end_without_a_beginning_counts_as_information() -> None:
    assert Selection(Severity.INFO, ["*"]).urgency(cleared(1, ALARM)) is Severity.INFO
    assert Selection(Severity.WARNING, ["*"]).urgency(cleared(1, ALARM)) is None


def test_the_end_is_as_urgent_as_the_last_beginning() -> None:
    selection = Selection(Severity.INFO, ["*"])
    selection.note_sent(raised(1, ALARM, Severity.WARNING))
    selection.note_sent(raised(2, ALARM, Severity.MAJOR))
    assert selection.urgency(cleared(3, ALARM)) is Severity.MAJOR


def test_what_begins_again_goes_where_it_went_before_though_it_is_less_severe_now() -> None:
    selection = Selection(Severity.CRITICAL, ["*"])
    assert selection.urgency(raised(1, ALARM, Severity.WARNING)) is None
    selection.note_sent(raised(2, ALARM))
    assert selection.urgency(raised(3, ALARM, Severity.WARNING)) is Severity.WARNING


def test_only_so_many_conditions_are_remembered() -> None:
    selection = Selection(Severity.CRITICAL, ["*"])
    for number in range(MAX_CONDITIONS + 1):
        selection.note_sent(raised(number, f"c{number}"))
    assert len(selection.raised) == MAX_CONDITIONS
    assert selection.urgency(cleared(0, "c0")) is None
    assert selection.urgency(cleared(0, "c1")) is Severity.CRITICAL
