"""Probes of a binding at a real RabbitMQ, where they do not come back."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest

from gateway.links import binding_probe
from gateway.links.amqp_connection import LinkError, Trouble, close_soon, open_connection
from gateway.links.binding_probe import BindingProbe
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import eventually, until
from tests.links.recording import endpoint_of
from tests.links.wire import Wire, WireWithoutConfirmations


async def test_a_broker_that_confirms_nothing_is_not_waited_for_for_ever(
    virtual_host: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding_probe, "ANSWER_SECONDS", 1.0)
    arrived: list[aio_pika.abc.AbstractIncomingMessage] = []

    async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        arrived.append(message)

    async def probed() -> bool:
        return len(arrived) >= 2

    async with (
        await aio_pika.connect(virtual_host.amqp_url()) as consuming,
        Wire(virtual_host.broker.ports.amqp) as wire,
    ):
        channel = await consuming.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("amq.topic", queue.name)
        await queue.consume(take, no_ack=True)
        endpoint = endpoint_of(virtual_host.broker, virtual_host.name, port=wire.port)
        publishing = await open_connection(endpoint, "test")
        try:
            probe = BindingProbe(endpoint, "amq.topic", 0.1)
            probing = asyncio.create_task(probe.run(lambda: publishing, queue.name))
            await eventually(probed, "two probes")
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
    arrived: list[aio_pika.abc.AbstractIncomingMessage] = []

    async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        arrived.append(message)

    async with (
        await aio_pika.connect(virtual_host.amqp_url()) as consuming,
        WireWithoutConfirmations(virtual_host.broker.ports.amqp) as wire,
    ):
        channel = await consuming.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("amq.topic", queue.name)
        await queue.consume(take, no_ack=True)
        endpoint = endpoint_of(virtual_host.broker, virtual_host.name, port=wire.port)
        connections = [await open_connection(endpoint, "left"), await open_connection(endpoint, "next")]
        used = connections.copy()
        probe = BindingProbe(endpoint, "amq.topic", 0.1)
        probing = asyncio.create_task(probe.run(lambda: used[0], queue.name))
        try:
            await until(lambda: arrived, "a probe waits for its confirmation")
            await close_soon(used.pop(0))
            await until(lambda: len(arrived) > 1 or probing.done(), "a probe on the next connection")
            assert not probing.done()
        finally:
            probing.cancel()
            await asyncio.gather(probing, *map(close_soon, connections), return_exceptions=True)
