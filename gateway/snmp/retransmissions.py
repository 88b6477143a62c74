"""SETs that were carried out lately, so that one that arrives again is not carried out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.snmp.writable import Refusal

KEEP: Final = 60 * 10**9
"""Nanoseconds after its answer for which a SET is known again."""

MAX_REMEMBERED: Final = 4096
"""SETs of all managers together; while so many are remembered, further ones have to wait."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a SET ended: ``refusal`` is ``None`` where it was carried out."""

    refusal: Refusal | None
    ended: int


class Retransmissions:
    """Remembers SETs by a key that all their retransmissions share, and nothing else.

    Args:
        limit: how many are remembered at most.
    """

    def __init__(self, limit: int = MAX_REMEMBERED) -> None:
        self._limit = limit
        self._running: set[bytes] = set()
        self._ended: dict[bytes, Ended] = {}  # in the order of their ends

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._running) + len(self._ended)

    def is_running(self, key: bytes) -> bool:
        """Whether it is being carried out: the answer to it answers the retransmission."""
        return key in self._running

    def ended(self, key: bytes, now: int) -> Ended | None:
        """How it ended, if it did within `KEEP` before ``now`` (nanoseconds)."""
        self._forget(now)
        return self._ended.get(key)

    def begin(self, key: bytes, now: int) -> bool:
        """It is going to be carried out; ``False`` (and nothing is remembered) where there is no room."""
        self._forget(now)
        if len(self) >= self._limit:
            return False
        self._running.add(key)
        return True

    def end(self, key: bytes, refusal: Refusal | None, now: int) -> None:
        """It was carried out, or refused."""
        self._running.remove(key)
        self._ended[key] = Ended(refusal, now)

    def _forget(self, now: int) -> None:
        while self._ended:
            key, oldest = next(iter(self._ended.items()))
            if now - oldest.ended < KEEP:
                return
            del self._ended[key]
