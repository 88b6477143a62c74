"""Schemas: those that peers send, those that we send, and the hash."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.elements import TypeCode
from gateway.dialects.qmf.fields import Cursor
from gateway.dialects.qmf.schema_records import (
    described_class,
    described_event,
    read_class,
    read_event,
    write_class,
    write_event,
)
from gateway.dialects.qmf.typed_values import QmfValue, write_map
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    EventSchema,
    Method,
)
from gateway.model.values import ValueType
from tests.dialects.qmf.examples import LEAK, TANK

KEY = ClassKey("shop", "tank", b"T" * 16)


def _counts(properties: int = 0, statistics: int = 0, methods: int = 0) -> bytes:
    return b"".join(count.to_bytes(2, "big") for count in (properties, statistics, methods))


def _class(*records: dict[str, QmfValue], **counts: int) -> ClassSchema:
    return read_class(Cursor(_counts(**counts) + b"".join(map(write_map, records))), KEY).schema


def test_a_class_by_hand() -> None:
    # as qpidd writes it: u8 for type and access, i32 for the rest, vbin16 for text, keys in order
    name = (
        b"\0\0\0\x3c\0\0\0\x06"
        b"\x06access\x02\x01"
        b"\x05index\x21\0\0\0\x01"
        b"\x04name\x90\0\x04name"
        b"\x08optional\x21\0\0\0\0"
        b"\x04type\x02\x06"
        b"\x04unit\x90\0\x01x"
    )
    name = (len(name) - 4).to_bytes(4, "big") + name[4:]
    found = read_class(Cursor(_counts(properties=1) + name), KEY)
    element = Element(
        "name", ValueType.STRING, access=Access.READ_CREATE, index=True, unit="x", max_length=255
    )
    assert found == ClassDefinition(ClassSchema(KEY, (element,)), (TypeCode.STR8,), ())


def test_a_class_with_everything_survives() -> None:
    tank = ClassDefinition.of(TANK)
    assert read_class(Cursor(write_class(tank)), TANK.key).schema == _limits_of_types(TANK)


def _limits_of_types(schema: ClassSchema) -> ClassSchema:
    """Return the schema with the wire's limit, 65535, for string arguments of methods without a limit."""
    methods = tuple(
        replace(
            method,
            arguments=tuple(
                replace(one, max_length=one.max_length or 65535) if one.type is ValueType.STRING else one
                for one in method.arguments
            ),
        )
        for method in schema.methods
    )
    return replace(schema, methods=methods)


def test_an_event_with_everything_survives() -> None:
    leak = EventDefinition.of(LEAK)
    assert read_event(Cursor(write_event(leak)), LEAK.key) == leak


def test_an_event_behind_an_extra_octet_as_agents_of_0_6_send_it() -> None:
    octets = write_event(EventDefinition.of(LEAK))
    assert [one.name for one in read_event(Cursor(b"\0" + octets), LEAK.key).schema.arguments] == [
        "tank",
        "rate",
    ]


def test_an_element_or_argument_without_a_name_is_read() -> None:
    """The bytes of its values stand between those of others."""
    argument: dict[str, QmfValue] = {"type": 3, "dir": "I"}
    schema = _class({"type": 3}, {"name": "x", "type": 3}, {"argCount": 1}, argument, properties=2, methods=1)
    assert [one.name for one in schema.properties] == ["", "x"]
    assert [(one.name, one.arguments[0].name) for one in schema.methods] == [("", "")]


def test_an_event_without_arguments_may_be_followed_by_another_record() -> None:
    cursor = Cursor(b"\0\0AM2B\0\0\0\0")
    assert read_event(cursor, LEAK.key).schema.arguments == ()
    assert cursor.rest() == b"AM2B\0\0\0\0"


def test_java_s_name_for_the_class_that_a_reference_leads_to() -> None:
    schema = _class({"name": "owner", "type": 10, "refClass": "person"}, properties=1)
    assert schema.properties[0].references == "person"


@pytest.mark.parametrize(
    ("reported", "direction"),
    [
        ("I", Direction.IN),
        ("O", Direction.OUT),
        ("IO", Direction.INOUT),
        (2, Direction.OUT),
        ({}, Direction.IN),
    ],
)
def test_directions_as_text_and_as_the_numbers_of_the_specification(
    reported: QmfValue, direction: Direction
) -> None:
    argument: dict[str, QmfValue] = {"name": "a", "type": 3, "dir": reported}
    schema = _class({"name": "run", "argCount": 1}, argument, methods=1)
    assert schema.methods[0].arguments[0].direction is direction


def test_what_does_not_make_sense_in_a_record_is_left_out() -> None:
    reported: dict[str, QmfValue] = {
        "name": "x",
        "type": 3,
        "min": "low",
        "max": True,
        "maxlen": -1,
        "unit": 7,
        "access": 99,
        "references": 5,
    }
    assert _class(reported, properties=1).properties == (Element("x", ValueType.U32),)


def test_what_is_no_number_where_one_belongs_is_none() -> None:
    reported: dict[str, QmfValue] = {"name": "x", "type": 3, "access": {}, "index": "yes", "optional": (1,)}
    assert _class(reported, properties=1).properties == (Element("x", ValueType.U32),)
    assert _class({"name": "run", "argCount": "2"}, methods=1).methods == (Method("run"),)


def test_statistics_are_read_only_and_never_optional() -> None:
    schema = _class({"name": "x", "type": 3, "access": 2, "optional": 1}, statistics=1)
    assert schema.statistics == (Element("x", ValueType.U32),)


@pytest.mark.parametrize(
    "record",
    [
        {"name": "x"},
        {"name": "x", "type": 5},
        {"name": "x", "type": "3"},
    ],
)
def test_a_record_needs_a_type_that_exists(record: dict[str, QmfValue]) -> None:
    with pytest.raises(ProtocolError, match="offset 6"):
        _class(record, properties=1)


def test_a_method_has_no_fewer_than_no_arguments() -> None:
    with pytest.raises(ProtocolError, match="a count of arguments"):
        _class({"name": "run", "argCount": -1}, methods=1)


def test_counts_that_promise_too_much() -> None:
    with pytest.raises(ProtocolError):
        _class({"name": "x", "type": 3}, properties=65535)


@given(st.binary(max_size=100))
def test_any_octets_give_a_class_or_the_protocol_error(octets: bytes) -> None:
    for read in (read_class, read_event):
        try:
            read(Cursor(octets), KEY)
        except ProtocolError:
            continue


_NAMES = st.text(min_size=1, max_size=20)
_ELEMENTS = st.builds(
    Element,
    _NAMES,
    st.sampled_from([ValueType.U8, ValueType.F64, ValueType.STRING, ValueType.MAP, ValueType.REFERENCE]),
    access=st.sampled_from(Access),
    index=st.booleans(),
    optional=st.booleans(),
    unit=st.text(max_size=5),
    minimum=st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False),
    maximum=st.none() | st.integers(0, 2**64 - 1),
    description=st.text(max_size=20),
    references=st.text(max_size=10),
)
_ARGUMENTS = st.builds(
    Argument,
    _NAMES,
    st.sampled_from([ValueType.U8, ValueType.BOOL, ValueType.LIST]),
    direction=st.sampled_from(Direction),
    default=st.none() | st.booleans() | st.integers(0, 255) | st.floats(allow_nan=False),
)


@given(
    st.lists(_ELEMENTS, max_size=3).map(tuple),
    st.lists(st.builds(Element, _NAMES, st.just(ValueType.U64)), max_size=3).map(tuple),
    st.lists(st.builds(Method, _NAMES, st.lists(_ARGUMENTS, max_size=2).map(tuple)), max_size=2).map(tuple),
)
def test_classes_survive(
    properties: tuple[Element, ...], statistics: tuple[Element, ...], methods: tuple[Method, ...]
) -> None:
    first = ClassDefinition.of(ClassSchema(KEY, properties, statistics, methods))
    second = read_class(Cursor(write_class(first)), KEY)
    assert read_class(Cursor(write_class(second)), KEY) == second
    assert [
        (p.name, p.access, p.index, p.optional, p.minimum, p.maximum) for p in second.schema.properties
    ] == [(p.name, p.access, p.index, p.optional, p.minimum, p.maximum) for p in properties]
    assert second.schema.statistics == statistics
    assert second.schema.methods == methods


def test_the_hash_is_pinned() -> None:
    # Published: another hash for the same class is another class to every console.
    assert described_class(TANK).key.hash.hex() == "0552c9d7c8c1b5adee2ddd85575b60fb"
    assert described_event(LEAK).key.hash.hex() == "00b8cd7ab73f2a89b4d280d3f0b68b50"


def test_the_hash_does_not_depend_on_the_one_given() -> None:
    other = replace(TANK, key=replace(TANK.key, hash=b""))
    assert described_class(other) == described_class(TANK)


@pytest.mark.parametrize(
    "changed",
    [
        replace(TANK, key=ClassKey("shop", "pond")),
        replace(TANK, key=ClassKey("barn", "tank")),
        replace(TANK, statistics=TANK.statistics[:1]),
        replace(TANK, properties=TANK.properties[::-1]),
        replace(TANK, methods=()),
    ],
)
def test_another_class_has_another_hash(changed: ClassSchema) -> None:
    assert described_class(changed).key.hash != described_class(TANK).key.hash


def test_classes_that_cannot_travel_are_refused() -> None:
    octets = Element("picture", ValueType.BYTES)
    with pytest.raises(LocalProtocolError, match="no type for bytes"):
        described_class(ClassSchema(KEY, (octets,)))
    with pytest.raises(LocalProtocolError, match="no type for bytes"):
        described_event(EventSchema(KEY, (Argument("picture", ValueType.BYTES),)))
