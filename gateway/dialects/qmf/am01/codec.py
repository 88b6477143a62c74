"""Bodies of AM01 and AM1: one record each, whose revision is recognised by key, form and length.

No octet names the revision of an AM01 body: the same opcode has several forms. Each form that the routing
key permits is tried; the right one ends exactly where the body does, and has the class of the routing
key. Sources: Apache Qpid management design notes; agents of February and March 2008.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.am01 import records
from gateway.dialects.qmf.am01.forms import object_id_octets, write_table
from gateway.dialects.qmf.am01.keys import Address, read_key
from gateway.dialects.qmf.am01.messages import (
    ALL,
    BROADCASTING,
    AgentHello,
    AgentIdentity,
    AttachRequest,
    AttachResponse,
    ClassDescription,
    Message,
    MethodRequest,
    Received,
    Revision,
)
from gateway.dialects.qmf.am01.records import Frame
from gateway.dialects.qmf.am01.schemas import event_name, write_schema
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions
from gateway.dialects.qmf.fields import Cursor
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
    UnknownOpcode,
)
from gateway.model.schema import ClassKey

MAX_BODY: Final = 65_536
"""Largest number of octets of a body, as in agents."""

_AM01_HEADER: Final = 6
_AM1_HEADER: Final = 8

_NOVEMBER: Final = frozenset((Revision.NOVEMBER_2007,))
_JANUARY: Final = frozenset((Revision.JANUARY_2008,))
_FEBRUARY: Final = frozenset((Revision.FEBRUARY_2008,))
_MARCH: Final = frozenset((Revision.MARCH_2008,))
_NOTES: Final = frozenset((Revision.DESIGN_NOTES,))

_ReadForm: TypeAlias = "Callable[[Cursor, Frame], Received]"
_Form: TypeAlias = "tuple[frozenset[Revision], _ReadForm]"


class Reading(NamedTuple):
    """The message of a body, and the revisions that have this form under its routing key."""

    message: Received
    revisions: frozenset[Revision]


def read(
    routing_key: str,
    body: bytes,
    definitions: Definitions,
    revisions: frozenset[Revision] = ALL,
    *,
    extended: bool = False,
) -> Reading:
    """Read one body.

    Args:
        routing_key: the routing key of the body.
        body: the octets.
        definitions: the known classes; those of broadcasting revisions have no package and no hash.
        revisions: the possible revisions of the peer; with fewer ones, reading is faster.
        extended: whether the peer uses this gateway's layouts for what the design notes only name
            (`records`).

    Raises:
        ProtocolError: no form of these revisions fits the whole body.
    """
    if len(body) > MAX_BODY:
        raise ProtocolError(f"a body of at most {MAX_BODY} octets", f"{len(body)}")
    address = read_key(routing_key)
    allowed = revisions & address.revisions
    forms, start, frame = _forms(body, address, definitions, extended=extended)
    unknown: Reading | None = None
    failed: ProtocolError | None = None
    for speakers, read_form in forms:
        matching = speakers & allowed
        if not matching:
            continue
        try:
            found = _attempt(read_form, Cursor(body, start), frame, matching)
        except ProtocolError as error:
            failed = failed or error
            continue
        if not isinstance(found.message, UnknownClass | UnknownOpcode):
            return found
        unknown = unknown or found
    if Revision.NOVEMBER_2007 in allowed:
        read_bare = records.bare_request if address.calls else records.bare_response
        # The error of a form that fits any octets would not help.
        with suppress(ProtocolError):
            return _attempt(read_bare, Cursor(body), frame, _NOVEMBER)
    if unknown is not None:
        return unknown
    raise failed or ProtocolError(
        "a record of AM01 or AM1 that belongs under its routing key", repr(body[:8])
    )


def _attempt(read_form: _ReadForm, cursor: Cursor, frame: Frame, speakers: frozenset[Revision]) -> Reading:
    message = read_form(cursor, frame)
    matching = _narrowed(message, speakers, frame.address)
    if cursor.position != cursor.end and not isinstance(message, UnknownClass | UnknownOpcode):
        raise ProtocolError("the end of the body", f"{cursor.remaining} more octets", cursor.position)
    return Reading(message, matching)


def _narrowed(message: Received, speakers: frozenset[Revision], address: Address) -> frozenset[Revision]:
    """Return those of ``speakers`` that use such a record under such a key."""
    key = _class_of(message)
    if key is None or not address.subject:
        return speakers
    if len(speakers) == 1:  # the usual case, once the revision is known
        (revision,) = speakers
        matching = speakers if address.agrees(revision, key) else frozenset()
    else:
        matching = frozenset(revision for revision in speakers if address.agrees(revision, key))
    if not matching:
        raise ProtocolError(f"the class of the routing key, {address.subject[:80]}", str(key)[:80])
    return matching


def _class_of(message: Received) -> ClassKey | None:
    if isinstance(message, Content):
        return message.key
    if isinstance(message, ClassDescription):
        return message.definition.key
    if isinstance(message, EventIndication) or (
        isinstance(message, UnknownClass) and message.code == ord(EventIndication.opcode)
    ):
        return ClassKey(message.key.package, event_name(message.key)[0])
    return message.key if isinstance(message, UnknownClass) else None


def _forms(
    body: bytes, address: Address, definitions: Definitions, *, extended: bool
) -> tuple[Sequence[_Form], int, Frame]:
    """Return the possible forms of ``body``, the position of its record, and what is known of it."""
    if body.startswith(b"AM01") and len(body) >= _AM01_HEADER:
        opcode = body[4:_AM01_HEADER]
        forms = _EVENT_FORMS if extended and opcode == _EVENT else _AM01_FORMS.get(opcode, _UNKNOWN_FORMS)
        return forms, _AM01_HEADER, Frame(opcode[0], 0, address, definitions)
    if body.startswith(b"AM1") and len(body) >= _AM1_HEADER:
        code, sequence = body[3], int.from_bytes(body[4:_AM1_HEADER], "big")
        form = (_MARCH, _AM1_RECORDS.get(code, _unknown))
        return (form,), _AM1_HEADER, Frame(code, sequence, address, definitions)
    return (), 0, Frame(0, 0, address, definitions)


def _unknown(_cursor: Cursor, frame: Frame) -> Received:
    return UnknownOpcode(frame.sequence, frame.code)


_UNKNOWN_FORMS: Final[tuple[_Form, ...]] = ((ALL - _MARCH, _unknown),)
_EVENT: Final = b"E\0"
_EVENT_FORMS: Final[tuple[_Form, ...]] = ((_NOTES, records.event),)

_AM01_FORMS: Final[dict[bytes, tuple[_Form, ...]]] = {
    b"S\0": (
        (BROADCASTING, records.named_schema),
        (_NOTES, records.schema),
        (_FEBRUARY, records.schema_request),
    ),
    b"CC": (
        (BROADCASTING, records.named_configuration),
        (_NOTES | _FEBRUARY, records.configuration),
    ),
    b"CI": (
        (BROADCASTING, records.named_instrumentation),
        (_NOTES | _FEBRUARY, records.instrumentation),
    ),
    b"M\0": ((_NOTES | _JANUARY | _FEBRUARY, records.method_request),),
    b"R\0": ((_NOTES | _JANUARY, records.method_response),),
    b"m\0": ((_FEBRUARY, records.method_response),),
    b"s\0": ((_FEBRUARY, records.schema),),
    b"H\0": ((_FEBRUARY, records.agent_hello),),
    b"I\0": ((_FEBRUARY, records.agent_identity),),
    b"P\0": ((_FEBRUARY, records.package_query),),
    b"p\0": ((_FEBRUARY, records.package_indication),),
    b"Q\0": ((_FEBRUARY, records.class_query),),
    b"q\0": ((_FEBRUARY, records.class_indication),),
    b"A\0": ((_FEBRUARY, records.attach_request),),
    b"a\0": ((_FEBRUARY, records.attach_response),),
}

_AM1_RECORDS: Final[dict[int, _ReadForm]] = {
    ord("B"): records.broker_request,
    ord("b"): records.broker_response,
    ord("z"): records.command_complete,
    ord("P"): records.package_query,
    ord("p"): records.package_indication,
    ord("Q"): records.class_query,
    ord("q"): records.class_indication,
    ord("S"): records.schema_request,
    ord("s"): records.schema,
    ord("c"): records.configuration,
    ord("i"): records.instrumentation,
    ord("g"): records.whole_object,
    ord("G"): records.get_query,
    ord("M"): records.am1_method_request,
    ord("m"): records.am1_method_response,
    ord("A"): records.attach_request,
    ord("a"): records.attach_response,
}


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
        message: the message.
        revision: the revision of the peer.
        definitions: required for messages with values of a class or event.
        extended: whether the peer uses this gateway's layouts for what the design notes only name
            (`records`).

    Raises:
        LocalProtocolError: the revision lacks the message, a value does not fit, or the class is unknown.
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
        raise LocalProtocolError("only requests of November 2007 have a reply queue")
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
        raise LocalProtocolError("a request of November 2007 needs a reply queue")
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


# Each function takes the class of its key, which the type of a table cannot express.
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
_JANUARY_OPCODES: Final[Mapping[type[object], bytes]] = {
    **_CONTENT_OPCODES,
    ClassDescription: b"S\0",
    MethodRequest: b"M\0",
    MethodResponse: b"R\0",
}
_OPCODES: Final[Mapping[Revision, Mapping[type[object], bytes]]] = {
    Revision.DESIGN_NOTES: {**_JANUARY_OPCODES, EventIndication: b"E\0"},
    Revision.NOVEMBER_2007: _JANUARY_OPCODES,
    Revision.JANUARY_2008: _JANUARY_OPCODES,
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
