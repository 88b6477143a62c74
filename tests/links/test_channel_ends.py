"""Closing channels, before their connection too, and being cancelled while doing so."""

from __future__ import annotations

import asyncio

import aio_pika
from pydantic import SecretStr

from gateway.links.amqp_connection import AmqpEndpoint, close_channel, close_soon, open_connection
from tests.components.amqp_peer import AmqpPeer
from tests.components.rabbitmq import VirtualHost


async def test_a_task_that_is_cancelled_while_a_channel_closes_is_cancelled(
    virtual_host: VirtualHost,
) -> None:
    cancelled = 0
    for turns in range(0, 160, 4):  # of the loop: until some moment between the channel's request and its end
        async with await aio_pika.connect(virtual_host.amqp_url()) as connection:
            channel = await connection.channel(publisher_confirms=False)
            closing = asyncio.create_task(close_channel(channel))
            for _ in range(turns):
                await asyncio.sleep(0)
            asked = closing.cancel()
            await asyncio.wait({closing})
            assert closing.cancelled() is asked
            cancelled += asked
    assert cancelled


async def test_channels_are_closed_before_their_connection() -> None:
    async with AmqpPeer() as peer:
        endpoint = AmqpEndpoint(f"amqp://127.0.0.1:{peer.port}", "/", "reader", SecretStr("secret"))
        connection = await open_connection(endpoint, "test")
        await connection.channel(publisher_confirms=False)
        await close_soon(connection)
    assert peer.closed == ["channel", "connection"]
