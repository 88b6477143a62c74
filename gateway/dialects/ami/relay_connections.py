"""Connections of a relay, and the applications behind them."""

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
    """The numbers that one connection gives its instructions, and those that replies carry.

    Attributes:
        missing: numbers that were passed over since they were told last.
        repeated: numbers that had come before, since they were told last.
    """

    missing: int = 0
    repeated: int = 0
    _expected: int = 0
    _replies: int = 0

    def take(self, number: int | None) -> int:
        """An instruction came with this number, or without one; returns what the reply to it says.

        No document says what follows from a gap, and a relay does not look. Replies to what has no number are
        counted on from the last number, as a relay does it.
        """
        if number is None:
            number = self._replies
        elif number >= self._expected:
            self.missing = min(self.missing + number - self._expected, _MOST)
            self._expected = number + 1
        else:
            self.repeated += 1
        self._replies = min(number + 1, _MOST)
        return number


@dataclass(slots=True, eq=False)
class Application:
    """An application, by the name it logs in with.

    Attributes:
        name: which agents of the source have.
        connections: that are logged in, by number.
        logins: how often it came when it had no connection.
        since: when it was connected first of these, or ended the last, nanoseconds.
        plugin: a class that is never loaded.
        changed: whether its counts have changed since they were told.
        told_at: when they were told, nanoseconds.
        refusals: instructions refused since that was told at ``refusals_told_at`` (nanoseconds); ``refusal``:
            why the last one was.
        lag: milliseconds; ``None`` where no instruction told its time.
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
    refusals_told_at: int = 0
    lag: int | None = None
    changed: bool = False
    told_at: int = 0

    @property
    def offers(self) -> dict[str, tuple[Connection, Offer]]:
        """Its commands, and the connection each goes over: where two have the same, the later one."""
        return {
            name: (connection, offer)
            for connection in self.connections.values()
            for name, offer in connection.offers.items()
            if offer is not None
        }

    def note_refusal(self, reason: str) -> None:
        """Something of it was refused, which is counted and told."""
        self.refused += 1
        self.refusals, self.refusal = self.refusals + 1, reason

    def note_sequence(self, sequence: Sequence) -> None:
        """Take over what a connection counted."""
        self.missing = min(self.missing + sequence.missing, _MOST)
        self.gap_missing = min(self.gap_missing + sequence.missing, _MOST)
        self.repeated += sequence.repeated
        self.gap_repeated += sequence.repeated
        sequence.missing = sequence.repeated = 0


@dataclass(slots=True, eq=False)
class Connection:
    """A connection.

    Attributes:
        number: that the listener knows it by.
        opened: nanoseconds.
        application: once it has logged in.
        offers: its commands, by id; ``None`` for those that people cannot call.
        offer_octets: that the definition of each took; in all, ``offered_octets``.
        held: lines that wait behind a P, and their octets.
        paused_until: nanoseconds; 0 where it is not.
        pause_reply: what is told then.
        over: whether nothing more is heard from it; ``closed``: whether the listener was told so.
        said_goodbye: whether it ended in good order (X).
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
