"""Events that do not arrive over a living connection are noticed, at a real RabbitMQ."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import cast

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage, AbstractQueue

from gateway.clock import SystemClock
from gateway.demo.broker import PrivateBroker
from gateway.links.amqp_connection import LinkError
from gateway.links.durable_queue import DurableSubscription
from gateway.model.observations import SourceState
from gateway.model.times import SECOND
from gateway.sources.rabbitmq import event_proof
from gateway.sources.rabbitmq.event_consumer import EventConsumer, KeptEvents, Received
from gateway.sources.rabbitmq.event_proof import EventProof, EventsSilentError, is_proof, lacking
from gateway.sources.rabbitmq.events import BINDING_CREATED, BINDING_DELETED, EVENT_EXCHANGE
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Broken,
    Document,
    ManagementRequest,
    NotFound,
    Unavailable,
    answer_of,
)
from gateway.sources.rabbitmq.object_names import PROOF_KEY
from gateway.sources.rabbitmq.source_events import EventsReceived
from tests.components.waiting import until
from tests.links.ledger import MemoryLedger
from tests.sources.rabbitmq.test_kept_events import names_in
from tests.sources.rabbitmq.test_live import TAKEN_FOR_UNBOUND, Sink
from tests.sources.rabbitmq.watching import Watch, event_endpoint, reading_user, ready, watch

pytestmark = [pytest.mark.each_rabbitmq(takes_long=True), pytest.mark.xdist_group("disturbed")]

KEYS = ("queue.created", BINDING_CREATED)
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
        (Document([{"source": EVENT_EXCHANGE, "routing_key": []}, 7]), {*KEYS}),
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


@pytest.mark.parametrize("answer", [Unavailable("status 503"), Broken("status 500"), NotFound()])
async def test_of_a_queue_whose_bindings_are_not_shown_nothing_is_proved(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API that does not answer now is waited for; one that shows no bindings is no proof of any."""
    monkeypatch.setattr(event_proof, "_AGAIN_SECONDS", 0)

    async def ask(_: ManagementRequest) -> Answer:
        return answer

    proof = EventProof("/", "amqp-gateway.events.7", KEYS, 9, ask, SystemClock().now, lambda *_: None)
    if isinstance(answer, Unavailable):
        with pytest.raises(LinkError, match="status 503"):
            await proof.lacks()
    else:
        assert await proof.lacks() == {*KEYS}


class Bindings:
    """A queue of which only the number of bindings that were made is known."""

    made = 0

    async def bind(self, *_: str) -> None:
        self.made += 1

    async def unbind(self, *_: str) -> None:
        pass


async def test_where_bindings_cannot_be_read_a_broker_that_publishes_no_more_is_noticed() -> None:
    """Nothing is proved there, but its own binding is made whenever no other event came."""

    async def ask(_: ManagementRequest) -> Answer:
        return NotFound()

    proof = EventProof("/", "amqp-gateway.events.7", KEYS, 9, ask, SystemClock().now, lambda *_: None)
    bindings, event = Bindings(), SimpleNamespace(exchange=EVENT_EXCHANGE, routing_key="queue.created")
    queue = cast(AbstractQueue, bindings)
    proof.arrived(cast(AbstractIncomingMessage, event))
    await proof.prove(queue)
    assert bindings.made == 0, "an event came"
    with pytest.raises(EventsSilentError):
        await proof.prove(queue)
    assert (bindings.made, proof.until) == (1, 0)


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
    broker: PrivateBroker,
    subscription: DurableSubscription | None = None,
    keys: Sequence[str] = KEYS,
) -> AsyncIterator[ProofSink]:
    """Provide the sink of a consumer that proves its bindings by the management API."""
    sink = ProofSink()

    async def ask(request: ManagementRequest) -> Answer:
        with broker.http() as client:
            response = await asyncio.to_thread(client.get, request.target)
        return answer_of(response.status_code, response.content)

    kept = None if subscription is None else KeptEvents(subscription, lambda: True)
    endpoint = event_endpoint(broker, broker.administrator)
    consumer = EventConsumer(endpoint, keys, sink.receive, SystemClock(), kept, ask=ask)
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


@contextmanager
def policy_on_all(
    broker: PrivateBroker, definition: dict[str, int], kind: str = "policies"
) -> Iterator[None]:
    """Set a policy for all queues of the default virtual host while the context lasts."""
    with broker.http() as client:
        body = {"pattern": ".*", "apply-to": "queues", "definition": definition}
        client.put(f"{kind}/%2F/cap", json=body).raise_for_status()
        try:
            yield
        finally:
            client.delete(f"{kind}/%2F/cap").raise_for_status()


async def burst(broker: PrivateBroker, number: int) -> None:
    """Declare and delete a queue so many times."""
    async with await aio_pika.connect(broker.amqp_url()) as connection:
        channel = await connection.channel()
        for _ in range(number):
            await channel.declare_queue("burst")
            await channel.queue_delete("burst")


def missed_from(watched: Watch, time: int) -> int:
    """Return until when all events from ``time`` on are in gaps (ns); ``time`` if it is in none."""
    for gap in watched.gaps:
        if gap.start <= time:
            time = max(time, gap.end)
    return time


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
async def test_what_a_policy_can_have_dropped_of_a_burst_is_a_gap(unbound: PrivateBroker, kind: str) -> None:
    """The bound that counts is the policy's, which is far below the declared one."""
    with reading_user(unbound, []) as user:
        async with watch(unbound, user) as watched:
            await ready(watched)
            with policy_on_all(unbound, {"max-length": 10}, kind):
                await until(
                    lambda: watched.status and "max-length: 10" in watched.status.detail, "it is named"
                )
                assert watched.status is not None
                assert r"begin with ^(?!amqp-gateway\.)" in watched.status.detail
                assert watched.status.state is SourceState.DEGRADED
                began = SystemClock().now()
                await burst(unbound, 300)
                ended = SystemClock().now()
                await until(lambda: missed_from(watched, began) > ended, "what was dropped of the burst")
            await until(lambda: watched.status and "max-length" not in watched.status.detail, "it is gone")


async def test_a_policy_that_lets_nothing_wait_is_the_reason_why_nothing_arrives(
    unbound: PrivateBroker,
) -> None:
    with policy_on_all(unbound, {"max-length": 0}):
        async with consuming(unbound) as sink:
            await until(lambda: sink.reported, "a reason")
            assert "the policy 'cap' (max-length: 0)" in sink.reported[0]
            assert "plugin" not in sink.reported[0]


@pytest.mark.parametrize("is_cleared", [False, True])
async def test_what_a_policy_dropped_from_a_durable_queue_is_no_covered_absence(
    unbound: PrivateBroker, *, is_cleared: bool
) -> None:
    name = f"amqp-gateway.events.test-{secrets.token_hex(4)}"
    subscription = DurableSubscription(name, 10_000, 60 * SECOND, MemoryLedger())
    keys = [*KEYS, "policy.set", "policy.cleared"]
    try:
        async with consuming(unbound, subscription, keys) as first:
            await until(lambda: "caught up" in first.reported, "it listens")
        with policy_on_all(unbound, {"max-length": 10}):
            await burst(unbound, 50)
            if not is_cleared:
                async with consuming(unbound, subscription, keys) as second:
                    await until(lambda: "caught up" in second.reported, "it listens again")
        if is_cleared:
            async with consuming(unbound, subscription, keys) as second:
                await until(lambda: "caught up" in second.reported, "it listens again")
        text = "policy.cleared of 'cap'" if is_cleared else "the policy 'cap' (max-length: 10)"
        assert any(text in line for line in second.reported), second.reported
    finally:
        with unbound.http() as client:
            client.delete(f"queues/%2F/{name}").raise_for_status()
