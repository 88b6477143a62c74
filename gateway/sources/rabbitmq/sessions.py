"""Sessions and links of AMQP 1.0 connections, as ``/api/connections/NAME/sessions`` shows them since 4.1.

The broker asks the processes of the connection for them at that moment, so that what an answer lacks is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.mapping.paths import Json

PROTOCOL: Final = "AMQP 1-0"
"""What the management API calls AMQP 1.0."""
MAX_LINKS: Final = 1_000
"""Links of one connection that are shown; it may have 16,000."""

_LINKS: Final = {"incoming": "incoming_links", "outgoing": "outgoing_links"}
_ADDRESSES: Final = ("target_address", "source_address")


@dataclass(slots=True)
class ConnectionSessions:
    """Sessions and links of a connection, each as a JSON object that the mapping's paths read.

    Attributes:
        sessions: of the connection.
        links: of all sessions, at most `MAX_LINKS`.
        left_out: how many links there are beyond these.
    """

    sessions: list[Mapping[str, Json]] = field(default_factory=list)
    links: list[Mapping[str, Json]] = field(default_factory=list)
    left_out: int = 0


def sessions_of(connection: str, virtual_host: str, answer: Json) -> ConnectionSessions | None:
    """What an answer shows of a connection; ``None`` where it is no list of sessions.

    A session is called as RabbitMQ calls a channel: ``CONNECTION (NUMBER)``. A link is known by its session,
    its direction as the broker sees it (incoming: the client sends) and its handle.
    """
    if not isinstance(answer, list):
        return None
    found = ConnectionSessions()
    for session in answer:
        number = session.get("channel_number") if isinstance(session, Mapping) else None
        if not isinstance(session, Mapping) or not isinstance(number, int):
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
    return found


def _of_link(link: Mapping[str, Json]) -> dict[str, Json]:
    """Address and settle mode, which the two directions spell in different ways."""
    address = next((link[key] for key in _ADDRESSES if isinstance(link.get(key), str)), None)
    mode, settled = link.get("snd_settle_mode"), link.get("send_settled")
    if isinstance(settled, bool):
        mode = "settled" if settled else "unsettled"
    return {"address": address, "settle_mode": mode}
