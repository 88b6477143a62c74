"""What on the broker is the gateway's own doing, and is left out of what it shows unless asked for."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.links.introduction import PRODUCT
from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.object_names import ObjectName

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
        own_users: the gateway's users. What a client says of itself is believed of these only, or anybody
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

    These are never shown: while an alarm is raised, to tell of one takes another, and there would be no end.
    Nor are those of other agents in the same management virtual host, which would tell of ours in turn.
    """
    if name.class_name != "connection" or document.get("type") != "direct":
        return False
    host = document.get("vhost")
    return document.get("user") in own_users or (bool(host) and host == management_virtual_host)


def claims_to_be_own(client_properties: Json) -> bool:
    """Whether a client says of itself that it is a gateway."""
    return isinstance(client_properties, Mapping) and client_properties.get("product") == OWN_PRODUCT
