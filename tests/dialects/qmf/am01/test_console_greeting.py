"""Detection of the revision of an agent before AM2 by a console."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.qmf.am01.keys import content_key
from gateway.dialects.qmf.am01.messages import ALL, AgentHello, MethodRequest, Revision
from gateway.dialects.qmf.fields import NULL
from gateway.dialects.qmf.messages import BrokerRequest
from gateway.dialects.qmf.session_state import State
from gateway.model.observations import HeartbeatSeen, ResyncBegan, SourceState, SourceStateSeen
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from tests.dialects.qmf.am01.examples import TIMES_AND_ID
from tests.dialects.qmf.am01.playbook import NONE_RECEIVED, RECEIVED, Play
from tests.dialects.qmf.playbook import QUEUE

CONNECTING = SourceStateSeen(SourceState.CONNECTING, "greeting agents on exchange qpid.management")
NONE_ANSWERED = (
    "no answer to the greeting on exchange qpid.management for 10 s: is an agent running there, and of "
    "which revision?"
)


def test_both_greetings_are_sent_while_the_generation_is_not_known() -> None:
    play = Play(Revision.FEBRUARY_2008, known=False)
    play.connects()
    play.leaves(CONNECTING, ("agent", AgentHello()), ("agent", BrokerRequest(1)))
    assert play.session.revisions == ALL


def test_nothing_is_sent_to_an_agent_that_takes_no_requests() -> None:
    play = Play(Revision.JANUARY_2008)
    play.connects()
    play.leaves(CONNECTING)


@pytest.mark.parametrize(
    ("revision", "text"), [(Revision.JANUARY_2008, NONE_RECEIVED), (Revision.FEBRUARY_2008, NONE_ANSWERED)]
)
def test_silence_is_reported(revision: Revision, text: str) -> None:
    play = Play(revision)
    play.connects()
    play.left()
    play.time_passes(12)
    assert SourceStateSeen(SourceState.DOWN, text) in play.left()


@pytest.mark.parametrize("known", [True, False])
def test_an_agent_that_reports_everything_at_times_is_not_missed_before_that_time(*, known: bool) -> None:
    play = Play(Revision.JANUARY_2008, {"republish_interval": 60 * SECOND}, known=known)
    play.connects()
    play.left()
    play.time_passes(61)
    assert not [one for one in play.left() if isinstance(one, SourceStateSeen)]
    play.time_passes(1)
    (state,) = [one for one in play.left() if isinstance(one, SourceStateSeen)]
    assert state.state is SourceState.DOWN
    assert "on exchange qpid.management for 62 s" in state.detail


def test_what_is_found_out_holds_until_the_link_ends() -> None:
    play = Play(Revision.FEBRUARY_2008, known=False)
    play.synchronised()
    assert play.session.revisions == {Revision.FEBRUARY_2008}
    play.arrives_octets(b"AM1b" + bytes(4) + bytes(16))
    assert play.notes() == ["protocol-error"]
    play.disconnects()
    play.connects()
    assert play.session.revisions == ALL


def test_what_cannot_be_read_whole_finds_nothing_out() -> None:
    play = Play(Revision.FEBRUARY_2008, known=False)
    play.connects()
    play.left()
    play.arrives_octets(b"AM01CC\x04tank" + TIMES_AND_ID, "mgmt.config.tank")
    play.arrives_octets(b"AM01??", QUEUE)
    assert play.session.revisions == ALL
    assert play.session.state is State.GREETING
    play.leaves()


@pytest.mark.parametrize(
    ("answer", "spoken"),
    [
        (b"AM01R\0\0\0\0\0\0\0\0\x01\x0dUnknownObject", Revision.JANUARY_2008),
        (b"\0\0\0\0\0\0\0\x01\x0dUnknownObject", Revision.NOVEMBER_2007),
    ],
)
def test_the_form_of_calls_is_found_out_by_one_that_does_nothing(answer: bytes, spoken: Revision) -> None:
    play = Play(Revision.JANUARY_2008, known=False)
    play.connects()
    play.left()
    play.publishes(play.described())
    probes = [step for step in play.left() if isinstance(step, tuple)]
    bare = MethodRequest(0, NULL, ClassKey("shop", "tank"), "probe", b"", QUEUE)
    assert probes == [
        ("method.shop.tank.probe", bare),
        ("method.shop.tank.probe", replace(bare, reply_queue="")),
    ]
    play.publishes(play.described())
    play.leaves()
    play.arrives_octets(answer)
    play.leaves(HeartbeatSeen("1.0", 0))
    assert play.session.revisions == {spoken}
    play.disconnects()
    play.connects()
    play.left()
    play.publishes(play.described())
    assert [step for step in play.left() if isinstance(step, tuple)] == probes, "another agent, perhaps"


@pytest.mark.parametrize("revision", RECEIVED, ids=lambda one: one.value)
def test_messages_of_an_agent_that_takes_no_requests_count_before_its_schemas(revision: Revision) -> None:
    play = Play(revision, {"republish_interval": 60 * SECOND})
    play.connects()
    play.left()
    hash_and_package = b"\x04shop\x04ship" + b"S" * 16 if revision is Revision.DESIGN_NOTES else b"\x04ship"
    key = content_key(revision, "config", ClassKey("shop", "ship"))
    play.arrives_octets(b"AM01CC" + hash_and_package + TIMES_AND_ID + b"\x01", key)
    play.leaves(SourceStateSeen(SourceState.SYNCHRONISING), ResyncBegan())
    play.time_passes(30)
    assert not [one for one in play.left() if isinstance(one, SourceStateSeen)]
