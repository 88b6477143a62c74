"""Events that could not be sent at their time are sent late and marked so, or counted as lost."""

from __future__ import annotations

from msgspec.structs import replace

from gateway.model.observations import Severity
from gateway.model.times import SECOND
from gateway.snmp import ber
from gateway.snmp.cells import truth
from gateway.snmp.fixed_mib import NOTIFICATION_OBJECTS, NotificationObject
from gateway.snmp.notifications.delivery import MAX_WAITING, PROBE_INTERVAL
from gateway.snmp.notifications.encoding import MAX_DATAGRAM_OCTETS
from gateway.snmp.notifications.sender import SendResult
from tests.snmp.datagrams import varbind
from tests.snmp.notifications.story import GATEWAY, INFORM, NMS, ROOT, START, TRAP_V1, Play, event, target

LATE = (*ROOT, *NOTIFICATION_OBJECTS, NotificationObject.LATE, 0)


def reported(play: Play) -> list[tuple[int, bool]]:
    """Return the number of each event that arrived, and whether it was marked as late."""
    return [(each.number, LATE in each.values) for each in play.received() if each.is_event]


def test_what_happens_is_not_late() -> None:
    play = Play([target()])
    play.notify(event(1), event(2))
    assert reported(play) == [(1, False), (2, False)]


def test_what_a_snapshot_reports_that_was_not_sent_before_is_late() -> None:
    play = Play([target()])
    play.notify(event(1))
    again = play.restarted()
    again.notify(*(replace(event(number), repeated=True) for number in (1, 2, 3)), event(4))
    assert reported(again) == [(4, False), (2, True), (3, True)]  # what happens now does not wait


def test_the_mark_is_the_last_object_and_says_true() -> None:
    play = Play([target()])
    play.notify(replace(event(1, epoch=2), is_late=True))
    assert play.received() == []  # nobody was to be told of the events of before
    play.notify(event(2, epoch=2), replace(event(3, epoch=2), repeated=True))
    last = play.received()[-1]
    assert list(last.values.items())[-1] == (LATE, truth(True))


def test_events_of_a_core_that_died_are_sent_once() -> None:
    play = Play([target()])
    play.notify(event(1), event(2))
    again = play.restarted()
    former = [replace(event(number), repeated=True, is_late=True) for number in (1, 2, 3, 4)]
    fresh = [replace(event(number, epoch=2), repeated=True) for number in (1, 2)]
    again.notify(*former, *fresh, event(3, epoch=2))
    assert reported(again) == [(1, False), (2, False), (3, False), (3, True), (4, True)]
    third = again.restarted()
    third.notify(*former, *fresh)
    assert reported(third) == []


def test_what_the_first_snapshot_of_a_core_reports_is_late_if_it_is_old() -> None:
    play = Play([target()])
    old, young = START - 5 * SECOND - 1, START - SECOND
    play.notify(*(replace(event(n, received=at), repeated=True) for n, at in ((1, old), (2, young))))
    assert reported(play) == [(2, False), (1, True)]


def test_the_configuration_says_what_is_old() -> None:
    play = Play([target()], late_after=60 * SECOND)
    old, young = START - 61 * SECOND, START - 59 * SECOND
    play.notify(*(replace(event(n, received=at), repeated=True) for n, at in ((1, old), (2, young))))
    assert reported(play) == [(2, False), (1, True)]


def test_what_a_snapshot_leaves_out_is_counted_and_reported_to_each_receiver() -> None:
    other = ("192.0.2.9", 162)
    play = Play([target(), target("other", other)])
    play.notify(event(1))
    again = play.restarted()
    again.notify(replace(event(5), repeated=True), event(6))
    assert [health.lost for health in again.sender.health.values()] == [3, 3]
    again.pass_time(2 * SECOND)
    for address in (NMS, other):
        (summary,) = [each for each in again.received(address) if not each.is_event]
        assert summary.suppressed == 3
        assert summary.content(NotificationObject.SUPPRESSED_NAMES) == b"*:* 3"
        ids = f"{GATEWAY}.1.2 to {GATEWAY}.1.4"
        text = f"3 events from {ids} cannot be sent: the event log does not have them: *:* 3".encode()
        assert summary.content(NotificationObject.TEXT) == text


def test_what_is_missed_is_distinguished_from_what_was_not_sent_after_a_restart() -> None:
    play = Play([target(rate=1)])
    play.notify(*(event(number) for number in range(1, 4)))  # one of the bucket's four is for information
    again = play.restarted()
    again.notify(replace(event(7), repeated=True))
    third = again.restarted()
    third.pass_time(20 * SECOND)
    (summary,) = [each for each in third.received() if not each.is_event]
    missed = f"3 events from {GATEWAY}.1.4 to {GATEWAY}.1.6 cannot be sent: the event log does not have them"
    names = "*:* 3, rabbitmq:queueDeleted 2"
    text = f"2 notifications were not sent to this receiver, and {missed}: {names}"
    assert summary.content(NotificationObject.TEXT).decode() == text


def test_without_a_memory_nothing_counts_as_lost() -> None:
    play = Play([target()])
    play.notify(replace(event(500), repeated=True))
    assert play.sender.health["nms"].lost == 0


def test_the_beginning_of_a_new_core_that_is_not_kept_any_more_is_lost() -> None:
    play = Play([target()])
    play.notify(event(7))
    again = play.restarted()
    again.notify(replace(event(4, epoch=2), repeated=True))
    assert again.sender.health["nms"].lost == 3


def test_informs_that_the_last_process_was_not_answered_are_late() -> None:
    play = Play([target(kind=INFORM)])
    play.notify(event(1))
    again = play.restarted()
    again.settle()
    assert reported(again) == [(1, True)]
    third = again.restarted()
    third.settle()
    (inform,) = third.received()
    assert list(inform.values).count(LATE) == 1
    assert inform.values[LATE] == truth(True)


def test_the_mark_is_never_cut() -> None:
    octets = ber.encode_octets(b"x" * 200)
    own = tuple(varbind((*ROOT, 2, 1, 1, 1000, n, 0), octets) for n in range(10))
    for kind in (TRAP_V1, INFORM):
        play = Play([target(kind=kind)])
        play.notify(event(1), replace(event(2, arguments=own, text="t" * 255), repeated=True))
        datagram = play.sent[NMS][-1]
        assert len(datagram) <= MAX_DATAGRAM_OCTETS
        assert ber.encode_varbind(ber.encode_name(LATE), truth(True)) in datagram


def test_events_that_no_snapshot_reports_any_more_are_lost_however_many_cores_made_them() -> None:
    play = Play([target(), target("other", ("192.0.2.9", 162))])
    play.notify(event(4))
    again = play.restarted()
    again.sender.events_made(1, 4)
    assert again.sender.health["nms"].lost == 0  # all of them were handled
    again.notify(replace(event(6), repeated=True, is_late=True))
    for made in ((1, 9), (2, 3)):
        again.sender.events_made(*made)
    again.notify(replace(event(1, epoch=3), repeated=True), event(2, epoch=3))
    assert reported(again) == [(6, True), (1, False), (2, False)]
    assert [health.lost for health in again.sender.health.values()] == [7, 7]  # 1.5, 1.7 to 1.9, 2.1 to 2.3
    third = again.restarted()
    third.sender.events_made(2, 3)
    assert third.sender.health["nms"].lost == 0  # told before


def test_an_agent_that_remembers_nothing_was_not_there_and_loses_nothing() -> None:
    play = Play([target()])
    play.notify(*(replace(event(number), repeated=True, is_late=True) for number in (3, 4, 7)))
    play.sender.events_made(1, 9)
    play.notify(replace(event(1, epoch=2), repeated=True))
    assert reported(play) == [(1, False)]
    assert play.sender.health["nms"].lost == 0


def test_events_of_a_core_whose_number_is_not_known_are_reported_as_that_and_once() -> None:
    play = Play([target(), target("other", ("192.0.2.9", 162))])
    play.notify(event(3))
    again = play.restarted()
    again.sender.events_made(1, 5, more=True)
    again.notify(replace(event(1, epoch=2), repeated=True))
    again.pass_time(2 * SECOND)
    for address in (NMS, ("192.0.2.9", 162)):
        (summary,) = [each for each in again.received(address) if not each.is_event]
        assert summary.suppressed == 2, "those that are known"
        assert summary.content(NotificationObject.SUPPRESSED_NAMES) == b"*:* 2, *:* unknown"
        ids, cannot = f"{GATEWAY}.1.4 to {GATEWAY}.1.5", "cannot be sent"
        unknown = f"an unknown number of events from {GATEWAY}.1.6 on {cannot}"
        text = f"2 events from {ids} {cannot}: the event log does not have them, and {unknown}"
        assert summary.content(NotificationObject.TEXT).decode().startswith(text)
    third = again.restarted()
    third.sender.events_made(1, 5, more=True)
    third.notify(replace(event(1, epoch=2), repeated=True), event(2, epoch=2))
    third.pass_time(2 * SECOND)
    assert [each.number for each in third.received()] == [2], "that was reported before"


def test_what_is_not_known_outlives_the_agent_that_had_no_time_to_report_it() -> None:
    play = Play([target()])
    play.notify(event(3))
    again = play.restarted()
    again.sender.events_made(1, 3, more=True)
    third = again.restarted()
    third.pass_time(2 * SECOND)
    (summary,) = [each for each in third.received() if not each.is_event]
    assert summary.suppressed == 0
    assert f"from {GATEWAY}.1.4 on" in summary.content(NotificationObject.TEXT).decode()


def test_what_is_missed_is_reported_when_the_system_takes_the_report() -> None:
    play = Play([target()])
    play.notify(event(1))
    again = play.restarted()
    again.notify(event(5, repeated=True))
    again.result = SendResult.FAILED
    again.pass_time(15 * SECOND)
    again.sender.events_made(1, 7)  # more is missed meanwhile
    again.pass_time(15 * SECOND)
    again.result = SendResult.SENT
    again.pass_time(15 * SECOND)
    (summary,) = [each for each in again.received() if not each.is_event]
    assert summary.suppressed == 5
    ids = f"{GATEWAY}.1.2 to {GATEWAY}.1.7"
    assert summary.content(NotificationObject.TEXT).decode().startswith(f"5 events from {ids} cannot be sent")
    assert again.sender.health["nms"].failed == 0


def test_what_is_missed_outlives_an_agent_whose_report_the_system_had_no_room_for() -> None:
    play = Play([target()])
    play.notify(event(1))
    again = play.restarted()
    again.notify(event(5, repeated=True))
    again.received()
    again.result = SendResult.BUSY
    again.pass_time(2 * SECOND)
    third = again.restarted(result=SendResult.SENT)
    third.pass_time(2 * SECOND)
    (summary,) = third.received()
    text = summary.content(NotificationObject.TEXT).decode()
    assert text.startswith(f"3 events from {GATEWAY}.1.2 to {GATEWAY}.1.4")


def test_a_report_that_a_full_queue_had_no_room_for_is_made_again() -> None:
    play = Play([target(kind=INFORM, window=1, rate=100_000)])
    play.notify(event(1))
    play.answer_all()
    again = play.restarted()
    again.notify(event(5, repeated=True))
    again.answer_all()
    again.pass_time(SECOND // 2)
    again.notify(event(6))  # not answered, so that the report waits
    again.pass_time(SECOND // 2)
    again.notify(*(event(number, severity=Severity.MAJOR) for number in range(7, MAX_WAITING + 7)))
    again.pass_time(60 * SECOND)
    again.sent.clear()
    received = []
    for _ in range(4):
        again.pass_time(PROBE_INTERVAL)
        received += again.answer_all()
    (summary,) = [each for each in received if not each.is_event]
    assert summary.content(NotificationObject.SUPPRESSED_NAMES) == b"*:* 3, rabbitmq:queueDeleted 1"
    assert f"3 events from {GATEWAY}.1.2 to" in summary.content(NotificationObject.TEXT).decode()
