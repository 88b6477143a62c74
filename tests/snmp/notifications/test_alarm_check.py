"""The comparison of lasting conditions with those known to receivers is made, and reported, in slices."""

from __future__ import annotations

from gateway.model.observations import Severity
from gateway.model.times import SECOND
from gateway.snmp.notifications.alarm_check import (
    AT_ONCE,
    SLICE_CONDITIONS,
    AlarmCheck,
    Begun,
    Difference,
    Ended,
)
from gateway.snmp.notifications.notification import ActiveAlarms
from gateway.snmp.notifications.selection import Selection
from gateway.snmp.notifications.sender import DIFFERENCES_A_TURN
from tests.snmp.notifications.story import Play, raised, target
from tests.snmp.notifications.test_active_alarms import lasts

MANY = [f"c{number}" for number in range(2 * SLICE_CONDITIONS + 500)]


def selection(*reported: str) -> Selection:
    """Return the selection of a receiver to which these conditions of the only source were sent as begun."""
    return Selection(Severity.INFO, ("*",), [(("orders", each), Severity.MAJOR) for each in reported])


def whole_check(check: AlarmCheck, active: dict[str, ActiveAlarms]) -> list[Difference]:
    check.begin()
    differences = check.go_on(active)
    while check.under_way:
        differences += check.go_on(active)
    return differences


def test_many_conditions_are_looked_at_in_slices() -> None:
    check = AlarmCheck({"nms": selection(*MANY)})
    check.begin()
    turns = 0
    while check.under_way:
        assert check.go_on({}) == []
        turns += 1
    assert turns == 3
    assert check.go_on({}) == []  # the next one has not begun


def test_what_differs_in_two_checks_is_reported_once_for_all_receivers_or_for_each() -> None:
    check = AlarmCheck({"one": selection("over"), "other": selection("over")})
    assert whole_check(check, lasts("new")) == []
    assert whole_check(check, lasts("new")) == [
        Ended(("orders", "over")),
        Begun("one", ("orders", "new")),
        Begun("other", ("orders", "new")),
    ]


def test_a_receiver_is_sent_so_many_beginnings_at_once() -> None:
    check = AlarmCheck({"nms": selection()})
    assert whole_check(check, lasts(*MANY)) == []
    assert len(whole_check(check, lasts(*MANY))) == AT_ONCE


def test_a_time_in_which_the_core_is_gone_makes_a_check_begin_again() -> None:
    check = AlarmCheck({"nms": selection("over")})
    assert whole_check(check, lasts()) == []
    check.begin()
    assert check.go_on(None) == []
    assert not check.under_way
    assert whole_check(check, lasts()) == []
    assert whole_check(check, lasts()) == [Ended(("orders", "over"))]


def test_what_lasts_again_before_its_end_was_reported_is_not_ended() -> None:
    names = [f"c{number}" for number in range(10 * DIFFERENCES_A_TURN)]
    play = Play([target(rate=100_000)], active=lasts())
    play.notify(*(raised(number, name) for number, name in enumerate(names, 1)))
    play.received()
    play.pass_time(60 * SECOND)
    assert 0 < len(play.received()) < len(names)
    play.active = lasts(*names)
    play.pass_time(SECOND)
    assert play.received() == []
