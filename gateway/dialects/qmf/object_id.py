"""Object ids: 128 bits that name an object within one broker (QMF AM2 protocol, "Object Identifiers")."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import lru_cache

from gateway.dialects.errors import LocalProtocolError, ProtocolError

_OCTETS = struct.Struct(">QQ")
_U64 = (1 << 64) - 1
_FIELD_BITS = (("flags", 4), ("sequence", 12), ("broker bank", 20), ("agent bank", 28), ("number", 64))
_TEXT = re.compile(r"(\d{1,2})-(\d{1,4})-(\d{1,7})-(\d{1,9})-(\d{1,20})", re.ASCII)

LENGTH = 16
"""Octets of an object id on the wire."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectId:
    """An object id as the two unsigned 64-bit integers that travel.

    ``prefix`` packs flags (4 bits), boot sequence (12), broker bank (20) and agent bank (28), most
    significant first; ``number`` is the agent's own. All zero is the null reference.
    """

    prefix: int
    number: int

    @classmethod
    def of(
        cls, *, sequence: int, number: int, broker_bank: int = 1, agent_bank: int = 0, flags: int = 0
    ) -> ObjectId:
        """Build an object id from its fields.

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
            ProtocolError: the text is something else, or a field does not fit its bits.
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
        if len(octets) != LENGTH:
            raise ProtocolError("16 octets of an object id", f"{len(octets)}")
        return cls(*_OCTETS.unpack(octets))

    def to_octets(self) -> bytes:
        """Return the 16 octets of the wire form."""
        return _OCTETS.pack(self.prefix & _U64, self.number & _U64)

    @property
    def flags(self) -> int:
        """Reserved, 0."""
        return self.prefix >> 60

    @property
    def sequence(self) -> int:
        """Boot sequence of the agent; 0 for an id that outlives restarts."""
        return self.prefix >> 48 & 0xFFF

    @property
    def is_lasting(self) -> bool:
        """Whether it outlives restarts; ids of before AM2, without sequence and banks, do not say."""
        return bool(self.prefix) and not self.sequence

    @property
    def broker_bank(self) -> int:
        """Number of the broker."""
        return self.prefix >> 28 & 0xFFFFF

    @property
    def agent_bank(self) -> int:
        """Number of the agent; 0 is the broker's own."""
        return self.prefix & 0xFFFFFFF

    def __bool__(self) -> bool:
        """False for the null reference."""
        return bool(self.prefix or self.number)

    def __str__(self) -> str:
        return f"{_text_of_prefix(self.prefix)}{self.number}"


NULL = ObjectId(0, 0)
"""The reference to nothing."""


@lru_cache(maxsize=8192)
def object_id_of(octets: bytes) -> ObjectId:
    """Return the object id of the 16 octets of the wire form, quickly where it was seen lately.

    Most objects are told again and again, and named by others. Raises ``struct.error`` for another length.
    """
    return ObjectId(*_OCTETS.unpack(octets))


@lru_cache(maxsize=4096)
def _text_of_prefix(prefix: int) -> str:
    # All objects of an agent share it, and every content record needs its text.
    return f"{prefix >> 60}-{prefix >> 48 & 0xFFF}-{prefix >> 28 & 0xFFFFF}-{prefix & 0xFFFFFFF}-"
