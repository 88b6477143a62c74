"""Requests that are never sent: they would crash OpenAMQ 1.4c1 or its shell, or be changed silently.

Each of these was tried on a separate broker, and ended it with a core dump or an abort; some depend on facts
that only the client can know, and are refused until the client assures them.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Set as AbstractSet
from typing import Final

from gateway.dialects.cml.documents import octets_of
from gateway.dialects.cml.messages import (
    OPENAMQ_LIMIT,
    SPECIFICATION_LIMIT,
    Field,
    InspectReply,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    Request,
    SchemaRequest,
    Spelling,
    Status,
)
from gateway.dialects.errors import LocalProtocolError

MAX_REQUEST: Final = (2 << 20) - 64
"""Octets of a body for OpenAMQ, which aborts at 2 MiB."""
MAX_NAME: Final = 128
"""Octets of a field's name; OpenAMQ aborts at longer ones."""
MAX_STRING: Final = 255
"""Octets of a value in a request; OpenAMQ truncates longer ones and answers ok."""


MAX_SHOWN: Final = 200
"""Octets of a value that OpenAMQ's shell can list; it crashes at 215 to 225 with the label."""


class Assurance(enum.Enum):
    """A fact about an OpenAMQ, without which some requests are refused.

    ``CONFIG_FILE``: it runs with a configuration file (``config.name`` is not empty); without one
    ``config.commit`` ends it, and ``config.rollback`` loses all its users.

    ``EMPTY_VALUES``: it takes an empty value in a request, which ends 1.4c1.

    ``HEARTBEATS``: the connection whose ``trace`` is set negotiated heartbeats; without them this ends it.
    """

    CONFIG_FILE = "config file"
    EMPTY_VALUES = "empty values"
    HEARTBEATS = "heartbeats"


_VALID_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_BLANKS: Final = " \t\r\n\v\f"
_CONFIG: Final = 1
_CONFIG_METHODS: Final = frozenset(("commit", "rollback"))
_CRASH_TIMERS: Final = frozenset(("auto_crash", "auto_block"))
_NO_NUMBER_OR_ZERO: Final = re.compile(r"[ \t\r\n]*[+-]?0*(?![0-9])")


def check_request(
    request: Request, spelling: Spelling, assured: AbstractSet[Assurance] = frozenset()
) -> None:
    """Check a request before it is encoded.

    Raises:
        LocalProtocolError: it has no object or method, a number out of range, an invalid name, or a value
            that is too long; or, in OpenAMQ's spelling, it would end the broker or be misread by it.
    """
    if isinstance(request, SchemaRequest):
        return
    limit = OPENAMQ_LIMIT if spelling is Spelling.OPENAMQ else SPECIFICATION_LIMIT
    if not isinstance(request.object_id, int) or not 0 <= request.object_id < limit:
        raise LocalProtocolError(f"an object's number must be 0 to {limit - 1}")
    if request.class_name:
        _check_name("class", request.class_name)
    if isinstance(request, ModifyRequest | MethodRequest):
        _check_fields(request.fields, spelling, assured)
    if isinstance(request, MethodRequest):
        _check_name("method", request.name or "")
    if spelling is Spelling.OPENAMQ:
        if isinstance(request, MethodRequest):
            _check_method(request, assured)
        elif isinstance(request, ModifyRequest):
            _check_settings(request, assured)


def _check_name(what: str, name: str) -> None:
    if not _VALID_NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise LocalProtocolError(f"a {what} must have a name of 1 to {MAX_NAME} out of A-Za-z0-9-_.")


def _check_fields(fields: tuple[Field, ...], spelling: Spelling, assured: AbstractSet[Assurance]) -> None:
    for field in fields:
        _check_name("field", field.name)
        if field.object_id is not None:
            raise LocalProtocolError(f"{field.name}: what is sent in a request is text")
        if len(octets_of(field.text)) > MAX_STRING:
            raise LocalProtocolError(f"{field.name}: a value may have {MAX_STRING} octets")
        if spelling is Spelling.OPENAMQ:
            if not field.text.strip(_BLANKS) and Assurance.EMPTY_VALUES not in assured:
                raise LocalProtocolError(
                    f"{field.name}: an empty value ends OpenAMQ 1.4c1, so that a text that was set cannot be"
                    " emptied; 'assured: [empty-values]' in the source states that this broker takes it"
                )
            if "\t" in field.text:
                raise LocalProtocolError(f"{field.name}: OpenAMQ replaces a tab by blanks")


def _check_method(request: MethodRequest, assured: AbstractSet[Assurance]) -> None:
    if request.name in _CONFIG_METHODS and Assurance.CONFIG_FILE not in assured:
        raise LocalProtocolError(f"{request.name} ruins an OpenAMQ that runs without a configuration file")


def _check_settings(request: ModifyRequest, assured: AbstractSet[Assurance]) -> None:
    of_config = request.object_id == _CONFIG or request.class_name == "config"
    for field in request.fields:
        if field.name in _CRASH_TIMERS:
            raise LocalProtocolError(f"{field.name} exists to crash or block OpenAMQ")
        if field.name == "setup_timeout" and _NO_NUMBER_OR_ZERO.match(field.text):
            raise LocalProtocolError("with setup_timeout 0 OpenAMQ cuts each new connection")
        if field.name == "trace" and not of_config and Assurance.HEARTBEATS not in assured:
            raise LocalProtocolError("trace ends OpenAMQ if the connection it is set on has no heartbeats")


def shell_would_end(reply: InspectReply | ModifyReply | MethodReply, spelling: Spelling) -> str:
    """Return a description of what in a reply would crash OpenAMQ's shell; empty where nothing would.

    It is for servers: such a reply may be right for every other client, so the server decides what to send
    instead.
    """
    if reply.status == Status.OK and (not reply.class_name or reply.object_id is None):
        return "a reply that is ok has class and object"
    for field in reply.fields if isinstance(reply, InspectReply) else ():
        if len(octets_of(field.text)) > MAX_SHOWN:
            return f"{field.name} has more than {MAX_SHOWN} octets"
        if "%" in field.text and field.name != "name" and spelling is Spelling.OPENAMQ:
            return f"{field.name} has a %, which goes to printf"  # the other spelling escapes it
    return ""
