"""QMF as values, with what was heard before."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.dialects.decoding.body import Body
from gateway.dialects.decoding.qmf import MAX_PENDING, Am01Decoder, Am2Decoder, am1_decoder
from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.messages import BrokerRequest, MethodRequest, MethodResponse, SchemaResponse
from gateway.dialects.qmf.object_id import ObjectId
from gateway.dialects.qmf.schema_records import described_class
from gateway.dialects.qmf.writer import write
from gateway.model.schema import Argument, ClassKey, ClassSchema, Direction, Element, Method
from gateway.model.values import ValueType
from tests.dialects.qmf.am01 import recordings as am01
from tests.dialects.qmf.recordings import PEERS, recorded

TANK = described_class(
    ClassSchema(
        ClassKey("works", "tank"),
        properties=(Element("name", ValueType.STRING, index=True),),
        methods=(
            Method(
                "fill",
                (
                    Argument("litres", ValueType.U32),
                    Argument("level", ValueType.U64, Direction.OUT),
                ),
            ),
        ),
    )
)
FILL = MethodRequest(7, ObjectId.of(sequence=1, number=5), TANK.key, "fill", bytes((0, 0, 0, 9)))
FILLED = MethodResponse(7, 0, "OK", bytes((0, 0, 0, 0, 0, 0, 1, 0)))


def test_a_greeting() -> None:
    decoded = Am2Decoder().decode(Body(write(BrokerRequest(3))))
    assert decoded.messages == [{"message": "BrokerRequest", "sequence": 3}]
    assert decoded.reencoded is True


def test_arguments_have_names_once_schema_and_call_were_heard() -> None:
    decoder = Am2Decoder()
    call, answer = Body(write(FILL), reply_to="console-1"), Body(write(FILLED), routing_key="console-1")
    assert decoder.decode(call).messages[0]["arguments"] == {"base64": "AAAACQ=="}
    decoder.decode(Body(write(SchemaResponse(1, TANK))))
    assert decoder.decode(call).messages[0]["arguments"] == {"litres": 9}
    another = Body(write(FILLED), routing_key="console-2")
    assert "method" not in decoder.decode(another).messages[0]  # the answer to a call of somebody else
    (told,) = decoder.decode(answer).messages
    assert (told["method"], told["arguments"]) == ("fill", {"level": 256})
    assert "method" not in decoder.decode(answer).messages[0]  # a call has one answer


def test_an_answer_without_arguments_has_none() -> None:
    decoder = Am2Decoder()
    decoder.decode(Body(write(SchemaResponse(1, TANK))))
    decoder.decode(Body(write(FILL)))
    (told,) = decoder.decode(Body(write(MethodResponse(7, 7, "no")), routing_key="console-1")).messages
    assert (told["method"], told["arguments"]) == ("fill", None)


def test_calls_without_answers_are_forgotten_in_the_end() -> None:
    decoder = Am2Decoder()
    decoder.decode(Body(write(SchemaResponse(1, TANK))))
    for sequence in range(7, 8 + MAX_PENDING):
        call = MethodRequest(sequence, FILL.object_id, FILL.key, "fill", FILL.arguments)
        decoder.decode(Body(write(call), reply_to="c"))
    assert "method" not in decoder.decode(Body(write(FILLED), routing_key="c")).messages[0]


@pytest.mark.parametrize("peer", PEERS)
def test_everything_that_was_recorded_is_read(peer: str) -> None:
    decoder = Am2Decoder()
    ends: Counter[bool | None] = Counter()
    for one in recorded(peer):
        try:
            decoded = decoder.decode(Body(one.body))
        except ProtocolError:
            assert one.broken or not one.body or one.id == "am2-0963", one.id
            continue
        ends[decoded.reencoded] += 1
        if decoded.reencoded is not None:  # behind a class that is not known yet nothing can be read
            assert sum(one.records.values()) == len(decoded.messages) or one.broken, one.id
    assert ends[True] > 2 * ends[False]


def test_content_has_names() -> None:
    decoder = Am2Decoder()
    shown = [
        message
        for one in recorded("qpidd-0.34")
        if not one.broken and one.body
        for message in _decoded(decoder, one.body)
    ]
    queue = next(
        one for one in shown if one["message"] == "ObjectContent" and ":queue#" in str(one.get("key"))
    )
    properties, statistics = queue["properties"], queue["statistics"]
    assert isinstance(properties, dict)
    assert isinstance(statistics, dict)
    assert {"name", "durable", "altExchange"} <= properties.keys()
    assert "msgDepth" in statistics
    event = next(one for one in shown if "queueDeclare#" in str(one.get("key")) and "severity" in one)
    arguments = event["arguments"]
    assert isinstance(arguments, dict)
    assert {"rhost", "qName", "durable"} <= arguments.keys()


def _decoded(decoder: Am2Decoder, body: bytes) -> list[dict[str, object]]:
    try:
        return [dict(message) for message in decoder.decode(Body(body)).messages]
    except ProtocolError:
        return []


@pytest.mark.parametrize("file", ["am01-2008", "am1-2008"])
def test_what_came_before_am2_is_told_apart(file: str) -> None:
    decoder = Am01Decoder()
    for one in am01.recorded(file):
        body = Body(one.body, routing_key=one.key)
        try:
            decoded = decoder.decode(body)
        except ProtocolError:
            assert one.broken, one.id
            continue
        assert decoded.reencoded is not False, one.id
        assert one.revision.value in decoded.messages[0]["revisions"], one.id  # type: ignore[operator]


def test_of_am1_alone_nothing_else_is_read() -> None:
    with pytest.raises(ProtocolError):
        am1_decoder().decode(Body(b"AM01P\0", routing_key="agent"))
    (told,) = am1_decoder().decode(Body(b"AM1P\0\0\0\5", routing_key="agent")).messages
    assert (told["message"], told["sequence"], told["revisions"]) == ("PackageQuery", 5, ["2008-03"])
