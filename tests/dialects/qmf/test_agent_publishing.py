"""The agent session as a play: its publications, their times, and what is never published."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.qmf.agent import AgentConfig, ManagedObject
from gateway.dialects.qmf.agent_objects import MAX_BODY, MAX_RECORDS, join_records
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    CommandComplete,
    GetQuery,
    Heartbeat,
    PackageIndication,
    PackageQuery,
    PropertyContent,
)
from gateway.dialects.session import ReadAsked, TimerExpired
from gateway.model.observations import Severity
from gateway.model.times import SECOND
from tests.dialects.qmf.agent_story import (
    HEARTBEAT,
    POND,
    PUSHED,
    properties,
    started,
    statistics,
)
from tests.dialects.qmf.examples import LEAK, TANK
from tests.dialects.qmf.playbook import BROKER, CONSOLE_USER, QUEUE, START, AgentPlay, tank


def test_what_the_link_must_bind() -> None:
    bound = [(one.exchange, one.routing_key) for one in AgentPlay().session.bindings()]
    assert bound == [
        ("qpid.management", "broker"),
        ("qpid.management", "agent.1.0"),
        ("qpid.management", "schema.#"),
    ]


def test_a_start_announces_the_packages_and_the_first_interval_reports_everything() -> None:
    play = AgentPlay()
    play.session.put(tank())
    play.starts()
    play.leaves(("schema.package", PackageIndication(0, "shop")))
    play.flushes()
    play.leaves()
    play.time_passes(10)
    play.leaves(
        (PUSHED, properties(play)), (PUSHED, statistics(play)), (HEARTBEAT, Heartbeat(0, START + 10 * SECOND))
    )
    assert play.wake_at == START + 20 * SECOND


def test_an_agent_of_nothing_has_nothing_to_announce() -> None:
    play = AgentPlay(classes=(), events=())
    play.starts()
    play.leaves()
    play.asks(PackageQuery(1))
    play.leaves((QUEUE, CommandComplete(1)))


def test_an_idle_interval_is_a_heartbeat() -> None:
    play = started(tank())
    play.time_passes(10)
    play.leaves((HEARTBEAT, Heartbeat(0, START + 20 * SECOND)))


def test_only_what_changed_is_published() -> None:
    play = started(tank())
    play.session.put(tank(fills=10))
    play.time_passes(10)
    assert play.left()[:-1] == [(PUSHED, statistics(play, fills=10))]
    play.session.put(tank(name="t2", fills=10))
    play.time_passes(10)
    assert play.left()[:-1] == [(PUSHED, properties(play, "t2"))]
    play.session.put(replace(tank(name="t2", fills=10), sampled=START + 1))
    play.time_passes(10)
    assert play.left()[:-1] == []


def test_absent_statistics_are_marked() -> None:
    play = started(tank())
    play.session.put(tank(level=None))
    play.time_passes(10)
    assert play.left()[:-1] == [(PUSHED, statistics(play, level=0.0, absent=0b01))]


def test_a_creation_leaves_at_once() -> None:
    play = started()
    play.session.put(tank())
    play.flushes()
    play.leaves((PUSHED, properties(play)), (PUSHED, statistics(play)))
    play.flushes()
    play.leaves()
    play.time_passes(10)
    play.leaves((HEARTBEAT, Heartbeat(0, START + 20 * SECOND)))


def test_a_creation_that_is_not_flushed_leaves_with_the_interval() -> None:
    play = started()
    play.session.put(tank())
    play.time_passes(10)
    assert play.left()[:-1] == [(PUSHED, properties(play)), (PUSHED, statistics(play))]


def test_a_deletion_leaves_at_once_and_says_when() -> None:
    play = started(tank())
    assert play.session.delete(0x1122, START + 7)
    assert not play.session.delete(0x1122, START + 8)
    play.flushes()
    play.leaves((PUSHED, properties(play, deleted=START + 7)))


def test_what_is_sent_once_outlives_a_broker_and_what_is_sent_again_need_not() -> None:
    play = started(tank())

    def are_persistent() -> list[bool]:
        reported, play.sent = play.sent, []
        return [one.persistent for one in reported]

    are_persistent()
    play.session.put(tank(number=5))
    play.flushes()
    play.session.delete(0x1122, START + 7)
    play.flushes()
    play.take(play.session.raise_event(LEAK.key, START, Severity.MAJOR, ("t1", 5)))
    assert are_persistent() == [True] * 3
    play.session.put(tank(number=5, fills=10))
    play.time_passes(10)
    assert are_persistent() == [False, False]  # and the heartbeat
    play.session.put(tank(number=6))
    play.time_passes(10)
    assert are_persistent() == [True, False]


def test_a_deletion_reports_the_last_statistics_if_they_were_missed() -> None:
    play = started(tank())
    play.session.put(tank(fills=10))
    play.session.delete(0x1122, START + 7)
    play.flushes()
    play.leaves(
        (PUSHED, properties(play, deleted=START + 7)), (PUSHED, statistics(play, fills=10, deleted=START + 7))
    )


def test_created_and_deleted_before_a_flush_is_one_record_with_both_times() -> None:
    play = started()
    play.session.put(tank())
    play.session.delete(0x1122, START + 7)
    play.flushes()
    play.leaves((PUSHED, properties(play, deleted=START + 7)))


def test_deletions_come_first_and_the_newest_object_first_of_them() -> None:
    play = started(tank(1), tank(2))
    play.session.delete(1, START + 7)
    play.session.delete(2, START + 8)
    play.session.put(tank(3))
    play.time_passes(10)
    assert play.left()[:-1] == [
        (PUSHED, properties(play, deleted=START + 8, number=2)),
        (PUSHED, properties(play, deleted=START + 7, number=1)),
        (PUSHED, properties(play, number=3)),
        (PUSHED, statistics(play, number=3)),
    ]


def test_lives_that_were_not_published_come_in_their_order() -> None:
    """Two objects may have the same name if the first ended before the second began."""
    play = started()
    for number in (1, 2):
        play.session.put(tank(number))
        play.session.delete(number, START + number)
    play.flushes()
    play.leaves(*((PUSHED, properties(play, deleted=START + number, number=number)) for number in (1, 2)))


def test_an_object_that_comes_back_is_deleted_and_created() -> None:
    play = started(tank())
    play.session.delete(0x1122, START + 7)
    play.session.put(tank(name="t2"))
    play.flushes()
    play.leaves(
        (PUSHED, properties(play, deleted=START + 7)),
        (PUSHED, properties(play, "t2")),
        (PUSHED, statistics(play)),
    )


def test_bodies_hold_one_class_and_no_more_than_peers_take() -> None:
    play = started(classes=(TANK, POND))
    for number in range(250):
        play.session.put(tank(number, name="n" * 200))
        play.session.put(ManagedObject(POND.key, 1000 + number, START, ("n" * 200,), (), START))
    play.sent.clear()
    play.flushes()
    assert sum(len(list(play.left())) for _ in range(1)) == 750
    assert {send.routing_key for send in play.sent} == {PUSHED, "console.obj.1.0.shop.pond"}
    assert [key for key, _ in groupby(send.routing_key for send in play.sent)] == [
        PUSHED,
        "console.obj.1.0.shop.pond",
    ]
    for send in play.sent:
        assert len(send.body) <= MAX_BODY
        assert send.body.count(b"AM2") <= MAX_RECORDS


@given(st.lists(st.lists(st.integers(8, 40_000), min_size=1, max_size=2), max_size=12), st.integers(2, 5))
def test_joined_bodies_keep_every_record_in_order(sizes: list[list[int]], limit: int) -> None:
    groups = [[bytes(size) for size in group] for group in sizes]
    bodies = list(join_records(groups, limit))
    assert b"".join(bodies) == b"".join(record for group in groups for record in group)
    assert all(0 < len(body) <= MAX_BODY for body in bodies)


def test_a_console_that_appears_makes_everything_reported_again_at_the_next_interval() -> None:
    play = started(tank())
    play.asks(BrokerRequest(3))
    play.leaves((QUEUE, BrokerResponse(3, BROKER)))
    play.time_passes(10)
    assert play.left()[:-1] == [(PUSHED, properties(play)), (PUSHED, statistics(play))]
    play.take(play.session.console_bound(play.now))
    play.time_passes(10)
    assert play.left()[:-1] == [(PUSHED, properties(play)), (PUSHED, statistics(play))]


def test_nothing_is_said_before_the_start() -> None:
    play = AgentPlay()
    play.session.put(tank())
    play.flushes()
    play.take(play.session.handle(TimerExpired(), play.now))
    play.take(play.session.console_bound(play.now))
    play.take(play.session.raise_event(LEAK.key, START, Severity.MAJOR, ("t1", 5)))
    play.leaves()
    play.asks(BrokerRequest(1))
    play.leaves("not-ready")


def test_what_was_created_and_deleted_before_the_first_start_is_not_reported() -> None:
    play = AgentPlay()
    play.session.put(tank(1))
    play.session.delete(1, START)
    play.starts()
    play.left()
    play.flushes()
    play.leaves()


def test_what_changes_while_suspended_is_reported_after_the_next_start() -> None:
    play = started(tank(1), tank(2))
    play.session.suspend()
    play.session.delete(1, START + 7)
    play.session.put(tank(3))
    play.flushes()
    play.time_passes(60)
    play.leaves()
    play.starts()
    play.left()
    play.flushes()
    play.leaves(
        (PUSHED, properties(play, deleted=START + 7, number=1)),
        (PUSHED, properties(play, number=3)),
        (PUSHED, statistics(play, number=3)),
    )
    play.time_passes(10)
    assert len(play.left()) == 5  # both tanks whole, and the heartbeat


def test_starting_twice_only_announces_again() -> None:
    play = started(tank())
    wake_at = play.wake_at
    play.time_passes(3)
    play.starts()
    play.leaves(("schema.package", PackageIndication(0, "shop")))
    assert play.wake_at == wake_at
    play.time_passes(7)
    play.leaves((HEARTBEAT, Heartbeat(0, START + 20 * SECOND)))


def test_a_tick_too_early_changes_nothing() -> None:
    play = started(tank())
    wake_at = play.wake_at
    play.take(play.session.handle(TimerExpired(), play.now + 1))
    play.leaves()
    assert play.wake_at == wake_at


def test_a_late_tick_is_not_made_up_for() -> None:
    play = started(tank())
    play.now += 100 * SECOND
    play.take(play.session.handle(TimerExpired(), play.now))
    play.leaves((HEARTBEAT, Heartbeat(0, play.now)))
    assert play.wake_at == play.now + 10 * SECOND


def test_what_comes_and_goes_while_another_agent_serves_is_published_by_that_one() -> None:
    play = started(tank(1), tank(2))
    play.session.suspend()
    play.session.stand_by()
    play.session.delete(1, START + 7)
    play.starts()
    play.time_passes(10)
    reported = [step[1] for step in play.left() if isinstance(step, tuple)]
    assert not [one for one in reported if isinstance(one, PropertyContent) and one.deleted]


def test_a_read_that_ends_while_nothing_is_said_reports_no_end_before_its_time() -> None:
    play = AgentPlay(
        config=AgentConfig(BROKER, boot=4, allowed_users=frozenset({CONSOLE_USER}), rereads=True)
    )
    play.session.put(tank())
    play.starts()
    play.time_passes(10)
    play.left()
    play.asks(GetQuery(8, {"_objectid": "0-5-1-0-4386"}))
    (asked,) = play.left()
    assert isinstance(asked, ReadAsked)
    play.session.delete(0x1122, START + 5)
    play.session.suspend()
    play.take(play.session.read_done(asked.handle))
    play.leaves()
    play.starts()
    assert (QUEUE, CommandComplete(8)) in play.left()
