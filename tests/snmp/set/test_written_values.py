"""Values written by managers, by the syntax of the column, octet by octet."""

from __future__ import annotations

import contextlib
import math
import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.schema import Access, Element, NamedValue
from gateway.model.values import ValueType
from gateway.snmp import ber, message
from gateway.snmp.cells import date_and_time, value_encoder
from gateway.snmp.oid_registry import ElementEntry, EnumerationNumber
from gateway.snmp.syntax import WRITABLE_SYNTAXES, Syntax
from gateway.snmp.written_values import WrittenValueError, may_differ, written_value

HALL = ObjectLink("shop:hall", 1, "hall1")
ROW = (1, 3, 6, 2)
VALUES = (
    EnumerationNumber(value="unknown", label="unknown", number=1),
    EnumerationNumber(value="open", label="open", number=2),
)
ID = UUID("0f6b9a52-3b1c-4b2e-9d53-5d2f1a1c7e10")


def octets(text: str) -> bytes:
    return ber.encode_octets(text.encode())


def entry(syntax: Syntax, unit: str = "") -> ElementEntry:
    values = VALUES if syntax is Syntax.ENUMERATION else ()
    return ElementEntry(name="e", syntax=syntax, descriptor="e", column=100, unit=unit, values=values)


def element(type_: ValueType, values: tuple[NamedValue, ...] = ()) -> Element:
    return Element("e", type_, access=Access.READ_WRITE, values=values)


def read(tlv: bytes, type_: ValueType, syntax: Syntax, unit: str = "") -> FeedValue | None:
    values = (NamedValue("open", 7),) if syntax is Syntax.ENUMERATION else ()
    return written_value(
        tlv, element(type_, values), entry(syntax, unit), lambda name: HALL if name == ROW else None
    )


@pytest.mark.parametrize(
    ("tlv", "type_", "syntax", "value"),
    [
        (b"\x42\x01\x07", ValueType.U32, Syntax.GAUGE32, 7),
        (b"\x42\x05\x00\xff\xff\xff\xff", ValueType.U32, Syntax.UNSIGNED32, 2**32 - 1),
        (b"\x02\x01\xff", ValueType.S32, Syntax.INTEGER32, -1),
        (octets("18446744073709551615"), ValueType.U64, Syntax.DECIMAL, 2**64 - 1),
        (octets("-5"), ValueType.S64, Syntax.DECIMAL, -5),
        (octets(r"a\nb \u202e"), ValueType.STRING, Syntax.TEXT, "a\nb \u202e"),
        (octets(r"C:\x5cnew"), ValueType.STRING, Syntax.TEXT, r"C:\new"),
        (octets(r"DOM\user"), ValueType.STRING, Syntax.TEXT, r"DOM\user"),
        (b"\x04\x08" + struct.pack(">d", 0.5), ValueType.F64, Syntax.FLOAT64, 0.5),
        (octets("0.5"), ValueType.F64, Syntax.FLOAT_TEXT, 0.5),
        (octets("-1E+22"), ValueType.F32, Syntax.FLOAT_TEXT, -1e22),
        (octets(".5"), ValueType.F64, Syntax.FLOAT_TEXT, 0.5),
        (octets("7"), ValueType.F64, Syntax.FLOAT_TEXT, 7.0),
        (octets("-Infinity"), ValueType.F64, Syntax.FLOAT_TEXT, -math.inf),
        (b"\x02\x01\x01", ValueType.BOOL, Syntax.TRUTH, True),
        (b"\x02\x01\x02", ValueType.BOOL, Syntax.TRUTH, False),
        (b"\x02\x01\x02", ValueType.U8, Syntax.ENUMERATION, 7),
        (b"\x04\x08\x07\xb2\x01\x01\x00\x00\x01\x05", ValueType.TIME, Syntax.DATE_AND_TIME, 1_500_000_000),
        (
            b"\x04\x0b\x07\xb2\x01\x01\x01\x00\x01\x05+\x01\x00",
            ValueType.TIME,
            Syntax.DATE_AND_TIME,
            15 * 10**8,
        ),
        (ber.encode_oid(ROW), ValueType.REFERENCE, Syntax.ROW_POINTER, HALL),
        (octets("\u00e9"), ValueType.STRING, Syntax.TEXT, "\u00e9"),
        (b"\x04\x02\xff\x00", ValueType.BYTES, Syntax.OCTETS, b"\xff\x00"),
        (octets('{"a":[1,true]}'), ValueType.MAP, Syntax.JSON, {"a": (1, True)}),
        (octets("[]"), ValueType.LIST, Syntax.JSON, ()),
        (octets(str(ID)), ValueType.UUID, Syntax.UUID, ID),
    ],
)
def test_each_syntax_has_its_values(tlv: bytes, type_: ValueType, syntax: Syntax, value: FeedValue) -> None:
    assert read(tlv, type_, syntax) == value


@pytest.mark.parametrize(
    ("tlv", "type_", "syntax"),
    [
        (ber.encode_oid((0, 0)), ValueType.REFERENCE, Syntax.ROW_POINTER),
        (b"\x04\x08" + bytes(8), ValueType.TIME, Syntax.DATE_AND_TIME),
        (octets("null"), ValueType.MAP, Syntax.JSON),
        (octets("null"), ValueType.LIST, Syntax.JSON),
    ],
)
def test_some_syntaxes_have_a_form_for_no_value(tlv: bytes, type_: ValueType, syntax: Syntax) -> None:
    assert read(tlv, type_, syntax) is None


def test_an_empty_text_is_a_text() -> None:
    assert read(octets(""), ValueType.STRING, Syntax.TEXT) == ""
    assert read(octets("null"), ValueType.STRING, Syntax.TEXT) == "null"


def test_a_duration_is_counted_in_the_unit_of_its_column() -> None:
    assert read(b"\x42\x01\x07", ValueType.DURATION, Syntax.UNSIGNED32, "seconds") == 7 * 10**9


@pytest.mark.parametrize(
    ("tlv", "type_", "syntax", "status"),
    [
        (b"\x02\x01\x07", ValueType.U32, Syntax.GAUGE32, message.WRONG_TYPE),
        (b"\x05\x00", ValueType.STRING, Syntax.TEXT, message.WRONG_TYPE),
        (octets(""), ValueType.S64, Syntax.DECIMAL, message.WRONG_LENGTH),
        (octets("0" * 21), ValueType.S64, Syntax.DECIMAL, message.WRONG_LENGTH),
        (octets("1e3"), ValueType.S64, Syntax.DECIMAL, message.WRONG_VALUE),
        (octets("1234567"), ValueType.F64, Syntax.FLOAT64, message.WRONG_LENGTH),
        (octets(""), ValueType.F64, Syntax.FLOAT_TEXT, message.WRONG_LENGTH),
        (octets("0" * 25), ValueType.F64, Syntax.FLOAT_TEXT, message.WRONG_LENGTH),
        (octets("1e999"), ValueType.F64, Syntax.FLOAT_TEXT, message.WRONG_VALUE),
        (octets("0x10"), ValueType.F64, Syntax.FLOAT_TEXT, message.WRONG_VALUE),
        (octets(" 0.5"), ValueType.F64, Syntax.FLOAT_TEXT, message.WRONG_VALUE),
        (octets("1_0"), ValueType.F64, Syntax.FLOAT_TEXT, message.WRONG_VALUE),
        (octets("half"), ValueType.F64, Syntax.FLOAT_TEXT, message.WRONG_VALUE),
        (b"\x02\x01\x03", ValueType.BOOL, Syntax.TRUTH, message.WRONG_VALUE),
        (b"\x02\x01\x01", ValueType.U8, Syntax.ENUMERATION, message.WRONG_VALUE),
        (b"\x02\x01\x09", ValueType.U8, Syntax.ENUMERATION, message.WRONG_VALUE),
        (octets("123456789"), ValueType.TIME, Syntax.DATE_AND_TIME, message.WRONG_LENGTH),
        (b"\x04\x0b" + bytes(11), ValueType.TIME, Syntax.DATE_AND_TIME, message.WRONG_VALUE),
        (ber.encode_oid((0, 1)), ValueType.REFERENCE, Syntax.ROW_POINTER, message.WRONG_VALUE),
        (octets(""), ValueType.MAP, Syntax.JSON, message.WRONG_VALUE),
        (octets('"null"'), ValueType.MAP, Syntax.JSON, message.WRONG_VALUE),
        (b"\x04\x01\xff", ValueType.STRING, Syntax.TEXT, message.WRONG_VALUE),
        (octets("x" * 1_025), ValueType.MAP, Syntax.JSON, message.WRONG_LENGTH),
        (octets("[" * 1_000), ValueType.LIST, Syntax.JSON, message.WRONG_VALUE),
        (octets('{"a":null}'), ValueType.MAP, Syntax.JSON, message.WRONG_VALUE),
        (octets("[]"), ValueType.MAP, Syntax.JSON, message.WRONG_VALUE),
        (octets("x" * 36), ValueType.UUID, Syntax.UUID, message.WRONG_VALUE),
    ],
)
def test_what_is_none_is_reported_by_its_status(
    tlv: bytes, type_: ValueType, syntax: Syntax, status: int
) -> None:
    with pytest.raises(WrittenValueError) as caught:
        read(tlv, type_, syntax)
    assert caught.value.status == status


TYPES = {
    Syntax.TRUTH: ValueType.BOOL,
    Syntax.FLOAT64: ValueType.F64,
    Syntax.FLOAT_TEXT: ValueType.F64,
    Syntax.TEXT: ValueType.STRING,
    Syntax.OCTETS: ValueType.BYTES,
    Syntax.JSON: ValueType.MAP,
    Syntax.UUID: ValueType.UUID,
    Syntax.DATE_AND_TIME: ValueType.TIME,
    Syntax.ROW_POINTER: ValueType.REFERENCE,
}
TAGS = (ber.INTEGER, ber.OCTET_STRING, ber.OBJECT_IDENTIFIER, ber.GAUGE32, ber.COUNTER64, ber.NULL_TAG)


@given(
    st.sampled_from(sorted(WRITABLE_SYNTAXES, key=lambda syntax: syntax.value)),
    st.sampled_from(TAGS),
    st.binary(max_size=40),
)
def test_any_octets_are_a_value_or_a_status(syntax: Syntax, tag: int, content: bytes) -> None:
    try:
        tlv, _ = ber.read_value(raw := ber.encode_tlv(tag, content), 0, len(raw))
    except ber.BerError:
        return  # no message, so nobody asks
    with contextlib.suppress(WrittenValueError):
        read(tlv, TYPES.get(syntax, ValueType.S64), syntax)


@given(
    st.one_of(
        st.tuples(st.just(Syntax.INTEGER32), st.just(ValueType.S32), st.integers(-(2**31), 2**31 - 1)),
        st.tuples(st.just(Syntax.GAUGE32), st.just(ValueType.U32), st.integers(0, 2**32 - 1)),
        st.tuples(st.just(Syntax.DECIMAL), st.just(ValueType.S64), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just(Syntax.FLOAT64), st.just(ValueType.F64), st.floats(allow_nan=False)),
        st.tuples(st.just(Syntax.FLOAT_TEXT), st.just(ValueType.F64), st.floats(allow_nan=False)),
        st.tuples(st.just(Syntax.TRUTH), st.just(ValueType.BOOL), st.booleans()),
        # An escape has up to ten characters.
        st.tuples(st.just(Syntax.TEXT), st.just(ValueType.STRING), st.text(max_size=25)),
        st.tuples(st.just(Syntax.TEXT), st.just(ValueType.STRING), st.text("\\nx5c\n\x1b", max_size=25)),
        st.tuples(st.just(Syntax.OCTETS), st.just(ValueType.BYTES), st.binary(max_size=60)),
        st.tuples(
            st.just(Syntax.OCTETS),
            st.just(ValueType.BYTES),
            st.text("\\nx5c\n\x1b", max_size=60).map(str.encode),
        ),
        st.tuples(st.just(Syntax.UUID), st.just(ValueType.UUID), st.uuids()),
    )
)
def test_what_is_shown_is_read_as_it_was(reported: tuple[Syntax, ValueType, FeedValue]) -> None:
    syntax, type_, value = reported
    shown = value_encoder(entry(syntax).form)(value)
    if shown is not None and not (isinstance(value, str) and "\ud800" <= max(value, default="") <= "\udfff"):
        assert read(shown, type_, syntax) == value


def test_what_is_shown_may_say_less_than_the_value() -> None:
    shown = octets("x" * 255)
    assert may_differ(entry(Syntax.TEXT), shown, 300)
    assert not may_differ(entry(Syntax.TEXT), shown, 255)
    assert not may_differ(entry(Syntax.TEXT), shown, None)
    assert may_differ(entry(Syntax.UNSIGNED32, "seconds"), b"\x42\x01\x07", None)
    assert may_differ(entry(Syntax.DATE_AND_TIME), date_and_time(0) or b"", None)
    assert may_differ(entry(Syntax.ENUMERATION), b"\x02\x01\x01", None)
    assert not may_differ(entry(Syntax.ENUMERATION), b"\x02\x01\x02", None)
