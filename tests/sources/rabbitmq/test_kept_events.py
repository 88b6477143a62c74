"""The broker's events from a durable queue, at a real RabbitMQ."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aio_pika
import pytest

from gateway.clock import SystemClock
from gateway.demo.broker import Credentials, PrivateBroker
from gateway.links import own_queue
from gateway.links.amqp_connection import open_connection
from gateway.links.binding_probe import BindingProbe
from gateway.links.durable_queue import DurableSubscription
from gateway.model.times import SECOND
from gateway.sources.rabbitmq import event_consumer
from gateway.sources.rabbitmq.event_consumer import EventConsumer, KeptEvents, Received
from gateway.sources.rabbitmq.events import BINDING_CREATED
from gateway.sources.rabbitmq.source_events import BrokerEventReceived
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import until
from tests.links.ledger import MemoryLedger
from tests.sources.rabbitmq.test_live import Sink
from tests.sources.rabbitmq.watching import event_endpoint, reading_user

SLOWLY_REPORTED, SLOW_SECONDS = 300, 0.01
"""The number of events, and the seconds for each; in all they take longer than an answer may take."""


class Listener(Sink):
    """A sink that can be away, and that can fail."""

    def __init__(self, vhost: str, slow: float) -> None:
        super().__init__(slow)
        self.receives = True
        self.fails_at = ""
        self._vhost = vhost

    @property
    def names(self) -> list[str]:
        """The names of the queues of the test's virtual host in the events."""
        return [str(headers["name"]) for _, headers in self.events if headers["vhost"] == self._vhost]

    def receive(self, event: Received) -> None:
        super().receive(event)
        failing = {"vhost": self._vhost, "name": self.fails_at}
        if (
            self.fails_at
            and isinstance(event, BrokerEventReceived)
            and failing.items() <= event.headers.items()
        ):
            raise ValueError("a fault of ours")


@asynccontextmanager
async def listening(
    vhost: VirtualHost,
    queue: str,
    ledger: MemoryLedger,
    slow: float = 0,
    user: Credentials | None = None,
) -> AsyncIterator[Listener]:
    """Provide the sink of a consumer with a durable subscription."""
    sink = Listener(vhost.name, slow)
    subscription = DurableSubscription(queue, 10_000, 60 * SECOND, ledger)
    kept = KeptEvents(subscription, lambda: sink.receives)
    endpoint = event_endpoint(vhost.broker, user or vhost.broker.administrator)
    consumer = EventConsumer(endpoint, ["queue.created"], sink.receive, SystemClock(), kept)
    running = asyncio.create_task(consumer.run())
    try:
        yield sink
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def declare(vhost: VirtualHost, *names: str) -> None:
    async with await aio_pika.connect(vhost.amqp_url()) as connection:
        channel = await connection.channel()
        for name in names:
            await channel.declare_queue(name, durable=True)


async def delete_queue(vhost: VirtualHost, queue: str) -> None:
    async with await aio_pika.connect(vhost.broker.amqp_url()) as connection:
        await (await connection.channel()).queue_delete(queue)


def new_queue() -> str:
    return f"amqp-gateway.events.test-{secrets.token_hex(4)}"


async def test_events_of_meanwhile_come_first(virtual_host: VirtualHost) -> None:
    queue, ledger = new_queue(), MemoryLedger()
    async with listening(virtual_host, queue, ledger) as first:
        await until(lambda: "caught up" in first.reported, "it listens")
        assert first.reported[0].startswith("resumed with 0: the queue")
    await declare(virtual_host, "a", "b")
    async with listening(virtual_host, queue, ledger) as second:
        await until(lambda: "caught up" in second.reported, "it has caught up")
        assert second.names == ["a", "b"]
        assert second.reported[0].startswith("resumed with ")
        assert second.reported[0].endswith(": ")
        await declare(virtual_host, "c")
        await until(lambda: second.names == ["a", "b", "c"], "the next is told")
    await delete_queue(virtual_host, queue)


async def test_a_user_who_may_open_one_channel_keeps_a_durable_subscription(
    virtual_host: VirtualHost,
) -> None:
    """So it is where the broker's ``channel_max`` is 1: the look at the queue has no channel of its own."""
    queue, ledger = new_queue(), MemoryLedger()
    with reading_user(virtual_host.broker, []) as user, virtual_host.http() as client:
        limit = f"user-limits/{user.name}/max-channels"
        client.put(limit, json={"value": 1}).raise_for_status()
        for state in ("new", "known"):
            async with listening(virtual_host, queue, ledger, user=user) as sink:
                await until(lambda: "caught up" in sink.reported, f"the {state} queue is consumed")
                assert [line for line in sink.reported if not line.startswith(("resumed", "caught up"))] == []
    await delete_queue(virtual_host, queue)


async def test_events_wait_for_a_session_that_understands_them(virtual_host: VirtualHost) -> None:
    queue, ledger = new_queue(), MemoryLedger()
    async with listening(virtual_host, queue, ledger) as sink:
        await until(lambda: "caught up" in sink.reported, "it listens")
    async with listening(virtual_host, queue, ledger) as sink:
        sink.receives = False
        await declare(virtual_host, "a")
        await until(lambda: sink.reported, "it listens again")
        await declare(virtual_host, "b")
        assert sink.names == []
        sink.receives = True
        await until(lambda: sink.names == ["a", "b"], "both are told, in order")
        await until(lambda: "caught up" in sink.reported, "it has caught up")
    await delete_queue(virtual_host, queue)


async def test_who_is_slow_at_what_waits_keeps_the_connection(
    virtual_host: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker's answers come after what it sent before, so that it is not silent."""
    monkeypatch.setattr(event_consumer, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(own_queue, "CONNECT_SECONDS", 0.5)
    queue, ledger = new_queue(), MemoryLedger()
    async with listening(virtual_host, queue, ledger) as sink:
        await until(lambda: "caught up" in sink.reported, "it listens")
    await declare(virtual_host, *map(str, range(SLOWLY_REPORTED)))
    async with listening(virtual_host, queue, ledger, SLOW_SECONDS) as sink:
        await until(lambda: len(sink.names) == SLOWLY_REPORTED, "all are told")
        await until(lambda: "caught up" in sink.reported, "it has caught up")
        assert not [line for line in sink.reported if "no answer" in line]
    await delete_queue(virtual_host, queue)


async def test_one_that_we_fail_at_does_not_come_again_and_again(virtual_host: VirtualHost) -> None:
    queue, ledger = new_queue(), MemoryLedger()
    async with listening(virtual_host, queue, ledger) as sink:
        await until(lambda: "caught up" in sink.reported, "it listens")
        sink.fails_at = "a"
        await declare(virtual_host, "a", "b")
        await until(lambda: any("internal error ValueError" in line for line in sink.reported), "it says so")
        await until(lambda: sink.names == ["a", "b"], "it goes on behind it")
        await declare(virtual_host, "c")
        await until(lambda: sink.names == ["a", "b", "c"], "it goes on")
    await delete_queue(virtual_host, queue)


async def test_an_event_that_we_fail_at_ends_the_connection_of_a_plain_subscription(
    virtual_host: VirtualHost,
) -> None:
    """Its loss would not be noticed otherwise: everything is listed again after a new connection."""
    sink = Listener(virtual_host.name, 0)
    endpoint = event_endpoint(virtual_host.broker, virtual_host.broker.administrator)
    consumer = EventConsumer(endpoint, ["queue.created"], sink.receive, SystemClock())
    running = asyncio.create_task(consumer.run())
    try:
        await until(lambda: "connected" in sink.reported, "it listens")
        sink.fails_at = "a"
        await declare(virtual_host, "a")
        await until(lambda: any("internal error ValueError" in line for line in sink.reported), "it says so")
        await until(lambda: sink.reported[-1] == "connected", "it listens again")
        await declare(virtual_host, "b")
        await until(lambda: sink.names == ["a", "b"], "it goes on")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


STOPPED = "rabbit:stop_apps([rabbitmq_event_exchange])."
STARTED = "rabbit:start_apps([rabbitmq_event_exchange], #{})."
"""What RabbitMQ does when the plugin is disabled, by which its exchange is deleted, and enabled again."""


@pytest.mark.each_rabbitmq(takes_long=True)
@pytest.mark.xdist_group("disturbed")
async def test_events_that_go_elsewhere_are_missed_until_the_exchange_is_there_again(
    unbound: PrivateBroker,
) -> None:
    endpoint = event_endpoint(unbound, unbound.administrator)
    subscription = DurableSubscription(new_queue(), 10_000, 60 * SECOND, MemoryLedger())
    sinks = kept, plain = Sink(), Sink()
    keys = ["queue.created", BINDING_CREATED]
    listener = EventConsumer(
        endpoint, keys, kept.receive, SystemClock(), KeptEvents(subscription, lambda: True)
    )
    running = [asyncio.create_task(listener.run())]
    # One after the other: RabbitMQ 4 notes a binding only where it finds no other one just afterwards. If two
    # come first at once, it publishes nothing until both are gone, and the kept one stays.
    await until(lambda: "caught up" in kept.reported, "the kept one listens")
    running.append(asyncio.create_task(EventConsumer(endpoint, keys, plain.receive, SystemClock()).run()))
    await until(lambda: "connected" in plain.reported, "the plain one listens")
    await asyncio.to_thread(unbound.rabbitmqctl, "eval", STOPPED)
    await until(lambda: all("no exchange" in one.reported[-1] for one in sinks), "its end is noticed")
    for sink in sinks:
        sink.reported.clear()
    await asyncio.to_thread(unbound.rabbitmqctl, "eval", STARTED)
    await until(lambda: "caught up" in kept.reported and "connected" in plain.reported, "both listen again")
    assert any("was not bound any more" in line for line in kept.reported), kept.reported
    with unbound.http() as client:
        client.put("queues/%2F/orders", json={}).raise_for_status()
    await until(lambda: all("orders" in names_in(one) for one in sinks), "the event of a queue")

    for one in running:
        one.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    with unbound.http() as client:
        for queue in ("orders", subscription.queue):
            client.delete(f"queues/%2F/{queue}").raise_for_status()


def names_in(sink: Sink) -> set[object]:
    """Return the names of the queues that events have reported."""
    return {headers.get("name") for key, headers in sink.events if key == "queue.created"}


@pytest.fixture
def one_channel(disturbed: PrivateBroker) -> Iterator[PrivateBroker]:
    """Provide a broker whose ``channel_max`` is 1."""
    disturbed.rabbitmqctl("eval", "application:set_env(rabbit, channel_max, 1).")
    yield disturbed
    disturbed.rabbitmqctl("eval", "application:set_env(rabbit, channel_max, 2047).")


@pytest.mark.xdist_group("disturbed")
async def test_a_broker_that_gives_one_channel_for_each_connection_is_consumed_from(
    one_channel: PrivateBroker,
) -> None:
    """A probe of a binding, which needs a channel with confirms, finds nothing out and ends nothing."""
    queue, vhost = new_queue(), VirtualHost(one_channel, "/")
    async with listening(vhost, queue, MemoryLedger()) as sink:
        await until(lambda: "caught up" in sink.reported, "the queue is consumed")
        endpoint = event_endpoint(one_channel, one_channel.administrator)
        connection = await open_connection(endpoint, "test")
        await connection.channel(publisher_confirms=False)
        assert await BindingProbe(endpoint, "amq.topic", 1).is_bound(connection, queue)
        assert not connection.is_closed
        await connection.close()
        await declare(vhost, "a")
        await until(lambda: sink.names == ["a"], "an event")
        assert sink.reported[2:] == ["caught up"], "the queue was new, as was reported before and after"
    await delete_queue(vhost, queue)
    with one_channel.http() as client:
        client.delete("queues/%2F/a").raise_for_status()
