"""Names of objects (class and index), the gateway's own objects, and the Erlang processes of objects.

RabbitMQ's own names consist of class and index only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from gateway.links.amqp_connection import PRODUCT
from gateway.mapping.paths import Json

_NATIVE_ID: Final = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The name of an object.

    ``parts`` are the texts of the index elements in schema order: virtual host and name, or the name.
    """

    class_name: str
    parts: tuple[str, ...]

    @property
    def leaf(self) -> str:
        """The last part, which is the object's own name."""
        return self.parts[-1]

    def __str__(self) -> str:
        """Return the name for notes and errors: ``queue orders/incoming``."""
        return f"{self.class_name} {'/'.join(self.parts)}"


def connection_of_channel(name: str) -> str:
    """Return the name of the connection of a channel, which RabbitMQ calls ``CONNECTION (NUMBER)``."""
    return name.rpartition(" (")[0]


def object_number(name: ObjectName, created: int, grounds: Iterable[int] = ()) -> int:
    """Return the number that identifies an object: BLAKE2b-64 of class, stable name and creation facts.

    It needs no state: after a restart the same object gets the same number, if as much is known of its
    creation.

    Args:
        name: the name of the object.
        created: nanoseconds since 1970-01-01 UTC; 0 if the broker does not say.
        grounds: numbers of the objects on which it depends, if the broker does not say when it was created: a
            channel of a connection that was opened again is another channel.
    """
    digest = blake2b(digest_size=8)
    for part in (name.class_name, *name.parts, str(created), *map(str, grounds)):
        octets = part.encode("utf-8", "surrogatepass")
        digest.update(len(octets).to_bytes(4, "big"))
        digest.update(octets)
    return int.from_bytes(digest.digest(), "big")


def native_id(number: int) -> str:
    """Return the native id of the object with a number: 16 hexadecimal digits."""
    return f"{number:016x}"


def number_of(native: str) -> int | None:
    """Return the number in a native id; ``None`` if the text is none."""
    return int(native, 16) if _NATIVE_ID.fullmatch(native) else None


OWN_QUEUES = "amqp-gateway."
"""Prefix of the names of the gateway's own queues."""
OWN_PRODUCT = PRODUCT
"""The client property ``product`` of the gateway's connections."""

_SHOWN_COMPONENTS = frozenset({"shovel", "federation-upstream"})


def is_shown_component(component: Json) -> bool:
    """Return whether runtime parameters of a component are shown; others are limits and operator policies."""
    return isinstance(component, str) and component in _SHOWN_COMPONENTS


def is_own(name: ObjectName, document: Mapping[str, Json], own_users: frozenset[str]) -> bool:
    """Return whether an object belongs to the gateway.

    Args:
        name: the object.
        document: the object in the form of a listing.
        own_users: the gateway's users. Client properties are trusted only of these: otherwise any client
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
    """Return whether it is a connection that the management API opens and closes for an agent's message.

    Such connections are never shown: while an alarm is raised, publishing one would open another, without
    end. Those of other agents in the same management virtual host are not shown either, because they would
    publish ours in turn.
    """
    if name.class_name != "connection" or document.get("type") != "direct":
        return False
    host = document.get("vhost")
    return document.get("user") in own_users or (bool(host) and host == management_virtual_host)


def claims_to_be_own(client_properties: Json) -> bool:
    """Return whether a client declares itself as a gateway."""
    return isinstance(client_properties, Mapping) and client_properties.get("product") == OWN_PRODUCT


MAX_PROCESSES = 500_000
"""Maximum number of connections, and of channels, known by process; events of others are not assigned."""


class Processes:
    """The names of connections and channels by their Erlang process, from creation events.

    Events name a connection or channel by its process; the management API never does. Those from before the
    start are not known.
    """

    def __init__(self) -> None:
        self._connections: dict[str, str] = {}
        self._of_connections: dict[str, str] = {}
        self._channels: dict[str, str] = {}
        self._of_channels: dict[str, str] = {}

    def connection(self, process: str) -> str | None:
        """Return the name of the connection that a process serves."""
        return self._connections.get(process)

    def channel(self, process: str) -> str | None:
        """Return the name of the channel that a process serves."""
        return self._channels.get(process)

    def connection_opened(self, process: str, name: str) -> None:
        """Add the process of a new connection."""
        if len(self._of_connections) < MAX_PROCESSES:
            self._connections[process] = name
            self._of_connections[name] = process

    def connection_closed(self, name: str) -> None:
        """Remove the process of a connection that ended."""
        self._connections.pop(self._of_connections.pop(name, ""), None)

    def channel_opened(self, process: str, name: str) -> None:
        """Add the process of a new channel.

        The former channel of its name has ended, although its process reports that after it has answered the
        client, who may have opened the new one by then.
        """
        self._channels.pop(self._of_channels.pop(name, ""), None)
        if len(self._channels) < MAX_PROCESSES:
            self._channels[process] = name
            self._of_channels[name] = process

    def channel_closed(self, process: str) -> None:
        """Remove the process of a channel that ended."""
        self._of_channels.pop(self._channels.pop(process, ""), None)

    def forget(self) -> None:
        """Remove all: events were lost, so a process may serve another connection now, or none."""
        self._connections.clear()
        self._of_connections.clear()
        self._channels.clear()
        self._of_channels.clear()
