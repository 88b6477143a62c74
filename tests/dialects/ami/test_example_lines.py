"""Lines as applications send them, with the meaning of each: valid and invalid ones, each for one reason.

Errors that depend on the session (logged in or not, the open commands) are not detected here: those lines are
good instructions.
"""

from __future__ import annotations

import pytest

from gateway.dialects.ami.codec import Received, read_line
from gateway.dialects.ami.deviations import Deviation, Reading
from gateway.dialects.ami.instructions import (
    Delete,
    Exit,
    Help,
    Instruction,
    Login,
    ObjectUpdate,
    Option,
    Pause,
    Response,
    Status,
)
from gateway.dialects.ami.values import Double, Json, Long, Utc
from gateway.dialects.errors import ProtocolError

VALID: list[tuple[int, bytes, Instruction]] = [
    (
        1,
        b'L#0@1700000000000|I="pump-7"|O="UNIX,LOG"|site="north"',
        Login(
            "pump-7",
            frozenset({Option.UNIX, Option.LOG}),
            values={"site": "north"},
            sequence=0,
            now=1700000000000,
        ),
    ),
    (2, b"L|I='pump-7'", Login("pump-7")),
    (6, b'L|I="a"', Login("a")),  # the second one is a session's to refuse
    (7, b'O|T="Tank"|level=3', ObjectUpdate("Tank", values={"level": 3})),  # before a login, too
    (
        8,
        b'O|T="Tank"|I="t1"|level=3|vol=12.5|cap=900L|temp=21.25D',
        ObjectUpdate("Tank", "t1", values={"level": 3, "vol": 12.5, "cap": Long(900), "temp": Double(21.25)}),
    ),
    (9, b'O|T="Tank"|level=4', ObjectUpdate("Tank", values={"level": 4})),
    (11, b'O|T="Tank"|I="t1"|level=null', ObjectUpdate("Tank", "t1", values={"level": None})),
    (12, b'O|T="Tank"|I="t1"|E=-60000L', ObjectUpdate("Tank", "t1", expires=-60_000)),
    (13, b'O|T="Tank"|I="t1"|E=4102444800000L', ObjectUpdate("Tank", "t1", expires=4_102_444_800_000)),
    (15, b'O|T="Tank"|I="t1"|E=1000L', ObjectUpdate("Tank", "t1", expires=1000)),  # past: a session warns
    (18, b'O|T="Tank"|z=1', ObjectUpdate("Tank", values={"z": 1})),
    (
        20,
        rb'O|T="Tank"|note="a|b \"q\" \u00e9\n"',
        ObjectUpdate("Tank", values={"note": 'a|b "q" é\n'}),
    ),
    (27, b'O|T="Tank"|at=1700000000000T', ObjectUpdate("Tank", values={"at": Utc(1700000000000)})),
    (
        27,
        b'O|T="Tank"|at="2024-03-01"T(yyyy-MM-dd)',
        ObjectUpdate("Tank", values={"at": Utc(1709251200000)}),
    ),
    (
        29,
        rb'O|T="Tank"|cfg="{\"k\":[1,2]}"J|raw="AQID"U',
        ObjectUpdate("Tank", values={"cfg": Json('{"k":[1,2]}'), "raw": b"\1\2\3"}),
    ),
    (
        34,
        b"S#4@1700000000900|mem=88|env=null",
        Status({"mem": 88, "env": None}, sequence=4, now=1700000000900),
    ),
    (35, b'D|I="t1"|T="Tank"', Delete("Tank", "t1")),
    (37, b'R|I="nope"|S=0', Response("nope", 0)),  # a session knows that nobody asked
    (39, b"P|D=250", Pause(250)),
    (40, b'X#9|reason="eod"', Exit({"reason": "eod"}, sequence=9)),
    (40, b"H", Help()),
]

INVALID = [
    (3, b'L|O="QUIET"', "I of L"),
    (4, b"L|I=77", "a string as I of L"),
    (5, b'L|I="a"|O="QUIET, LOG"', "options of L"),
    (10, b'O|I="t1"|level=4', "T of O"),
    (14, b'O|T="Tank"|I="t1"|E=-60000', "a long"),
    (16, b'O|T="__X"|a=1', "does not begin with __"),
    (17, b'O|T="Tank"|Z=1', "reserved"),
    (21, rb'O|T="Tank"|note="bad \q"', "an escape"),
    (22, b'O|T="Tank"|note="open', "a closing"),
    (23, b'O|T="Tank"|note=open', "a value"),
    (24, b'O|T="Tank"|on=TRUE', "a value"),
    (25, b'O|T="Tank"|n=3000000000', "an int of 32 bits"),
    (26, b'O|T="Tank"|n=5.5L', "a value"),
    (28, b'O|T="Tank"|at="2024-03-01"T', "the format of a date"),
    (30, b'O|T="Tank"|my-key=1', "a key"),
    (30, b'O|T="Tank"|a b=1', "a key"),
    (30, b'O|T="Tank"|=1', "a key"),
    (31, b'O|T="Tank"|x=1|', "a key"),
    (32, b'O #1|T="Tank"|x=1', r"\|, # or @"),
    (33, b'O#1#2|T="Tank"|x=1', "# once"),
    (33, b'O#|T="Tank"|x=1', "a number of 64 bits behind #"),
    (36, b'D|I="t1"', "T of D"),
    (38, b'R|I="k9Qz"|S="0"', "an int as S of R"),
    (39, b"P|D=0", "above 0"),
    (40, b"Q|a=1", "a type of instruction"),
]


@pytest.mark.parametrize(("number", "line", "instruction"), VALID)
def test_valid_lines(number: int, line: bytes, instruction: Instruction) -> None:
    for reading in Reading:
        assert read_line(line, reading) == Received(instruction), number


@pytest.mark.parametrize(("number", "line", "why"), INVALID)
def test_invalid_lines(number: int, line: bytes, why: str) -> None:
    for reading in Reading:
        with pytest.raises(ProtocolError, match=why):
            assert read_line(line, reading) is None, number


def test_line_19_is_invalid_to_the_document_and_valid_to_a_relay() -> None:
    line = b'O|T="Tank"|AB=1'
    with pytest.raises(ProtocolError, match="two upper-case letters"):
        read_line(line, Reading.STRICT)
    assert read_line(line, Reading.LENIENT) == Received(
        ObjectUpdate("Tank", values={"AB": 1}), frozenset({Deviation.RESERVED_KEY})
    )


def test_each_of_the_40_lines_is_there() -> None:
    assert {number for number, _, _ in VALID} | {number for number, _, _ in INVALID} | {19} == set(
        range(1, 41)
    )
