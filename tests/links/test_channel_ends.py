"""Closing channels and connections, in this order, and being cancelled while doing so."""

from __future__ import annotations

import asyncio
from threading import Thread

import aio_pika
import pytest
from pydantic import SecretStr
from yarl import URL

from gateway.links.amqp_connection import (
    AmqpEndpoint,
    close_channel,
    close_soon,
    connect_once,
    open_connection,
)
from tests.components.amqp_peer import AmqpPeer
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import DEADLINE


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


FURTHER = pytest.mark.parametrize("further", [(), (0,), (3, 0, 5)], ids=["once", "twice", "four times"])
"""The turns of the loop before each further cancellation."""


async def cancel_again(closing: asyncio.Task[None], further: tuple[int, ...]) -> None:
    for turns in further:
        for _ in range(turns + 1):
            await asyncio.sleep(0)
        closing.cancel()


@FURTHER
def test_a_loop_that_ends_while_a_connection_closes_ends(
    virtual_host: VirtualHost, further: tuple[int, ...]
) -> None:
    """At its end all tasks are cancelled, once, those of the library among them."""
    left = []

    async def begin(turns: int) -> None:
        connection = await connect_once(URL(virtual_host.amqp_url()), {})
        await connection.channel(publisher_confirms=False)
        closing = asyncio.create_task(close_soon(connection))
        for _ in range(turns):
            await asyncio.sleep(0)
        left.append(not closing.done())
        if further and turns:
            closing.cancel()
            await cancel_again(closing, further[1:])

    for turns in range(0, 160, 4):  # until some moment between the first request and the end
        ending = Thread(target=asyncio.run, args=(begin(turns),), daemon=True)
        ending.start()
        ending.join(DEADLINE)
        assert not ending.is_alive(), turns
    assert True in left


@FURTHER
async def test_who_is_cancelled_while_a_connection_closes_leaves_no_task(
    virtual_host: VirtualHost, further: tuple[int, ...]
) -> None:
    cancelled = 0
    for turns in range(0, 160, 4):
        before = asyncio.all_tasks()
        connection = await connect_once(URL(virtual_host.amqp_url()), {})
        await connection.channel(publisher_confirms=False)
        closing = asyncio.create_task(close_soon(connection))
        for _ in range(turns):
            await asyncio.sleep(0)
        asked = closing.cancel()
        await cancel_again(closing, further)
        await asyncio.wait({closing})
        assert closing.cancelled() is asked
        assert [task for task in asyncio.all_tasks() - before if "_close_in_order" in repr(task)] == []
        cancelled += asked
    assert cancelled
