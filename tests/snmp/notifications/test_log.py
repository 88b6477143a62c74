"""The ring of the last notifications: its bound, the wrap of its index, and what an entry may take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.model.times import SECOND
from gateway.snmp import ber
from gateway.snmp.notifications.encoding import MAX_DATAGRAM_OCTETS, EncodedNotification, NotificationEncoder
from gateway.snmp.notifications.log import LAST_INDEX, NotificationLog
from gateway.snmp.notifications.notification import COLD_START, Notification
from gateway.snmp.notifications.receiver import Target
from tests.snmp.datagrams import varbind
from tests.snmp.notifications.story import ROOT, START, TRAP, Play, event, read, target

ENCODER = NotificationEncoder(ROOT, (*ROOT, 4, 1, 1), 0)
SEVEN = ber.encode_gauge32(7)


def log_of(events: int, limit: int, first: int = 1) -> NotificationLog:
    log = NotificationLog(limit, first)
    for number in range(1, events + 1):
        record(log, event(number), up_time=number)
    return log


def record(log: NotificationLog, notification: Notification, up_time: int = 0) -> EncodedNotification:
    encoded = EncodedNotification(ENCODER, notification, up_time)
    log.record(notification, encoded, START)
    return encoded


def numbers(log: NotificationLog, index: int = 1) -> list[tuple[int, int]]:
    """Return indexes from ``index`` on, each with the number of its event, which is its sysUpTime."""
    return [(found, entry.notification.up_time) for found, entry in log.entries(index)]


def test_beyond_the_bound_the_oldest_makes_room() -> None:
    log = log_of(5, limit=3)
    assert numbers(log) == [(3, 3), (4, 4), (5, 5)]
    assert (log.logged, log.bumped) == (5, 2)
    assert log.entry(2) is None
    assert log.variables(2) == ()


def test_behind_the_last_index_is_1_and_the_youngest_come_first() -> None:
    log = log_of(4, limit=3, first=LAST_INDEX - 1)
    assert numbers(log) == [(1, 3), (2, 4), (LAST_INDEX, 2)]
    assert numbers(log, 3) == [(LAST_INDEX, 2)]
    assert log.entry(LAST_INDEX - 1) is None
    record(log, event(5), up_time=5)
    assert numbers(log) == [(1, 3), (2, 4), (3, 5)]


@given(
    events=st.integers(0, 12),
    limit=st.integers(1, 6),
    first=st.integers(1, 3) | st.integers(LAST_INDEX - 8, LAST_INDEX),
    index=st.integers(0, 15) | st.integers(LAST_INDEX - 15, LAST_INDEX + 1),
)
def test_the_last_ones_are_there_in_the_order_of_their_indexes(
    events: int, limit: int, first: int, index: int
) -> None:
    log = log_of(events, limit, first)
    last = range(max(0, events - limit), events)
    expected = sorted(((first - 1 + number) % LAST_INDEX + 1, number + 1) for number in last)
    assert numbers(log, index) == [each for each in expected if each[0] >= index]


def test_the_variables_are_those_of_the_datagram() -> None:
    happened = event(1, arguments=(varbind((*ROOT, 2, 1, 1, 1000, 1, 0), SEVEN),), types=1 << ber.GAUGE32)
    play = Play([target()])
    play.notify(happened)
    (sent,) = play.received()
    log = NotificationLog(3)
    record(log, happened)
    assert [(ber.decode_name(name), value) for name, value in log.variables(1)] == list(sent.values.items())[
        2:
    ]
    assert (log.has_type(ber.GAUGE32), log.has_type(ber.COUNTER64)) == (True, False)


def test_a_type_is_gone_with_the_last_notification_that_had_it() -> None:
    log = NotificationLog(1)
    record(log, event(1, arguments=(varbind(ROOT, SEVEN),), types=1 << ber.GAUGE32))
    assert log.has_type(ber.GAUGE32)
    record(log, event(2))
    assert not log.has_type(ber.GAUGE32)


def test_an_entry_has_no_more_than_a_datagram() -> None:
    octets = ber.encode_octets(b"x" * 200)
    own = tuple(varbind((*ROOT, 2, 1, 1, 1000, n, 0), octets) for n in range(1000))
    log = NotificationLog(2)
    for long in (event(1, text="t" * 100_000), event(2, arguments=own)):
        # What it is made of is kept until it is encoded, so that is not left to a reader.
        assert record(log, long).is_encoded
    for index in (1, 2):
        variables = log.variables(index)
        assert variables
        assert sum(len(name) + len(value) for name, value in variables) <= MAX_DATAGRAM_OCTETS
    assert not record(log, event(3)).is_encoded


def test_what_ber_cannot_express_has_no_variables() -> None:
    log = NotificationLog(2)
    for number, text in enumerate(("", "t" * 100_000), 1):
        record(log, event(number, oid=(9, 9, 9), text=text))
        assert log.variables(number) == log.variables(number) == ()


def test_each_notification_that_is_made_is_recorded_once_for_all_receivers() -> None:
    log = NotificationLog(10)
    others: list[Target] = [target("none", severity=5), target("all", ("192.0.2.9", 162), kind=TRAP)]
    for targets, expected in (([], 3), (others, 6)):
        play = Play(targets, record=lambda made, encoded: log.record(made, encoded, START))
        play.sender.start()
        play.notify(event(1), event(2), event(1))  # the last one was handled before
        play.pass_time(SECOND)
        assert log.logged == expected
    entry = log.entry(1)
    assert entry is not None
    assert entry.notification.oid == COLD_START
    assert len([read(each) for each in play.sent["192.0.2.9", 162]]) == 3
