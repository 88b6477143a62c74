"""Probes of a binding at a real RabbitMQ, where they do not come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import aio_pika
import pytest

from gateway.links import binding_probe
from gateway.links.amqp_connection import LinkError, Trouble, close_soon, open_connection
from gateway.links.binding_probe import BindingProbe
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import until
from tests.links.recording import endpoint_of
from tests.links.wire import Wire, WireWithoutConfirmations

Arrived: TypeAlias = list[aio_pika.abc.AbstractIncomingMessage]


@asynccontextmanager
async def probed_queue(vhost: VirtualHost) -> AsyncIterator[tuple[str, Arrived]]:
    """Provide the name of a queue that is bound for probes, and the messages that arrive in it."""
    arrived: Arrived = []

    async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        arrived.append(message)

    async with await aio_pika.connect(vhost.amqp_url()) as consuming:
        channel = await consuming.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("amq.topic", queue.name)
        await queue.consume(take, no_ack=True)
        yield queue.name, arrived


async def test_a_broker_that_confirms_nothing_is_not_waited_for_for_ever(
    virtual_host: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding_probe, "ANSWER_SECONDS", 1.0)
    async with (
        probed_queue(virtual_host) as (queue, arrived),
        Wire(virtual_host.broker.ports.amqp) as wire,
    ):
        endpoint = endpoint_of(virtual_host.broker, virtual_host.name, port=wire.port)
        publishing = await open_connection(endpoint, "test")
        try:
            probe = BindingProbe(endpoint, "amq.topic", 0.1)
            probing = asyncio.create_task(probe.run(lambda: publishing, queue))
            await until(lambda: len(arrived) >= 2, "two probes")
            wire.cut()
            with pytest.raises(LinkError) as said:
                await probing
        finally:
            await close_soon(publishing)

    assert said.value.trouble is Trouble.BROKEN
    assert str(said.value) == f"{endpoint}: the broker did not confirm a message for 1 s"
    assert all(map(probe.is_mine, arrived))


async def test_a_probe_on_a_connection_that_is_closed_on_purpose_has_not_failed(
    virtual_host: VirtualHost,
) -> None:
    """The next one goes over the next connection."""
    async with (
        probed_queue(virtual_host) as (queue, arrived),
        WireWithoutConfirmations(virtual_host.broker.ports.amqp) as wire,
    ):
        endpoint = endpoint_of(virtual_host.broker, virtual_host.name, port=wire.port)
        connections = [await open_connection(endpoint, "left"), await open_connection(endpoint, "next")]
        used = connections.copy()
        probe = BindingProbe(endpoint, "amq.topic", 0.1)
        probing = asyncio.create_task(probe.run(lambda: used[0], queue))
        try:
            await until(lambda: arrived, "a probe waits for its confirmation")
            await close_soon(used.pop(0))
            await until(lambda: len(arrived) > 1 or probing.done(), "a probe on the next connection")
            assert not probing.done()
        finally:
            probing.cancel()
            await asyncio.gather(probing, *map(close_soon, connections), return_exceptions=True)
