"""Reads bodies of AM01 and AM1: one record each, whose revision is told apart by key, form and length.

No octet names the revision of an AM01 body: the same opcode has several forms. Each form that the routing
key allows is tried, and the one that ends exactly where the body does, and names the class that the routing
key names, is what was said. Sources: Apache Qpid management design notes; agents of February and March 2008.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.am01 import records
from gateway.dialects.qmf.am01.keys import Address, read_key
from gateway.dialects.qmf.am01.messages import ClassDescription, Received
from gateway.dialects.qmf.am01.records import Frame
from gateway.dialects.qmf.am01.revisions import ALL, BROADCASTING, Revision
from gateway.dialects.qmf.am01.schemas import event_name
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.fields import Cursor
from gateway.dialects.qmf.messages import Content, EventIndication, UnknownClass, UnknownOpcode
from gateway.model.schema import ClassKey

MAX_BODY: Final = 65_536
"""Octets of a body at most, as agents take them."""

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
    """What a body says, and which revisions say it in this way, under this routing key."""

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
        routing_key: that it came under.
        body: the octets.
        definitions: the classes known so far; those of broadcasting revisions have no package and no hash.
        revisions: what the peer may speak; the fewer, the sooner a body is read.
        extended: whether the peer speaks what the design notes name but do not lay out, as we do (`records`).

    Raises:
        ProtocolError: no form of these revisions fits from its first octet to its last.
    """
    if len(body) > MAX_BODY:
        raise ProtocolError(f"a body of at most {MAX_BODY} octets", f"{len(body)}")
    address = read_key(routing_key)
    allowed = revisions & address.revisions
    forms, start, frame = _forms(body, address, definitions, extended=extended)
    unknown: Reading | None = None
    failed: ProtocolError | None = None
    for speakers, read_form in forms:
        told_by = speakers & allowed
        if not told_by:
            continue
        try:
            found = _attempt(read_form, Cursor(body, start), frame, told_by)
        except ProtocolError as error:
            failed = failed or error
            continue
        if not isinstance(found.message, UnknownClass | UnknownOpcode):
            return found
        unknown = unknown or found
    if Revision.NOVEMBER_2007 in allowed:
        read_bare = records.bare_request if address.calls else records.bare_response
        # What is wrong with a form that anything could have tells nobody anything.
        with suppress(ProtocolError):
            return _attempt(read_bare, Cursor(body), frame, _NOVEMBER)
    if unknown is not None:
        return unknown
    raise failed or ProtocolError(
        "a record of AM01 or AM1 that belongs under its routing key", repr(body[:8])
    )


def _attempt(read_form: _ReadForm, cursor: Cursor, frame: Frame, speakers: frozenset[Revision]) -> Reading:
    message = read_form(cursor, frame)
    told_by = _narrowed(message, speakers, frame.address)
    if cursor.position != cursor.end and not isinstance(message, UnknownClass | UnknownOpcode):
        raise ProtocolError("the end of the body", f"{cursor.remaining} more octets", cursor.position)
    return Reading(message, told_by)


def _narrowed(message: Received, speakers: frozenset[Revision], address: Address) -> frozenset[Revision]:
    """Return those of ``speakers`` who say such a thing under such a key."""
    key = _class_told(message)
    if key is None or not address.subject:
        return speakers
    if len(speakers) == 1:  # as soon as it is known who speaks
        (revision,) = speakers
        told_by = speakers if address.agrees(revision, key) else frozenset()
    else:
        told_by = frozenset(revision for revision in speakers if address.agrees(revision, key))
    if not told_by:
        raise ProtocolError(f"the class of the routing key, {address.subject[:80]}", str(key)[:80])
    return told_by


def _class_told(message: Received) -> ClassKey | None:
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
    """Return the forms that ``body`` could have, where its record begins, and what is known of it."""
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
