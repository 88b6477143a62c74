"""Events that do not arrive over a living connection are noticed, at a real RabbitMQ."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import cast

import aio_pika
import httpx
import pytest
from aio_pika.abc import AbstractIncomingMessage, AbstractQueue

from gateway.clock import SystemClock
from gateway.demo.broker import Credentials, PrivateBroker
from gateway.links.durable_queue import DurableSubscription
from gateway.mapping.paths import Json
from gateway.model.observations import SourceState
from gateway.model.times import SECOND
from gateway.sources.rabbitmq import event_consumer, event_gaps, event_proof
from gateway.sources.rabbitmq.event_consumer import EventConsumer, KeptEvents, Received
from gateway.sources.rabbitmq.event_proof import EventProof, EventsSilentError, lacking, proof_of
from gateway.sources.rabbitmq.events import BINDING_CREATED, BINDING_DELETED, EVENT_EXCHANGE
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Broken,
    Document,
    ManagementRequest,
    NotFound,
    Refused,
    Unavailable,
    answer_of,
)
from gateway.sources.rabbitmq.object_names import PROOF
from gateway.sources.rabbitmq.source_events import EventsReceived
from tests.components.changing_proxy import Proxy, Reply, kept, proxy
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
        (Document([{"source": EVENT_EXCHANGE, "routing_key": KEYS[0], "arguments": {PROOF: "7"}}]), {*KEYS}),
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
async def test_of_a_queue_whose_bindings_are_not_shown_nothing_is_known(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_proof, "_AGAIN_SECONDS", 0)
    proof = proof_that_asks(answer)
    assert await proof.lacks() is None
    assert proof.is_unavailable is isinstance(answer, Unavailable)
    assert "does not show the bindings of the queue amqp-gateway.events.7" in proof.not_shown


async def test_a_binding_that_lacks_is_not_gone_while_the_last_answer_shows_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_proof, "_AGAIN_SECONDS", 0)
    answers: list[Answer] = [Document([]), Broken("status 500"), Broken("status 500"), Broken("status 500")]
    proof = proof_that_asks(*answers)
    proof.keys = ["queue.created"]
    await proof.prove(cast(AbstractQueue, Bindings()))
    assert proof.until == 0


def proof_that_asks(*answers: Answer) -> EventProof:
    """Return a proof to whose requests for bindings these are the answers; the last one again and again."""
    left = list(answers)

    async def ask(request: ManagementRequest) -> Answer:
        if "bindings" not in request.target:
            return Document({"effective_policy_definition": {}})
        return left.pop(0) if len(left) > 1 else left[0]

    return EventProof("/", "amqp-gateway.events.7", KEYS, 9, ask, SystemClock().now, lambda *_: None)


class Bindings:
    """A queue of which only the number of bindings that were made, and that of what waits in it, is known."""

    name = "amqp-gateway.events.7"

    def __init__(self, waiting: int = 0) -> None:
        self.made = 0
        self._declared = SimpleNamespace(declaration_result=SimpleNamespace(message_count=waiting))

    @property
    def channel(self) -> Bindings:
        return self

    async def declare_queue(self, *_: str, passive: bool) -> SimpleNamespace:
        assert passive
        return self._declared

    async def bind(self, _: str, key: str, arguments: dict[str, str]) -> None:
        assert arguments
        assert key != BINDING_CREATED, "its event would arrive by this binding alone"
        self.made += 1

    async def unbind(self, _: str, key: str, arguments: dict[str, str]) -> None:
        assert arguments
        assert key != BINDING_CREATED


def arrive(proof: EventProof) -> None:
    event = SimpleNamespace(exchange=EVENT_EXCHANGE, routing_key="queue.created", headers={})
    proof.arrived(cast(AbstractIncomingMessage, event))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_proof, "_LOOKS", 1)


@pytest.mark.usefixtures("impatient")
async def test_where_bindings_cannot_be_read_a_broker_that_publishes_no_more_is_noticed() -> None:
    """Nothing is proved there, but its own binding is made whenever no other event came."""
    bindings, proof = Bindings(), proof_that_asks(NotFound())
    proof.drops.emptied(proof.now(), proof.now())
    arrive(proof)
    await proof.prove(cast(AbstractQueue, bindings))
    assert bindings.made == 0, "an event came"
    with pytest.raises(EventsSilentError):
        await proof.prove(cast(AbstractQueue, bindings))
    assert (bindings.made, proof.until) == (1, 0)


@pytest.mark.usefixtures("impatient")
async def test_an_event_that_waited_is_no_proof_that_events_are_published() -> None:
    """It may have been published before a silence that began while the gateway was away."""
    bindings, proof = Bindings(), proof_that_asks(NotFound())
    arrive(proof)
    with pytest.raises(EventsSilentError):
        await proof.prove(cast(AbstractQueue, bindings))
    assert bindings.made == 1


@pytest.mark.usefixtures("impatient")
async def test_a_broker_whose_other_events_arrive_meanwhile_is_not_silent() -> None:
    """Those that came before an answer may be taken after it."""
    proof = proof_that_asks(NotFound())

    class Late(Bindings):
        async def declare_queue(self, *names: str, passive: bool) -> SimpleNamespace:
            asyncio.get_running_loop().call_soon(arrive, proof)
            return await super().declare_queue(*names, passive=passive)

    await proof.prove(cast(AbstractQueue, Late()))


async def test_a_refused_login_is_not_tried_again_for_the_policies() -> None:
    asked: list[str] = []

    async def ask(request: ManagementRequest) -> Answer:
        asked.append(request.target)
        return Refused(login=True, reason="status 401")

    proof = EventProof("/", "amqp-gateway.events.7", KEYS, 9, ask, SystemClock().now, lambda *_: None)
    assert not await proof.read_policies()
    assert len(asked) == 1


@pytest.mark.usefixtures("impatient")
async def test_while_events_wait_the_broker_is_not_silent_and_nothing_is_proved() -> None:
    """So it is while the disk stands still: the broker sends no more than may be unacknowledged."""
    proof = proof_that_asks(Document([{"source": EVENT_EXCHANGE, "routing_key": key} for key in KEYS]))
    await proof.prove(cast(AbstractQueue, Bindings(waiting=3)))
    assert proof.until == 0


async def test_that_nothing_is_proved_for_long_is_said() -> None:
    proof = proof_that_asks(Broken("status 500"))
    proof.keys = ["queue.created"]
    for _ in range(4):
        assert proof.remark == ""
        await proof.prove(cast(AbstractQueue, Bindings()))
    assert "does not show the bindings of the queue amqp-gateway.events.7: status 500" in proof.remark


async def test_while_the_broker_does_not_say_which_policies_reach_a_queue_those_count_that_may() -> None:
    """RabbitMQ 4.0 answers 404 in the first seconds of a queue."""
    cap: Json = {"name": "cap", "pattern": ".*", "apply-to": "all", "definition": {"max-length": 5}}

    async def ask(request: ManagementRequest) -> Answer:
        if request.target.startswith("queues/"):
            return NotFound()
        return Document([cap] if request.target.startswith("policies/") else [])

    proof = EventProof("/", "amqp-gateway.events.7", KEYS, 9, ask, SystemClock().now, lambda *_: None)
    assert await proof.read_policies()
    assert "the policy 'cap' (max-length: 5) may reach" in proof.remark


def test_bindings_of_a_proof_are_those_of_a_gateway() -> None:
    headers: dict[str, Json] = {"arguments": {PROOF: "7"}, "destination_name": "amqp-gateway.events.7"}
    assert proof_of(BINDING_CREATED, headers) == proof_of(BINDING_DELETED, headers) == "7"
    assert not proof_of("queue.created", headers)
    assert not proof_of(BINDING_CREATED, {**headers, "destination_name": "orders"})
    assert not proof_of(BINDING_CREATED, {**headers, "arguments": {}})


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
    *,
    user: Credentials | None = None,
    broken: Callable[[str], bool] = lambda _: False,
    asks: bool = True,
) -> AsyncIterator[ProofSink]:
    """Provide the sink of a consumer that proves its bindings by the management API.

    ``broken``: whether the management API answers 500 to a request for this path; ``asks``: whether it can be
    asked for the queue at all, as not behind a proxy that changes paths.
    """
    sink = ProofSink()

    def answered(target: str) -> httpx.Response:
        # The thread closes its client: a consumer that ends meanwhile does not wait for its answer.
        with broker.http() as client:
            return client.get(target)

    async def ask(request: ManagementRequest) -> Answer | None:
        if not asks:
            return None
        if broken(request.target):
            return Broken("status 500")
        response = await asyncio.to_thread(answered, request.target)
        return answer_of(response.status_code, response.content)

    kept = None if subscription is None else KeptEvents(subscription, lambda: True)
    endpoint = event_endpoint(broker, user or broker.administrator)
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
        assert [one for one in sink.events if PROOF in str(one[1])] == []
        assert sink.reported == ["connected"]


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(
    ("asks", "noticed"), [(True, "2 of 2 bindings"), (False, "nothing arrives in it")], ids=["shown", "proxy"]
)
async def test_a_plugin_that_was_disabled_and_enabled_makes_a_gap_from_the_last_proof(
    unbound: PrivateBroker, noticed: str, *, asks: bool
) -> None:
    async with consuming(unbound, asks=asks) as sink:
        await until(lambda: "connected" in sink.reported, "it listens")
        unbound.rabbitmqctl("eval", f"{DISABLED}, {ENABLED}.")
        disabled = time.time_ns()
        await make_queue(unbound, "missed")
        await until(lambda: sink.reported.count("connected") == 2, "it is bound again")
        assert noticed in sink.reported[1]
        assert sink.received_until < disabled
        await make_queue(unbound, "received")
        await until(lambda: "received" in names_in(sink), "the next event")
        assert "missed" not in names_in(sink)


@pytest.mark.parametrize("asks", [True, False], ids=["shown", "proxy"])
async def test_a_plugin_that_was_disabled_while_a_durable_subscription_was_away_is_no_covered_absence(
    unbound: PrivateBroker, *, asks: bool
) -> None:
    name = f"amqp-gateway.events.test-{secrets.token_hex(4)}"
    subscription = DurableSubscription(name, 10_000, 60 * SECOND, MemoryLedger())
    try:
        async with consuming(unbound, subscription, asks=asks) as first:
            await until(lambda: "caught up" in first.reported, "it listens")
        async with consuming(unbound, subscription, asks=asks) as second:
            await until(lambda: "caught up" in second.reported, "it listens again")
        assert second.reported[0].endswith(": "), "its bindings were there"
        unbound.rabbitmqctl("eval", f"{DISABLED}, {ENABLED}.")
        await make_queue(unbound, "missed")
        async with consuming(unbound, subscription, asks=asks) as third:
            await until(lambda: "caught up" in third.reported, "it listens again")
            # Before it was bound, and once more when it is consumed: so long nothing came.
            assert sum("was not bound any more" in one for one in third.reported) == 2
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


UNBOUND = """
[rabbit_binding:remove(Binding, <<"test">>)
 || Binding <- rabbit_binding:list_for_source(rabbit_misc:r(<<"/">>, exchange, <<"amq.rabbitmq.event">>)),
    element(3, Binding) =:= <<"queue.created">>].
"""
"""Takes one of the gateway's bindings, so that the event of its own binding still arrives."""


def hiding_bindings(path: str, reply: Reply) -> Reply:
    """Return an answer of the management API as a proxy does that forwards no bindings."""
    is_hidden = re.fullmatch(r"/api/queues/[^?]*/bindings(\?.*)?", path)
    return (404, b"{}") if is_hidden else reply


async def test_queues_that_come_without_an_event_show_that_some_are_missing(
    unbound: PrivateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_gaps, "CREATION_OVERDUE", 10 * SECOND)
    with proxy(unbound.ports.management, kept) as hidden:
        hidden.answer = hiding_bindings
        async with watch(unbound, unbound.administrator, management=hidden.url) as watched:
            await ready(watched)
            await until(lambda: listings_of_queues(hidden) > LISTINGS, "queues are listed")
            await asyncio.to_thread(unbound.rabbitmqctl, "eval", UNBOUND)
            made = SystemClock().now()
            with unbound.http() as client:
                client.put("queues/%2F/unreported", json={"durable": True}).raise_for_status()
            try:
                reason = "of new objects (1) no event came"
                await until(lambda: any(reason in gap.reason for gap in watched.gaps), "the gap")
                gap = next(gap for gap in watched.gaps if reason in gap.reason)
                assert gap.start < made < gap.end
                await make_queue(unbound, "received")
                await until(lambda: watched.gone("queue", "received"), "it is bound again")
            finally:
                with unbound.http() as client:
                    client.delete("queues/%2F/unreported")


LISTINGS = 3
"""More listings of queues than two that lack a new one."""


def listings_of_queues(behind: Proxy) -> int:
    return sum(path.startswith("/api/queues?") for _, path in behind.seen)


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


@pytest.mark.each_rabbitmq(since="4.0")
@pytest.mark.usefixtures("often")
async def test_a_broker_that_stays_silent_for_a_durable_subscription_is_reported_once(
    unbound: PrivateBroker,
) -> None:
    """Another consumer's binding keeps it from noticing: the source must not wait for a backlog each time."""
    name = f"amqp-gateway.events.test-{secrets.token_hex(4)}"
    subscription = DurableSubscription(name, 10_000, 60 * SECOND, MemoryLedger())
    async with await aio_pika.connect(unbound.amqp_url()) as other:
        queue = await (await other.channel()).declare_queue("amqp-gateway.other", exclusive=True)
        async with consuming(unbound, subscription) as sink:
            await until(lambda: "caught up" in sink.reported, "it listens")
            await queue.bind(EVENT_EXCHANGE, "#")
            unbound.rabbitmqctl("eval", TAKEN_FOR_UNBOUND)
            await until(lambda: sum("publishes nothing" in one for one in sink.reported) >= 2, "its silence")
            first = next(number for number, one in enumerate(sink.reported) if "nothing arrives" in one)
            assert sum(one.startswith("resumed") for one in sink.reported[first:]) == 1
            await other.close()
            await until(lambda: sink.reported[-1] == "caught up", "events arrive")
            assert "nothing arrived in it" in sink.reported[-2]
    with unbound.http() as client:
        client.delete(f"queues/%2F/{name}").raise_for_status()


@pytest.mark.each_rabbitmq(since="4.0")
async def test_a_broker_that_fell_silent_while_a_durable_subscription_was_away_did_not_cover_the_absence(
    unbound: PrivateBroker,
) -> None:
    name = f"amqp-gateway.events.test-{secrets.token_hex(4)}"
    subscription = DurableSubscription(name, 10_000, 60 * SECOND, MemoryLedger())
    async with consuming(unbound, subscription) as first:
        await until(lambda: "caught up" in first.reported, "it listens")
    await burst(unbound, 3)
    unbound.rabbitmqctl("eval", TAKEN_FOR_UNBOUND)
    async with consuming(unbound, subscription) as second:
        await until(lambda: "caught up" in second.reported, "it listens again")
    assert "nothing arrived in it" in second.reported[0]
    with unbound.http() as client:
        client.delete(f"queues/%2F/{name}").raise_for_status()


async def test_a_second_gateway_with_the_same_durable_queue_leaves_its_bindings_alone(
    unbound: PrivateBroker,
) -> None:
    """The events of its own bindings go to the first one, which shows nothing about the broker."""
    name = f"amqp-gateway.events.test-{secrets.token_hex(4)}"
    subscription = DurableSubscription(name, 10_000, 60 * SECOND, MemoryLedger())
    async with consuming(unbound, subscription) as first:
        await until(lambda: "caught up" in first.reported, "it listens")
        bound = time.time_ns()
        async with consuming(unbound, subscription) as second:
            await until(lambda: second.reported, "it may not consume")
            assert "has another consumer" in second.reported[0]
        await until(lambda: first.received_until > bound, "a proof")
        assert first.reported[2:] == ["caught up"], "the queue was new, as was reported before and after"
    with unbound.http() as client:
        client.delete(f"queues/%2F/{name}").raise_for_status()


@pytest.mark.parametrize(("path", "answers"), [("bindings", 4), ("polic", 2)])
async def test_a_management_api_that_does_not_show_the_queue_for_a_moment_makes_no_loss(
    unbound: PrivateBroker, path: str, answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_proof, "_AGAIN_SECONDS", 0)
    name = f"amqp-gateway.events.test-{secrets.token_hex(4)}"
    subscription = DurableSubscription(name, 10_000, 60 * SECOND, MemoryLedger())
    async with consuming(unbound, subscription) as first:
        await until(lambda: "caught up" in first.reported, "it listens")
    starts = [path] * answers
    async with consuming(
        unbound, subscription, broken=lambda target: path in target and bool(starts) and bool(starts.pop())
    ) as second:
        await until(lambda: "caught up" in second.reported, "it listens again")
    assert "status 500" in second.reported[0]
    (resumed,) = [one for one in second.reported if one.startswith("resumed")]
    assert resumed.endswith(": ")
    monkeypatch.setattr(event_consumer, "NOT_SHOWN_LIMIT", 0)
    async with consuming(unbound, subscription, broken=lambda target: path in target) as third:
        await until(lambda: "caught up" in third.reported, "it does not wait for ever")
    assert "is not proven: the management API does not show" in third.reported[0]
    with unbound.http() as client:
        client.delete(f"queues/%2F/{name}").raise_for_status()


@pytest.mark.usefixtures("often")
async def test_a_pause_that_is_demanded_of_a_proof_is_one_of_all_requests(unbound: PrivateBroker) -> None:
    async with watch(unbound, unbound.administrator) as watched:
        await ready(watched)
        watched.demanding = "/bindings?"
        await until(lambda: watched.source.pauses(SystemClock().now()), "the pause")
        asked = watched.asked.total()
        for number in range(3):
            await make_queue(unbound, f"meanwhile-{number}")
            await until(lambda: watched.gone("queue", f"meanwhile-{number}"), "its event")  # noqa: B023  at once
        # A listing may have been under way, and the proof asks for bindings and policies at one time.
        assert watched.asked.total() <= asked + 2, "those that were under way"


@pytest.mark.each_rabbitmq(since="4.0")
async def test_a_policy_that_lets_events_wait_is_not_the_reason_why_nothing_arrives(
    unbound: PrivateBroker,
) -> None:
    async with await aio_pika.connect(unbound.amqp_url()) as other:
        queue = await (await other.channel()).declare_queue("amqp-gateway.other", exclusive=True)
        await queue.bind(EVENT_EXCHANGE, "#")
        unbound.rabbitmqctl("eval", TAKEN_FOR_UNBOUND)
        with policy_on_all(unbound, {"max-length": 5_000}):
            async with consuming(unbound) as sink:
                # A slow broker may not answer the first channel in time.
                await until(lambda: any("publishes nothing" in one for one in sink.reported), "the reason")
                assert not any("max-length" in one for one in sink.reported)
                await other.close()
                await until(lambda: sink.reported[-1] == "connected", "it is bound again")


@pytest.mark.usefixtures("often")
async def test_a_user_with_a_topic_permission_for_the_events_alone_has_proofs(unbound: PrivateBroker) -> None:
    with reading_user(unbound, []) as user:
        with unbound.http() as client:
            rights = {"exchange": EVENT_EXCHANGE, "write": "", "read": r"^(queue|binding)\."}
            client.put(f"topic-permissions/%2F/{user.name}", json=rights).raise_for_status()
        async with consuming(unbound, user=user) as sink:
            await until(lambda: "connected" in sink.reported, "it listens")
            began = time.time_ns()
            await until(lambda: sink.received_until > began, "a proof")
            assert sink.reported == ["connected"]


async def test_a_right_that_is_taken_away_is_said_until_it_is_back(
    unbound: PrivateBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker ends the channel of a binding that it refuses; the next connection is refused as well."""
    monkeypatch.setattr(event_proof, "PROOF_SECONDS", 1.5)  # a channel forgets rights after a second
    with reading_user(unbound, []) as user:
        async with consuming(unbound, user=user) as sink:
            await until(lambda: "connected" in sink.reported, "it listens")
            with unbound.http() as client:
                right = f"topic-permissions/%2F/{user.name}"
                rights = {"exchange": EVENT_EXCHANGE, "write": "", "read": "^none$"}
                client.put(right, json=rights).raise_for_status()
                await until(lambda: len(sink.reported) > 2, "it is refused again")
                client.delete(right).raise_for_status()
            await until(lambda: sink.reported[-1] == "connected", "it listens again")
            refused = sink.reported[1:-1]
            assert all("ACCESS_REFUSED" in one for one in refused), refused
            await make_queue(unbound, "received")
            await until(lambda: "received" in names_in(sink), "an event")


@pytest.mark.usefixtures("often")
async def test_a_time_to_live_drops_nothing_from_a_queue_of_which_events_are_taken_at_once(
    unbound: PrivateBroker,
) -> None:
    with policy_on_all(unbound, {"message-ttl": 60_000}):
        async with consuming(unbound) as sink:
            await until(lambda: sink.received_until, "a proof")
            assert sink.reported == ["connected"]


@pytest.mark.usefixtures("often")
async def test_a_pattern_that_takes_a_regular_expression_for_ever_stops_nothing(
    unbound: PrivateBroker,
) -> None:
    pattern = r"^([a-z0-9-]+[.]?)+_dlq$"
    async with consuming(unbound, keys=[*KEYS, "policy.set", "policy.cleared"]) as sink:
        await until(lambda: "connected" in sink.reported, "it listens")
        with policy_on_all(unbound, {"max-length": 10}, pattern=pattern):
            began = time.time_ns()
            await until(lambda: "policy.set" in {key for key, _ in sink.events}, "the event")
            await until(lambda: sink.received_until > began, "a proof")


@contextmanager
def policy_on_all(
    broker: PrivateBroker, definition: dict[str, int], kind: str = "policies", pattern: str = ".*"
) -> Iterator[None]:
    """Set a policy for all queues of the default virtual host while the context lasts."""
    with broker.http() as client:
        body = {"pattern": pattern, "apply-to": "queues", "definition": definition}
        client.put(f"{kind}/%2F/cap", json=body).raise_for_status()
        try:
            yield
        finally:
            client.delete(f"{kind}/%2F/cap")  # the test may have done so


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


async def test_a_short_time_to_live_is_never_taken_for_a_plugin_that_publishes_nothing(
    unbound: PrivateBroker,
) -> None:
    with policy_on_all(unbound, {"message-ttl": 1}):
        async with consuming(unbound) as sink:
            await until(lambda: sink.reported, "a reason, or that a look was fast enough")
            assert sink.reported[0] == "connected" or "the policy 'cap' (message-ttl: 1)" in sink.reported[0]


@pytest.mark.parametrize("change", ["none", "cleared", "replaced", "overruled"])
async def test_what_a_policy_dropped_from_a_durable_queue_is_no_covered_absence(
    unbound: PrivateBroker, change: str
) -> None:
    name = f"amqp-gateway.events.test-{secrets.token_hex(4)}"
    subscription = DurableSubscription(name, 10_000, 60 * SECOND, MemoryLedger())
    keys = [*KEYS, "policy.set", "policy.cleared"]
    try:
        async with consuming(unbound, subscription, keys) as first:
            await until(lambda: "caught up" in first.reported, "it listens")
        with policy_on_all(unbound, {"max-length": 10}):
            await burst(unbound, 50)
            with unbound.http() as client:
                if change in REPLACING:
                    harmless = {"pattern": ".*", "definition": {"max-length": 100_000}, "priority": 9}
                    client.put(f"policies/%2F/{REPLACING[change]}", json=harmless).raise_for_status()
                    await until(
                        lambda: (
                            client.get(f"queues/%2F/{name}").json().get("effective_policy_definition")
                            == harmless["definition"]
                        ),
                        "the statistics have the new policy",
                    )
                elif change == "cleared":
                    client.delete("policies/%2F/cap").raise_for_status()
            async with consuming(unbound, subscription, keys) as second:
                await until(lambda: "caught up" in second.reported, "it listens again")
        # The statistics that show policies may still have the one of before.
        event = {"none": "", "cleared": "policy.cleared of 'cap'"}.get(
            change, f"policy.set of '{REPLACING.get(change)}'"
        )
        texts = ["the policy 'cap' (max-length: 10)", *([event] if event else [])]
        assert any(text in line for line in second.reported for text in texts), second.reported
    finally:
        with unbound.http() as client:
            client.delete("policies/%2F/over")
            client.delete(f"queues/%2F/{name}").raise_for_status()


REPLACING = {"replaced": "cap", "overruled": "over"}
"""The policy that is set in place of, or above, the one that dropped events."""
