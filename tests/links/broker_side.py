"""Operations of other clients at the broker of a link."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import quote

import aio_pika
from aio_pika.abc import AbstractChannel

from gateway.demo.broker import PrivateBroker
from gateway.dialects.session import Send
from tests.components.rabbitmq import VirtualHost


@asynccontextmanager
async def client(vhost: VirtualHost) -> AsyncIterator[AbstractChannel]:
    """Provide the channel of another client."""
    async with await aio_pika.connect(vhost.amqp_url()) as connection:
        yield await connection.channel()


async def published(channel: AbstractChannel, send: Send, user_id: str | None = None) -> None:
    """Publish a message as an agent would, with a timestamp of one second."""
    exchange = await channel.get_exchange(send.exchange)
    timestamp = datetime.fromtimestamp(1, UTC)
    message = aio_pika.Message(
        send.body,
        user_id=user_id,
        timestamp=timestamp,
        reply_to=send.reply_to or None,
        content_type=send.content_type or None,
        correlation_id=send.correlation_id or None,
        message_id=send.message_id or None,
    )
    await exchange.publish(message, send.routing_key)


def queues(vhost: VirtualHost) -> set[str]:
    """Return the names of all queues of the virtual host."""
    with vhost.http() as http:
        answer = http.get(f"queues/{vhost.path}", params={"columns": "name"}).raise_for_status()
        return {queue["name"] for queue in answer.json()}


def close_connection(broker: PrivateBroker, vhost: str, name: str) -> int:
    """Close all connections of a name, as an operator would in the management pages; return their number."""
    with broker.http() as http:
        closed = [
            connection["name"]
            for connection in http.get(f"vhosts/{vhost}/connections").raise_for_status().json()
            if connection.get("client_properties", {}).get("connection_name") == name
        ]
        for connection in closed:
            http.delete(f"connections/{quote(connection, safe='')}").raise_for_status()
        return len(closed)
