"""What on the broker is the gateway's own doing, and is left out of what it shows unless asked for."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.agents.rabbitmq.object_names import ObjectName
from gateway.mapping.paths import Json

OWN_QUEUES = "amqp-gateway."
"""Queues of the gateway's own are named so."""
OWN_PRODUCT = "amqp-gateway"
"""The client property ``product`` of its connections."""


def is_own(name: ObjectName, document: Mapping[str, Json], own_users: frozenset[str]) -> bool:
    """Whether an object belongs to the gateway.

    Args:
        name: the object.
        document: what a listing or creation event says of it.
        own_users: the gateway's users. What a client says of itself is believed of these only, or anybody
            could hide a connection. Their ``direct`` connections, which each publication over HTTP opens
            and closes, are left out too: they would be told of again and again.
    """
    if name.class_name == "queue":
        return name.leaf.startswith(OWN_QUEUES)
    if name.class_name != "connection" or document.get("user") not in own_users:
        return False
    properties = document.get("client_properties")
    return document.get("type") == "direct" or (
        isinstance(properties, Mapping) and properties.get("product") == OWN_PRODUCT
    )
