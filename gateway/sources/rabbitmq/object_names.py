"""Names of objects: class and index, what of them is the gateway's own, and which process serves which.

RabbitMQ's own names consist of nothing else than class and index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from gateway.links.introduction import PRODUCT
from gateway.mapping.paths import Json

_NATIVE_ID: Final = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class ObjectName:
    """``parts`` are the texts of the index elements in schema order: virtual host and name, or the name."""

    class_name: str
    parts: tuple[str, ...]

    @property
    def leaf(self) -> str:
        """The last part, which is the object's own name."""
        return self.parts[-1]

    def __str__(self) -> str:
        """For notes and errors: ``queue orders/incoming``."""
        return f"{self.class_name} {'/'.join(self.parts)}"


def connection_of_channel(name: str) -> str:
    """The name of the connection of a channel, which RabbitMQ calls ``CONNECTION (NUMBER)``."""
    return name.rpartition(" (")[0]


def object_number(name: ObjectName, created: int, grounds: Iterable[int] = ()) -> int:
    """The number that identifies an object: BLAKE2b-64 of class, stable name and creation facts.

    No state is needed: after a restart the same object gets the same number, as long as as much is known of
        its creation.

    Args:
        name: of the object.
        created: nanoseconds since 1970-01-01 UTC; 0 where the broker does not say.
        grounds: numbers of the objects that it ends with, for one whose creation time the broker does not
            say: a channel of a connection that was opened again is another channel.
    """
    digest = blake2b(digest_size=8)
    for part in (name.class_name, *name.parts, str(created), *map(str, grounds)):
        octets = part.encode("utf-8", "surrogatepass")
        digest.update(len(octets).to_bytes(4, "big"))
        digest.update(octets)
    return int.from_bytes(digest.digest(), "big")


def native_id(number: int) -> str:
    """The native id of the object of a number: 16 hexadecimal digits."""
    return f"{number:016x}"


def number_of(native: str) -> int | None:
    """The number in a native id; ``None`` where the text is none."""
    return int(native, 16) if _NATIVE_ID.fullmatch(native) else None


OWN_QUEUES = "amqp-gateway."
"""Queues of the gateway's own are named so."""
OWN_PRODUCT = PRODUCT
"""The client property ``product`` of its connections."""

_SHOWN_COMPONENTS = frozenset({"shovel", "federation-upstream"})


def is_shown_component(component: Json) -> bool:
    """Whether runtime parameters of a component are shown; others are limits and operator policies."""
    return isinstance(component, str) and component in _SHOWN_COMPONENTS


def is_own(name: ObjectName, document: Mapping[str, Json], own_users: frozenset[str]) -> bool:
    """Whether an object belongs to the gateway.

    Args:
        name: the object.
        document: what a listing or creation event says of it.
        own_users: the gateway's users. What a client says of itself is accepted of these only, or any client
            could hide a connection.
    """
    if name.class_name == "queue":
        return name.leaf.startswith(OWN_QUEUES)
    if name.class_name != "connection" or document.get("user") not in own_users:
        return False
    return claims_to_be_own(document.get("client_properties"))


def is_publication(
    name: ObjectName, document: Mapping[str, Json], own_users: frozenset[str], management_virtual_host: str
) -> bool:
    """Whether it is a connection that the management API opens, and closes, for each message of an agent.

    These are never shown: while an alarm is raised, to publish one takes another, and there would be no end.
    Nor are those of other agents in the same management virtual host, which would publish ours in turn.
    """
    if name.class_name != "connection" or document.get("type") != "direct":
        return False
    host = document.get("vhost")
    return document.get("user") in own_users or (bool(host) and host == management_virtual_host)


def claims_to_be_own(client_properties: Json) -> bool:
    """Whether a client says of itself that it is a gateway."""
    return isinstance(client_properties, Mapping) and client_properties.get("product") == OWN_PRODUCT


MAX_PROCESSES = 500_000
"""Connections, and channels, known by their process; of further ones it is unknown whose events they are."""


class Processes:
    """Names by process, learnt from creation events; those of what was there before are not known.

    Events name a connection or channel by its Erlang process; the management API never does.
    """

    def __init__(self) -> None:
        self._connections: dict[str, str] = {}
        self._of_connections: dict[str, str] = {}
        self._channels: dict[str, str] = {}

    def connection(self, process: str) -> str | None:
        """The name of the connection that a process serves."""
        return self._connections.get(process)

    def channel(self, process: str) -> str | None:
        """The name of the channel that a process serves."""
        return self._channels.get(process)

    def connection_opened(self, process: str, name: str) -> None:
        """A process serves a connection from now on."""
        if len(self._of_connections) < MAX_PROCESSES:
            self._connections[process] = name
            self._of_connections[name] = process

    def connection_closed(self, name: str) -> None:
        """A connection ended, and its process with it."""
        self._connections.pop(self._of_connections.pop(name, ""), None)

    def channel_opened(self, process: str, name: str) -> None:
        """A process serves a channel from now on."""
        if len(self._channels) < MAX_PROCESSES:
            self._channels[process] = name

    def channel_closed(self, process: str) -> None:
        """A process that serves a channel ended."""
        self._channels.pop(process, None)

    def forget(self) -> None:
        """Events were lost: a process may by now serve another, or none."""
        self._connections.clear()
        self._of_connections.clear()
        self._channels.clear()
