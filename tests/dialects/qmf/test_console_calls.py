"""Calls of a console: each is sent once, and answered only with certain facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.messages import (
    CommandComplete,
    MethodRequest,
    MethodResponse,
)
from gateway.dialects.qmf.session_state import State
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import BacklogFollows
from gateway.model.observations import ObjectSeen
from gateway.model.operations import Answer, ObjectModify, Outcome
from gateway.model.times import SECOND
from gateway.model.values import Value
from tests.dialects.foreseen import as_foreseen
from tests.dialects.qmf.console_story import changed, listed, synchronised
from tests.dialects.qmf.examples import OBJECT_ID, TANK, shop
from tests.dialects.qmf.operations_story import (
    AGENT_KEY,
    FIRST,
    OUTPUTS,
    calls,
    drain,
    fetches,
    request,
)
from tests.dialects.qmf.playbook import AGENT_USER, QUEUE, START, ConsolePlay


def test_a_call_goes_to_the_agent_once_and_is_answered_with_what_came_of_it() -> None:
    play = synchronised()
    calls(play)
    play.leaves(request())
    sent = play.sent[-1]
    assert (sent.exchange, sent.reply_to) == ("qpid.management", QUEUE)
    assert sent.not_after == play.now + 10 * SECOND
    assert sent.lifetime(play.now) == 10_000
    play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.leaves(Answer(1, Outcome.APPLIED, "OK", 0, (2.5, "cd")))
    play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.leaves()


def test_what_a_call_led_to_is_observed_before_it_is_answered() -> None:
    play = synchronised()
    calls(play)
    play.left()
    body = write(changed("t2"), shop()) + write(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.arrives_octets(body)
    seen, answer = play.left()
    assert isinstance(seen, ObjectSeen)
    assert answer == Answer(1, Outcome.APPLIED, "OK", 0, (2.5, "cd"))


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (Status.UNKNOWN_OBJECT, Outcome.OBJECT_GONE),
        (Status.UNKNOWN_METHOD, Outcome.UNKNOWN_ELEMENT),
        (Status.NOT_IMPLEMENTED, Outcome.REMOTE_FAILURE),
        (Status.INVALID_PARAMETER, Outcome.WRONG_VALUE),
        (Status.FEATURE_NOT_IMPLEMENTED, Outcome.REMOTE_FAILURE),
        (Status.FORBIDDEN, Outcome.REMOTE_FAILURE),
        (Status.EXCEPTION, Outcome.REMOTE_FAILURE),
        (8, Outcome.REMOTE_FAILURE),
        (0x10000, Outcome.REMOTE_FAILURE),
        (0xFFFF_FFFF, Outcome.REMOTE_FAILURE),
    ],
)
def test_each_status_has_its_outcome(status: int, outcome: Outcome) -> None:
    play = synchronised()
    calls(play)
    play.left()
    play.arrives(MethodResponse(FIRST, status, "why not"))
    play.leaves(Answer(1, outcome, "why not", status))


def test_an_unknown_method_is_reported_with_a_short_text_as_qpidd_does() -> None:
    play = synchronised()
    calls(play)
    play.left()
    play.arrives_octets(b"AM2m" + FIRST.to_bytes(4, "big") + b"\0\0\0\x02\x0dUnknownMethod")
    play.leaves(Answer(1, Outcome.UNKNOWN_ELEMENT, "UnknownMethod", 2))


def test_outputs_of_a_failure_are_passed_on_where_they_are_reported() -> None:
    play = synchronised()
    calls(play)
    play.left()
    play.arrives(MethodResponse(FIRST, 0x10001, "half of it", OUTPUTS))
    play.leaves(Answer(1, Outcome.REMOTE_FAILURE, "half of it", 0x10001, (2.5, "cd")))


@pytest.mark.parametrize("octets", [OUTPUTS[:-1], OUTPUTS + b"x"])
def test_outputs_that_cannot_be_read_do_not_change_what_came_of_a_call(octets: bytes) -> None:
    play = synchronised()
    calls(play)
    calls(play, drain(play, 2))
    play.left()
    play.arrives(MethodResponse(FIRST, 0, "OK", octets))
    note, answer = play.left()
    assert note == "protocol-error"
    assert isinstance(answer, Answer)
    assert (answer.outcome, answer.code, answer.outputs) == (Outcome.APPLIED, 0, ())
    assert answer.text.startswith("carried out; what it returned cannot be read: at offset")
    play.arrives(MethodResponse(FIRST + 1, 7, "no", octets))
    play.leaves(Answer(2, Outcome.REMOTE_FAILURE, "no", 7))


def test_a_response_that_cannot_be_read_leaves_open_what_came_of_the_call() -> None:
    play = synchronised()
    calls(play)
    play.left()
    play.arrives_octets(b"AM2m" + FIRST.to_bytes(4, "big") + b"\0\0")
    note, answer = play.left()
    assert note == "protocol-error"
    assert isinstance(answer, Answer)
    assert answer.outcome is Outcome.UNKNOWN
    assert answer.text.startswith("the answer cannot be read: at offset 8")
    play.time_passes(10)
    play.leaves()


def test_a_text_is_one_line_that_can_be_printed_and_holds_no_password() -> None:
    play = synchronised()
    calls(play)
    play.left()
    text = f"no\nlink to\x1b[31m amqp://me:secret@host/ {'x' * 600}"
    play.arrives(MethodResponse(FIRST, 7, text))
    (answer,) = play.left()
    assert isinstance(answer, Answer)
    assert answer.text.startswith("no link to [31m amqp://***@host/ xxx")
    assert len(answer.text) == 500


def test_a_java_broker_ends_an_answered_call_with_a_completion_of_its_own() -> None:
    play = synchronised()
    calls(play)
    play.left()
    play.arrives(MethodResponse(FIRST, 0, "", OUTPUTS))
    play.arrives(CommandComplete(FIRST, 0, ""))
    play.leaves(Answer(1, Outcome.APPLIED, "", 0, (2.5, "cd")))


def test_a_call_that_is_refused_whole_failed() -> None:
    play = synchronised()
    calls(play)
    play.left()
    play.arrives(CommandComplete(FIRST, 1, "not for you"))
    play.leaves(Answer(1, Outcome.REMOTE_FAILURE, "not for you", 1))


def test_a_stranger_s_answer_is_none() -> None:
    play = synchronised()
    calls(play)
    play.left()
    play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS), user="guest")
    play.leaves("refused-sender")


@pytest.mark.parametrize(
    ("arguments", "outcome", "text"),
    [
        ((7,), Outcome.WRONG_VALUE, "drain takes 2 arguments, 1 were given"),
        (("7", "ab"), Outcome.WRONG_TYPE, "amount: an integer is wanted, not text of 1 characters"),
        ((-1, "ab"), Outcome.WRONG_VALUE, "amount: -1 does not fit u32"),
        ((7, "a" * 256), Outcome.WRONG_LENGTH, "token: 256 bytes, 255 are taken"),
    ],
)
def test_arguments_that_the_schema_does_not_allow_are_not_sent(
    arguments: tuple[Value, ...], outcome: Outcome, text: str
) -> None:
    play = synchronised()
    calls(play, drain(play, arguments=arguments))
    play.leaves(Answer(1, outcome, f"not sent: {text}"))


def test_an_absent_argument_travels_as_nothing() -> None:
    play = synchronised()
    calls(play, drain(play, arguments=(None, None)))
    play.leaves((AGENT_KEY, MethodRequest(FIRST, OBJECT_ID, TANK.key, "drain", bytes(5))))


@pytest.mark.parametrize(
    ("changes", "outcome", "text"),
    [
        ({"method": "fill"}, Outcome.UNKNOWN_ELEMENT, "shop:tank has no method 'fill' at this agent"),
        (
            {"key": replace(TANK.key, hash=b"?" * 16)},
            Outcome.NOT_NOW,
            "the schema of shop:tank is not known",
        ),
        (
            {"native_id": "tank 1"},
            Outcome.OBJECT_GONE,
            "at offset 0: expected an object id such as 0-1-1-0-15, found 'tank 1'",
        ),
        ({"deadline": START}, Outcome.NOT_NOW, "no time was left for it"),
    ],
)
def test_what_cannot_be_said_is_not_sent(changes: dict[str, Any], outcome: Outcome, text: str) -> None:
    play = synchronised()
    calls(play, drain(play, **changes))
    play.leaves(Answer(1, outcome, f"not sent: {text}"))


def test_while_the_source_is_not_there_nothing_is_sent() -> None:
    play = synchronised()
    play.disconnects()
    play.left()
    calls(play)
    play.leaves(Answer(1, Outcome.SOURCE_DOWN, "not sent: there is no connection to the broker"))
    play.take(play.session.handle(BacklogFollows("", 3), play.now))
    play.left()
    calls(play)
    text = "not sent: messages that were sent without a connection are being read first"
    play.leaves(Answer(1, Outcome.SOURCE_DOWN, text))
    play.connects()
    play.left()
    fetches(play)
    play.leaves(Answer(1, Outcome.SOURCE_DOWN, "not sent: no agent has answered the greeting yet"))


def test_an_agent_that_is_silent_is_not_called() -> None:
    play = synchronised()
    play.time_passes(31)
    play.left()
    calls(play)
    play.leaves(Answer(1, Outcome.SOURCE_DOWN, "not sent: agent 1.0 is silent"))


def test_a_call_does_not_wait_behind_a_resync() -> None:
    play = ConsolePlay()
    listed(play)
    assert play.session.state is State.FETCHING
    calls(play)
    play.leaves(request())
    play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.leaves(Answer(1, Outcome.APPLIED, "OK", 0, (2.5, "cd")))


def test_more_than_the_limit_is_refused_until_one_is_answered() -> None:
    play = synchronised(ConsoleConfig(frozenset({AGENT_USER}), operation_limit=2))
    calls(play)
    fetches(play, 2)
    play.left()
    calls(play, drain(play, 3))
    play.leaves(Answer(3, Outcome.NOT_NOW, "not sent: 2 operations are under way"))
    play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.left()
    calls(play, drain(play, 4))
    play.leaves(request(FIRST + 2))


def test_nothing_is_set_because_am2_has_no_such_request() -> None:
    play = synchronised()
    modify = ObjectModify(1, TANK.key, "1.0", str(OBJECT_ID), {"size": 3}, play.now + SECOND)
    foreseen = play.session.precheck(modify, play.now)
    assert as_foreseen(foreseen, modify, play.session.handle(modify, play.now))
    assert foreseen is not None
    assert (foreseen.token, foreseen.outcome, foreseen.code) == (1, Outcome.READ_ONLY, None)
    assert "no request of its own" in foreseen.text
