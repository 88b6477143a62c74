"""Writes messages; the counterpart of `reader`, one function for each opcode."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions
from gateway.dialects.qmf.messages import (
    AttachRequest,
    AttachResponse,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    Content,
    EventIndication,
    GetQuery,
    Heartbeat,
    Message,
    MethodRequest,
    MethodResponse,
    PackageIndication,
    PropertyContent,
    SchemaRequest,
    SchemaResponse,
    StatisticContent,
    Status,
)
from gateway.dialects.qmf.object_id import ObjectId
from gateway.dialects.qmf.reader import MAGIC
from gateway.dialects.qmf.schema_records import OURS, RecordForm, write_class, write_event
from gateway.dialects.qmf.typed_values import write_map

_NO_DEFINITIONS: Final = Definitions()
_HEADER: Final = struct.Struct(">3scI")
_TIMES_AND_ID: Final = struct.Struct(">3Q16s")


def write(message: Message, definitions: Definitions = _NO_DEFINITIONS, records: RecordForm = OURS) -> bytes:
    """Encode one message.

    Args:
        message: what to say.
        definitions: needed for the messages that carry values of a class or event: c, i, g, e.
        records: how the records of schemas are written.

    Raises:
        LocalProtocolError: something in it does not fit, or its class is not among ``definitions``.
    """
    header = write_header(message.opcode, message.sequence)
    if isinstance(message, Content):
        return header + _content(message, definitions)
    if isinstance(message, EventIndication):
        return header + _event(message, definitions)
    if isinstance(message, SchemaResponse):
        return header + _schema_response(message, records)
    payload = _PAYLOADS.get(type(message))
    return header if payload is None else header + payload(message)


def write_header(opcode: bytes, sequence: int) -> bytes:
    """Encode the 8 octets that begin each record."""
    try:
        return _HEADER.pack(MAGIC, opcode, sequence)
    except struct.error as error:
        raise LocalProtocolError(f"{sequence!r} is no sequence of 32 bits") from error


def write_times_and_id(sampled: int, created: int, deleted: int, object_id: ObjectId) -> bytes:
    """Encode what stands between class key and values in a content record."""
    try:
        return _TIMES_AND_ID.pack(sampled, created, deleted, object_id.to_octets())
    except struct.error as error:
        raise LocalProtocolError(
            f"a time does not fit 64 bits: {sampled!r}, {created!r}, {deleted!r}"
        ) from error


def _content(message: Content, definitions: Definitions) -> bytes:
    definition = definitions.find_class(message.key)
    if definition is None:
        raise LocalProtocolError(f"class {message.key} is not defined")
    times = write_times_and_id(message.sampled, message.created, message.deleted, message.object_id)
    octets = definition.key_octets + times
    if not isinstance(message, StatisticContent):
        octets += definition.properties.write(message.properties or ())
    if not isinstance(message, PropertyContent):
        octets += definition.statistics.write(message.statistics or ())
    return octets


def _event(message: EventIndication, definitions: Definitions) -> bytes:
    definition = definitions.find_event(message.key)
    if definition is None:
        raise LocalProtocolError(f"event {message.key} is not defined")
    if not 0 <= message.severity <= 0xFF:  # noqa: PLR2004  what an octet holds
        raise LocalProtocolError(f"severity {message.severity} does not fit an octet")
    return (
        fields.class_key(message.key)
        + fields.u64(message.time)
        + bytes((message.severity,))
        + definition.arguments.write(message.arguments)
    )


def _schema_response(message: SchemaResponse, records: RecordForm) -> bytes:
    definition = message.definition
    if isinstance(definition, ClassDefinition):
        kind, body = ClassKind.OBJECT, write_class(definition, records)
    else:
        kind, body = ClassKind.EVENT, write_event(definition, records)
    return bytes((kind,)) + fields.class_key(definition.key) + body


def _class_indication(message: ClassIndication) -> bytes:
    return bytes((message.kind,)) + fields.class_key(message.key)


def _method_request(message: MethodRequest) -> bytes:
    head = message.object_id.to_octets() + fields.class_key(message.key)
    return head + fields.str8(message.method) + message.arguments


def _method_response(message: MethodResponse) -> bytes:
    # Peers write the text of this one status as str8, and consoles expect it.
    text = fields.str8 if message.status == Status.UNKNOWN_METHOD else fields.str16
    return fields.u32(message.status) + text(message.text) + message.arguments


def _attach_request(message: AttachRequest) -> bytes:
    banks = fields.u32(message.broker_bank) + fields.u32(message.agent_bank)
    return fields.str8(message.label) + message.system.bytes + banks


def _attach_response(message: AttachResponse) -> bytes:
    return fields.u32(message.broker_bank) + fields.u32(message.agent_bank)


# Each function takes the class that it stands under, which the type of a table cannot say.
_PAYLOADS: Final[Mapping[type[object], Callable[[Any], bytes]]] = {
    BrokerResponse: lambda message: message.broker.bytes,
    CommandComplete: lambda message: fields.u32(message.code) + fields.str8(message.text),
    PackageIndication: lambda message: fields.str8(message.package),
    ClassQuery: lambda message: fields.str8(message.package),
    ClassIndication: _class_indication,
    SchemaRequest: lambda message: fields.class_key(message.key),
    Heartbeat: lambda message: fields.u64(message.time),
    GetQuery: lambda message: write_map(message.selector),
    MethodRequest: _method_request,
    MethodResponse: _method_response,
    AttachRequest: _attach_request,
    AttachResponse: _attach_response,
}
