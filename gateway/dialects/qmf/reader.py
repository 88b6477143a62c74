"""Reads bodies: concatenations of AM2 records, each behind ``'A' 'M' '2' opcode`` and a u32 sequence."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator
from typing import Final, TypeAlias

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions
from gateway.dialects.qmf.fields import Cursor, key_octets
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
    EventIndication,
    GetQuery,
    Heartbeat,
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
    Status,
    UnknownClass,
    UnknownOpcode,
    made_content,
)
from gateway.dialects.qmf.schema_records import read_class, read_event
from gateway.dialects.qmf.typed_values import read_map

MAGIC: Final = b"AM2"
HEADER_LENGTH: Final = 8
MAX_BODY: Final = 1 << 20
"""Octets of a body at most. Peers keep to 65,536; the schemas of a large package may need more."""

_unpack_header: Final = struct.Struct(">3sBI").unpack_from
_TIMES_AND_ID: Final = struct.Struct(">5Q")


def read_body(body: bytes, definitions: Definitions) -> Iterator[Received]:
    """Yield the messages of ``body`` one by one; what was yielded before an error is good.

    Raises:
        ProtocolError: the body is too long, does not begin with a record, or a record is malformed.
    """
    length = len(body)
    if length > MAX_BODY:
        raise ProtocolError(f"a body of at most {MAX_BODY} octets", f"{length}")
    start = 0
    while True:
        position = start + HEADER_LENGTH
        if start and not any(body[start:position]) and not any(body[position:]):
            return  # the rest of a buffer that a peer sent whole
        if position > length:
            raise ProtocolError("a record header", f"{length - start} octets", start)
        magic, code, sequence = _unpack_header(body, start)
        if magic != MAGIC:
            raise ProtocolError("the header AM2", repr(magic), start)
        if code in _CONTENT_READERS:
            start = yield from _read_contents(body, start, definitions)
        else:
            cursor = Cursor(body, position)
            message = _read_record(cursor, code, sequence, definitions)
            yield message
            start = cursor.position
            if isinstance(message, UnknownClass):
                return
            if isinstance(message, EventIndication) and not body.startswith(MAGIC, start):
                return  # qpidd keeps a cut schema of agent 0.6's events: more is sent than it explains
        if start == length:
            return


def _read_contents(body: bytes, start: int, definitions: Definitions) -> Generator[Received, None, int]:
    """Yield the content records at ``start`` up to the next other record; return where that is."""
    # Bodies hold many records of the same opcode, sequence and class, or two kinds in turns.
    heads: dict[bytes, tuple[_ContentOf, int, ClassDefinition]] = {}
    head_length = 0
    while True:
        known = heads.get(body[start : start + head_length])
        if known is None:
            if len(body) - start < HEADER_LENGTH or not body.startswith(MAGIC, start):
                return start
            _, code, sequence = _unpack_header(body, start)
            read = _CONTENT_READERS.get(code)
            if read is None:
                return start
            octets = key_octets(body, start + HEADER_LENGTH)
            definition = definitions.class_by_octets(octets)
            if definition is None:
                yield _unknown_content(body, start + HEADER_LENGTH, sequence, code)
                return len(body)
            head_length = HEADER_LENGTH + len(octets)
            known = heads[body[start : start + head_length]] = (read, sequence, definition)
        read, sequence, definition = known
        message, start = read(body, start + head_length, sequence, definition)
        yield message


def _read_record(cursor: Cursor, code: int, sequence: int, definitions: Definitions) -> Received:
    by_schema = _SCHEMA_READERS.get(code)
    if by_schema is not None:
        return by_schema(cursor, sequence, definitions)
    read = _READERS.get(code)
    return UnknownOpcode(sequence, code) if read is None else read(cursor, sequence)


def _broker_response(cursor: Cursor, sequence: int) -> Received:
    return BrokerResponse(sequence, cursor.uuid("a broker's UUID"))


def _command_complete(cursor: Cursor, sequence: int) -> Received:
    return CommandComplete(sequence, cursor.u32("a completion code"), cursor.str8("a completion text"))


def _package_indication(cursor: Cursor, sequence: int) -> Received:
    return PackageIndication(sequence, cursor.name("a package name"))


def _class_query(cursor: Cursor, sequence: int) -> Received:
    return ClassQuery(sequence, cursor.name("a package name"))


def _kind(cursor: Cursor) -> ClassKind:
    start = cursor.position
    code = cursor.u8("a kind of class")
    try:
        return ClassKind(code)
    except ValueError as error:
        raise ProtocolError("a kind of class, 1 or 2", f"{code}", start) from error


def _class_indication(cursor: Cursor, sequence: int) -> Received:
    return ClassIndication(sequence, _kind(cursor), cursor.class_key())


def _schema_request(cursor: Cursor, sequence: int) -> Received:
    return SchemaRequest(sequence, cursor.class_key())


def _schema_response(cursor: Cursor, sequence: int) -> Received:
    kind = _kind(cursor)
    read = read_class if kind is ClassKind.OBJECT else read_event
    return SchemaResponse(sequence, read(cursor, cursor.class_key()))


def _heartbeat(cursor: Cursor, sequence: int) -> Received:
    return Heartbeat(sequence, cursor.u64("a time"))


def _get_query(cursor: Cursor, sequence: int) -> Received:
    return GetQuery(sequence, read_map(cursor))


def _method_response(cursor: Cursor, sequence: int) -> Received:
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


def _attach_request(cursor: Cursor, sequence: int) -> Received:
    label = cursor.str8("a label")
    return AttachRequest(sequence, label, cursor.uuid(), cursor.u32("a bank"), cursor.u32("a bank"))


def _attach_response(cursor: Cursor, sequence: int) -> Received:
    return AttachResponse(sequence, cursor.u32("a bank"), cursor.u32("a bank"))


def _unknown_content(body: bytes, start: int, sequence: int, code: int) -> UnknownClass:
    cursor = Cursor(body, start)
    key = cursor.class_key()
    position = cursor.position
    try:
        _, _, deleted, _, _ = _TIMES_AND_ID.unpack_from(body, position)
    except struct.error as error:
        raise ProtocolError("times and object id", "the end of the body", position) from error
    return UnknownClass(sequence, code, key, deleted)


def _property_content(
    body: bytes, position: int, sequence: int, definition: ClassDefinition
) -> tuple[Received, int]:
    sampled, created, deleted, object_id, values, end = definition.property_record(body, position)
    return made_content(
        PropertyContent, sequence, definition.key, sampled, created, deleted, object_id, values
    ), end


def _statistic_content(
    body: bytes, position: int, sequence: int, definition: ClassDefinition
) -> tuple[Received, int]:
    sampled, created, deleted, object_id, values, end = definition.statistic_record(body, position)
    return made_content(
        StatisticContent, sequence, definition.key, sampled, created, deleted, object_id, None, values
    ), end


def _object_content(
    body: bytes, position: int, sequence: int, definition: ClassDefinition
) -> tuple[Received, int]:
    sampled, created, deleted, object_id, properties, middle = definition.property_record(body, position)
    statistics, end = definition.statistic_values(body, middle)
    return made_content(
        ObjectContent,
        sequence,
        definition.key,
        sampled,
        created,
        deleted,
        object_id,
        properties,
        statistics,
    ), end


def _event_indication(cursor: Cursor, sequence: int, definitions: Definitions) -> Received:
    start = cursor.position
    octets = key_octets(cursor.body, start)
    definition = definitions.event_by_octets(octets)
    if definition is None:
        return UnknownClass(sequence, ord(EventIndication.opcode), cursor.class_key())
    cursor.position = start + len(octets)
    time, severity = cursor.u64("a time"), cursor.u8("a severity")
    arguments, cursor.position = definition.arguments.read(cursor.body, cursor.position)
    return EventIndication(sequence, definition.key, time, severity, tuple(arguments))


def _method_request(cursor: Cursor, sequence: int, definitions: Definitions) -> Received:
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
        # Old consoles leave arguments out, and agents read them as zeros: whoever is called shall decide.
        end = cursor.end
    if cursor.body[end : end + len(MAGIC)] != MAGIC:
        end = cursor.end  # more than the schema explains belongs to this call, not to another record
    cursor.position = end
    return MethodRequest(sequence, object_id, key, method, cursor.body[start:end])


_READERS: Final[dict[int, Callable[[Cursor, int], Received]]] = {
    ord("B"): lambda _, sequence: BrokerRequest(sequence),
    ord("b"): _broker_response,
    ord("z"): _command_complete,
    ord("P"): lambda _, sequence: PackageQuery(sequence),
    ord("p"): _package_indication,
    ord("Q"): _class_query,
    ord("q"): _class_indication,
    ord("S"): _schema_request,
    ord("s"): _schema_response,
    ord("h"): _heartbeat,
    ord("G"): _get_query,
    ord("m"): _method_response,
    ord("A"): _attach_request,
    ord("a"): _attach_response,
    ord("x"): lambda _, sequence: ConsoleAdded(sequence),
}

_SCHEMA_READERS: Final[dict[int, Callable[[Cursor, int, Definitions], Received]]] = {
    ord("e"): _event_indication,
    ord("M"): _method_request,
}

_ContentOf: TypeAlias = "Callable[[bytes, int, int, ClassDefinition], tuple[Received, int]]"
_CONTENT_READERS: Final[dict[int, _ContentOf]] = {
    ord("c"): _property_content,
    ord("i"): _statistic_content,
    ord("g"): _object_content,
}
