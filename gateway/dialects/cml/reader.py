"""Reads bodies to messages, whichever way they are spelt."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from gateway.dialects.cml.documents import MAX_BODY, MAX_MARKUP, Element, read_document
from gateway.dialects.cml.entities import decode_text
from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    Invalid,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    MonitorRequest,
    Notify,
    Received,
    SchemaRequest,
    UnknownCommand,
)
from gateway.dialects.cml.object_ids import object_number
from gateway.dialects.cml.schema_elements import read_schema_reply
from gateway.dialects.errors import ProtocolError

_SHOWN: Final = 40

# What OpenAMQ generates, to the octet.
_GENERATED_HEAD: Final = re.compile(
    rb'<\?xml version="1\.0"\?><cml version="1\.0" xmlns="http://www\.openamq\.org/schema/cml">'
    rb'<inspect-reply class="([^"<]*+)" object="([0-9]{1,10}+)" status="([^"<]*+)"(?: notice="([^"<]*+)")?>'
)
_GENERATED_END: Final = b"</inspect-reply></cml>\0"
_FIELD_BEGIN: Final = '<field name="'
_FIELD_END: Final = "</field>"
_BETWEEN: Final = _FIELD_END + _FIELD_BEGIN
_NAME_END: Final = '">'
_OTHER_MARKUP: Final = 5


def read_message(body: bytes) -> Received:
    """Return what a body says: the first command in it; others after it are ignored, as OpenAMQ does.

    Raises:
        ProtocolError: it is too long, no document of CML, or something in it breaks its form.
    """
    found = _GENERATED_HEAD.match(body)
    if found is not None:
        reply = _generated_reply(body, found)
        if reply is not None:
            return reply
    return _command(read_document(body))


def _generated_reply(body: bytes, head: re.Match[bytes]) -> InspectReply | None:
    """Read an inspect-reply as OpenAMQ generates it; ``None`` where it is anything else, to be read in full.

    Such replies are nearly all that a poller receives, and this takes a fraction of the time. That nothing
    else is in them is seen by counting: two ``<`` and two quotes for each field.
    """
    start, end = head.end(), len(body) - len(_GENERATED_END)
    if not body.endswith(_GENERATED_END) or len(body) > MAX_BODY or body.find(0) != len(body) - 1:
        return None
    inner = body[start:end]
    markup = inner.count(b"<")
    if inner.count(b'"') != markup or markup + _OTHER_MARKUP > MAX_MARKUP:
        return None
    fields: tuple[Field, ...] | None = ()
    if inner:
        plain = inner.isascii() and b"&" not in inner
        fields = _generated_fields(inner.decode("ascii" if plain else "latin-1"), markup, plain=plain)
    if fields is None:
        return None
    class_name, number, status, notice = head.groups(b"")
    return InspectReply(
        decode_text(status), int(number), decode_text(class_name), fields, decode_text(notice)
    )


def _generated_fields(text: str, markup: int, *, plain: bool) -> tuple[Field, ...] | None:
    """Read one character for each octet; ``plain`` means that none stands for another thing."""
    if not text.startswith(_FIELD_BEGIN) or not text.endswith(_FIELD_END):
        return None
    parts = text[len(_FIELD_BEGIN) : -len(_FIELD_END)].split(_BETWEEN)
    if 2 * len(parts) != markup:
        return None
    halves = [part.partition(_NAME_END) for part in parts]
    if plain:
        fields = tuple([Field(name, value) for name, mark, value in halves if mark])
    else:
        fields = tuple([Field(_decoded(name), _decoded(value)) for name, mark, value in halves if mark])
    return fields if len(fields) == len(parts) else None


def _decoded(text: str) -> str:
    return text if text.isascii() and "&" not in text else decode_text(text.encode("latin-1"))


def _command(root: Element) -> Received:
    if root.name != "cml":
        raise ProtocolError("the root cml", repr(root.name[:_SHOWN]), root.offset)
    if not root.children:
        raise ProtocolError("a command", "none", root.offset)
    command = root.children[0]
    if root.lead.strip():
        raise ProtocolError("nothing but blanks before the command", "text", root.offset)
    read = _READERS.get(command.name)
    return UnknownCommand(command.name) if read is None else read(command)


def _schema_request(_: Element) -> Received:
    return SchemaRequest()


def _inspect_request(element: Element) -> Received:
    return InspectRequest(_object_asked_for(element), _class_name(element))


def _modify_request(element: Element) -> Received:
    # Any element with a name is a field for OpenAMQ, whatever it is called.
    return ModifyRequest(_object_asked_for(element), _fields(element), _class_name(element))


def _method_request(element: Element) -> Received:
    name = element.attributes.get("name")
    return MethodRequest(_object_asked_for(element), name, _fields(element), _class_name(element))


def _monitor_request(element: Element) -> Received:
    return MonitorRequest(_object_asked_for(element), _class_name(element))


def _inspect_reply(element: Element) -> Received:
    status, notice = _status_and_notice(element)
    return InspectReply(status, _object_number(element), _class_name(element), _fields(element), notice)


def _modify_reply(element: Element) -> Received:
    status, notice = _status_and_notice(element)
    return ModifyReply(status, _object_number(element), _class_name(element), notice)


def _method_reply(element: Element) -> Received:
    status, notice = _status_and_notice(element)
    name = element.attributes.get("name", "")
    return MethodReply(status, _object_number(element), _class_name(element), notice, name)


def _notify(element: Element) -> Received:
    return Notify(element.text.strip())


def _invalid(_: Element) -> Received:
    return Invalid()


def _class_name(element: Element) -> str:
    return element.attributes.get("class", "")


def _status_and_notice(element: Element) -> tuple[str, str]:
    return element.attributes.get("status", ""), element.attributes.get("notice", "")


def _object_asked_for(element: Element) -> int | str | None:
    text = element.attributes.get("object")
    if text is None:
        return None
    number = object_number(text)
    return text if number is None else number


def _object_number(element: Element, attribute: str = "object") -> int | None:
    text = element.attributes.get(attribute)
    if text is None:
        return None
    number = object_number(text)
    if number is None:
        raise ProtocolError("an object's number", repr(text[:_SHOWN]), element.offset)
    return number


def _fields(element: Element) -> tuple[Field, ...]:
    return tuple(_field(child) for child in element.children)


def _field(element: Element) -> Field:
    name = element.attributes.get("name")
    if name is None:
        raise ProtocolError("the name of a field", "none", element.offset)
    number, text = _object_number(element, "id"), element.text
    if number is not None and object_number(text.strip()) == number:
        text = ""  # as we say it ourselves, for readers of either spelling
    return Field(name, text, number)


_READERS: Final[dict[str, Callable[[Element], Received]]] = {
    "schema-request": _schema_request,
    "schema-reply": read_schema_reply,
    "inspect-request": _inspect_request,
    "inspect-reply": _inspect_reply,
    "modify-request": _modify_request,
    "modify-reply": _modify_reply,
    "method-request": _method_request,
    "method-reply": _method_reply,
    "monitor-request": _monitor_request,
    "notify": _notify,
    "invalid": _invalid,
}
