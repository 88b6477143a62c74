"""What a session of a protocol over byte streams wants done, beside what `effects` has for all.

Such a session has all the connections of one listener, told apart by numbers that are never used again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from gateway.dialects.effects import Answered, Note, Observed, WakeAt


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a connection.

    Attributes:
        address: an IP address.
        name: the common name of its certificate, as checked; empty where none is asked for.
    """

    address: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Write:
    """Send ``octets`` on a connection, behind what was written before."""

    connection: int
    octets: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """End a connection when all that was written has left; nothing more is heard from it."""

    connection: int


@dataclass(frozen=True, slots=True)
class Logged:
    """A line of a session that an application asked to have logged, without secrets and without its end.

    Attributes:
        application: as it logged in; anything, so no name of a file.
        line: octets.
        outgoing: whether we said it.
    """

    application: str
    line: bytes
    outgoing: bool = False


StreamEffect: TypeAlias = Write | Close | Observed | Answered | Logged | WakeAt | Note


class StreamSession(Protocol):
    """A session without I/O that listens."""

    def opened(self, connection: int, peer: Peer, now: int) -> list[StreamEffect]:
        """Somebody connected; ``now`` is in nanoseconds, here and below."""
        ...

    def received(self, connection: int, octets: bytes, now: int) -> list[StreamEffect]:
        """Octets arrived, in order, in pieces of any length."""
        ...

    def ended(self, connection: int, reason: str, now: int) -> list[StreamEffect]:
        """A connection is over, whoever ended it; ``reason`` says why, for people. Told once of each."""
        ...

    def stopping(self, now: int) -> list[StreamEffect]:
        """The listener ends: the last chance to say something. Each connection is closed after it."""
        ...

    def tick(self, now: int) -> list[StreamEffect]:
        """The time it asked for has come."""
        ...
