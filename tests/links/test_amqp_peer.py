"""The stand-in for OpenAMQ is as strict as the original, so that it can prove the behaviour of a link."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest
from aiormq import exceptions
from yarl import URL

from gateway.links.amqp_connection import close_soon, connect_once
from tests.components.amqp_peer import AmqpPeer
from tests.components.waiting import eventually


async def connected(peer: AmqpPeer, heartbeat: int = 2) -> aio_pika.abc.AbstractConnection:
    return await connect_once(URL(f"amqp://guest:guest@127.0.0.1:{peer.port}/?heartbeat={heartbeat}"), {})


async def complained(peer: AmqpPeer) -> list[str]:
    async def has_complained() -> bool:
        return bool(peer.complaints)

    await eventually(has_complained, "the peer ended a connection")
    return peer.complaints


async def test_a_second_channel_ends_the_connection() -> None:
    async with AmqpPeer() as peer:
        connection = await connected(peer)
        await connection.channel(publisher_confirms=False)
        with pytest.raises((exceptions.AMQPError, asyncio.CancelledError)):
            await connection.channel(publisher_confirms=False)
        assert await complained(peer) == ["504 channel number is out of range"]
        await close_soon(connection)


async def test_a_client_that_accepts_heartbeats_must_send_them() -> None:
    async with AmqpPeer(silent_seconds=0.1) as peer:
        connection = await connected(peer, heartbeat=20)
        assert await complained(peer) == ["client heartbeat slowing/stopped"]
        await close_soon(connection)


async def test_a_client_may_want_no_heartbeats() -> None:
    async with AmqpPeer(silent_seconds=0.05) as peer:
        connection = await connected(peer, heartbeat=0)
        other = await connected(peer, heartbeat=20)
        await complained(peer)
        assert not connection.is_closed
        await close_soon(connection)
        await close_soon(other)


async def test_arguments_of_queues_are_unknown_to_it() -> None:
    async with AmqpPeer() as peer:
        connection = await connected(peer)
        channel = await connection.channel(publisher_confirms=False)
        with pytest.raises((exceptions.AMQPError, asyncio.CancelledError)):
            await channel.declare_queue("q", arguments={"x-max-length": 1})
        assert await complained(peer) == ["540 arguments of queues are not implemented"]
        await close_soon(connection)


async def test_there_are_no_confirms() -> None:
    async with AmqpPeer() as peer:
        connection = await connected(peer)
        with pytest.raises(ValueError, match="confirms"):
            await connection.channel(publisher_confirms=True)
        await close_soon(connection)
