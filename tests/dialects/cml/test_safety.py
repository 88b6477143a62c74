"""Requests that are never sent, as they ended recorded brokers; values are refused instead of cut."""

from __future__ import annotations

import pytest

from gateway.dialects.cml.codec import read_message, write_message
from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    MonitorRequest,
    Request,
    Spelling,
    Status,
)
from gateway.dialects.cml.safety import (
    MAX_NAME,
    MAX_REQUEST,
    MAX_SHOWN,
    MAX_STRING,
    Assurance,
    shell_would_end,
)
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from tests.dialects.cml.recordings import exchanges

EITHER = [
    InspectRequest(None),
    InspectRequest("abc"),
    InspectRequest(-1),
    InspectRequest(2**64),
    InspectRequest(0, "no class"),
    MonitorRequest(),
    ModifyRequest(1, (Field("x" * (MAX_NAME + 1), "1"),)),
    ModifyRequest(1, (Field("", "1"),)),
    ModifyRequest(1, (Field("vhost", "x" * (MAX_STRING + 1)),)),
    ModifyRequest(1, (Field("vhost", "é" * 128),)),
    ModifyRequest(1, (Field("vhost", "a\0b"),)),
    ModifyRequest(0, (Field("queue", object_id=7),)),
    MethodRequest(0, None),
    MethodRequest(0, "lock "),
    MethodRequest(0, "lock", (Field("x" * 300, "1"),)),
]

# Sections 6 to 8 of what was measured on OpenAMQ; each of the first seven ended a broker.
ONLY_OPENAMQ = [
    ModifyRequest(0, (Field("x"),)),
    ModifyRequest(0, (Field("x", "   "),)),
    ModifyRequest(0, (Field("x", "\r\n"),)),
    MethodRequest(0, "lock", (Field("setting", ""),)),
    MethodRequest(1, "commit"),
    MethodRequest(1, "rollback", class_name="config"),
    ModifyRequest(30, (Field("trace", "0"),)),
    ModifyRequest(30, (Field("trace", "0"),), "connection"),
    ModifyRequest(1, (Field("auto_crash", "1"),)),
    ModifyRequest(1, (Field("auto_block", "1"),)),
    *(
        ModifyRequest(1, (Field("setup_timeout", text),))
        for text in ("0", "-0", " +000", "abc", "0x10", "0.9")
    ),
    ModifyRequest(1, (Field("vhost", "a\tb"),)),
    InspectRequest(2**32),
]


@pytest.mark.parametrize("spelling", Spelling)
@pytest.mark.parametrize("request_", EITHER)
def test_requests_that_no_session_takes_are_refused(request_: Request, spelling: Spelling) -> None:
    with pytest.raises(LocalProtocolError):
        write_message(request_, spelling)


@pytest.mark.parametrize("request_", ONLY_OPENAMQ)
def test_what_ends_openamq_or_means_another_thing_to_it_is_not_written_for_it(request_: Request) -> None:
    with pytest.raises(LocalProtocolError):
        write_message(request_, Spelling.OPENAMQ)
    assert read_message(write_message(request_, Spelling.SPECIFICATION)) == request_


@pytest.mark.parametrize(
    ("request_", "assurance"),
    [
        (MethodRequest(1, "commit"), Assurance.CONFIG_FILE),
        (MethodRequest(1, "rollback"), Assurance.CONFIG_FILE),
        (ModifyRequest(30, (Field("trace", "1"),), "connection"), Assurance.HEARTBEATS),
    ],
)
def test_what_the_caller_answers_for_is_written(request_: Request, assurance: Assurance) -> None:
    assert read_message(write_message(request_, Spelling.OPENAMQ, {assurance})) == request_
    with pytest.raises(LocalProtocolError):
        write_message(request_, Spelling.OPENAMQ, set(Assurance) - {assurance})


@pytest.mark.parametrize(
    "request_",
    [
        ModifyRequest(1, (Field("trace", "1"),)),
        ModifyRequest(1, (Field("setup_timeout", "10"),)),
        ModifyRequest(1, (Field("vhost", "x" * MAX_STRING),)),
        ModifyRequest(1, (Field("x" * MAX_NAME, " 1"),)),
        InspectRequest(2**32 - 1),
    ],
)
def test_what_is_just_within_the_limits_is_written(request_: Request) -> None:
    assert read_message(write_message(request_, Spelling.OPENAMQ)) == request_


def test_a_request_of_two_mebibytes_is_not_written_for_openamq() -> None:
    assert MAX_REQUEST < 2 << 20
    fields = (Field("vhost", "x" * MAX_STRING),) * (MAX_REQUEST // 290)
    assert len(write_message(ModifyRequest(1, fields), Spelling.OPENAMQ)) <= MAX_REQUEST
    with pytest.raises(LocalProtocolError, match="octets"):
        write_message(ModifyRequest(1, fields * 2), Spelling.OPENAMQ)


def test_no_request_that_was_seen_to_end_a_broker_can_be_written() -> None:
    fatal = [each for each in exchanges() if each.ended_the_broker]
    assert len(fatal) == 11
    for each in fatal:
        try:
            message = read_message(each.request)
        except ProtocolError:
            continue  # no document, so nothing that could be written
        assert isinstance(message, ModifyRequest | MethodRequest)
        with pytest.raises(LocalProtocolError):
            write_message(message, Spelling.OPENAMQ)


# Section 12 of what was measured, with a server that was scripted for it.
@pytest.mark.parametrize(
    ("reply", "objection"),
    [
        (MethodReply(Status.OK, 32, name="purge"), "class and object"),
        (ModifyReply(Status.OK, None, "config"), "class and object"),
        (ModifyReply(Status.NO_ACCESS), ""),
        (InspectReply(Status.OK, 1, "c", (Field("a", "x" * MAX_SHOWN), Field("queue", object_id=7))), ""),
        (
            InspectReply(Status.OK, 1, "c", (Field("a"), Field("b", "x" * (MAX_SHOWN + 1)))),
            "b has more than 200",
        ),
    ],
)
@pytest.mark.parametrize("spelling", Spelling)
def test_what_openamqs_shell_does_not_survive_is_said(
    reply: InspectReply | ModifyReply | MethodReply, objection: str, spelling: Spelling
) -> None:
    found = shell_would_end(reply, spelling)
    assert objection in found
    assert bool(objection) == bool(found)


def test_a_percent_sign_ends_the_shell_unless_it_is_a_reference() -> None:
    named = InspectReply(Status.OK, 1, "c", (Field("name", "%s"),))
    valued = InspectReply(Status.OK, 1, "c", (Field("port", "%s"),))
    assert [shell_would_end(named, each) for each in Spelling] == ["", ""]
    assert shell_would_end(valued, Spelling.OPENAMQ) == "port has a %, which goes to printf"
    assert shell_would_end(valued, Spelling.SPECIFICATION) == ""
