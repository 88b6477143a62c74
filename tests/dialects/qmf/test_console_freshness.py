"""Conclusions from the silence of an agent, peer by peer: the table of docs/conformance-qmf.md as plays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_agents import Agents
from gateway.dialects.qmf.console_config import HeartbeatRules, Heartbeats
from gateway.dialects.qmf.definitions import EventDefinition
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    Heartbeat,
    PackageIndication,
    PackageQuery,
    SchemaResponse,
)
from gateway.dialects.qmf.session_state import State
from gateway.model.observations import (
    AgentLost,
    Gap,
    HeartbeatSeen,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from tests.dialects.qmf.console_story import (
    PUSHED,
    SYNCHRONISED,
    SYNCHRONISING,
    filled,
    got,
    listed,
    synchronised,
)
from tests.dialects.qmf.examples import LEAK, TANK
from tests.dialects.qmf.playbook import AGENT_USER, BROKER, START, ConsolePlay

ASKED = ("resync", ("broker", BrokerRequest(6)))
PUBLISHES_NOTHING = SourceStateSeen(
    SourceState.SYNCHRONISED,
    "agent 1.0 answers, but publishes nothing, so that everything is read again and again: "
    "a qpidd needs mgmt-qmf1=yes",
)


def rules(mode: Heartbeats) -> ConsoleConfig:
    return ConsoleConfig(
        frozenset({AGENT_USER}), heartbeats=HeartbeatRules(mode), request_deadline=30 * SECOND
    )


def beats(play: ConsolePlay) -> None:
    play.arrives(Heartbeat(0, play.now), key="console.heartbeat.1.0")
    play.leaves(HeartbeatSeen("1.0", play.now))


def reads_everything_again(play: ConsolePlay, first: int) -> None:
    """Answer the requests of a resync, of which the greeting is number ``first``."""
    play.arrives(BrokerResponse(first, BROKER))
    play.arrives(PackageIndication(first + 1, "shop"), CommandComplete(first + 1))
    play.arrives(ClassIndication(first + 2, ClassKind.OBJECT, TANK.key), CommandComplete(first + 2))
    play.arrives(got(first + 3), CommandComplete(first + 3))


def test_an_idle_qpidd_of_m4_sends_heartbeats_only_and_is_trusted() -> None:
    play = synchronised(rules(Heartbeats.AUTO))
    for _ in range(20):
        play.time_passes(10)
        beats(play)
    assert play.session.state is State.SYNCHRONISED


@pytest.mark.parametrize("mode", [Heartbeats.AUTO, Heartbeats.EXPECTED])
def test_an_agent_whose_heartbeats_cease_is_lost_without_being_asked(mode: Heartbeats) -> None:
    play = synchronised(rules(mode))
    beats(play)
    play.time_passes(29)
    play.leaves()
    play.time_passes(1)
    lost = "agent 1.0 has been silent for 30 s"
    play.leaves(AgentLost("1.0", lost), SourceStateSeen(SourceState.DEGRADED, f"{lost}; next attempt in 5 s"))


def test_a_java_broker_that_publishes_each_interval_is_asked_nothing() -> None:
    play = synchronised(rules(Heartbeats.AUTO))
    for _ in range(20):
        play.time_passes(10)
        play.arrives(filled(), key=PUSHED)
        assert len(play.left()) == 1
    assert play.session.state is State.SYNCHRONISED


@pytest.mark.parametrize("mode", [Heartbeats.AUTO, Heartbeats.NONE])
def test_an_agent_without_heartbeats_that_has_nothing_to_say_is_asked_for_everything(
    mode: Heartbeats,
) -> None:
    play = synchronised(rules(mode))
    play.time_passes(19)
    play.leaves()
    play.time_passes(1)
    play.leaves(*ASKED)
    reads_everything_again(play, 6)
    reported = play.left()
    state = PUBLISHES_NOTHING if mode is Heartbeats.AUTO else SYNCHRONISED
    assert reported[-2:] == [ResyncEnded(complete=True), state]
    assert not [one for one in reported if isinstance(one, Gap | AgentLost)], "it was there all the time"
    play.time_passes(20)
    assert play.left()[-1] == ("broker", BrokerRequest(10)), "and again, as long as it is silent"


@pytest.mark.parametrize("published", ["heartbeat", "object"])
def test_an_agent_that_publishes_again_is_no_longer_said_to_publish_nothing(published: str) -> None:
    play = synchronised(rules(Heartbeats.AUTO))
    play.time_passes(20)
    reads_everything_again(play, 6)
    assert play.left()[-1] == PUBLISHES_NOTHING
    if published == "heartbeat":
        play.arrives(Heartbeat(0, play.now), key="console.heartbeat.1.0")
    else:
        play.arrives(filled(), key=PUSHED)
    assert SYNCHRONISED in play.left()


def test_a_java_broker_that_died_is_asked_and_what_it_reported_is_stale_in_time() -> None:
    play = synchronised(rules(Heartbeats.AUTO))
    play.time_passes(20)
    play.leaves(*ASKED)
    play.time_passes(10)
    play.leaves(AgentLost("1.0", "agent 1.0 has been silent for 30 s"))
    play.time_passes(20)
    down = (
        "no answer to the greeting on exchange qpid.management for 30 s: is an agent running there, "
        "and does it accept requests of this user?"
    )
    play.leaves(SourceStateSeen(SourceState.DOWN, down), ("broker", BrokerRequest(7)))
    play.time_passes(5)
    play.arrives(BrokerResponse(7, BROKER))
    play.leaves(
        Gap(START, START + 55 * SECOND, "agent 1.0 was silent"), SYNCHRONISING, ("broker", PackageQuery(8))
    )


def test_heartbeats_of_an_agent_that_needs_none_are_no_promise() -> None:
    play = synchronised(rules(Heartbeats.NONE))
    beats(play)
    play.time_passes(20)
    play.leaves(*ASKED)


def test_an_agent_that_is_being_read_is_not_asked_once_more() -> None:
    play = ConsolePlay(rules(Heartbeats.NONE))
    listed(play)
    play.time_passes(20)
    play.leaves()
    play.arrives(got(5), CommandComplete(5))
    play.left()
    play.time_passes(20)
    play.leaves(*ASKED)


def test_an_agent_that_lists_its_classes_for_long_is_not_silent() -> None:
    play = ConsolePlay(rules(Heartbeats.NONE))
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "shop"), CommandComplete(2))
    for number in range(4):
        leak = replace(LEAK, key=ClassKey("shop", f"leak{number}", bytes([number + 1]) * 16))
        play.time_passes(20)
        play.arrives(ClassIndication(3, ClassKind.EVENT, leak.key))
        asked = play.sequence()
        play.time_passes(20)
        play.arrives(SchemaResponse(asked, EventDefinition.of(leak)))
    assert not [one for one in play.left() if isinstance(one, AgentLost)]


@pytest.mark.parametrize(("missed", "asked_after"), [(1, 10), (2, 10), (3, 20), (6, 50)])
def test_who_is_asked_has_an_interval_to_answer(missed: int, asked_after: int) -> None:
    agents = Agents(HeartbeatRules(Heartbeats.NONE, missed=missed), limit=1)
    agents.received("1.0", START, START)
    assert agents.next_deadline == START + asked_after * SECOND
    assert agents.newly_quiet(agents.next_deadline - 1) == []
    assert agents.newly_quiet(agents.next_deadline) == [("1.0", START)]
    assert agents.newly_quiet(agents.next_deadline) == [], "asked once"
    assert agents.newly_lost(START + missed * 10 * SECOND) == [("1.0", START)]
    assert agents.next_deadline is None
    assert agents.newly_quiet(START + 3600 * SECOND) == [], "lost: nothing is to be asked"


def test_remote_agents_are_missed_by_their_own_heartbeats_only() -> None:
    agents = Agents(HeartbeatRules(Heartbeats.AUTO), limit=3)
    for agent in ("1.10", "1.11"):
        agents.received(agent, START, START)
    agents.beat("1.11", START, START)
    assert agents.newly_quiet(START + 49 * SECOND) == []
    assert agents.newly_quiet(START + 50 * SECOND) == [("1.10", START)], "before its objects are stale"
    assert agents.newly_lost(START + 3600 * SECOND) == [("1.11", START)]


def test_a_late_answer_about_classes_does_not_hide_that_the_broker_was_silent() -> None:
    play = ConsolePlay(rules(Heartbeats.EXPECTED))
    play.connects()
    play.arrives(BrokerResponse(1, BROKER))
    play.arrives(PackageIndication(2, "shop"), CommandComplete(2))
    play.time_passes(30)
    assert AgentLost("1.0", "agent 1.0 has been silent for 30 s") in play.left()
    play.arrives(ClassIndication(3, ClassKind.OBJECT, TANK.key))
    play.left()
    play.time_passes(1)
    play.arrives(Heartbeat(0, play.now), key="console.heartbeat.1.0")
    assert Gap(START, START + 31 * SECOND, "agent 1.0 was silent") in play.left()


@pytest.mark.parametrize("silent", [0, 11])
def test_an_agent_that_does_not_answer_a_new_connection_may_have_lost_what_it_sent(silent: float) -> None:
    """Its own link may be half-open, so that nothing that it publishes arrives."""
    play = synchronised()
    play.disconnects()
    play.time_passes(5)
    play.connects()
    play.time_passes(silent)
    play.left()
    play.arrives(BrokerResponse(play.sequence(), BROKER))
    gaps = [step for step in play.left() if isinstance(step, Gap)]
    connected = START + 5 * SECOND
    expected = Gap(
        connected, connected + 11 * SECOND, "agent 1.0 did not answer when the connection was there again"
    )
    assert gaps == ([expected] if silent else [])


def test_an_agent_that_was_never_there_has_lost_nothing() -> None:
    play = ConsolePlay()
    play.connects()
    play.time_passes(60)
    play.left()
    play.arrives(BrokerResponse(play.sequence(), BROKER))
    assert not [step for step in play.left() if isinstance(step, Gap)]
