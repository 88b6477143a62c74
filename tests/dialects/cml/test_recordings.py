"""All recorded messages of OpenAMQ and its shell are read correctly and written again to the octet."""

from __future__ import annotations

import re
from contextlib import suppress
from html.entities import name2codepoint
from xml.etree import ElementTree as ET

from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.messages import (
    InspectReply,
    InspectRequest,
    Invalid,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    MonitorRequest,
    Received,
    Request,
    SchemaReply,
    SchemaRequest,
    Spelling,
    Status,
    UnknownCommand,
    as_openamq_takes_it,
)
from gateway.dialects.cml.safety import Assurance
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from tests.dialects.cml.recordings import INVALID, exchange, exchanges, replies

_REPLIES: dict[type[Received], type[Received]] = {
    SchemaRequest: SchemaReply,
    InspectRequest: InspectReply,
    ModifyRequest: ModifyReply,
    MethodRequest: MethodReply,
}


def _read(body: bytes) -> Received | None:
    """Return the message; ``None`` for octets that are no document."""
    try:
        return read_message(body)
    except ProtocolError:
        return None


def test_all_exchanges_are_here() -> None:
    assert len(exchanges()) == 705
    assert len(replies()) == 682
    assert sum(each.by_shell for each in exchanges()) == 184


def test_every_reply_is_written_again_to_the_octet() -> None:
    for body in replies():
        message = read_message(body)
        assert not isinstance(message, UnknownCommand)
        assert write_message(message, Spelling.OPENAMQ) == body


def test_every_request_of_the_shell_is_written_again_to_the_octet() -> None:
    for each in exchanges():
        if each.by_shell:
            message = read_message(each.request)
            assert isinstance(message, Request)
            assert write_message(message, Spelling.OPENAMQ, frozenset(Assurance)) == each.request


def test_requests_by_hand_are_written_again_to_the_octet_where_they_have_that_form() -> None:
    """Requests by hand lack the NUL that the shell sends, and have pairs of tags for empty elements."""
    same = 0
    for each in exchanges():
        message = _read(each.request)
        with suppress(LocalProtocolError):
            if isinstance(message, Request):
                written = write_message(message, Spelling.OPENAMQ, frozenset(Assurance))
                assert read_message(written) == message
                same += written.rstrip(b"\0") == each.request.rstrip(b"\0").replace(
                    b'"></method-request>', b'"/>'
                )
    assert same > 184 + 375


def test_what_openamq_calls_invalid_is_no_request() -> None:
    invalid = [each for each in exchanges() if each.replies == (INVALID,)]
    taken = {each.id for each in invalid if isinstance(_read(each.request), Request)}
    assert taken == {"modify-text-22"}  # CDATA, which is XML all the same
    assert len(invalid) > 30


def test_each_request_means_what_its_reply_answers() -> None:
    answered = 0
    for each in exchanges():
        if len(each.replies) != 1 or each.replies == (INVALID,):
            continue
        request, reply = read_message(each.request), read_message(each.replies[0])
        if each.id == "danger-killself":
            continue  # its reply came on another's behalf
        assert isinstance(request, SchemaRequest | InspectRequest | ModifyRequest | MethodRequest), each.id
        assert isinstance(reply, _REPLIES[request.__class__]), each.id
        answered += 1
        if isinstance(reply, InspectReply | ModifyReply | MethodReply) and reply.status == Status.OK:
            assert not isinstance(request, SchemaRequest)
            asked_for = request.object_id
            assert asked_for is not None
            assert as_openamq_takes_it(str(asked_for)) == reply.object_id, each.id
    assert answered > 600


def test_fields_are_those_that_an_xml_parser_finds() -> None:
    """The comparison is an XML parser that has the entities declared and reads octets as characters."""
    beyond = 0
    for body in replies():
        message = read_message(body)
        if not isinstance(message, InspectReply):
            continue
        try:
            root = ET.fromstring(_with_declared_entities(body))  # noqa: S314  recorded
        except ET.ParseError:
            beyond += 1  # control characters
            continue
        found = [(field.attrib["name"], _utf_8(field.text or "")) for field in root[0]]
        assert [(field.name, str(field.text)) for field in message.fields] == found
        assert root[0].get("status") == message.status
        assert root[0].get("class", "") == message.class_name
    assert beyond == 3


def _with_declared_entities(body: bytes) -> str:
    text = body.rstrip(b"\0").decode("latin-1").replace("\r", "&#13;")
    return re.sub(r"&(\w+);", lambda found: f"&#{name2codepoint[found[1]]};", text)


def _utf_8(text: str) -> str:
    octets = text.replace("\u2018", "\x91").replace("\u2019", "\x92").encode("latin-1")
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.decode("latin-1")


def _fields(name: str) -> dict[str, str]:
    reply = read_message(exchange(name).replies[0])
    assert isinstance(reply, InspectReply)
    return {field.name: field.text for field in reply.fields}


def test_values_as_they_were_set() -> None:
    assert _fields("name-utf8-2-binding") == {"name": "é", "arguments": "", "queues": "1", "exclusive": "0"}
    assert _fields("name-utf8-3-qb1")["name"] == "日本語"
    assert _fields("name-utf8-4-binding")["name"] == "q😀"
    assert _fields("name-ctrl-binding")["name"] == "a\x01b"
    assert _fields("name-tab-binding")["name"] == "a\tb"
    assert _fields("name-lt-binding")["name"] == "a<b>c"
    assert _fields("modify-text-12-check")["attach_all"] == "a < b"
    assert _fields("modify-text-15-check")["attach_all"] == "trail  "
    assert _fields("modify-text-08-check")["attach_all"] == "&nosuch;"


def test_outcomes_as_they_were_reported() -> None:
    expected: dict[str, Received] = {
        "modify-int-notice": ModifyReply(
            Status.OK, 1, "config", "To activate the new setup_timeout setting, restart the broker"
        ),
        "modify-guest-0": ModifyReply(Status.NO_ACCESS),
        "method-kill-again": MethodReply(Status.NOT_FOUND),
        "method-purge": MethodReply(Status.OK, 22, "queue"),
        "xml-unkcmd": Invalid(),
    }
    assert {name: read_message(exchange(name).replies[0]) for name in expected} == expected


def test_monitor_requests_are_known_and_were_never_answered() -> None:
    assert read_message(exchange("xml-monitor").request) == MonitorRequest(0)
    assert exchange("xml-monitor").replies == ()
