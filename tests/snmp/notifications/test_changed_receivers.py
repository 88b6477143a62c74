"""Receivers that are added, changed and removed while notifications are on their way."""

from __future__ import annotations

from gateway.model.times import SECOND
from gateway.snmp.notifications.notification import ActiveAlarms
from tests.snmp.notifications.story import INFORM, NMS, Play, event, raised, target

ELSEWHERE = ("192.0.2.2", 162)


def test_a_new_receiver_gets_what_comes_from_now_on() -> None:
    play = Play([target()])
    play.notify(event(1))
    play.change(target(), target("new", ELSEWHERE))
    play.notify(event(2))
    assert [each.number for each in play.received()] == [1, 2]
    assert [each.number for each in play.received(ELSEWHERE)] == [2]


def test_a_new_receiver_gets_the_alarms_that_last() -> None:
    play = Play([target()], active={"orders": ActiveAlarms({}, complete=True)})
    play.notify(alarm := raised(1, "memory"))
    play.active = {"orders": ActiveAlarms({"memory": alarm.event_id}, complete=True)}
    play.alarms["orders", "memory"] = alarm
    play.change(target(), target("new", ELSEWHERE))
    play.pass_time(120 * SECOND)
    assert [each.number for each in play.received(ELSEWHERE)] == [1]
    assert [each.number for each in play.received()] == [1], "it has it already"


def test_what_waits_for_a_removed_receiver_is_dropped_and_said() -> None:
    play = Play([target(kind=INFORM), target("other", ELSEWHERE)])
    play.notify(event(1), event(2))
    (removed,) = play.change(target("other", ELSEWHERE))
    assert (removed.name, len(removed.informs)) == ("nms", 2)
    play.received()
    play.pass_time(60 * SECOND)
    assert not play.received()
    assert [each.name for each in play.sender.saved().targets] == ["other"]


def test_an_inform_that_waits_goes_to_another_address() -> None:
    play = Play([target(kind=INFORM)])
    play.notify(event(1))
    (first,) = play.received()
    play.change(target(kind=INFORM, address=ELSEWHERE, community=b"other"))
    play.pass_time(2 * SECOND)
    assert [each.request_id for each in play.answer_all(ELSEWHERE)] == [first.request_id]
    assert play.sender.health["nms"].acknowledged == 1
    assert not play.received(NMS)


def test_a_receiver_with_other_settings_keeps_what_waits_and_its_counts() -> None:
    play = Play([target(kind=INFORM)])
    play.notify(event(1), event(2))
    play.answer_all()
    play.notify(event(3))
    play.change(target(kind=INFORM, window=2))
    assert (play.sender.health["nms"].acknowledged, play.sender.health["nms"].waiting) == (2, 1)
    play.pass_time(2 * SECOND)
    assert play.answer_all()[-1].number == 3
    play.notify(event(4))
    play.received()
    play.change(target())
    play.settle()
    assert [each.number for each in play.received()] == [4], "as a trap, from the event log"
    assert play.sender.health["nms"].failed == 0


def test_informs_without_an_answer_are_sent_again_at_once_to_a_receiver_that_moved() -> None:
    play = Play([target(kind=INFORM)])
    play.notify(event(1), event(2))
    first = play.received()
    play.sender.moved(NMS)
    play.settle()
    assert [each.request_id for each in play.answer_all()] == [each.request_id for each in first]
    assert play.sender.health["nms"].acknowledged == 2


def test_a_silent_receiver_that_moved_is_tried_at_once_and_gets_all_when_it_answers() -> None:
    play = Play([target(kind=INFORM)])
    play.notify(*(event(number) for number in range(1, 6)))
    play.pass_time(61 * SECOND)
    play.received()
    play.sender.moved(NMS)
    play.settle()
    assert len(play.sent[NMS]) == 1
    play.answer_all()
    assert play.sender.health["nms"].acknowledged == 5


def test_only_an_inform_that_is_sent_again_makes_its_address_doubtful() -> None:
    play = Play([target(kind=INFORM), target("traps", ELSEWHERE)])
    play.notify(event(1))
    assert play.unanswered == []
    play.pass_time(SECOND)
    assert play.unanswered == [NMS]
    play.answer_all()
    play.notify(event(2))
    assert play.unanswered == [NMS]
