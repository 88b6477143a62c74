"""The fields of AM2 records: integers, strings, UUIDs, object ids, class keys; encoded and decoded.

All integers are big-endian and unsigned. ``str8`` and ``str16`` are octets after a length of 8 or 16
bits, by custom UTF-8. Sources: QMF AM2 protocol; AMQP 0-10, section 3.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.model.schema import ClassKey

_U8 = struct.Struct(">B")
_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")

_OCTET = tuple(bytes((value,)) for value in range(256))

HASH_LENGTH = 16
"""Octets of a class hash."""

NO_HASH = bytes(HASH_LENGTH)
"""The hash of a class without one; the Java broker sends it for every class."""


def decode_text(octets: bytes) -> str:
    r"""Return ``octets`` as text.

    AMQP names are octets, and brokers accept any from clients: invalid UTF-8 is shown as ``\xNN``,
    so that it stays printable and different names stay different.
    """
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets.decode(errors="backslashreplace")


def encode_text(text: str, limit: int) -> bytes:
    """Return the octets of ``text``.

    Raises:
        LocalProtocolError: it is longer than ``limit`` octets (it is never cut), or has a lone surrogate.
    """
    try:
        octets = text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"{text[:40]!r} is not encodable as UTF-8") from error
    if len(octets) > limit:
        raise LocalProtocolError(f"text of {len(octets)} octets, {limit} fit: {text[:40]!r}")
    return octets


class Cursor:
    """Decodes fields one after the other.

    Args:
        body: the octets.
        position: the first octet to decode.
        end: the position behind the last one, by default the end of ``body``.

    Every method raises `ProtocolError` with the offset in ``body`` if the field runs past ``end``.
    """

    __slots__ = ("body", "end", "position")

    def __init__(self, body: bytes, position: int = 0, end: int | None = None) -> None:
        self.body = body
        self.position = position
        self.end = len(body) if end is None else end

    @property
    def remaining(self) -> int:
        """The number of octets that are left."""
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

        It is sent back to the peer in later requests, so it must not change.
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
    """Encode package, class and hash; an empty hash is sent as zeros."""
    digest = key.hash or NO_HASH
    if len(digest) != HASH_LENGTH:
        raise LocalProtocolError(f"the hash of {key} has {len(digest)} octets instead of {HASH_LENGTH}")
    return str8(key.package) + str8(key.name) + digest


_OCTETS = struct.Struct(">QQ")
_U64_MASK = (1 << 64) - 1
_FIELD_BITS = (("flags", 4), ("sequence", 12), ("broker bank", 20), ("agent bank", 28), ("number", 64))
_TEXT = re.compile(r"(\d{1,2})-(\d{1,4})-(\d{1,7})-(\d{1,9})-(\d{1,20})", re.ASCII)

OBJECT_ID_LENGTH = 16
"""Octets of an object id on the wire."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectId:
    """An object id, as the two unsigned integers of 64 bits of its wire form.

    ``prefix`` packs flags (4 bits), boot sequence (12), broker bank (20) and agent bank (28), most
    significant first; ``number`` is the agent's own. All zero is the null reference.
    """

    prefix: int
    number: int

    @classmethod
    def of(
        cls, *, sequence: int, number: int, broker_bank: int = 1, agent_bank: int = 0, flags: int = 0
    ) -> ObjectId:
        """Return an object id of these fields.

        Raises:
            LocalProtocolError: a field does not fit its bits.
        """
        fields = (flags, sequence, broker_bank, agent_bank, number)
        for (name, bits), value in zip(_FIELD_BITS, fields, strict=True):
            if not 0 <= value < 1 << bits:
                raise LocalProtocolError(f"{name} {value} of an object id does not fit {bits} bits")
        return cls(flags << 60 | sequence << 48 | broker_bank << 28 | agent_bank, number)

    @classmethod
    def parse(cls, text: str) -> ObjectId:
        """Read the text form ``flags-sequence-brokerBank-agentBank-number``, all decimal.

        Raises:
            ProtocolError: the text has another form, or a field does not fit its bits.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ProtocolError("an object id such as 0-1-1-0-15", repr(text[:80]))
        flags, sequence, broker_bank, agent_bank, number = map(int, match.groups())
        try:
            return cls.of(
                flags=flags,
                sequence=sequence,
                broker_bank=broker_bank,
                agent_bank=agent_bank,
                number=number,
            )
        except LocalProtocolError as error:
            raise ProtocolError("an object id whose fields fit their bits", str(error)) from error

    @classmethod
    def from_octets(cls, octets: bytes) -> ObjectId:
        """Read the 16 octets of the wire form.

        Raises:
            ProtocolError: ``octets`` is not 16 octets long.
        """
        if len(octets) != OBJECT_ID_LENGTH:
            raise ProtocolError("16 octets of an object id", f"{len(octets)}")
        return cls(*_OCTETS.unpack(octets))

    def to_octets(self) -> bytes:
        """Return the 16 octets of the wire form."""
        return _OCTETS.pack(self.prefix & _U64_MASK, self.number & _U64_MASK)

    @property
    def flags(self) -> int:
        """The reserved flags, which are 0."""
        return self.prefix >> 60

    @property
    def sequence(self) -> int:
        """The boot sequence of the agent; 0 for an id that outlives restarts."""
        return self.prefix >> 48 & 0xFFF

    @property
    def is_persistent(self) -> bool:
        """Whether it outlives restarts; ids from before AM2, without sequence and banks, do not count."""
        return prefix_of(self.prefix).is_persistent

    @property
    def broker_bank(self) -> int:
        """The number of the broker."""
        return self.prefix >> 28 & 0xFFFFF

    @property
    def agent_bank(self) -> int:
        """The number of the agent; 0 is the broker's own."""
        return self.prefix & 0xFFFFFFF

    def __bool__(self) -> bool:
        """Return False for the null reference."""
        return bool(self.prefix or self.number)

    def __str__(self) -> str:
        return f"{prefix_of(self.prefix).text}{self.number}"


NULL = ObjectId(0, 0)
"""The null reference."""


@lru_cache(maxsize=8192)
def object_id_of(octets: bytes) -> ObjectId:
    """Return the object id of the 16 octets of the wire form, from a cache if possible.

    Most objects are reported again and again, and referred to. Raises ``struct.error`` for another length.
    """
    return ObjectId(*_OCTETS.unpack(octets))


class Prefix(NamedTuple):
    """The common part of all object ids of an agent.

    Attributes:
        agent: the agent that owns the objects. The Java broker leaves the banks 0: then the broker's own.
        text: the text of the ids, up to the number.
        is_persistent: as `ObjectId.is_persistent`.
    """

    agent: str
    text: str
    is_persistent: bool


@lru_cache(maxsize=4096)
def prefix_of(prefix: int) -> Prefix:
    """Return the decoded prefix of an object id; every content record needs it."""
    flags, sequence = prefix >> 60, prefix >> 48 & 0xFFF
    broker, agent = prefix >> 28 & 0xFFFFF, prefix & 0xFFFFFFF
    text = f"{flags}-{sequence}-{broker}-{agent}-"
    return Prefix(f"{broker or 1}.{agent}", text, bool(prefix) and not sequence)
