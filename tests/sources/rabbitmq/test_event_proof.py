"""Events that do not arrive over a living connection are noticed, at a real RabbitMQ."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import aio_pika
import pytest

from gateway.clock import SystemClock
from gateway.demo.broker import PrivateBroker
from gateway.links.durable_queue import DurableSubscription
from gateway.model.times import SECOND
from gateway.sources.rabbitmq import event_proof
from gateway.sources.rabbitmq.event_consumer import EventConsumer, KeptEvents, Received
from gateway.sources.rabbitmq.event_proof import is_proof, lacking
from gateway.sources.rabbitmq.events import BINDING_CREATED, BINDING_DELETED, EVENT_EXCHANGE
from gateway.sources.rabbitmq.management_api import Answer, Document, NotFound, Unavailable, answer_of
from gateway.sources.rabbitmq.object_names import PROOF_KEY
from gateway.sources.rabbitmq.source_events import EventsReceived
from tests.components.waiting import until
from tests.links.ledger import MemoryLedger
from tests.sources.rabbitmq.test_kept_events import names_in
from tests.sources.rabbitmq.test_live import TAKEN_FOR_UNBOUND, Sink
from tests.sources.rabbitmq.watching import event_endpoint, ready, watch

pytestmark = [pytest.mark.each_rabbitmq(takes_long=True), pytest.mark.xdist_group("disturbed")]

KEYS = ["queue.created", BINDING_CREATED]
DISABLED = "rabbit:stop_apps([rabbitmq_event_exchange])"
ENABLED = "rabbit:start_apps([rabbitmq_event_exchange], #{})"
"""What RabbitMQ does when the plugin is disabled, by which its exchange is deleted, and enabled again."""


@pytest.mark.parametrize(
    ("answer", "lacks"),
    [
        (Document([{"source": EVENT_EXCHANGE, "routing_key": key} for key in KEYS]), frozenset()),
        (Document([{"source": EVENT_EXCHANGE, "routing_key": KEYS[1]}]), {KEYS[0]}),
        (Document([{"source": "orders", "routing_key": key} for key in KEYS]), {*KEYS}),
        (Document([]), {*KEYS}),
        (Document({"error": "none"}), None),
        (NotFound(), None),
        (Unavailable("status 503"), None),
        (None, frozenset()),
    ],
)
def test_only_a_listing_of_the_bindings_shows_which_lack(
    answer: Answer | None, lacks: set[str] | frozenset[str] | None
) -> None:
    """Where a proxy changes the path it cannot be asked for, and the bindings count as they were made."""
    assert lacking(KEYS, answer) == lacks


def test_bindings_of_a_proof_are_those_of_a_gateway() -> None:
    headers = {"routing_key": PROOF_KEY, "destination_name": "amqp-gateway.events.7"}
    assert is_proof(BINDING_CREATED, headers)
    assert is_proof(BINDING_DELETED, headers)
    assert not is_proof("queue.created", headers)
    assert not is_proof(BINDING_CREATED, {**headers, "destination_name": "orders"})
    assert not is_proof(BINDING_CREATED, {**headers, "routing_key": "queue.created"})


class ProofSink(Sink):
    """A sink that also has the last time until which all events were proven to be received (ns)."""

    def __init__(self) -> None:
        super().__init__()
        self.received_until = 0

    def receive(self, event: Received) -> None:
        super().receive(event)
        if isinstance(event, EventsReceived):
            assert event.until > self.received_until
            self.received_until = event.until


@asynccontextmanager
async def consuming(
    broker: PrivateBroker, subscription: DurableSubscription | None = None
) -> AsyncIterator[ProofSink]:
    """Provide the sink of a consumer that proves its bindings by the management API."""
    sink = ProofSink()

    async def bindings(vhost: str, queue: str) -> Answer:
        with broker.http() as client:
            response = await asyncio.to_thread(client.get, f"queues/{quote(vhost, safe='')}/{queue}/bindings")
        return answer_of(response.status_code, response.content)

    kept = None if subscription is None else KeptEvents(subscription, lambda: True)
    endpoint = event_endpoint(broker, broker.administrator)
    consumer = EventConsumer(endpoint, KEYS, sink.receive, SystemClock(), kept, bindings=bindings)
    running = asyncio.create_task(consumer.run())
    try:
        yield sink
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def make_queue(broker: PrivateBroker, name: str) -> None:
    """Declare and delete a queue."""
    async with await aio_pika.connect(broker.amqp_url()) as connection:
        channel = await connection.channel()
        await channel.declare_queue(name)
        await channel.queue_delete(name)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_proof, "PROOF_SECONDS", 0.3)


@pytest.mark.usefixtures("often")
async def test_on_a_quiet_broker_a_binding_of_its_own_shows_that_events_arrive(
    unbound: PrivateBroker,
) -> None:
    async with consuming(unbound) as sink:
        await until(lambda: "connected" in sink.reported, "it listens")
        first = time.time_ns()
        await until(lambda: sink.received_until > first, "a proof")
        second = time.time_ns()
        await until(lambda: sink.received_until > second, "another one")
        assert [one for one in sink.events if PROOF_KEY in one[1].values()] == []
        assert sink.reported == ["connected"]


@pytest.mark.usefixtures("often")
async def test_a_plugin_that_was_disabled_and_enabled_makes_a_gap_from_the_last_proof(
    unbound: PrivateBroker,
) -> None:
    async with consuming(unbound) as sink:
        await until(lambda: "connected" in sink.reported, "it listens")
        unbound.rabbitmqctl("eval", f"{DISABLED}, {ENABLED}.")
        disabled = time.time_ns()
        await make_queue(unbound, "missed")
        await until(lambda: sink.reported.count("connected") == 2, "it is bound again")
        assert "2 of 2 bindings" in sink.reported[1]
        assert sink.received_until < disabled
        await make_queue(unbound, "received")
        await until(lambda: "received" in names_in(sink), "the next event")
        assert "missed" not in names_in(sink)


async def test_a_plugin_that_was_disabled_while_a_durable_subscription_was_away_is_no_covered_absence(
    unbound: PrivateBroker,
) -> None:
    name = f"amqp-gateway.events.test-{secrets.token_hex(4)}"
    subscription = DurableSubscription(name, 10_000, 60 * SECOND, MemoryLedger())
    try:
        async with consuming(unbound, subscription) as first:
            await until(lambda: "caught up" in first.reported, "it listens")
        async with consuming(unbound, subscription) as second:
            await until(lambda: "caught up" in second.reported, "it listens again")
        assert second.reported[0].endswith(": "), "its bindings were there"
        unbound.rabbitmqctl("eval", f"{DISABLED}, {ENABLED}.")
        await make_queue(unbound, "missed")
        async with consuming(unbound, subscription) as third:
            await until(lambda: "caught up" in third.reported, "it listens again")
            assert "was not bound any more" in third.reported[0]
            await make_queue(unbound, "received")
            await until(lambda: "received" in names_in(third), "the next event")
            assert "missed" not in names_in(third)
    finally:
        with unbound.http() as client:
            client.delete(f"queues/%2F/{name}").raise_for_status()


async def test_a_source_reports_the_gap_in_which_nothing_was_received(unbound: PrivateBroker) -> None:
    async with watch(unbound, unbound.administrator) as watched:
        await ready(watched)
        await until(lambda: "queues/%2F/" in " ".join(watched.asked), "its bindings are asked for")
        await asyncio.to_thread(unbound.rabbitmqctl, "eval", f"{DISABLED}, {ENABLED}.")
        made = SystemClock().now()
        await make_queue(unbound, "missed")
        await until(lambda: watched.gaps, "the gap")
        (gap,) = watched.gaps
        assert gap.start < made < gap.end
        assert "bindings of the queue" in gap.reason
        await make_queue(unbound, "received")
        await until(lambda: watched.gone("queue", "received"), "events arrive again")


@pytest.mark.each_rabbitmq(since="4.0")
@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("kept", [False, True], ids=["plain", "durable"])
async def test_a_broker_that_publishes_nothing_more_is_noticed(unbound: PrivateBroker, *, kept: bool) -> None:
    name = f"amqp-gateway.events.test-{secrets.token_hex(4)}"
    subscription = DurableSubscription(name, 10_000, 60 * SECOND, MemoryLedger()) if kept else None
    async with consuming(unbound, subscription) as sink:
        await until(lambda: sink.reported and sink.reported[-1] in {"connected", "caught up"}, "it listens")
        unbound.rabbitmqctl("eval", TAKEN_FOR_UNBOUND)
        silent = time.time_ns()
        await make_queue(unbound, "missed")
        await until(lambda: any("nothing arrives in it" in line for line in sink.reported), "its silence")
        assert sink.received_until < silent
        if kept:
            await until(lambda: any("nothing arrived in it" in line for line in sink.reported), "a loss")
        await until(lambda: sink.reported[-1] in {"connected", "caught up"}, "it is bound again")
        await make_queue(unbound, "received")
        await until(lambda: "received" in names_in(sink), "the next event")
    if kept:
        with unbound.http() as client:
            client.delete(f"queues/%2F/{name}").raise_for_status()
