"""BER by example, round trips, and invalid octets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyasn1.codec.ber import decoder  # type: ignore[import-untyped]
from pysnmp.proto import rfc1902

from gateway.snmp import ber
from gateway.snmp.ber import BerError

sub_identifiers = st.one_of(st.integers(0, 300), st.integers(0, 2**32 - 1))
oids = st.tuples(st.integers(0, 2), st.integers(0, 39), st.lists(sub_identifiers, max_size=126)).map(
    lambda parts: (parts[0], parts[1], *parts[2])
)


@pytest.mark.parametrize(
    ("encoded", "tlv"),
    [
        (ber.encode_integer(0), "020100"),
        (ber.encode_integer(127), "02017f"),
        (ber.encode_integer(128), "02020080"),
        (ber.encode_integer(-1), "0201ff"),
        (ber.encode_integer(-128), "020180"),
        (ber.encode_integer(-129), "0202ff7f"),
        (ber.encode_integer(2**31 - 1), "02047fffffff"),
        (ber.encode_integer(-(2**31)), "020480000000"),
        (ber.encode_counter32(2**32 - 1), "410500ffffffff"),
        (ber.encode_gauge32(0), "420100"),
        (ber.encode_gauge32(255), "420200ff"),
        (ber.encode_time_ticks(100), "430164"),
        (ber.encode_counter64(2**64 - 1), "460900ffffffffffffffff"),
        (ber.encode_counter64(2**63 - 1), "46087fffffffffffffff"),
        (ber.encode_octets(b""), "0400"),
        (ber.encode_octets(b"queue"), "04057175657565"),
        (ber.encode_ip_address(b"\x7f\x00\x00\x01"), "40047f000001"),
        (ber.encode_opaque(b"\x9f\x78"), "44029f78"),
        (ber.encode_oid((0, 0)), "060100"),
        (ber.encode_oid((1, 3, 6, 1, 4, 1, 8072)), "06072b06010401bf08"),
        (ber.encode_oid((2, 999)), "06028837"),
        (ber.encode_oid((1, 3, 2**32 - 1)), "06062b8fffffff7f"),
        (ber.encode_varbind(b"\x2b\x06", ber.NULL), "300606022b060500"),
    ],
)
def test_each_type_has_its_canonical_form(encoded: bytes, tlv: str) -> None:
    assert encoded.hex() == tlv


@pytest.mark.parametrize(
    ("length", "octets"),
    [(0, "00"), (127, "7f"), (128, "8180"), (255, "81ff"), (256, "820100"), (65_536, "83010000")],
)
def test_lengths_take_the_fewest_octets(length: int, octets: str) -> None:
    assert ber.encode_length(length).hex() == octets
    assert ber.encode_tlv(0x04, bytes(length)) == b"\x04" + bytes.fromhex(octets) + bytes(length)


@pytest.mark.parametrize(
    "encode",
    [
        lambda: ber.encode_integer(2**31),
        lambda: ber.encode_integer(-(2**31) - 1),
        lambda: ber.encode_counter32(2**32),
        lambda: ber.encode_gauge32(-1),
        lambda: ber.encode_counter64(2**64),
        lambda: ber.encode_octets(bytes(65_536)),
        lambda: ber.encode_ip_address(b"\x00" * 16),
        lambda: ber.encode_oid((1,)),
        lambda: ber.encode_oid((3, 1)),
        lambda: ber.encode_oid((1, 40)),
        lambda: ber.encode_oid((1, 3, -1)),
        lambda: ber.encode_oid((1, 3, 2**32)),
        lambda: ber.encode_oid((1, 3) + (1,) * 127),
        lambda: ber.sort_key((2**32,)),
        lambda: ber.sort_key((1,) * 129),
    ],
)
def test_what_a_type_cannot_hold_is_refused(encode: object) -> None:
    assert callable(encode)
    with pytest.raises(ValueError, match=r"."):
        encode()


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [
        ("0281020005", "020105"),
        ("0205ffffffffff", "0201ff"),
        ("4106000000000007", "410107"),
        ("4204ffffffff", "420500ffffffff"),
        ("0600", "060100"),
        ("06048001002b", "060301002b"),
        ("06042b800601", "06032b0601"),
        ("048400000001ff", "0401ff"),
        ("0582" + "0000", "0500"),
    ],
)
def test_longer_forms_than_needed_are_read_and_written_short(sent: str, canonical: str) -> None:
    data = bytes.fromhex(sent)
    assert ber.read_value(data, 0, len(data)) == (bytes.fromhex(canonical), len(data))


@pytest.mark.parametrize(
    ("sent", "offset", "expected"),
    [
        ("", 0, "a tag and a length"),
        ("02", 0, "a tag and a length"),
        ("0202ff", 2, "2 octets of content"),
        ("0480", 1, "a definite length"),
        ("0489" + "00" * 9, 1, "a definite length"),
        ("048201", 1, "a definite length"),
        ("0200", 0, "an integer of one octet or more"),
        ("02050100000000", 0, "an integer of 32 bits"),
        ("410501ffffffff", 2, "an unsigned integer of 32 bits"),
        ("4600", 2, "an integer of one octet or more"),
        ("050100", 2, "no content"),
        ("06022b86", 4, "the last octet of a sub-identifier"),
        ("06062b9080808000", 2, "sub-identifiers up to 2^32-1"),
        ("0681802b" + "06" * 127, 3, "at most 128 sub-identifiers"),
        ("4003000000", 0, "a value that SNMP knows"),
        ("130141", 0, "a value that SNMP knows"),
        ("3000", 0, "a value that SNMP knows"),
    ],
)
def test_what_is_no_value_is_reported_with_its_place(sent: str, offset: int, expected: str) -> None:
    data = bytes.fromhex(sent)
    with pytest.raises(BerError) as caught:
        ber.read_value(data, 0, len(data))
    assert (caught.value.offset, caught.value.expected) == (offset, expected)


def test_a_huge_sub_identifier_is_refused_before_it_is_computed() -> None:
    with pytest.raises(BerError) as caught:
        ber.decode_name(b"\x2b" + b"\xff" * 60_000)
    assert caught.value.offset < 10


@given(oids)
def test_names_come_back(oid: ber.Oid) -> None:
    name = ber.encode_name(oid)
    assert ber.decode_name(name) == oid
    assert ber.read_name(ber.encode_oid(oid), 0, len(ber.encode_oid(oid)))[0] == name


@given(st.lists(sub_identifiers, max_size=128).map(tuple))
def test_parts_of_names_and_sort_keys_come_back(part: ber.Oid) -> None:
    assert ber.decode_sub_identifiers(ber.encode_sub_identifiers(part)) == part
    assert ber.from_sort_key(ber.sort_key(part)) == part


@given(oids, oids)
def test_sort_keys_compare_as_the_names_do(one: ber.Oid, other: ber.Oid) -> None:
    assert (ber.sort_key(one) < ber.sort_key(other)) == (one < other)


@given(st.integers(-(2**31), 2**31 - 1))
def test_integers_come_back(value: int) -> None:
    tlv = ber.encode_integer(value)
    assert ber.read_integer(tlv, 0, len(tlv)) == (value, len(tlv))


@given(st.integers(0, 2**64 - 1))
def test_an_independent_codec_reads_our_counters(value: int) -> None:
    assert decoder.decode(ber.encode_counter64(value), asn1Spec=rfc1902.Counter64())[0] == value


@given(oids)
def test_an_independent_codec_reads_our_names(oid: ber.Oid) -> None:
    assert tuple(decoder.decode(ber.encode_oid(oid), asn1Spec=rfc1902.ObjectName())[0]) == oid


@given(st.binary(max_size=64))
def test_any_bytes_give_a_canonical_value_or_the_one_error(data: bytes) -> None:
    try:
        value, end = ber.read_value(data, 0, len(data))
    except BerError:
        return
    assert end <= len(data)
    assert ber.read_value(value, 0, len(value)) == (value, len(value))


@given(st.integers(0, 255), st.binary(max_size=24))
def test_any_content_of_any_type_gives_a_canonical_value_or_the_one_error(tag: int, content: bytes) -> None:
    data = ber.encode_tlv(tag, content)
    try:
        value, end = ber.read_value(data, 0, len(data))
    except BerError:
        return
    assert end == len(data)
    assert ber.read_value(value, 0, len(value)) == (value, len(value))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_name_or_the_one_error(name: bytes) -> None:
    try:
        oid = ber.decode_name(name)
    except BerError:
        assert not ber.is_canonical_name(name)
        return
    assert bool(ber.is_canonical_name(name)) == (ber.encode_name(oid) == name)
