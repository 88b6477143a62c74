"""Connections of a relay, and the applications that use them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.ami.codec import LineEnd
from gateway.dialects.ami.instructions import Option
from gateway.dialects.ami.lines import Lines, Piece
from gateway.dialects.ami.relay_commands import Offer
from gateway.dialects.session import Peer

_MOST: Final = (1 << 63) - 1


@dataclass(slots=True)
class Sequence:
    """Sequence numbers: those of one connection's instructions, and those of the replies.

    Attributes:
        missing: numbers that were skipped since the last report.
        repeated: numbers that occurred before, since the last report.
    """

    missing: int = 0
    repeated: int = 0
    _expected: int = 0
    _replies: int = 0
    _unnumbered: int = 0
    """Instructions without a number, before the first one with a number."""

    def take(self, number: int | None) -> int:
        """Count an instruction with this number, or without one; return the number of its reply.

        No document defines the effect of a gap, and a relay ignores it. Replies to instructions without a
        number continue the last number, as those of a relay do. Numbers may begin at any instruction: one
        without a number before them counts, as in the document's example, a login without a number and S#1.
        """
        if number is None:
            self._unnumbered += not self._expected
            number = self._replies
        elif number >= self._expected:
            passed = number - (self._expected or min(self._unnumbered, number))
            self.missing = min(self.missing + passed, _MOST)
            self._expected = number + 1
        else:
            self.repeated += 1
        self._replies = min(number + 1, _MOST)
        return number


@dataclass(slots=True, eq=False)
class Application:
    """An application, by the name of its login.

    Attributes:
        name: its name, which is that of the agent.
        connections: its connections that are logged in, by number.
        logins: the number of logins while it had no connection.
        since: the beginning of its first connection, or the end of its last one, nanoseconds.
        plugin: a Java class, which is never loaded.
        changed: whether its counts have changed since the last report.
        reported_at: the time of the last report, nanoseconds.
        refusals: instructions refused since the report at ``refusals_reported_at`` (nanoseconds);
            ``refusal``: the reason of the last one.
        lag: milliseconds; ``None`` where no instruction had a time.
    """

    name: str
    connections: dict[int, Connection] = field(default_factory=dict)
    logins: int = 0
    since: int = 0
    plugin: str = ""
    options: frozenset[Option] = frozenset()
    address: str = ""
    certificate: str = ""
    instructions: int = 0
    refused: int = 0
    missing: int = 0
    repeated: int = 0
    gap_missing: int = 0
    gap_repeated: int = 0
    refusals: int = 0
    refusal: str = ""
    refusals_reported_at: int = 0
    lag: int | None = None
    changed: bool = False
    reported_at: int = 0

    @property
    def offers(self) -> dict[str, tuple[Connection, Offer]]:
        """Its commands with their connections: where two connections have the same command, the later one."""
        return {
            name: (connection, offer)
            for connection in self.connections.values()
            for name, offer in connection.offers.items()
            if offer is not None
        }

    def note_refusal(self, reason: str) -> None:
        """Count a refused instruction, for the next report."""
        self.refused += 1
        self.refusals, self.refusal = self.refusals + 1, reason

    def note_sequence(self, sequence: Sequence) -> None:
        """Add the counts of a connection."""
        self.missing = min(self.missing + sequence.missing, _MOST)
        self.gap_missing = min(self.gap_missing + sequence.missing, _MOST)
        self.repeated += sequence.repeated
        self.gap_repeated += sequence.repeated
        sequence.missing = sequence.repeated = 0


@dataclass(slots=True, eq=False)
class Connection:
    """A connection of a client.

    Attributes:
        number: its number at the listener.
        opened: the time at which it was accepted, nanoseconds.
        received_until: the last time at which nothing that it had sent was waiting, nanoseconds; 0 while that
            is not known.
        application: its application after the login.
        offers: its commands, by id; ``None`` for those that users cannot call.
        offer_octets: octets of the definition of each; ``offered_octets`` is their sum.
        held: lines that wait behind a P; ``held_octets``: their octets.
        paused_until: the end of the pause, nanoseconds; 0 without one.
        pause_reply: the reply that is sent then.
        over: whether no further lines are read; ``closed``: whether the listener was asked to close it.
        said_goodbye: whether the application ended its session in good order (X).
    """

    number: int
    peer: Peer
    opened: int
    lines: Lines
    application: Application | None = None
    quiet: bool = False
    logs: bool = False
    end: LineEnd = LineEnd.UNIX
    sequence: Sequence = field(default_factory=Sequence)
    offers: dict[str, Offer | None] = field(default_factory=dict)
    offer_octets: dict[str, int] = field(default_factory=dict)
    offered_octets: int = 0
    held: deque[Piece] = field(default_factory=deque)
    held_octets: int = 0
    paused_until: int = 0
    pause_reply: tuple[int, str] = (0, "")
    over: bool = False
    closed: bool = False
    said_goodbye: bool = False
    received_until: int = 0
