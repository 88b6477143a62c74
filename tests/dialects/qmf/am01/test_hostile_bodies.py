"""Any octets are read as messages or raise the one protocol error, in time linear in their length."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.am01.codec import MAX_BODY, read, write
from gateway.dialects.qmf.messages import UnknownClass, UnknownOpcode
from tests.dialects.qmf.am01.examples import COUNTS, KEY_OCTETS, TIMES_AND_ID, shop
from tests.dialects.qmf.am01.opcode_examples import EXAMPLES
from tests.dialects.qmf.am01.recordings import FILES, definitions, recorded

SHOP = shop()
_KEYS = st.sampled_from(sorted({key for _, key, _, _ in EXAMPLES} | {"mgmt.event.shop.tank.info"}))
_HEADERS = st.sampled_from(
    [b"AM01" + code.encode() + kind for code in "SCMRmsHIPpQqAaE" for kind in (b"\0", b"C", b"I")]
    + [b"AM1" + code.encode() + b"\0\0\0\x01" for code in "BbzPpQqSscigGMmAa"]
)


def _try(key: str, body: bytes) -> None:
    """Read ``body`` and, if it contains a known message, write that again."""
    try:
        found = read(key, body, SHOP, extended=True)
    except ProtocolError:
        return
    assert found.revisions
    if isinstance(found.message, UnknownClass | UnknownOpcode):
        return
    for revision in found.revisions:
        try:
            octets = write(found.message, revision, SHOP, extended=True)
        except LocalProtocolError:
            continue  # octets that are no UTF-8 grow when they are shown
        again = read(key, octets, SHOP, frozenset((revision,)), extended=True)
        # Not a number is not itself; everything else is.
        assert repr(again.message) == repr(found.message)


@given(_KEYS, st.binary(max_size=200))
def test_any_octets(key: str, octets: bytes) -> None:
    _try(key, octets)


@given(_KEYS, _HEADERS, st.binary(max_size=200))
def test_any_octets_behind_a_good_header(key: str, header: bytes, octets: bytes) -> None:
    _try(key, header + octets)


@given(st.sampled_from([(key, octets) for _, key, octets, _ in EXAMPLES]), st.data())
def test_good_bodies_cut_off_or_with_other_octets(example: tuple[str, bytes], data: st.DataObject) -> None:
    key, body = example
    changed = bytearray(body[: data.draw(st.integers(1, len(body)))])
    for _ in range(data.draw(st.integers(0, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    _try(key, bytes(changed))


@given(st.sampled_from(FILES), st.data())
def test_recorded_bodies_with_other_octets_in_them(file: str, data: st.DataObject) -> None:
    one = data.draw(st.sampled_from([one for one in recorded(file) if one.body]))
    changed = bytearray(one.body)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert read(one.key, bytes(changed), definitions()).revisions
    except ProtocolError:
        return


def _nested(levels: int) -> bytes:
    """Return a table with maps nested to this depth."""
    coded = b"\xf0"
    for _ in range(levels):
        content = b"\x01v" + coded
        coded = b"\xa8" + (len(content) + 4).to_bytes(4, "big") + b"\0\0\0\x01" + content
    return (len(coded) + 2).to_bytes(4, "big") + b"\x01v" + coded


_NAMELESS = b"\0\0\0\0" * ((MAX_BODY - 100) // 4)


@pytest.mark.parametrize(
    ("key", "body"),
    [
        ("agent", bytes(64 << 20)),
        ("agent", b"AM1G\0\0\0\x01\0\0\xff\xf0" + b"\0\xf0" * ((MAX_BODY - 12) // 2)),
        ("agent", b"AM1G\0\0\0\x01" + _nested(5_000)),
        ("agent", b"AM1G\0\0\0\x01\xff\xff\xff\xff"),
        ("", b"AM01s\0" + KEY_OCTETS + b"\xff" * 8 + _NAMELESS),
        ("", b"AM01s\0" + KEY_OCTETS + COUNTS + b"\0\0\0\x10\x08argCount\x21\x7f\xff\xff\xff" + _NAMELESS),
        (
            "mgmt.inst.tank",
            b"AM01CI\x04tank" + TIMES_AND_ID + bytes(12) + b"\xff\xff\xff\xff" + bytes(60_000),
        ),
    ],
    ids=["zeros", "voids", "nested", "longer than it is", "nameless", "many arguments", "long text"],
)
def test_the_worst_bodies_end_soon(key: str, body: bytes) -> None:
    began = process_time()
    with pytest.raises(ProtocolError):
        read(key, body[: MAX_BODY + 1] if len(body) < 1 << 20 else body, SHOP)
    assert process_time() - began < 60
