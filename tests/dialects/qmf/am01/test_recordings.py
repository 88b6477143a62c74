"""All recorded messages of agents of 2008 and their console are read, and written to the same octets."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.am01.codec import read, write
from gateway.dialects.qmf.am01.messages import ClassDescription, MethodRequest, Received, Revision
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    CommandComplete,
    MethodResponse,
    ObjectContent,
    PropertyContent,
    UnknownClass,
    UnknownOpcode,
)
from gateway.model.schema import Access, ClassKey, Direction
from gateway.model.values import ValueType
from tests.dialects.qmf.am01.recordings import FILES, definitions, message, recorded


def _read(identifier: str) -> Received:
    one = message(identifier)
    return read(one.key, one.body, definitions()).message


@pytest.mark.parametrize("file", FILES)
def test_each_message_is_read_as_its_revision_has_it_and_written_to_the_same_octets(file: str) -> None:
    known = definitions()
    for one in recorded(file):
        if one.broken:
            continue
        found = read(one.key, one.body, known)
        assert one.revision in found.revisions, one.id
        if isinstance(found.message, UnknownOpcode):
            assert one.body[:5] in {b"AM01?", b"AM1?\0"}, one.id
            continue
        assert not isinstance(found.message, UnknownClass), one.id
        for revision in found.revisions:
            assert write(found.message, revision, known) == one.body, one.id


@pytest.mark.parametrize("file", FILES)
def test_what_was_no_message_is_none(file: str) -> None:
    broken = [one for one in recorded(file) if one.broken]
    assert broken
    for one in broken:
        with pytest.raises(ProtocolError):
            read(one.key, one.body, definitions())


@pytest.mark.parametrize("file", FILES)
def test_content_and_schemas_are_distinguished_without_their_routing_keys(file: str) -> None:
    known = definitions()
    for one in recorded(file):
        if one.body[:5] in {b"AM01C", b"AM01S", b"AM01s"} or one.body[:4] in {b"AM1c", b"AM1i", b"AM1g"}:
            assert one.revision in read("", one.body, known).revisions, one.id


def test_how_many_of_each_there_are() -> None:
    counts = Counter(
        (one.revision, type(read(one.key, one.body, definitions()).message).__name__)
        for file in FILES
        for one in recorded(file)
        if not one.broken
    )
    assert counts[Revision.JANUARY_2008, "ClassDescription"] == 23
    assert counts[Revision.JANUARY_2008, "PropertyContent"] == 266
    assert counts[Revision.FEBRUARY_2008, "StatisticContent"] == 293
    assert counts[Revision.FEBRUARY_2008, "SchemaRequest"] == 13
    assert counts[Revision.MARCH_2008, "ObjectContent"] == 11
    assert sum(counts.values()) == 1_294 + 316 - 11


def test_the_broker_s_class_of_january_2008() -> None:
    found = _read("am01-d1-0003")
    assert isinstance(found, ClassDescription)
    schema = found.definition.schema
    assert schema.key == ClassKey("", "broker")
    reported = [(one.name, one.type, one.access, one.index) for one in schema.properties[:3]]
    assert reported == [
        ("systemRef", ValueType.REFERENCE, Access.READ_CREATE, True),
        ("port", ValueType.U16, Access.READ_CREATE, True),
        ("workerThreads", ValueType.U16, Access.READ_ONLY, False),
    ]
    interval = schema.properties[8]
    assert (interval.name, interval.access, interval.unit, interval.minimum) == (
        "mgmtPubInterval",
        Access.READ_WRITE,
        "second",
        1,
    )
    assert [method.name for method in schema.methods] == ["joinCluster", "leaveCluster", "echo", "connect"]
    echo = schema.methods[2].arguments
    assert [(one.name, one.direction, one.default) for one in echo] == [
        ("sequence", Direction.INOUT, "0"),
        ("body", Direction.INOUT, ""),
    ]
    assert found.events == ()


def test_the_broker_s_object_of_january_2008() -> None:
    found = _read("am01-d1-0004")
    assert isinstance(found, PropertyContent)
    assert found.key == ClassKey("", "broker")
    assert found.object_id == ObjectId(0, 0x18E9AF2307403E7C)
    assert found.deleted == 0
    assert found.properties == (
        ObjectId(0, 0x18E9AF2307403E7B),
        5672,
        5,
        500,
        10,
        5_000_000,
        "",
        False,
        10,
        0,
        0,
        "",
        "0.2",
    )


def test_a_call_and_its_answer_of_january_2008() -> None:
    broker = ObjectId(0, 0x18E9AF2307403E7C)
    arguments = b"\0\0\0\x01\0\0\0\x05hello"
    assert _read("am01-d1-0090") == MethodRequest(2, broker, ClassKey("qpid", "broker"), "echo", arguments)
    assert _read("am01-d1-0091") == MethodResponse(2, 0, "OK", arguments)


def test_the_end_of_a_get_query_of_march_2008() -> None:
    queues = [_read(f"am01-d3-{number}") for number in range(1486, 1490)]
    names = [one.properties[1] for one in queues if isinstance(one, ObjectContent) and one.properties]
    assert names == ["q0", "q1", "q2", "q3"]
    assert _read("am01-d3-1490") == CommandComplete(0x1C)
