"""The feed's octets: a length (u32, big-endian), then one msgpack array ``[kind, ...]``.

Integers keep their 64 bits, times are integer nanoseconds, an absent value is a missing key. Two msgpack
extension types carry what msgpack has no type for: 1 is a UUID (16 octets), 2 an `ObjectLink`.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from uuid import UUID

import msgpack

from gateway.feed.interest import MAX_WANTED, Interest
from gateway.feed.operations import (
    Action,
    InvokeMethod,
    NorthRefusal,
    OperationAnswer,
    OperationKind,
    OperationRecord,
    OperationRequest,
    OperationState,
    ReadFresh,
    SetElements,
)
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    AlarmRecord,
    Alive,
    Batch,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventLogRecord,
    EventLogState,
    EventRecord,
    EventsMadeRecord,
    FeedMessage,
    GapRecord,
    Hello,
    Lifetime,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SnapshotEnded,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.schema_fields import class_schema, event_schema
from gateway.feed.values import ObjectLink
from gateway.model.events import EventState, Severity
from gateway.model.observations import SourceState
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import (
    Argument,
    ClassKey,
    ClassSchema,
    Element,
    EventSchema,
    Method,
    NamedValue,
)
from gateway.model.values import Reference

VERSION = 10
"""Of the feed; told in `Hello`. A client refuses another one."""

MAX_FRAME_OCTETS = 16 * 1024 * 1024
"""A frame announced larger than this is an error: batches are cut long before."""

MAX_REQUEST_OCTETS = 1024 * 1024
"""The same of a request: it is held before anything of it is known."""

_LENGTH = struct.Struct(">I")
_UUID_CODE, _LINK_CODE = 1, 2

_Message = TypeVar("_Message")


class FeedError(Exception):
    """What arrived on a feed is not a feed of this version."""


def encode(message: FeedMessage | OperationRequest | Interest) -> bytes:
    """One frame: length and msgpack array.

    Raises:
        OverflowError: a number has more than 64 bits.
        ValueError: values are nested too deeply, or are not Unicode.
    """
    body = [_TAG_OF[type(message)], *_field_values(message)]
    packed: bytes = msgpack.packb(body, default=_plain, use_bin_type=True, strict_types=True)
    return _LENGTH.pack(len(packed)) + packed


class FrameReader:
    """Cuts what the core says into messages; holds at most one frame."""

    def __init__(self) -> None:
        self._frames = _Frames(MAX_FRAME_OCTETS)

    def feed(self, octets: bytes) -> Iterator[FeedMessage]:
        """Messages completed by ``octets``.

        Raises:
            FeedError: a frame is too long or does not hold a message of this version.
        """
        return map(decode, self._frames.cut(octets))


class RequestReader:
    """Cuts what a north says into requests; holds at most one frame."""

    def __init__(self) -> None:
        self._frames = _Frames(MAX_REQUEST_OCTETS)

    def feed(self, octets: bytes) -> Iterator[OperationRequest | Interest]:
        """Requests, and what objects are wanted, completed by ``octets``.

        Raises:
            FeedError: a frame is too long or does not hold a request of this version.
        """
        return map(decode_request, self._frames.cut(octets))


class _Frames:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()

    def cut(self, octets: bytes) -> Iterator[bytes]:
        self._pending += octets
        while len(self._pending) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._pending)
            if length > self._limit:
                raise FeedError(f"a frame of {length} octets; at most {self._limit} are allowed")
            end = _LENGTH.size + length
            if len(self._pending) < end:
                return
            packed = bytes(self._pending[_LENGTH.size : end])
            del self._pending[:end]
            yield packed


def decode(packed: bytes) -> FeedMessage:
    """The message in the msgpack part of a frame.

    Raises:
        FeedError: it is not one.
    """
    return _decoded(packed, _MESSAGES)


def decode_request(packed: bytes) -> OperationRequest | Interest:
    """The request, or what objects are wanted, in the msgpack part of a frame.

    Raises:
        FeedError: it is not one.
    """
    return _decoded(packed, _REQUESTS)


def _decoded(packed: bytes, kinds: Mapping[str, Callable[..., _Message]]) -> _Message:
    try:
        body = msgpack.unpackb(packed, ext_hook=_extension, use_list=False, strict_map_key=False)
        return kinds[body[0]](*body[1:])
    except (ValueError, TypeError, KeyError, IndexError, msgpack.UnpackException, RecursionError) as error:
        raise FeedError(f"not a feed message: {error}") from error


def _field_values(value: Any) -> list[Any]:  # noqa: ANN401  any of the dataclasses below
    return [getattr(value, name) for name in _FIELDS[type(value)]]


def _plain(value: object) -> Any:  # noqa: ANN401  what msgpack can pack
    """What msgpack packs for a value that it does not know."""
    plain = _PLAIN.get(type(value))
    if plain is not None:
        return plain(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, int):  # msgpack asks, too, where a number is too large for it
        raise OverflowError("a number has more than 64 bits")  # not which: it is recorded, and may be secret
    raise TypeError(f"{type(value).__name__} cannot travel in a feed")


def _extension(code: int, data: bytes) -> object:
    if code == _UUID_CODE:
        return UUID(bytes=data)
    if code == _LINK_CODE:
        return _link(*msgpack.unpackb(data))
    raise ValueError(f"unknown extension type {code}")


def _link(class_name: object, row: object, stable_name: object) -> ObjectLink:
    if not (isinstance(class_name, str) and type(row) is int and isinstance(stable_name, str)):
        raise TypeError("a link is class, row and name")
    return ObjectLink(class_name, row, stable_name)


def _source(*fields: Any) -> SourceRecord:  # noqa: ANN401  msgpack values in the record's order
    number, name, kind, state, *rest = fields
    return SourceRecord(number, name, kind, SourceState(state), *rest)


def _class(number: int, schema: tuple[Any, ...], *elements: str) -> ClassRecord:
    return ClassRecord(number, class_schema(schema), *elements)


def _object(*fields: Any) -> ObjectRecord:  # noqa: ANN401  msgpack values in the record's order
    record = dict(zip(_FIELDS[ObjectRecord], fields, strict=True))
    record["lifetime"] = Lifetime(record["lifetime"])
    return ObjectRecord(**record)


def _event(*fields: Any) -> EventRecord:  # noqa: ANN401  msgpack values in the record's order
    record = dict(zip(_FIELDS[EventRecord], fields, strict=True))
    record["severity"] = Severity(record["severity"])
    record["state"] = EventState(record["state"])
    return EventRecord(**record)


def _alarm(*fields: Any) -> AlarmRecord:  # noqa: ANN401  msgpack values in the record's order
    record = dict(zip(_FIELDS[AlarmRecord], fields, strict=True))
    record["severity"] = Severity(record["severity"])
    return AlarmRecord(**record)


def _event_log(state: str, *rest: Any) -> EventLogRecord:  # noqa: ANN401  msgpack values, in their order
    return EventLogRecord(EventLogState(state), *rest)


def _operation(*fields: Any) -> OperationRecord:  # noqa: ANN401  msgpack values in the record's order
    record = dict(zip(_FIELDS[OperationRecord], fields, strict=True))
    record["kind"] = OperationKind(record["kind"])
    record["state"] = OperationState(record["state"])
    record["principal"] = Principal(*record["principal"])
    record["outcome"] = None if record["outcome"] is None else Outcome(record["outcome"])
    return OperationRecord(**record)


def _request(*fields: Any) -> OperationRequest:  # noqa: ANN401  msgpack values in the request's order
    request = OperationRequest(*fields)
    numbers = (request.request, request.source, request.row, request.timeout, request.sent)
    principal, action = Principal(*fields[1]), _action(*fields[5])
    texts = (principal.north, principal.name, principal.origin, request.class_name, request.reference)
    if not all(type(number) is int for number in numbers) or type(request.check_only) is not bool:
        raise TypeError("request, source, row, timeout and sent are integers, check_only is a boolean")
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("principal, class and reference are texts")
    refusal = None if request.refusal is None else _refusal(*fields[8])
    return dataclasses.replace(request, principal=principal, action=action, refusal=refusal)


def _interest(names: object, rows: object) -> Interest:
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError("names are texts")
    if not isinstance(rows, tuple) or not all(
        isinstance(row, tuple) and [type(number) for number in row] == [int, int] for row in rows
    ):
        raise TypeError("rows are numbers of source and row")
    if len(names) > MAX_WANTED or len(rows) > MAX_WANTED:
        raise ValueError(f"more than {MAX_WANTED} names or rows")
    return Interest(names, rows)


def _refusal(*fields: Any) -> NorthRefusal:  # noqa: ANN401  msgpack values in the refusal's order
    outcome, text, element, attempts = fields
    if not (isinstance(text, str) and isinstance(element, str) and type(attempts) is int and attempts > 0):
        raise TypeError("a refusal is outcome, text, element and how many attempts")
    return NorthRefusal(Outcome(outcome), text, element, attempts)


def _action(tag: str, *fields: Any) -> Action:  # noqa: ANN401  msgpack values in the action's order
    action = _ACTIONS[tag](*fields)
    if isinstance(action, InvokeMethod) and not isinstance(action.method, str):
        raise TypeError("a method's name is a text")
    values = fields[-1] if fields else {}
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise TypeError("values are a map by name")
    return action


def _answer(*fields: Any) -> OperationAnswer:  # noqa: ANN401  msgpack values in the answer's order
    answer = dict(zip(_FIELDS[OperationAnswer], fields, strict=True))
    answer["outcome"] = Outcome(answer["outcome"])
    return OperationAnswer(**answer)


def _delete(*fields: Any) -> DeleteRecord:  # noqa: ANN401  msgpack values in the record's order
    record = dict(zip(_FIELDS[DeleteRecord], fields, strict=True))
    record["lifetime"] = Lifetime(record["lifetime"])
    return DeleteRecord(**record)


def _batch(epoch: int, sequence: int, records: tuple[tuple[Any, ...], ...]) -> Batch:
    return Batch(epoch, sequence, tuple(_RECORDS[tag](*fields) for tag, *fields in records))


_RECORDS: dict[str, Callable[..., Record]] = {
    "source": _source,
    "class": _class,
    "event-class": lambda number, schema: EventClassRecord(number, event_schema(schema)),
    "object": _object,
    "update": UpdateRecord,
    "delete": _delete,
    "agent": AgentRecord,
    "agent-gone": AgentGoneRecord,
    "event": _event,
    "events-made": EventsMadeRecord,
    "alarm": _alarm,
    "gap": GapRecord,
    "event-log": _event_log,
    "operation": _operation,
}
_MESSAGES: dict[str, Callable[..., FeedMessage]] = {
    "hello": Hello,
    "begin": SnapshotBegan,
    "end": SnapshotEnded,
    "batch": _batch,
    "answer": _answer,
    "alive": Alive,
}
_REQUESTS: dict[str, Callable[..., OperationRequest | Interest]] = {
    "request": _request,
    "interest": _interest,
}
_ACTIONS: dict[str, Callable[..., Action]] = {
    "set": SetElements,
    "invoke": InvokeMethod,
    "read": ReadFresh,
}
_TAG_OF: dict[type, str] = {
    SourceRecord: "source",
    ClassRecord: "class",
    EventClassRecord: "event-class",
    ObjectRecord: "object",
    UpdateRecord: "update",
    DeleteRecord: "delete",
    AgentRecord: "agent",
    AgentGoneRecord: "agent-gone",
    EventRecord: "event",
    EventsMadeRecord: "events-made",
    AlarmRecord: "alarm",
    GapRecord: "gap",
    EventLogRecord: "event-log",
    OperationRecord: "operation",
    SetElements: "set",
    InvokeMethod: "invoke",
    ReadFresh: "read",
    OperationRequest: "request",
    Interest: "interest",
    OperationAnswer: "answer",
    Hello: "hello",
    Alive: "alive",
    SnapshotBegan: "begin",
    SnapshotEnded: "end",
    Batch: "batch",
}
_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in dataclasses.fields(kind))
    for kind in (
        *_TAG_OF,
        Principal,
        NorthRefusal,
        ObjectLink,
        ClassSchema,
        EventSchema,
        ClassKey,
        Element,
        Argument,
        Method,
        NamedValue,
    )
}
_PLAIN: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys(_FIELDS, _field_values),
    **{record: lambda value: [_TAG_OF[type(value)], *_field_values(value)] for record in _TAG_OF},
    ObjectLink: lambda link: msgpack.ExtType(_LINK_CODE, msgpack.packb(_field_values(link))),
    UUID: lambda uuid: msgpack.ExtType(_UUID_CODE, uuid.bytes),
    # A reference that stays unresolved, inside a map or list: its native id is all there is to tell.
    Reference: lambda reference: reference.native_id,
    tuple: list,
}
