"""Informs are sent until they are answered, in bounded number, for any behaviour of the receiver."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from gateway.model.observations import EventState, Severity
from gateway.model.times import HOUR, SECOND
from gateway.snmp import ber, message
from gateway.snmp.cells import date_and_time
from gateway.snmp.fixed_mib import NOTIFICATIONS, NotificationObject, OwnNotification
from gateway.snmp.notifications.delivery import (
    FIRST_PATIENCE,
    MAX_WAITING,
    PROBE_INTERVAL,
    WINDOW,
    InformDelivery,
    Waiting,
)
from gateway.snmp.notifications.sender import SendResult
from tests.snmp.notifications.story import (
    INFORM,
    NMS,
    ROOT,
    START,
    Play,
    answer_to,
    cleared,
    event,
    raised,
    read,
    target,
)

SUMMARY = (*ROOT, *NOTIFICATIONS, OwnNotification.EVENTS_SUPPRESSED)


def inform_play(rate: int = 1000) -> Play:
    return Play([target(kind=INFORM, rate=rate)])


def sending_times(play: Play, duration: int, step: int = SECOND // 4) -> list[float]:
    """Return the times at which notifications were sent to the receiver, in seconds from now."""
    times, begin = [], play.now
    while play.now < begin + duration:
        play.pass_time(step)
        times += [(play.now - begin) / SECOND] * len(play.received())
    return times


def test_an_inform_is_sent_once_when_it_is_answered() -> None:
    play = inform_play()
    play.notify(event())
    (inform,) = play.answer_all()
    assert inform.pdu_type == message.INFORM
    assert inform.number == 1
    play.pass_time(HOUR)
    assert play.received() == []
    health = play.sender.health["nms"]
    assert (health.sent, health.acknowledged, health.waiting, health.failed) == (1, 1, 0, 0)


def test_without_an_answer_it_is_sent_again_with_the_same_request_id_after_doubled_pauses() -> None:
    play = inform_play()
    play.notify(event())
    datagrams = list(play.sent[NMS])
    play.sent.clear()
    assert sending_times(play, 30 * SECOND) == [1, 3, 7, 15]
    play.pass_time(SECOND)
    datagrams += play.sent[NMS]
    assert len(set(datagrams)) == 1
    assert play.sender.health["nms"].sent == 1


def test_a_report_that_arrives_twice_lets_it_be_sent_again_once() -> None:
    delivery, now = InformDelivery(1000, START), START
    waiting = Waiting(1, Severity.INFO, "rabbitmq:queueCreated", None, 7, b"")
    delivery.add(waiting)
    delivery.sent(waiting, now)

    for _ in range(3):
        delivery.resend(7, now)

    assert delivery.next(now) == waiting
    delivery.sent(waiting, now)
    assert delivery.next(now) is None
    assert delivery.due(now) == now + FIRST_PATIENCE


def test_a_silent_receiver_is_tried_with_one_inform_every_fifteen_seconds() -> None:
    play = inform_play()
    play.notify(*(event(number) for number in range(1, 101)))
    play.pass_time(40 * SECOND)
    play.sent.clear()
    times = sending_times(play, 120 * SECOND)
    assert len(times) == 120 * SECOND // PROBE_INTERVAL


def test_a_receiver_whose_name_leads_to_two_dead_addresses_in_turn_becomes_silent_all_the_same() -> None:
    play = inform_play()
    play.notify(*(event(number) for number in range(1, 41)))
    play.pass_time(4 * SECOND)
    play.sent.clear()
    play.sender.moved(NMS)
    play.settle()
    assert len(play.received()) == WINDOW, "the other address gets all that were not answered at once"
    for _ in range(4):
        play.pass_time(5 * SECOND)  # a name is looked up so long after a try without an answer
        play.sender.moved(NMS)
        play.settle()
    play.sent.clear()
    for _ in range(4):
        play.pass_time(5 * SECOND)
        play.sender.moved(NMS)
        play.settle()
    assert len(play.received()) == 4, "one inform at each address in turn"
    play.pass_time(PROBE_INTERVAL)
    assert {each.number for each in play.answer_all()} == set(range(1, 41))


def test_up_to_a_window_of_them_is_under_way() -> None:
    play = inform_play()
    play.notify(*(event(number) for number in range(1, 101)))
    assert len(play.received()) == WINDOW
    assert play.sender.health["nms"].waiting == 100


def test_the_window_of_a_receiver_can_be_configured() -> None:
    play = Play([target(kind=INFORM, window=40, rate=1000)])
    play.notify(*(event(number) for number in range(1, 101)))
    assert len(play.received()) == 40
    play.pass_time(SECOND)
    assert [each.number for each in play.received()] == list(range(1, 41))


def test_a_receiver_that_was_down_for_an_hour_gets_what_waits_the_most_urgent_first() -> None:
    play = inform_play()
    for minute in range(60):
        play.notify(event(2 * minute + 1), raised(2 * minute + 2, f"c{minute}"))
        play.pass_time(60 * SECOND)
    play.sent.clear()
    play.pass_time(PROBE_INTERVAL)
    numbers = [each.number for each in play.answer_all()]
    assert len(numbers) == 120
    assert numbers[1:60] == list(range(4, 121, 2))
    assert numbers[60:] == list(range(1, 121, 2))
    health = play.sender.health["nms"]
    assert (health.acknowledged, health.waiting, health.failed) == (120, 0, 0)


def flooded(play: Play) -> int:
    """Notify more than can wait, the first hundred of it urgent; return the number of those in excess."""
    play.notify(*(raised(number, f"c{number}") for number in range(1, 101)))
    play.notify(*(event(number) for number in range(101, MAX_WAITING + 301)))
    return 300


def test_beyond_the_bound_the_oldest_of_the_least_urgent_make_room_and_the_receiver_is_notified() -> None:
    play = inform_play(rate=100_000)
    too_many = flooded(play)
    health = play.sender.health["nms"]
    assert (health.waiting, health.suppressed, health.failed) == (MAX_WAITING, 0, too_many)
    received = play.answer_all()
    play.pass_time(SECOND)
    received += play.answer_all()
    events = [each.number for each in received if each.is_event]
    assert sorted(events) == [*range(1, 101), *range(401, MAX_WAITING + 301)]
    assert [each.suppressed for each in received if each.oid == SUMMARY] == [too_many]


def test_none_makes_room_for_those_less_urgent_that_wait_for_an_answer_of_their_condition() -> None:
    play = inform_play(rate=100_000)
    for number in range(1, MAX_WAITING, 2):
        play.notify(raised(number, "c", Severity.INFO), cleared(number + 1, "c"))
    urgent = range(MAX_WAITING + 1, MAX_WAITING + 41)
    play.notify(*(raised(number, f"c{number}") for number in urgent))
    assert play.sender.health["nms"].failed == len(urgent)
    received = [each.number for each in play.answer_all() if each.is_event]
    assert set(urgent) <= set(received)
    others = [number for number in received if number <= MAX_WAITING]
    assert others == sorted(others)
    assert len(received) == MAX_WAITING


def test_losses_of_a_silent_receiver_are_notified_once_when_it_is_back() -> None:
    play = inform_play(rate=100_000)
    play.notify(*(event(number) for number in range(1, WINDOW + 1)))
    play.pass_time(60 * SECOND)
    play.notify(*(event(number) for number in range(WINDOW + 1, MAX_WAITING + 51)))
    play.pass_time(HOUR)
    health = play.sender.health["nms"]
    assert (health.waiting, health.suppressed, health.failed) == (MAX_WAITING, 0, 50)
    play.sent.clear()
    play.pass_time(PROBE_INTERVAL)
    received = play.answer_all()
    play.pass_time(2 * SECOND)
    received += play.answer_all()
    (summary,) = [each for each in received if each.oid == SUMMARY]
    assert summary.suppressed == 50
    # The first informs were sent, and only their answers may have been lost; one of them is still repeated.
    text = summary.content(NotificationObject.TEXT).decode()
    assert text.startswith("35 notifications were not sent to this receiver, and 15 may have been lost: ")
    assert len([each for each in received if each.is_event]) == MAX_WAITING


def test_a_flood_of_information_does_not_hold_up_an_alarm() -> None:
    play = inform_play(rate=100)
    play.notify(*(event(number) for number in range(1, 1500)))
    under_way = [answer_to(datagram) for datagram in play.sent.pop(NMS)]
    play.notify(raised(1500, "c"))
    play.sender.received(under_way[0], NMS)
    play.settle()
    assert [each.number for each in play.received()] == [1500]


def test_in_a_flood_that_does_not_end_a_receiver_gets_its_rate_and_is_reported_the_rest() -> None:
    play = inform_play(rate=100)
    received = []
    for number in range(1, 8_501):  # for seventeen seconds, 500 a second
        play.notify(event(number))
        play.pass_time(SECOND // 500)
        received += play.answer_all()
    while play.sender.health["nms"].waiting:
        play.pass_time(SECOND)
        received += play.answer_all()
    play.pass_time(2 * SECOND)
    received += play.answer_all()
    reported = [each.suppressed for each in received if each.oid == SUMMARY]
    events = [each for each in received if each.is_event]
    assert len(events) + sum(reported) == 8_500
    assert len(events) == len({each.number for each in events})
    assert 2 <= len(reported) <= 5


def test_a_backlog_is_sent_no_faster_than_the_rate() -> None:
    play = inform_play(rate=10)
    for number in range(1, 201):
        play.notify(event(number))
        play.pass_time(SECOND // 5)
    play.sent.clear()
    counts = []
    for _ in range(60):
        counts.append(len(play.answer_all()))
        play.pass_time(SECOND)
    assert sum(counts) == 200
    assert max(counts) <= 10 + 10  # a bucket that is full, and what is refilled within the second
    assert sorted(counts)[-3] <= 11


def test_an_end_does_not_overtake_its_beginning() -> None:
    play = inform_play()
    play.notify(raised(1, "c"), cleared(2, "c"), raised(3, "c"), raised(4, "other"))
    lost = play.received()
    assert [each.number for each in lost] == [1, 4]
    play.pass_time(SECOND)
    assert [each.number for each in play.answer_all()] == [1, 4, 2, 3]


def test_beginnings_and_ends_are_in_order_after_a_silence_too() -> None:
    play = inform_play()
    for number in range(1, 41, 2):
        play.notify(raised(number, "c"), cleared(number + 1, "c"))
    play.pass_time(HOUR)
    play.sent.clear()
    play.pass_time(PROBE_INTERVAL)
    numbers = [each.number for each in play.answer_all()]
    assert numbers == list(range(1, 41))


# ---- answers ------------------------------------------------------------------------------------------


def test_an_answer_from_another_address_or_to_another_request_is_dropped() -> None:
    play = inform_play()
    play.notify(event())
    (datagram,) = play.sent[NMS]
    play.sender.received(answer_to(datagram), ("192.0.2.1", 163))
    play.sender.received(answer_to(datagram), ("192.0.2.2", 162))
    play.sender.received(answer_to(datagram.replace(b"\x02\x02\x03\xe8", b"\x02\x02\x03\xe9")), NMS)
    assert play.sender.health["nms"].acknowledged == 0
    play.sender.received(answer_to(datagram), NMS)
    play.sender.received(answer_to(datagram), NMS)
    assert play.sender.health["nms"].acknowledged == 1


def test_messages_and_answers_are_counted_for_the_group_snmp() -> None:
    play = inform_play()
    play.notify(event())
    (datagram,) = play.sent[NMS]
    play.pass_time(SECOND)  # it is sent again
    play.sender.received(b"nothing of SNMP", NMS)
    play.sender.received(answer_to(datagram), NMS)
    counts = play.sender.counts
    assert (counts.datagrams, counts.traps, counts.received) == (2, 0, 2)
    assert counts.statuses == {message.NO_ERROR: 1}


def test_an_answer_counts_however_late() -> None:
    play = inform_play()
    play.notify(event(1), event(2))
    datagrams = play.sent.pop(NMS)
    play.pass_time(HOUR)
    play.sent.clear()
    for datagram in datagrams:
        play.sender.received(answer_to(datagram), NMS)
    play.settle()
    health = play.sender.health["nms"]
    assert (health.acknowledged, health.waiting) == (2, 0)
    play.pass_time(HOUR)
    assert play.received() == []


def test_one_that_was_never_sent_cannot_be_answered() -> None:
    play = inform_play()
    play.notify(*(event(number) for number in range(1, 40)))
    (first, *_) = play.sent[NMS]
    guess = answer_to(first.replace(b"\x02\x02\x03\xe8", b"\x02\x02\x04\x00"))
    play.sender.received(guess, NMS)
    assert play.sender.health["nms"].acknowledged == 0


def test_a_receiver_that_refuses_is_not_asked_again() -> None:
    play = inform_play()
    play.notify(event())
    (datagram,) = play.sent[NMS]
    play.sender.received(answer_to(datagram, message.GEN_ERR), NMS)
    health = play.sender.health["nms"]
    assert (health.acknowledged, health.failed, health.waiting) == (0, 1, 0)


def test_what_the_system_cannot_send_is_tried_again_like_what_is_lost() -> None:
    play = Play([target(kind=INFORM)], result=SendResult.FAILED)
    play.notify(event())
    play.result = SendResult.SENT
    play.pass_time(SECOND)
    assert [each.number for each in play.answer_all()] == [1]


@given(st.binary(max_size=200))
def test_any_octets_from_a_receiver_do_nothing(datagram: bytes) -> None:
    play = inform_play()
    play.notify(event())
    play.sender.received(datagram, NMS)
    assert play.sender.health["nms"].waiting == 1


@given(st.randoms(use_true_random=False), st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_answer_is_an_answer_or_nothing(rng: random.Random, place: int, octet: int) -> None:
    play = inform_play()
    play.notify(event())
    answer = bytearray(answer_to(play.sent[NMS][0]))
    answer[place % len(answer)] = octet
    del answer[rng.randrange(len(answer)) :: rng.choice([1000, 1])]
    play.sender.received(bytes(answer), NMS)
    assert play.sender.health["nms"].waiting in (0, 1)


# ---- after a kill -------------------------------------------------------------------------------------


def test_what_was_not_answered_is_sent_again_by_the_next_process() -> None:
    play = inform_play()
    play.notify(event(1), raised(2, "c"), event(3))
    (first,) = [each for each in play.sent[NMS] if read(each).number == 1]
    play.sender.received(answer_to(first), NMS)
    again = play.restarted()
    again.settle()
    assert [each.number for each in again.answer_all()] == [2, 3]


def test_it_passes_over_what_was_handled_and_sends_what_was_not() -> None:
    play = inform_play()
    play.notify(*(event(number) for number in range(1, 6)))
    play.answer_all()
    again = play.restarted()
    again.notify(*(event(number) for number in range(1, 9)))
    assert [each.number for each in again.answer_all()] == [6, 7, 8]


def test_the_events_of_a_core_that_was_started_meanwhile_are_all_new() -> None:
    play = inform_play()
    play.notify(*(event(number) for number in range(1, 6)))
    play.answer_all()
    again = play.restarted()
    again.notify(*(event(number, epoch=2) for number in range(1, 4)))
    assert [each.number for each in again.answer_all()] == [1, 2, 3]


def test_an_end_after_a_restart_goes_where_the_beginning_went() -> None:
    play = Play([target(kind=INFORM, severity=Severity.CRITICAL)])
    play.notify(raised(1, "c"))
    play.answer_all()
    again = play.restarted()
    again.notify(cleared(2, "c"))
    assert [each.number for each in again.answer_all()] == [2]


def test_what_was_suppressed_is_reported_by_the_next_process() -> None:
    play = Play([target(rate=1)])
    play.notify(*(event(number) for number in range(1, 12)))
    again = play.restarted(now=play.now)
    again.pass_time(SECOND)
    (summary,) = again.received()
    assert (summary.oid, summary.suppressed) == (SUMMARY, 10)
    since = ber.encode_octets(summary.content(NotificationObject.SUPPRESSED_SINCE))
    assert since == date_and_time(START)


def test_what_was_not_answered_is_owed_to_a_receiver_that_gets_traps_now() -> None:
    play = Play([target(kind=INFORM, severity=Severity.CRITICAL)])
    play.notify(raised(1, "c"), raised(2, "d"))
    play.answer_all()
    play.notify(cleared(3, "c"))
    play.sender.test("nms")
    again = play.restarted(targets=[target(severity=Severity.CRITICAL)])
    again.pass_time(2 * SECOND)
    late, summary = again.received()
    assert (late.number, late.pdu_type) == (3, message.TRAP_V2)
    text = summary.content(NotificationObject.TEXT).decode()
    assert text == "1 notifications to this receiver may have been lost: gateway:test 1"
    assert again.sender.health["nms"].failed == 1


def test_a_receiver_that_is_new_begins_where_the_others_are() -> None:
    play = inform_play()
    play.notify(*(event(number) for number in range(1, 6)))
    play.answer_all()
    elsewhere = ("192.0.2.9", 162)
    again = play.restarted(targets=[target(kind=INFORM), target("new", elsewhere)])
    again.notify(*(event(number) for number in range(1, 7)))
    assert [each.number for each in again.received(elsewhere)] == [6]


def test_a_receiver_that_is_gone_is_forgotten() -> None:
    play = inform_play()
    play.notify(event())
    assert play.restarted(targets=[]).sender.saved().targets == ()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["info", "raise", "clear", "answer", "lose", "wait", "restart"]),
            st.integers(1, 3),
        ),
        max_size=60,
    )
)
def test_whatever_happens_every_inform_arrives_and_each_condition_in_order(
    steps: list[tuple[str, int]],
) -> None:
    play = inform_play()
    arrived: list[tuple[int, str]] = []

    def take() -> None:
        arrived.extend(
            (each.number, each.content(NotificationObject.CONDITION).decode()) for each in play.answer_all()
        )

    for number, (step, which) in enumerate(steps, 1):
        if step == "info":
            play.notify(event(number))
        elif step == "raise":
            play.notify(raised(number, f"c{which}"))
        elif step == "clear":
            play.notify(cleared(number, f"c{which}"))
        elif step == "answer":
            take()
        elif step == "lose":
            play.received()
        elif step == "wait":
            play.pass_time(10**which * SECOND)
        else:
            play = play.restarted()
    play.sent.clear()
    play.pass_time(60 * SECOND)
    take()
    play.pass_time(60 * SECOND)
    take()
    sent = {at for at, (step, _) in enumerate(steps, 1) if step in ("info", "raise", "clear")}
    assert {each for each, _ in arrived} == sent
    for condition in ("c1", "c2", "c3"):
        first = list(dict.fromkeys(each for each, of in arrived if of == condition))
        assert first == sorted(first)


def test_states_are_reported_as_the_mib_has_them() -> None:
    play = inform_play()
    play.notify(event(1), raised(2, "c"), cleared(3, "c"))
    states = {each.number: each.content(NotificationObject.STATE)[0] for each in play.answer_all()}
    assert states == {1: 3, 2: 1, 3: 2}
    assert len(EventState) == len(states)
