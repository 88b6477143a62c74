"""Loss of certainty about an agent before AM2, and the actions of the console to regain it."""

from __future__ import annotations

import pytest

from gateway.dialects.qmf.am01.messages import AgentHello, Message, Revision
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import BrokerRequest, BrokerResponse, CommandComplete, MethodResponse
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import LinkDown, LossSuspected, Rebind
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
from tests.dialects.qmf.am01.playbook import BROKER, NEXT_BROKER, NONE_RECEIVED, RECEIVED, Play, synchronised
from tests.dialects.qmf.playbook import START

SYNCHRONISING = SourceStateSeen(SourceState.SYNCHRONISING)
SYNCHRONISED = SourceStateSeen(SourceState.SYNCHRONISED)


@pytest.mark.parametrize("revision", RECEIVED, ids=lambda one: one.value)
def test_an_agent_that_takes_no_requests_is_read_again_by_another_binding(revision: Revision) -> None:
    play = synchronised(revision)
    play.take(play.session.handle(LossSuspected("messages were lost"), play.now))
    play.leaves("resync", Rebind("messages were lost"))


def test_a_link_that_ends_for_that_is_no_trouble_unless_it_does_not_come_back() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.take(play.session.handle(LossSuspected("messages were lost"), play.now))
    play.left()
    play.disconnects()
    bound_again = SourceStateSeen(SourceState.SYNCHRONISING, "the queue is bound again: messages were lost")
    play.leaves(bound_again)
    play.connects()
    assert not any(isinstance(one, SourceStateSeen) for one in play.left())
    play.disconnects()
    play.leaves(SourceStateSeen(SourceState.DOWN, "connection reset"))
    play.connects()
    play.publishes(play.described())
    play.take(play.session.handle(LossSuspected("messages were lost"), play.now))
    play.disconnects()
    assert bound_again in play.left()
    play.disconnects()
    play.leaves(SourceStateSeen(SourceState.DOWN, "connection reset"))


def test_a_link_that_does_not_end_for_that_is_read_further() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.take(play.session.handle(LossSuspected("messages were lost"), play.now))
    play.left()
    play.time_passes(12)
    assert SourceStateSeen(SourceState.DOWN, NONE_RECEIVED) in play.left()


def test_what_was_lost_with_the_queue_is_a_gap() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.take(play.session.handle(LossSuspected("the queue overflowed", play.now - SECOND), play.now))
    assert Gap(play.now - SECOND, play.now, "the queue overflowed") in play.left()


def test_an_agent_that_is_silent_is_lost_and_comes_back() -> None:
    play = synchronised(Revision.FEBRUARY_2008)
    received = play.now
    play.time_passes(31)
    steps = play.left()
    assert steps.count(("agent", AgentHello())) >= 2
    assert any(isinstance(one, AgentLost) for one in steps)
    play.publishes(play.config())
    assert any(isinstance(one, Gap) and one.start <= received for one in play.left())


@pytest.mark.parametrize("revision", RECEIVED, ids=lambda one: one.value)
def test_an_agent_that_must_publish_at_times_and_is_silent_is_down_until_it_publishes(
    revision: Revision,
) -> None:
    play = Play(revision, {"republish_interval": 20 * SECOND})
    play.connects()
    play.publishes(play.described(), play.config(), play.inst())
    play.time_passes(22)
    assert play.session.state is State.SYNCHRONISED
    play.left()
    play.time_passes(60)
    where = "on exchange qpid.management for 22 s"
    down = (
        f"nothing received {where}: is an agent running there, and does it publish everything at intervals?"
    )
    steps = play.left()
    assert SourceStateSeen(SourceState.DOWN, down) in steps
    probes = [step for step in steps if isinstance(step, tuple)]
    assert len(probes) >= 5, "it is asked for a sign of life all the time"
    play.arrives(MethodResponse(0, 1, "UnknownObject"))
    assert SourceStateSeen(SourceState.SYNCHRONISING) in play.left()
    play.publishes(play.config(), play.inst())
    play.time_passes(22)
    assert play.session.state.value == "synchronised"


@pytest.mark.parametrize("revision", RECEIVED, ids=lambda one: one.value)
def test_an_agent_that_stands_still_is_lost_however_often_it_should_publish(revision: Revision) -> None:
    """What was not published in time is awaited again and again: that is no sign of life."""
    play = Play(revision, {"republish_interval": 2 * SECOND})
    play.connects()
    play.publishes(play.described(), play.config(), play.inst())
    play.time_passes(5)
    assert play.session.state is State.SYNCHRONISED
    play.left()
    play.time_passes(35)
    assert AgentLost("1.0", "agent 1.0 has been silent for 30 s") in play.left()


def test_a_probe_that_is_answered_keeps_an_idle_agent_fresh() -> None:
    play = synchronised(Revision.MARCH_2008)
    play.time_passes(10)
    play.leaves(("agent", BrokerRequest(0)))
    play.arrives(BrokerResponse(0, BROKER))
    play.leaves(HeartbeatSeen("1.0", 0))


def test_no_agent_is_probed_of_whose_classes_nothing_is_known() -> None:
    play = Play(Revision.JANUARY_2008)
    play.connects()
    play.arrives(MethodResponse(77, 0, "OK"))
    play.left()
    play.time_passes(11)
    assert not any(isinstance(step, tuple) for step in play.left())


def answered_for(play: Play, seconds: int, answer: Message) -> None:
    """Let time pass, and answer each probe."""
    for _ in range(seconds // 10):
        play.time_passes(10)
        play.arrives(answer)


def test_an_agent_that_takes_requests_is_read_again_when_nothing_was_published_for_long() -> None:
    play = synchronised(Revision.MARCH_2008)
    answered_for(play, 290, BrokerResponse(0, BROKER))
    assert "resync" not in play.left()
    play.time_passes(10)
    assert play.left()[0] == "resync"
    assert play.read(play.sent[-1]) == BrokerRequest(6)


def test_who_must_publish_everything_at_times_is_doubted_when_it_does_not() -> None:
    play = Play(Revision.JANUARY_2008, {"republish_interval": 20 * SECOND})
    play.connects()
    play.publishes(play.described(), play.config(), play.inst())
    answered_for(play, 20, MethodResponse(0, 1, "UnknownObject"))
    play.time_passes(2)
    assert play.session.state is State.SYNCHRONISED
    answered_for(play, 90, MethodResponse(0, 1, "UnknownObject"))
    assert "resync incomplete: the agent published no object; next attempt in 5 s" in [
        one.detail for one in play.left() if isinstance(one, SourceStateSeen)
    ]


def test_an_idle_agent_that_takes_no_requests_is_not_made_to_report_everything() -> None:
    play = synchronised(Revision.JANUARY_2008)
    answered_for(play, 3_600, MethodResponse(0, 1, "UnknownObject"))
    assert not any(isinstance(one, Rebind) for one in play.left())
    assert play.session.state is State.SYNCHRONISED


def test_another_broker_in_the_answer_to_a_probe_is_a_restart() -> None:
    play = synchronised(Revision.MARCH_2008)
    play.time_passes(10)
    play.arrives(BrokerResponse(0, NEXT_BROKER))
    assert ("agent", BrokerRequest(6)) in play.left()
    play.arrives(BrokerResponse(6, NEXT_BROKER), CommandComplete(7))
    assert ResyncBegan(restarted=True) in play.left()


@pytest.mark.parametrize(
    ("number", "restarted"), [(START + 5, False), (START + 60 * SECOND, True), (5, False)]
)
def test_objects_numbered_from_another_time_on_are_of_another_start(number: int, *, restarted: bool) -> None:
    play = Play(Revision.MARCH_2008)
    play.listed()
    play.arrives(play.got(5, ObjectId(0, START)), CommandComplete(5))
    play.left()
    play.publishes(play.config(object_id=ObjectId(0, number)))
    assert (ResyncBegan(restarted=True) in play.left()) is restarted


def test_an_agent_that_restarts_while_everything_is_read_is_read_further() -> None:
    play = synchronised(Revision.JANUARY_2008)
    play.publishes(play.config(object_id=ObjectId(0, START)))
    play.take(play.session.handle(LinkDown("the broker ended"), play.now))
    play.connects()
    play.left()
    play.publishes(play.described())
    play.time_passes(8)
    play.publishes(play.config(object_id=ObjectId(0, START + 60 * SECOND)))
    steps = play.left()
    assert steps.count(ResyncBegan(restarted=True)) == 1
    assert not any(isinstance(one, Rebind) for one in steps)
    play.time_passes(11)
    assert ResyncEnded(complete=True) not in play.left(), "it has an interval for what is new"
    play.time_passes(1)
    assert ResyncEnded(complete=True) in play.left()


def test_an_agent_that_restarted_and_describes_nothing_learned_of_no_binding() -> None:
    play = synchronised(Revision.DESIGN_NOTES)
    play.publishes(play.config(object_id=ObjectId(0, START)))
    play.disconnects()
    play.connects()
    play.publishes(play.config(object_id=ObjectId(0, START + 60 * SECOND)))
    play.left()
    play.time_passes(13)
    steps = play.left()
    assert ResyncEnded(complete=False) in steps
    details = [one.detail for one in steps if isinstance(one, SourceStateSeen)]
    assert any("no schema came" in one for one in details)


def test_an_agent_that_restarts_before_it_is_greeted() -> None:
    play = synchronised(Revision.FEBRUARY_2008)
    play.publishes(play.config(object_id=ObjectId(0, START)))
    play.disconnects()
    play.connects()
    play.left()
    play.publishes(play.config(object_id=ObjectId(0, START + 60 * SECOND)))
    assert ResyncBegan(restarted=True) in play.left()
