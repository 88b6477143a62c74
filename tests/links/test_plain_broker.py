"""A link at a broker that has only AMQP 0-9-1, as OpenAMQ: one channel, no extensions."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from pydantic import SecretStr

from gateway.dialects.session import Binding, Delivery, Send
from gateway.links import own_queue, publishing
from gateway.links.amqp import AmqpRole
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.durable_queue import DurableSubscription
from tests.components.amqp_peer import FRAME_MAX, AmqpPeer, Backwards, silence
from tests.components.waiting import eventually
from tests.links.conftest import PASSWORD
from tests.links.ledger import MemoryLedger
from tests.links.recording import linked

CONSOLE = AmqpRole("cml", lambda queue: [Binding("amq.direct", queue), Binding("amq.notify", "#")])


def endpoint_of(peer: AmqpPeer) -> AmqpEndpoint:
    """Return an endpoint with the heartbeat that such a broker offers."""
    return AmqpEndpoint(f"amqp://127.0.0.1:{peer.port}", "/", "super", SecretStr(PASSWORD), heartbeat=2)


def request(reply_to: str, body: bytes, number: int = 1) -> Send:
    """Return a request of a console to an OpenAMQ."""
    return Send(
        "amq.system",
        "amq.console",
        body,
        reply_to,
        "text/xml",
        message_id=str(number),
        mandatory=True,
    )


async def test_a_request_is_answered_by_message_id() -> None:
    async with AmqpPeer() as peer, linked(endpoint_of(peer), CONSOLE) as link:
        queue = await link.up()
        link.send(request(queue, b"<cml/>", 7))
        (reply,) = await link.received(1)

    assert reply == Delivery("amq.direct", queue, b"<cml/>", content_type="text/xml", message_id="7")
    (asked,) = peer.requests
    assert asked.mandatory
    assert asked.properties.content_type == "text/xml"
    assert asked.properties.message_id == "7"
    assert asked.properties.reply_to == queue
    assert peer.tuned == [2, 2], "one connection to consume and one to publish"
    assert not peer.complaints


async def test_bodies_of_many_frames_pass_both_ways() -> None:
    body = bytes(range(256)) * 1024
    assert len(body) > 4 * FRAME_MAX
    async with AmqpPeer() as peer, linked(endpoint_of(peer), CONSOLE) as link:
        link.send(request(await link.up(), body))
        (reply,) = await link.received(1)

    assert reply.body == body


async def test_answers_in_any_order_are_distinguished() -> None:
    async with AmqpPeer(script=Backwards(3)) as peer, linked(endpoint_of(peer), CONSOLE) as link:
        queue = await link.up()
        link.send(*(request(queue, f"object {number}".encode(), number) for number in (1, 2, 3)))
        replies = await link.received(3)

    assert [(reply.message_id, reply.body) for reply in replies] == [
        ("3", b"object 3"),
        ("2", b"object 2"),
        ("1", b"object 1"),
    ]


async def test_notifications_arrive_by_topic() -> None:
    async with AmqpPeer() as peer, linked(endpoint_of(peer), CONSOLE) as link:
        await link.up()
        assert peer.publish("amq.notify", "broker.alarm", b"<cml/>")
        (delivery,) = await link.received(1)

    assert (delivery.exchange, delivery.routing_key) == ("amq.notify", "broker.alarm")


async def test_a_request_that_leads_nowhere_comes_back_to_its_session() -> None:
    async with AmqpPeer() as peer, linked(endpoint_of(peer), CONSOLE) as link:
        queue = await link.up()
        link.send(replace(request(queue, b"misled"), routing_key="AMQ.CONSOLE"), request(queue, b"right", 2))
        await link.received(1)

        async def came_back() -> bool:
            return bool(link.session.unsent)

        await eventually(came_back, "the session was told of the returned message")

    assert link.session.unsent == [(b"misled", "no queue is bound there (no route is defined)")]
    assert link.driver.notes == {"not-sent": 1}


async def test_a_broker_that_insists_on_heartbeats_gets_them() -> None:
    """The broker is less patient than the link: without heartbeats it would end the connection first."""
    async with AmqpPeer(silent_seconds=3.0) as peer, linked(endpoint_of(peer), CONSOLE) as link:
        await link.up()

        async def beating() -> bool:
            assert not link.session.down
            return peer.heartbeats >= 6

        await eventually(beating, "six heartbeats on two connections")

    assert not peer.complaints


async def test_after_a_cut_everything_is_declared_again() -> None:
    async with AmqpPeer() as peer, linked(endpoint_of(peer), CONSOLE) as link:
        before = await link.up()
        peer.cut()
        await link.down()
        after = await link.up(2)
        link.send(request(after, b"again"))
        (reply,) = await link.received(1)

    assert before != after
    assert reply.routing_key == after
    assert set(peer.routing.queues) <= {after}, "the former queue went with its connection"


async def test_exchanges_are_not_looked_at_which_such_a_broker_takes_for_declarations() -> None:
    async with AmqpPeer() as peer, linked(endpoint_of(peer), CONSOLE) as link:
        queue = peer.routing.queues[await link.up()]

        async def looked_at() -> bool:
            return queue.looks > 2

        await eventually(looked_at, "the queue is looked at")
        assert not peer.complaints


async def test_a_queue_without_a_limit_is_given_up_when_it_grows() -> None:
    role = replace(CONSOLE, max_queue_length=100)
    async with AmqpPeer() as peer, linked(endpoint_of(peer), role) as link:
        peer.routing.queues[await link.up()].said_to_wait = 101
        said = await link.down()
        await link.up(2)

    assert "more than 100 messages wait" in said
    assert not link.session.resyncs, "a new connection reads everything again"


async def test_a_queue_that_was_long_for_a_while_may_have_lost_events() -> None:
    role = replace(CONSOLE, max_queue_length=100)
    async with AmqpPeer() as peer, linked(endpoint_of(peer), role) as link:
        queue = peer.routing.queues[await link.up()]
        queue.said_to_wait = 60
        looks = queue.looks

        async def looked() -> bool:
            return queue.looks > looks + 1

        await eventually(looked, "the link saw the long queue")
        queue.said_to_wait = 0

        async def doubted() -> bool:
            return bool(link.session.resyncs)

        await eventually(doubted, "the session was told of the doubt")
        assert not link.session.down


async def test_an_answer_that_waits_behind_a_flood_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a broker has no prefetch: everything that it has sent comes before its answer."""
    patience = 0.5
    monkeypatch.setattr(own_queue, "CONNECT_SECONDS", patience)
    async with AmqpPeer() as peer, linked(endpoint_of(peer), CONSOLE) as link:
        queue = peer.routing.queues[await link.up()]
        looks = queue.looks
        peer.hold_looks()
        end = time.monotonic() + 4 * patience
        while time.monotonic() < end:
            peer.publish("amq.notify", "broker.alarm", b"<cml/>")
            await link.received(len(link.session.deliveries) + 1)
        peer.answer_looks()

        async def looked() -> bool:
            return queue.looks > looks + 1

        await eventually(looked, "the queue is looked at again")
        assert not link.session.down
        peer.hold_looks()
        assert "no answer within" in await link.down()


async def test_a_broker_that_never_answers_holds_nothing_up() -> None:
    async with AmqpPeer(script=silence) as peer, linked(endpoint_of(peer), CONSOLE) as link:
        queue = await link.up()
        link.send(*(request(queue, b"?", number) for number in range(2_000)))

        async def all_asked() -> bool:
            return len(peer.requests) == 2_000

        await eventually(all_asked, "2,000 requests at the broker")
        assert not link.session.down
        assert not link.session.unsent


async def test_a_broker_that_reads_no_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "STALL_SECONDS", 0.5)
    body = bytes(1 << 20)
    async with AmqpPeer(script=silence) as peer, linked(endpoint_of(peer), CONSOLE) as link:
        queue = await link.up()
        peer.block()
        link.send(*(request(queue, body, number) for number in range(50)))
        assert "the broker has read no message" in await link.down()
        peer.unblock()
        await link.up(2)

    assert link.session.unsent, "the session knows what was not sent"


async def test_a_durable_subscription_is_refused() -> None:
    """The queue would have no limit of its length, and never expire."""
    subscription = DurableSubscription("amqp-gateway.console.test", 5000, 3600 * 10**9, MemoryLedger())
    role = replace(CONSOLE, durable=subscription)
    async with AmqpPeer() as peer, linked(endpoint_of(peer), role) as link:
        said = await link.down()
        assert not peer.routing.queues

    assert "remove 'durable'" in said
