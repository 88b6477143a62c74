"""Writes messages, in either spelling."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.dialects.cml.entities import escape_for_openamq, escape_for_xml
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
    MonitorRequest,
    Notify,
    Request,
    SchemaReply,
    SchemaRequest,
    Spelling,
)
from gateway.dialects.cml.object_ids import OPENAMQ_LIMIT, SPECIFICATION_LIMIT
from gateway.dialects.cml.safety import MAX_REQUEST, Assurance, check_request
from gateway.dialects.cml.schema_elements import write_schema_reply
from gateway.dialects.errors import LocalProtocolError

_AboutObject: TypeAlias = (
    InspectRequest | ModifyRequest | MethodRequest | MonitorRequest | InspectReply | ModifyReply | MethodReply
)

_DECLARATION: Final = '<?xml version="1.0"?>'
_OPENAMQ_ROOT: Final = '<cml version="1.0" xmlns="http://www.openamq.org/schema/cml">'
_SPECIFICATION_ROOT: Final = '<cml version="1.0">'
# The schema is static text in OpenAMQ, with attributes of its own.
_OPENAMQ_SCHEMA_HEAD: Final = (
    f"{_DECLARATION}\n"
    '<cml xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"\n'
    ' xsi:schemaLocation="http://www.openamq.org/schema/cml cml.xsd"\n'
    ' xmlns="http://www.openamq.org/schema/cml"\n'
    ' version="1.0">\n'
)


def write_message(
    message: Message, spelling: Spelling, assured: AbstractSet[Assurance] = frozenset()
) -> bytes:
    """Return the body of a message; `safety.check_request` says what of requests is refused.

    Raises:
        LocalProtocolError: the request is refused, a number is out of range, a field has both text and an
            object's number, or a text has characters that the spelling cannot carry.
    """
    write = _OPENAMQ if spelling is Spelling.OPENAMQ else _SPECIFICATION
    if not isinstance(message, Request):
        return write.body(message)
    check_request(message, spelling, assured)
    body = write.body(message)
    if spelling is Spelling.OPENAMQ and len(body) > MAX_REQUEST:
        raise LocalProtocolError(f"a request to OpenAMQ may have {MAX_REQUEST} octets, not {len(body)}")
    return body


@dataclass(frozen=True, slots=True)
class _Writer:
    """One spelling.

    Attributes:
        document: what stands around a command.
        schema_document: the same for the schema, which comes in lines.
        child: a field for an object, out of its name and number.
        limit: what numbers of objects are less than.
    """

    encoding: str
    escape: Callable[[str], str]
    document: tuple[str, str]
    schema_document: tuple[str, str]
    child: str
    limit: int

    def body(self, message: Message) -> bytes:
        if isinstance(message, SchemaReply) and message.classes:
            begin, end = self.schema_document
            command = write_schema_reply(message, self.escape)
        else:
            begin, end = self.document
            command = self._command(message)
        return f"{begin}{command}{end}".encode(self.encoding)

    def _command(self, message: Message) -> str:
        match message:
            case SchemaRequest():
                return "<schema-request/>"
            case SchemaReply():
                naming = ("name", message.name), ("version", message.version)
                return self._element("schema-reply", (*naming, *_outcome(message)))
            case Notify():
                return f"<notify>{self.escape(message.text)}</notify>"
            case Invalid():
                return "<invalid/>"
            case _:
                return self._about_object(message)

    def _about_object(self, message: _AboutObject) -> str:
        about: tuple[tuple[str, str], ...] = self._object(message.class_name, message.object_id)
        content = ""
        match message:
            case InspectRequest():
                name = "inspect-request"
            case MonitorRequest():
                name = "monitor-request"
            case ModifyRequest():
                name, content = "modify-request", self._fields(message.fields)
            case MethodRequest():
                name, content = "method-request", self._fields(message.fields)
                about = *about, ("name", message.name or "")
            case InspectReply():
                name, content = "inspect-reply", self._fields(message.fields)
                about = *about, *_outcome(message)
            case ModifyReply():
                name, about = "modify-reply", (*about, *_outcome(message))
            case _:
                name, about = "method-reply", (("name", message.name), *about, *_outcome(message))
        return self._element(name, about, content)

    def _object(self, class_name: str, object_id: int | str | None) -> tuple[tuple[str, str], ...]:
        """Class first: OpenAMQ's own order."""
        number = "" if object_id is None else str(self._number(int(object_id)))
        return ("class", class_name), ("object", number)

    def _number(self, number: int) -> int:
        if not 0 <= number < self.limit:
            raise LocalProtocolError(f"an object's number must be 0 to {self.limit - 1}, not {number}")
        return number

    def _element(self, name: str, attributes: Iterable[tuple[str, str]], content: str = "") -> str:
        """An element with those attributes that are not empty."""
        shown = "".join([f' {key}="{self.escape(value)}"' for key, value in attributes if value])
        return f"<{name}{shown}>{content}</{name}>" if content else f"<{name}{shown}/>"

    def _fields(self, fields: tuple[Field, ...]) -> str:
        return "".join([self._field(field) for field in fields])

    def _field(self, field: Field) -> str:
        name = self.escape(field.name)
        if field.object_id is None:
            return f'<field name="{name}">{self.escape(field.text)}</field>'
        if field.text:
            raise LocalProtocolError(f"{field.name}: a child has a number and no text")
        if not field.object_id:
            raise LocalProtocolError(f"{field.name}: object 0 is nobody's child, and ends OpenAMQ's shell")
        return self.child.format(name=name, number=self._number(field.object_id))


def _outcome(reply: SchemaReply | InspectReply | ModifyReply | MethodReply) -> tuple[tuple[str, str], ...]:
    return ("status", reply.status), ("notice", reply.notice)


_OPENAMQ: Final = _Writer(
    "latin-1",
    escape_for_openamq,
    (f"{_DECLARATION}{_OPENAMQ_ROOT}", "</cml>\0"),
    (_OPENAMQ_SCHEMA_HEAD, "</cml>\n"),
    '<field name="{name}">{number}</field>',
    OPENAMQ_LIMIT,
)
_SPECIFICATION: Final = _Writer(
    "utf-8",
    escape_for_xml,
    (f"{_DECLARATION}{_SPECIFICATION_ROOT}", "</cml>"),
    (f"{_DECLARATION}\n{_SPECIFICATION_ROOT}\n", "</cml>\n"),
    # As the specification has it, and with the text that OpenAMQ's shell reads.
    '<field name="{name}" id="{number}">{number}</field>',
    SPECIFICATION_LIMIT,
)
