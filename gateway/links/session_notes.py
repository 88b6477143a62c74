"""What every session without I/O has around it: somebody who wakes it, and somebody who takes its notes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

import structlog

from gateway.clock import Clock
from gateway.dialects.effects import Note

log = structlog.get_logger(__name__)

_LOG_NANOSECONDS: Final = 60 * 10**9
_COUNTED: Final = {
    "protocol-error": "protocol_errors",
    "refused-sender": "refused",
    "distrusted-sender": "refused",
    "too-many-agents": "refused",
}
_WARNINGS: Final = frozenset(
    {
        "agent-silent",
        "distrusted-sender",
        "events-lost",
        "events-missing",
        "gave-up",
        "impersonator",
        "impersonators-not-checked",
        "management-unavailable",
        "protocol-error",
        "refused-sender",
        "too-many-agents",
        "too-many-classes",
        "virtual-host-not-permitted",
    }
)
"""Notes of what somebody should look at; all others are for who reads the log anyway."""


class SessionNotes:
    """Counts a session's notes, and logs each kind at most once a minute: a peer must not fill a disk.

    Args:
        name: of the source or agent, for the log.
        clock: the gateway's.
        counters: ``protocol_errors`` and ``refused`` are counted here.
    """

    def __init__(self, name: str, clock: Clock, counters: Counter[str]) -> None:
        self.counts: Counter[str] = Counter()
        self._name = name
        self._clock = clock
        self._counters = counters
        self._logged: dict[str, int] = {}

    def take(self, note: Note) -> None:
        """Count a note, and log it where it is time."""
        self.counts[note.event] += 1
        if note.event in _COUNTED:
            self._counters[_COUNTED[note.event]] += 1
        now = self._clock.now()
        last = self._logged.get(note.event)
        if last is None or now - last >= _LOG_NANOSECONDS:
            self._logged[note.event] = now
            tell = log.warning if note.event in _WARNINGS else log.info
            tell(note.event, name=self._name, detail=note.detail, count=self.counts[note.event])


class WakeUp:
    """Wakes a session at the time that it asked for last.

    Args:
        clock: the gateway's.
        woken: called then, in the running event loop.
    """

    def __init__(self, clock: Clock, woken: Callable[[], None]) -> None:
        self._clock = clock
        self._woken = woken
        self._timer: asyncio.TimerHandle | None = None

    def at(self, time: int) -> None:
        """Wake at ``time`` (nanoseconds), at once if that is over; an earlier wish is forgotten."""
        self.stop()
        delay = max(0.0, (time - self._clock.now()) / 1e9)
        self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def stop(self) -> None:
        """No more waking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._timer = None
        self._woken()
