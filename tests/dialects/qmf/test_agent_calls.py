"""Calls and reads that the program behind an agent session answers later."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.qmf.agent_calls import MAX_WAITING
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    CommandComplete,
    GetQuery,
    MethodRequest,
    MethodResponse,
)
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.qmf.typed_values import QmfValue
from gateway.dialects.session import Called, Delivery, Effect, ReadAsked
from gateway.model.schema import Argument, ClassKey, ClassSchema, Direction, Element, Method
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.dialects.qmf.agent_story import PUSHED, TANK_ID, got, key_of, properties, started, statistics
from tests.dialects.qmf.examples import TANK
from tests.dialects.qmf.playbook import BROKER, CONSOLE_USER, QUEUE, START, AgentPlay, tank

READING = AgentConfig(BROKER, boot=4, allowed_users=frozenset({CONSOLE_USER}), rereads=True)
AMOUNT_7 = b"\0\0\0\x07\x02ab"
"""The arguments of ``drain(7, "ab")``."""


def receives(
    play: AgentPlay, request: MethodRequest | GetQuery, *, timestamp: int = 0, expiration: int = 0
) -> Effect:
    """Return the only effect of a request."""
    delivery = Delivery(
        *("qpid.management", "agent.1.0", write(request), QUEUE, CONSOLE_USER),
        timestamp=timestamp,
        expiration=expiration,
    )
    (effect,) = play.session.handle(delivery, play.now)
    return effect


def called(
    play: AgentPlay, sequence: int = 1, octets: bytes = AMOUNT_7, *, timestamp: int = 0, expiration: int = 0
) -> Called:
    request = MethodRequest(sequence, TANK_ID, key_of(play), "drain", octets)
    effect = receives(play, request, timestamp=timestamp, expiration=expiration)
    assert isinstance(effect, Called)
    return effect


def refusal(play: AgentPlay, octets: bytes, key: ClassKey | None = None) -> MethodResponse:
    play.asks(MethodRequest(1, TANK_ID, key or key_of(play), "drain", octets))
    (step,) = play.left()
    assert isinstance(step, tuple)
    assert isinstance(step[1], MethodResponse)
    return step[1]


def test_a_call_is_handed_to_the_program_which_answers_it_later() -> None:
    play = started(tank())
    call = called(play)
    assert (call.number, call.method, call.arguments) == (0x1122, "drain", (7, "ab"))
    assert call.key == key_of(play)
    assert call.user_id == CONSOLE_USER
    play.take(play.session.method_done(call.handle, Status.OK, "OK", (1.5, "cd")))
    play.leaves((QUEUE, MethodResponse(1, 0, "OK", b"\x3f\xf8\0\0\0\0\0\0\x02cd")))
    play.take(play.session.method_done(call.handle, Status.OK, "OK", (1.5, "cd")))
    play.leaves()


def test_after_a_failure_the_outputs_may_be_left_out() -> None:
    play = started(tank())
    play.take(play.session.method_done(called(play).handle, 0x10005, "the valve is stuck"))
    play.leaves((QUEUE, MethodResponse(1, 0x10005, "the valve is stuck")))


def test_outputs_that_do_not_fit_are_our_own_fault() -> None:
    play = started(tank())
    with pytest.raises(LocalProtocolError):
        play.session.method_done(called(play).handle, Status.OK, "OK", ())


def test_any_text_is_reachable() -> None:
    play = started(tank())
    play.take(play.session.method_done(called(play).handle, Status.EXCEPTION, "ü\U0001f4a7" * 40_000))
    play.leaves((QUEUE, MethodResponse(1, 7, "?" * 1000)))
    play.take(play.session.method_done(called(play, 2).handle, Status.UNKNOWN_METHOD, "x" * 300))
    play.leaves((QUEUE, MethodResponse(2, 2, "x" * 200)))


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (b"", "expected 2 values"),
        (b"\0\0\0\x07", "expected"),
        (b"\0\0\0\x07\x05ab", "a string of 5 octets"),
        (b"\0\0\0\x07\x02ab\0", "1 more octets"),
    ],
)
def test_arguments_that_are_not_the_methods_are_not_guessed(octets: bytes, why: str) -> None:
    refused = refusal(started(tank()), octets)
    assert refused.status == Status.INVALID_PARAMETER
    assert why in refused.text


def test_a_call_for_another_version_of_the_class_is_not_carried_out() -> None:
    play = started(tank())
    refused = refusal(play, AMOUNT_7, ClassKey("shop", "tank", b"x" * 16))
    assert refused.status == Status.INVALID_PARAMETER
    assert "another version" in refused.text


def test_a_console_that_reports_no_version_is_served() -> None:
    play = started(tank())
    request = MethodRequest(1, TANK_ID, ClassKey("shop", "tank"), "drain", AMOUNT_7)
    effect = receives(play, request)
    assert isinstance(effect, Called)


PUMP = ClassSchema(
    ClassKey("shop", "pump"),
    (Element("name", ValueType.STRING),),
    methods=(
        Method(
            "run",
            (
                Argument("speed", ValueType.S32, minimum=-1, maximum=9),
                Argument("mode", ValueType.STRING, max_length=4, optional=True),
                Argument("twice", ValueType.BOOL, optional=True),
                Argument("options", ValueType.MAP, optional=True),
                Argument("seen", ValueType.U8, Direction.OUT),
            ),
        ),
    ),
)


def run_pump(speed: int, mode: str, options: dict[str, QmfValue]) -> Effect:
    play = started(classes=(PUMP,))
    definition = play.session.definitions.find_class(key_of(play, "pump"))
    assert definition is not None
    play.session.put(ManagedObject(PUMP.key, 1, START, ("p",), (), START))
    octets = definition.inputs["run"].write((speed, mode, False, options))
    request = MethodRequest(1, ObjectId.of(sequence=5, number=1), definition.key, "run", octets)
    return receives(play, request)


def test_what_is_optional_and_empty_is_absent() -> None:
    call = run_pump(-1, "", {})
    assert isinstance(call, Called)
    assert call.arguments == (-1, None, None, None)


def test_arguments_are_as_the_schema_allows_them() -> None:
    call = run_pump(9, "slow", {"a": (1, None, {"b": None})})
    assert isinstance(call, Called)
    assert call.arguments == (9, "slow", None, {"a": (1, {})})
    for speed, mode in ((-2, ""), (10, ""), (1, "slower")):
        assert not isinstance(run_pump(speed, mode, {}), Called)


def test_the_time_of_a_call_counts_from_its_sending() -> None:
    play = started(tank())
    assert called(play, 1).deadline == play.now + 30 * SECOND
    sent = play.now - SECOND
    assert called(play, 2, timestamp=sent, expiration=2_500).deadline == sent + 2_500_000_000


def test_a_call_that_comes_twice_is_carried_out_once() -> None:
    play = started(tank())
    called(play)
    play.asks(MethodRequest(1, TANK_ID, key_of(play), "drain", AMOUNT_7))
    play.leaves("repeated-call")
    called(play, 2)
    play.now += 61 * SECOND
    called(play, 1)


def test_beyond_the_limit_calls_are_refused_and_not_remembered() -> None:
    play = started(tank())
    handles = [called(play, sequence).handle for sequence in range(MAX_WAITING)]
    play.asks(MethodRequest(1000, TANK_ID, key_of(play), "drain", AMOUNT_7))
    ((_, answer),) = [step for step in play.left() if isinstance(step, tuple)]
    assert isinstance(answer, MethodResponse)
    assert answer.status == Status.EXCEPTION
    assert "not carried out" in answer.text
    play.session.method_done(handles[0], Status.OK, "OK", (1.5, ""))
    called(play, 1000)


def test_an_answer_that_comes_while_nothing_is_said_leaves_later() -> None:
    play = started(tank())
    call = called(play)
    play.session.suspend()
    play.take(play.session.method_done(call.handle, Status.OK, "OK", (1.5, "")))
    play.leaves()
    play.starts()
    answers = [step for step in play.left() if isinstance(step, tuple) and step[0] == QUEUE]
    assert answers == [(QUEUE, MethodResponse(1, 0, "OK", b"\x3f\xf8\0\0\0\0\0\0\0"))]


def test_what_changed_of_one_object_is_reachable_at_once() -> None:
    play = started(tank(), tank(2, "t2"))
    play.session.put(tank(level=1.0))
    play.session.put(tank(2, "t2", level=2.0))
    play.take(play.session.publish(0x1122, play.now))
    play.leaves((PUSHED, statistics(play, level=1.0)))
    play.take(play.session.publish(0x1122, play.now))
    play.leaves()
    play.session.suspend()
    assert play.session.publish(2, play.now) == []


def test_one_object_is_read_again_before_it_is_reported() -> None:
    play = AgentPlay(config=READING)
    play.session.put(tank(level=1.0))
    play.starts()
    play.left()
    asked = receives(play, GetQuery(8, {"_objectid": str(TANK_ID)}))
    assert isinstance(asked, ReadAsked)
    assert asked.number == 0x1122
    play.session.put(tank())
    play.take(play.session.read_done(asked.handle))
    play.leaves((QUEUE, got(play, 8)), (QUEUE, CommandComplete(8)))


def test_an_object_that_was_found_gone_is_reported_so_first() -> None:
    play = AgentPlay(config=READING)
    play.session.put(tank())
    play.starts()
    play.time_passes(10)
    play.left()
    asked = receives(play, GetQuery(8, {"_objectid": str(TANK_ID)}))
    assert isinstance(asked, ReadAsked)
    play.session.delete(0x1122, START + 5)
    play.take(play.session.read_done(asked.handle))
    play.leaves((PUSHED, properties(play, deleted=START + 5)), (QUEUE, CommandComplete(8)))


def test_a_read_that_failed_is_answered_so() -> None:
    play = AgentPlay(config=READING)
    play.session.put(tank())
    play.starts()
    play.left()
    asked = receives(play, GetQuery(8, {"_objectid": str(TANK_ID)}))
    assert isinstance(asked, ReadAsked)
    play.take(play.session.read_done(asked.handle, "the broker does not answer"))
    play.leaves((QUEUE, CommandComplete(8, 1, "the broker does not answer")))
    play.take(play.session.read_done(asked.handle))
    play.leaves()


@pytest.mark.parametrize("object_id", ["tank 1", "0-0-1-0-99999"])
def test_an_object_that_is_not_here_is_not_read(object_id: str) -> None:
    play = AgentPlay(config=READING)
    play.starts()
    play.left()
    play.asks(GetQuery(8, {"_objectid": object_id}))
    assert not [step for step in play.left() if isinstance(step, ReadAsked)]


def test_beyond_the_limit_objects_are_not_read() -> None:
    play = AgentPlay(config=READING)
    play.session.put(tank())
    play.starts()
    play.left()
    for sequence in range(MAX_WAITING):
        assert isinstance(receives(play, GetQuery(sequence, {"_objectid": str(TANK_ID)})), ReadAsked)
    play.asks(GetQuery(8, {"_objectid": str(TANK_ID)}))
    text = f"not read: {MAX_WAITING} calls are under way already"
    play.leaves((QUEUE, CommandComplete(8, 1, text)))


def test_a_reference_to_nothing_is_no_value() -> None:
    """A reference to nothing is the absent value of an optional argument; for another one it is refused."""
    for optional in (False, True):
        argument = Argument("to", ValueType.REFERENCE, optional=optional)
        play = AgentPlay((replace(TANK, methods=(Method("join", (argument,)),)),))
        play.session.put(tank())
        play.starts()
        play.left()
        request = MethodRequest(1, TANK_ID, key_of(play), "join", bytes(16))
        effect = receives(play, request)
        if optional:
            assert isinstance(effect, Called)
            assert effect.arguments == (None,)
        else:
            play.take([effect])
            (step,) = play.left()
            assert isinstance(step, tuple)
            assert isinstance(step[1], MethodResponse)
            assert "expected a value for to" in step[1].text


def test_classes_are_distinguished_from_what_is_known_also_where_objects_are_read_again() -> None:
    play = AgentPlay(config=READING)
    play.session.put(tank())
    play.starts()
    play.flushes()
    play.left()
    play.asks(GetQuery(5, {"_class": "tank", "_objectid": str(TANK_ID)}))
    play.leaves((QUEUE, got(play, 5)), (QUEUE, CommandComplete(5)))
    play.asks(GetQuery(6, {"_objectid": "0-5-1-0-1"}))
    play.leaves((QUEUE, CommandComplete(6)))


@given(st.binary(max_size=40))
def test_whatever_stands_in_a_call_it_is_handed_on_whole_or_refused(octets: bytes) -> None:
    session = AgentSession(AgentConfig(BROKER, 4, frozenset({CONSOLE_USER})), (TANK,))
    session.put(tank())
    session.start(START)
    key = session.class_key("shop", "tank")
    body = write(MethodRequest(1, TANK_ID, key, "drain", octets))
    for effect in session.handle(Delivery("qpid.management", "broker", body, QUEUE, CONSOLE_USER), START):
        if isinstance(effect, Called):
            amount, token = effect.arguments
            assert isinstance(amount, int)
            assert isinstance(token, str)
