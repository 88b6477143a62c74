"""Any octets are read as instructions or raise the one error, in time linear in their length."""

from __future__ import annotations

import dataclasses
import tracemalloc
from contextlib import suppress
from time import process_time
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.ami import parameters
from gateway.dialects.ami.codec import Received, read_line, write_instruction
from gateway.dialects.ami.deviations import Reading
from gateway.dialects.ami.instructions import Comment, Exit, Instruction, Status
from gateway.dialects.ami.lines import MAX_LINE, Lines
from gateway.dialects.ami.values import AmiValue
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from tests.dialects.ami.examples import EXAMPLES
from tests.dialects.ami.strategies import INSTRUCTIONS, KEYS, VALUES

_LINES = [line for _, line in EXAMPLES]
_PIECES = st.sampled_from(
    [
        *(
            b"|",
            b"=",
            b"#",
            b"@",
            b'"',
            b"'",
            b"\\",
            b"\r",
            b"\n",
            b"-",
            b".",
            b"+",
            b"_",
            b" ",
            b"\xff",
            b"\xe9",
        ),
        *(b"O", b"x", b"T", b"I", b"AB", b"level", b"1", b"23", b"L", b"F", b"D", b"d", b"e5", b"J", b"U"),
        *(
            b'|T="Tank"',
            b"|a=",
            b'"a"',
            b"'a'",
            b"null",
            b"true",
            b"\\u00e9",
            b"\\ud83d",
            b'"2024"T(yyyy)',
            b"5T",
        ),
    ]
)


def _read(octets: bytes) -> list[Received | None]:
    """Read each line in both modes, and write the valid ones again; return the results of lenient reading."""
    found: list[Received | None] = []
    for piece in Lines().feed(octets + b"\n"):
        assert isinstance(piece, bytes)
        with suppress(ProtocolError):
            strict = read_line(piece, Reading.STRICT)
            assert not strict.deviations
            assert read_line(piece, Reading.LENIENT) == strict
        try:
            received = read_line(piece, Reading.LENIENT)
        except ProtocolError:
            found.append(None)
            continue
        found.append(received)
        if not isinstance(received.instruction, Comment):
            with suppress(LocalProtocolError):
                again = write_instruction(received.instruction)
                assert read_line(again[:-1], Reading.STRICT) == Received(received.instruction)
    return found


@given(st.binary(max_size=200))
def test_any_octets(octets: bytes) -> None:
    _read(octets)
    _read(b'O|T="Tank"|' + octets)


@given(st.lists(_PIECES, max_size=30))
def test_pieces_of_lines_in_any_order(pieces: list[bytes]) -> None:
    _read(b"".join(pieces))
    _read(b'O|T="Tank"' + b"".join(pieces))


@given(st.sampled_from(_LINES), st.data())
def test_good_lines_cut_off(line: bytes, data: st.DataObject) -> None:
    _read(line[: data.draw(st.integers(0, len(line)))])


@given(st.sampled_from(_LINES), st.data())
def test_good_lines_with_other_octets_in_them(line: bytes, data: st.DataObject) -> None:
    changed = bytearray(line)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    _read(bytes(changed))


@given(
    st.dictionaries(KEYS, VALUES, max_size=8),
    st.none() | st.integers(0, 2**63 - 1),
    st.none() | st.integers(0, 2**63 - 1),
)
def test_what_is_written_is_read_again(
    values: dict[str, AmiValue], sequence: int | None, now: int | None
) -> None:
    instruction = Status(values, sequence=sequence, now=now)
    line = write_instruction(instruction)
    for reading in Reading:
        assert read_line(line[:-1], reading) == Received(instruction)


@given(INSTRUCTIONS, st.integers(0, 2**63 - 1))
def test_every_instruction_may_have_a_number(instruction: Instruction, sequence: int) -> None:
    numbered = dataclasses.replace(instruction, sequence=sequence)
    assert read_line(write_instruction(numbered)[:-1], Reading.STRICT) == Received(numbered)


@given(st.lists(_PIECES, max_size=20))
def test_both_ways_to_read_parameters_agree(pieces: list[bytes]) -> None:
    """The fast path for plain parameters and the general path give the same result."""
    octets = b'O|T="Tank"|a=1|b="x"' + b"".join(pieces)
    found = _read(octets)
    with mock.patch.object(parameters, "_read_plain", lambda _, position, *__: position):
        assert _read(octets) == found


WORST = [
    b"X|" + b"a" * MAX_LINE,
    b"X|a=" + b"1" * MAX_LINE,
    b"X|a=" + b"1." * (MAX_LINE // 2),
    b'X|a="' + b"\\" * MAX_LINE,
    b'X|a="' + b"\\u0041" * (MAX_LINE // 6),
    b'X|a="' + b"\\n" * (MAX_LINE // 2 - 8) + b'"',
    b'X|a="' + b"[" * (MAX_LINE - 8) + b'"J',
    b'X|a="' + b"\\ud83d" * (MAX_LINE // 6 - 2) + b'"',
    b'X|a="' + b" " * (MAX_LINE - 8) + b'"T(yyyy)',
    b'X|a="2024"T(' + b"'" * MAX_LINE,
    b"X" + b"|a" * (MAX_LINE // 2),
    b"X" + b"|a=1" * (MAX_LINE // 4),
    b"X" + b"|a=+1F" * (MAX_LINE // 6),
    b"X" + b"#1" * (MAX_LINE // 2),
    b'X|a="' + b'"|b="' * (MAX_LINE // 5),
    b"X|a=" + b"\xff" * MAX_LINE,
    b"X|a=\r" * (MAX_LINE // 5),
]


@pytest.mark.parametrize("line", WORST, ids=lambda line: line[:12].decode("latin-1"))
def test_the_longest_lines_take_no_longer_than_their_octets(line: bytes) -> None:
    began = process_time()
    with suppress(ProtocolError):
        read_line(line[:MAX_LINE])
    assert process_time() - began < 20


def test_what_is_kept_of_a_line_without_end_is_bounded() -> None:
    lines, piece = Lines(), b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(1024):  # 64 MiB
            lines.feed(piece)
            lines.feed(b"\\\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MAX_LINE
    lines.feed(b"\n")
    assert lines.feed(b"X\n") == [b"X"]


def test_a_line_in_many_pieces_takes_no_longer_than_its_octets() -> None:
    lines = Lines()
    began = process_time()
    for _ in range(MAX_LINE // 16):
        lines.feed(b"|of=16,it's big\"")
    assert process_time() - began < 20
    assert len(lines.feed(b"\n")) == 1


def test_messages_keep_nothing_of_their_input() -> None:
    received = read_line(b'X|reason="eod"|n=+0005')
    assert received == Received(Exit({"reason": "eod", "n": 5}))
    assert isinstance(received.instruction, Exit)
    changed = dataclasses.replace(received.instruction, values={**received.instruction.values, "n": 6})
    assert write_instruction(changed) == b'X|reason="eod"|n=6\n'
