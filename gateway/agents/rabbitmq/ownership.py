"""What on the broker is the gateway's own doing, and is left out of what it shows unless asked for."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.agents.rabbitmq.object_names import ObjectName
from gateway.mapping.paths import Json

OWN_PREFIX = "amqp-gateway."
"""Queues and connections of the gateway's own are named so."""
OWN_PRODUCT = "amqp-management-gateway"
"""The client property ``product`` of its connections."""


def is_own(name: ObjectName, document: Mapping[str, Json], own_users: frozenset[str]) -> bool:
    """Whether an object belongs to the gateway.

    Args:
        name: the object.
        document: what a listing or creation event says of it.
        own_users: the gateway's users. Their ``direct`` connections, which each publication over HTTP opens
            and closes, would be told of again and again.
    """
    if name.class_name == "queue":
        return name.leaf.startswith(OWN_PREFIX)
    if name.class_name != "connection":
        return False
    provided, properties = document.get("user_provided_name"), document.get("client_properties")
    return (
        (isinstance(provided, str) and provided.startswith(OWN_PREFIX))
        or (isinstance(properties, Mapping) and properties.get("product") == OWN_PRODUCT)
        or (document.get("type") == "direct" and document.get("user") in own_users)
    )
