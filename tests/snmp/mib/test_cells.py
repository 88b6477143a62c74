"""Values of the model as values of cells, including extremes."""

from __future__ import annotations

import math
import struct
from typing import cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.schema import Kind
from gateway.model.times import SECOND
from gateway.model.values import Reference
from gateway.snmp import ber
from gateway.snmp.cells import (
    counter64,
    date_and_time,
    encoder_with_length,
    float_encoder,
    float_text,
    gauge32_derivation,
    gauge64,
    text,
    truth,
    value_encoder,
)
from gateway.snmp.syntax import GAUGE32_DIVISORS, Form, Syntax


def cell(syntax: Syntax, value: object, unit: str = "") -> bytes | None:
    return value_encoder(Form(syntax, Kind.GAUGE, unit))(cast("FeedValue", value))


@pytest.mark.parametrize(
    ("syntax", "value", "tlv"),
    [
        (Syntax.COUNTER64, 0, b"\x46\x01\x00"),
        (Syntax.COUNTER64, 2**64 - 1, b"\x46\x09\x00" + b"\xff" * 8),
        (Syntax.COUNTER64, 2**64 + 5, b"\x46\x01\x05"),
        (Syntax.COUNTER64, -1, None),
        (Syntax.GAUGE32, 2**32 - 1, b"\x42\x05\x00\xff\xff\xff\xff"),
        (Syntax.GAUGE32, 2**32, b"\x42\x05\x00\xff\xff\xff\xff"),
        (Syntax.GAUGE32, -5, b"\x42\x01\x00"),
        (Syntax.GAUGE64, 2**64 - 1, b"\x46\x09\x00" + b"\xff" * 8),
        (Syntax.GAUGE64, 2**70, b"\x46\x09\x00" + b"\xff" * 8),
        (Syntax.INTEGER32, -(2**31), b"\x02\x04\x80\x00\x00\x00"),
        (Syntax.INTEGER32, 2**31, None),
        (Syntax.DECIMAL, -(2**63), b"\x04\x14-9223372036854775808"),
        (Syntax.DECIMAL, 2**64 - 1, b"\x04\x1418446744073709551615"),
        (Syntax.DECIMAL, 2**64, None),
        (Syntax.FLOAT64, 1.5, b"\x04\x08" + struct.pack(">d", 1.5)),
        (Syntax.FLOAT64, -0.0, b"\x04\x08\x80" + bytes(7)),
        (Syntax.FLOAT64, math.inf, b"\x04\x08\x7f\xf0" + bytes(6)),
        (Syntax.FLOAT64, 3, b"\x04\x08" + struct.pack(">d", 3.0)),
        (Syntax.FLOAT64, 10**400, None),
        (Syntax.FLOAT_TEXT, 0.5, b"\x04\x030.5"),
        (Syntax.FLOAT_TEXT, 3, b"\x04\x033.0"),
        (Syntax.FLOAT_TEXT, 1e22, b"\x04\x051e+22"),
        (Syntax.FLOAT_TEXT, -2.2250738585072014e-308, b"\x04\x18-2.2250738585072014e-308"),
        (Syntax.FLOAT_TEXT, math.nan, b"\x04\x03NaN"),
        (Syntax.FLOAT_TEXT, math.inf, b"\x04\x08Infinity"),
        (Syntax.FLOAT_TEXT, -math.inf, b"\x04\x09-Infinity"),
        (Syntax.FLOAT_TEXT, -0.0, b"\x04\x04-0.0"),
        (Syntax.FLOAT_TEXT, 10**400, None),
        (Syntax.FLOAT_TEXT, True, None),
        (Syntax.TRUTH, True, b"\x02\x01\x01"),
        (Syntax.TRUTH, False, b"\x02\x01\x02"),
        (Syntax.TEXT, "", b"\x04\x00"),
        (Syntax.TEXT, "a\N{EURO SIGN}", b"\x04\x04a\xe2\x82\xac"),
        (Syntax.TEXT, "\ud800", b"\x04\x06" + rb"\ud800"),
        (Syntax.TEXT, "a\nb\u202e", b"\x04\x0a" + rb"a\nb\u202e"),
        (Syntax.TEXT, "DOM\\user", b"\x04\x08" + rb"DOM\user"),
        (Syntax.OCTETS, b"a\nb", b"\x04\x04" + rb"a\nb"),
        (Syntax.OCTETS, b"a\nb\0", b"\x04\x04a\nb\0"),
        (Syntax.OCTETS, b"", b"\x04\x00"),
        (Syntax.OCTETS, b"\x00\xff", b"\x04\x02\x00\xff"),
        (Syntax.UUID, UUID(int=1), b"\x04\x24" + b"00000000-0000-0000-0000-000000000001"),
        (Syntax.JSON, {}, b"\x04\x02{}"),
        (Syntax.JSON, (), b"\x04\x02[]"),
        (Syntax.JSON, {"b": (1, None), "a": math.nan}, b'\x04\x18{"a":"nan","b":[1,null]}'),
        (Syntax.JSON, (b"\x01", Reference("0-1")), b'\x04\x0c["01","0-1"]'),
        (Syntax.JSON, (ObjectLink("p:c", 1, "a/b"),), b'\x04\x07["a/b"]'),
    ],
)
def test_values_by_example(syntax: Syntax, value: object, tlv: bytes | None) -> None:
    assert cell(syntax, value) == tlv


def test_not_a_number_is_still_eight_octets() -> None:
    tlv = cell(Syntax.FLOAT64, math.nan)
    assert tlv is not None
    assert math.isnan(struct.unpack(">d", tlv[2:])[0])


@given(st.floats(allow_nan=False))
def test_a_number_as_text_reads_back_as_it_was(value: float) -> None:
    reported, _ = ber.read_octets(tlv := float_text(value), 0, len(tlv))
    assert float(reported) == value
    assert len(reported) <= 24


@given(st.floats(width=32, allow_nan=False))
def test_a_number_of_32_bits_as_text_has_no_more_digits_than_those_need(value: float) -> None:
    reported, _ = ber.read_octets(tlv := float_text(value, single=True), 0, len(tlv))
    assert struct.unpack(">f", struct.pack(">f", float(reported)))[0] == value
    assert len(reported.lstrip(b"-").split(b"e")[0].replace(b".", b"").strip(b"0")) <= 9


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        (struct.unpack(">f", struct.pack(">f", 0.1))[0], b"0.1"),
        ((2 - 2**-23) * 2.0**127, b"3.4028235e+38"),
        (0.1, b"0.1"),  # of a peer that has more digits than its type
        (1 / 3, b"0.3333333333333333"),
        (1e300, b"1e+300"),
    ],
)
def test_numbers_of_32_bits_by_example(value: float, reported: bytes) -> None:
    octets, text_of_it = float_encoder(single=True)(value)
    assert octets == ber.encode_octets(struct.pack(">d", value))
    assert (
        text_of_it
        == value_encoder(Form(Syntax.FLOAT_TEXT), single=True)(value)
        == ber.encode_octets(reported)
    )


def test_what_is_no_number_has_neither_octets_nor_text() -> None:
    assert float_encoder(single=False)("0.5") == (None, None)
    assert value_encoder(Form(Syntax.FLOAT_TEXT), single=True)("0.5") is None


@pytest.mark.parametrize(
    ("nanoseconds", "octets"),
    [
        (0, b"\x07\xb2\x01\x01\x00\x00\x00\x00+\x00\x00"),
        (1_700_000_000 * SECOND + 123_456_789, b"\x07\xe7\x0b\x0e\x16\x0d\x14\x01+\x00\x00"),
        (-1, b"\x07\xb1\x0c\x1f\x17\x3b\x3b\x09+\x00\x00"),
        (-(2**63), b"\x06\x8d\x09\x15\x00\x0c\x2b\x01+\x00\x00"),
        (2**64 - 1, b"\x09\xfa\x07\x15\x17\x22\x21\x07+\x00\x00"),
    ],
)
def test_times_from_1677_to_2554_are_dates_in_utc(nanoseconds: int, octets: bytes) -> None:
    assert date_and_time(nanoseconds) == ber.encode_octets(octets)


@pytest.mark.parametrize("nanoseconds", [-(10**21), 10**21])
def test_times_that_no_calendar_has_are_holes(nanoseconds: int) -> None:
    assert date_and_time(nanoseconds) is None


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1_999_999_999, "seconds", 1),
        (2 * 86_400 * SECOND, "days", 2),
        (-1, "seconds", 0),
        (2**80, "seconds", 2**32 - 1),
    ],
)
def test_durations_in_a_unit_are_whole_units(value: int, unit: str, shown: int) -> None:
    assert cell(Syntax.UNSIGNED32, value, unit) == ber.encode_gauge32(shown)


def test_enumerations_are_numbers_and_what_is_not_known_is_unknown() -> None:
    encode = value_encoder(Form(Syntax.ENUMERATION), {"open": 2, 7: 3})
    assert encode("open") == b"\x02\x01\x02"
    assert encode(7) == b"\x02\x01\x03"
    assert encode("burnt") == b"\x02\x01\x01"
    assert encode({}) is None


def test_text_is_cut_before_the_character_that_does_not_fit() -> None:
    assert text("x" * 254 + "\N{EURO SIGN}") == ber.encode_octets(b"x" * 254)
    assert text("x" * 252 + "\N{EURO SIGN}") == ber.encode_octets(b"x" * 252 + b"\xe2\x82\xac")


@pytest.mark.parametrize(
    ("syntax", "value", "shown", "octets"),
    [
        (Syntax.TEXT, "\N{EURO SIGN}" * 100, ("\N{EURO SIGN}" * 85).encode(), 300),
        (Syntax.OCTETS, bytes(1024), bytes(1024), 1024),
        (Syntax.OCTETS, bytes(1025), b"", 1025),
        (Syntax.JSON, {"a": "x" * 1016}, b'{"a":"' + b"x" * 1016 + b'"}', 1024),
        (Syntax.JSON, {"a": "x" * 1017}, b"", 1025),
    ],
)
def test_beside_what_may_be_cut_stands_its_whole_length(
    syntax: Syntax, value: FeedValue, shown: bytes, octets: int
) -> None:
    assert encoder_with_length(syntax)(value) == (ber.encode_octets(shown), ber.encode_gauge32(octets))


def test_a_value_nested_without_end_is_a_hole() -> None:
    nested: tuple[object, ...] = ()
    for _ in range(100_000):
        nested = (nested,)
    assert cell(Syntax.JSON, nested) is None


def test_shared_pieces() -> None:
    assert truth(value=True) == b"\x02\x01\x01"
    assert counter64(2**64) == b"\x46\x01\x00"


_values: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=["Cs"]))
    | st.binary()
    | st.uuids()
    | st.builds(Reference, st.text())
    | st.builds(ObjectLink, st.text(), st.integers(), st.text()),
    lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.sampled_from(Syntax), _values)
def test_whatever_a_peer_sends_is_one_value_of_the_right_type_or_a_hole(
    syntax: Syntax, value: object
) -> None:
    tags = {
        Syntax.COUNTER64: ber.COUNTER64,
        Syntax.GAUGE64: ber.COUNTER64,
        Syntax.GAUGE32: ber.GAUGE32,
        Syntax.UNSIGNED32: ber.GAUGE32,
        Syntax.INTEGER32: ber.INTEGER,
        Syntax.TRUTH: ber.INTEGER,
        Syntax.ENUMERATION: ber.INTEGER,
    }
    tlv = cell(syntax, value)
    assert tlv is None or tlv[0] == tags.get(syntax, ber.OCTET_STRING)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, "", 0),
        (7, "", 7),
        (2**31 - 1, "", 2**31 - 1),
        (2**31, "", 2**31),
        (2**32 - 1, "", 2**32 - 1),
        (2**32, "", 2**32 - 1),
        (2**64 - 1, "", 2**32 - 1),
        (0, "kibibytes", 0),
        (1, "kibibytes", 1),
        (1024, "kibibytes", 1),
        (1025, "kibibytes", 2),
        (2**42 - 1024, "kibibytes", 2**32 - 1),
        (2**42, "kibibytes", 2**32 - 1),
        (1, "milliseconds", 1),
        (60 * SECOND, "milliseconds", 60_000),
        (1_500, "microseconds", 2),
    ],
)
def test_a_gauge_of_32_bits_stays_at_its_end_and_is_0_for_0_only(value: int, unit: str, shown: int) -> None:
    assert gauge32_derivation(100, unit).derive(gauge64(value)) == ber.encode_gauge32(shown)


@given(st.integers(0, 2**64 - 1), st.sampled_from(sorted(GAUGE32_DIVISORS)))
def test_every_gauge_of_64_bits_has_one_of_32_bits(value: int, unit: str) -> None:
    whole, rest = divmod(value, GAUGE32_DIVISORS[unit])
    shown = min(whole + (rest > 0), 2**32 - 1)
    assert gauge32_derivation(100, unit).derive(gauge64(value)) == ber.encode_gauge32(shown)
