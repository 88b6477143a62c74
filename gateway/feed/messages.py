"""The binary form of the feed: a head (u32, big-endian), then one msgpack array ``[tag, field, ...]``.

The head is the length of the array; its highest bit is set where values may be extensions, so that most
messages need not be searched for them.

The fields of each message and record are those of its class, in their order; there is no other definition
of the form. Times are integer nanoseconds, an absent value is a missing key. Values that are not a number,
boolean, text, link or map, and links inside of lists and maps, are msgpack extensions (`_Code`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar, get_args
from uuid import UUID

import msgspec
from msgspec.msgpack import Ext

from gateway.feed.operations import Action, LoginReport, OperationAnswer, OperationRequest, ReloadRequest
from gateway.feed.records import (
    Batch,
    FeedMessage,
    Interest,
    PastEvents,
    PastEventsRequest,
    Record,
)
from gateway.feed.values import FeedStruct, FoundValues, NamedValues, ObjectLink, PositionedValues
from gateway.model.values import Reference

VERSION = 24
"""Version of the feed, sent in `Hello`. A client refuses any other version."""

MAX_FRAME_OCTETS = 16 * 1024 * 1024
"""Largest length of a frame; batches are split long before."""

MAX_REQUEST_OCTETS = 1024 * 1024
"""Largest length of a request, which is buffered before anything of it is known."""

FeedRequest: TypeAlias = OperationRequest | LoginReport | ReloadRequest | PastEventsRequest | Interest
"""A message of a front end."""

_HEAD = struct.Struct(">I")
_EXTENDED: Final = 1 << 31
_LENGTH_BITS: Final = _EXTENDED - 1

_Message = TypeVar("_Message")
_Struct = TypeVar("_Struct", bound=FeedStruct)


class _Code:
    """Extension types: a UUID has 16 octets; a list and a link are msgpack arrays."""

    UUID: Final = 1
    OCTETS: Final = 2
    LIST: Final = 3
    LINK: Final = 4


class FeedError(Exception):
    """Received bytes are not a feed of this version."""


def encode(message: FeedMessage | FeedRequest) -> bytes:
    """Return a message as one frame: its length and a msgpack array.

    Raises:
        OverflowError: a number has more than 64 bits.
        ValueError: values are nested too deeply, or are not Unicode.
    """
    try:
        travelling = _travelling(message)
        packed = _ENCODER.encode(travelling)
    except OverflowError:
        raise OverflowError("a number has more than 64 bits") from None  # without it, as it may be secret
    except RecursionError:
        raise ValueError("values are nested too deeply") from None
    return _HEAD.pack(len(packed) | (0 if travelling is message else _EXTENDED)) + packed


class _Reader(Generic[_Message]):
    """Splits a stream into messages; buffers at most one frame."""

    def __init__(self, limit: int, decoder: msgspec.msgpack.Decoder[_Message]) -> None:
        self._limit = limit
        self._decoder = decoder
        self._pending = bytearray()

    def feed(self, octets: bytes) -> Iterator[_Message]:
        """Yield the messages that ``octets`` complete.

        Raises:
            FeedError: a frame is too long or does not hold a message of this version.
        """
        self._pending += octets
        while len(self._pending) >= _HEAD.size:
            (head,) = _HEAD.unpack_from(self._pending)
            length = head & _LENGTH_BITS
            if length > self._limit:
                raise FeedError(f"a frame of {length} octets; at most {self._limit} are allowed")
            end = _HEAD.size + length
            if len(self._pending) < end:
                return
            packed = bytes(self._pending[_HEAD.size : end])
            del self._pending[:end]
            yield _decoded(packed, self._decoder, extended=head & _EXTENDED != 0)


class FrameReader(_Reader[FeedMessage]):
    """Splits the bytes of the core into messages."""

    def __init__(self) -> None:
        super().__init__(MAX_FRAME_OCTETS, _MESSAGES)


class RequestReader(_Reader[FeedRequest]):
    """Splits the bytes of a front end into its messages."""

    def __init__(self) -> None:
        super().__init__(MAX_REQUEST_OCTETS, _REQUESTS)


def _decoded(packed: bytes, decoder: msgspec.msgpack.Decoder[_Message], *, extended: bool) -> _Message:
    try:
        message = decoder.decode(packed)
        if extended:
            _restore(_with_values(message))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise FeedError(f"not a feed message: {error}") from error
    return message


def _with_values(message: object) -> Iterable[object]:
    """Return the parts of a message that may carry values: of a request, its action."""
    if isinstance(message, Batch | PastEvents):
        return message.records
    return (message.action if isinstance(message, OperationRequest) else message,)


# ---- values that msgpack has no type for ------------------------------------------------------------------


def _travelling(message: FeedMessage | FeedRequest) -> FeedMessage | FeedRequest:
    """Return the message with such values as extensions. Most messages have none, and are returned as is."""
    match message:
        case Batch(records=records) | PastEvents(records=records):
            for position, record in enumerate(records):
                if _needs_form(record):  # from here on every record is converted, without this test
                    formed = (*records[:position], *map(_formed, records[position:]))
                    return msgspec.structs.replace(message, records=formed)
        case OperationRequest():
            return msgspec.structs.replace(message, action=_formed(message.action))
        case OperationAnswer():
            return _formed(message)
    return message


def _needs_form(record: Record) -> bool:
    for name in _VALUES_OF.get(type(record), ()):
        if not _PLAIN.issuperset(map(type, getattr(record, name).values())):
            return True
    return False


def _formed(part: _Struct) -> _Struct:
    values = {
        name: {key: _form(value) for key, value in getattr(part, name).items()}
        for name in _VALUES_OF.get(type(part), ())
    }
    return msgspec.structs.replace(part, **values) if values else part


def _form(value: Any) -> Any:  # noqa: ANN401  a `FeedValue`, and what msgpack can pack
    match value:
        case bytes():
            return Ext(_Code.OCTETS, value)
        case UUID():
            return Ext(_Code.UUID, value.bytes)
        case tuple():
            return Ext(_Code.LIST, _ENCODER.encode([_inner_form(one) for one in value]))
        case Mapping():
            return {key: _inner_form(one) for key, one in value.items()}
        case Reference():  # unresolved, inside a map or list: only its native id is known
            return value.native_id
        case _:
            return value


def _inner_form(value: Any) -> Any:  # noqa: ANN401  as above
    """Return the form of a value inside a list or map, where the decoder would take a link for a list."""
    return Ext(_Code.LINK, _ENCODER.encode(value)) if type(value) is ObjectLink else _form(value)


def _restore(parts: Iterable[object]) -> None:
    """Replace extensions by their values. The decoder has replaced those inside maps and lists already."""
    for part in parts:
        for name in _VALUES_OF.get(type(part), ()):
            values = getattr(part, name)
            for key, value in values.items():
                if type(value) is Ext:
                    values[key] = _extension(value.code, bytes(value.data))


def _extension(code: int, data: bytes | memoryview) -> UUID | bytes | tuple[object, ...] | ObjectLink:
    octets = bytes(data)
    match code:
        case _Code.UUID:
            return UUID(bytes=octets)
        case _Code.OCTETS:
            return octets
        case _Code.LIST:
            return _LISTS.decode(octets)
        case _Code.LINK:
            return _LINKS.decode(octets)
        case _:
            raise ValueError(f"unknown extension type {code}")


_PLAIN: Final = frozenset({bool, int, float, str, ObjectLink, type(None)})
"""Types of values that msgpack carries as they are."""

_VALUES_OF: Final[dict[type[object], tuple[str, ...]]] = {
    kind: tuple(
        field.name
        for field in msgspec.structs.fields(kind)
        if field.type in (PositionedValues, NamedValues, FoundValues)
    )
    for kind in get_args(Record | OperationAnswer | Action)
}
"""The names of the fields of a class that carry values."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_LINKS: Final = msgspec.msgpack.Decoder(ObjectLink)
_LISTS: Final = msgspec.msgpack.Decoder(tuple[Any, ...], ext_hook=_extension)
_MESSAGES: Final[msgspec.msgpack.Decoder[FeedMessage]] = msgspec.msgpack.Decoder(
    FeedMessage, ext_hook=_extension
)
_REQUESTS: Final[msgspec.msgpack.Decoder[FeedRequest]] = msgspec.msgpack.Decoder(
    FeedRequest, ext_hook=_extension
)
