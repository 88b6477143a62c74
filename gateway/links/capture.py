"""Captures: events and messages of a session are written to a file, so that they can be replayed.

`CapturedSession` wraps a session and is one itself. It converts events and effects to JSON and back;
`capture_file` defines the file, `docs/capture.md` describes both.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from gateway.dialects.session import (
    BacklogFollows,
    BytesReceived,
    Close,
    ConsoleSession,
    Delivery,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    ListenerStops,
    Listening,
    LossSuspected,
    NotSent,
    ObjectsRestored,
    Operation,
    Peer,
    PeerConnected,
    PeerDisconnected,
    PropertiesMissing,
    ReceivedUntil,
    Send,
    TimerExpired,
    Write,
)
from gateway.links.capture_file import CaptureFile, Fields
from gateway.links.capture_reading import CaptureError, Record
from gateway.model.observations import ObjectSeen
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify
from gateway.model.schema import ClassKey
from gateway.model.values import Reference, Value, Values

Restored = TypeVar("Restored")
LONGEST: Final = 128 << 10
"""Approximate characters of the objects in one record: half of the smallest file of a capture."""


class CapturedSession:
    """Wraps a session, and writes its events and the messages that it sends to a file."""

    def __init__(self, session: ConsoleSession, file: CaptureFile) -> None:
        self._session = session
        self._file = file
        self._reply_to = ""
        self._open: dict[int, Peer] = {}

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Write the event, pass it to the session, and write what the session sends."""
        if isinstance(event, ObjectsRestored):
            return self._restore(event.objects, now)
        return self._passed_on(event, event_fields(event), now)

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """Return the session's answer; it is not written, since a check has no effect."""
        return self._session.precheck(request, now)

    def _restore(self, objects: Iterable[ObjectSeen], now: int) -> list[Effect]:
        """Pass objects in as many parts as they need records."""
        effects: list[Effect] = []
        for record, part in recorded(objects, _object_fields):
            effects += self._passed_on(ObjectsRestored(part), {"event": "restored", **record}, now)
        return effects

    def _passed_on(self, event: Event, record: Fields | None, now: int) -> list[Effect]:
        if record is not None:
            named = record if "event" in record else {"dir": self._file.directions.received, **record}
            self._note_link(event)
            self._write(now, named)
        effects = self._session.handle(event, now)
        for effect in effects:
            sent = effect_fields(effect)
            if sent is not None:
                self._write(now, {"dir": self._file.directions.sent, **sent})
        return effects

    def _note_link(self, event: Event) -> None:
        """Remember what the head of a further file must contain."""
        match event:
            case LinkUp(reply_to):
                self._reply_to = reply_to
            case LinkDown():
                self._reply_to = ""
            case PeerConnected(connection, peer):
                self._open[connection] = peer
            case PeerDisconnected(connection):
                self._open.pop(connection, None)

    def _write(self, now: int, record: Fields) -> None:
        self._file.write({"ns": now, **record}, now, self._standing())

    def _standing(self) -> Fields:
        standing: dict[str, object] = {"reply_to": self._reply_to} if self._reply_to else {}
        if self._open:
            standing["open"] = [_peer_fields(number, peer) for number, peer in self._open.items()]
        return standing


# Events and effects as JSON.


def event_fields(event: Event) -> dict[str, Any] | None:  # noqa: C901, PLR0911, PLR0912  a case for each event
    """Return an event as JSON, with its name in `event` unless it is a received message.

    Returns ``None`` for events that are not captured.
    """
    match event:
        case Delivery():
            return message_fields(event)
        case BytesReceived(connection, octets):
            return octets_fields(connection, octets)
        case TimerExpired():
            return {"event": "tick"}
        case LinkUp(reply_to):
            return {"event": "connected", "reply_to": reply_to}
        case LinkDown(detail, received_until):
            return {"event": "disconnected", "detail": detail, "received_until": received_until}
        case BacklogFollows(missed, waiting):
            return {"event": "catch-up", "missed": missed, "waiting": waiting}
        case LossSuspected(reason, since):
            return {"event": "resync", "reason": reason, "since": since}
        case NotSent(sends, reason):
            return {"event": "unsent", "reason": reason, "sends": [message_fields(send) for send in sends]}
        case PropertiesMissing() | ReceivedUntil():
            return None
        case Listening():
            return {"event": "started"}
        case PeerConnected(connection, peer):
            return {"event": "opened", **_peer_fields(connection, peer)}
        case PeerDisconnected(connection, reason):
            return {"event": "ended", "connection": connection, "reason": reason}
        case ListenerStops():
            return {"event": "stopping"}
        case ObjectsRestored(objects):
            return {"event": "restored", "objects": [_object_fields(seen) for seen in objects]}
        case MethodCall() | ObjectModify() | ObjectFetch():
            return operation_fields(event)


def read_event(record: Record) -> Event:  # noqa: C901, PLR0911, PLR0912  likewise
    """Return the event of a record that `event_fields` made.

    Raises:
        CaptureError: it is not such a record.
    """
    match record.event:
        case "":
            if "connection" in record.fields:
                return BytesReceived(record.value("connection", int), record.body)
            return record.delivery()
        case "tick":
            return TimerExpired()
        case "connected":
            return LinkUp(record.value("reply_to", str))
        case "disconnected":
            return LinkDown(record.value("detail", str), record.value("received_until", int, 0))
        case "catch-up":
            return BacklogFollows(record.value("missed", str), record.value("waiting", int))
        case "resync":
            return LossSuspected(record.value("reason", str), record.value("since", int))
        case "unsent":
            sends = [send.send() for send in record.records("sends")]
            return NotSent(sends, record.value("reason", str))
        case "started":
            return Listening()
        case "opened":
            return read_peer(record)
        case "ended":
            return PeerDisconnected(record.value("connection", int), record.value("reason", str))
        case "stopping":
            return ListenerStops()
        case "restored":
            return ObjectsRestored(read_objects(record))
        case "call" | "modify" | "fetch":
            return read_operation(record)
    raise CaptureError(f"line {record.line}: '{record.event}' is not an event of a session")


def effect_fields(effect: Effect) -> dict[str, Any] | None:
    """Return the message of an effect as JSON; ``None`` for an effect that sends nothing."""
    match effect:
        case Send():
            return message_fields(effect)
        case Write(connection, octets):
            return octets_fields(connection, octets)
        case Close(connection):
            return {"connection": connection, "close": True}
        case _:
            return None


def read_sent(record: Record) -> dict[str, Any]:
    """Return what a session sent, in the form of `effect_fields`.

    Raises:
        CaptureError: it is not such a record.
    """
    if "connection" not in record.fields:
        return message_fields(record.send())
    connection = record.value("connection", int)
    if record.value("close", bool, False):
        return {"connection": connection, "close": True}
    return octets_fields(connection, record.body)


def message_fields(message: Delivery | Send) -> dict[str, Any]:
    """Return a message: exchange and routing key, the rest where it is not empty, the body in base64."""
    written: dict[str, Any] = {"exchange": message.exchange, "routing_key": message.routing_key}
    for one in fields(message):
        value = getattr(message, one.name)
        if one.name not in ("exchange", "routing_key", "body") and value != one.default:
            written[one.name] = value
    return {**written, "body_b64": base64.b64encode(message.body).decode()}


def octets_fields(connection: int, octets: bytes) -> dict[str, Any]:
    """Return bytes of a connection as JSON."""
    return {"connection": connection, "body_b64": base64.b64encode(octets).decode()}


def _peer_fields(connection: int, peer: Peer) -> dict[str, Any]:
    return {"connection": connection, "address": peer.address, "name": peer.name}


def read_peer(record: Record) -> PeerConnected:
    """Return a connection that was opened, or was open at the beginning of this file.

    Raises:
        CaptureError: it is not such a record.
    """
    peer = Peer(record.value("address", str), record.value("name", str))
    return PeerConnected(record.value("connection", int), peer)


# Operations.


def operation_fields(operation: Operation) -> dict[str, Any]:
    """Return an operation as JSON, with its kind in `event`."""
    key = operation.key
    about = {
        "token": operation.token,
        "package": key.package,
        "class": key.name,
        "hash": key.hash.hex(),
        "agent": operation.agent,
        "native_id": operation.native_id,
        "deadline": operation.deadline,
    }
    match operation:
        case MethodCall(method=method, arguments=arguments):
            return {
                "event": "call",
                **about,
                "method": method,
                "arguments": [plain_value(one) for one in arguments],
            }
        case ObjectModify(values=values):
            return {
                "event": "modify",
                **about,
                "values": {name: plain_value(value) for name, value in values.items()},
            }
        case ObjectFetch():
            return {"event": "fetch", **about}


def read_operation(record: Record) -> Operation:
    """Return the operation of a record that `operation_fields` made.

    Raises:
        CaptureError: it is not such a record.
    """
    try:
        key = ClassKey(
            record.value("package", str), record.value("class", str), bytes.fromhex(record.value("hash", str))
        )
        about = (
            record.value("token", int),
            key,
            record.value("agent", str),
            record.value("native_id", str),
        )
        deadline = record.value("deadline", int)
        match record.event:
            case "call":
                arguments = tuple(value_of(one) for one in _of_type(record.fields.get("arguments"), list))
                return MethodCall(*about, record.value("method", str), arguments, deadline)
            case "modify":
                values = _of_type(record.fields.get("values"), dict)
                return ObjectModify(
                    *about, {name: value_of(value) for name, value in values.items()}, deadline
                )
            case _:
                return ObjectFetch(*about, deadline)
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"line {record.line}: this is not an operation: {error}") from error


def plain_value(value: Value | None) -> Any:  # noqa: ANN401  whatever JSON has
    """Return a value as JSON; a type that JSON lacks is an object whose only field names the type."""
    match value:
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case UUID():
            return {"uuid": str(value)}
        case Reference(native_id):
            return {"reference": native_id}
        case Mapping():
            return {"map": {name: plain_value(inner) for name, inner in value.items()}}
        case tuple():
            return [plain_value(inner) for inner in value]
        case _:
            return value


def value_of(written: object) -> Any:  # noqa: ANN401  a value of the model, or None
    """Return the value of JSON that `plain_value` made.

    Raises:
        ValueError: it is not such JSON.
    """
    if isinstance(written, list):
        return tuple(value_of(inner) for inner in written)
    if not isinstance(written, dict):
        return written
    if len(written) != 1:
        raise ValueError("a value that is an object has one field")
    ((form, inner),) = written.items()
    match form:
        case "bytes":
            return _octets(_of_type(inner, str))
        case "uuid":
            return UUID(_of_type(inner, str))
        case "reference":
            return Reference(_of_type(inner, str))
        case "map":
            return {name: value_of(one) for name, one in _of_type(inner, dict).items()}
    raise ValueError(f"no value has the form {form!r}")


def _octets(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("'bytes' is not base64") from error


def _of_type(written: object, kind: type) -> Any:  # noqa: ANN401  of that type
    if not isinstance(written, kind):
        raise ValueError(f"{written!r:.40} is no {kind.__name__}")  # noqa: TRY004  of the input, not of a caller
    return written


# Objects from before a restart.


def recorded(
    objects: Iterable[Restored], fields_of: Callable[[Restored], dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], list[Restored]]]:
    """Yield objects in as many parts as they need records, each with the fields of its record.

    An object that would fill a record alone is left out of it, and counted there in ``left_out``.
    """
    part = _Part[Restored]()
    for seen in objects:
        fields = fields_of(seen)
        size = len(json.dumps(fields))
        if size <= LONGEST < part.size + size:
            yield part.record(), part.objects
            part = _Part[Restored]()
        part.objects.append(seen)
        if size > LONGEST:
            part.left_out += 1
        else:
            part.recorded.append(fields)
            part.size += size
    yield part.record(), part.objects


@dataclass(slots=True)
class _Part(Generic[Restored]):
    recorded: list[dict[str, Any]] = field(default_factory=list)
    objects: list[Restored] = field(default_factory=list)
    size: int = 0
    left_out: int = 0

    def record(self) -> dict[str, Any]:
        return {"objects": self.recorded, **({"left_out": self.left_out} if self.left_out else {})}


def read_objects(record: Record) -> list[ObjectSeen]:
    """Return the objects of a record that `recorded` made.

    Raises:
        CaptureError: it is not such a record.
    """
    try:
        return [_object(one) for one in record.records("objects")]
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"line {record.line}: these are not objects: {error}") from error


def _object_fields(seen: ObjectSeen) -> dict[str, Any]:
    return {
        "package": seen.key.package,
        "class": seen.key.name,
        "hash": seen.key.hash.hex(),
        "agent": seen.agent,
        "native_id": seen.native_id,
        "sampled": seen.sampled,
        "created": seen.created,
        "properties": [plain_value(one) for one in seen.properties or ()],
        "statistics": [plain_value(one) for one in seen.statistics or ()],
        "transient": seen.transient,
    }


def _object(record: Record) -> ObjectSeen:
    package, class_name, digest = (record.value(name, str) for name in ("package", "class", "hash"))
    return ObjectSeen(
        ClassKey(package, class_name, bytes.fromhex(digest)),
        record.value("agent", str),
        record.value("native_id", str),
        record.value("sampled", int),
        record.value("created", int),
        0,
        read_values(record, "properties"),
        read_values(record, "statistics"),
        record.value("transient", bool),
    )


def read_values(record: Record, name: str) -> Values:
    """Return the values of an object that are in a field of a record, each as `plain_value` wrote it.

    Raises:
        ValueError: there are none.
    """
    values = record.fields.get(name)
    if not isinstance(values, list):
        raise ValueError(f"'{name}' is no list")  # noqa: TRY004  of the input, not of a caller
    return tuple(value_of(one) for one in values)
