"""Splitting octets into lines, for pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.ami.lines import MAX_COMMAND, Lines, Telnet
from gateway.dialects.errors import ProtocolError


def _lines(octets: bytes, longest: int = 100) -> list[bytes | str]:
    """Return the lines of ``octets``, an error as its text."""
    return [_shown(piece) for piece in Lines(longest).feed(octets)]


def _shown(piece: bytes | ProtocolError) -> bytes | str:
    return piece if isinstance(piece, bytes) else piece.expected


@pytest.mark.parametrize(
    ("octets", "lines"),
    [
        (b"H\nX\n", [b"H", b"X"]),
        (b"H\n\rX\n\r", [b"H", b"X"]),
        (b"H\r\nX\r\n", [b"H", b"X"]),
        (b"\n\n\r\n\rH\n", [b"H"]),
        (b"H", []),
        (b"# a comment\nH\n", [b"# a comment", b"H"]),
        (b"S|a=1\\\n|b=2\n", [b"S|a=1|b=2"]),
        (b'S|a="x\\\r\ny"\r\n', [b'S|a="xy"']),
        (b"S|a=1\\\n\r|b=2\n\r", [b"S|a=1|b=2"]),
        (b"S|a=1\\\n\\\n\\\n|b=2\n", [b"S|a=1|b=2"]),
        (b'S|a="\\\\\n"\n', [b'S|a="\\"']),  # an escaped backslash at the end joins as well
        (b"S|a=1\\\n\nH\n", [b"S|a=1", b"H"]),
        (b"S|a\r=1\n", [b"S|a\r=1"]),
    ],
)
def test_where_lines_end(octets: bytes, lines: list[bytes]) -> None:
    assert _lines(octets) == lines


TOO_LONG = "a line of at most 8 octets"


@pytest.mark.parametrize(
    ("octets", "lines"),
    [
        (b"12345678\n", [b"12345678"]),
        (b"\r12345678\r\n", [b"12345678"]),
        (b"123456789\nH\n", [TOO_LONG, b"H"]),
        (b"123456789012\nH\n", [TOO_LONG, b"H"]),
        (b"12345678901", [TOO_LONG]),
        (b"1234\\\n5678\nH\n", [b"12345678", b"H"]),
        (b"1234\\\n56789\nH\n", [TOO_LONG, b"H"]),
        (b"1234\\\n56789012\\\nstill the same\\\r\nand this\nH\n", [TOO_LONG, b"H"]),
        (b"123456789012\\\nthe same\nH\n", [TOO_LONG, b"H"]),
    ],
)
def test_a_line_that_is_too_long_is_passed_over_to_its_end(octets: bytes, lines: list[bytes | str]) -> None:
    assert _lines(octets, 8) == lines


def test_what_is_passed_over_may_end_later() -> None:
    lines = Lines(8)
    assert [_shown(piece) for piece in lines.feed(b"123456789012")] == [TOO_LONG]
    for octets in (b"34", b"\\", b"\r", b"\n", b"joined with it\n"):
        assert lines.feed(octets) == []
    assert lines.feed(b"H\n") == [b"H"]


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\\", b"\n\r", b"|b=1", b"long" * 5]), max_size=30),
    st.data(),
)
def test_pieces_make_no_difference(parts: list[bytes], data: st.DataObject) -> None:
    octets = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(octets)), max_size=6)))
    lines = Lines(12)
    found: list[bytes | str] = []
    for begin, end in zip([0, *cuts], [*cuts, len(octets)], strict=True):
        found += [_shown(piece) for piece in lines.feed(octets[begin:end])]
    assert found == _lines(octets, 12)


def test_the_end_of_a_connection_reports_what_is_lost() -> None:
    lines = Lines()
    lines.feed(b"H\n\r")
    assert lines.end() == 0
    lines.feed(b"S|a=1\\\n|b=2")
    assert lines.end() == 9
    assert lines.end() == 0
    assert lines.feed(b"") == []


def test_telnet_is_noticed_and_its_commands_are_taken_out() -> None:
    lines = Lines()
    assert lines.feed(b"\xff\xfb\x1f\xff\xfa\x1f\x00P\x00\x18\xff\xf0H\n") == [b"H"]
    assert lines.interactive
    plain = Lines()
    assert plain.feed(b'X|a="\xff"\n') == [b'X|a="\xff"']
    assert not plain.interactive


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_telnet_in_pieces(size: int) -> None:
    octets = b"\xff\xfd\x03ab\xff\xf1c\xff\xffd\xff\xfa\x18\x00x\xff\xf0e\xff\xfc\x01"
    telnet = Telnet()
    found = b"".join(telnet.feed(octets[place : place + size]) for place in range(0, len(octets), size))
    assert found == b"abc\xffde"


def test_a_telnet_command_without_end_holds_nothing_up() -> None:
    telnet = Telnet()
    assert telnet.feed(b"\xff\xfa" + b"x" * (MAX_COMMAND - 3)) == b""
    assert telnet.feed(b"xyz\n") == b"yz\n"
