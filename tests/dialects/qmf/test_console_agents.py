"""The console session as a play: agents that start, restart, fall silent and go; links that break."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.console_agents import Agents
from gateway.dialects.qmf.console_config import HeartbeatRules
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    GetQuery,
    Heartbeat,
    PackageIndication,
    PackageQuery,
    PropertyContent,
)
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import Delivery, LossSuspected, TimerExpired
from gateway.model.observations import (
    AgentLost,
    Gap,
    HeartbeatSeen,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.times import SECOND
from tests.dialects.qmf.console_story import (
    GET_TANKS,
    GREETING,
    SEEN,
    SYNCHRONISED,
    SYNCHRONISING,
    changed,
    got,
    listed,
    synchronised,
)
from tests.dialects.qmf.examples import TANK
from tests.dialects.qmf.playbook import AGENT_USER, BROKER, NEXT_BROKER, START, ConsolePlay


def test_an_agent_that_starts_is_greeted_at_once() -> None:
    play = ConsolePlay()
    play.connects()
    play.time_passes(25)
    play.left()
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    play.leaves(("broker", BrokerRequest(3)))


def test_an_agent_that_restarts_is_another_incarnation() -> None:
    play = synchronised()
    play.time_passes(5)
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    play.leaves(
        Gap(START, START + 5 * SECOND, "agent 1.0 restarted or lost its connection"),
        "resync",
        ("broker", BrokerRequest(6)),
    )
    play.arrives(BrokerResponse(6, NEXT_BROKER))
    play.leaves(SYNCHRONISING, ("broker", PackageQuery(7)))
    play.arrives(PackageIndication(7, "shop"), CommandComplete(7))
    play.arrives(ClassIndication(8, ClassKind.OBJECT, TANK.key), CommandComplete(8))
    play.leaves(
        ("broker", ClassQuery(8, "shop")), ResyncBegan(restarted=True), ("agent.1.0", GetQuery(9, GET_TANKS))
    )
    assert play.session.broker == NEXT_BROKER


def tank(boot: int, number: int = 7) -> PropertyContent:
    return replace(changed(), object_id=ObjectId.of(sequence=boot, number=number))


def restarts(play: ConsolePlay) -> list[ResyncBegan]:
    return [one for one in play.left() if isinstance(one, ResyncBegan) and one.restarted]


def test_what_an_agent_that_restarted_reports_before_it_is_asked_belongs_to_its_objects_of_before() -> None:
    play = synchronised()
    play.time_passes(5)
    play.arrives(tank(boot=3))
    assert not restarts(play)
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    assert not restarts(play)
    play.arrives(tank(boot=4))
    play.arrives(tank(boot=4, number=8))
    assert len(restarts(play)) == 1
    play.arrives(BrokerResponse(6, NEXT_BROKER))
    play.arrives(tank(boot=4))
    play.arrives(PackageIndication(7, "shop"), CommandComplete(7))
    play.arrives(ClassIndication(8, ClassKind.OBJECT, TANK.key), CommandComplete(8))
    assert not restarts(play), "that is known already"


def test_an_agent_that_restarted_while_the_link_was_down_is_another_incarnation_by_its_first_object() -> None:
    play = synchronised()
    play.arrives(tank(boot=3))
    play.disconnects()
    play.connects()
    play.arrives(tank(boot=4))
    assert len(restarts(play)) == 1


@pytest.mark.parametrize("reported", [tank(boot=3), tank(boot=0), tank(boot=1, number=0)])
def test_ids_that_outlive_a_restart_do_not_show_one(reported: PropertyContent) -> None:
    play = synchronised()
    play.arrives(tank(boot=3))
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    play.arrives(reported)
    assert not restarts(play)


def test_an_agent_that_announces_itself_again_lost_what_it_reported_last_and_is_read_again() -> None:
    play = synchronised()
    play.time_passes(5)
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    play.time_passes(1)
    play.arrives(BrokerResponse(6, BROKER))
    play.arrives(CommandComplete(7))
    play.leaves(
        Gap(START, START + 5 * SECOND, "agent 1.0 restarted or lost its connection"),
        "resync",
        ("broker", BrokerRequest(6)),
        SYNCHRONISING,
        ("broker", PackageQuery(7)),
        ResyncBegan(),
        ResyncEnded(complete=True),
        SYNCHRONISED,
    )


def test_the_pause_of_an_agent_that_announces_itself_again_is_not_its_rhythm() -> None:
    play = synchronised()
    for pause in (2, 2, 6):
        play.time_passes(pause)
        if pause == 6:
            play.arrives(PackageIndication(0, "shop"), key="schema.package")
        play.arrives(Heartbeat(0, play.now), key="console.heartbeat.1.0")
    play.left()
    play.time_passes(7)
    assert AgentLost("1.0", "agent 1.0 has been silent for 6 s") in play.left()


def test_a_package_announced_for_the_first_time_interrupts_nothing() -> None:
    play = synchronised()
    play.time_passes(5)
    play.arrives(PackageIndication(0, "farm"), key="schema.package")
    play.arrives(BrokerResponse(6, BROKER))
    play.leaves("resync", ("broker", BrokerRequest(6)), SYNCHRONISING, ("broker", PackageQuery(7)))


def test_a_restart_that_was_not_announced_is_a_gap_since_the_last_message() -> None:
    play = synchronised()
    play.time_passes(5)
    play.take(play.session.handle(LossSuspected("doubt"), play.now))
    play.left()
    play.arrives(BrokerResponse(6, NEXT_BROKER))
    assert play.left()[0] == Gap(START, START + 5 * SECOND, "agent 1.0 restarted")


def test_a_gap_begins_with_the_last_message_and_lasts_until_a_message_of_an_agent() -> None:
    play = synchronised()
    play.time_passes(20)  # half-open: the end of the connection is noticed long after the last message
    play.disconnects()
    play.connects()
    assert Gap(START, START + 20 * SECOND, "not connected") in play.left()
    play.time_passes(5)  # the agent is not connected either
    play.left()
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    reason = "agent 1.0 restarted or lost its connection"
    play.leaves(Gap(START + 20 * SECOND, START + 25 * SECOND, reason), ("broker", BrokerRequest(7)))


def test_an_interruption_before_the_link_went_down_is_part_of_the_gap() -> None:
    """The gap begins at the agent's last message, not only at the end of the link."""
    play = synchronised()
    play.time_passes(35)
    play.left()  # the agent is silent, and has just been greeted
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    play.disconnects()
    assert not [one for one in play.left() if isinstance(one, Gap)]
    play.time_passes(5)
    play.connects()
    assert Gap(START, START + 40 * SECOND, "not connected") in play.left()


def test_a_gap_begins_when_the_last_message_was_sent_however_late_it_arrived() -> None:
    play = synchronised()
    play.time_passes(20)
    body = write(Heartbeat(0, START + 2 * SECOND))
    late = Delivery(
        "qpid.management", "console.heartbeat.1.0", body, user_id=AGENT_USER, timestamp=START + SECOND
    )
    play.take(play.session.handle(late, play.now))
    play.left()
    play.arrives(PackageIndication(0, "shop"), key="schema.package")
    reason = "agent 1.0 restarted or lost its connection"
    assert play.left()[0] == Gap(START + SECOND, START + 20 * SECOND, reason)


def test_what_a_full_queue_may_have_dropped_is_a_gap_since_it_was_last_seen_not_to_be_full() -> None:
    play = synchronised()
    play.time_passes(20)
    play.take(
        play.session.handle(LossSuspected("more than 500 messages waited", START + 5 * SECOND), play.now)
    )
    play.leaves(
        Gap(START + 5 * SECOND, START + 20 * SECOND, "more than 500 messages waited"),
        "resync",
        ("broker", BrokerRequest(6)),
    )


def test_a_gap_begins_before_a_standstill_whatever_arrived_after_it_on_a_dead_connection() -> None:
    play = synchronised()
    play.time_passes(5)
    proved = play.now
    play.now += 140 * SECOND
    play.arrives(
        Heartbeat(0, START + 6 * SECOND), key="console.heartbeat.1.0"
    )  # without a time when it was sent
    play.disconnects(received_until=proved)
    play.time_passes(3)
    play.connects()
    assert Gap(proved, START + 148 * SECOND, "not connected") in play.left()


def test_a_gap_never_ends_before_it_begins() -> None:
    play = synchronised()
    play.disconnects()
    play.now -= 30 * SECOND  # the clock is set back
    play.connects()
    assert Gap(play.now, play.now, "not connected") in play.left()


def test_what_an_agent_reports_after_its_announcement_shortens_no_gap() -> None:
    play = synchronised()
    play.arrives(
        PackageIndication(0, "shop"), key="schema.package"
    )  # greeted a moment ago: not again at once
    play.time_passes(1)
    play.arrives(Heartbeat(0, START + SECOND), key="console.heartbeat.1.0")
    play.time_passes(1)
    reason = "agent 1.0 restarted or lost its connection"
    assert Gap(START, START + 2 * SECOND, reason) in play.left()


def test_an_agent_that_speaks_and_has_not_answered_is_greeted_again_at_once() -> None:
    """It comes after the gateway, or stood still while greetings expired; their pauses grow to 30 s."""
    play = ConsolePlay()
    play.connects()
    play.time_passes(35)
    *_, (_, last) = [step for step in play.left() if isinstance(step, tuple)]
    assert last == BrokerRequest(3)
    play.arrives(Heartbeat(0, play.now), key="console.heartbeat.1.0")
    play.leaves(HeartbeatSeen("1.0", play.now), ("broker", BrokerRequest(4)))
    play.arrives(BrokerResponse(4, BROKER))
    assert SYNCHRONISING in play.left()


def test_an_agent_that_speaks_and_never_answers_is_reported_and_not_greeted_at_each_word() -> None:
    play = ConsolePlay()
    play.connects()
    for _ in range(600):
        play.time_passes(1)
        play.arrives(Heartbeat(0, play.now), key="console.heartbeat.1.0")
    steps = play.left()
    greetings = [step for step in steps if isinstance(step, tuple)]
    assert 15 < len(greetings) <= 2 * 600 // 10
    reported = [step for step in steps if isinstance(step, SourceStateSeen)]
    assert [one.state for one in reported] == [SourceState.CONNECTING, SourceState.DOWN]


def test_announcements_do_not_make_a_storm() -> None:
    play = synchronised()
    play.time_passes(5)
    for _ in range(100):
        play.arrives(PackageIndication(0, "shop"), key="schema.package")
        play.time_passes(0.1)
    greetings = [
        step for step in play.left() if isinstance(step, tuple) and isinstance(step[1], BrokerRequest)
    ]
    assert 4 <= len(greetings) <= 6


def test_a_silent_agent_is_lost_and_its_heartbeat_makes_everything_stale() -> None:
    play = synchronised()
    play.time_passes(2)
    play.arrives(Heartbeat(0, START + 2 * SECOND), key="console.heartbeat.1.0")
    play.leaves(HeartbeatSeen("1.0", START + 2 * SECOND))
    play.time_passes(2)
    play.arrives(Heartbeat(0, START + 4 * SECOND), key="console.heartbeat.1.0")  # so it comes every 2 s
    play.left()
    play.time_passes(7)
    play.leaves(
        AgentLost("1.0", "agent 1.0 has been silent for 6 s"),
        SourceStateSeen(SourceState.DEGRADED, "agent 1.0 has been silent for 6 s; next attempt in 5 s"),
    )
    assert play.session.state is State.DEGRADED
    play.arrives(Heartbeat(0, START + 11 * SECOND), key="console.heartbeat.1.0")
    play.leaves(
        Gap(START + 4 * SECOND, START + 11 * SECOND, "agent 1.0 was silent"),
        HeartbeatSeen("1.0", START + 11 * SECOND),
        "resync",
        ("broker", BrokerRequest(6)),
    )


def test_a_silent_agent_is_missed_although_the_clock_was_set_back() -> None:
    play = synchronised()
    play.time_passes(5)
    play.arrives(Heartbeat(0, START + 5 * SECOND), key="console.heartbeat.1.0")
    play.left()
    # A timer counts seconds, whatever the clock says: it ends two seconds before the time it was set for.
    play.now = play.wake_at - 2 * SECOND
    deadline, play.wake_at = play.wake_at, 0
    play.take(play.session.handle(TimerExpired(), play.now))
    assert play.wake_at == START + 35 * SECOND
    assert not play.left()
    play.now = max(deadline, play.wake_at)
    play.take(play.session.handle(TimerExpired(), play.now))
    assert AgentLost("1.0", "agent 1.0 has been silent for 30 s") in play.left()


def test_a_silent_agent_is_greeted_again_by_and_by() -> None:
    play = synchronised()
    play.time_passes(30)
    assert play.left()[0] == AgentLost("1.0", "agent 1.0 has been silent for 30 s")
    play.time_passes(5)
    play.leaves("resync", ("broker", BrokerRequest(6)))
    play.arrives(BrokerResponse(6, BROKER))
    assert play.left()[0] == Gap(START, START + 35 * SECOND, "agent 1.0 was silent")


@pytest.mark.parametrize(
    ("beats", "silence"),
    [
        ([(2, 2), (4, 4), (6, 6)], 6),  # an agent that is quicker than what is assumed
        ([(2, 2), (22, 22)], 60),  # one that is slower
        ([(2, 2), (4, 4), (100_000, 6)], 6),  # its clock was set
        ([(2, 2), (12, 32), (22, 32), (32, 32)], 30),  # heartbeats were held up
        ([(2, 2), (1, 4)], 30),  # its clock went back
        ([(2, 2), (2, 4)], 30),
        ([(100, 2), (100.5, 2.5)], 3),  # never less than a second
        ([(0, 0), (20_000, 20_000)], 10_800),  # nor more than an hour
    ],
)
def test_how_long_silence_may_last_is_learnt_from_heartbeats(
    beats: list[tuple[float, float]], silence: int
) -> None:
    agents = Agents(HeartbeatRules(), limit=1)
    for time, now in beats:
        agents.received("1.0", int(now * SECOND), int(now * SECOND))
        agents.beat("1.0", int(time * SECOND), int(now * SECOND))
    assert agents.next_deadline == int(beats[-1][1] * SECOND) + silence * SECOND


def test_nothing_is_learnt_from_the_time_between_the_heartbeats_of_two_runs() -> None:
    agents = Agents(HeartbeatRules(), 2)
    for time in (2, 7, 37, 42):
        now = time * SECOND
        if time == 37:  # it was killed and started again
            agents.interrupted("1.0")
        agents.received("1.0", now, now)
        agents.beat("1.0", now, now)
        if time == 37:
            assert agents.next_deadline == (37 + 3 * 5) * SECOND
    assert agents.next_deadline == (42 + 3 * 5) * SECOND


def test_there_is_an_end_to_the_agents_that_are_watched() -> None:
    agents = Agents(HeartbeatRules(), limit=1)
    agents.received("1.0", START, START)
    agents.received("1.10", START, START)
    agents.beat("1.10", START, START)
    assert list(agents) == ["1.0"]


def test_a_disconnection_in_the_middle_of_a_resync() -> None:
    play = ConsolePlay()
    listed(play)
    play.time_passes(1)
    play.disconnects("connection reset by peer")
    play.leaves(ResyncEnded(complete=False), SourceStateSeen(SourceState.DOWN, "connection reset by peer"))
    play.arrives(got(5))
    play.time_passes(3600)
    play.leaves()
    play.connects()
    reconnected = START + 3601 * SECOND
    play.leaves(Gap(START, reconnected, "not connected"), GREETING, ("broker", BrokerRequest(6)))
    play.arrives(got(5), CommandComplete(5))  # from before: content is content, its end means nothing
    play.leaves(SEEN)


def test_what_is_known_of_schemas_outlives_a_connection() -> None:
    play = synchronised()
    play.disconnects()
    play.connects()
    play.left()
    play.arrives(BrokerResponse(6, BROKER))
    play.arrives(PackageIndication(7, "shop"), CommandComplete(7))
    play.arrives(ClassIndication(8, ClassKind.OBJECT, TANK.key), CommandComplete(8))
    play.leaves(
        SYNCHRONISING,
        ("broker", PackageQuery(7)),
        ("broker", ClassQuery(8, "shop")),
        ResyncBegan(),
        ("agent.1.0", GetQuery(9, GET_TANKS)),
    )


def test_a_resync_can_be_asked_for() -> None:
    play = synchronised()
    play.take(play.session.handle(LossSuspected("the queue overflowed"), play.now))
    play.leaves("resync", ("broker", BrokerRequest(6)))
    play.take(play.session.handle(LossSuspected("again"), play.now))
    play.leaves(("broker", BrokerRequest(7)))
    play.disconnects()
    play.left()
    play.take(play.session.handle(LossSuspected("nobody listens"), play.now))
    play.leaves()
