"""The fields that AM2 records are made of: integers, strings, UUIDs, object ids, class keys; both ways.

All integers are big-endian and unsigned. ``str8`` and ``str16`` are octets behind a length of 8 or 16
bits, UTF-8 by custom. Sources: QMF AM2 protocol; AMQP 0-10, section 3.
"""

from __future__ import annotations

import struct
from uuid import UUID

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.object_id import LENGTH as OBJECT_ID_LENGTH
from gateway.dialects.qmf.object_id import ObjectId
from gateway.model.schema import ClassKey

_U8 = struct.Struct(">B")
_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")

_OCTET = tuple(bytes((value,)) for value in range(256))

HASH_LENGTH = 16
"""Octets of a class hash."""

NO_HASH = bytes(HASH_LENGTH)
"""What is sent where a class has no hash; the Java broker sends it for every class."""


def decode_text(octets: bytes) -> str:
    r"""Return ``octets`` as text.

    AMQP names are octets, and brokers let clients put any there: what is no UTF-8 is shown as ``\xNN``,
    so that it stays printable and two names stay two.
    """
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.decode(errors="backslashreplace")


def encode_text(text: str, limit: int) -> bytes:
    """Return the octets of ``text``.

    Raises:
        LocalProtocolError: longer than ``limit`` octets (it is never cut), or holds a lone surrogate.
    """
    try:
        octets = text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"{text[:40]!r} is no text that UTF-8 can carry") from error
    if len(octets) > limit:
        raise LocalProtocolError(f"text of {len(octets)} octets, {limit} fit: {text[:40]!r}")
    return octets


class Cursor:
    """Reads fields one after the other.

    Args:
        body: the octets to read.
        position: where to begin.
        end: where to stop, by default the end of ``body``.

    Every method raises `ProtocolError` with the offset in ``body`` if the field runs past ``end``.
    """

    __slots__ = ("body", "end", "position")

    def __init__(self, body: bytes, position: int = 0, end: int | None = None) -> None:
        self.body = body
        self.position = position
        self.end = len(body) if end is None else end

    @property
    def remaining(self) -> int:
        """Octets not yet read."""
        return self.end - self.position

    def _take(self, length: int, what: str) -> int:
        start = self.position
        if length > self.end - start:
            raise ProtocolError(f"{length} octets of {what}", f"{self.end - start}", start)
        self.position = start + length
        return start

    def octets(self, length: int, what: str = "data") -> bytes:
        """Return the next ``length`` octets."""
        start = self._take(length, what)
        return self.body[start : self.position]

    def rest(self) -> bytes:
        """Return all remaining octets."""
        return self.octets(self.remaining)

    def u8(self, what: str = "a u8") -> int:
        """Return an integer of 8 bits."""
        return self.body[self._take(1, what)]

    def u16(self, what: str = "a u16") -> int:
        """Return an integer of 16 bits."""
        value: int = _U16.unpack_from(self.body, self._take(2, what))[0]
        return value

    def u32(self, what: str = "a u32") -> int:
        """Return an integer of 32 bits."""
        value: int = _U32.unpack_from(self.body, self._take(4, what))[0]
        return value

    def u64(self, what: str = "a u64") -> int:
        """Return an integer of 64 bits."""
        value: int = _U64.unpack_from(self.body, self._take(8, what))[0]
        return value

    def str8(self, what: str = "a str8") -> str:
        """Return a string of up to 255 octets."""
        return decode_text(self.octets(self.u8(f"the length of {what}"), what))

    def str16(self, what: str = "a str16") -> str:
        """Return a string of up to 65,535 octets."""
        return decode_text(self.octets(self.u16(f"the length of {what}"), what))

    def name(self, what: str) -> str:
        """Return the name of a package, class or method (str8); unlike other text it must be UTF-8.

        It goes back to the peer in later requests, so that it has to stay what it was.
        """
        start = self.position
        octets = self.octets(self.u8(f"the length of {what}"), what)
        try:
            return octets.decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(f"{what} in UTF-8", repr(octets[:80]), start) from error

    def uuid(self, what: str = "a UUID") -> UUID:
        """Return a UUID."""
        return UUID(bytes=self.octets(16, what))

    def object_id(self, what: str = "an object id") -> ObjectId:
        """Return an object id."""
        return ObjectId.from_octets(self.octets(OBJECT_ID_LENGTH, what))

    def class_key(self) -> ClassKey:
        """Return package (str8), class (str8) and hash (16 octets)."""
        package = self.name("a package name")
        name = self.name("a class name")
        return ClassKey(package, name, self.octets(HASH_LENGTH, "a class hash"))


def key_octets(body: bytes, start: int) -> bytes:
    """Return the octets of the class key that stands at ``start``, without making strings of them.

    Raises:
        ProtocolError: the body ends before the key does.
    """
    try:
        class_length = start + 1 + body[start]
        end = class_length + 1 + body[class_length] + HASH_LENGTH
    except IndexError as error:
        raise ProtocolError("a class key", "the end of the body", start) from error
    if end > len(body):
        raise ProtocolError("a class key", "the end of the body", start)
    return body[start:end]


def _pack(form: struct.Struct, value: int) -> bytes:
    try:
        return form.pack(value)
    except struct.error as error:
        raise LocalProtocolError(
            f"{value!r} does not fit an unsigned integer of {form.size} octets"
        ) from error


def u8(value: int) -> bytes:
    """Encode an integer of 8 bits; `LocalProtocolError` if it does not fit."""
    return _pack(_U8, value)


def u16(value: int) -> bytes:
    """Encode an integer of 16 bits; `LocalProtocolError` if it does not fit."""
    return _pack(_U16, value)


def u32(value: int) -> bytes:
    """Encode an integer of 32 bits; `LocalProtocolError` if it does not fit."""
    return _pack(_U32, value)


def u64(value: int) -> bytes:
    """Encode an integer of 64 bits; `LocalProtocolError` if it does not fit."""
    return _pack(_U64, value)


def str8(text: str) -> bytes:
    """Encode a string of up to 255 octets; `LocalProtocolError` if it is longer."""
    octets = encode_text(text, 0xFF)
    return _OCTET[len(octets)] + octets


def str16(text: str) -> bytes:
    """Encode a string of up to 65,535 octets; `LocalProtocolError` if it is longer."""
    octets = encode_text(text, 0xFFFF)
    return _U16.pack(len(octets)) + octets


def class_key(key: ClassKey) -> bytes:
    """Encode package, class and hash; an empty hash travels as zeros."""
    digest = key.hash or NO_HASH
    if len(digest) != HASH_LENGTH:
        raise LocalProtocolError(f"the hash of {key} has {len(digest)} octets instead of {HASH_LENGTH}")
    return str8(key.package) + str8(key.name) + digest
