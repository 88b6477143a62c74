"""Reading and writing of schemas before AM2."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.am01.forms import AM01, read_table, write_table
from gateway.dialects.qmf.am01.schemas import described_class, event_key, read_schema, write_schema
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.elements import TypeCode
from gateway.dialects.qmf.fields import Cursor, ObjectId
from gateway.dialects.qmf.layout import Layout
from gateway.dialects.qmf.typed_values import QmfValue
from gateway.model.schema import Argument, ClassKey, ClassSchema, Direction, Element, EventSchema, Method
from gateway.model.values import ValueType
from tests.dialects.qmf.am01.examples import COUNTS, KEY, SCHEMA_OCTETS, leak, tank
from tests.dialects.qmf.test_typed_values import values


def test_a_class_by_hand_both_ways() -> None:
    definition, events = ClassDefinition.of(tank(), AM01), (EventDefinition.of(leak(), AM01),)
    cursor = Cursor(SCHEMA_OCTETS)
    assert read_schema(cursor, KEY) == (definition, events)
    assert not cursor.remaining
    assert write_schema(definition, events) == SCHEMA_OCTETS


def test_one_field_changed_is_one_field_changed() -> None:
    definition, events = read_schema(Cursor(SCHEMA_OCTETS), KEY)
    schema = definition.schema
    size = replace(schema.properties[2], unit="gallon")
    changed = ClassDefinition.of(replace(schema, properties=(*schema.properties[:2], size)), AM01)
    again, _ = read_schema(Cursor(write_schema(changed, events)), KEY)
    assert again.schema.properties[2].unit == "gallon"
    assert again.schema.statistics == schema.statistics


def test_limits_and_a_default_are_reported_methods_and_not_of_events() -> None:
    rate = Argument("rate", ValueType.U32, Direction.IN, "l", 1, 9, default="5", description="How quick")
    drain = ClassDefinition.of(ClassSchema(KEY, methods=(Method("drain", (rate,)),)), AM01)
    leaks = EventDefinition.of(EventSchema(event_key(KEY, "leak"), (rate,)), AM01)
    definition, (event,) = read_schema(Cursor(write_schema(drain, [leaks])), KEY)
    assert definition.schema.methods[0].arguments == (rate,)
    plain = Argument("rate", ValueType.U32, unit="l", description="How quick")
    assert event.schema.arguments == (plain,)


@pytest.mark.parametrize(
    ("reported", "direction"),
    [
        ("I", Direction.IN),
        ("O", Direction.OUT),
        ("IO", Direction.INOUT),
        (1, Direction.IN),
        (2, Direction.OUT),
        (3, Direction.INOUT),
    ],
)
def test_directions_as_agents_report_them_and_as_the_notes_have_them(
    reported: str | int, direction: Direction
) -> None:
    records = write_table({"name": "drain", "argCount": 1})
    records += write_table({"name": "amount", "type": 3, "dir": reported})
    definition, _ = read_schema(Cursor(b"\0\0\0\0\0\x01\0\0" + records), KEY)
    assert definition.schema.methods[0].arguments[0].direction is direction


VALUES = [
    (1, b"\xfe", 254),
    (2, b"\x01\x02", 258),
    (3, b"\xff\0\0\x01", 0xFF000001),
    (4, b"\xff" + bytes(6) + b"\x02", 0xFF00000000000002),
    (6, b"\x02ab", "ab"),
    (7, b"\0\0\0\x02ab", "ab"),
    (8, bytes(7) + b"\x09", 9),
    (9, bytes(7) + b"\x08", 8),
    (10, bytes(6) + b"\x01\x02", ObjectId(0, 258)),
    (11, b"\x01", True),
    (12, b"\x3f\xc0\0\0", 1.5),
    (13, b"\x3f\xf8" + bytes(6), 1.5),
]


@pytest.mark.parametrize(("code", "octets", "value"), VALUES, ids=[str(code) for code, _, _ in VALUES])
def test_a_value_of_each_type_both_ways(code: int, octets: bytes, value: QmfValue) -> None:
    record = write_table({"name": "x", "type": code})
    definition, _ = read_schema(Cursor(b"\0\x01\0\x01\0\0\0\0" + record + record), KEY)
    for group in (definition.properties, definition.statistics):
        read, end = group.read(octets, 0)
        assert (tuple(read), end) == ((value,), len(octets))
        assert group.write((value,)) == octets


def test_limits_that_a_peer_reports_an_event_s_argument_are_read() -> None:
    records = write_table({"name": "leak", "argCount": 1})
    records += write_table({"name": "rate", "type": 3, "min": 1, "max": 9, "dir": 2})
    _, (event,) = read_schema(Cursor(b"\0\0\0\0\0\0\0\x01" + records), KEY)
    assert (event.schema.arguments[0].minimum, event.schema.arguments[0].maximum) == (1, 9)


def test_a_statistic_or_property_is_never_optional() -> None:
    record = write_table({"name": "x", "optional": 1, "type": 3})
    definition, _ = read_schema(Cursor(b"\0\x01\0\x01\0\0\0\0" + record + record), KEY)
    assert not any(element.optional for element in definition.schema.elements)
    assert definition.properties.read(b"\0\0\0\x07", 0) == ((7,), 4)


@pytest.mark.parametrize("code", [5, 14, 15, 16, 21])
def test_types_that_came_later(code: int) -> None:
    octets = b"\0\x01\0\0\0\0\0\0" + write_table({"name": "x", "type": code})
    with pytest.raises(ProtocolError, match="a type code"):
        read_schema(Cursor(octets), KEY)


def test_values_of_types_that_came_later_have_no_layout() -> None:
    with pytest.raises(LocalProtocolError, match="no type UUID"):
        Layout([TypeCode.U8, TypeCode.UUID], AM01)


@pytest.mark.parametrize(
    "schema",
    [
        ClassSchema(KEY, (Element("x", ValueType.U8, optional=True),)),
        ClassSchema(KEY, (Element("x", ValueType.UUID),)),
        ClassSchema(KEY, (), (Element("x", ValueType.S32),)),
        ClassSchema(KEY, (), (), (Method("x", (Argument("y", ValueType.MAP),)),)),
        ClassSchema(KEY, (), (), (Method("x" * 256, (Argument("y" * (1 << 9), ValueType.BYTES),)),)),
        ClassSchema(KEY, (Element("x", ValueType.BYTES),)),
    ],
)
def test_what_only_am2_can_express_is_refused(schema: ClassSchema) -> None:
    with pytest.raises(LocalProtocolError):
        described_class(schema)


def test_a_class_of_our_own_has_a_hash_that_changes_with_it() -> None:
    first, (event,) = described_class(tank(ClassKey("shop", "tank")), [leak()])
    assert len(first.key.hash) == 16
    assert event.key == ClassKey("shop", "tank.leak", first.key.hash)
    assert described_class(tank(), [leak()]) == (first, (event,))
    assert described_class(tank())[0].key.hash != first.key.hash
    assert described_class(replace(tank(), methods=()), [leak()])[0].key.hash != first.key.hash


@pytest.mark.parametrize("cut", [0, 7, 8, 30, len(SCHEMA_OCTETS) - 1])
def test_schemas_cut_off(cut: int) -> None:
    with pytest.raises(ProtocolError):
        read_schema(Cursor(SCHEMA_OCTETS[:cut]), KEY)


def test_counts_that_promise_too_much() -> None:
    with pytest.raises(ProtocolError):
        read_schema(Cursor(b"\xff" * 8 + SCHEMA_OCTETS[len(COUNTS) :]), KEY)


_NAMES = st.text(min_size=1, max_size=20)
_TYPES = st.sampled_from([ValueType.U8, ValueType.STRING, ValueType.REFERENCE, ValueType.F64, ValueType.TIME])
_ELEMENTS = st.builds(
    Element, _NAMES, _TYPES, unit=st.text(max_size=5), maximum=st.none() | st.integers(0, 2**63)
)
_ARGUMENTS = st.builds(
    Argument, _NAMES, _TYPES, direction=st.sampled_from(Direction), default=st.none() | st.text(max_size=3)
)


@given(
    st.lists(_ELEMENTS, max_size=3).map(tuple),
    st.lists(_ELEMENTS, max_size=3).map(tuple),
    st.lists(st.builds(Method, _NAMES, st.lists(_ARGUMENTS, max_size=2).map(tuple)), max_size=2).map(tuple),
)
def test_classes_survive(
    properties: tuple[Element, ...], statistics: tuple[Element, ...], methods: tuple[Method, ...]
) -> None:
    definition = ClassDefinition.of(ClassSchema(KEY, properties, statistics, methods), AM01)
    octets = write_schema(definition)
    assert read_schema(Cursor(octets), KEY) == (definition, ())
    assert write_schema(read_schema(Cursor(octets), KEY)[0]) == octets


@given(st.dictionaries(st.text(max_size=8), values, max_size=4))
def test_tables_survive(entries: dict[str, QmfValue]) -> None:
    assert read_table(Cursor(write_table(entries))) == entries


def test_texts_and_numbers_as_agents_write_them() -> None:
    octets = b"\0\0\0\x0f\x01a\xa4\0\0\0\x02hi\x01b\x21\0\0\0\x05"
    octets = (len(octets) - 4).to_bytes(4, "big") + octets[4:]
    assert write_table({"a": "hi", "b": 5}) == octets
    assert read_table(Cursor(octets)) == {"a": "hi", "b": 5}


@pytest.mark.parametrize("entries", [{}, {"name": "x"}, {"": 1}, {"name": "x", "type": 3, "": "y"}])
def test_a_table_may_have_a_count_in_front(entries: dict[str, QmfValue]) -> None:
    plain = write_table(entries)
    counted = (len(plain)).to_bytes(4, "big") + len(entries).to_bytes(4, "big") + plain[4:]
    for octets in (plain, counted):
        cursor = Cursor(octets + b"behind")
        assert read_table(cursor) == entries
        assert cursor.position == len(octets)


def test_a_count_that_is_wrong_is_none() -> None:
    plain = write_table({"name": "x"})
    wrong = len(plain).to_bytes(4, "big") + (2).to_bytes(4, "big") + plain[4:]
    with pytest.raises(ProtocolError):
        read_table(Cursor(wrong))
