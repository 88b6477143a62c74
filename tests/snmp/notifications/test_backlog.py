"""What receivers are owed: it is sent late, at a rate of its own, delays nothing, and is counted."""

from __future__ import annotations

import random

import msgspec
import pytest

from gateway.model.observations import Severity
from gateway.model.times import SECOND
from gateway.snmp.fixed_mib import NotificationObject
from gateway.snmp.notifications.backlog import Owed, missing
from gateway.snmp.notifications.notification import ActiveAlarms, Notification
from gateway.snmp.notifications.sender import SendResult
from tests.snmp.notifications.story import INFORM, Play, Received, cleared, event, raised, target
from tests.snmp.notifications.test_late import LATE


def recorded(play: Play, *numbers: int, epoch: int = 1) -> None:
    """Record events that no sender was notified of."""
    for number in numbers:
        play.recorded[epoch, number] = event(number, epoch=epoch)


def numbers(received: list[Received]) -> list[int]:
    return [each.number for each in received if each.is_event]


def late(received: list[Received]) -> list[int]:
    return [each.number for each in received if each.is_event and LATE in each.values]


def after_a_kill(play: Play, last: int) -> Play:
    """Return the play of the next process, which learns that its core made events up to a number."""
    again = play.restarted()
    again.notify(event(last, repeated=True))
    return again


def test_what_is_owed_is_the_same_as_a_set_of_places() -> None:
    chance = random.Random(4711)  # noqa: S311  repeatable on purpose
    for _ in range(200):
        owed, model = Owed(), set[tuple[int, int]]()
        for _ in range(40):
            epoch, first = chance.randrange(1, 4), chance.randrange(1, 30)
            last = first + chance.randrange(4)
            wanted = {(epoch, number) for number in range(first, last + 1)}
            if chance.random() < 0.5 and not wanted & model:
                owed.add(epoch, first, last)
                model |= wanted
            elif chance.random() < 0.5:
                assert owed.remove(epoch, first, last) == len(wanted & model)
                model -= wanted
            assert len(owed) == len(model)
            ranges = owed.ranges
            assert {(e, n) for e, first, last in ranges for n in range(first, last + 1)} == model
            assert list(ranges) == sorted(ranges)
            assert Owed(ranges).ranges == ranges


@pytest.mark.parametrize(
    ("known", "expected"),
    [([], [(3, 7)]), ([3, 7], [(4, 6)]), ([5], [(3, 4), (6, 7)]), ([3, 4, 5, 6, 7], [])],
)
def test_what_is_missing_is_the_rest(known: list[int], expected: list[tuple[int, int]]) -> None:
    assert missing(known, 3, 7) == expected


def test_all_that_the_log_has_is_sent_once_and_the_rest_is_counted() -> None:
    play = Play([target()])
    play.notify(event(1))
    again = play.restarted()
    recorded(again, *range(2, 300), *range(310, 1000))
    again.notify(event(1000, repeated=True))
    again.pass_time(60 * SECOND)
    received = again.received()
    assert late(received) == numbers(received) == [*range(2, 300), *range(310, 1001)]
    assert again.missed == [("nms", 300, 309, 10)]
    assert again.sender.health["nms"].lost == 10
    assert again.sender.health["nms"].owed == 0
    third = again.restarted()
    third.notify(event(1000, repeated=True))
    third.pass_time(60 * SECOND)
    assert numbers(third.received()) == []


def test_the_backlog_has_a_rate_of_its_own_and_takes_nothing_from_what_happens() -> None:
    play = Play([target(rate=10, backlog_rate=5)])
    play.notify(event(1))
    play.received()
    recorded(play, *range(2, 1000))
    again = after_a_kill(play, 1000)
    again.pass_time(10 * SECOND)
    assert 45 <= len(numbers(again.received())) <= 60
    again.notify(*(event(number, severity=Severity.CRITICAL) for number in range(1001, 1011)))
    assert numbers(again.received())[:10] == list(range(1001, 1011))  # a whole burst passes at once
    assert again.sender.health["nms"].suppressed == 0


def test_a_kill_in_the_middle_repeats_nothing_that_was_saved() -> None:
    play = Play([target(backlog_rate=10)])
    play.notify(event(1))
    recorded(play, *range(2, 100))
    play.received()
    again = after_a_kill(play, 100)
    again.pass_time(3 * SECOND)
    first = numbers(again.received())
    assert 10 <= len(first) < 99
    third = again.restarted()
    third.pass_time(20 * SECOND)
    assert first + numbers(third.received()) == list(range(2, 101))


def test_informs_of_the_backlog_leave_room_for_what_happens_and_are_never_dropped() -> None:
    play = Play([target(kind=INFORM, window=4)])
    play.notify(event(1))
    play.answer_all()
    recorded(play, *range(2, 3000))
    again = after_a_kill(play, 3000)
    assert len(again.received()) == 2  # half of the window, until they are answered
    assert again.sender.health["nms"].owed == 2997
    again.notify(event(3001))
    assert numbers(again.received()) == [3001]
    saved = again.sender.saved().targets[0]
    assert saved.owed == ((1, 4, 3000),)
    assert [inform.event_id.rpartition(".")[2] for inform in saved.informs] == ["2", "3", "3001"]
    third = again.restarted()
    third.settle()
    answered = []
    for _ in range(200):
        answered += numbers(third.answer_all())
        third.pass_time(SECOND)
    assert sorted(set(answered)) == list(range(2, 3002))
    assert third.sender.health["nms"].failed == 0


def test_informs_of_the_backlog_leave_what_the_rate_allows_to_what_happens() -> None:
    play = Play([target(kind=INFORM, rate=1)])
    play.notify(event(1))
    play.answer_all()
    recorded(play, *range(2, 200))
    again = after_a_kill(play, 200)
    sent = numbers(again.answer_all())
    for number in range(201, 206):
        for _ in range(10):
            again.pass_time(SECOND)
            sent += numbers(again.answer_all())
        again.notify(event(number))
        assert numbers(again.answer_all()) == [number]
    assert len(sent) >= 40  # almost the whole rate otherwise


def test_beyond_the_bound_the_oldest_are_counted_by_name_if_they_were_for_the_receiver() -> None:
    play = Play([target(backlog=10, patterns=("rabbitmq:queue*",))])
    play.notify(event(1))
    again = play.restarted()
    for number in range(2, 102):
        name = "rabbitmq:queueDeleted" if number % 2 else "rabbitmq:vhostDeleted"
        again.recorded[1, number] = event(number, name=name)
    again.notify(event(102, repeated=True, name="rabbitmq:vhostDeleted"))
    again.pass_time(10 * SECOND)
    received = again.received()
    assert numbers(received) == [93, 95, 97, 99, 101]
    (summary,) = [each for each in received if not each.is_event]
    assert summary.content(NotificationObject.SUPPRESSED_NAMES) == b"rabbitmq:queueDeleted 45"
    assert again.sender.health["nms"].failed == 45


def test_a_new_receiver_begins_with_what_comes_from_then_on() -> None:
    other = ("192.0.2.9", 162)
    play = Play([target()])
    play.notify(event(1))
    again = play.restarted(targets=[target(), target("other", other)])
    recorded(again, 2, 3)
    again.notify(event(4, repeated=True))
    again.sender.policy_changed()  # the snapshot has ended
    again.pass_time(SECOND)
    assert numbers(again.received()) == [2, 3, 4]
    assert numbers(again.received(other)) == []
    again.notify(event(5))
    assert numbers(again.received(other)) == [5]
    recorded(again, 6)
    again.notify(event(7, repeated=True))
    again.pass_time(SECOND)
    assert numbers(again.received(other)) == [6, 7]


def test_a_receiver_that_was_removed_and_added_again_is_new() -> None:
    play = Play([target(backlog_rate=1)])
    play.notify(event(1))
    recorded(play, *range(2, 50))
    without = play.restarted(targets=[])
    without.notify(event(50))
    again = without.restarted(targets=[target()])
    again.sender.policy_changed()
    again.pass_time(100 * SECOND)
    assert numbers(again.received()) == []


def test_a_new_receiver_gets_nothing_of_cores_before_it_whatever_is_killed_meanwhile() -> None:
    other = ("192.0.2.9", 162)
    play = Play([target()])
    play.notify(event(1))
    recorded(play, 2, 3)
    recorded(play, 1, 2, epoch=2)  # a core that no SNMP agent heard
    again = play.restarted(targets=[target(), target("other", other)], boot=3)
    for killed in (False, True):
        again = again.restarted() if killed else again  # before it is told anything
        since = {each.name: each.since for each in again.sender.saved().targets}
        assert since == {"nms": 1, "other": 3}
    again.sender.events_made(1, 3)
    again.sender.events_made(2, 2)
    again.notify(event(1, epoch=3, repeated=True))
    again.sender.policy_changed()
    again.pass_time(SECOND)
    assert numbers(again.received()) == [1, 2, 3, 1, 2], "what happens now comes first"
    assert numbers(again.received(other)) == [1]
    last = again.restarted(boot=4)
    recorded(last, 2, 3, epoch=3)
    last.sender.events_made(3, 3)
    last.sender.policy_changed()
    last.pass_time(SECOND)
    assert numbers(last.received()) == numbers(last.received(other)) == [2, 3]


def test_a_new_receiver_gets_no_unknown_number_of_events_from_before() -> None:
    play = Play([target()])
    play.notify(event(1))
    again = play.restarted(targets=[target(), target("other", ("192.0.2.9", 162))], boot=2).restarted()
    again.sender.events_made(1, 1, more=True)
    assert [receiver for receiver, *_ in again.missed] == ["nms"]


def test_what_its_roles_did_not_let_it_have_at_that_time_is_not_owed_whatever_they_are_now() -> None:
    play = Play([target()])
    play.notify(event(1))
    again = play.restarted()
    recorded(again, 2, 3)
    again.withheld.add(("nms", (1, 2)))
    again.recorded[1, 3] = event(3, forms={"nms": None})  # permitted then, and not any more
    again.notify(event(4, repeated=True))
    again.pass_time(5 * SECOND)
    received = again.received()
    assert numbers(received) == [4]
    (summary,) = [each for each in received if not each.is_event]
    assert summary.content(NotificationObject.SUPPRESSED_NAMES) == b"*:* 1"
    assert again.sender.health["nms"].failed == 1


def test_traps_that_the_system_did_not_take_before_a_kill_are_owed() -> None:
    play = Play([target()])
    play.result = SendResult.BUSY
    for number in (1, 2):
        play.recorded[1, number] = event(number)
        play.sender.notify(event(number))
    again = play.restarted(result=SendResult.SENT)
    again.pass_time(SECOND)
    assert late(again.received()) == [1, 2]


def test_what_is_late_waits_while_the_system_refuses_to_send() -> None:
    play = Play([target()])
    play.notify(event(1))
    again = play.restarted(result=SendResult.FAILED)
    recorded(again, *range(2, 10))
    again.notify(event(10, repeated=True))
    again.pass_time(60 * SECOND)
    assert (again.sender.health["nms"].failed, again.sender.health["nms"].owed) == (0, 9)
    again.result = SendResult.SENT  # there is a way again
    again.pass_time(2 * SECOND)
    assert late(again.received()) == list(range(2, 11))


def test_an_event_that_the_system_refuses_is_owed_and_sent_late_when_there_is_a_way() -> None:
    play = Play([target()], result=SendResult.FAILED)
    play.notify(event(1))
    play.pass_time(30 * SECOND)
    health = play.sender.health["nms"]
    assert (health.sent, health.failed, health.waiting, health.owed) == (0, 0, 0, 1)
    play.result = SendResult.SENT
    play.notify(event(2))
    play.pass_time(2 * SECOND)
    received = play.received()
    assert (numbers(received), late(received)) == ([2, 1], [1])
    assert play.sender.health["nms"].owed == 0


def test_an_event_that_waited_and_is_refused_then_is_owed() -> None:
    play = Play([target()], result=SendResult.BUSY)
    play.notify(event(1))
    play.result = SendResult.FAILED
    play.settle()
    assert play.sender.health["nms"].owed == 1
    play.result = SendResult.SENT
    play.pass_time(2 * SECOND)
    assert late(play.received()) == [1]


def test_what_the_system_refuses_and_the_log_does_not_have_is_lost_and_counted() -> None:
    play = Play([target()], result=SendResult.FAILED)
    play.sender.notify(event(1))  # the log does not have it
    play.result = SendResult.SENT
    play.notify(event(2))
    play.pass_time(5 * SECOND)
    (summary,) = [each for each in play.received() if not each.is_event]
    assert summary.content(NotificationObject.SUPPRESSED_NAMES) == b"*:* 1"
    assert (play.sender.health["nms"].lost, play.sender.health["nms"].owed) == (1, 0)


def test_what_the_system_refuses_is_owed_over_a_restart() -> None:
    play = Play([target()], result=SendResult.FAILED)
    play.notify(event(1))
    again = play.restarted(result=SendResult.SENT)
    again.pass_time(2 * SECOND)
    assert late(again.received()) == [1]


def test_an_end_that_overtakes_its_late_beginning_does_not_leave_the_condition_raised() -> None:
    play = Play([target(backlog_rate=1)])
    play.notify(event(1))
    again = play.restarted()
    recorded(again, *range(2, 20))
    again.recorded[1, 20] = raised(20, "full")
    again.notify(replace_repeated(20))
    again.notify(cleared(21, "full"))
    again.active = {"orders": ActiveAlarms({}, complete=True)}
    again.pass_time(200 * SECOND)
    states = [
        each.content(NotificationObject.STATE)
        for each in again.received()
        if each.content(NotificationObject.CONDITION) == b"full"
    ]
    assert states[-1] == states[0]  # cleared, raised late, cleared


def replace_repeated(number: int) -> Notification:
    """Return the event as a snapshot has it."""
    return msgspec.structs.replace(raised(number, "full"), repeated=True)
