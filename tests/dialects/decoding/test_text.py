"""Decoding of CML and AMI into values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.ami.lines import MAX_LINE
from gateway.dialects.cml.messages import InspectReply
from gateway.dialects.decoding.plain import Body, Decoded
from gateway.dialects.decoding.text import MAX_LINES, MAX_OCTETS, MAX_STREAMS, AmiDecoder, CmlDecoder
from gateway.dialects.errors import ProtocolError
from tests.dialects.cml.recordings import replies


def cml(text: str) -> Decoded:
    return CmlDecoder().decode(Body(text.encode()))


def ami(text: str) -> Decoded:
    return AmiDecoder().decode(Body(text.encode()))


def test_a_request_as_openamq_writes_it() -> None:
    decoded = cml(
        '<?xml version="1.0"?><cml version="1.0" xmlns="http://www.openamq.org/schema/cml">'
        '<modify-request class="config" object="1"><field name="monitor">5</field></modify-request></cml>\0'
    )
    assert decoded.reencoded is True
    assert decoded.messages == [
        {
            "message": "ModifyRequest",
            "object_id": 1,
            "fields": [{"name": "monitor", "text": "5", "object_id": None}],
            "class_name": "config",
        }
    ]


def test_a_nul_may_end_a_request_and_belongs_to_a_reply() -> None:
    root = '<?xml version="1.0"?><cml version="1.0" xmlns="http://www.openamq.org/schema/cml">'
    request = f'{root}<inspect-request object="5"/></cml>'
    assert [cml(request + end).reencoded for end in ("", "\0", "\0\0")] == [True, True, False]
    reply = next(body for body in replies() if body.endswith(b"\0"))
    assert [CmlDecoder().decode(Body(body)).reencoded for body in (reply, reply[:-1], reply + b"\0")] == [
        True,
        False,
        False,
    ]


def test_another_spelling_is_read_and_written_otherwise() -> None:
    decoded = cml("<cml version = '1.0'>\n <inspect-request object = '0' />\n</cml>")
    assert decoded.messages == [{"message": "InspectRequest", "object_id": 0, "class_name": ""}]
    assert decoded.reencoded is False


def test_what_may_not_be_written_is_read_and_not_written() -> None:
    decoded = cml('<cml><modify-request object="1"><field name="x"></field></modify-request></cml>')
    assert decoded.messages[0]["message"] == "ModifyRequest"
    assert decoded.reencoded in {None, False}
    assert cml("<cml><subscribe/></cml>").reencoded is None


def test_all_recorded_replies_are_written_again_to_the_octet() -> None:
    decoded = [CmlDecoder().decode(Body(body)) for body in replies()]
    assert [one.reencoded for one in decoded] == [True] * len(decoded)
    assert InspectReply.__name__ in {one.messages[0]["message"] for one in decoded}


def test_lines_of_ami() -> None:
    decoded = ami(
        'L#0@1700000000000|I="pump-7"|O="LOG,UNIX"|site="north"\n'
        'O#1|T="Tank"|I="t1"|level=3|vol=12.5|cap=900L|temp=21.25D|at=1700000000000T|mode=\'hot\'|raw="AQID"U'
        '|cfg="{\\"k\\":[1,2]}"J|on=true|note=null\n'
    )
    login, tank = decoded.messages
    assert (login["message"], login["sequence"], login["now"]) == ("Login", 0, 1_700_000_000_000)
    assert (login["options"], login["values"]) == (["log", "unix"], {"site": "north"})
    assert (tank["message"], tank["type"], tank["object_id"]) == ("ObjectUpdate", "Tank", "t1")
    assert tank["values"] == {
        "level": 3,
        "vol": 12.5,
        "cap": {"long": 900},
        "temp": {"double": 21.25},
        "at": {"utc": 1_700_000_000_000},
        "mode": {"enum": "hot"},
        "raw": {"base64": "AQID"},
        "cfg": {"json": '{"k":[1,2]}'},
        "on": True,
        "note": None,
    }
    assert decoded.reencoded is True


def test_a_last_line_without_end_is_read_and_leniency_is_reported() -> None:
    decoded = ami("# hello\nH")
    assert [one["message"] for one in decoded.messages] == ["Comment", "Help"]
    assert decoded.messages[0]["deviations"] == ["comment"]
    assert decoded.reencoded is None


def test_the_line_that_is_wrong_is_named() -> None:
    with pytest.raises(ProtocolError, match="in line 2"):
        ami('H\nO|T="Tank"|x=1|\n')


def test_a_line_that_is_too_long_is_an_error_and_one_written_otherwise_is_reported() -> None:
    with pytest.raises(ProtocolError):
        ami("#" + "x" * MAX_LINE + "\n")
    assert ami('S|b="1"|a=1\nS|a=+5\n').reencoded is False
    assert ami("") == ami("\n\r\n") == Decoded([], None)


@pytest.mark.parametrize(
    ("lines", "same"),
    [
        ("S|a=1\nH\n", True),
        ("S|a=1\nH", True),  # what ends the last line may be missing
        ("S|a=1\n\rH\n\r", True),  # as the interface document has it
        ("S|a=1\r\nH\r\n", False),
        ("S|a=1\n\nH\n", False),
        ('S|a="x\\\ny"\n', False),
        ("H\n# hello\n", None),
    ],
)
def test_lines_that_end_otherwise_or_are_continued_are_not_the_same_octets(lines: str, *, same: bool) -> None:
    assert ami(lines).reencoded is same


def test_a_line_that_is_too_long_with_escapes_is_not_written() -> None:
    decoded = AmiDecoder().decode(Body(b'S|a="' + b"\xe9" * 300_000 + b'"\n'))
    assert (len(str(decoded.messages[0]["values"])), decoded.reencoded) == (300_009, None)


def test_a_line_of_a_stream_may_come_in_pieces() -> None:
    decoder = AmiDecoder()

    def received(octets: bytes, stream: str = "1") -> Decoded:
        return decoder.decode(Body(octets, stream=stream))

    assert received(b"H\nS|a=4").messages == [{"message": "Help", "sequence": None, "now": None}]
    assert received(b"S|b=", "2") == Decoded([], None)
    whole = received(b"2\r\n")
    assert (whole.messages[0]["values"], whole.reencoded) == ({"a": 42}, True)  # ends of lines aside
    assert received(b"1\n", "2").messages[0]["values"] == {"b": 1}
    received(b"S|a=", "1")
    for number in range(MAX_STREAMS):
        received(b"S|c=", f"other {number}")
    with pytest.raises(ProtocolError):
        received(b"5\n", "1")


@pytest.mark.parametrize("octets", [b"H\n" * (MAX_LINES + 1), b"\n" * (MAX_OCTETS + 1)])
def test_of_one_body_there_is_an_end(octets: bytes) -> None:
    with pytest.raises(ProtocolError, match="at most"):
        AmiDecoder().decode(Body(octets))


def test_a_last_line_that_says_it_goes_on_is_not_lost() -> None:
    assert [one["message"] for one in ami("H\nS|a=1\\\n").messages] == ["Help", "Status"]
    assert ami("S|a=1\\").messages[0]["values"] == {"a": 1}


def test_a_wrong_line_is_counted_as_an_editor_counts() -> None:
    with pytest.raises(ProtocolError, match="in line 4"):
        ami('\nS|a="x\\\ny"\nQ|T="Tank"\n')


def test_what_may_not_be_written_is_not_written_in_any_spelling() -> None:
    decoded = cml(f'<cml><inspect-request object="{2**70}"/></cml>')
    assert decoded.messages[0]["message"] == "InspectRequest"
    assert decoded.reencoded in {None, False}


@given(st.binary(max_size=400))
def test_any_octets_are_values_or_one_error(octets: bytes) -> None:
    for decoder in (CmlDecoder(), AmiDecoder()):
        try:
            decoder.decode(Body(octets))
        except ProtocolError as error:
            assert error.expected  # noqa: PT017  either is right
