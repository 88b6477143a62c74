"""Each instruction in both directions, and the requirements of each of them."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.dialects.ami.codec import LineEnd, Received, read_line, stated_sequence, write_instruction
from gateway.dialects.ami.deviations import Deviation, Reading
from gateway.dialects.ami.instructions import (
    Alert,
    Command,
    Comment,
    Delete,
    Exit,
    Instruction,
    Login,
    ObjectUpdate,
    Pause,
    Reply,
    Response,
    Selection,
    Status,
    Trigger,
)
from gateway.dialects.ami.lines import MAX_LINE
from gateway.dialects.ami.parameters import MAX_PARAMETERS
from gateway.dialects.ami.values import Json
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from tests.dialects.ami.examples import EXAMPLES


@pytest.mark.parametrize(("instruction", "line"), EXAMPLES)
def test_each_instruction_is_written_and_read(instruction: Instruction, line: bytes) -> None:
    assert write_instruction(instruction) == line + b"\n"
    for reading in Reading:
        assert read_line(line, reading) == Received(instruction)


def test_values_keep_their_order() -> None:
    found = read_line(b'O|z=1|T="Tank"|a=2|m="x\\n"|b=3').instruction
    assert isinstance(found, ObjectUpdate)
    assert list(found.values) == ["z", "a", "m", "b"]


def test_a_changed_field_is_seen_in_the_line() -> None:
    found = read_line(b'R|I="k9Qz"|S=3|M="halted"|state="HALTED"').instruction
    assert isinstance(found, Response)
    assert write_instruction(dataclasses.replace(found, status=1)) == (
        b'R|I="k9Qz"|S=1|M="halted"|state="HALTED"\n'
    )
    assert write_instruction(dataclasses.replace(found, values={})) == b'R|I="k9Qz"|S=3|M="halted"\n'


def test_lines_end_as_is_asked_for() -> None:
    assert write_instruction(Exit(), LineEnd.UNIX) == b"X\n"
    assert write_instruction(Exit(), LineEnd.WINDOWS) == b"X\n\r"


def test_a_comment_is_no_instruction() -> None:
    line = b"# what follows is a test"
    expected = Comment(" what follows is a test")
    assert read_line(line) == Received(expected, frozenset({Deviation.COMMENT}))
    with pytest.raises(ProtocolError, match="not a comment"):
        read_line(line, Reading.STRICT)


def test_a_plugin_has_two_keys() -> None:
    assert read_line(b'L|I="a"|P="org.x.Y"') == Received(Login("a", plugin="org.x.Y"))
    with pytest.raises(ProtocolError, match="one plugin"):
        read_line(b'L|I="a"|P="org.x.Y"|PL="org.x.Z"')


def test_null_stands_for_an_optional_key_that_is_absent() -> None:
    line = b'O|T="Tank"|I=null|E=null|A=null|level=null'
    assert read_line(line) == Received(ObjectUpdate("Tank", values={"level": None}))
    assert read_line(b'L|I="a"|O=null|PL=null') == Received(Login("a"))
    assert read_line(b'E|I="r"|C="c"|U="u"|V=null') == read_line(b'E|I="r"|C="c"|U="u"')


def test_triggers_and_fields_of_a_command() -> None:
    found = read_line(b'C|I="c"|N="n"|C="user_open_layout,user_close_layout"|F="a,b"').instruction
    assert isinstance(found, Command)
    assert found.triggers == {Trigger.USER_OPEN_LAYOUT, Trigger.USER_CLOSE_LAYOUT}
    assert found.fields == ("a", "b")


@pytest.mark.parametrize(
    ("text", "selection"),
    [
        (b'"1"', Selection(1, 1)),
        (b'"3-"', Selection(3, None)),
        (b'"0-4"', Selection(0, 4)),
    ],
)
def test_how_many_rows_a_command_needs(text: bytes, selection: Selection) -> None:
    assert read_line(b'C|I="c"|N="n"|M=' + text) == Received(Command("c", "n", selection=selection))


REFUSED = [
    (b"", "type of an instruction"),
    (b"?", "type of an instruction"),
    (b'V|T="x"', "type of instruction"),
    (b"X\nX", "one line"),
    (b"L", "a string as I of L"),
    (b'L|I="a"|O=5', "a string as O of L"),
    (b'L|I="a"|O="quiet"', "options of L"),
    (b'L|I="a"|O=""', "options of L"),
    (b'L|I="{}"J', "a string as I of L"),
    (b'A|I="a"|T="Leak"', "an int as L of A"),
    (b'A|I="a"|L=1L|T="Leak"', "an int as L of A"),
    (b'A|I="a"|L=1', "a string as T of A"),
    (b'O|T="Tank"|E=5T', "a long"),
    (b'O|T="Tank"|I=5', "a string as I of O"),
    (b'D|T=null|I="a"', "a string as T of D"),
    (b'C|I="c"|N="n"|M="x"', "a number of rows"),
    (b'C|I="c"|N="n"|M="5-2"', "the smaller number"),
    (b'C|I="c"|N="n"|C="sometimes"', "triggers"),
    (b'C|I="c"|N="n"|A="[]"', "a form"),
    (b'C|I="c"|N="n"|P="0"', "an int as P of C"),
    (b"R|S=0", "a string as I of R"),
    (b'R|I="a"', "an int as S of R"),
    (b'R|I="a"|S=true', "an int as S of R"),
    (b"H|a=1", "no other key in H"),
    (b"P|D=5|a=1", "no other key in P"),
    (b"P", "an int as D of P"),
    (b"P|D=-1", "above 0"),
    (b"M|S=0", "a number as Q of M"),
    (b"M|Q=5T|S=0", "a number as Q of M"),
    (b"M|Q=true|S=0", "a number as Q of M"),
    (b"M|Q=1", "an int as S of M"),
    (b'E|I="r"|C="c"', "a string as U of E"),
    (b'E|I="r"|C="c"|U="u"|V="[]"', "JSON as V of E"),
    (b'O|T="Tank"|B=1', "not reserved"),
    (b"X|a", "a key"),
    (b"X|", "a key"),
    (b"X|a=1x|b=2", "a value"),
    (b'X|a="b"c', r"\| behind a value"),
    (b'X|a="b" ', r"\| behind a value"),
    (b"X|" + b"k" * 201 + b"=1", "a key of at most"),
    (b"X#99999999999999999999", "64 bits behind #"),
    (b"X@9223372036854775808", "64 bits behind @"),
    (b"X@1@1", "@ once"),
]


@pytest.mark.parametrize(("line", "why"), REFUSED)
def test_what_is_refused_however_it_is_read(line: bytes, why: str) -> None:
    for reading in Reading:
        with pytest.raises(ProtocolError, match=why):
            read_line(line, reading)


def test_a_refusal_does_not_repeat_what_may_be_a_secret() -> None:
    for line in (b"X|password=hunter2", b'X|password="hunter2', b'X|password="hunter2"T'):
        with pytest.raises(ProtocolError) as refused:
            read_line(line)
        assert "hunter2" not in str(refused.value)


FORGIVEN: list[tuple[bytes, Instruction, Deviation]] = [
    (b"x|a=1", Exit({"a": 1}), Deviation.LOWER_CASE_TYPE),
    (b"X@5#4|a=1", Exit({"a": 1}, sequence=4, now=5), Deviation.HEAD_ORDER),
    (b"X|a=1#4@5", Exit({"a": 1}, sequence=4, now=5), Deviation.HEAD_ORDER),
    (b'X|a="1"@5|b=2', Exit({"a": "1", "b": 2}, now=5), Deviation.HEAD_ORDER),
    (b"X|a=\r1", Exit({"a": 1}), Deviation.CARRIAGE_RETURN),
    (b'X|a="\xc3\xa9"', Exit({"a": "é"}), Deviation.NOT_ASCII),
    (b'X|a="\xe9"', Exit({"a": "é"}), Deviation.NOT_ASCII),
    (b'X|a="\t"', Exit({"a": "\t"}), Deviation.RAW_CONTROL),
    (b'X|a="1\\|2"', Exit({"a": "1|2"}), Deviation.ESCAPED_PIPE),
    (b"X|a=1e3", Exit({"a": 1000.0}), Deviation.EXPONENT),
    (b'X|a="\\ud83d"', Exit({"a": "\ufffd"}), Deviation.LONE_SURROGATE),
    (b"X|a=1|a=2", Exit({"a": 2}), Deviation.DUPLICATE_KEY),
    (b"X|a=+1F|a=2", Exit({"a": 2}), Deviation.DUPLICATE_KEY),
    (b"X|a=2|a=+1F", Exit({"a": 1.0}), Deviation.DUPLICATE_KEY),
    (b"X|AB=1", Exit({"AB": 1}), Deviation.RESERVED_KEY),
    (b"X|U=1", Exit({"U": 1}), Deviation.RESERVED_KEY),
    (b'R|I="a"|S=0|V="x"', Response("a", 0, values={"V": "x"}), Deviation.RESERVED_KEY),
    (b'D|T="Tank"|serial=5', Delete("Tank", None, {"serial": 5}), Deviation.MISSING_ID),
    (b'C|I="c"', Command("c", "c"), Deviation.MISSING_NAME),
]


@pytest.mark.parametrize(("line", "instruction", "deviation"), FORGIVEN)
def test_what_only_relays_take(line: bytes, instruction: Instruction, deviation: Deviation) -> None:
    assert read_line(line, Reading.LENIENT) == Received(instruction, frozenset({deviation}))
    with pytest.raises(ProtocolError) as refused:
        read_line(line, Reading.STRICT)
    assert refused.value.expected == deviation.value


def test_level_0_deletes_an_object_in_a_relay() -> None:
    line = b'O|T="Tank"|I="t1"|L=0|why="sold"'
    expected = Delete("Tank", "t1", {"why": "sold"})
    assert read_line(line) == Received(
        expected, frozenset({Deviation.DELETE_BY_LEVEL, Deviation.RESERVED_KEY})
    )
    with pytest.raises(ProtocolError):
        read_line(line, Reading.STRICT)
    other = read_line(b'O|T="Tank"|I="t1"|L=2').instruction
    assert other == ObjectUpdate("Tank", "t1", values={"L": 2})


@pytest.mark.parametrize(
    ("line", "sequence"),
    [
        (b"O#12@5|T=wrong", 12),
        (b"o@5#12", 12),
        (b"O#12#13", 12),
        (b"O|T=wrong#12", None),
        (b"O#", None),
        (b"O#1234567890123456789", None),
        (b"", None),
        (b"#5", None),
    ],
)
def test_a_refused_line_may_still_have_a_number(line: bytes, sequence: int | None) -> None:
    assert stated_sequence(line) == sequence


UNWRITABLE: list[Instruction] = [
    Exit({"my-key": 1}),
    Exit({"": 1}),
    Exit({"k" * 201: 1}),
    Exit({"A": 1}),
    Exit({"AB": 1}),
    Exit({"a": "x" * MAX_LINE}),
    Exit({f"k{number}": 1 for number in range(MAX_PARAMETERS)}),
    Exit(sequence=-1),
    Exit(now=1 << 63),
    Status({"a": 1 << 31}),
    ObjectUpdate("__Tank"),
    Alert("a", 1, "__Leak"),
    Delete("Tank", None, {"serial": 5}),
    Command("c", "n", fields=("a,b",)),
    Command("c", "n", fields=("",)),
    Command("c", "n", triggers=frozenset()),
    Command("c", "n", selection=Selection(-1, 1)),
    Command("c", "n", selection=Selection(2, 1)),
    Command("c", "n", selection=Selection(10**9, None)),
    Pause(0),
    Response("a", 1 << 31),
    Reply(1 << 63, 0),
    Status({"a": Json("{")}),
]


@pytest.mark.parametrize("instruction", UNWRITABLE)
def test_what_cannot_be_said_is_refused(instruction: Instruction) -> None:
    with pytest.raises(LocalProtocolError):
        write_instruction(instruction)


def test_more_parameters_than_the_bound_are_refused() -> None:
    line = b"X" + b"".join(b"|k%d=1" % number for number in range(MAX_PARAMETERS + 1))
    with pytest.raises(ProtocolError, match="at most 10000 parameters"):
        read_line(line)
