"""Reading and writing of messages as documents."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    Invalid,
    Message,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    Notify,
    Received,
    Spelling,
    Status,
    UnknownCommand,
)
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from tests.dialects.cml.examples import OPENAMQ, SPECIFICATION
from tests.dialects.cml.recordings import HEAD, TAIL


@pytest.mark.parametrize(("message", "body"), OPENAMQ)
def test_openamqs_spelling(message: Message, body: bytes) -> None:
    assert write_message(message, Spelling.OPENAMQ) == body
    assert read_message(body) == message
    assert read_message(body.removesuffix(b"\0")) == message


@pytest.mark.parametrize(("message", "body"), SPECIFICATION)
def test_the_specifications_spelling_is_xml(message: Message, body: bytes) -> None:
    assert write_message(message, Spelling.SPECIFICATION) == body
    assert read_message(body) == message
    assert ET.fromstring(body).tag == "cml"  # noqa: S314  our own octets


CONFIG_8 = Field("config", object_id=8)


def test_a_child_is_text_for_openamq_and_a_number_in_the_specification() -> None:
    reply = InspectReply(Status.OK, 0, "broker", (Field("name", "x"), CONFIG_8))
    openamq = write_message(reply, Spelling.OPENAMQ)
    assert b'<field name="config">8</field>' in openamq
    assert read_message(openamq) == InspectReply(
        Status.OK, 0, "broker", (Field("name", "x"), Field("config", "8"))
    )
    specification = write_message(reply, Spelling.SPECIFICATION)
    # OpenAMQ's shell reads the text and passes over the attribute.
    assert b'<field name="config" id="8">8</field>' in specification
    assert read_message(specification) == reply


# Bodies that only others write, and what they say.
OF_OTHERS: list[tuple[str, Received]] = [
    (
        """
        <cml version = "1.0">
          <inspect-reply class = "broker" object = "0" status = "ok">
             <field name = "ip-address">192.168.55.142</field>
             <field name = "port">5672</field>
             <field name = "exchange" id = "1" />
             <field name = "exchange" id = "2" />
          </inspect-reply>
       </cml>
       """,
        InspectReply(
            Status.OK,
            0,
            "broker",
            (
                Field("ip-address", "192.168.55.142"),
                Field("port", "5672"),
                Field("exchange", object_id=1),
                Field("exchange", object_id=2),
            ),
        ),
    ),
    (
        """<cml version = "1.0">
          <notify>
            E: queue exceeded configured limit of 5000.
          </notify>
       </cml>""",
        Notify("E: queue exceeded configured limit of 5000."),
    ),
    (
        "<cml version='1.0'><modify-reply object='2' status='ok'/></cml>",
        ModifyReply(Status.OK, 2),
    ),
    (
        "<cml><method-reply name='purge' object='32' status='ok'><ignored/></method-reply></cml>",
        MethodReply(Status.OK, 32, name="purge"),
    ),
    (
        "<cml><modify-request object='2'><!-- --><field name='enabled'>&#48;</field></modify-request></cml>",
        ModifyRequest(2, (Field("enabled", "0"),)),
    ),
    # Any element with a name is a field for OpenAMQ.
    (
        "<cml><modify-request object='2'><zork name='a'>b<c>d</c>e</zork></modify-request></cml>",
        ModifyRequest(2, (Field("a", "be"),)),
    ),
    ("<cml><field-request/><inspect-request/></cml>", UnknownCommand("field-request")),
    ("<cml><INVALID/></cml>", UnknownCommand("INVALID")),
    ("<cml><invalid/><inspect-request object='0'/>text</cml>", Invalid()),
    ("<cml><inspect-request/></cml>", InspectRequest(None)),
    ("<cml><inspect-request object='18446744073709551615'/></cml>", InspectRequest(2**64 - 1)),
    ("<cml><inspect-request object='18446744073709551616'/></cml>", InspectRequest("18446744073709551616")),
    ("<cml><inspect-request object=' 1'/></cml>", InspectRequest(" 1")),
    ("<cml><method-request object='0'/></cml>", MethodRequest(0, None)),
    (
        "<cml><inspect-reply><field name='f' id='3'>x</field></inspect-reply></cml>",
        InspectReply("", fields=(Field("f", "x", 3),)),
    ),
]


@pytest.mark.parametrize(("document", "message"), OF_OTHERS)
def test_what_others_write(document: str, message: Received) -> None:
    assert read_message(document.encode()) == message


@pytest.mark.parametrize(
    "document",
    [
        "<cml/>",
        "<cml>text</cml>",
        "<cml>text<invalid/></cml>",
        "<xml><invalid/></xml>",
        "<cml><inspect-reply object='x'/></cml>",
        "<cml><inspect-reply object='-1'/></cml>",
        "<cml><modify-request object='1'><field>1</field></modify-request></cml>",
        "<cml><inspect-reply><field name='queue' id=''/></inspect-reply></cml>",
    ],
)
def test_what_says_nothing_that_can_be_meant_is_an_error(document: str) -> None:
    with pytest.raises(ProtocolError):
        read_message(document.encode())


# Replies that look like what OpenAMQ generates, and are not: they are read in full.
ALMOST = [
    (b'<field name="a">1</field>', (Field("a", "1"),)),
    (b'<field name="a">1</field><field name="b">2</field>', (Field("a", "1"), Field("b", "2"))),
    (b'<field name="a>b">1"</field><field name="b">"</field>', (Field("a>b", '1"'), Field("b", '"'))),
    (b'<field name="a">"></field>', (Field("a", '">'),)),
    (b'<field name="a"id="7"></field>', (Field("a", object_id=7),)),
    (b'<field name="a" id="7">7</field>', (Field("a", object_id=7),)),
    (b'<field name="a">1</field><field name=\'b\'>"</field>', (Field("a", "1"), Field("b", '"'))),
    (b'<field name="a">1</field> <field name="b">2</field>', (Field("a", "1"), Field("b", "2"))),
    (b'<field name="a">1<b/></field>', (Field("a", "1"),)),
    (b'<field name="a"x="">1</field><field name="b" >2</field>', (Field("a", "1"), Field("b", "2"))),
    (b'<!-- " --><field name="a">1</field>', (Field("a", "1"),)),
    (b'<field name="a">1</field><field name="b">"</field   >', (Field("a", "1"), Field("b", '"'))),
    (
        b'<field name="a">1</field><x name="b">2</x><field name="c">3</field>',
        (Field("a", "1"), Field("b", "2"), Field("c", "3")),
    ),
    (b"", ()),
    (b"  ", ()),
]


@pytest.mark.parametrize(("inside", "fields"), ALMOST)
def test_replies_nearly_as_openamq_generates_them(inside: bytes, fields: tuple[Field, ...]) -> None:
    reply = b'<inspect-reply class="c" object="7" status="ok">%b</inspect-reply>' % inside
    expected = InspectReply(Status.OK, 7, "c", fields)
    for end in (b"", b"\0", b"\n", b"\0\0", b"\0<"):
        assert read_message(HEAD + reply + TAIL + end) == expected


def test_a_nul_ends_a_document_wherever_it_stands() -> None:
    inside = b'<field name="a">\0</field>'
    body = HEAD + b'<inspect-reply class="c" object="7" status="ok">' + inside + b"</inspect-reply></cml>\0"
    with pytest.raises(ProtocolError):
        read_message(body)


def test_numbers_of_objects_have_32_or_64_bits() -> None:
    reply = InspectReply(Status.OK, 2**32, "queue")
    assert read_message(write_message(reply, Spelling.SPECIFICATION)) == reply
    with pytest.raises(LocalProtocolError, match="4294967295"):
        write_message(reply, Spelling.OPENAMQ)
    for number in (-1, 2**64):
        with pytest.raises(LocalProtocolError):
            write_message(ModifyReply(Status.OK, number), Spelling.SPECIFICATION)


@pytest.mark.parametrize("spelling", Spelling)
@pytest.mark.parametrize("field", [Field("queue", "x", 7), Field("queue", "", 0), Field("queue", "", -1)])
def test_fields_that_cannot_be_said(field: Field, spelling: Spelling) -> None:
    with pytest.raises(LocalProtocolError):
        write_message(InspectReply(Status.OK, 0, "broker", (field,)), spelling)
