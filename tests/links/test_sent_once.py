"""Messages that are sent once or never, at a real RabbitMQ: late, without a link, and during an alarm."""

from __future__ import annotations

import asyncio
import time

import aio_pika
import pytest

from gateway.demo.broker import PrivateBroker
from gateway.dialects.session import Send
from gateway.model.times import SECOND
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import eventually
from tests.links.broker_side import client
from tests.links.recording import endpoint_of, linked, role

LATE = "its time was over before it could be sent"
BLOCKED = "the broker accepts no messages now: it is short of memory or disk (an alarm)"


def once(body: bytes, seconds: float = 3600, exchange: str = "amq.topic") -> Send:
    return Send(exchange, "key", body, not_after=time.time_ns() + int(seconds * SECOND))


async def test_it_carries_when_it_is_over(virtual_host: VirtualHost) -> None:
    async with client(virtual_host) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("amq.topic", "#")
        async with linked(endpoint_of(virtual_host.broker, virtual_host.name), role()) as link:
            await link.up()
            send = once(b"body", 60)
            link.send(send)
            message = await arrived(queue)

    assert message.timestamp is not None
    assert isinstance(message.expiration, int | float)
    over = message.timestamp.timestamp() + message.expiration
    assert abs(over - send.not_after / SECOND) < 0.002


async def arrived(queue: aio_pika.abc.AbstractQueue) -> aio_pika.abc.AbstractIncomingMessage:
    async with queue.iterator() as arriving:
        async for message in arriving:
            return message
    raise AssertionError("the queue ended")


async def test_it_is_not_sent_when_its_time_is_over(virtual_host: VirtualHost) -> None:
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), role("amq.topic")) as link:
        await link.up()
        link.send(once(b"late", 0), once(b"in time"))
        (delivery,) = await link.received(1)
        assert delivery.body == b"in time"
        assert link.session.unsent == [(b"late", LATE)]


async def test_what_was_to_be_sent_while_there_was_no_link_is_not_sent_later(
    virtual_host: VirtualHost,
) -> None:
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), role("amq.topic")) as link:
        await link.up()
        link.send(Send("absent", "key", b""))
        await link.down()
        link.send(once(b"1"), Send("amq.topic", "key", b"2"))
        await link.up(2)
        link.send(once(b"3"))
        (delivery,) = await link.received(1)
        assert delivery.body == b"3"
        assert link.session.unsent == [(b"1", "there was no connection to the broker")]


async def test_what_waits_when_the_link_goes_down_is_reported_before_its_end(
    virtual_host: VirtualHost,
) -> None:
    broker = virtual_host.broker
    async with linked(endpoint_of(broker, virtual_host.name), role("amq.topic")) as link:
        await link.up()
        link.driver.fail(ConnectionError("test"))  # the next that is waited for is not sent any more
        link.send(once(b"1"))
        await link.down()
        assert link.session.unsent == [(b"1", "the connection to the broker ended")]
        await link.up(2)
        link.send(once(b"2"))
        (delivery,) = await link.received(1)
        assert delivery.body == b"2"


@pytest.mark.xdist_group("troubled")
async def test_a_broker_that_takes_no_messages_is_not_sent_any(troubled: PrivateBroker) -> None:
    async def watermark(share: str) -> None:
        await asyncio.to_thread(troubled.rabbitmqctl, "set_vm_memory_high_watermark", share)

    async with linked(endpoint_of(troubled), role("amq.topic")) as link:
        await link.up()
        link.send(once(b"before"))
        await link.received(1)
        await watermark("0.0000001")
        # It says that it takes none when somebody has tried; until then what is sent waits in its socket.
        # This link sends no probe ahead of it.
        sent = 0

        async def is_refused() -> bool:
            nonlocal sent
            sent += 1
            link.send(once(str(sent).encode()))
            await asyncio.sleep(0.1)
            return bool(link.session.unsent)

        await eventually(is_refused, "a message was refused")
        assert len(link.session.deliveries) == 1
        await watermark("0.6")

        async def all_ended() -> bool:
            return len(link.session.deliveries) + len(link.session.unsent) == 1 + sent

        await eventually(all_ended, "the rest came out of the socket")

    refused = dict(link.session.unsent)
    assert set(refused.values()) == {BLOCKED}
    stuck = [delivery.body for delivery in link.session.deliveries[1:]]
    assert stuck
    assert sorted([*stuck, *refused]) == sorted(str(number).encode() for number in range(1, sent + 1))


@pytest.mark.xdist_group("troubled")
async def test_nothing_is_stuck_in_a_broker_that_takes_no_messages(troubled: PrivateBroker) -> None:
    """A probe goes ahead: the first message after the alarm is refused at once, and so are all others."""

    async def watermark(share: str) -> None:
        await asyncio.to_thread(troubled.rabbitmqctl, "set_vm_memory_high_watermark", share)

    async with linked(endpoint_of(troubled), role("amq.topic", probed="amq.topic")) as link:
        await link.up()
        link.send(once(b"before"))
        await link.received(1)
        await watermark("0.0000001")
        for number in range(5):
            asked = time.monotonic()
            link.send(once(str(number).encode()))

            async def is_refused(count: int = number + 1) -> bool:
                return len(link.session.unsent) == count

            await eventually(is_refused, "the message was refused")
            assert time.monotonic() - asked < 30, "long before the deadline of a call"
        await watermark("0.6")

        async def is_sent() -> bool:
            link.send(once(b"after"))
            await asyncio.sleep(0.1)
            return len(link.session.deliveries) > 1

        await eventually(is_sent, "the broker takes messages again")
        assert {delivery.body for delivery in link.session.deliveries} == {b"before", b"after"}
    assert set(dict(link.session.unsent).values()) == {BLOCKED}
