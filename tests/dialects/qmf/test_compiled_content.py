"""Compiled readers give the result of the reader by elements, for any octets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.am01.forms import AM01
from gateway.dialects.qmf.elements import AM2, ElementForms, TypeCode
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.layout import MAX_ELEMENTS, ContentFields, Layout, OptionalLayout

_HEAD = b"\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3" + bytes(15) + b"\4"
_REPORTED = (1, 2, 3, ObjectId(0, 4))
_ELEMENTS = st.lists(st.tuples(st.sampled_from(list(TypeCode)), st.booleans()), max_size=12)


def _read(layout: OptionalLayout, octets: bytes) -> ContentFields:
    return layout.content_reader()(octets, 0)


def _step_by_step(layout: OptionalLayout, octets: bytes) -> object:
    """Return the result of the reader by elements, or the text of its error."""
    try:
        values, end = layout.read(octets, len(_HEAD))
    except ProtocolError as error:
        return str(error)
    return (*_REPORTED, values, end)


@example([(TypeCode.STR16, False), (TypeCode.UUID, False)], b"\x00\x01")
@given(_ELEMENTS, st.binary(max_size=120))
def test_any_octets(elements: list[tuple[TypeCode, bool]], octets: bytes) -> None:
    layout = OptionalLayout([code for code, _ in elements], [optional for _, optional in elements])
    try:
        found: object = _read(layout, _HEAD + octets)
    except ProtocolError as error:
        found = str(error)
    # Not a number is not itself; everything else is.
    assert repr(found) == repr(_step_by_step(layout, _HEAD + octets))


@given(_ELEMENTS, st.integers(0, 200))
def test_zeros(elements: list[tuple[TypeCode, bool]], count: int) -> None:
    codes = [code for code, _ in elements]
    octets = b"\xff" * ((sum(optional for _, optional in elements) + 7) // 8) + bytes(count)
    layout = OptionalLayout(codes, [optional for _, optional in elements])
    try:
        found: object = _read(layout, _HEAD + octets)
    except ProtocolError as error:
        found = str(error)
    assert repr(found) == repr(_step_by_step(layout, _HEAD + octets))


@pytest.mark.parametrize("length", range(len(_HEAD)))
def test_a_head_cut_off(length: int) -> None:
    with pytest.raises(ProtocolError, match="at offset 0: expected times and object id"):
        _read(OptionalLayout([TypeCode.U8], [False]), _HEAD[:length])


def test_nine_optional_elements_have_a_mask_of_two_octets() -> None:
    layout = OptionalLayout([TypeCode.STR8] * 9, [True] * 9)
    octets = _HEAD + b"\x01\x01" + b"\x02hi" + b"\x02ho"
    values = ("hi", *[None] * 7, "ho")
    assert _read(layout, octets) == (*_REPORTED, values, len(octets))


def test_text_that_is_no_utf_8_is_shown() -> None:
    layout = OptionalLayout([TypeCode.STR8, TypeCode.STR16], [False, False])
    octets = _HEAD + b"\x02\xffi" + b"\0\x01x"
    assert _read(layout, octets) == (*_REPORTED, ("\\xffi", "x"), len(octets))


@pytest.mark.parametrize("forms", [AM2, AM01])
def test_no_elements_at_all(forms: ElementForms) -> None:
    octets = _HEAD[: 24 + forms.object_id_length]
    values: Sequence[object] = _read(OptionalLayout([], [], forms), octets)
    assert values == (1, 2, 3, ObjectId(0, 4 if forms is AM2 else 0), (), len(octets))
    assert Layout([], forms).values_reader()(b"", 0) == ((), 0)


@pytest.mark.parametrize("count", [MAX_ELEMENTS, MAX_ELEMENTS + 2])
def test_the_largest_classes_are_read_too(count: int) -> None:
    octets = b"\x07\x02hi" * (count // 2)
    expected = (7, "hi") * (count // 2)
    layout = Layout([TypeCode.U8, TypeCode.STR8] * (count // 2))
    assert layout.values_reader()(octets, 0) == (expected, len(octets))
    assert layout.content_reader()(_HEAD + octets, 0)[4] == expected


def test_values_alone_are_read_where_they_stand() -> None:
    read = Layout([TypeCode.U8, TypeCode.STR8]).values_reader()
    assert read(b"before\x07\x02hi", 6) == ((7, "hi"), 10)
    with pytest.raises(ProtocolError, match="a string of 2 octets, found 1"):
        read(b"before\x07\x02h", 6)
