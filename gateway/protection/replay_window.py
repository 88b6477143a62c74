"""The replay window: which bodies of which senders were accepted, in bounded memory.

A sender is a key and a start of the program that signs with it. Its messages are numbered; of the last
`WINDOW` numbers one bit each is kept, as in RFC 4303 section 3.4.3. A sender is forgotten when all its
bodies are too late anyway, and the floor rises to its last one: nothing that was signed before the floor is
accepted, even if the clock is set back.

A body that waited in a durable queue may be older, if it follows everything that was accepted of its sender:
it has a higher number or, of a start that is not known, was signed after all that was accepted of the key, as
far as clocks agree. So a broker that holds bodies back cannot put an old one behind a newer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.protection.envelope import BodyRefusedError, Refusal

WINDOW: Final = 4096
"""Numbers of one sender of which each is remembered; a body that is further behind is refused."""
MAX_SENDERS: Final = 1024
EARLY: Final = 5_000
"""Milliseconds by which the clock of a sender may be ahead."""

_MASK: Final = (1 << WINDOW) - 1


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A body that is accepted: the sender's key and start, the number, and the milliseconds of signing."""

    sender: str
    boot: int
    number: int
    issued: int


@dataclass(slots=True)
class SenderRow:
    """What is remembered of a sender.

    Attributes:
        sender, boot: key and start.
        highest: the highest accepted number.
        newest: the latest time of signing of an accepted body, in milliseconds since 1970.
        bits: bit ``n`` is set if ``highest - n`` was accepted.
    """

    sender: str
    boot: int
    highest: int
    newest: int
    bits: int

    def has(self, number: int) -> bool:
        """Return whether ``number`` was accepted, or is too far behind to know."""
        behind = self.highest - number
        return behind >= WINDOW or (behind >= 0 and bool(self.bits >> behind & 1))

    def add(self, number: int, issued: int) -> None:
        """Note that ``number`` is accepted."""
        if number > self.highest:
            ahead = number - self.highest
            self.bits = 1 if ahead >= WINDOW else (self.bits << ahead | 1) & _MASK
            self.highest = number
        elif self.highest - number < WINDOW:
            self.bits |= 1 << (self.highest - number)
        self.newest = max(self.newest, issued)


class ReplayWindow:
    """Decides whether a body may be accepted, and remembers that it was.

    Args:
        late: milliseconds after its signing in which a body is accepted.
        floor: nothing that was signed at or before this time (milliseconds since 1970) is accepted.
        waits: milliseconds for which a body may have waited in a durable queue; 0 where there is none.
    """

    def __init__(self, late: int, floor: int = 0, waits: int = 0) -> None:
        self.floor = floor
        self._late = late
        self._waits = waits
        self._rows: dict[tuple[str, int], SenderRow] = {}

    def has_waited(self, body: Acceptance, now: int) -> bool:
        """Return whether a body is late, and may be accepted as one that waited in a durable queue."""
        age = now - body.issued
        return self._late < age <= self._late + self._waits and self._waits > 0 and self._follows(body)

    def _follows(self, body: Acceptance) -> bool:
        row = self._rows.get((body.sender, body.boot))
        if row is not None:
            return body.number > row.highest
        newest = max((row.newest for row in self._rows.values() if row.sender == body.sender), default=0)
        return body.issued > newest - EARLY

    def check(self, body: Acceptance, now: int, *, waited: bool = False) -> None:
        """Return if a body may be accepted at ``now`` (milliseconds since 1970); it is not remembered yet.

        Args:
            body: the body.
            now: milliseconds since 1970.
            waited: whether what waited in a durable queue is being read.

        Raises:
            BodyRefusedError: it is late, early or replayed, or there are too many senders.
        """
        age = now - body.issued
        row = self._rows.get((body.sender, body.boot))
        is_known = row is not None and row.has(body.number)
        # Of what waited it is said that it was accepted before, where that is so.
        if age > self._late and not (waited and (is_known or self.has_waited(body, now))):
            text = f"was signed {age / 1000:.0f} s ago by {body.sender}: compare the clocks of both machines"
            raise BodyRefusedError(Refusal.LATE, text)
        if body.issued <= self.floor:
            text = f"was signed by {body.sender} before the time from which accepted bodies are remembered"
            raise BodyRefusedError(Refusal.LATE, text)
        if -age > EARLY:
            text = (
                f"was signed {-age / 1000:.0f} s in the future by {body.sender}: compare the clocks of both"
            )
            raise BodyRefusedError(Refusal.EARLY, text)
        if is_known:
            text = f"number {body.number} of {body.sender} was accepted before"
            raise BodyRefusedError(Refusal.REPLAYED, text)
        if row is None and len(self._rows) >= MAX_SENDERS and not self._forget(now):
            text = f"{MAX_SENDERS} senders have been started in {self._late / 1000:.0f} s"
            raise BodyRefusedError(Refusal.TOO_MANY_SENDERS, text)

    def add(self, body: Acceptance) -> None:
        """Remember that a body is accepted, after `check`, or as it was recorded."""
        row = self._rows.get((body.sender, body.boot))
        if row is None:
            self._rows[body.sender, body.boot] = SenderRow(
                body.sender, body.boot, body.number, body.issued, 1
            )
        else:
            row.add(body.number, body.issued)

    def restore(self, row: SenderRow) -> None:
        """Take what was remembered of a sender before a restart."""
        self._rows[row.sender, row.boot] = row

    def rows(self, now: int) -> Iterator[SenderRow]:
        """Yield what is remembered, after what is not needed at ``now`` (milliseconds) was forgotten."""
        self._forget(now)
        yield from self._rows.values()

    def _forget(self, now: int) -> int:
        """Forget senders whose accepted bodies are all too late; return how many.

        Where bodies may wait for long, and there is no other place, the sender that was silent longest goes.
        """
        gone = [row for row in self._rows.values() if now - row.newest > self._late + self._waits]
        if not gone and len(self._rows) >= MAX_SENDERS:
            oldest = min(self._rows.values(), key=lambda row: row.newest)
            gone = [oldest] if now - oldest.newest > self._late else []
        for row in gone:
            del self._rows[row.sender, row.boot]
            self.floor = max(self.floor, row.newest)
        return len(gone)
