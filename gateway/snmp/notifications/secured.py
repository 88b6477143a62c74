"""What encloses notifications in messages of version 3, as the sender of notifications sees it.

`gateway.snmp.v3.notifications` does it, and is imported where version 3 is used only.
"""

from __future__ import annotations

import enum
from collections.abc import Container
from typing import NamedTuple, Protocol

from gateway.snmp import message
from gateway.snmp.v3.users import SecurityLevel

OVERHEAD: int = 256
"""The maximum number of octets of a message of version 3 beside its PDU.

Header, engine ids of 32 octets, a user's name of 32, a MAC of 48, a salt of 8, and their tags and lengths.
"""


class ReplyKind(enum.Enum):
    """The meanings of a receiver's message."""

    ACCEPTED = enum.auto()
    REFUSED = enum.auto()
    """It was processed with an error."""
    RESEND = enum.auto()
    """The receiver's engine, or its time, is known now: the inform has to be sent again."""


class Reply(NamedTuple):
    """What a receiver said about an inform.

    Attributes:
        request_id: of the inform.
        kind: the meaning.
        status: the error-status of an answer.
    """

    request_id: int
    kind: ReplyKind
    status: int = message.NO_ERROR


class Secured(Protocol):
    """What encloses the notifications of one receiver in messages of version 3."""

    @property
    def user(self) -> str:
        """The name of the user who sends them."""

    @property
    def level(self) -> SecurityLevel:
        """The security level at which they are sent."""

    @property
    def asks_for_engine(self) -> bool:
        """Whether `datagram` returns the question for the engine of the receiver, and no notification."""

    def datagram(self, request_id: int, varbinds: bytes, now: int) -> bytes:
        """Return the datagram to send; ``varbinds`` is the TLV of the list, ``now`` monotonic nanoseconds."""

    def receive(self, datagram: bytes, awaited: Container[int], now: int) -> Reply | None:
        """Return what a datagram of the receiver says; ``None`` if nothing that can be trusted.

        Args:
            datagram: the message.
            awaited: the request ids of informs without an answer.
            now: monotonic nanoseconds.
        """


class NoKeysError(Exception):
    """A user has no keys for an engine, whose id in hexadecimal digits is the only argument."""
