"""A durable subscription at a real RabbitMQ: the messages that wait, and the reports after a return."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import NoReturn, cast

import aio_pika
import httpx
import pytest
from aio_pika.abc import AbstractChannel
from aiormq.abc import FieldTable
from structlog.testing import capture_logs

from gateway.dialects.session import Binding, Delivery, Effect, Send
from gateway.links import amqp, inquiry
from gateway.links.amqp import AmqpRole
from gateway.links.amqp_connection import AbortableConnection, AmqpEndpoint, LinkError, open_connection
from gateway.links.durable_queue import (
    KEPT_PREFETCH,
    DurableQueue,
    DurableQueueCounts,
    DurableSubscription,
    Loss,
    Refusal,
    durable_queue,
)
from gateway.model.times import SECOND
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import DEADLINE, eventually, wait_until
from tests.links.ledger import MemoryLedger
from tests.links.recording import Linked, RecordingSession, endpoint_of, linked, role

QUEUE = "amqp-gateway.console.test"


class ResumingSession(RecordingSession):
    """A session that also records its backlogs, and the number of deliveries before it was connected."""

    def __init__(self) -> None:
        super().__init__()
        self.resumed: list[tuple[str, int]] = []
        self.received_before: list[int] = []

    def backlog_follows(self, missed: str, waiting: int, now: int) -> list[Effect]:
        assert now > 0
        self.resumed.append((missed, waiting))
        return []

    def connected(self, reply_to: str, now: int) -> list[Effect]:
        self.received_before.append(len(self.deliveries))
        return super().connected(reply_to, now)

    @property
    def bodies(self) -> list[str]:
        return [delivery.body.decode() for delivery in self.deliveries]


def keeping(
    ledger: MemoryLedger,
    *,
    max_length: int = 5000,
    expires: int = 60 * SECOND,
    counts: DurableQueueCounts | None = None,
) -> AmqpRole:
    subscription = DurableSubscription(QUEUE, max_length, expires, ledger, counts or DurableQueueCounts())
    return replace(role("amq.topic"), durable=subscription)


@asynccontextmanager
async def subscribed(
    vhost: VirtualHost,
    ledger: MemoryLedger,
    *,
    max_length: int = 5000,
    expires: int = 60 * SECOND,
    counts: DurableQueueCounts | None = None,
) -> AsyncIterator[tuple[ResumingSession, Linked]]:
    """Provide a link with a durable subscription that is up."""
    session = ResumingSession()
    of = keeping(ledger, max_length=max_length, expires=expires, counts=counts)
    async with linked(endpoint_of(vhost.broker, vhost.name), of, session) as link:
        await link.up()
        yield session, link


async def say(vhost: VirtualHost, *bodies: str) -> None:
    """Publish messages, and wait until the broker has confirmed them."""
    async with await aio_pika.connect(vhost.amqp_url()) as connection:
        channel = await connection.channel(publisher_confirms=True)
        exchange = await channel.get_exchange("amq.topic")
        for body in bodies:
            await exchange.publish(aio_pika.Message(body.encode()), "said")


async def left(vhost: VirtualHost) -> int | None:
    """Return the number of messages in the queue; ``None`` if there is no queue."""
    async with await aio_pika.connect(vhost.amqp_url()) as connection:
        queue = durable_queue(DurableSubscription(QUEUE, 1000, SECOND, MemoryLedger()))
        return await queue.waiting(await connection.channel())


async def released(vhost: VirtualHost) -> None:
    """Wait until a former consumer's messages are in the queue again."""

    async def consumerless() -> bool:
        async with await aio_pika.connect(vhost.amqp_url()) as connection:
            channel = await connection.channel()
            declared = await channel.declare_queue(QUEUE, passive=True)
            return declared.declaration_result.consumer_count == 0

    await eventually(consumerless, "the queue has no consumer any more")


async def test_a_new_queue_says_that_what_was_before_is_missed(virtual_host: VirtualHost) -> None:
    async with subscribed(virtual_host, MemoryLedger()) as (session, link):
        assert link.session.up == [QUEUE]
        ((missed, waiting),) = session.resumed
        assert "did not exist: it is new, or has expired" in missed
        assert waiting == 0


async def test_what_was_sent_meanwhile_is_taken_before_the_session_is_connected(
    virtual_host: VirtualHost,
) -> None:
    ledger = MemoryLedger()
    async with subscribed(virtual_host, ledger):
        pass
    await released(virtual_host)
    said = [f"meanwhile {number}" for number in range(KEPT_PREFETCH + 500)]
    await say(virtual_host, *said)

    async with subscribed(virtual_host, ledger) as (session, link):
        assert session.resumed == [("", len(said))]
        assert session.received_before == [len(said)]
        await say(virtual_host, "now")
        await link.received(len(said) + 1)
        assert session.bodies == [*said, "now"]

    await released(virtual_host)
    assert await left(virtual_host) == 0


async def test_what_is_not_lasting_comes_again_and_is_reported_once(virtual_host: VirtualHost) -> None:
    """The end of a connection has the effect of the process's end: its messages belong to the next one."""
    ledger, counts = MemoryLedger(prompt=False), DurableQueueCounts()
    async with subscribed(virtual_host, ledger, counts=counts) as (_, link):
        await say(virtual_host, "lasting")
        await link.received(1)
        ledger.sync()
        await say(virtual_host, "told", "told and noted")
        await link.received(3)
        assert counts.taken == 3
        assert counts.unacknowledged == counts.taken - counts.acknowledged
    assert (counts.unacknowledged, counts.waiting) == (0, None), "they are the broker's again"
    taken = counts.taken
    await released(virtual_host)
    assert await left(virtual_host) in {2, 3}  # the first was acknowledged, unless the end came before
    ledger.reported.pop(1)  # the process was killed before this one was noted

    async with subscribed(virtual_host, ledger, counts=counts) as (session, link):
        await say(virtual_host, "new")
        await link.received(2)
        assert session.bodies == ["told", "new"]
        ledger.sync()

        async def all_acknowledged() -> bool:
            return counts.unacknowledged == 0

        async def empty() -> bool:
            return await left(virtual_host) == 0

        await eventually(empty, "everything is acknowledged")
        await eventually(all_acknowledged, "and counted")
        assert counts.taken == taken + counts.redelivered + 1
        assert counts.redelivered == counts.repeated + 1
        assert (counts.declared, dict(counts.losses)) == (1, {Loss.MISSING: 1})


async def test_a_disk_that_stands_still_leaves_the_rest_in_the_queue(virtual_host: VirtualHost) -> None:
    ledger = MemoryLedger(prompt=False)
    async with subscribed(virtual_host, ledger) as (session, link):
        await say(virtual_host, *["waiting"] * (KEPT_PREFETCH + 50))
        await link.received(KEPT_PREFETCH)
        assert await left(virtual_host) == 50
        assert len(session.deliveries) == KEPT_PREFETCH
        ledger.sync()
        await link.received(KEPT_PREFETCH + 50)


async def test_a_queue_that_was_full_is_reported(virtual_host: VirtualHost) -> None:
    ledger, counts = MemoryLedger(), DurableQueueCounts()
    async with subscribed(virtual_host, ledger, max_length=20):
        pass
    await released(virtual_host)
    await say(virtual_host, *map(str, range(30)))

    async with subscribed(virtual_host, ledger, max_length=20, counts=counts) as (session, link):
        await link.received(20)
        assert session.bodies == [str(number) for number in range(10, 30)]
        ((missed, waiting),) = session.resumed
        assert missed == f"the queue {QUEUE} was full with 20 messages: it dropped the oldest"
        assert waiting == 20
        assert (counts.declared, dict(counts.losses)) == (0, {Loss.FULL: 1})


async def test_a_queue_that_expired_is_reported(virtual_host: VirtualHost) -> None:
    ledger = MemoryLedger()
    async with subscribed(virtual_host, ledger, expires=SECOND // 10):
        pass

    def expired() -> bool:
        """Return whether the queue has expired, by HTTP: requests by AMQP would renew its lease."""
        with virtual_host.http() as client:
            return client.get(f"queues/{virtual_host.path}/{QUEUE}").status_code == httpx.codes.NOT_FOUND

    await asyncio.to_thread(wait_until, expired, "the queue has expired")
    async with subscribed(virtual_host, ledger) as (session, _):
        ((missed, _),) = session.resumed
        assert "did not exist: it is new, or has expired" in missed


async def test_a_second_gateway_is_refused(virtual_host: VirtualHost) -> None:
    session, counts = ResumingSession(), DurableQueueCounts()
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    async with subscribed(virtual_host, MemoryLedger()) as (first, link):
        async with linked(endpoint, keeping(MemoryLedger(), counts=counts), session) as second:
            said = await second.down()
        await say(virtual_host, "to the first")
        await link.received(1)

    assert said == (
        f"{endpoint}: the queue {QUEUE} has another consumer: two gateways cannot share a durable"
        " subscription; stop the other one, or name another queue under 'durable'"
    )
    assert (session.resumed, session.up, session.deliveries) == ([], [], [])
    assert counts.refusals[Refusal.IN_USE] >= 1
    assert (counts.taken, counts.waiting) == (0, None)
    assert first.down == []


async def test_a_queue_that_was_declared_otherwise_is_reported(virtual_host: VirtualHost) -> None:
    session, counts = ResumingSession(), DurableQueueCounts()
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    async with subscribed(virtual_host, MemoryLedger(), max_length=20):
        pass
    otherwise = keeping(MemoryLedger(), max_length=21, counts=counts)
    async with linked(endpoint, otherwise, session) as link:
        said = await link.down()
    assert counts.refusals[Refusal.DECLARED_OTHERWISE] >= 1
    assert "inequivalent arg 'x-max-length'" in said
    assert "remove what is there, or name another" in said


async def test_its_queue_is_durable_limited_and_expires(virtual_host: VirtualHost) -> None:
    async with subscribed(virtual_host, MemoryLedger(), max_length=123, expires=2 * SECOND):
        with virtual_host.http() as http:
            queue = http.get(f"queues/{virtual_host.path}/{QUEUE}").raise_for_status().json()

    assert (queue["exclusive"], queue["auto_delete"], queue["durable"]) == (False, False, True)
    assert queue["arguments"] == {
        "x-queue-type": "classic",
        "x-expires": 2000,
        "x-max-length": 123,
        "x-overflow": "drop-head",
    }


async def declared_before(virtual_host: VirtualHost, **more: str) -> None:
    """Declare the queue as an earlier version of the gateway did, bound and with a message in it."""
    arguments: FieldTable = {"x-expires": 60_000, "x-max-length": 5000, "x-overflow": "drop-head", **more}
    async with await aio_pika.connect(virtual_host.amqp_url()) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(QUEUE, durable=True, arguments=arguments)
        await queue.bind("amq.topic", "#")
    await say(virtual_host, "from before")


async def test_a_classic_queue_that_names_no_type_is_used_as_it_is(virtual_host: VirtualHost) -> None:
    """An earlier version of the gateway declared it; RabbitMQ takes an absent type for classic."""
    await declared_before(virtual_host)
    counts = DurableQueueCounts()
    async with subscribed(virtual_host, MemoryLedger(), counts=counts) as (session, link):
        await link.received(1)
        assert session.bodies == ["from before"]
        assert session.resumed == [("", 1)]
    assert not counts.is_quorum
    assert counts.refusals == {}


async def test_a_quorum_queue_is_used_and_remarked_on(virtual_host: VirtualHost) -> None:
    """An earlier version of the gateway made it on RabbitMQ 4 in a virtual host of quorum queues."""
    await declared_before(virtual_host, **{"x-queue-type": "quorum"})
    counts = DurableQueueCounts()
    for _connection in range(2):
        async with subscribed(virtual_host, MemoryLedger(), counts=counts) as (session, link):
            await link.received(1)
            assert session.bodies == ["from before"]
            session.deliveries.clear()
            await say(virtual_host, "from before")
            await link.received(1)
        await released(virtual_host)
        await say(virtual_host, "from before")
    assert counts.is_quorum
    assert counts.refusals == {}
    assert "is a quorum queue" in DurableSubscription(QUEUE, 5000, 60 * SECOND, MemoryLedger(), counts).remark


async def test_probes_of_a_former_connection_change_nothing(virtual_host: VirtualHost) -> None:
    session, ledger = ResumingSession(), MemoryLedger()
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    probing = replace(keeping(ledger), probed="amq.topic")
    async with linked(endpoint, probing, session) as link:
        await link.up()
    await released(virtual_host)
    async with await aio_pika.connect(virtual_host.amqp_url()) as connection:
        channel = await connection.channel(publisher_confirms=True)
        exchange = await channel.get_exchange("amq.topic")
        await exchange.publish(aio_pika.Message(b"", message_id="former"), QUEUE)
    await say(virtual_host, "meanwhile")

    async with linked(endpoint, probing, session) as link:
        await link.up(2)
        assert session.bodies == ["meanwhile"]


async def test_a_queue_that_cannot_be_bound_is_missed_once_and_again_when_it_is_made(
    virtual_host: VirtualHost,
) -> None:
    session = ResumingSession()
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    subscription = DurableSubscription(QUEUE, 1000, 60 * SECOND, MemoryLedger())
    async with linked(endpoint, replace(role("qpid.management"), durable=subscription), session) as link:
        await link.down(3)
        assert await left(virtual_host) is None
        assert len(session.resumed) == 1
        await declare_exchange(virtual_host)
        await link.up()
    assert ["did not exist" in missed for missed, _ in session.resumed] == [True, True]


async def test_a_queue_that_is_not_bound_any_more_is_reported(virtual_host: VirtualHost) -> None:
    session = ResumingSession()
    endpoint = endpoint_of(virtual_host.broker, virtual_host.name)
    subscription = DurableSubscription(QUEUE, 1000, 60 * SECOND, MemoryLedger())
    subscribing = replace(role("qpid.management"), durable=subscription, probed="qpid.management")
    await declare_exchange(virtual_host)
    async with linked(endpoint, subscribing, session) as link:
        await link.up()
    await released(virtual_host)
    async with linked(endpoint, subscribing, session) as link:
        await link.up(2)
    await released(virtual_host)
    async with await aio_pika.connect(virtual_host.amqp_url()) as connection:
        await (await connection.channel()).exchange_delete("qpid.management")
    await declare_exchange(virtual_host)
    async with linked(endpoint, subscribing, session) as link:
        await link.up(3)
    (_, bound, unbound) = session.resumed
    assert bound[0] == ""
    assert unbound[0] == f"the queue {QUEUE} was not bound any more: its exchange was declared again"


async def declare_exchange(vhost: VirtualHost) -> None:
    """Declare the management exchange."""
    async with await aio_pika.connect(vhost.amqp_url()) as connection:
        channel = await connection.channel()
        await channel.declare_exchange("qpid.management", aio_pika.ExchangeType.TOPIC, durable=True)


class WithoutNode:
    """A channel of a cluster that refuses a queue because its node is down."""

    def __init__(self, refusal: str) -> None:
        self._refusal = refusal

    async def declare_queue(self, name: str, *, passive: bool) -> NoReturn:
        assert passive
        raise aio_pika.exceptions.ChannelNotFoundEntity(self._refusal % name)


@pytest.mark.parametrize(
    "refusal",
    [
        "NOT_FOUND - home node 'rabbit@b' of durable queue '%s' in vhost '/' is down or inaccessible",  # 3.10
        "NOT_FOUND - failed to perform operation on queue '%s' in vhost '/' due to timeout",  # 4.0
    ],
)
async def test_a_queue_whose_node_is_down_is_waited_for_and_lacks_messages_when_it_is_back(
    refusal: str,
) -> None:
    """``tests/cluster`` has it on a cluster of 3.10, in a proof."""
    queue = DurableQueue(1000, 900, name=QUEUE, expires=0)
    assert queue.loss(0) is None
    with pytest.raises(LinkError, match="waits for the node that has its queue"):
        await queue.waiting(cast(AbstractChannel, WithoutNode(refusal)))
    assert queue.loss(0) is Loss.DOWN


class Asking:
    """An inquiry that is answered by ``first``, and settled by a later answer.

    Attributes:
        answers: the answers so far.
        ended: the bodies that the session had received when it ended, each time.
    """

    def __init__(self, session: ResumingSession, *, answered: bool, settled_by: str = "first") -> None:
        self.answers: list[str] = []
        self.ended: list[list[str]] = []
        self._session = session
        self._settled_by = settled_by
        self._exchange = "amq.direct" if answered else "amq.fanout"

    @property
    def is_answered(self) -> bool:
        return "first" in self.answers

    @property
    def is_settled(self) -> bool:
        return self._settled_by in self.answers

    def bindings(self, queue: str) -> list[Binding]:
        return [Binding("amq.direct", queue)]

    def requests(self, reply_to: str) -> list[Send]:
        # What is asked is the answer: it comes to the queue of its own.
        return [Send(self._exchange, reply_to, b"zeroth")]

    def take(self, delivery: Delivery) -> list[Send]:
        self.answers.append(delivery.body.decode())
        following = {"zeroth": b"first", "first": b"second"}.get(self.answers[-1])
        return [] if following is None else [Send(self._exchange, delivery.routing_key, following)]

    def end(self) -> None:
        self.ended.append(self._session.bodies)


@pytest.mark.parametrize("answered", [True, False])
async def test_who_is_read_is_asked_before_what_waited_is_read(
    virtual_host: VirtualHost, monkeypatch: pytest.MonkeyPatch, *, answered: bool
) -> None:
    monkeypatch.setattr(inquiry, "PATIENCE_SECONDS", DEADLINE if answered else 0.1)
    ledger, session = MemoryLedger(), ResumingSession()
    async with subscribed(virtual_host, ledger):
        pass
    await released(virtual_host)
    await say(virtual_host, "waited")
    asking = Asking(session, answered=answered)
    of = replace(keeping(ledger), inquiry=lambda: asking)
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), of, session) as link:
        await link.up()
        assert asking.answers == (["zeroth", "first"] if answered else [])
        assert (asking.ended, session.bodies) == ([[]], ["waited"])
        await say(virtual_host, "now")
        await link.received(2)
        with virtual_host.http() as http:
            queues = http.get(f"queues/{virtual_host.path}").raise_for_status().json()
    assert [one["name"] for one in queues] == [QUEUE], "that for answers is gone"


@pytest.mark.parametrize("settled_by", ["second", "none"])
async def test_an_answer_that_another_one_can_refute_waits_for_it(
    virtual_host: VirtualHost, monkeypatch: pytest.MonkeyPatch, settled_by: str
) -> None:
    monkeypatch.setattr(inquiry, "PATIENCE_SECONDS", DEADLINE)
    session = ResumingSession()
    asking = Asking(session, answered=True, settled_by=settled_by)
    of = replace(keeping(MemoryLedger()), inquiry=lambda: asking)
    async with linked(endpoint_of(virtual_host.broker, virtual_host.name), of, session) as link:
        await link.up()
    assert asking.answers == ["zeroth", "first", "second"]
    assert len(asking.ended) == 1


async def test_a_user_who_may_have_no_queue_for_answers_reads_what_waited(virtual_host: VirtualHost) -> None:
    session, asking = ResumingSession(), Asking(ResumingSession(), answered=True)
    async with subscribed(virtual_host, MemoryLedger()):
        pass
    await released(virtual_host)
    await say(virtual_host, "waited")
    name = f"user-{virtual_host.name}"
    with virtual_host.http() as http:
        http.put(f"users/{name}", json={"password": name, "tags": ""}).raise_for_status()
        only_that = {"configure": f"^{re.escape(QUEUE)}$", "write": ".*", "read": ".*"}
        http.put(f"permissions/{virtual_host.path}/{name}", json=only_that).raise_for_status()
        of = replace(keeping(MemoryLedger()), inquiry=lambda: asking)
        endpoint = endpoint_of(virtual_host.broker, virtual_host.name, name, name)
        async with linked(endpoint, of, session) as link:
            await link.up()
            assert (asking.answers, session.bodies) == ([], ["waited"])
        http.delete(f"users/{name}").raise_for_status()


async def test_a_connection_that_ends_while_it_is_asked_who_is_read_is_the_brokers_end(
    virtual_host: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waited is read after the next inquiry, and not before."""
    monkeypatch.setattr(inquiry, "PATIENCE_SECONDS", 10 * DEADLINE)
    ledger, session = MemoryLedger(), ResumingSession()
    async with subscribed(virtual_host, ledger):
        pass
    await released(virtual_host)
    await say(virtual_host, "waited")
    opened: list[AbortableConnection] = []
    inquiries = [Asking(session, answered=answered) for answered in (False, True)]

    async def connect(endpoint: AmqpEndpoint, name: str) -> AbortableConnection:
        connection = await open_connection(endpoint, name)
        assert isinstance(connection, AbortableConnection)
        opened.append(connection)
        return connection

    monkeypatch.setattr(amqp, "open_connection", connect)
    asked = iter(inquiries)
    of = replace(keeping(ledger), inquiry=lambda: next(asked))
    with capture_logs() as logs:
        async with linked(endpoint_of(virtual_host.broker, virtual_host.name), of, session) as link:
            await eventually(partial(answers_are_awaited, virtual_host), "it asks")
            opened[0].abort()
            assert "ended" in await link.down()
            await link.up()
    assert (inquiries[0].ended, inquiries[1].ended, session.bodies) == ([], [[]], ["waited"])
    assert not {"broker-not-asked", "link-failed"} & {one["event"] for one in logs}


async def answers_are_awaited(virtual_host: VirtualHost) -> bool:
    with virtual_host.http() as http:
        queues = http.get(f"queues/{virtual_host.path}").raise_for_status().json()
    return any(one.get("exclusive") and one.get("consumers") for one in queues)
