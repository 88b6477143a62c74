"""The properties of the gateway's connections, as a RabbitMQ shows them to its operators."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from typing import Any

from gateway.links.amqp_connection import close_soon, open_connection
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import eventually
from tests.links.recording import endpoint_of


async def test_a_connection_names_product_version_and_source(virtual_host: VirtualHost) -> None:
    endpoint = replace(endpoint_of(virtual_host.broker, virtual_host.name), source="orders")
    connection = await open_connection(endpoint, "amqp-gateway events")
    shown: list[dict[str, Any]] = []

    async def is_listed() -> bool:
        with virtual_host.http() as http:
            shown[:] = http.get(f"vhosts/{virtual_host.path}/connections").raise_for_status().json()
        return bool(shown) and "client_properties" in shown[0]

    try:
        await eventually(is_listed, "the broker lists the connection")
    finally:
        await close_soon(connection)
    properties = shown[0]["client_properties"]
    assert properties["product"] == "amqp-gateway"
    assert properties["version"] == importlib.metadata.version("amqp-management-gateway")
    assert properties["source"] == "orders"
    assert properties["connection_name"] == "amqp-gateway events"
