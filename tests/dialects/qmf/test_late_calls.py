"""Handling by an agent of calls that come late, as from a broker that took no messages for a while."""

from __future__ import annotations

import pytest

from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    MethodRequest,
    MethodResponse,
)
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import Called, Delivery, Effect, Note, Send
from gateway.model.times import SECOND
from tests.dialects.qmf.agent_story import TANK_ID, key_of, started
from tests.dialects.qmf.playbook import CONSOLE_USER, QUEUE, AgentPlay, tank

TOO_LATE = MethodResponse(1, Status.EXCEPTION, "not carried out: it came after the time that it was given")
BODY_END = b"\0\0\0\x07\x02ab"
"""The arguments of ``drain(7, "ab")``."""


def call(play: AgentPlay, *, age: int, expiration: int = 0, before: bytes = b"") -> list[Effect]:
    """Return the effects of a call that was sent ``age`` nanoseconds ago."""
    body = before + write(MethodRequest(1, TANK_ID, key_of(play), "drain", BODY_END))
    delivery = Delivery(
        *("qpid.management", "agent.1.0", body, QUEUE, CONSOLE_USER),
        timestamp=play.now - age,
        expiration=expiration,
    )
    return play.session.handle(delivery, play.now)


def answer(effect: Effect) -> object:
    assert isinstance(effect, Send)
    (message,) = read_body(effect.body, AgentPlay().session.definitions)
    return message


@pytest.mark.parametrize(
    ("age", "expiration"), [(0, 1), (9 * SECOND, 9_000), (29 * SECOND, 60_000), (31 * SECOND, 0)]
)
def test_a_call_in_time_is_carried_out(age: int, expiration: int) -> None:
    (effect,) = call(started(tank()), age=age, expiration=expiration)
    assert isinstance(effect, Called)


@pytest.mark.parametrize(("age", "expiration"), [(9 * SECOND + 1, 9_000), (2 * SECOND, 1_999)])
def test_a_call_is_not_carried_out_after_its_time_and_its_caller_gets_that_answer(
    age: int, expiration: int
) -> None:
    (effect,) = call(started(tank()), age=age, expiration=expiration)
    assert answer(effect) == TOO_LATE


@pytest.mark.parametrize("expiration", [0, 10_000])
def test_a_call_that_comes_out_of_an_alarm_of_an_hour_is_answered_too(expiration: int) -> None:
    note, effect = call(started(tank()), age=3600 * SECOND, expiration=expiration)
    assert note == Note("late-request", "request from 'gateway': 3600 s old")
    assert answer(effect) == TOO_LATE


def test_nothing_else_of_a_late_message_is_answered() -> None:
    note, effect = call(started(tank()), age=3600 * SECOND, before=write(BrokerRequest(7)))
    assert isinstance(note, Note)
    assert answer(effect) == TOO_LATE


def test_a_call_that_was_carried_out_in_time_and_comes_again_is_not_called_late() -> None:
    play = started(tank())
    (effect,) = call(play, age=0, expiration=5_000)
    assert isinstance(effect, Called)
    (again,) = call(play, age=9 * SECOND, expiration=5_000)
    assert isinstance(again, Note)
    assert again.event == "repeated-call"


@pytest.mark.parametrize(
    ("sent", "lifetime"), [(0, 10_000), (9_999_000_000, 1), (9_999_999_999, 1), (11 * SECOND, 1)]
)
def test_what_is_sent_once_or_never_lives_until_its_time(sent: int, lifetime: int) -> None:
    send = Send("exchange", "key", b"", expiration=5, not_after=10 * SECOND)
    assert send.lifetime(sent) == lifetime
    assert Send("exchange", "key", b"", expiration=5).lifetime(sent) == 5
    assert send.is_too_late(sent) is (sent > 10 * SECOND)
    assert send.is_too_late(10 * SECOND)
