"""The SETs that were accepted within the time window, so that none is carried out twice.

A message is accepted as long as its time is within 150 s of the engine's, from any address. Its message
authentication code identifies it: no one without the key can make another message for a code. A manager that
sends a SET again encodes it again, with another code; `gateway.snmp.set_requests` recognises that.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

from gateway.snmp.v3.engine import TIME_WINDOW
from gateway.snmp.written_values import Rejected

KEEP: Final = (2 * TIME_WINDOW + 2) * 10**9
"""Nanoseconds from its arrival after which no message is in the time window any more.

The engine's time, and the message's, have whole seconds.
"""

MAX_ACCEPTED: Final = 65_536
"""The maximum number of SETs that are remembered; further ones are refused until there is room."""


class Verdict(enum.Enum):
    """What becomes of a SET that is not answered from memory."""

    NEW = "carry it out"
    RUNNING = "the answer to the first one answers this one, too"
    NO_ROOM = "refuse it"


class AcceptedSets:
    """The accepted SETs, by user and code.

    Args:
        clock: returns monotonic nanoseconds.
        limit: the maximum number of SETs.
    """

    def __init__(self, clock: Callable[[], int], limit: int = MAX_ACCEPTED) -> None:
        self._clock = clock
        self._limit = limit
        # In the order of their arrival. The end of a SET is what its answer said; None until it is answered.
        self._arrived: dict[bytes, int] = {}
        self._ends: dict[bytes, Rejected] = {}

    def __len__(self) -> int:
        """Return the number of SETs that are remembered."""
        return len(self._arrived)

    def begin(self, key: bytes) -> Verdict | Rejected:
        """Remember a SET; return the error-status and error-index of its answer if it came before."""
        now = self._clock()
        while self._arrived:
            oldest, arrived = next(iter(self._arrived.items()))
            if now - arrived < KEEP:
                break
            del self._arrived[oldest]
            self._ends.pop(oldest, None)
        if key in self._arrived:
            return self._ends.get(key, Verdict.RUNNING)
        # The oldest is not dropped instead: it could then be carried out a second time.
        if len(self._arrived) >= self._limit:
            return Verdict.NO_ROOM
        self._arrived[key] = now
        return Verdict.NEW

    def end(self, key: bytes, status: int, index: int) -> None:
        """Remember what the answer to a SET says."""
        if key in self._arrived:
            self._ends[key] = Rejected(status, index)
