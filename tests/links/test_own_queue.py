"""What checks of a queue prove, on real brokers: with an answer of no waiting message all was received."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from gateway.dialects.session import Binding
from gateway.links.own_queue import OwnQueue, Proofs
from gateway.tasks import until_one_ends
from tests.components.rabbitmq import VirtualHost
from tests.hypothesis_profiles import PROVING

MESSAGES = 50_000 if PROVING else 1_500
BURST = 150
"""More than are in transit at a time, so that some checks find waiting messages."""
PROVED = MESSAGES // BURST // 2


class Numbered:
    """Numbered messages in the place of time: a check proves that all up to a number were received."""

    def __init__(self) -> None:
        self.confirmed = 0
        self.received = 0
        self.proved: list[tuple[int, int]] = []

    async def publish(self, channel: AbstractChannel, queue: str) -> None:
        """Publish bursts; the broker has put a message into the queue when it confirms it."""
        while self.confirmed < MESSAGES or len(self.proved) < PROVED:
            first = self.confirmed + 1
            await asyncio.gather(
                *(
                    channel.default_exchange.publish(aio_pika.Message(str(number).encode()), queue)
                    for number in range(first, first + BURST)
                )
            )
            self.confirmed = first + BURST - 1

    async def arrived(self, message: AbstractIncomingMessage) -> None:
        """Take a message; each takes a moment."""
        number = int(message.body)
        assert number == self.received + 1
        self.received = number
        await message.ack()

    def prove(self, until: int) -> None:
        """Note a proof, and what had been received by then."""
        self.proved.append((until, self.received))


@pytest.mark.each_rabbitmq(takes_long=True)
async def test_no_waiting_message_proves_that_all_sent_before_was_received(virtual_host: VirtualHost) -> None:
    numbered = Numbered()
    proofs = Proofs(lambda: numbered.confirmed, numbered.prove, lambda reason, _: pytest.fail(reason))
    checked = OwnQueue(100_000, 100_000, 0.001, purpose="test")
    async with (
        await aio_pika.connect(virtual_host.amqp_url()) as consuming,
        await aio_pika.connect(virtual_host.amqp_url()) as publishing,
    ):
        channel = await consuming.channel(publisher_confirms=False)
        queue = await checked.declare(channel, lambda _: list[Binding]())
        with checked.listening(numbered.arrived) as arrived:
            await queue.consume(arrived)
            await until_one_ends(
                numbered.publish(await publishing.channel(), queue.name),
                checked.watch(channel, queue.name, proofs),
            )
    assert numbered.proved[-1][0] > MESSAGES // 2
    assert [(until, received) for until, received in numbered.proved if received < until] == []
