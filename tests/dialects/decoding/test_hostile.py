"""Any octets, recorded or hostile, in any dialect: each form of the output can be printed."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.decode import DECODERS, document_of_line, lines_of
from gateway.cli.printing import say, say_json
from gateway.dialects.decoding.plain import Body, Decoder
from gateway.dialects.decoding.qmf import Am01Decoder, Am2Decoder
from gateway.dialects.decoding.text import AmiDecoder, CmlDecoder
from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.am01.codec import write as write_am01
from gateway.dialects.qmf.am01.messages import ClassDescription, Revision
from gateway.dialects.qmf.am01.messages import MethodRequest as Am01MethodRequest
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import MethodRequest, MethodResponse, SchemaResponse
from gateway.model.schema import Argument, ClassKey, ClassSchema, Direction, Element, Method
from gateway.model.values import ValueType
from tests.dialects.decoding.test_one_octet import BODIES
from tests.dialects.qmf.am01.examples import OBJECT_ID

RECORDED = {"am2": Am2Decoder, "am01": Am01Decoder, "am1": Am01Decoder, "cml": CmlDecoder, "ami": AmiDecoder}

IN_AM2 = (ValueType.UUID, ValueType.F32, ValueType.MAP, ValueType.LIST, ValueType.S64)
TEXTS = (("text", None), ("short", 255))
"""A str16 and a str8."""


def tank(*more: ValueType) -> ClassDefinition:
    """Return a class with a method for each type, whose argument goes in and out."""
    types = [ValueType.U8, ValueType.TIME, ValueType.BOOL, *more]
    arguments = [Argument(one.value, one, Direction.INOUT) for one in types]
    arguments += [
        Argument(name, ValueType.STRING, Direction.INOUT, max_length=length) for name, length in TEXTS
    ]
    return ClassDefinition.of(
        ClassSchema(
            ClassKey("works", "tank", bytes(16)),
            properties=(Element("name", ValueType.STRING, index=True, max_length=255),),
            methods=tuple(Method(one.name, (one,)) for one in arguments),
        )
    )


TANK, AM2_TANK = tank(), tank(*IN_AM2)
NUMBER = ObjectId.of(sequence=1, number=5)


def calls_am2(method: str, arguments: bytes) -> Iterator[Body]:
    yield Body(write(MethodRequest(7, NUMBER, AM2_TANK.key, method, arguments)))
    yield Body(write(MethodResponse(7, 0, "OK", arguments)))


def calls_am01(revision: Revision, method: str, arguments: bytes) -> Iterator[Body]:
    call = Am01MethodRequest(7, OBJECT_ID, TANK.key, method, arguments)
    yield Body(write_am01(call, revision), routing_key=f"agent.method.works.tank.{method}")
    yield Body(write_am01(MethodResponse(7, 0, "OK", arguments), revision), routing_key="reply")


@cache
def informed(dialect: str, revision: Revision | None = None) -> Decoder:
    """Return a decoder of a dialect that has read the class."""
    decoder = DECODERS[dialect]()
    schema = (
        write(SchemaResponse(1, AM2_TANK))
        if revision is None
        else write_am01(ClassDescription(revision is Revision.MARCH_2008, TANK), revision)
    )
    assert decoder.decode(Body(schema, routing_key="reply")).messages
    return decoder


def prints(decoder: Decoder, body: Body) -> None:
    """Print a body in each form; what is printed is what the document has."""
    line = {"body": base64.b64encode(body.octets).decode(), "routing_key": body.routing_key}
    document = document_of_line(decoder, json.dumps(line).encode(), "body")
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(output):
        say_json(document)
        output.flush()
        printed = output.buffer.getvalue()
        if document["ok"]:
            say(lines_of(decoder.decode(body)))
            output.flush()
    assert json.loads(printed) == json.loads(json.dumps(document))


AM01 = [("am01", Revision.FEBRUARY_2008), ("am01", Revision.MARCH_2008), ("am1", Revision.MARCH_2008)]
METHODS = st.sampled_from(list(AM2_TANK.methods))
OCTETS = st.binary(max_size=80) | st.integers(0, 255).map(lambda count: bytes((count,)) + b"\xff" * count)
"""Any octets, and a str8 of octets that are no UTF-8: the text that shows them is four times as long."""


@given(METHODS, OCTETS)
def test_arguments_of_calls_and_answers(method: str, arguments: bytes) -> None:
    for body in calls_am2(method, arguments):
        prints(informed("am2"), body)
    if method in TANK.methods:
        for dialect, revision in AM01:
            for body in calls_am01(revision, method, arguments):
                prints(informed(dialect, revision), body)


@pytest.mark.parametrize(("dialect", "revision"), AM01)
def test_an_argument_that_cannot_be_written_again_is_shown(dialect: str, revision: Revision) -> None:
    call, _ = calls_am01(revision, "short", bytes((64,)) + b"\xff" * 64)
    decoded = informed(dialect, revision).decode(call)
    assert decoded.messages[0]["arguments"] == {"short": "\\xff" * 64}
    assert decoded.reencoded is None


def test_a_text_of_cml_in_latin_1_is_shown() -> None:
    body = next(one for one in BODIES[CmlDecoder]() if b"auto_crash" in one.octets)
    octets = body.octets.replace(b"auto_crash", b"au\xdeo_crash")
    assert "au\xdeo_crash" in json.dumps(CmlDecoder().decode(Body(octets)).messages, ensure_ascii=False)
    prints(CmlDecoder(), Body(octets))


@cache
def recorded(dialect: str) -> tuple[Decoder, list[Body]]:
    """Return a decoder that has read the recorded bodies of a dialect, and these."""
    decoder, bodies = DECODERS[dialect](), BODIES[RECORDED[dialect]]()
    for body in bodies:
        try:
            decoder.decode(body)
        except ProtocolError:
            continue
    return decoder, bodies


EDITS = st.lists(
    st.tuples(st.integers(0, 1 << 20), st.integers(0, 70), st.binary(max_size=70) | OCTETS), max_size=4
)


@pytest.mark.parametrize("dialect", list(RECORDED))
@given(which=st.integers(0, 1 << 30), edits=EDITS)
def test_recorded_bodies_with_parts_that_are_others(
    dialect: str, which: int, edits: list[tuple[int, int, bytes]]
) -> None:
    decoder, bodies = recorded(dialect)
    body = bodies[which % len(bodies)]
    octets = bytearray(body.octets)
    for where, length, put in edits:
        start = where % (len(octets) + 1)
        octets[start : start + length] = put
    prints(decoder, Body(bytes(octets), routing_key=body.routing_key))


@pytest.mark.parametrize("dialect", list(DECODERS))
@given(octets=st.binary(max_size=200), routing_key=st.text(max_size=20))
def test_any_octets(dialect: str, octets: bytes, routing_key: str) -> None:
    prints(DECODERS[dialect](), Body(octets, routing_key=routing_key))
