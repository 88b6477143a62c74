"""A link at a real RabbitMQ: its recovery from everything that may end it."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace

import aio_pika
import pytest
import structlog

from gateway.demo.broker import PrivateBroker
from gateway.dialects.session import Delivery, Effect, Rebind, Send
from gateway.links import amqp_connection
from tests.components.ports import free_tcp_port
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import DEADLINE, eventually
from tests.links.broker_side import client, close_connection, published
from tests.links.recording import RecordingSession, endpoint_of, linked, role
from tests.links.wire import Wire


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


async def test_it_goes_on_at_another_node_and_leaves_out_one_that_does_not_answer(
    virtual_host: VirtualHost,
) -> None:
    broker = virtual_host.broker
    unanswered, address = f"amqp://127.0.0.1:{free_tcp_port()}", f"amqp://localhost:{broker.ports.amqp}"
    endpoint = endpoint_of(broker, virtual_host.name)
    several = replace(endpoint, others=(unanswered, address))
    mine = replace(role(), name="test-nodes")

    async def closed() -> bool:
        connection = "amqp-gateway test-nodes consume"
        return await asyncio.to_thread(close_connection, broker, virtual_host.path, connection) > 0

    async with linked(several, mine) as link:
        await link.up()
        await eventually(closed, "the broker lists the connection")
        said = [await link.down()]
        await link.up(2)
        said.append(await link.down(2))
        await eventually(closed, "the broker lists the connection")
        said.append(await link.down(3))
        await link.up(3)
    assert [one.split(" (")[0].split(": ")[0] for one in said] == [endpoint.url, unanswered, address]


async def test_it_connects_again_with_another_queue_when_its_session_wants_it_bound_again(
    virtual_host: VirtualHost,
) -> None:
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), role()) as link:
        before = await link.up()
        link.driver.perform([Rebind("agents tell everything to whoever binds")])
        assert await link.down() == "the queue is bound again: agents tell everything to whoever binds"
        assert await link.up(2) != before


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


async def test_it_comes_back_when_its_exchange_was_made_again_before_anyone_missed_it(
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
            (delivery,) = await link.received(1)

    assert said.startswith(f"{endpoint}: the queue {queue} is not bound to the exchange {name} any more")
    assert delivery.body == b"1"


async def test_it_ends_in_the_middle_of_deliveries_without_an_error_in_the_brokers_log(
    virtual_host: VirtualHost,
) -> None:
    """After the end of a channel nothing is acknowledged any more."""
    endpoint, name = endpoint_of(virtual_host.broker, virtual_host.name), "qpid.management"
    async with client(virtual_host) as channel:
        exchange = await channel.declare_exchange(name, aio_pika.ExchangeType.TOPIC, durable=True)

        async def publish() -> None:
            while True:
                message = aio_pika.Message(b"1")
                await asyncio.gather(*(exchange.publish(message, "console.obj") for _ in range(100)))

        flood = asyncio.create_task(publish())
        try:
            for _ in range(5):
                async with linked(endpoint, role(name)) as link:
                    await link.up()
                    await link.received(300)
        finally:
            flood.cancel()
            await asyncio.gather(flood, return_exceptions=True)
    log = await asyncio.to_thread(virtual_host.broker.log_file.read_text, errors="replace")
    errors = [line for line in log.splitlines() if "[error]" in line and virtual_host.name in line]
    assert errors == []


async def test_its_probes_change_nothing_else(virtual_host: VirtualHost) -> None:
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


@pytest.mark.xdist_group("troubled")
async def test_it_comes_back_when_the_broker_was_killed(troubled: PrivateBroker) -> None:
    async with linked(endpoint_of(troubled), role()) as link:
        await link.up()
        await asyncio.to_thread(troubled.kill_node)
        await link.down()
        await link.down(2)
        await asyncio.to_thread(troubled.start)
        reply_to = await link.up(2)
        async with await aio_pika.connect(troubled.amqp_url()) as connection:
            channel = await connection.channel()
            await published(channel, Send("amq.direct", reply_to, b"again"))
            assert (await link.received(1))[0].body == b"again"

    assert link.session.down[1] == (
        f"amqp://127.0.0.1:{troubled.ports.amqp}: nothing listens there: is the broker running?"
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
    """A session that fails at its first message."""

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


SLOW_SECONDS = 0.005


class SlowSession(RecordingSession):
    """A session that stands still with its first message, and is slow, so that the queue fills."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        assert self.goes_on.wait(DEADLINE), "it may go on"
        time.sleep(SLOW_SECONDS)
        return super().receive(delivery, now)


async def flood(vhost: VirtualHost, count: int) -> None:
    """Publish as fast as possible, without waiting for confirms."""
    async with await aio_pika.connect(vhost.amqp_url()) as connection:
        channel = await connection.channel(publisher_confirms=False)
        exchange = await channel.get_exchange("amq.topic", ensure=False)
        for _ in range(count):
            await exchange.publish(aio_pika.Message(b""), "key")


async def test_a_queue_that_may_have_overflowed_leads_to_a_resync(virtual_host: VirtualHost) -> None:
    limit, count = 600, 3000
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    overflowing = role("amq.topic", max_queue_length=limit)
    session = SlowSession()

    def fill() -> None:
        asyncio.run(flood(virtual_host, count))  # on a loop of its own: ours stands still
        session.goes_on.set()

    async with linked(endpoint, overflowing, session) as link:
        await link.up()

        await asyncio.to_thread(fill)

        async def resynced() -> bool:
            return bool(session.resyncs)

        await eventually(resynced, "the link doubted")

    (reason,) = session.resyncs
    assert reason.startswith(f"more than {limit // 2} messages waited in amqp-gateway.test.")
    assert session.down == []
    assert len(session.deliveries) < count


@pytest.mark.parametrize(
    ("heartbeat", "silence"),
    [
        (amqp_connection.HEARTBEAT_SECONDS, "no answer within 10 s on an open connection"),
        (1, "nothing arrived for 6 s, not even a heartbeat"),
    ],
)
async def test_a_half_open_connection_is_noticed_within_the_heartbeat(
    virtual_host: VirtualHost, heartbeat: int, silence: str
) -> None:
    broker = virtual_host.broker
    async with Wire(broker.ports.amqp) as wire:
        at_wire = endpoint_of(broker, virtual_host.name, port=wire.port)
        endpoint = replace(at_wire, heartbeat=heartbeat)
        async with linked(endpoint, role()) as link:
            await link.up()
            wire.cut()
            cut = time.monotonic()
            said = await link.down()
            noticed = time.monotonic() - cut

    assert said == f"{endpoint.url}: {silence}: does the broker hang, or has it vanished?"
    assert noticed < 2 * amqp_connection.HEARTBEAT_SECONDS
