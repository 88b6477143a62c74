"""Reading and writing of values in schema order, by element type."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.elements import TypeCode, type_code
from gateway.dialects.qmf.fields import NULL, ObjectId
from gateway.dialects.qmf.layout import Layout, OptionalLayout
from gateway.dialects.qmf.typed_values import QmfValue
from gateway.model.values import ValueType

_EXAMPLES: list[tuple[TypeCode, bytes, QmfValue]] = [
    (TypeCode.U8, b"\xff", 255),
    (TypeCode.U16, b"\x01\0", 256),
    (TypeCode.U32, b"\0\x01\0\0", 65536),
    (TypeCode.U64, b"\xff" * 8, 2**64 - 1),
    (TypeCode.STR8, b"\x02hi", "hi"),
    (TypeCode.STR16, b"\0\x02hi", "hi"),
    (TypeCode.ABSOLUTE_TIME, b"\0\0\0\0\0\0\0\x07", 7),
    (TypeCode.DELTA_TIME, b"\0\0\0\0\0\0\0\x08", 8),
    (TypeCode.REFERENCE, bytes(15) + b"\x09", ObjectId(0, 9)),
    (TypeCode.BOOL, b"\x01", True),
    (TypeCode.F32, b"\x3f\x80\0\0", 1.0),
    (TypeCode.F64, b"\x3f\xf0\0\0\0\0\0\0", 1.0),
    (TypeCode.UUID, bytes(15) + b"\x0a", UUID(int=10)),
    (TypeCode.MAP, b"\0\0\0\x08\0\0\0\x01\x01a\x08\x01"[:4] + b"\0\0\0\x01\x01a\x08\x01", {"a": True}),
    (TypeCode.S8, b"\xff", -1),
    (TypeCode.S16, b"\xff\xff", -1),
    (TypeCode.S32, b"\xff" * 4, -1),
    (TypeCode.S64, b"\xff" * 8, -1),
    (TypeCode.LIST, b"\0\0\0\x06\0\0\0\x01\x08\x01", (True,)),
    (TypeCode.ARRAY, b"\0\0\0\x06\x08\0\0\0\x01\x01", (True,)),
]
_VALUES: dict[TypeCode, st.SearchStrategy[QmfValue]] = {
    TypeCode.U8: st.integers(0, 2**8 - 1),
    TypeCode.U16: st.integers(0, 2**16 - 1),
    TypeCode.U32: st.integers(0, 2**32 - 1),
    TypeCode.U64: st.integers(0, 2**64 - 1),
    TypeCode.STR8: st.text(max_size=20),
    TypeCode.STR16: st.text(max_size=20),
    TypeCode.ABSOLUTE_TIME: st.integers(0, 2**64 - 1),
    TypeCode.DELTA_TIME: st.integers(0, 2**64 - 1),
    TypeCode.REFERENCE: st.builds(ObjectId, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    TypeCode.BOOL: st.booleans(),
    TypeCode.F32: st.floats(width=32, allow_nan=False),
    TypeCode.F64: st.floats(allow_nan=False),
    TypeCode.UUID: st.uuids(),
    TypeCode.MAP: st.dictionaries(st.text(max_size=5), st.booleans(), max_size=3),
    TypeCode.S8: st.integers(-(2**7), 2**7 - 1),
    TypeCode.S16: st.integers(-(2**15), 2**15 - 1),
    TypeCode.S32: st.integers(-(2**31), 2**31 - 1),
    TypeCode.S64: st.integers(-(2**63), 2**63 - 1),
    TypeCode.LIST: st.lists(st.booleans(), max_size=3).map(tuple),
    TypeCode.ARRAY: st.lists(st.booleans(), max_size=3).map(tuple),
}
_CODES = st.sampled_from(list(TypeCode))


@pytest.mark.parametrize(("code", "octets", "value"), _EXAMPLES)
def test_each_type(code: TypeCode, octets: bytes, value: QmfValue) -> None:
    layout = Layout([code])
    assert layout.read(octets, 0) == ([value], len(octets))
    assert layout.write((value,)) == octets


def test_every_type_has_an_example() -> None:
    assert {code for code, _, _ in _EXAMPLES} == set(TypeCode)


def test_all_types_in_a_row() -> None:
    layout = Layout([code for code, _, _ in _EXAMPLES])
    octets = b"".join(octets for _, octets, _ in _EXAMPLES)
    values, end = layout.read(b"before" + octets + b"behind", 6)
    assert values == [value for _, _, value in _EXAMPLES]
    assert end == 6 + len(octets)


@given(st.data())
def test_values_survive(data: st.DataObject) -> None:
    elements = data.draw(st.lists(st.tuples(_CODES, st.booleans()), max_size=12))
    layout = OptionalLayout([code for code, _ in elements], [optional for _, optional in elements])
    values: tuple[QmfValue, ...] = tuple(
        data.draw(st.none() | _VALUES[code] if optional else _VALUES[code]) for code, optional in elements
    )
    octets = layout.write(values)
    assert layout.read(octets, 0) == (values, len(octets))


@given(st.lists(st.tuples(_CODES, st.booleans()), max_size=12), st.binary(max_size=80))
def test_any_octets_give_values_or_the_protocol_error(
    elements: list[tuple[TypeCode, bool]], octets: bytes
) -> None:
    layout = OptionalLayout([code for code, _ in elements], [optional for _, optional in elements])
    try:
        values, end = layout.read(octets, 0)
    except ProtocolError as error:
        found = error.offset
    else:
        found = end
        assert len(values) == len(elements)
    assert found <= len(octets) + 16


@pytest.mark.parametrize("code", list(TypeCode))
def test_absent_is_written_as_zero_empty_or_null(code: TypeCode) -> None:
    layout = Layout([code])
    (value,), _ = layout.read(layout.write((None,)), 0)
    assert not value or value == UUID(int=0)
    if code is TypeCode.REFERENCE:
        assert value == NULL


def test_what_is_not_optional_is_never_left_out() -> None:
    layout = OptionalLayout([TypeCode.U8] * 3, [False] * 3)
    assert layout.write((1, 2, 3)) == b"\x01\x02\x03"
    with pytest.raises(LocalProtocolError, match="element 1 is absent and not optional"):
        layout.write((1, None, 3))


def test_nine_optional_elements_take_two_octets_of_mask() -> None:
    layout = OptionalLayout([TypeCode.U8] * 10, [False] + [True] * 9)
    values = (7, None, 1, *[None] * 6, 9, 3)[:10]
    octets = layout.write(values)
    # optional elements 1 (bit 1 of octet 0) and 8 (bit 0 of octet 1) are there
    assert octets[:2] == b"\x02\x01"
    assert layout.read(octets, 0) == (values, len(octets))


def test_masks_that_never_come_again_do_not_pile_up() -> None:
    layout = OptionalLayout([TypeCode.U8] * 16, [True] * 16)
    for bits in range(2**10):
        mask = bits.to_bytes(2, "little")
        values, _ = layout.read(mask + bytes(16), 0)
        assert sum(value is not None for value in values) == bits.bit_count()


@pytest.mark.parametrize(
    ("codes", "values"),
    [
        ([TypeCode.U8], (256,)),
        ([TypeCode.U8], (-1,)),
        ([TypeCode.U8], (1.5,)),
        ([TypeCode.U8], ("x",)),
        ([TypeCode.F32], (1e300,)),
        ([TypeCode.STR8], ("x" * 256,)),
        ([TypeCode.STR16], ("x" * 65536,)),
        ([TypeCode.STR8], (7,)),
        ([TypeCode.REFERENCE], ("0-0-0-0-1",)),
        ([TypeCode.UUID], (7,)),
        ([TypeCode.MAP], (7,)),
        ([TypeCode.LIST], (7,)),
        ([TypeCode.U8], ()),
    ],
)
def test_values_that_do_not_fit_are_refused(codes: list[TypeCode], values: tuple[QmfValue, ...]) -> None:
    with pytest.raises(LocalProtocolError):
        Layout(codes).write(values)


def test_how_the_model_s_types_travel() -> None:
    assert type_code(ValueType.STRING, 255) is TypeCode.STR8
    assert type_code(ValueType.STRING, 256) is TypeCode.STR16
    assert type_code(ValueType.STRING, None) is TypeCode.STR16
    assert type_code(ValueType.LIST, None) is TypeCode.LIST
    for value_type in set(ValueType) - {ValueType.BYTES}:
        assert type_code(value_type, None).value_type is value_type
    with pytest.raises(LocalProtocolError, match="no type for bytes"):
        type_code(ValueType.BYTES, None)
