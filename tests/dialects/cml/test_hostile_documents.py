"""Any octets are read as a message or raise the one error, in time linear in their length."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.cml.codec import _command, read_message, write_message
from gateway.dialects.cml.documents import MAX_BODY, read_document
from gateway.dialects.cml.messages import SchemaReply, Spelling, UnknownCommand
from gateway.dialects.cml.safety import Assurance
from gateway.dialects.cml.schema import read_classes
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from tests.dialects.cml.examples import OPENAMQ, SPECIFICATION
from tests.dialects.cml.recordings import HEAD, exchange
from tests.dialects.cml.test_schema import OF_THE_SPECIFICATION

_BODIES = [body for _, body in OPENAMQ + SPECIFICATION] + [
    OF_THE_SPECIFICATION,
    exchange("inspect-broker-001").replies[0],
    exchange("name-utf8-3-qb1").replies[0],
]
_PIECES = st.sampled_from(
    [
        *(b"<", b">", b"/>", b"</", b'"', b"'", b"=", b" ", b"&", b"&#", b";", b"\0", b"\xff", b"\xe9", b"x"),
        *(b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<?", b"?>", b"<!DOCTYPE a>", b"&Atilde;", b"cml"),
        *(b"<cml>", b"</cml>", b"<inspect-reply>", b"</inspect-reply>", b"object='1'"),
        *(b'<field name="a">', b"</field>", b'<field name="', b'">', b'</field><field name="b">'),
    ]
)


def _read(body: bytes) -> None:
    """Read ``body``, and write it again if that is possible."""
    with suppress(ProtocolError, LocalProtocolError):
        message = read_message(body)
        if isinstance(message, SchemaReply):
            read_classes(message)
        if not isinstance(message, UnknownCommand):
            write_message(message, Spelling.OPENAMQ, frozenset(Assurance))


@given(st.binary(max_size=200))
def test_any_octets(octets: bytes) -> None:
    _read(octets)
    _read(HEAD + octets)


@given(st.lists(_PIECES, max_size=40))
def test_pieces_of_documents_in_any_order(pieces: list[bytes]) -> None:
    _read(b"".join(pieces))
    _read(HEAD + b"".join(pieces))


@given(st.sampled_from(_BODIES), st.data())
def test_good_bodies_cut_off(body: bytes, data: st.DataObject) -> None:
    _read(body[: data.draw(st.integers(0, len(body)))])


@given(st.sampled_from(_BODIES), st.data())
def test_good_bodies_with_other_octets_in_them(body: bytes, data: st.DataObject) -> None:
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    _read(bytes(changed))


@given(st.lists(_PIECES, max_size=12))
def test_both_ways_to_read_a_reply_agree(pieces: list[bytes]) -> None:
    """The fast path for the form that OpenAMQ generates and the general path give the same result."""
    begin = b'<inspect-reply class="c" object="7" status="ok"><field name="a">'
    body = HEAD + begin + b"".join(pieces) + b"</field></inspect-reply></cml>\0"
    try:
        expected = _command(read_document(body))
    except ProtocolError:
        with pytest.raises(ProtocolError):
            read_message(body)
    else:
        assert read_message(body) == expected


_LONG = [
    b"<",
    b"< ",
    b"<a>",
    b"<a ",
    b"</a>",
    b'<a b="',
    b"<a b='\"' ",
    b'<a b="1" ',
    b' a="1"',
    b"&",
    b"&#1;",
    b"&Atilde;",
    b"<!--",
    b"<!---->",
    b"<?",
    b"<?x?>",
    b"<![CDATA[",
    b"<![CDATA[]]>",
    b"<!DOCTYPE a>",
    b"<!DOCTYPE '\"",
    b'<field name="a">1</field>',
    b'<field name="',
    b"\0",
    b" ",
    b"\xff",
]


@pytest.mark.parametrize("piece", _LONG)
@pytest.mark.parametrize("head", [b"", HEAD + b'<inspect-reply class="c" object="7" status="ok">', b"<cml "])
def test_time_is_linear_in_the_length(piece: bytes, head: bytes) -> None:
    def seconds(length: int) -> float:
        body = head + piece * (length // len(piece))
        start = process_time()
        _read(body)
        return process_time() - start

    seconds(1000)
    short, long = (min(seconds(length) for _ in range(3)) for length in (20_000, 160_000))
    # Eight times the octets: quadratic time would be 64 times as long. What takes less than a clock on a busy
    # machine can tell is passed over.
    assert long < 30 * max(short, 0.05)


@pytest.mark.parametrize("piece", [b"< ", b"<&", b"&", b'" "', b"<?x?>t", b" a='1'", b" a", b" 'a'"])
@pytest.mark.parametrize("head", [b"<a>", b"<a ", b"<!DOCTYPE a", b"<a><b ", b"<a b='"])
def test_memory_is_bounded_by_the_length(head: bytes, piece: bytes) -> None:
    """The bound includes the state of a regular expression, once 120 octets for each ``<`` of a text."""
    body = head + piece * ((1 << 20) // len(piece))
    tracemalloc.start()
    try:
        _read(body)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 12 * len(body)


def test_bodies_beyond_the_bound_are_not_looked_at() -> None:
    for body in (b"<" * (64 << 20), HEAD + b"<a>" * (22 << 20), _generated(2_000_000)):
        assert len(body) > MAX_BODY
        start = process_time()
        with pytest.raises(ProtocolError, match="at most"):
            read_message(body)
        assert process_time() - start < 60


def _generated(fields: int) -> bytes:
    inside = b'<field name="queue">1234567</field>' * fields
    begin = b'<inspect-reply class="broker" object="0" status="ok">'
    return HEAD + begin + inside + b"</inspect-reply></cml>\0"


def test_a_listing_of_a_hundred_thousand_queues_is_read() -> None:
    message = read_message(_generated(100_000))
    assert len(message.fields) == 100_000  # type: ignore[union-attr]


def test_both_ways_have_the_same_bounds() -> None:
    with pytest.raises(ProtocolError, match="at most"):
        read_message(_generated(131_071))
