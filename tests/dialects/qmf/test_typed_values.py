"""Maps, lists and arrays of AMQP 0-10."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.fields import Cursor, ObjectId
from gateway.dialects.qmf.typed_values import (
    MAX_NESTING,
    Int64,
    QmfValue,
    plain_map,
    read_array,
    read_list,
    read_map,
    write_array,
    write_list,
    write_map,
)


def _is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20).filter(lambda octets: not _is_text(octets))
    | st.uuids()
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def _entry(coded: bytes) -> QmfValue:
    content = b"\x01v" + coded
    octets = (len(content) + 4).to_bytes(4, "big") + b"\0\0\0\x01" + content
    return read_map(Cursor(octets))["v"]


@pytest.mark.parametrize(
    ("coded", "value"),
    [
        (b"\x01\xff", -1),
        (b"\x02\xff", 255),
        (b"\x08\x01", True),
        (b"\x08\x00", False),
        (b"\x11\xff\xfe", -2),
        (b"\x12\xff\xfe", 65534),
        (b"\x21\xff\xff\xff\xff", -1),
        (b"\x22\xff\xff\xff\xff", 2**32 - 1),
        (b"\x23\x3f\x80\0\0", 1.0),
        (b"\x31" + b"\xff" * 8, -1),
        (b"\x32" + b"\xff" * 8, 2**64 - 1),
        (b"\x33\x3f\xf0\0\0\0\0\0\0", 1.0),
        (b"\x38\0\0\0\0\0\0\0\x05", 5),
        (b"\x48" + bytes(15) + b"\x01", UUID(int=1)),
        (b"\x80\x02hi", "hi"),
        (b"\x84\x02hi", "hi"),
        (b"\x85\x02hi", "hi"),
        (b"\x90\0\x02hi", "hi"),
        (b"\x94\0\x02hi", "hi"),
        (b"\x95\0\x02hi", "hi"),
        (b"\xa0\0\0\0\x02hi", "hi"),
        (b"\xa4\0\0\0\x02hi", "hi"),
        (b"\xa5\0\0\0\x02hi", "hi"),
        (b"\x90\0\x01\xff", b"\xff"),
        (b"\x95\0\x01\xff", "\\xff"),
        (b"\xf0", None),
        (b"\xf1", True),
        (b"\x00\x07", b"\x07"),
        (b"\x27\0\0\0A", b"\0\0\0A"),
        (b"\xc8\x01\x02\x03\x04\x05", b"\x01\x02\x03\x04\x05"),
        (b"\xa8\0\0\0\0", {}),
        (b"\xa8\0\0\0\x04\0\0\0\0", {}),
        (b"\xa9\0\0\0\x08\0\0\0\x02\x02\x05\x08\x01"[:13], (5, True)),
        (b"\xaa\0\0\0\x07\x02\0\0\0\x02\x05\x06", (5, 6)),
        (b"\xaa\0\0\0\0", ()),
    ],
)
def test_codes_that_peers_send(coded: bytes, value: QmfValue) -> None:
    found = _entry(coded)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("code", "width"),
    [
        *[(0x03, 1), (0x18, 2), (0x27, 4), (0x30, 8), (0x4F, 16)],
        *[(0x50, 32), (0x6F, 64), (0x70, 128), (0xC0, 5), (0xDF, 9)],
    ],
)
def test_codes_that_are_not_known_are_octets_of_the_width_that_they_report(code: int, width: int) -> None:
    octets = bytes(range(1, width + 1))
    assert _entry(bytes((code,)) + octets) == octets


@pytest.mark.parametrize(("lengths", "code"), [(1, 0x8F), (2, 0x9F), (4, 0xAF)])
def test_or_of_the_length_that_they_carry(lengths: int, code: int) -> None:
    assert _entry(bytes((code,)) + (3).to_bytes(lengths, "big") + b"abc") == b"abc"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        *[(0, 0x21), (2**31 - 1, 0x21), (-(2**31), 0x21)],
        *[(2**31, 0x31), (-(2**31) - 1, 0x31), (2**63 - 1, 0x31), (-(2**63), 0x31)],
        *[(2**63, 0x32), (2**64 - 1, 0x32)],
    ],
)
def test_an_integer_takes_the_smallest_code_that_it_fits(value: int, code: int) -> None:
    octets = write_list((value,))
    assert octets[8] == code
    assert read_list(Cursor(octets)) == (value,)


@pytest.mark.parametrize("value", [0, -1, 2**63 - 1, -(2**63)])
def test_an_integer_that_is_to_have_64_bits_has_them(value: int) -> None:
    assert Int64.fits(value)
    octets = write_list((Int64(value),))
    assert octets[8] == 0x31
    assert read_list(Cursor(octets)) == (value,)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_an_integer_that_64_bits_do_not_hold(value: int) -> None:
    assert not Int64.fits(value)


def test_long_text_of_a_map_is_read_the_quick_way_too() -> None:
    octets = write_map({"a": "x" * 300})
    assert plain_map(octets, 0) == ({"a": "x" * 300}, len(octets))


def test_a_map_by_hand() -> None:
    octets = b"\0\0\0\x10\0\0\0\x02\x01a\x08\x01\x01b\x21\0\0\0\x05"
    octets = (len(octets) - 4).to_bytes(4, "big") + octets[4:]
    assert read_map(Cursor(octets)) == {"a": True, "b": 5}
    assert write_map({"a": True, "b": 5}) == octets


def test_what_long_text_and_object_ids_travel_as() -> None:
    assert _entry(write_list(("x" * 70_000,))[8:]) == "x" * 70_000
    assert read_list(Cursor(write_list((ObjectId(0, 7),)))) == ("0-0-0-0-7",)


@given(st.dictionaries(st.text(max_size=8), values, max_size=4))
def test_maps_survive(entries: dict[str, QmfValue]) -> None:
    assert read_map(Cursor(write_map(entries))) == entries


@given(st.lists(values, max_size=4).map(tuple))
def test_lists_survive(items: tuple[QmfValue, ...]) -> None:
    assert read_list(Cursor(write_list(items))) == items


@given(st.lists(st.integers(0, 1000), max_size=5).map(tuple))
def test_arrays_survive(items: tuple[int, ...]) -> None:
    assert read_array(Cursor(write_array(items))) == items


@given(st.binary(max_size=64), st.sampled_from([read_map, read_list, read_array]))
def test_any_octets_give_a_value_or_the_protocol_error(
    octets: bytes, read: Callable[[Cursor], QmfValue]
) -> None:
    cursor = Cursor(octets)
    with suppress(ProtocolError):
        read(cursor)
    assert cursor.position <= len(octets)


@pytest.mark.parametrize(
    ("octets", "expected"),
    [
        (b"\0\0\0\x20\0\0\0\0", "a map of 32 octets, found 4"),
        (b"\0\0\0\x04\xff\xff\xff\xff", "no longer than its octets, found count 4294967295"),
        (b"\0\0\0\x05\0\0\0\0x", "the end of a map, found 1 more"),
        (b"\0\0\0\x07\0\0\0\x01\x01a\xb0", "an AMQP 0-10 type code, found 0xb0"),
        (b"\0\0\0\x02\0\0", "4 octets of the count of a map, found 2"),
    ],
)
def test_maps_that_contradict_themselves(octets: bytes, expected: str) -> None:
    with pytest.raises(ProtocolError, match=expected):
        read_map(Cursor(octets))


def test_an_array_of_nothing_cannot_be_endless() -> None:
    with pytest.raises(ProtocolError, match="no longer than its octets"):
        read_array(Cursor(b"\0\0\0\x05\xf0\xff\xff\xff\xff"))


def test_nesting_has_a_limit_in_both_directions() -> None:
    assert MAX_NESTING == 16  # which the table of conformance says
    nested: QmfValue = ()
    for _ in range(MAX_NESTING - 1):
        nested = (nested,)
    assert isinstance(nested, tuple)
    octets = write_list(nested)
    assert read_list(Cursor(octets)) == nested
    with pytest.raises(LocalProtocolError, match="nested deeper"):
        write_list((nested,))
    with pytest.raises(LocalProtocolError, match="nested deeper"):
        write_map({"": {"": nested}})
    with pytest.raises(LocalProtocolError, match="nested deeper"):
        write_array(((nested,),))
    deeper = b"\0\0\0\x01\xa9" + octets
    with pytest.raises(ProtocolError, match="levels of nesting"):
        read_list(Cursor((len(deeper)).to_bytes(4, "big") + deeper))


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800"])
def test_values_that_cannot_travel(value: QmfValue) -> None:
    with pytest.raises(LocalProtocolError):
        write_map({"v": value})


def test_an_array_is_of_one_type() -> None:
    with pytest.raises(LocalProtocolError, match="one type"):
        write_array((1, "x"))
