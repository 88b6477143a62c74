"""Writes messages as a revision has them; the counterpart of `reader`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.am01.forms import object_id_octets
from gateway.dialects.qmf.am01.messages import (
    AgentHello,
    AgentIdentity,
    AttachRequest,
    AttachResponse,
    ClassDescription,
    Message,
    MethodRequest,
)
from gateway.dialects.qmf.am01.revisions import BROADCASTING, Revision
from gateway.dialects.qmf.am01.schemas import event_name, write_schema
from gateway.dialects.qmf.am01.tables import write_table
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    Content,
    EventIndication,
    GetQuery,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PackageQuery,
    PropertyContent,
    SchemaRequest,
    StatisticContent,
)
from gateway.model.schema import ClassKey

_NO_DEFINITIONS: Final = Definitions()


def write(
    message: Message,
    revision: Revision,
    definitions: Definitions = _NO_DEFINITIONS,
    *,
    extended: bool = False,
) -> bytes:
    """Encode one message.

    Args:
        message: what to say.
        revision: what the peer speaks.
        definitions: needed for the messages that carry values of a class or event.
        extended: whether the peer speaks what the design notes do not lay out, as we do (`records`).

    Raises:
        LocalProtocolError: the revision cannot say this, something does not fit, or the class is not known.
    """
    if isinstance(message, EventIndication) and not extended:
        raise LocalProtocolError("events have no layout but ours, and the peer is not configured for it")
    if revision is Revision.NOVEMBER_2007 and isinstance(message, MethodRequest | MethodResponse):
        return _bare(message)
    opcodes = _OPCODES[revision]
    opcode = opcodes.get(type(message))
    if opcode is None:
        raise LocalProtocolError(f"{revision.value} has no {type(message).__name__}")
    if isinstance(message, MethodRequest) and message.reply_queue:
        raise LocalProtocolError("only requests of November 2007 tell their reply queue")
    payload = _payload(message, revision, definitions)
    if revision is Revision.MARCH_2008:
        return b"AM1" + opcode + fields.u32(message.sequence) + payload
    if isinstance(message, MethodRequest | MethodResponse):
        payload = fields.u32(message.sequence) + payload
    elif message.sequence:
        raise LocalProtocolError(f"AM01 has no sequence in {type(message).__name__}")
    return b"AM01" + opcode + payload


def _bare(message: MethodRequest | MethodResponse) -> bytes:
    """Encode a method record of November 2007, which has no header."""
    if isinstance(message, MethodResponse):
        return fields.u32(message.sequence) + _method_response(message)
    if not message.reply_queue:
        raise LocalProtocolError("a request of November 2007 tells its reply queue")
    head = fields.u32(message.sequence) + object_id_octets(message.object_id)
    return head + fields.str8(message.reply_queue) + message.arguments


def _payload(message: Message, revision: Revision, definitions: Definitions) -> bytes:
    if isinstance(message, Content):
        return _content(message, revision, definitions)
    if isinstance(message, EventIndication):
        return _event(message, definitions)
    if isinstance(message, ClassDescription):
        definition = message.definition
        return _class(definition.key, revision) + write_schema(definition, message.events)
    payload = _PAYLOADS.get(type(message))
    return b"" if payload is None else payload(message)


def _class(key: ClassKey, revision: Revision) -> bytes:
    if revision not in BROADCASTING:
        return fields.class_key(key)
    if key.package or key.hash:
        raise LocalProtocolError(f"classes of {revision.value} have neither package nor hash: {key}")
    return fields.str8(key.name)


def _content(message: Content, revision: Revision, definitions: Definitions) -> bytes:
    definition = definitions.find_class(message.key)
    if definition is None:
        raise LocalProtocolError(f"class {message.key} is not defined")
    times = fields.u64(message.sampled) + fields.u64(message.created) + fields.u64(message.deleted)
    values = _values(message, definition)
    return _class(message.key, revision) + times + object_id_octets(message.object_id) + values


def _values(message: Content, definition: ClassDefinition) -> bytes:
    octets = b""
    if isinstance(message, PropertyContent | ObjectContent):
        octets += definition.properties.write(message.properties or ())
    if isinstance(message, StatisticContent | ObjectContent):
        octets += definition.statistics.write(message.statistics or ())
    return octets


def _event(message: EventIndication, definitions: Definitions) -> bytes:
    definition = definitions.find_event(message.key)
    if definition is None:
        raise LocalProtocolError(f"event {message.key} is not defined")
    owner, name = event_name(message.key)
    key = fields.class_key(ClassKey(message.key.package, owner, message.key.hash))
    return key + fields.str8(name) + fields.u64(message.time) + definition.arguments.write(message.arguments)


def _class_indication(message: ClassIndication) -> bytes:
    if message.kind is not ClassKind.OBJECT:
        raise LocalProtocolError("events are no classes of their own before AM2")
    return fields.class_key(message.key)


def _method_response(message: MethodResponse) -> bytes:
    return fields.u32(message.status) + fields.str8(message.text) + message.arguments


# Each function takes the class that it stands under, which the type of a table cannot say.
_PAYLOADS: Final[Mapping[type[object], Callable[[Any], bytes]]] = {
    BrokerResponse: lambda message: message.broker.bytes,
    CommandComplete: lambda message: fields.u32(message.code) + fields.str8(message.text),
    PackageIndication: lambda message: fields.str8(message.package),
    ClassQuery: lambda message: fields.str8(message.package),
    ClassIndication: _class_indication,
    SchemaRequest: lambda message: fields.class_key(message.key),
    GetQuery: lambda message: write_table(message.selector),
    MethodRequest: lambda message: object_id_octets(message.object_id) + message.arguments,
    MethodResponse: _method_response,
    AgentHello: lambda message: message.rest,
    AgentIdentity: lambda message: fields.str16(message.text),
    AttachRequest: lambda message: fields.str8(message.label) + fields.u32(message.prefix),
    AttachResponse: lambda message: fields.u32(message.prefix),
}

_CONTENT_OPCODES: Final[Mapping[type[object], bytes]] = {
    PropertyContent: b"CC",
    StatisticContent: b"CI",
}
_JANUARY: Final[Mapping[type[object], bytes]] = {
    **_CONTENT_OPCODES,
    ClassDescription: b"S\0",
    MethodRequest: b"M\0",
    MethodResponse: b"R\0",
}
_OPCODES: Final[Mapping[Revision, Mapping[type[object], bytes]]] = {
    Revision.DESIGN_NOTES: {**_JANUARY, EventIndication: b"E\0"},
    Revision.NOVEMBER_2007: _JANUARY,
    Revision.JANUARY_2008: _JANUARY,
    Revision.FEBRUARY_2008: {
        **_CONTENT_OPCODES,
        ClassDescription: b"s\0",
        SchemaRequest: b"S\0",
        MethodRequest: b"M\0",
        MethodResponse: b"m\0",
        AgentHello: b"H\0",
        AgentIdentity: b"I\0",
        PackageQuery: b"P\0",
        PackageIndication: b"p\0",
        ClassQuery: b"Q\0",
        ClassIndication: b"q\0",
        AttachRequest: b"A\0",
        AttachResponse: b"a\0",
    },
    Revision.MARCH_2008: {
        BrokerRequest: b"B",
        BrokerResponse: b"b",
        CommandComplete: b"z",
        PackageQuery: b"P",
        PackageIndication: b"p",
        ClassQuery: b"Q",
        ClassIndication: b"q",
        SchemaRequest: b"S",
        ClassDescription: b"s",
        PropertyContent: b"c",
        StatisticContent: b"i",
        ObjectContent: b"g",
        GetQuery: b"G",
        MethodRequest: b"M",
        MethodResponse: b"m",
        AttachRequest: b"A",
        AttachResponse: b"a",
    },
}
