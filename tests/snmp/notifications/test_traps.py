"""Traps are sent once each, within the rate; the receiver is informed of those that were not sent."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.observations import Severity
from gateway.model.times import SECOND
from gateway.snmp import message
from gateway.snmp.fixed_mib import NOTIFICATIONS, NotificationObject, OwnNotification
from gateway.snmp.notifications.delivery import MAX_WAITING
from gateway.snmp.notifications.receiver import Target
from gateway.snmp.notifications.selection import MAX_NAMES
from gateway.snmp.notifications.sender import SendResult
from gateway.snmp.notifications.suppression import OTHERS
from tests.snmp.notifications.story import NMS, ROOT, TRAP_V1, Play, Received, cleared, event, raised, target

SUMMARY = (*ROOT, *NOTIFICATIONS, OwnNotification.EVENTS_SUPPRESSED)
OTHER_NMS = ("2001:db8::1", 1162)


def numbers(received: list[Received]) -> list[int]:
    return [each.number for each in received if each.is_event]


def test_an_event_is_sent_at_once_to_everybody_whom_it_is_for() -> None:
    play = Play([target(), target("v1", OTHER_NMS, kind=TRAP_V1), target("quiet", severity=Severity.MAJOR)])
    play.notify(event())
    assert numbers(play.received()) == [1]
    (trap,) = play.sent[OTHER_NMS]
    assert message.read_message(trap).version == message.VERSION_1
    health = play.sender.health
    assert (health["nms"].sent, health["v1"].sent, health["quiet"].sent) == (1, 1, 0)


def test_what_a_snapshot_repeats_is_not_sent_again() -> None:
    play = Play([target()])
    play.notify(event(1), event(2), event(1), event(2), event(3))
    assert numbers(play.received()) == [1, 2, 3]


def test_a_new_core_counts_from_the_beginning_and_all_of_it_is_new() -> None:
    play = Play([target()])
    play.notify(*(event(number) for number in range(1, 6)))
    play.notify(event(1, epoch=2), event(2, epoch=2), event(2, epoch=2))
    assert numbers(play.received()) == [1, 2, 3, 4, 5, 1, 2]


def test_community_and_request_id_are_the_targets_own() -> None:
    play = Play([target(community=b"one"), target("two", community=b"two")])
    play.notify(event(), event(2))
    datagrams = play.sent[NMS]
    assert [message.read_message(datagram).community for datagram in datagrams] == [b"one", b"two"] * 2
    assert len({each.request_id for each in play.received()}) == 4


def test_the_community_is_never_shown() -> None:
    assert "hush" not in repr(target(community=b"hush"))


# ---- floods -------------------------------------------------------------------------------------------


def test_in_a_flood_sent_and_suppressed_make_what_was_offered() -> None:
    play = Play([target(rate=100)])
    for number in range(1, 10_001):  # for five seconds, 2,000 a second
        play.pass_time(SECOND // 2000)
        play.notify(event(number))
    play.pass_time(2 * SECOND)
    received = play.received()
    summaries = [each for each in received if each.oid == SUMMARY]
    reported = sum(each.suppressed for each in summaries)
    assert len(numbers(received)) + reported == 10_000
    assert abs(len(numbers(received)) - (50 + 500)) <= 1  # half of the bucket, then the rate
    health = play.sender.health["nms"]
    assert (health.sent, health.suppressed) == (len(received), reported)


def test_a_receiver_is_notified_when_the_flood_ends() -> None:
    play = Play([target(rate=10)])
    play.notify(*(event(number, name=f"shop:event{number % 3}") for number in range(1, 12)))
    play.pass_time(SECOND - 1)
    assert SUMMARY not in [each.oid for each in play.received()]
    play.pass_time(1)
    (summary,) = play.received()
    assert summary.oid == SUMMARY
    assert summary.suppressed == 6
    assert summary.content(NotificationObject.SUPPRESSED_TARGET) == b"nms"
    assert (
        summary.content(NotificationObject.SUPPRESSED_NAMES) == b"shop:event0 2, shop:event1 2, shop:event2 2"
    )
    assert summary.content(NotificationObject.TEXT).startswith(b"6 notifications were not sent")
    play.pass_time(60 * SECOND)
    assert play.received() == []


def test_and_every_ten_seconds_while_it_lasts() -> None:
    play = Play([target(rate=10)])
    for number in range(1, 3501):
        play.notify(event(number))
        play.pass_time(SECOND // 100)
    summaries = [each for each in play.received() if each.oid == SUMMARY]
    assert len(summaries) == 3
    play.pass_time(2 * SECOND)
    (last,) = play.received()
    assert sum(each.suppressed for each in [*summaries, last]) == play.sender.health["nms"].suppressed


def test_a_summary_goes_to_each_receiver_that_missed_something_whatever_it_chose() -> None:
    play = Play(
        [target(severity=Severity.CRITICAL, patterns=("shop:*",), rate=4), target("other", OTHER_NMS)]
    )
    play.notify(*(raised(number, f"c{number}", name="shop:alarm") for number in range(1, 11)))
    play.pass_time(2 * SECOND)
    assert [each.oid == SUMMARY for each in play.received()] == [False] * 4 + [True]
    assert SUMMARY not in [each.oid for each in play.received(OTHER_NMS)]


def test_names_are_counted_one_by_one_up_to_a_bound() -> None:
    play = Play([target(rate=1)])
    play.notify(*(event(number, name=f"n:{number}") for number in range(1, 2 * MAX_NAMES)))
    summary = play.sender.saved().targets[0].suppressed
    assert summary is not None
    assert len(summary.names) == MAX_NAMES + 1
    assert summary.names[0][0] == OTHERS
    assert summary.count == sum(count for _, count in summary.names)


def test_a_flood_of_information_never_suppresses_an_alarm() -> None:
    play = Play([target(rate=10)])
    alarms = 0
    for number in range(1, 5001):
        urgent = number % 100 == 0
        alarms += urgent
        play.notify(raised(number, f"c{number}") if urgent else event(number))
        play.pass_time(SECOND // 1000)
    got = Counter(each.content(NotificationObject.SEVERITY)[0] for each in play.received() if each.is_event)
    assert got[3] == alarms == 50


def test_the_end_of_an_alarm_that_was_sent_is_never_suppressed() -> None:
    play = Play([target(rate=4)])
    play.notify(*(raised(number, f"c{number}") for number in range(1, 21)))
    play.notify(*(cleared(20 + number, f"c{number}") for number in range(1, 21)))
    assert numbers(play.received()) == [1, 2, 3, 4, 21, 22, 23, 24]


# ---- the system ---------------------------------------------------------------------------------------


def test_what_the_system_cannot_take_yet_is_sent_later_the_most_urgent_first() -> None:
    play = Play([target(rate=10_000)], result=SendResult.BUSY)
    play.notify(event(1), event(2), raised(3, "c"), cleared(4, "c"))
    assert play.due is not None
    assert play.due > play.now
    play.result = SendResult.SENT
    play.settle()
    assert numbers(play.received()) == [3, 4, 1, 2]


def test_a_trap_is_sent_when_it_is_offered_unless_others_wait() -> None:
    play = Play([target()])
    play.sender.notify(event(1))
    assert numbers(play.received()) == [1]
    play.result = SendResult.BUSY
    play.sender.notify(event(2))
    play.result = SendResult.SENT
    play.sender.notify(event(3))
    assert play.received() == []
    play.settle()
    assert numbers(play.received()) == [2, 3]


def test_only_so_many_wait_and_the_least_urgent_of_the_oldest_make_room() -> None:
    play = Play([target(rate=100_000)], result=SendResult.BUSY)
    play.notify(raised(1, "c"), *(event(number) for number in range(2, MAX_WAITING + 12)))
    assert play.sender.health["nms"].waiting == MAX_WAITING
    assert play.sender.health["nms"].failed == 11
    play.result = SendResult.SENT
    play.pass_time(2 * SECOND)
    received = play.received()
    assert numbers(received)[:2] == [1, 13]
    assert [each.suppressed for each in received if each.oid == SUMMARY] == [11]


def test_one_receiver_does_not_wait_for_another() -> None:
    play = Play([target(rate=100_000), target("other", OTHER_NMS)], result=SendResult.BUSY)
    for number in range(1, 1001):
        play.sender.notify(event(number))
    play.result = SendResult.SENT
    play.sender.work()
    assert len(play.sent[NMS]) == 32
    assert len(play.sent[OTHER_NMS]) == 32


def test_a_value_that_ber_cannot_say_is_one_event_less_and_reported() -> None:
    play = Play([target()])
    play.notify(event(1, oid=(9, 9)), event(2))
    assert numbers(play.received()) == [2]
    assert len(play.failures) == 1


# ---- the agent's own ----------------------------------------------------------------------------------


def test_the_first_start_is_cold_and_so_is_one_with_another_configuration_or_boot() -> None:
    play = Play([target()])
    play.sender.start()
    play.settle()
    assert play.received()[0].oid == (1, 3, 6, 1, 6, 3, 1, 1, 5, 1)
    starts: list[tuple[dict[str, Any], int]] = [({}, 2), ({"configuration": "other"}, 1), ({"boot": 2}, 1)]
    for changes, arc in starts:
        again = play.restarted(**changes)
        again.sender.start()
        again.settle()
        assert again.received()[0].oid == (1, 3, 6, 1, 6, 3, 1, 1, 5, arc)


def test_own_event_ids_are_different_even_at_the_same_instant() -> None:
    play = Play([target()])
    play.sender.start()
    play.sender.test("nms")
    again = play.restarted(now=1)
    again.sender.start()
    again.settle()
    play.settle()
    ids = [each.event_id for each in play.received() + again.received()]
    assert len(set(ids)) == len(ids) == 3
    assert max(map(len, ids)) <= 60


def test_a_test_goes_to_one_receiver_whatever_it_chose() -> None:
    play = Play([target(severity=Severity.CRITICAL), target("other", OTHER_NMS)])
    sent = play.sender.test("nms")
    play.settle()
    assert [each.event_id for each in play.received()] == [sent.event_id]
    assert play.received(OTHER_NMS) == []
    with pytest.raises(KeyError):
        play.sender.test("nobody")


def test_a_wrong_community_is_reported_once_a_minute_for_each_address() -> None:
    play = Play([target()])
    for address in ("192.0.2.66", "192.0.2.66", "2001:db8::66"):
        play.sender.wrong_community(address)
        play.pass_time(SECOND)
    play.pass_time(58 * SECOND)
    play.sender.wrong_community("192.0.2.66")
    play.settle()
    texts = [each.content(NotificationObject.TEXT).decode() for each in play.received()]
    assert [text.split()[3] for text in texts] == ["192.0.2.66", "2001:db8::66", "192.0.2.66"]


def test_forged_addresses_do_not_make_a_flood() -> None:
    play = Play([target()])
    for last in range(1000):
        play.sender.wrong_community(f"2001:db8::{last:x}")
    play.settle()
    assert len(play.received()) <= 4


@given(
    st.lists(
        st.tuples(st.sampled_from(Severity), st.integers(0, SECOND // 10), st.sampled_from(["", "a", "b"])),
        max_size=120,
    ),
    st.integers(1, 50),
)
def test_nothing_is_lost_without_being_reported(events: list[tuple[Severity, int, str]], rate: int) -> None:
    play = Play([target(rate=rate)])
    for number, (severity, pause, condition) in enumerate(events, 1):
        ends = severity is Severity.CLEARED
        play.notify(cleared(number, condition) if ends else raised(number, condition, severity))
        play.pass_time(pause)
    play.pass_time(12 * SECOND)
    received = play.received()
    reported = sum(each.suppressed for each in received if each.oid == SUMMARY)
    assert len(numbers(received)) + reported == len(events)
    assert all(first < second for first, second in itertools.pairwise(numbers(received)))


def test_the_default_receiver_gets_everything() -> None:
    assert Target("nms", NMS, TRAP_V1, b"").patterns == ("*",)
