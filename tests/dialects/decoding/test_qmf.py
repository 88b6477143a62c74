"""Decoding of QMF into values, with the state from earlier messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects.decoding.plain import Body, Decoder
from gateway.dialects.decoding.qmf import MAX_PENDING, Am01Decoder, Am2Decoder, am1_decoder
from gateway.dialects.decoding.written_again import JAVA
from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.am01.codec import write as am01_write
from gateway.dialects.qmf.am01.messages import Revision
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    EventIndication,
    MethodRequest,
    MethodResponse,
    SchemaResponse,
)
from gateway.dialects.qmf.schema_records import described_class, described_event
from gateway.dialects.qmf.typed_values import Int64, QmfValue
from gateway.model.schema import Argument, ClassKey, ClassSchema, Direction, Element, EventSchema, Method
from gateway.model.values import ValueType
from tests.dialects.qmf.am01 import opcode_examples as am01_examples
from tests.dialects.qmf.am01 import recordings as am01
from tests.dialects.qmf.am01.examples import KEY
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


def test_arguments_have_names_once_schema_and_call_were_received() -> None:
    decoder = Am2Decoder()
    call, answer = Body(write(FILL), reply_to="console-1"), Body(write(FILLED), routing_key="console-1")
    assert decoder.decode(call).messages[0]["arguments"] == {"base64": "AAAACQ=="}
    decoder.decode(Body(write(SchemaResponse(1, TANK))))
    assert decoder.decode(call).messages[0]["arguments"] == {"litres": 9}
    another = Body(write(FILLED), routing_key="console-2")
    assert "method" not in decoder.decode(another).messages[0]  # the answer to a call of somebody else
    (reported,) = decoder.decode(answer).messages
    assert (reported["method"], reported["arguments"]) == ("fill", {"level": 256})
    assert decoder.decode(answer).messages == [reported]  # captured on both sides of a broker


def test_an_answer_is_to_the_latest_call_of_its_number() -> None:
    decoder = Am2Decoder()
    decoder.decode(Body(write(SchemaResponse(1, TANK))))
    decoder.decode(Body(write(FILL), reply_to="console-1"))
    decoder.decode(Body(write(replace(FILL, method="drain")), reply_to="console-1"))
    (reported,) = decoder.decode(Body(write(FILLED), routing_key="console-1")).messages
    assert (reported["method"], reported["arguments"]) == ("drain", {"base64": "AAAAAAAAAQA="})


def test_the_method_of_a_class_that_is_not_known_is_named() -> None:
    decoder = Am2Decoder()
    decoder.decode(Body(write(FILL), reply_to="console-1"))
    (reported,) = decoder.decode(Body(write(FILLED), routing_key="console-1")).messages
    assert (reported["method"], reported["arguments"]) == ("fill", {"base64": "AAAAAAAAAQA="})
    decoder.decode(Body(write(SchemaResponse(1, TANK))))
    (reported,) = decoder.decode(Body(write(FILLED), routing_key="console-1")).messages
    assert (reported["method"], reported["arguments"]) == ("fill", {"level": 256})


def test_more_classes_than_are_kept_are_not_known() -> None:
    decoder = Am2Decoder()
    for number in range(4097):
        key = ClassKey("works", f"tank{number}", bytes(16))
        decoder.decode(Body(write(SchemaResponse(1, ClassDefinition.of(replace(TANK.schema, key=key))))))
    shown = [
        decoder.decode(Body(write(replace(FILL, key=replace(TANK.key, name=name))))).messages[0]["arguments"]
        for name in ("tank4095", "tank4096")
    ]
    assert shown == [{"litres": 9}, {"base64": "AAAACQ=="}]


def test_an_answer_without_arguments_has_none() -> None:
    decoder = Am2Decoder()
    decoder.decode(Body(write(SchemaResponse(1, TANK))))
    decoder.decode(Body(write(FILL)))
    (reported,) = decoder.decode(Body(write(MethodResponse(7, 7, "no")), routing_key="console-1")).messages
    assert (reported["method"], reported["arguments"]) == ("fill", None)


def test_calls_without_answers_are_forgotten_in_the_end() -> None:
    decoder = Am2Decoder()
    decoder.decode(Body(write(SchemaResponse(1, TANK))))
    for sequence in range(7, 8 + MAX_PENDING):
        call = MethodRequest(sequence, FILL.object_id, FILL.key, "fill", FILL.arguments)
        decoder.decode(Body(write(call), reply_to="c"))
    assert "method" not in decoder.decode(Body(write(FILLED), routing_key="c")).messages[0]


def test_octets_behind_arguments_are_shown() -> None:
    decoder = Am2Decoder()
    decoder.decode(Body(write(SchemaResponse(1, TANK))))
    (reported,) = decoder.decode(Body(write(FILL) + b"more")).messages
    assert (reported["arguments"], reported["rest"]) == ({"litres": 9}, {"base64": "bW9yZQ=="})


def test_arguments_in_an_unusual_form_are_not_written_again() -> None:
    size = Element("size", ValueType.BOOL)
    definition = described_class(
        ClassSchema(
            ClassKey("works", "lid"), (size,), methods=(Method("lift", (Argument("up", size.type),)),)
        )
    )
    decoder = Am2Decoder()
    decoder.decode(Body(write(SchemaResponse(1, definition))))
    call = MethodRequest(7, FILL.object_id, definition.key, "lift", b"")
    found = {up: decoder.decode(Body(write(replace(call, arguments=bytes((up,)))))) for up in (0, 1, 2, 0xFF)}
    assert {up: decoded.messages[0]["arguments"] for up, decoded in found.items()} == {
        0: {"up": False},
        1: {"up": True},
        2: {"up": True},
        0xFF: {"up": True},
    }
    assert {up: decoded.reencoded for up, decoded in found.items()} == {
        0: True,
        1: True,
        2: False,
        0xFF: True,
    }


@pytest.mark.parametrize(
    ("entries", "same"),
    [
        ({}, True),
        ({"a": 1, "b": "x", "c": True}, True),
        ({"a": Int64(1), "b": (Int64(2), {"c": Int64(-3), "d": 1 << 63})}, True),
        ({"a": Int64(1), "b": 2}, False),
    ],
)
def test_maps_are_written_as_we_do_or_as_clients_of_qpid_do(
    entries: dict[str, QmfValue], *, same: bool
) -> None:
    event = described_event(EventSchema(ClassKey("works", "moved"), (Argument("what", ValueType.MAP),)))
    known = Definitions()
    known.add(event)
    decoder = Am2Decoder()
    decoder.decode(Body(write(SchemaResponse(1, event))))
    decoded = decoder.decode(Body(write(EventIndication(0, event.key, 1, 6, (entries,)), known)))
    assert decoded.reencoded is same


@pytest.mark.parametrize(
    ("decoder", "head"), [(Am2Decoder, b"AM2z"), (Am01Decoder, b"AM1z"), (Am01Decoder, b"AM01R\0")]
)
def test_a_text_that_only_fits_as_it_came_is_not_written(decoder: Callable[[], Decoder], head: bytes) -> None:
    decoded = decoder().decode(Body(head + bytes(8) + b"\xff" * 256, routing_key="reply"))
    assert (decoded.messages[0]["text"], decoded.reencoded) == ("\\xff" * 255, None)


def test_an_event_of_agent_0_6_is_read_by_its_own_schema_and_not_by_what_qpidd_keeps_of_it() -> None:
    decoder = Am2Decoder()
    created = [
        (reported["arguments"], decoded.reencoded)
        for decoded in (decoder.decode(Body(one.body)) for one in recorded("console-and-agent-0.6"))
        for reported in decoded.messages
        if reported["message"] == "EventIndication" and "ChildCreated" in str(reported["key"])
    ]
    assert [one for one in created if one[0] != {"childName": "kid0"}][:1] == [({"childName": "kid1"}, True)]
    assert all(same for _, same in created)


def test_a_schema_without_a_hash_takes_the_place_of_a_longer_one() -> None:
    key = ClassKey("works", "moved", bytes(16))
    decoder = Am2Decoder()
    for arguments in ((Argument("what", ValueType.U8),), ()):
        decoder.decode(Body(write(SchemaResponse(1, EventDefinition.of(EventSchema(key, arguments))))))
    known = Definitions()
    known.add(EventDefinition.of(EventSchema(key)))
    (reported,) = decoder.decode(Body(write(EventIndication(0, key, 1, 6, ()), known))).messages
    assert reported["arguments"] == {}


def test_a_java_broker_s_values_are_read_in_its_form() -> None:
    lid = ClassDefinition.of(
        ClassSchema(ClassKey("works", "lid"), (Element("open", ValueType.BOOL), Element("n", ValueType.U8)))
    )
    values, end = replace(lid, forms=JAVA).properties.read(b"\xff\7", 0)
    assert (values, end) == ((True, 7), 2)


def test_what_is_not_known_is_called_by_its_opcode() -> None:
    (reported,) = Am2Decoder().decode(Body(b"AM2?" + bytes(4))).messages
    assert reported == {"message": "UnknownOpcode", "sequence": 0, "code": 63, "opcode": "?"}


WRITTEN_OTHERWISE = {
    "qpidd-0.34": {
        *("am2-0310", "am2-0313", "am2-0325", "am2-0330", "am2-0335"),  # selectors written on purpose so
        *("am2-0630", "am2-0631"),  # text that is no UTF-8
        "am2-0830",  # an empty map without its count
        *("am2-0948", "am2-0959"),  # schemas of a peer of the recording's own
    },
    "console-and-agent-0.6": set(),
    "java-0.8": {"am2j91-0101"},
}


@pytest.mark.parametrize("peer", PEERS)
def test_everything_that_was_recorded_is_read_and_written_again(peer: str) -> None:
    decoder = Am2Decoder()
    otherwise = set()
    for one in recorded(peer):
        try:
            decoded = decoder.decode(Body(one.body))
        except ProtocolError:
            assert one.broken or not one.body or one.id == "am2-0963", one.id
            continue
        if decoded.reencoded is False and not one.broken:
            otherwise.add(one.id)
        if decoded.reencoded is not None:  # behind a class that is not known yet nothing can be read
            assert sum(one.records.values()) == len(decoded.messages) or one.broken, one.id
    assert otherwise == WRITTEN_OTHERWISE[peer]


def described(definition: ClassDefinition | EventDefinition) -> Any:  # noqa: ANN401  whatever JSON has
    (reported,) = Am2Decoder().decode(Body(write(SchemaResponse(1, definition)))).messages
    return reported["definition"]


def test_a_schema_says_how_each_of_its_values_travels() -> None:
    tank = described(TANK)
    (name,), (fill,) = tank["properties"], tank["methods"]
    assert (name["name"], name["type"], name["type_code"]) == ("name", "string", "str16")
    arguments = [(one["name"], one["type_code"]) for one in fill["arguments"]]
    assert arguments == [("litres", "u32"), ("level", "u64")]
    event = described_event(EventSchema(ClassKey("works", "moved"), (Argument("what", ValueType.MAP),)))
    (what,) = described(event)["arguments"]
    assert (what["name"], what["type_code"]) == ("what", "map")


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
def test_what_came_before_am2_is_distinguished(file: str) -> None:
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


def test_events_before_am2_are_read_in_the_layout_that_is_ours() -> None:
    decoder = Am01Decoder()
    schema = am01_examples.described(KEY)
    written = am01_write(schema, Revision.DESIGN_NOTES, am01_examples.SHOP, extended=True)
    decoder.decode(Body(written, routing_key="mgmt.schema.shop.tank"))
    event = Body(am01_examples.EVENT_OCTETS, routing_key="mgmt.event.shop.tank.warning")
    decoded = decoder.decode(event)
    (reported,) = decoded.messages
    assert (reported["message"], reported["severity"], reported["arguments"]) == (
        "EventIndication",
        4,
        {"rate": 5},
    )
    assert decoded.reencoded is True


def test_of_am1_alone_nothing_else_is_read() -> None:
    with pytest.raises(ProtocolError):
        am1_decoder().decode(Body(b"AM01P\0", routing_key="agent"))
    (reported,) = am1_decoder().decode(Body(b"AM1P\0\0\0\5", routing_key="agent")).messages
    assert (reported["message"], reported["sequence"], reported["revisions"]) == (
        "PackageQuery",
        5,
        ["2008-03"],
    )
