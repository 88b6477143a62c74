"""Requests and connections that prove no identity: counted by address, and reported to be recorded.

By SNMP these are messages with a community that is not known, of a user of version 3 who is not known, or
with a wrong digest; on a listener with TLS, handshakes of clients without an accepted certificate. The first
one from an address is reported at once, further ones as a number each minute, so that a manager with a wrong
community fills no log. The addresses of datagrams can be forged, and one address may be that of many clients:
no address is locked out, because that would lock out managers; but guesses from it are answered slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

import msgspec

from gateway.feed.client import refused_request
from gateway.feed.operations import FrontEndRefusal, OperationRequest, ReadFresh
from gateway.model.operations import Outcome, Principal
from gateway.model.times import SECOND
from gateway.tasks import every

PERIOD: Final = 60 * SECOND
"""Nanoseconds between two reports about one address and user."""

MAX_ANSWERED: Final = 10
"""The maximum number of guesses of one address and user in a period that are answered."""

MAX_ADDRESSES: Final = 1_000
"""The maximum number of addresses that are counted separately; all further ones are counted as `OTHERS`."""

OTHERS: Final = "(others)"

TICK_SECONDS: Final = 1.0

UNKNOWN: Final = "(unknown)"
"""The name of a principal that proved none."""


class Guess(msgspec.Struct, frozen=True):
    """One or several guesses from an address, as they are reported.

    Attributes:
        address: the address of the sender, or `OTHERS`.
        reason: what was wrong with the last one, without what was sent: a community may be a right one with a
            wrong letter.
        attempts: the number of guesses that it stands for.
        user: the name of a known user; else empty.
    """

    address: str
    reason: str
    attempts: int = 1
    user: str = ""

    def request(self, front_end: str) -> OperationRequest:
        """Return the report to the core, which records it as an attempt that was refused."""
        refusal = FrontEndRefusal(Outcome.REFUSED, self.reason, attempts=self.attempts)
        principal = Principal(front_end, self.user or UNKNOWN, self.address)
        return refused_request(principal, ReadFresh(), refusal)


class _Guesser(msgspec.Struct):
    """An address with a user: the guesses since the last report, and the time of the next one."""

    due_at: int
    what: str = ""
    in_period: int = 0
    not_reported: int = 0


class Guesses:
    """Counts guesses and reports them.

    Args:
        report: takes the reports.
        clock: returns nanoseconds that never decrease.
    """

    def __init__(self, report: Callable[[Guess], None], clock: Callable[[], int]) -> None:
        self._report = report
        self._clock = clock
        self._guessers: dict[tuple[str, str], _Guesser] = {}

    def guessed(self, address: str, what: str, user: str = "") -> bool:
        """Count a guess; report it, if it is the first one of its address.

        Args:
            address: the address of the sender.
            what: what was wrong, as of `Guess`.
            user: the name of a known user; else empty.

        Returns:
            Whether it may be answered, where the protocol has an answer to it.
        """
        now = self._clock()
        key = (address, user)
        if key not in self._guessers and len(self._guessers) >= MAX_ADDRESSES:
            key = (OTHERS, "")
        guesser = self._guessers.get(key)
        if guesser is None:
            guesser = self._guessers[key] = _Guesser(now + PERIOD)
            self._send_report(key, what, 1)
        else:
            guesser.not_reported += 1
        guesser.what = what
        guesser.in_period += 1
        return guesser.in_period <= MAX_ANSWERED

    def has_guessed(self, address: str) -> bool:
        """Return whether there was a guess from an address a short time ago, by no known user."""
        return (address, "") in self._guessers

    def tick(self) -> None:
        """Report the numbers whose period has ended; to be called about once a second."""
        now = self._clock()
        for key, guesser in list(self._guessers.items()):
            if guesser.due_at <= now:
                self._end_period(key, guesser, now)

    async def run(self) -> NoReturn:
        """Tick until cancelled; then report the numbers so far."""
        try:
            await every(TICK_SECONDS, self.tick)
        finally:
            self.close()

    def close(self) -> None:
        """Report the numbers so far."""
        for key, guesser in self._guessers.items():
            if guesser.not_reported:
                self._send_report(key, guesser.what, guesser.not_reported)
        self._guessers.clear()

    def _end_period(self, key: tuple[str, str], guesser: _Guesser, now: int) -> None:
        if not guesser.not_reported:
            del self._guessers[key]
            return
        self._send_report(key, guesser.what, guesser.not_reported)
        guesser.due_at, guesser.in_period, guesser.not_reported = now + PERIOD, 0, 0

    def _send_report(self, key: tuple[str, str], what: str, attempts: int) -> None:
        address, user = key
        self._report(Guess(address, what, attempts, user))
