"""Readers of records: one function for each form of the part after the header.

Layouts that the design notes lack are this gateway's, and are used only with peers that are configured
for them (``extended`` of `codec.read` and `codec.write`):

- an event is a record of opcode E and class 0: package, class, hash (as in S), str8 name of the event, u64
    time, arguments in schema order; its severity is in the routing key. `forms` has the rest.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.am01.forms import OBJECT_ID_LENGTH, object_id_of, read_table
from gateway.dialects.qmf.am01.keys import Address
from gateway.dialects.qmf.am01.messages import (
    AgentHello,
    AgentIdentity,
    AttachRequest,
    AttachResponse,
    ClassDescription,
    MethodRequest,
    Received,
)
from gateway.dialects.qmf.am01.schemas import event_key, read_schema
from gateway.dialects.qmf.codec import read_content
from gateway.dialects.qmf.definitions import Definitions, key_end
from gateway.dialects.qmf.fields import NO_HASH, Cursor, ObjectId
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
    UnknownClass,
)
from gateway.model.schema import ClassKey

_KNOWN_STATUSES: Final = range(4)
_INFORMATIONAL: Final = 6


class Frame(NamedTuple):
    """The context of a record, from header, routing key and earlier messages."""

    code: int
    sequence: int
    address: Address
    definitions: Definitions


def named_schema(cursor: Cursor, frame: Frame) -> Received:
    """Read S of the broadcasting revisions: a class name, without package and hash."""
    return _schema(cursor, frame, ClassKey("", cursor.name("a class name")))


def schema(cursor: Cursor, frame: Frame) -> Received:
    """Read S of the design notes, and s."""
    return _schema(cursor, frame, cursor.class_key())


def _schema(cursor: Cursor, frame: Frame, key: ClassKey) -> Received:
    definition, events = read_schema(cursor, key)
    return ClassDescription(frame.sequence, definition, events)


def schema_request(cursor: Cursor, frame: Frame) -> Received:
    """Read S from February 2008 on."""
    return SchemaRequest(frame.sequence, cursor.class_key())


def named_configuration(cursor: Cursor, frame: Frame) -> Received:
    """Read C of class C in the broadcasting revisions."""
    return _content(cursor, frame, _named_key(cursor), PropertyContent)


def named_instrumentation(cursor: Cursor, frame: Frame) -> Received:
    """Read C of class I in the broadcasting revisions."""
    return _content(cursor, frame, _named_key(cursor), StatisticContent)


def configuration(cursor: Cursor, frame: Frame) -> Received:
    """Read C of class C with package and hash; c of AM1."""
    return _content(cursor, frame, _full_key(cursor), PropertyContent)


def instrumentation(cursor: Cursor, frame: Frame) -> Received:
    """Read C of class I with package and hash; i of AM1."""
    return _content(cursor, frame, _full_key(cursor), StatisticContent)


def whole_object(cursor: Cursor, frame: Frame) -> Received:
    """Read g of AM1: configuration, then instrumentation."""
    return _content(cursor, frame, _full_key(cursor), ObjectContent)


def _named_key(cursor: Cursor) -> bytes:
    """Return the octets of a class key, as in `Definitions`, of a class that has only a name."""
    start = cursor.position
    cursor.name("a class name")
    return b"\0" + cursor.body[start : cursor.position] + NO_HASH


def _full_key(cursor: Cursor) -> bytes:
    start, cursor.position = cursor.position, key_end(cursor.body, cursor.position)
    return cursor.body[start : cursor.position]


def _content(cursor: Cursor, frame: Frame, key: bytes, kind: type[Content]) -> Received:
    definition = frame.definitions.class_by_octets(key)
    if definition is None:
        return _unknown_content(cursor, key, ord(kind.opcode), frame.sequence)
    content, cursor.position = read_content(kind, frame.sequence, definition, cursor.body, cursor.position)
    return content


def _unknown_content(cursor: Cursor, key: bytes, code: int, sequence: int) -> UnknownClass:
    found = Cursor(key).class_key()
    known_hash = b"" if found.hash == NO_HASH and not found.package else found.hash
    cursor.octets(16, "times")
    deleted = cursor.u64("a time of deletion")
    _object_id(cursor)
    return UnknownClass(sequence, code, ClassKey(found.package, found.name, known_hash), deleted)


def _object_id(cursor: Cursor) -> ObjectId:
    return object_id_of(cursor.octets(OBJECT_ID_LENGTH, "an object id"))


def method_request(cursor: Cursor, frame: Frame) -> Received:
    """Read M of AM01: the sequence follows the header."""
    return _call(cursor, frame, cursor.u32("a sequence"))


def am1_method_request(cursor: Cursor, frame: Frame) -> Received:
    """Read M of AM1."""
    return _call(cursor, frame, frame.sequence)


def bare_request(cursor: Cursor, frame: Frame) -> Received:
    """Read a request of November 2007: no header, and the reply queue in the body."""
    return _call(cursor, frame, cursor.u32("a sequence"), has_queue=True)


def _call(cursor: Cursor, frame: Frame, sequence: int, *, has_queue: bool = False) -> Received:
    object_id = _object_id(cursor)
    start = cursor.position
    queue = cursor.name("a reply queue") if has_queue else ""
    if has_queue and not queue:
        raise ProtocolError("a reply queue", "an empty name", start)
    package, name, method = frame.address.method
    return MethodRequest(sequence, object_id, ClassKey(package, name), method, cursor.rest(), queue)


def method_response(cursor: Cursor, _frame: Frame) -> Received:
    """Read R, and m of AM01."""
    return _answer(cursor, cursor.u32("a sequence"))


def am1_method_response(cursor: Cursor, frame: Frame) -> Received:
    """Read m of AM1."""
    return _answer(cursor, frame.sequence)


def bare_response(cursor: Cursor, _frame: Frame) -> Received:
    """Read a response of November 2007; any octets begin with a number, so the status must be known."""
    start = cursor.position
    answer = _answer(cursor, cursor.u32("a sequence"))
    if answer.status not in _KNOWN_STATUSES:
        raise ProtocolError("the header AM01 or AM1, or a response without", repr(cursor.body[:8]), start)
    return answer


def _answer(cursor: Cursor, sequence: int) -> MethodResponse:
    return MethodResponse(sequence, cursor.u32("a status"), cursor.str8("a status text"), cursor.rest())


def event(cursor: Cursor, frame: Frame) -> Received:
    """Read E, whose layout is this gateway's."""
    owner = cursor.class_key()
    key = event_key(owner, cursor.name("an event name"))
    definition = frame.definitions.find_event(key)
    if definition is None:
        return UnknownClass(0, ord(EventIndication.opcode), key)
    time = cursor.u64("a time")
    arguments, cursor.position = definition.arguments.read(cursor.body, cursor.position)
    severity = frame.address.severity
    found = _INFORMATIONAL if severity is None else severity
    return EventIndication(0, definition.key, time, found, tuple(arguments))


def agent_hello(cursor: Cursor, _frame: Frame) -> Received:
    """Read H."""
    return AgentHello(rest=cursor.rest())


def agent_identity(cursor: Cursor, _frame: Frame) -> Received:
    """Read I: its length is the only one of 16 bits."""
    return AgentIdentity(cursor.str16("a broker's name"))


def package_query(_cursor: Cursor, frame: Frame) -> Received:
    """Read P."""
    return PackageQuery(frame.sequence)


def package_indication(cursor: Cursor, frame: Frame) -> Received:
    """Read p."""
    return PackageIndication(frame.sequence, cursor.name("a package name"))


def class_query(cursor: Cursor, frame: Frame) -> Received:
    """Read Q."""
    return ClassQuery(frame.sequence, cursor.name("a package name"))


def class_indication(cursor: Cursor, frame: Frame) -> Received:
    """Read q: there are no kinds of classes before AM2."""
    return ClassIndication(frame.sequence, ClassKind.OBJECT, cursor.class_key())


def attach_request(cursor: Cursor, frame: Frame) -> Received:
    """Read A."""
    return AttachRequest(frame.sequence, cursor.str8("a label"), cursor.u32("a prefix"))


def attach_response(cursor: Cursor, frame: Frame) -> Received:
    """Read a."""
    return AttachResponse(frame.sequence, cursor.u32("a prefix"))


def broker_request(_cursor: Cursor, frame: Frame) -> Received:
    """Read B."""
    return BrokerRequest(frame.sequence)


def broker_response(cursor: Cursor, frame: Frame) -> Received:
    """Read b."""
    return BrokerResponse(frame.sequence, cursor.uuid("a broker's UUID"))


def command_complete(cursor: Cursor, frame: Frame) -> Received:
    """Read z."""
    return CommandComplete(frame.sequence, cursor.u32("a completion code"), cursor.str8("a completion text"))


def get_query(cursor: Cursor, frame: Frame) -> Received:
    """Read G."""
    return GetQuery(frame.sequence, read_table(cursor))
