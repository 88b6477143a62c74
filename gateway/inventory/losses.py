"""What was heard and could not be used: counted, and told as a gap, at most once a second."""

from __future__ import annotations

from gateway.model.observations import Gap

_INTERVAL = 10**9


class Losses:
    """Events and ends of short-lived objects of one source that came before their schema."""

    def __init__(self) -> None:
        self._count = 0
        self._since = 0
        self._told: int | None = None

    def lost(self, now: int) -> None:
        """One more."""
        self._since = self._since if self._count else now
        self._count += 1

    def take(self, now: int) -> Gap | None:
        """The gap to tell now, if there is one and the last one was told long enough ago."""
        if not self._count or (self._told is not None and 0 <= now - self._told < _INTERVAL):
            return None
        lost, self._count, self._told = self._count, 0, now
        # The clock may have been set back meanwhile.
        return Gap(
            min(self._since, now), now, f"{lost} events or short-lived objects came before their schema"
        )
