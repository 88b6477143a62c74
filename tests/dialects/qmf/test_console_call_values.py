"""Arguments and outputs of calls, of every type."""

from __future__ import annotations

from uuid import UUID

import pytest

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.messages import (
    MethodRequest,
    MethodResponse,
)
from gateway.model.operations import Answer, Outcome
from gateway.model.schema import Argument, ClassKey, ClassSchema, Direction, Element, Method
from gateway.model.values import Reference, Value, ValueType
from tests.dialects.qmf.examples import OBJECT_ID, shop
from tests.dialects.qmf.operations_story import (
    AGENT_KEY,
    FIRST,
    calls,
    drain,
    listed_again,
)
from tests.dialects.qmf.playbook import AGENT_USER, ConsolePlay

EVERY_TYPE = (
    (ValueType.BOOL, True, b"\x01"),
    (ValueType.U8, 1, b"\x01"),
    (ValueType.U16, 2, b"\0\x02"),
    (ValueType.U32, 3, b"\0\0\0\x03"),
    (ValueType.U64, 2**64 - 1, b"\xff" * 8),
    (ValueType.S8, -1, b"\xff"),
    (ValueType.S16, -2, b"\xff\xfe"),
    (ValueType.S32, -3, b"\xff\xff\xff\xfd"),
    (ValueType.S64, -4, b"\xff" * 7 + b"\xfc"),
    (ValueType.F32, 0.5, b"\x3f\0\0\0"),
    (ValueType.F64, 0.5, b"\x3f\xe0" + bytes(6)),
    (ValueType.STRING, "ä", b"\0\x02\xc3\xa4"),
    (ValueType.UUID, UUID(int=7), bytes(15) + b"\x07"),
    (ValueType.TIME, 8, bytes(7) + b"\x08"),
    (ValueType.DURATION, 9, bytes(7) + b"\x09"),
    (ValueType.REFERENCE, Reference("0-5-1-0-2"), b"\0\x05\0\0\x10\0\0\0" + bytes(7) + b"\x02"),
    (ValueType.MAP, {"a": "b"}, b"\0\0\0\x0a\0\0\0\x01\x01a\x95\0\x01b"),
    (ValueType.LIST, (1,), b"\0\0\0\x09\0\0\0\x01\x21\0\0\0\x01"),
)


def with_method(method: Method, digest: bytes = b"E" * 16) -> tuple[ConsolePlay, ClassSchema]:
    """Return a console that knows one more class, which has this method, and that class."""
    schema = ClassSchema(
        ClassKey("shop", "pump", digest), (Element("name", ValueType.STRING),), methods=(method,)
    )
    known = shop()
    known.add(ClassDefinition.of(schema))
    play = ConsolePlay(ConsoleConfig(frozenset({AGENT_USER}), definitions=tuple(known)), known)
    listed_again(play, connect=True)
    play.left()
    return play, schema


@pytest.mark.parametrize(("value_type", "value", "octets"), EVERY_TYPE, ids=lambda one: str(one)[:20])
def test_arguments_of_every_type_go_and_come_back(value_type: ValueType, value: Value, octets: bytes) -> None:
    play, schema = with_method(Method("turn", (Argument("it", value_type, Direction.INOUT),)))
    calls(play, drain(play, key=schema.key, method="turn", arguments=(value,)))
    play.leaves((AGENT_KEY, MethodRequest(FIRST, OBJECT_ID, schema.key, "turn", octets)))
    play.arrives(MethodResponse(FIRST, 0, "OK", octets))
    play.leaves(Answer(1, Outcome.APPLIED, "OK", 0, (value,)))


def test_a_secret_that_a_method_returns_is_absent_and_the_rest_keeps_its_place() -> None:
    outputs = [Argument(name, ValueType.STRING, Direction.OUT) for name in ("user", "password", "url")]
    play, schema = with_method(Method("turn", tuple(outputs)))
    calls(play, drain(play, key=schema.key, method="turn", arguments=()))
    play.left()
    play.arrives(MethodResponse(FIRST, 0, "OK", b"\0\x01u\0\x01p\0\x09x://a:b@c"))
    play.leaves(Answer(1, Outcome.APPLIED, "OK", 0, ("u", None, "x://***@c")))


def test_a_request_that_would_be_dropped_for_its_length_is_not_sent() -> None:
    arguments = tuple(Argument(name, ValueType.STRING) for name in ("first", "second"))
    play, schema = with_method(Method("turn", arguments))
    calls(play, drain(play, key=schema.key, method="turn", arguments=("x" * 60_000, "y" * 60_000)))
    text = "not sent: arguments of 120004 octets, 64512 are taken"
    play.leaves(Answer(1, Outcome.WRONG_LENGTH, text))


def test_a_map_whose_key_is_too_long_for_the_wire_is_not_sent() -> None:
    play, schema = with_method(Method("turn", (Argument("options", ValueType.MAP),)))
    calls(play, drain(play, key=schema.key, method="turn", arguments=({"k" * 256: 1},)))
    (answer,) = play.left()
    assert isinstance(answer, Answer)
    assert answer.outcome is Outcome.WRONG_VALUE
    assert answer.text.startswith("not sent: ")
