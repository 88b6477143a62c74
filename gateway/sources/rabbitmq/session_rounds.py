"""When to ask which AMQP 1.0 connection for its sessions: one after the other, within a share of time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SECOND: Final = 1_000_000_000
MAX_CONNECTIONS: Final = 200
"""Connections that are asked, those known longest; of further ones no sessions are shown."""
SHARE: Final = 0.01
"""Of time that these requests may take."""
INTERVAL: Final = 10 * SECOND
"""From one question to a connection to the next one, where `SHARE` allows."""
_ATTEMPTS: Final = 3
"""Connections that have no sessions before it is plain that the broker does not show any."""
_NEVER: Final = 2**63 - 1


class SessionRounds:
    """Goes round the AMQP 1.0 connections.

    Brokers before 4.1 do not know the question (404). As a connection that has just ended is answered in the
    same way, several are tried; then one is asked every ``missing_pause``.

    Args:
        missing_pause: nanoseconds until a broker that does not show sessions is asked again.
        refused_pause: the same after another failure.
    """

    def __init__(self, missing_pause: int, refused_pause: int) -> None:
        self._missing_pause = missing_pause
        self._refused_pause = refused_pause
        self._due: dict[str, int] = {}
        self._connections = 0
        self._not_before = 0
        self._attempts = 0
        self._answered = False
        self._cost = 0.0

    @property
    def left_out(self) -> int:
        """How many connections are not asked, where the broker shows sessions at all."""
        return max(0, self._connections - MAX_CONNECTIONS) if self._answered else 0

    @property
    def connections(self) -> int:
        """How many AMQP 1.0 connections there are."""
        return self._connections

    @property
    def round_time(self) -> int:
        """Nanoseconds from one question to a connection to the next; 0 where none is asked."""
        if not self._due or not self._answered:
            return 0
        return max(INTERVAL, int(len(self._due) * self._cost / SHARE))

    def learn(self, connections: Iterable[str]) -> None:
        """There are these connections now, the oldest first."""
        names = list(connections)
        self._connections = len(names)
        kept = {name: due for name, due in self._due.items() if name in set(names)}
        for name in names:
            if len(kept) >= MAX_CONNECTIONS:
                break
            kept.setdefault(name, 0)
        self._due = kept

    def due(self) -> int:
        """When to call `next_connection` (ns)."""
        return max(self._not_before, min(self._due.values())) if self._due else _NEVER

    def next_connection(self, now: int) -> str | None:
        """The connection to ask now."""
        if not self._due or now < self.due():
            return None
        return min(self._due, key=self._due.__getitem__)

    def answered(self, connection: str, began: int, ended: int) -> None:
        """The connection's sessions were read."""
        self._answered = True
        self._attempts = 0
        self._cost = 0.8 * self._cost + 0.2 * (ended - began) if self._cost else float(ended - began)
        self._not_before = ended + int((ended - began) / SHARE)
        if connection in self._due:
            self._due[connection] = ended + INTERVAL

    def not_found(self, connection: str, ended: int) -> None:
        """The broker answered 404: it does not show sessions, or the connection has ended."""
        self._due.pop(connection, None)
        if self._answered:
            return
        self._attempts += 1
        pause = self._missing_pause if self._attempts >= _ATTEMPTS or not self._due else SECOND
        self._not_before = ended + pause

    def failed(self, connection: str, ended: int) -> None:
        """The sessions could not be read."""
        self._not_before = ended + self._refused_pause
        if connection in self._due:
            self._due[connection] = ended + INTERVAL

    def retry(self, now: int) -> None:
        """The broker may be another version now."""
        self._answered = False
        self._attempts = 0
        self._not_before = min(self._not_before, now)
