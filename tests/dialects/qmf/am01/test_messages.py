"""Each opcode of each revision by example: octets put together by hand, and their message."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.am01.codec import MAX_BODY, read, write
from gateway.dialects.qmf.am01.messages import (
    ALL,
    AgentHello,
    Message,
    MethodRequest,
    Received,
    Revision,
)
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    ClassIndication,
    ClassKind,
    Heartbeat,
    MethodResponse,
    PackageQuery,
    PropertyContent,
    UnknownClass,
    UnknownOpcode,
)
from gateway.model.schema import ClassKey
from tests.dialects.qmf.am01.examples import (
    KEY,
    KEY_OCTETS,
    OBJECT_ID,
    PROPERTY_OCTETS,
    TIMES_AND_ID,
    leak,
    tank,
)
from tests.dialects.qmf.am01.opcode_examples import (
    AM1_KEY,
    ARGUMENTS,
    CALL,
    EVENT,
    EVENT_OCTETS,
    EXAMPLES,
    FEBRUARY,
    ID,
    JANUARY,
    MARCH,
    NAME,
    NOTES,
    NOVEMBER,
    SHOP,
    described,
    properties,
    statistics,
)


def _message(key: str, body: bytes, known: Definitions = SHOP) -> Received:
    return read(key, body, known).message


@pytest.mark.parametrize(("revisions", "key", "octets", "message"), EXAMPLES)
def test_octets_what_they_say_and_who_says_so(
    revisions: set[Revision], key: str, octets: bytes, message: Message
) -> None:
    found = read(key, octets, SHOP)
    assert found.message == message
    assert found.revisions == revisions
    for revision in revisions:
        assert read(key, octets, SHOP, frozenset((revision,))).message == message
        assert write(message, revision, SHOP) == octets


@pytest.mark.parametrize(("revisions", "key", "octets", "message"), EXAMPLES)
def test_an_agent_of_another_generation_is_not_read_like_that(
    revisions: set[Revision], key: str, octets: bytes, message: Message
) -> None:
    try:
        found = read(key, octets, SHOP, ALL - revisions).message
    except ProtocolError:
        return
    assert found != message or isinstance(message, MethodResponse)


def test_a_message_is_made_of_its_fields_and_of_nothing_else() -> None:
    octets = b"AM01CC" + NAME + TIMES_AND_ID + PROPERTY_OCTETS
    before = read("mgmt.config.tank", octets, SHOP).message
    assert isinstance(before, PropertyContent)
    after = replace(before, properties=("t2", ObjectId(0, 9), 100))
    assert write(after, JANUARY, SHOP) == octets.replace(b"\x02t1", b"\x02t2")


def test_content_is_distinguished_by_its_end_where_no_key_reports_its_class() -> None:
    named = b"AM01CC" + NAME + TIMES_AND_ID + PROPERTY_OCTETS
    full = b"AM01CC" + KEY_OCTETS + TIMES_AND_ID + PROPERTY_OCTETS
    assert read("", named, SHOP).revisions == {NOVEMBER, JANUARY}
    assert read("", full, SHOP).revisions == {NOTES, FEBRUARY}


def test_a_call_that_begins_with_the_octets_of_a_header_by_chance() -> None:
    # sequence 0x414d3031, object id "M\0" and six octets more, and the reply queue
    octets = b"AM01" + b"M\0\0\0\0\0\0\x01" + b"\x03rq1"
    assert read("method.shop.tank.drain", octets, SHOP, frozenset((NOVEMBER,))).message == MethodRequest(
        0x414D3031, ObjectId(0, 0x4D00000000000001), CALL, "drain", b"", "rq1"
    )


@pytest.mark.parametrize(
    ("key", "call", "method"),
    [
        ("method.shop.tank.drain.all", CALL, "drain.all"),
        ("method.shop.tank", CALL, ""),
        ("method.shop.tank.", CALL, ""),
        ("method.shop", ClassKey("shop", ""), ""),
        ("method.", ClassKey("", ""), ""),
        ("reply", ClassKey("", ""), ""),
    ],
)
def test_a_key_that_does_not_report_all_of_a_call(key: str, call: ClassKey, method: str) -> None:
    assert _message(key, b"AM01M\0\0\0\0\x07" + ID) == MethodRequest(7, OBJECT_ID, call, method)


@pytest.mark.parametrize(
    ("key", "octets", "unknown"),
    [
        (
            "mgmt.config.pond",
            b"AM01CC\x04pond" + TIMES_AND_ID + b"what",
            UnknownClass(0, ord("c"), ClassKey("", "pond")),
        ),
        (
            "mgmt.inst.pond",
            b"AM01CI\x04shop\x04pond" + b"P" * 16 + TIMES_AND_ID + b"what",
            UnknownClass(0, ord("i"), ClassKey("shop", "pond", b"P" * 16)),
        ),
        (
            AM1_KEY + "config.pond",
            b"AM1c\0\0\0\0\x04shop\x04pond" + b"P" * 16 + TIMES_AND_ID,
            UnknownClass(0, ord("c"), ClassKey("shop", "pond", b"P" * 16)),
        ),
        (
            "reply",
            b"AM1g\0\0\0\x05\x04shop\x04pond" + b"P" * 16 + TIMES_AND_ID,
            UnknownClass(5, ord("g"), ClassKey("shop", "pond", b"P" * 16)),
        ),
        ("agent", b"AM01?\0", UnknownOpcode(0, ord("?"))),
        ("agent", b"AM01P\x01", UnknownOpcode(0, ord("P"))),
        ("agent", b"AM1?\0\0\0\x05 and more", UnknownOpcode(5, ord("?"))),
    ],
)
def test_what_is_not_known(key: str, octets: bytes, unknown: Received) -> None:
    assert _message(key, octets) == unknown


def test_deleted_objects_of_a_class_not_known() -> None:
    octets = b"AM01CC\x04pond" + bytes(16) + bytes(7) + b"\x09" + ID
    assert _message("mgmt.config.pond", octets) == UnknownClass(0, ord("c"), ClassKey("", "pond"), deleted=9)


@pytest.mark.parametrize(
    ("key", "octets", "expected"),
    [
        ("agent", b"", "a record of AM01 or AM1"),
        ("agent", b"AM01", "a record of AM01 or AM1"),
        ("agent", b"AM2P\0\0\0\1", "a record of AM01 or AM1"),
        ("method.shop.tank.drain", b"AM99M" + bytes(21), "a record of AM01 or AM1"),
        ("reply", b"\0\0\0\x07\0\0\0\x04\x02no", "a record of AM01 or AM1"),
        ("method.shop.tank.drain", b"AM1M\0\0\0\x07" + ID, "a record of AM01 or AM1"),
        ("agent", b"AM01P\0x", "at offset 6: expected the end of the body, found 1 more octets"),
        ("agent", b"AM01Q\0\x04sho", "at offset 7: expected 4 octets of a package name, found 3"),
        (
            "mgmt.config.pond",
            b"AM01CC" + NAME + TIMES_AND_ID + PROPERTY_OCTETS,
            "the class of the routing key",
        ),
        ("mgmt.config.tank", b"AM01CC" + NAME + TIMES_AND_ID[:16], "times and object id"),
        ("mgmt.config.tank", b"AM01CC" + NAME + TIMES_AND_ID + b"\xffmuch", "a string of 255 octets"),
        ("mgmt.inst.tank", b"AM01CI" + NAME + TIMES_AND_ID + b"\0", "3 values"),
        ("mgmt.config.pond", b"AM01CC\x04pond" + TIMES_AND_ID[:16], "8 octets of a time of deletion"),
        ("mgmt.config.tank", b"AM01CC" + NAME + TIMES_AND_ID + b"\x02t1\0", "3 values"),
        ("agent", b"AM1G\0\0\0\x05\0\0\0\x11\x06_class\xa4\0\0\0\x04tank", "a table of 17 octets, found 16"),
        ("agent", b"AM1G\0\0\0\x05\0\0\0\x0f\x06_class\xa4\0\0\0\x04tank", "4 octets of a value, found 3"),
    ],
)
def test_what_is_wrong(key: str, octets: bytes, expected: str) -> None:
    with pytest.raises(ProtocolError, match=expected):
        _message(key, octets)


def test_a_body_has_a_limit() -> None:
    with pytest.raises(ProtocolError, match=f"at most {MAX_BODY} octets"):
        _message("agent", bytes(MAX_BODY + 1))


@pytest.mark.parametrize(("word", "severity"), [("critical", 2), ("error", 3), ("warning", 4), ("info", 6)])
def test_events_whose_layout_is_ours(word: str, severity: int) -> None:
    found = read(f"mgmt.event.shop.tank.{word}", EVENT_OCTETS, SHOP, extended=True)
    assert found.message == replace(EVENT, severity=severity)
    assert found.revisions == {NOTES}
    assert write(EVENT, NOTES, SHOP, extended=True) == EVENT_OCTETS


def test_an_event_whose_key_has_no_severity_is_informational() -> None:
    found = read("mgmt.event.shop.tank", EVENT_OCTETS, SHOP, extended=True)
    assert found.message == replace(EVENT, severity=6)


def test_an_event_of_a_class_not_known() -> None:
    key = "mgmt.event.shop.tank.info"
    found = read(key, EVENT_OCTETS, Definitions(), extended=True)
    assert found.message == UnknownClass(0, ord("e"), leak().key)
    with pytest.raises(ProtocolError, match="the class of the routing key"):
        read("mgmt.event.shop.pond.info", EVENT_OCTETS, Definitions(), extended=True)


def test_events_are_exchanged_only_with_peers_configured_for_ours() -> None:
    assert _message("mgmt.event.shop.tank.info", EVENT_OCTETS) == UnknownOpcode(0, ord("E"))
    with pytest.raises(LocalProtocolError, match="not configured"):
        write(EVENT, NOTES, SHOP)


@pytest.mark.parametrize(
    ("message", "revision", "expected"),
    [
        (PackageQuery(0), JANUARY, "2008-01 has no PackageQuery"),
        (BrokerRequest(0), FEBRUARY, "2008-02 has no BrokerRequest"),
        (AgentHello(), MARCH, "2008-03 has no AgentHello"),
        (PackageQuery(1), FEBRUARY, "no sequence"),
        (MethodRequest(1, OBJECT_ID, CALL, "drain"), NOVEMBER, "needs a reply queue"),
        (MethodRequest(1, OBJECT_ID, CALL, "drain", b"", "rq1"), JANUARY, "only requests of November"),
        (MethodRequest(1, ObjectId(1, 1), CALL, "drain"), JANUARY, "does not fit 64 bits"),
        (MethodRequest(1 << 32, OBJECT_ID, CALL, "drain"), MARCH, "does not fit"),
        (ClassIndication(0, ClassKind.EVENT, KEY), FEBRUARY, "events are no classes"),
        (properties(KEY), JANUARY, "neither package nor hash"),
        (properties(ClassKey("shop", "pond")), FEBRUARY, "is not defined"),
        (replace(properties(KEY), properties=("t1", None, 1)), FEBRUARY, "absent and not optional"),
        (replace(statistics(KEY), statistics=(1,)), FEBRUARY, "1 values for 3 elements"),
        (replace(statistics(KEY), statistics=None), FEBRUARY, "0 values for 3 elements"),
    ],
)
def test_what_a_revision_cannot_say(message: Message, revision: Revision, expected: str) -> None:
    with pytest.raises(LocalProtocolError, match=expected):
        write(message, revision, SHOP)


def test_an_event_that_is_not_defined_is_refused_here() -> None:
    with pytest.raises(LocalProtocolError, match="is not defined"):
        write(replace(EVENT, key=ClassKey("shop", "tank.flood")), NOTES, SHOP, extended=True)
    with pytest.raises(LocalProtocolError, match="has no EventIndication"):
        write(EVENT, MARCH, SHOP, extended=True)


def test_absent_statistics_travel_as_zeros() -> None:
    message = replace(statistics(KEY), statistics=(None, None, None))
    assert write(message, FEBRUARY, SHOP)[-16:] == bytes(16)


def test_arguments_of_calls_are_read_and_written_by_the_class() -> None:
    definition = ClassDefinition.of(tank(), described(KEY).definition.forms)
    assert definition.inputs["drain"].read(ARGUMENTS, 0) == ([3, "ab"], len(ARGUMENTS))
    assert definition.outputs["drain"].write((3, 1.5)) == b"\0\0\0\x03\x3f\xf8\0\0\0\0\0\0"


def test_nothing_else_of_am2_can_be_said() -> None:
    with pytest.raises(LocalProtocolError, match="has no Heartbeat"):
        write(Heartbeat(0, 1), MARCH, SHOP)  # type: ignore[arg-type]  # what a careless caller does
