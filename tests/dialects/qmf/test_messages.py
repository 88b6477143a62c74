"""Each opcode by example: octets put together by hand from the protocol, and their message."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from uuid import UUID

import pytest

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.codec import MAX_BODY, read_body, write
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions
from gateway.dialects.qmf.fields import NULL, ObjectId
from gateway.dialects.qmf.messages import (
    AttachRequest,
    AttachResponse,
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    ConsoleAdded,
    EventIndication,
    GetQuery,
    Heartbeat,
    Message,
    MethodRequest,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PackageQuery,
    PropertyContent,
    Received,
    SchemaRequest,
    StatisticContent,
    UnknownClass,
    UnknownOpcode,
)
from gateway.model.schema import ClassKey
from tests.dialects.qmf.examples import LEAK, OBJECT_ID, TANK, shop

BROKER = UUID("00112233-4455-6677-8899-aabbccddeeff")
TANK_KEY = b"\x04shop\x04tank" + b"T" * 16
LEAK_KEY = b"\x04shop\x04leak" + b"L" * 16
SAMPLED, CREATED, DELETED = 0x0101, 0x0202, 0x0303
TIMES = b"\0\0\0\0\0\0\x01\x01\0\0\0\0\0\0\x02\x02"
ALIVE = bytes(8)
# flags 0, sequence 005, broker bank 00001, agent bank 0000000; number 1122
ID_OCTETS = bytes.fromhex("00050000100000000000000000001122")
FULL, HALF = b"\x40\x59\0\0\0\0\0\0", b"\x40\x49\0\0\0\0\0\0"  # 100.0 and 50.0 as IEEE 754 doubles

EXAMPLES: list[tuple[bytes, Message]] = [
    (b"AM2B\0\0\0\x07", BrokerRequest(7)),
    (b"AM2b\0\0\0\x07" + bytes.fromhex("00112233445566778899aabbccddeeff"), BrokerResponse(7, BROKER)),
    (b"AM2z\0\0\0\x07\0\0\0\0\x02OK", CommandComplete(7)),
    (b"AM2z\0\0\0\x08\0\0\0\x01\x11Package not found", CommandComplete(8, 1, "Package not found")),
    (b"AM2P\0\0\0\x09", PackageQuery(9)),
    (b"AM2p\0\0\0\x09\x04shop", PackageIndication(9, "shop")),
    (b"AM2Q\0\0\0\x0a\x04shop", ClassQuery(10, "shop")),
    (b"AM2q\0\0\0\x0a\x01" + TANK_KEY, ClassIndication(10, ClassKind.OBJECT, TANK.key)),
    (b"AM2q\0\0\0\x0a\x02" + LEAK_KEY, ClassIndication(10, ClassKind.EVENT, LEAK.key)),
    (b"AM2S\0\0\0\x0b" + TANK_KEY, SchemaRequest(11, TANK.key)),
    (
        # the mask says: note is there, owner is not
        b"AM2c\0\0\0\0" + TANK_KEY + TIMES + ALIVE + ID_OCTETS + b"\x01\x02t1\0\x64\x02hi",
        PropertyContent(0, TANK.key, SAMPLED, CREATED, 0, OBJECT_ID, ("t1", 100, "hi", None)),
    ),
    (
        b"AM2c\0\0\0\0"
        + TANK_KEY
        + TIMES
        + b"\0\0\0\0\0\0\x03\x03"
        + ID_OCTETS
        + b"\x02\x02t1\0\x64"
        + bytes(16),
        PropertyContent(0, TANK.key, SAMPLED, CREATED, DELETED, OBJECT_ID, ("t1", 100, None, NULL)),
    ),
    (
        b"AM2i\0\0\0\0" + TANK_KEY + TIMES + ALIVE + ID_OCTETS + HALF + b"\0\0\0\x09",
        StatisticContent(0, TANK.key, SAMPLED, CREATED, 0, OBJECT_ID, None, (50.0, 9)),
    ),
    (
        b"AM2g\0\0\0\x0c" + TANK_KEY + TIMES + ALIVE + ID_OCTETS + b"\0\x02t1\0\x64" + FULL + b"\0\0\0\x09",
        ObjectContent(12, TANK.key, SAMPLED, CREATED, 0, OBJECT_ID, ("t1", 100, None, None), (100.0, 9)),
    ),
    (
        b"AM2e\0\0\0\0" + LEAK_KEY + b"\0\0\0\0\0\0\x01\x01\x04\x02t1\0\0\0\x05",
        EventIndication(0, LEAK.key, SAMPLED, 4, ("t1", 5)),
    ),
    (b"AM2h\0\0\0\0\0\0\0\0\0\0\x01\x01", Heartbeat(0, SAMPLED)),
    (
        b"AM2G\0\0\0\x0d\0\0\0\x12\0\0\0\x01\x06_class\x95\0\x04tank",
        GetQuery(13, {"_class": "tank"}),
    ),
    (
        b"AM2M\0\0\0\x0e" + ID_OCTETS + TANK_KEY + b"\x05drain\0\0\0\x03\x02ab",
        MethodRequest(14, OBJECT_ID, TANK.key, "drain", b"\0\0\0\x03\x02ab"),
    ),
    (b"AM2m\0\0\0\x0e\0\0\0\0\0\x02OK" + HALF + b"\x02ab", MethodResponse(14, 0, "OK", HALF + b"\x02ab")),
    (b"AM2m\0\0\0\x0f\0\0\0\x02\x0dUnknownMethod", MethodResponse(15, 2, "UnknownMethod")),
    (
        b"AM2A\0\0\0\x10\x04farm" + BROKER.bytes + b"\0\0\0\x01\0\0\0\x0a",
        AttachRequest(16, "farm", BROKER, 1, 10),
    ),
    (b"AM2a\0\0\0\x10\0\0\0\x01\0\0\0\x0a", AttachResponse(16, 1, 10)),
    (b"AM2x\0\0\0\0", ConsoleAdded(0)),
]


def read(body: bytes, known: Definitions | None = None) -> list[Received]:
    return list(read_body(body, shop() if known is None else known))


@pytest.mark.parametrize(("octets", "message"), EXAMPLES)
def test_octets_and_what_they_say(octets: bytes, message: Message) -> None:
    assert read(octets) == [message]
    assert write(message, shop()) == octets


def test_a_body_is_one_record_after_another() -> None:
    last = {MethodRequest, MethodResponse, EventIndication}
    joinable = [(octets, message) for octets, message in EXAMPLES if type(message) not in last]
    assert read(b"".join(octets for octets, _ in joinable)) == [message for _, message in joinable]


def test_calls_in_one_body_are_distinguished_by_their_schema() -> None:
    call = next(octets for octets, message in EXAMPLES if isinstance(message, MethodRequest))
    assert [type(one) for one in read(call + call)] == [MethodRequest, MethodRequest]


@pytest.mark.parametrize("arguments", [b"", b"\0\0", b"\0\0\0\x03\x02ab and more"])
def test_a_call_with_too_few_or_too_many_arguments_keeps_them_as_they_are(arguments: bytes) -> None:
    octets = b"AM2M\0\0\0\x0e" + ID_OCTETS + TANK_KEY + b"\x05drain" + arguments
    assert read(octets) == [MethodRequest(14, OBJECT_ID, TANK.key, "drain", arguments)]


def test_a_call_of_what_is_not_known_takes_the_rest_of_the_body() -> None:
    octets = b"AM2M\0\0\0\x0e" + ID_OCTETS + TANK_KEY + b"\x04burn" + b"AM2B\0\0\0\0"
    assert read(octets) == [MethodRequest(14, OBJECT_ID, TANK.key, "burn", b"AM2B\0\0\0\0")]


def test_the_text_of_an_unknown_method_may_be_long_too() -> None:
    assert read(b"AM2m\0\0\0\x01\0\0\0\x02\0\x02no") == [MethodResponse(1, 2, "no")]


def test_other_status_texts_are_never_short() -> None:
    with pytest.raises(ProtocolError, match="offset 14: expected 3343 octets of a status text"):
        read(b"AM2m\0\0\0\x0f\0\0\0\x03\x0d\x0fUnknownMethod")


def test_an_unknown_opcode_is_eight_octets() -> None:
    assert read(b"AM2?\0\0\0\x01AM2B\0\0\0\x02") == [UnknownOpcode(1, ord("?")), BrokerRequest(2)]


@pytest.mark.parametrize("opcode", [b"c", b"i", b"g"])
def test_content_of_a_class_not_known_ends_the_body(opcode: bytes) -> None:
    times = bytes(7) + b"\x01" + bytes(7) + b"\x02" + bytes(7) + b"\x03"
    octets = b"AM2B\0\0\0\x01AM2" + opcode + b"\0\0\0\0" + TANK_KEY + times + ID_OCTETS + b"whatever"
    unknown = UnknownClass(0, ord(opcode), TANK.key, deleted=3)
    assert read(octets, Definitions()) == [BrokerRequest(1), unknown]


def test_content_of_a_class_not_known_needs_times_and_object_id_all_the_same() -> None:
    with pytest.raises(ProtocolError, match="at offset 34: expected times and object id"):
        read(b"AM2c\0\0\0\0" + TANK_KEY + bytes(39), Definitions())


def test_a_message_is_made_of_its_fields_and_of_nothing_else() -> None:
    octets = next(octets for octets, message in EXAMPLES if isinstance(message, StatisticContent))
    (before,) = read(octets)
    assert isinstance(before, StatisticContent)
    assert write(replace(before, statistics=(50.0, 10)), shop()) == octets[:-1] + b"\x0a"
    with pytest.raises(FrozenInstanceError):
        before.sequence = 1  # type: ignore[misc]  # the attempt is the test


def test_an_event_of_a_class_not_known_ends_the_body() -> None:
    octets = b"AM2B\0\0\0\x01AM2e\0\0\0\0" + TANK_KEY + b"whatever"
    assert read(octets, Definitions()) == [BrokerRequest(1), UnknownClass(0, ord("e"), TANK.key)]


def test_an_event_may_carry_more_than_its_schema_explains() -> None:
    octets = next(octets for octets, message in EXAMPLES if isinstance(message, EventIndication))
    assert len(read(octets + b"\x04kid0")) == 1
    assert [type(one) for one in read(octets + octets)] == [EventIndication, EventIndication]


@pytest.mark.parametrize(
    ("octets", "expected"),
    [
        (b"", "at offset 0: expected a record header, found 0 octets"),
        (b"AM2", "at offset 0: expected a record header, found 3 octets"),
        (b"AM1B\0\0\0\0", "at offset 0: expected the header AM2"),
        (b"AM2B\0\0\0\0trailing", "at offset 8: expected the header AM2"),
        (b"AM2b\0\0\0\0short", "at offset 8: expected 16 octets of a broker's UUID, found 5"),
        (b"AM2q\0\0\0\0\x03" + TANK_KEY, "at offset 8: expected a kind of class, 1 or 2, found 3"),
        (b"AM2q\0\0\0\0\x01\x01\xff", "at offset 9: expected a package name in UTF-8"),
        (b"AM2c\0\0\0\0", "at offset 8: expected a class key"),
        (b"AM2c\0\0\0\0\x04shop\x04tank", "at offset 8: expected a class key"),
        (b"AM2c\0\0\0\0" + TANK_KEY, "at offset 34: expected times and object id"),
        (b"AM2c\0\0\0\0" + TANK_KEY + bytes(40), "at offset 74: expected 1 octets of presence mask"),
        (b"AM2i\0\0\0\0" + TANK_KEY + bytes(40) + b"123", "expected 2 values"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(octets: bytes, expected: str) -> None:
    with pytest.raises(ProtocolError, match=expected):
        read(octets)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 4096])
def test_zeros_behind_the_last_record_are_nothing(count: int) -> None:
    assert read(b"AM2B\0\0\0\x01" + bytes(count)) == [BrokerRequest(1)]
    with pytest.raises(ProtocolError):
        read(b"AM2B\0\0\0\x01" + bytes(count) + b"x")
    with pytest.raises(ProtocolError):
        read(bytes(count))


def test_what_came_before_an_error_is_reported() -> None:
    records = read_body(b"AM2B\0\0\0\x01AM2b", shop())
    assert next(records) == BrokerRequest(1)
    with pytest.raises(ProtocolError):
        next(records)


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_record_that_is_cut_off_behind_content_is_an_error_behind_it(cut: int) -> None:
    octets = next(octets for octets, message in EXAMPLES if isinstance(message, StatisticContent))
    records = read_body(octets + octets[:cut], shop())
    assert isinstance(next(records), StatisticContent)
    with pytest.raises(ProtocolError, match=f"at offset {len(octets)}: expected a record header"):
        next(records)


def test_a_body_has_a_limit() -> None:
    with pytest.raises(ProtocolError, match=f"at most {MAX_BODY} octets"):
        read(bytes(MAX_BODY + 1))


@pytest.mark.parametrize(
    "message",
    [
        BrokerRequest(1 << 32),
        PackageIndication(0, "x" * 256),
        PackageIndication(0, "\ud800"),
        SchemaRequest(0, ClassKey("shop", "tank", b"short")),
        PropertyContent(0, ClassKey("shop", "pond"), 1, 1, 0, OBJECT_ID, ()),
        PropertyContent(0, TANK.key, 1, 1, 0, OBJECT_ID, ("t1", 100)),
        PropertyContent(0, TANK.key, 1, 1, 0, OBJECT_ID, ("t1", None, None, None)),
        PropertyContent(0, TANK.key, -1, 1, 0, OBJECT_ID, ("t1", 1, None, None)),
        StatisticContent(0, TANK.key, 1, 1, 0, OBJECT_ID, None, (50.0,)),
        StatisticContent(0, TANK.key, 1, 1, 0, OBJECT_ID, None, (50.0, 1 << 32)),
        EventIndication(0, ClassKey("shop", "flood"), 1, 4, ()),
        EventIndication(0, LEAK.key, 1, 256, ("t1", 5)),
        EventIndication(0, LEAK.key, 1, 4, (5, "t1")),
    ],
)
def test_what_cannot_travel_is_refused_here(message: Message) -> None:
    with pytest.raises(LocalProtocolError):
        write(message, shop())


def test_a_class_without_a_hash_travels_with_zeros() -> None:
    assert write(SchemaRequest(1, ClassKey("p", "c"))) == b"AM2S\0\0\0\x01\x01p\x01c" + bytes(16)


def test_a_definition_replaces_the_one_of_the_same_key_and_there_is_a_limit() -> None:
    known = Definitions(limit=1)
    tank = ClassDefinition.of(TANK)
    assert known.add(tank)
    assert known.add(ClassDefinition.of(TANK))
    assert len(known) == 1
    assert tank.key in known
    pond = ClassDefinition(TANK.__class__(ClassKey("shop", "pond", b"P" * 16)), (), ())
    assert not known.add(pond)
    assert known.find_class(pond.key) is None


def test_outputs_of_a_call_are_the_arguments_that_come_back() -> None:
    tank = ClassDefinition.of(TANK)
    assert tank.outputs["drain"].read(HALF + b"\x02ab", 0) == ([50.0, "ab"], 11)
    assert ObjectId.from_octets(ID_OCTETS) == OBJECT_ID
