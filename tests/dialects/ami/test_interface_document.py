"""The examples of the interface document, including its errors."""

from __future__ import annotations

import pytest

from gateway.dialects.ami.codec import Received, read_line
from gateway.dialects.ami.deviations import Reading
from gateway.dialects.ami.instructions import Exit, Instruction, Login, Option, Status
from gateway.dialects.ami.values import AmiValue, Double, Enum, Long, Utc
from gateway.dialects.errors import ProtocolError

LINES: list[tuple[bytes, Instruction]] = [
    (
        b'L|I="12n3f321g19"|APP="SOR"|MEM=12000|STAT="OKAY"|O="UNIX,LOG"',
        Login(
            "12n3f321g19",
            frozenset({Option.UNIX, Option.LOG}),
            values={"APP": "SOR", "MEM": 12000, "STAT": "OKAY"},
        ),
    ),
    (
        b'S#1@1374353639915|MEM=13000|env="Prod"',
        Status({"MEM": 13000, "env": "Prod"}, sequence=1, now=1374353639915),
    ),
    (
        b'S#2@1374353639925|MEM=15500|STAT="BAD"|env=null',
        Status({"MEM": 15500, "STAT": "BAD", "env": None}, sequence=2, now=1374353639925),
    ),
    (
        b'S#3@1374353639955|STAT="OKAY"|MSG="Back to normal"',
        Status({"STAT": "OKAY", "MSG": "Back to normal"}, sequence=3, now=1374353639955),
    ),
]

VALUES: list[tuple[bytes, AmiValue]] = [
    (b"-234", -234),
    (b"234L", Long(234)),
    (b"123.123D", Double(123.123)),
    (b"123D", Double(123)),  # decimals are optional
    (b"123F", 123.0),
    (b"123.123", 123.123),
    (b'"what"', "what"),
    (b"'this'", Enum("this")),
    (b"1422059533454T", Utc(1422059533454)),
    (b'"20140503"T(yyyyMMdd)', Utc(1399075200000)),
    (b'"12fs1323"U', bytes.fromhex("d767ecd77db7")),
    (b"true", True),
    (b"false", False),
    (b"null", None),
]


@pytest.mark.parametrize(("line", "instruction"), LINES)
def test_instructions(line: bytes, instruction: Instruction) -> None:
    assert read_line(line, Reading.STRICT) == Received(instruction)


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_the_column_of_values(text: bytes, value: AmiValue) -> None:
    assert read_line(b"X|value=" + text, Reading.STRICT) == Received(Exit({"value": value}))


@pytest.mark.parametrize("text", [b"Null", rb'"{this:\"that\"}J', rb'"{this:\"that\"}"J'])
def test_its_slips_are_no_values(text: bytes) -> None:
    """A null in upper case, JSON without its closing quote, and a JSON key without quotes are refused."""
    for reading in Reading:
        with pytest.raises(ProtocolError):
            read_line(b"X|value=" + text, reading)
