"""The feed's octets: a length (u32, big-endian), then one msgpack array ``[kind, ...]``.

Integers keep their 64 bits, times are integer nanoseconds, an absent value is a missing key. Two msgpack
extension types carry what msgpack has no type for: 1 is a UUID (16 octets), 2 an `ObjectLink`.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

import msgpack

from gateway.feed.records import (
    AgentRecord,
    AlarmRecord,
    Batch,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventLogRecord,
    EventLogState,
    EventRecord,
    FeedMessage,
    GapRecord,
    Hello,
    Lifetime,
    ObjectLink,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SnapshotEnded,
    SourceRecord,
    UpdateRecord,
)
from gateway.model.events import EventState, Severity
from gateway.model.observations import SourceState
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    EventSchema,
    Kind,
    Method,
    NamedValue,
)
from gateway.model.values import Reference, ValueType

VERSION = 3
"""Of the feed; told in `Hello`. A client refuses another one."""

MAX_FRAME_OCTETS = 16 * 1024 * 1024
"""A frame announced larger than this is an error: batches are cut long before."""

_LENGTH = struct.Struct(">I")
_UUID_CODE, _LINK_CODE = 1, 2


class FeedError(Exception):
    """What arrived on a feed is not a feed of this version."""


def encode(message: FeedMessage) -> bytes:
    """One frame: length and msgpack array."""
    body = [_TAG_OF[type(message)], *_field_values(message)]
    packed: bytes = msgpack.packb(body, default=_plain, use_bin_type=True, strict_types=True)
    return _LENGTH.pack(len(packed)) + packed


class FrameReader:
    """Cuts a stream of octets into messages; holds at most one frame."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, octets: bytes) -> Iterator[FeedMessage]:
        """Messages completed by ``octets``.

        Raises:
            FeedError: a frame is too long or does not hold a message of this version.
        """
        self._pending += octets
        while len(self._pending) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._pending)
            if length > MAX_FRAME_OCTETS:
                raise FeedError(f"a frame of {length} octets; at most {MAX_FRAME_OCTETS} are allowed")
            end = _LENGTH.size + length
            if len(self._pending) < end:
                return
            packed = bytes(self._pending[_LENGTH.size : end])
            del self._pending[:end]
            yield decode(packed)


def decode(packed: bytes) -> FeedMessage:
    """The message in the msgpack part of a frame.

    Raises:
        FeedError: it is not one.
    """
    try:
        body = msgpack.unpackb(packed, ext_hook=_extension, use_list=False, strict_map_key=False)
        return _MESSAGES[body[0]](*body[1:])
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
    raise TypeError(f"{type(value).__name__} cannot travel in a feed")


def _extension(code: int, data: bytes) -> object:
    if code == _UUID_CODE:
        return UUID(bytes=data)
    if code == _LINK_CODE:
        return ObjectLink(*msgpack.unpackb(data))
    raise ValueError(f"unknown extension type {code}")


def _element(fields: tuple[Any, ...]) -> Element:
    element = dict(zip(_FIELDS[Element], fields, strict=True))
    element["type"] = ValueType(element["type"])
    element["access"] = Access(element["access"])
    element["kind"] = Kind(element["kind"])
    element["values"] = tuple(NamedValue(*named) for named in element["values"])
    return Element(**element)


def _argument(fields: tuple[Any, ...]) -> Argument:
    argument = dict(zip(_FIELDS[Argument], fields, strict=True))
    argument["type"] = ValueType(argument["type"])
    argument["direction"] = Direction(argument["direction"])
    argument["values"] = tuple(NamedValue(*named) for named in argument["values"])
    return Argument(**argument)


def _class_schema(fields: tuple[Any, ...]) -> ClassSchema:
    key, properties, statistics, methods, label, description = fields
    return ClassSchema(
        ClassKey(*key),
        tuple(_element(element) for element in properties),
        tuple(_element(element) for element in statistics),
        tuple(
            Method(name, tuple(_argument(argument) for argument in arguments), *texts)
            for name, arguments, *texts in methods
        ),
        label,
        description,
    )


def _event_schema(fields: tuple[Any, ...]) -> EventSchema:
    key, arguments, label, description = fields
    return EventSchema(
        ClassKey(*key), tuple(_argument(argument) for argument in arguments), label, description
    )


def _source(*fields: Any) -> SourceRecord:  # noqa: ANN401  msgpack values in the record's order
    number, name, kind, state, *rest = fields
    return SourceRecord(number, name, kind, SourceState(state), *rest)


def _class(number: int, schema: tuple[Any, ...], *elements: str) -> ClassRecord:
    return ClassRecord(number, _class_schema(schema), *elements)


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


def _delete(*fields: Any) -> DeleteRecord:  # noqa: ANN401  msgpack values in the record's order
    record = dict(zip(_FIELDS[DeleteRecord], fields, strict=True))
    record["lifetime"] = Lifetime(record["lifetime"])
    return DeleteRecord(**record)


def _batch(epoch: int, sequence: int, records: tuple[tuple[Any, ...], ...]) -> Batch:
    return Batch(epoch, sequence, tuple(_RECORDS[tag](*fields) for tag, *fields in records))


_RECORDS: dict[str, Callable[..., Record]] = {
    "source": _source,
    "class": _class,
    "event-class": lambda number, schema: EventClassRecord(number, _event_schema(schema)),
    "object": _object,
    "update": UpdateRecord,
    "delete": _delete,
    "agent": AgentRecord,
    "event": _event,
    "alarm": _alarm,
    "gap": GapRecord,
    "event-log": _event_log,
}
_MESSAGES: dict[str, Callable[..., FeedMessage]] = {
    "hello": Hello,
    "begin": SnapshotBegan,
    "end": SnapshotEnded,
    "batch": _batch,
}
_TAG_OF: dict[type, str] = {
    SourceRecord: "source",
    ClassRecord: "class",
    EventClassRecord: "event-class",
    ObjectRecord: "object",
    UpdateRecord: "update",
    DeleteRecord: "delete",
    AgentRecord: "agent",
    EventRecord: "event",
    AlarmRecord: "alarm",
    GapRecord: "gap",
    EventLogRecord: "event-log",
    Hello: "hello",
    SnapshotBegan: "begin",
    SnapshotEnded: "end",
    Batch: "batch",
}
_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in dataclasses.fields(kind))
    for kind in (
        *_TAG_OF,
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
