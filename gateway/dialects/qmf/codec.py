"""Converts bodies of AM2 to messages and back.

A body is a concatenation of records, each of which begins with ``'A' 'M' '2' opcode`` and a u32 sequence.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, key_end
from gateway.dialects.qmf.fields import Cursor, ObjectId
from gateway.dialects.qmf.messages import (
    AttachRequest,
    AttachResponse,
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    ConsoleAdded,
    Content,
    EventIndication,
    GetQuery,
    Heartbeat,
    Message,
    MethodRequest,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PackageQuery,
    PropertyContent,
    Received,
    SchemaRequest,
    SchemaResponse,
    StatisticContent,
    UnknownClass,
    UnknownOpcode,
)
from gateway.dialects.qmf.schema_records import (
    OURS,
    RecordForm,
    read_class,
    read_event,
    write_class,
    write_event,
)
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.qmf.typed_values import read_map, write_map

MAGIC: Final = b"AM2"
HEADER_LENGTH: Final = 8
MAX_BODY: Final = 1 << 20
"""Largest number of octets of a body. Peers keep to 65,536; the schemas of a large package may need more."""

_CONTENT: Final[dict[int, type[Content]]] = {
    ord(kind.opcode): kind for kind in (PropertyContent, StatisticContent, ObjectContent)
}

_new: Final = object.__new__
_unpack_header: Final = struct.Struct(">3sBI").unpack_from
_TIMES_AND_ID: Final = struct.Struct(">5Q")


def read_body(body: bytes, definitions: Definitions) -> Iterator[Received]:
    """Yield the messages of ``body`` one by one; those before an error are valid.

    Raises:
        ProtocolError: the body is too long, does not begin with a record, or a record is malformed.
    """
    length = len(body)
    if length > MAX_BODY:
        raise ProtocolError(f"a body of at most {MAX_BODY} octets", f"{length}")
    # Bodies have many records of the same opcode, sequence and class, or of two kinds in turns.
    heads: dict[bytes, tuple[type[Content], int, ClassDefinition]] = {}
    head_length = 0
    start = 0
    if not length:
        raise ProtocolError("a record header", "0 octets", 0)
    while start != length:
        head = heads.get(body[start : start + head_length])
        if head is None:
            header = _read_header(body, start)
            if header is None:
                return
            code, sequence = header
            kind = _CONTENT.get(code)
            if kind is None:
                cursor = Cursor(body, start + HEADER_LENGTH)
                message = _read_record(cursor, code, sequence, definitions)
                yield message
                if _is_last(message, cursor):
                    return
                start = cursor.position
                continue
            definition, end = definitions.class_at(body, start + HEADER_LENGTH)
            if definition is None:
                yield _read_unknown_content(body, start + HEADER_LENGTH, sequence, code)
                return
            head = heads[body[start:end]] = (kind, sequence, definition)
            head_length = end - start
        content, start = read_content(*head, body, start + head_length)
        yield content


def _read_header(body: bytes, start: int) -> tuple[int, int] | None:
    """Return opcode and sequence; ``None`` for trailing zeros, of a peer that sends its whole buffer."""
    position = start + HEADER_LENGTH
    if start and not any(body[start:position]) and not any(body[position:]):
        return None
    if position > len(body):
        raise ProtocolError("a record header", f"{len(body) - start} octets", start)
    magic, code, sequence = _unpack_header(body, start)
    if magic != MAGIC:
        raise ProtocolError("the header AM2", repr(magic), start)
    return code, sequence


def _is_last(message: Received, cursor: Cursor) -> bool:
    """Return whether the rest of a body, after a record, cannot be read or has no meaning."""
    if isinstance(message, EventIndication):
        # qpidd keeps a truncated schema of agent 0.6's events: the record is longer than the schema.
        return not cursor.body.startswith(MAGIC, cursor.position)
    return isinstance(message, UnknownClass)


class _Draft(Content):
    """Content under construction. Setting frozen attributes would take longer than reading most records."""

    __slots__ = ()
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__  # only if both are set does Python skip their look-up each time


def read_content(
    kind: type[Content], sequence: int, definition: ClassDefinition, body: bytes, position: int
) -> tuple[PropertyContent | StatisticContent | ObjectContent, int]:
    """Return the content record whose times begin at ``position``, and the position behind it.

    Raises:
        ProtocolError: the record is malformed.
    """
    draft: Any = _new(_Draft)
    draft.sequence = sequence
    draft.key = definition.key
    draft.properties = draft.statistics = None
    if kind is StatisticContent:
        record = definition.statistic_record(body, position)
        draft.sampled, draft.created, draft.deleted, draft.object_id, draft.statistics, end = record
    else:
        record = definition.property_record(body, position)
        draft.sampled, draft.created, draft.deleted, draft.object_id, draft.properties, end = record
        if kind is ObjectContent:
            draft.statistics, end = definition.statistic_values(body, end)
    draft.__class__ = kind
    return draft, end


def _read_record(cursor: Cursor, code: int, sequence: int, definitions: Definitions) -> Received:
    by_schema = _SCHEMA_READERS.get(code)
    if by_schema is not None:
        return by_schema(cursor, sequence, definitions)
    read = _READERS.get(code)
    return UnknownOpcode(sequence, code) if read is None else read(cursor, sequence)


def _read_broker_response(cursor: Cursor, sequence: int) -> Received:
    return BrokerResponse(sequence, cursor.uuid("a broker's UUID"))


def _read_command_complete(cursor: Cursor, sequence: int) -> Received:
    return CommandComplete(sequence, cursor.u32("a completion code"), cursor.str8("a completion text"))


def _read_package_indication(cursor: Cursor, sequence: int) -> Received:
    return PackageIndication(sequence, cursor.name("a package name"))


def _read_class_query(cursor: Cursor, sequence: int) -> Received:
    return ClassQuery(sequence, cursor.name("a package name"))


def _read_kind(cursor: Cursor) -> ClassKind:
    start = cursor.position
    code = cursor.u8("a kind of class")
    try:
        return ClassKind(code)
    except ValueError as error:
        raise ProtocolError("a kind of class, 1 or 2", f"{code}", start) from error


def _read_class_indication(cursor: Cursor, sequence: int) -> Received:
    return ClassIndication(sequence, _read_kind(cursor), cursor.class_key())


def _read_schema_request(cursor: Cursor, sequence: int) -> Received:
    return SchemaRequest(sequence, cursor.class_key())


def _read_schema_response(cursor: Cursor, sequence: int) -> Received:
    kind = _read_kind(cursor)
    read = read_class if kind is ClassKind.OBJECT else read_event
    return SchemaResponse(sequence, read(cursor, cursor.class_key()))


def _read_heartbeat(cursor: Cursor, sequence: int) -> Received:
    return Heartbeat(sequence, cursor.u64("a time"))


def _read_get_query(cursor: Cursor, sequence: int) -> Received:
    return GetQuery(sequence, read_map(cursor))


def _read_method_response(cursor: Cursor, sequence: int) -> Received:
    status = cursor.u32("a status")
    start = cursor.position
    try:
        text = cursor.str16("a status text")
    except ProtocolError:
        # qpidd and M4 write the text of this one status as str8.
        if status != Status.UNKNOWN_METHOD:
            raise
        cursor.position = start
        text = cursor.str8("a status text")
    return MethodResponse(sequence, status, text, cursor.rest())


def _read_attach_request(cursor: Cursor, sequence: int) -> Received:
    label = cursor.str8("a label")
    return AttachRequest(sequence, label, cursor.uuid(), cursor.u32("a bank"), cursor.u32("a bank"))


def _read_attach_response(cursor: Cursor, sequence: int) -> Received:
    return AttachResponse(sequence, cursor.u32("a bank"), cursor.u32("a bank"))


def _read_unknown_content(body: bytes, start: int, sequence: int, code: int) -> UnknownClass:
    cursor = Cursor(body, start)
    key = cursor.class_key()
    position = cursor.position
    try:
        _, _, deleted, _, _ = _TIMES_AND_ID.unpack_from(body, position)
    except struct.error as error:
        raise ProtocolError("times and object id", "the end of the body", position) from error
    return UnknownClass(sequence, code, key, deleted)


def _read_event_indication(cursor: Cursor, sequence: int, definitions: Definitions) -> Received:
    start = cursor.position
    end = key_end(cursor.body, start)
    definition = definitions.event_by_octets(cursor.body[start:end])
    if definition is None:
        return UnknownClass(sequence, ord(EventIndication.opcode), cursor.class_key())
    cursor.position = end
    time, severity = cursor.u64("a time"), cursor.u8("a severity")
    arguments, cursor.position = definition.arguments.read(cursor.body, cursor.position)
    return EventIndication(sequence, definition.key, time, severity, tuple(arguments))


def _read_method_request(cursor: Cursor, sequence: int, definitions: Definitions) -> Received:
    object_id = cursor.object_id()
    key = cursor.class_key()
    method = cursor.name("a method name")
    definition = definitions.find_class(key)
    layout = definition.inputs.get(method) if definition else None
    if layout is None:
        return MethodRequest(sequence, object_id, key, method, cursor.rest())
    start = cursor.position
    try:
        _, end = layout.read(cursor.body, start)
    except ProtocolError:
        # Old consoles leave arguments out, and agents read them as zeros: the agent decides.
        end = cursor.end
    if cursor.body[end : end + len(MAGIC)] != MAGIC:
        end = cursor.end  # octets beyond the schema belong to this call, not to another record
    cursor.position = end
    return MethodRequest(sequence, object_id, key, method, cursor.body[start:end])


_READERS: Final[dict[int, Callable[[Cursor, int], Received]]] = {
    ord("B"): lambda _, sequence: BrokerRequest(sequence),
    ord("b"): _read_broker_response,
    ord("z"): _read_command_complete,
    ord("P"): lambda _, sequence: PackageQuery(sequence),
    ord("p"): _read_package_indication,
    ord("Q"): _read_class_query,
    ord("q"): _read_class_indication,
    ord("S"): _read_schema_request,
    ord("s"): _read_schema_response,
    ord("h"): _read_heartbeat,
    ord("G"): _read_get_query,
    ord("m"): _read_method_response,
    ord("A"): _read_attach_request,
    ord("a"): _read_attach_response,
    ord("x"): lambda _, sequence: ConsoleAdded(sequence),
}

_SCHEMA_READERS: Final[dict[int, Callable[[Cursor, int, Definitions], Received]]] = {
    ord("e"): _read_event_indication,
    ord("M"): _read_method_request,
}

_NO_DEFINITIONS: Final = Definitions()
_HEADER: Final = struct.Struct(">3scI")
_TIMES_AND_OCTETS: Final = struct.Struct(">3Q16s")


def write(message: Message, definitions: Definitions = _NO_DEFINITIONS, records: RecordForm = OURS) -> bytes:
    """Encode one message.

    Args:
        message: the message.
        definitions: required for messages with values of a class or event: c, i, g, e.
        records: the form of schema records.

    Raises:
        LocalProtocolError: a value does not fit, or the class is not among ``definitions``.
    """
    header = write_header(message.opcode, message.sequence)
    if isinstance(message, Content):
        return header + _write_content(message, definitions)
    if isinstance(message, EventIndication):
        return header + _write_event(message, definitions)
    if isinstance(message, SchemaResponse):
        return header + _write_schema_response(message, records)
    payload = _PAYLOADS.get(type(message))
    return header if payload is None else header + payload(message)


def write_header(opcode: bytes, sequence: int) -> bytes:
    """Encode the 8 octets that begin each record."""
    try:
        return _HEADER.pack(MAGIC, opcode, sequence)
    except struct.error as error:
        raise LocalProtocolError(f"{sequence!r} is no sequence of 32 bits") from error


def write_times_and_id(sampled: int, created: int, deleted: int, object_id: ObjectId) -> bytes:
    """Encode the part of a content record between class key and values."""
    try:
        return _TIMES_AND_OCTETS.pack(sampled, created, deleted, object_id.to_octets())
    except struct.error as error:
        raise LocalProtocolError(
            f"a time does not fit 64 bits: {sampled!r}, {created!r}, {deleted!r}"
        ) from error


def _write_content(message: Content, definitions: Definitions) -> bytes:
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


def _write_event(message: EventIndication, definitions: Definitions) -> bytes:
    definition = definitions.find_event(message.key)
    if definition is None:
        raise LocalProtocolError(f"event {message.key} is not defined")
    if not 0 <= message.severity <= 0xFF:  # noqa: PLR2004  the range of an octet
        raise LocalProtocolError(f"severity {message.severity} does not fit an octet")
    return (
        fields.class_key(message.key)
        + fields.u64(message.time)
        + bytes((message.severity,))
        + definition.arguments.write(message.arguments)
    )


def _write_schema_response(message: SchemaResponse, records: RecordForm) -> bytes:
    definition = message.definition
    if isinstance(definition, ClassDefinition):
        kind, body = ClassKind.OBJECT, write_class(definition, records)
    else:
        kind, body = ClassKind.EVENT, write_event(definition, records)
    return bytes((kind,)) + fields.class_key(definition.key) + body


def _write_class_indication(message: ClassIndication) -> bytes:
    return bytes((message.kind,)) + fields.class_key(message.key)


def _write_method_request(message: MethodRequest) -> bytes:
    head = message.object_id.to_octets() + fields.class_key(message.key)
    return head + fields.str8(message.method) + message.arguments


def _write_method_response(message: MethodResponse) -> bytes:
    # Peers send the text of this one status as str8, and consoles expect it.
    text = fields.str8 if message.status == Status.UNKNOWN_METHOD else fields.str16
    return fields.u32(message.status) + text(message.text) + message.arguments


def _write_attach_request(message: AttachRequest) -> bytes:
    banks = fields.u32(message.broker_bank) + fields.u32(message.agent_bank)
    return fields.str8(message.label) + message.system.bytes + banks


def _write_attach_response(message: AttachResponse) -> bytes:
    return fields.u32(message.broker_bank) + fields.u32(message.agent_bank)


# Each function takes the class of its key, which the type of a table cannot express.
_PAYLOADS: Final[Mapping[type[object], Callable[[Any], bytes]]] = {
    BrokerResponse: lambda message: message.broker.bytes,
    CommandComplete: lambda message: fields.u32(message.code) + fields.str8(message.text),
    PackageIndication: lambda message: fields.str8(message.package),
    ClassQuery: lambda message: fields.str8(message.package),
    ClassIndication: _write_class_indication,
    SchemaRequest: lambda message: fields.class_key(message.key),
    Heartbeat: lambda message: fields.u64(message.time),
    GetQuery: lambda message: write_map(message.selector),
    MethodRequest: _write_method_request,
    MethodResponse: _write_method_response,
    AttachRequest: _write_attach_request,
    AttachResponse: _write_attach_response,
}
