"""A link at a real RabbitMQ: the messages it carries, the traces it leaves, and its texts for people."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import UTC, datetime

import aio_pika
import pytest
import structlog

from gateway.dialects.session import Delivery, Send
from tests.components.rabbitmq import VirtualHost, version_of
from tests.components.waiting import eventually, wait_until
from tests.links.broker_side import client, published, queues
from tests.links.recording import endpoint_of, linked, role

HOLDER = """
import asyncio, sys
from collections import Counter
from pydantic import SecretStr
from gateway.clock import SystemClock
from gateway.links.amqp import AmqpLink
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.session_driver import MessageDriver
from tests.links.recording import RecordingSession, role
session, clock = RecordingSession(), SystemClock()
conversation = MessageDriver("holder", session, lambda _: None, clock, Counter())
endpoint = AmqpEndpoint(sys.argv[1], sys.argv[2], sys.argv[3], SecretStr(sys.stdin.readline().strip()))
asyncio.run(AmqpLink(endpoint, role(), conversation, clock).run())
"""


async def test_deliveries_report_what_the_broker_knows(virtual_host: VirtualHost) -> None:
    broker = virtual_host.broker
    async with linked(endpoint_of(broker, virtual_host.name), role("amq.topic")) as link:
        await link.up()
        async with client(virtual_host) as channel:
            sent = Send("amq.topic", "console.obj", b"AM2q", "reply-here", "x/y", "42", message_id="m-1")
            await published(channel, sent, broker.administrator.name)
            await published(channel, Send("amq.topic", "plain", b"", message_id="m-2"))
        deliveries = await link.received(2)

    assert deliveries == [
        Delivery(
            "amq.topic",
            "console.obj",
            b"AM2q",
            "reply-here",
            broker.administrator.name,
            "x/y",
            "42",
            timestamp=10**9,
            message_id="m-1",
        ),
        Delivery("amq.topic", "plain", b"", timestamp=10**9, message_id="m-2"),
    ]
    assert link.counters == {"messages": 2, "octets": 4}


async def test_replies_arrive_through_the_direct_exchange(virtual_host: VirtualHost) -> None:
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), role()) as link:
        reply_to = await link.up()
        async with client(virtual_host) as channel:
            await published(channel, Send("amq.direct", reply_to, b"answer"))
        (delivery,) = await link.received(1)

    assert (delivery.exchange, delivery.routing_key, delivery.body) == ("amq.direct", reply_to, b"answer")


async def test_a_mandatory_message_that_leads_nowhere_comes_back(virtual_host: VirtualHost) -> None:
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), role()) as link:
        reply_to = await link.up()
        link.send(
            Send("amq.direct", "nowhere", b"lost", mandatory=True),
            Send("amq.direct", "nowhere", b"as if it were"),
            Send("amq.direct", reply_to, b"to myself", mandatory=True),
        )
        await link.received(1)

        async def came_back() -> bool:
            return bool(link.session.unsent)

        await eventually(came_back, "the session was told of the returned message")

    assert link.session.unsent == [(b"lost", "no queue is bound there (NO_ROUTE)")]


async def test_what_it_sends_carries_our_checked_user_and_the_time(virtual_host: VirtualHost) -> None:
    broker = virtual_host.broker
    before = datetime.now(UTC).replace(microsecond=0)
    async with client(virtual_host) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("amq.topic", "#")
        async with linked(endpoint_of(broker, virtual_host.name), role()) as link:
            await link.up()
            link.send(Send("amq.topic", "broker", b"body", "reply", "a/b", "7", expiration=60_000))
            link.send(Send("amq.topic", "next", b""))
            first, second = await _messages(queue, 2)

    assert first.user_id == second.user_id == broker.administrator.name
    assert (first.body, first.reply_to, first.content_type, first.correlation_id) == (
        b"body",
        "reply",
        "a/b",
        "7",
    )
    assert first.expiration == 60
    assert first.timestamp is not None
    assert before <= first.timestamp <= datetime.now(UTC)
    assert (second.routing_key, second.reply_to, second.expiration) == ("next", None, None)


async def _messages(
    queue: aio_pika.abc.AbstractQueue, count: int
) -> list[aio_pika.abc.AbstractIncomingMessage]:
    messages = []
    async with queue.iterator() as arriving:
        async for message in arriving:
            messages.append(message)
            if len(messages) == count:
                break
    return messages


async def test_what_cannot_be_sent_is_noted_and_the_rest_goes_on(virtual_host: VirtualHost) -> None:
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), role("amq.topic")) as link:
        await link.up()
        link.send(Send("amq.topic", "k" * 256, b"too long a key"), Send("amq.topic", "k" * 255, b"fits"))
        (delivery,) = await link.received(1)

    assert delivery.body == b"fits"
    assert link.driver.notes == {"not-sent": 1}
    assert link.session.down == []


async def test_a_manager_declares_what_is_missing(virtual_host: VirtualHost) -> None:
    managing = role("qpid.management", declare=("qpid.management",))
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), managing) as link:
        await link.up()
        with virtual_host.http() as http:
            exchange = http.get(f"exchanges/{virtual_host.path}/qpid.management").raise_for_status().json()

    assert (exchange["type"], exchange["durable"], exchange["auto_delete"]) == ("topic", True, False)


async def test_its_queue_is_named_exclusive_and_limited(virtual_host: VirtualHost) -> None:
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    async with linked(endpoint, role(max_queue_length=123)) as link:
        name = await link.up()
        with virtual_host.http() as http:
            queue = http.get(f"queues/{virtual_host.path}/{name}").raise_for_status().json()

    assert name.startswith("amqp-gateway.test.")
    assert (queue["exclusive"], queue["auto_delete"], queue["durable"]) == (True, True, False)
    # RabbitMQ 4.0 adds the type to the arguments of the declaration.
    added = {"x-queue-type": "classic"} if version_of(virtual_host.broker) >= (4, 0) else {}
    assert queue["arguments"] == {"x-max-length": 123, "x-overflow": "drop-head", **added}


async def test_no_queue_is_left_after_it_stopped(virtual_host: VirtualHost) -> None:
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), role()) as link:
        name = await link.up()
        assert queues(virtual_host) == {name}

    wait_until(lambda: queues(virtual_host) == set(), "the queue went with the link")


def test_no_queue_is_left_when_its_process_is_killed(virtual_host: VirtualHost) -> None:
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    command = [sys.executable, "-c", HOLDER, endpoint.url, endpoint.vhost, endpoint.user]
    with subprocess.Popen(  # noqa: S603  text from above
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as holder:
        try:
            assert holder.stdin is not None
            holder.stdin.write(f"{virtual_host.broker.administrator.password}\n")
            holder.stdin.flush()
            wait_until(lambda: len(queues(virtual_host)) == 1, "the other process declared its queue")
        finally:
            holder.send_signal(signal.SIGKILL)
    wait_until(lambda: queues(virtual_host) == set(), "the queue went with its process")


async def test_up_and_down_are_logged_in_one_line_each(
    virtual_host: VirtualHost, logged: list[structlog.typing.EventDict]
) -> None:
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    async with linked(endpoint, role()) as link:
        name = await link.up()
        link.send(Send("absent", "key", b""))
        said = await link.down()

    assert logged[:2] == [
        {"event": "link-up", "log_level": "info", "role": "test", "broker": str(endpoint), "queue": name},
        {"event": "link-down", "log_level": "warning", "role": "test", "trouble": "missing", "detail": said},
    ]


@pytest.mark.parametrize("down", [True, False])
async def test_it_ends_by_cancellation_only(virtual_host: VirtualHost, down: bool) -> None:  # noqa: FBT001
    port = 1 if down else 0
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name, port=port), role()) as link:
        await (link.down() if down else link.up())
    assert link.running.cancelled()
