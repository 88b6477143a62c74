"""A link at a real RabbitMQ: what it carries, and how it comes back from all that may end it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Self
from urllib.parse import quote

import aio_pika
import pytest
import structlog
from aio_pika.abc import AbstractChannel

from gateway.demo.broker import PrivateBroker
from gateway.dialects.effects import Delivery, Effect, Send
from gateway.links import amqp_connection
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import eventually, wait_until
from tests.links.recording import RecordingSession, endpoint_of, linked, role

HOLDER = """
import asyncio, sys
from collections import Counter
from pydantic import SecretStr
from gateway.clock import SystemClock
from gateway.links.amqp import AmqpLink
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.conversation import Conversation
from tests.links.recording import RecordingSession, role
session, clock = RecordingSession(), SystemClock()
conversation = Conversation("holder", session, lambda _: None, clock, Counter())
endpoint = AmqpEndpoint(sys.argv[1], sys.argv[2], sys.argv[3], SecretStr(sys.stdin.readline().strip()))
asyncio.run(AmqpLink(endpoint, role(), session, conversation, clock).run())
"""


@asynccontextmanager
async def client(vhost: VirtualHost) -> AsyncIterator[AbstractChannel]:
    """Another client's channel."""
    async with await aio_pika.connect(vhost.amqp_url()) as connection:
        yield await connection.channel()


async def published(channel: AbstractChannel, send: Send, user_id: str | None = None) -> None:
    """As an agent would, with a timestamp of one second."""
    exchange = await channel.get_exchange(send.exchange)
    timestamp = datetime.fromtimestamp(1, UTC)
    message = aio_pika.Message(
        send.body,
        user_id=user_id,
        timestamp=timestamp,
        reply_to=send.reply_to or None,
        content_type=send.content_type or None,
        correlation_id=send.correlation_id or None,
    )
    await exchange.publish(message, send.routing_key)


def queues(vhost: VirtualHost) -> set[str]:
    """Names of all queues there."""
    with vhost.http() as http:
        answer = http.get(f"queues/{vhost.path}", params={"columns": "name"}).raise_for_status()
        return {queue["name"] for queue in answer.json()}


def close_connection(broker: PrivateBroker, vhost: str, name: str) -> int:
    """As an operator would in the management pages; how many connections of that name were there."""
    with broker.http() as http:
        closed = [
            connection["name"]
            for connection in http.get(f"vhosts/{vhost}/connections").raise_for_status().json()
            if connection.get("client_properties", {}).get("connection_name") == name
        ]
        for connection in closed:
            http.delete(f"connections/{quote(connection, safe='')}").raise_for_status()
        return len(closed)


# -- carrying


async def test_deliveries_tell_what_the_broker_knows(virtual_host: VirtualHost) -> None:
    broker = virtual_host.broker
    async with linked(endpoint_of(broker, virtual_host.name), role("amq.topic")) as link:
        await link.up()
        async with client(virtual_host) as channel:
            sent = Send("amq.topic", "console.obj", b"AM2q", "reply-here", "x/y", "42")
            await published(channel, sent, broker.administrator.name)
            await published(channel, Send("amq.topic", "plain", b""))
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
        ),
        Delivery("amq.topic", "plain", b"", timestamp=10**9),
    ]
    assert link.counters == {"messages": 2, "octets": 4}


async def test_replies_arrive_through_the_direct_exchange(virtual_host: VirtualHost) -> None:
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), role()) as link:
        reply_to = await link.up()
        async with client(virtual_host) as channel:
            await published(channel, Send("amq.direct", reply_to, b"answer"))
        (delivery,) = await link.received(1)

    assert (delivery.exchange, delivery.routing_key, delivery.body) == ("amq.direct", reply_to, b"answer")


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
    assert link.conversation.notes == {"not-sent": 1}
    assert link.session.down == []


async def test_a_manager_declares_what_is_missing(virtual_host: VirtualHost) -> None:
    managing = role("qpid.management", declare=("qpid.management",))
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), managing) as link:
        await link.up()
        with virtual_host.http() as http:
            exchange = http.get(f"exchanges/{virtual_host.path}/qpid.management").raise_for_status().json()

    assert (exchange["type"], exchange["durable"], exchange["auto_delete"]) == ("topic", True, False)


# -- what it leaves behind


async def test_its_queue_is_named_exclusive_and_limited(virtual_host: VirtualHost) -> None:
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    async with linked(endpoint, role(max_queue_length=123)) as link:
        name = await link.up()
        with virtual_host.http() as http:
            queue = http.get(f"queues/{virtual_host.path}/{name}").raise_for_status().json()

    assert name.startswith("amqp-gateway.test.")
    assert (queue["exclusive"], queue["auto_delete"], queue["durable"]) == (True, True, False)
    assert queue["arguments"] == {"x-max-length": 123, "x-overflow": "drop-head"}


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
            holder.stdin.write(f"{endpoint.password.get_secret_value()}\n")
            holder.stdin.flush()
            wait_until(lambda: len(queues(virtual_host)) == 1, "the other process declared its queue")
        finally:
            holder.send_signal(signal.SIGKILL)
    wait_until(lambda: queues(virtual_host) == set(), "the queue went with its process")


# -- coming back


@pytest.mark.parametrize("part", ["consume", "publish"])
async def test_it_comes_back_when_a_connection_is_closed(virtual_host: VirtualHost, part: str) -> None:
    broker = virtual_host.broker
    connection = f"amqp-gateway test-{part} {part}"

    async def closed() -> bool:
        return await asyncio.to_thread(close_connection, broker, virtual_host.path, connection) > 0

    mine = replace(role(), name=f"test-{part}")
    async with linked(endpoint_of(broker, virtual_host.name), mine) as link:
        before = await link.up()
        await eventually(closed, f"the broker lists the connection {connection}")
        said = await link.down()
        assert await link.up(2) != before

    assert "CONNECTION_FORCED - Closed via management plugin" in said


async def test_it_comes_back_when_its_exchange_was_deleted_and_made_again(virtual_host: VirtualHost) -> None:
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    place = f"exchanges/{virtual_host.path}/qpid.management"
    with virtual_host.http() as http:
        http.put(place, json={"type": "topic", "durable": True}).raise_for_status()
        async with linked(endpoint, role("qpid.management")) as link:
            await link.up()
            http.delete(place).raise_for_status()
            said = await link.down()
            http.put(place, json={"type": "topic", "durable": True}).raise_for_status()
            await link.up(2)

    assert said == (
        f"{endpoint}: NOT_FOUND - no exchange 'qpid.management' in vhost '{virtual_host.name}': "
        "the agent declares the management exchange when it starts"
    )


async def test_it_comes_back_when_its_exchange_was_made_anew_before_anyone_missed_it(
    virtual_host: VirtualHost,
) -> None:
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    name = "qpid.management"
    async with client(virtual_host) as channel:
        exchange = await channel.declare_exchange(name, aio_pika.ExchangeType.TOPIC, durable=True)
        async with linked(endpoint, role(name, probed=name)) as link:
            said, times = "", 0
            while "not bound" not in said and times < 10:  # a look may fall between the two
                queue, times = await link.up(times + 1), times + 1
                await exchange.delete()
                exchange = await channel.declare_exchange(name, aio_pika.ExchangeType.TOPIC, durable=True)
                said = await link.down(times)
            assert await link.up(times + 1) != queue
            await published(channel, Send(name, "console.obj", b"1"))
            (heard,) = await link.received(1)

    assert said.startswith(f"{endpoint}: the queue {queue} is not bound to the exchange {name} any more")
    assert heard.body == b"1"


async def test_its_probes_are_nobody_elses_business(virtual_host: VirtualHost) -> None:
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    tapped: list[aio_pika.abc.AbstractIncomingMessage] = []

    async def tap(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        tapped.append(message)

    async def often() -> bool:
        return len(tapped) >= 3

    with virtual_host.http() as http:
        place = f"exchanges/{virtual_host.path}/qpid.management"
        http.put(place, json={"type": "topic", "durable": True}).raise_for_status()
    async with client(virtual_host) as channel:
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("qpid.management", "#")
        await queue.consume(tap, no_ack=True)
        async with linked(endpoint, role("qpid.management", probed="qpid.management")) as link:
            name = await link.up()
            await eventually(often, "three probes")
            assert link.session.deliveries == []
            assert link.session.down == []
            assert link.counters == {}
    assert {(message.routing_key, message.body, message.user_id) for message in tapped} == {
        (name, b"", endpoint.user)
    }


async def test_it_survives_to_send_to_an_exchange_that_is_missing(virtual_host: VirtualHost) -> None:
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), role()) as link:
        await link.up()
        link.send(Send("absent", "key", b"1"), Send("absent", "key", b"2"))
        said = await link.down()
        await link.up(2)

    assert "NOT_FOUND - no exchange 'absent'" in said


async def test_it_comes_back_when_its_queue_was_deleted(virtual_host: VirtualHost) -> None:
    broker = virtual_host.broker
    async with linked(endpoint_of(broker, virtual_host.name), role()) as link:
        name = await link.up()
        deletion = (
            f'N = rabbit_misc:r(<<"{virtual_host.name}">>, queue, <<"{name}">>), '
            "{ok, Q} = rabbit_amqqueue:lookup(N), "
            'rabbit_amqqueue:delete(Q, false, false, <<"operator">>).'
        )
        await asyncio.to_thread(broker.rabbitmqctl, "eval", deletion)
        said = await link.down()
        assert await link.up(2) != name

    assert f"NOT_FOUND - no queue '{name}'" in said


async def test_it_comes_back_when_the_virtual_host_was_deleted_and_made_again(
    virtual_host: VirtualHost,
) -> None:
    broker = virtual_host.broker
    permission = {"configure": ".*", "write": ".*", "read": ".*"}
    with virtual_host.http() as http:
        async with linked(endpoint_of(broker, virtual_host.name), role()) as link:
            await link.up()
            await asyncio.to_thread(http.delete, f"vhosts/{virtual_host.path}")
            await link.down()
            await asyncio.to_thread(http.put, f"vhosts/{virtual_host.path}", json={})
            grant = f"permissions/{virtual_host.path}/{broker.administrator.name}"
            await asyncio.to_thread(http.put, grant, json=permission)
            await link.up(2)


async def test_it_comes_back_when_the_broker_was_killed(own_rabbitmq: PrivateBroker) -> None:
    async with linked(endpoint_of(own_rabbitmq), role()) as link:
        await link.up()
        await asyncio.to_thread(own_rabbitmq.kill_node)
        await link.down()
        await link.down(2)
        await asyncio.to_thread(own_rabbitmq.start)
        reply_to = await link.up(2)
        async with await aio_pika.connect(own_rabbitmq.amqp_url()) as connection:
            channel = await connection.channel()
            await published(channel, Send("amq.direct", reply_to, b"again"))
            assert (await link.received(1))[0].body == b"again"

    assert link.session.down[1] == (
        f"amqp://127.0.0.1:{own_rabbitmq.ports.amqp}: nothing listens there: is the broker running?"
    )


async def test_messages_of_a_connection_that_ended_are_not_sent_on_the_next(
    virtual_host: VirtualHost,
) -> None:
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), role("amq.topic")) as link:
        await link.up()
        link.send(Send("absent", "key", b""))
        await link.down()
        link.send(Send("amq.topic", "stale", b""))
        await link.up(2)
        link.send(Send("amq.topic", "fresh", b""))
        assert [delivery.routing_key for delivery in await link.received(1)] == ["fresh"]


class FaultySession(RecordingSession):
    """Fails at the first message that it gets."""

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        super().receive(delivery, now)
        if len(self.deliveries) == 1:
            raise LookupError("a fault of ours")
        return []


async def test_a_fault_of_a_session_ends_its_connection_and_not_the_link(
    virtual_host: VirtualHost, logged: list[structlog.typing.EventDict]
) -> None:
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    async with linked(endpoint, role("amq.topic"), FaultySession()) as link, client(virtual_host) as channel:
        await link.up()
        await published(channel, Send("amq.topic", "first", b""))
        said = await link.down()
        await link.up(2)
        await published(channel, Send("amq.topic", "second", b""))
        await link.received(2)

    assert said == f"{endpoint.url}: internal error LookupError: see the log"
    assert [entry["event"] for entry in logged][:3] == ["link-up", "link-failed", "link-down"]


# -- doubt

SLOW_SECONDS = 0.005


class SlowSession(RecordingSession):
    """Takes so long for each message that anybody publishes faster, and the broker's queue fills."""

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        time.sleep(SLOW_SECONDS)
        return super().receive(delivery, now)


async def flood(vhost: VirtualHost, count: int) -> None:
    """Publish as fast as it goes, without waiting for the broker's word."""
    async with await aio_pika.connect(vhost.amqp_url()) as connection:
        channel = await connection.channel(publisher_confirms=False)
        exchange = await channel.get_exchange("amq.topic", ensure=False)
        for _ in range(count):
            await exchange.publish(aio_pika.Message(b""), "key")


async def test_a_queue_that_may_have_overflowed_leads_to_a_resync(virtual_host: VirtualHost) -> None:
    limit, count = 600, 3000
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    overflowing = role("amq.topic", max_queue_length=limit)
    async with linked(endpoint, overflowing, SlowSession()) as link:
        await link.up()
        # On a loop of its own: ours is as slow as the session.
        await asyncio.to_thread(asyncio.run, flood(virtual_host, count))

        async def resynced() -> bool:
            return bool(link.session.resyncs)

        await eventually(resynced, "the link doubted")

    (reason,) = link.session.resyncs
    assert reason.startswith(f"more than {limit // 2} messages waited in amqp-gateway.test.")
    assert link.session.down == []
    assert len(link.session.deliveries) < count


# -- a way that ends without a word


class Wire:
    """A TCP proxy that can stop to forward without closing anything, as a firewall that forgot does."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self) -> None:
        """Forward nothing any more."""
        self._open.clear()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        for source, target in ((reader, there_writer), (there_reader, writer)):
            self._tasks.add(asyncio.create_task(self._forward(source, target)))

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while octets := await source.read(65536):
                await self._open.wait()
                target.write(octets)
        except ConnectionError:
            pass
        finally:
            target.close()
            with contextlib.suppress(ConnectionError):
                await target.wait_closed()


async def test_a_half_open_connection_is_noticed_within_the_heartbeat(virtual_host: VirtualHost) -> None:
    broker = virtual_host.broker
    async with Wire(broker.ports.amqp) as wire:
        endpoint = endpoint_of(broker, virtual_host.name, port=wire.port)
        async with linked(endpoint, role()) as link:
            await link.up()
            wire.cut()
            cut = time.monotonic()
            said = await link.down()
            noticed = time.monotonic() - cut

    assert said == f"{endpoint.url}: no answer within 10 s: is this an AMQP 0-9-1 broker?"
    assert noticed < 2 * amqp_connection.HEARTBEAT_SECONDS


# -- what is logged


async def test_up_and_down_are_told_in_one_line_each(
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
