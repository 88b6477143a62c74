"""AMQP 1.0 sessions and links: their documents, and the choice of the connection to request them of next.

Sessions are requested of one connection at a time. Without I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.mapping.paths import Json, integer_at
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.source_config import LONGEST_INTERVAL

PROTOCOL: Final = "AMQP 1-0"
"""The name of AMQP 1.0 in the management API."""
MAX_LINKS: Final = 1_000
"""Maximum number of shown links of one connection, which may have 16,000."""

_LINKS: Final = {"incoming": "incoming_links", "outgoing": "outgoing_links"}
_ADDRESSES: Final = ("target_address", "source_address")


@dataclass(slots=True)
class ConnectionSessions:
    """The sessions and links of a connection, each as a JSON object that the mapping's paths read.

    ``/api/connections/NAME/sessions`` shows them since RabbitMQ 4.1. The broker requests them from the
    processes of the connection at that moment, so sessions and links that an answer lacks have ended: unless
    some are left out, or cannot be read. RabbitMQ leaves out a session whose process gives no answer.

    Attributes:
        sessions: the sessions of the connection.
        links: the links of all sessions, at most `MAX_LINKS`.
        left_out: the number of links beyond these.
        unreadable: the number of documents that cannot be read.
    """

    sessions: list[Mapping[str, Json]] = field(default_factory=list)
    links: list[Mapping[str, Json]] = field(default_factory=list)
    left_out: int = 0
    unreadable: int = 0


def sessions_of(connection: str, virtual_host: str, answer: Json) -> ConnectionSessions | None:
    """Return the sessions and links in an answer; ``None`` if the answer is no list of sessions.

    The name of a session has the form of RabbitMQ's names of channels: ``CONNECTION (NUMBER)``. A link is
    identified by its session, its direction as the broker sees it (incoming: the client sends) and its
    handle.
    """
    if not isinstance(answer, list):
        return None
    found = ConnectionSessions()
    for session in answer:
        number = integer_at(session, "channel_number") if isinstance(session, Mapping) else None
        if not isinstance(session, Mapping) or number is None:
            found.unreadable += 1
            continue
        name = f"{connection} ({number})"
        found.sessions.append({**session, "gateway": {"name": name, "connection": connection}})
        for direction, key in _LINKS.items():
            links = session.get(key)
            worked_out: dict[str, Json] = {
                "virtual_host": virtual_host,
                "session": name,
                "direction": direction,
            }
            for link in links if isinstance(links, list) else ():
                if len(found.links) >= MAX_LINKS:
                    found.left_out += 1
                elif isinstance(link, Mapping):
                    found.links.append({**link, "gateway": {**worked_out, **_of_link(link)}})
                else:
                    found.unreadable += 1
    return found


def _of_link(link: Mapping[str, Json]) -> dict[str, Json]:
    """Return address and settle mode, which the two directions spell in different ways."""
    address = next((link[key] for key in _ADDRESSES if isinstance(link.get(key), str)), None)
    mode, settled = link.get("snd_settle_mode"), link.get("send_settled")
    if isinstance(settled, bool):
        mode = "settled" if settled else "unsettled"
    return {"address": address, "settle_mode": mode}


NEVER: Final = 2**63 - 1
"""A time that does not come (ns)."""
MAX_CONNECTIONS: Final = 200
"""Maximum number of connections that are asked, the oldest first; of others no sessions are shown."""
INTERVAL: Final = 10 * SECOND
"""Nanoseconds between two questions to a connection, if their share of time allows."""
_ATTEMPTS: Final = 3
"""Number of connections without sessions after which the broker is taken for one that does not show any."""


class SessionRounds:
    """Decides which AMQP 1.0 connection is asked for its sessions, and when.

    Brokers before 4.1 answer 404. As a connection that has just ended is answered in the same way, several
    are tried; then one is asked every ``missing_pause``.

    Args:
        missing_pause: nanoseconds until a broker that does not show sessions is asked again.
        refused_pause: the same after another failure.
        share: share of time that the questions may take.
        longest_interval: the longest nanoseconds between two questions to a connection.
    """

    def __init__(
        self, missing_pause: int, refused_pause: int, share: float, longest_interval: int = LONGEST_INTERVAL
    ) -> None:
        self._share = share
        self._longest_interval = longest_interval
        self._read: dict[str, int] = {}
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
        """The number of connections that are not asked, if the broker shows sessions at all."""
        return max(0, self._connections - MAX_CONNECTIONS) if self._answered else 0

    @property
    def connections(self) -> int:
        """The number of AMQP 1.0 connections."""
        return self._connections

    @property
    def round_time(self) -> int:
        """Nanoseconds from one question to a connection to the next; 0 if none is asked."""
        if not self._due or not self._answered:
            return 0
        return max(INTERVAL, int(len(self._due) * self._pause(self._cost)))

    @property
    def read_at(self) -> int:
        """When that connection was asked last whose answer is the oldest (ns); 0 if none answered."""
        return min(self._read.values(), default=0)

    def _pause(self, cost: float) -> float:
        """Return the nanoseconds from one question that costs this to the next, of any connection."""
        return min(cost / self._share, self._longest_interval / max(1, len(self._due)))

    def learn(self, connections: Iterable[str]) -> None:
        """Set the connections that exist now, the oldest first."""
        names = list(connections)
        self._connections = len(names)
        kept = {name: due for name, due in self._due.items() if name in set(names)}
        for name in names:
            if len(kept) >= MAX_CONNECTIONS:
                break
            kept.setdefault(name, 0)
        self._due = kept
        self._read = {name: when for name, when in self._read.items() if name in kept}

    def due(self) -> int:
        """Return when to call `next_connection` (ns)."""
        return max(self._not_before, min(self._due.values())) if self._due else NEVER

    def next_connection(self, now: int) -> str | None:
        """Return the connection to ask now."""
        if not self._due or now < self.due():
            return None
        return min(self._due, key=self._due.__getitem__)

    def answered(self, connection: str, began: int, ended: int) -> None:
        """Take note that the connection's sessions were read."""
        self._answered = True
        self._attempts = 0
        self._cost = 0.8 * self._cost + 0.2 * (ended - began) if self._cost else float(ended - began)
        self._not_before = ended + int(self._pause(ended - began))
        if connection in self._due:
            self._due[connection] = ended + INTERVAL
            self._read[connection] = began

    def not_found(self, connection: str, ended: int) -> None:
        """Take the status 404: the broker does not show sessions, or the connection has ended."""
        self._due.pop(connection, None)
        self._read.pop(connection, None)
        if self._answered:
            return
        self._attempts += 1
        pause = self._missing_pause if self._attempts >= _ATTEMPTS or not self._due else SECOND
        self._not_before = ended + pause

    def failed(self, connection: str, ended: int) -> None:
        """Take note that the sessions could not be read."""
        self._not_before = ended + self._refused_pause
        self._read.pop(connection, None)
        if connection in self._due:
            self._due[connection] = ended + INTERVAL

    def retry(self, now: int) -> None:
        """Ask again: the broker may have another version now."""
        self._answered = False
        self._attempts = 0
        self._not_before = min(self._not_before, now)
