"""A link with protected bodies at a real RabbitMQ: what its session gets and what it refuses to send."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from gateway.dialects.session import Send
from gateway.model.times import SECOND
from gateway.protection.keys import Use, generated
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import until
from tests.links.broker_side import client, published
from tests.links.recording import Linked, endpoint_of, linked, role
from tests.protection.parties import Side, protection


@asynccontextmanager
async def protected(vhost: VirtualHost, side: Side, *exchanges: str) -> AsyncIterator[Linked]:
    """Provide a running link of one side."""
    used = protection(side, now=time.time_ns() - SECOND)
    endpoint = endpoint_of(vhost.broker, vhost.name)
    async with linked(endpoint, replace(role(*exchanges), protection=used)) as link:
        await link.up()
        yield link


def sides() -> tuple[Side, Side]:
    """Return two sides whose keys are used from always."""
    one, other = generated([Use.SIGN, Use.READ]), generated([Use.SIGN, Use.READ])
    return Side(one, [other.public()]), Side(other, [one.public()])


async def test_the_session_gets_what_the_other_session_sent(virtual_host: VirtualHost) -> None:
    one, other = sides()
    async with (
        protected(virtual_host, one) as sender,
        protected(virtual_host, other, "amq.topic") as receiver,
    ):
        send = Send(
            "amq.topic",
            "a.key",
            b"\x00AM2",
            "reply",
            "x/y",
            "7",
            message_id="m",
            not_after=time.time_ns() + 60 * SECOND,
        )
        sender.send(send)
        (delivery,) = await receiver.received(1)
    assert (delivery.body, delivery.content_type) == (b"\x00AM2", "x/y")
    assert (delivery.reply_to, delivery.correlation_id, delivery.message_id) == ("reply", "7", "m")
    assert delivery.user_id == virtual_host.broker.administrator.name
    assert abs(delivery.timestamp + delivery.expiration * 10**6 - send.not_after) < 2 * 10**6
    assert receiver.counters == {"messages": 1, "octets": 4}


async def test_a_plain_body_is_counted_and_does_not_reach_the_session(virtual_host: VirtualHost) -> None:
    _, other = sides()
    async with protected(virtual_host, other, "amq.topic") as receiver:
        async with client(virtual_host) as channel:
            await published(channel, Send("amq.topic", "key", b"AM2"))
        await until(lambda: receiver.driver.notes["refused-body-plain"], "the body is refused")
    assert receiver.counters == {"refused": 1}
    assert receiver.session.deliveries == []


async def test_a_message_that_cannot_be_protected_is_not_sent(virtual_host: VirtualHost) -> None:
    one, _ = sides()
    one.peers = [generated([Use.SIGN])]
    async with protected(virtual_host, one, "amq.topic") as link:
        link.send(Send("amq.topic", "key", b"secret", mandatory=True))
        await until(lambda: link.session.unsent, "the session is informed")
    ((body, reason),) = link.session.unsent
    assert body == b"secret"
    assert reason.startswith("a key of the receiver is missing")
    assert link.session.deliveries == []
