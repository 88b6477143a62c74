"""All recorded messages of real peers are read, and written to the same octets where that is defined."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

import pytest

from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.definitions import EventDefinition
from gateway.dialects.qmf.messages import (
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    EventIndication,
    GetQuery,
    Heartbeat,
    Message,
    MethodRequest,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PropertyContent,
    Received,
    SchemaResponse,
    StatisticContent,
    UnknownClass,
    UnknownOpcode,
)
from gateway.dialects.qmf.schema_records import OURS, RecordForm
from gateway.dialects.qmf.schema_records import QPIDD as QPIDDS
from gateway.model.schema import Access, ClassKey, Direction
from gateway.model.values import ValueType
from tests.dialects.qmf.recordings import PEERS, Recorded, definitions, readable, recorded

NOT_READABLE = {
    "am2-0378": "an empty body",
    "am2-0963": "the broker serves a schema that it padded with zeros",
}
QPIDD = "qpidd-0.34"
Kind = TypeVar("Kind", bound=Message)
BROKER_PACKAGE = "org.apache.qpid.broker"


def _message(peer: str, identifier: str) -> Recorded:
    return next(message for message in recorded(peer) if message.id == identifier)


def _records(peer: str, identifier: str) -> list[Received]:
    return list(read_body(_message(peer, identifier).body, definitions(peer)))


def _all(peer: str, kind: type[Kind]) -> list[Kind]:
    known = definitions(peer)
    return [
        one
        for message in recorded(peer)
        if not message.broken
        for one in readable(message.body, known)
        if isinstance(one, kind)
    ]


@pytest.mark.parametrize("peer", PEERS)
def test_each_body_holds_the_records_that_were_counted_in_it(peer: str) -> None:
    known = definitions(peer)
    for message in recorded(peer):
        if message.broken or message.id in NOT_READABLE:
            continue
        found = list(read_body(message.body, known))
        assert not [one for one in found if isinstance(one, UnknownClass | UnknownOpcode)], message.id
        opcodes = Counter(
            one.opcode.decode() for one in found if not isinstance(one, UnknownClass | UnknownOpcode)
        )
        assert opcodes == message.records, message.id


@pytest.mark.parametrize("peer", PEERS)
def test_what_was_read_is_written_to_octets_that_read_the_same(peer: str) -> None:
    known = definitions(peer)
    for message in recorded(peer):
        for one in readable(message.body, known):
            if isinstance(one, UnknownClass | UnknownOpcode):
                continue
            again = list(read_body(write(one, known), known))
            assert again == [one], message.id


@pytest.mark.parametrize(
    ("peer", "kinds"),
    [(QPIDD, "BbzPpQqSheimMAax"), ("console-and-agent-0.6", "BbzPpQqSheimMAaxG"), ("java-0.8", "BbzPpQqSim")],
)
def test_records_without_typed_values_are_written_to_the_same_octets(peer: str, kinds: str) -> None:
    # Maps are left out: peers choose among several codes for the same value, and among orders of keys.
    known = definitions(peer)
    compared = 0
    for message in recorded(peer):
        found = list(readable(message.body, known))
        if message.broken or not set(message.records) <= set(kinds) or not found:
            continue
        octets = b"".join(
            write(one, known) for one in found if not isinstance(one, UnknownClass | UnknownOpcode)
        )
        if any(
            isinstance(value, dict)
            for one in found
            if isinstance(one, EventIndication)
            for value in one.arguments
        ):
            continue
        assert octets == message.body, message.id
        compared += 1
    assert compared > 100


@pytest.mark.parametrize(
    ("peer", "form", "count"),
    [
        (QPIDD, QPIDDS, 45),
        ("console-and-agent-0.6", QPIDDS, 45),
        ("console-and-agent-0.6", OURS, 6),
        (QPIDD, RecordForm(0x95, QPIDDS.narrow), 2),
    ],
)
def test_schemas_are_written_to_the_same_octets_in_their_peer_s_form(
    peer: str, form: RecordForm, count: int
) -> None:
    known = definitions(peer)
    same = 0
    for message in recorded(peer):
        found = list(readable(message.body, known))
        if not message.broken and len(found) == 1 and isinstance(found[0], SchemaResponse):
            same += write(found[0], known, form) == message.body
    assert same >= count


def test_the_first_event_of_the_recording() -> None:
    assert _records(QPIDD, "am2-0001") == [
        EventIndication(
            sequence=0,
            key=ClassKey(BROKER_PACKAGE, "bind", bytes.fromhex("042af49feea75cd10ac110b0e0573cab")),
            time=0x18E9AE621C896E9E,
            severity=6,
            arguments=(
                "qpid.127.0.0.1:5690-127.0.0.1:56644",
                "guest@QPID",
                "qpid.management",
                "topic-consoleA.13393e8d-3c93-4972-bc3b-80063b770b6e",
                "console.#",
                {},
            ),
        )
    ]


def test_the_queue_class_of_qpidd() -> None:
    key = ClassKey(BROKER_PACKAGE, "queue", bytes.fromhex("84ce326e2cbd689980d76267d3327e0f"))
    queue = definitions(QPIDD).find_class(key)
    assert queue is not None
    reported = [(p.name, p.type, p.access, p.index, p.optional) for p in queue.schema.properties]
    assert reported == [
        ("vhostRef", ValueType.REFERENCE, Access.READ_CREATE, True, False),
        ("name", ValueType.STRING, Access.READ_CREATE, True, False),
        ("durable", ValueType.BOOL, Access.READ_CREATE, False, False),
        ("autoDelete", ValueType.BOOL, Access.READ_CREATE, False, False),
        ("exclusive", ValueType.BOOL, Access.READ_ONLY, False, False),
        ("arguments", ValueType.MAP, Access.READ_ONLY, False, False),
        ("altExchange", ValueType.REFERENCE, Access.READ_ONLY, False, True),
    ]
    assert [(s.name, s.unit) for s in queue.schema.statistics[:2]] == [
        ("msgTotalEnqueues", "message"),
        ("msgTotalDequeues", "message"),
    ]
    assert [method.name for method in queue.schema.methods] == ["purge", "reroute"]
    assert [argument.direction for argument in queue.schema.methods[0].arguments] == [Direction.IN] * 2


def test_all_612_queues_of_one_get_query_arrive() -> None:
    by_sequence = Counter(one.sequence for one in _all(QPIDD, ObjectContent) if one.key.name == "queue")
    assert max(by_sequence.values()) == 612


def test_agents_of_0_6_describe_events_with_an_octet_more_and_are_understood() -> None:
    child = next(
        one
        for message in recorded("console-and-agent-0.6")
        for one in readable(message.body, definitions("console-and-agent-0.6"))
        if isinstance(one, SchemaResponse) and one.definition.key.name == "ChildCreated"
    )
    assert isinstance(child.definition, EventDefinition)
    assert [argument.name for argument in child.definition.schema.arguments] == ["childName"]


def test_what_a_java_broker_leaves_out() -> None:
    classes = _all("java-0.8", ClassIndication)
    assert {one.key.hash for one in classes} == {bytes(16)}
    assert {one.text for one in _all("java-0.8", CommandComplete)} == {""}


def test_an_unknown_method_is_answered_with_a_short_text() -> None:
    assert _records(QPIDD, "am2-0655") == [MethodResponse(0xDD, 2, "UnknownMethod")]


def test_kinds_of_messages_that_each_recording_has() -> None:
    kinds = {type(one) for message in recorded(QPIDD) for one in readable(message.body, definitions(QPIDD))}
    assert {
        BrokerResponse,
        ClassIndication,
        CommandComplete,
        EventIndication,
        GetQuery,
        Heartbeat,
        MethodRequest,
        MethodResponse,
        ObjectContent,
        PackageIndication,
        PropertyContent,
        SchemaResponse,
        StatisticContent,
    } <= kinds
    assert {one.kind for one in _all(QPIDD, ClassIndication)} == {ClassKind.OBJECT, ClassKind.EVENT}


def test_the_object_that_qpidd_numbers_before_it_knows_its_sequence() -> None:
    memory = next(one for one in _all(QPIDD, PropertyContent) if one.key.name == "memory")
    assert str(memory.object_id) == "0-1-1-0-0"
