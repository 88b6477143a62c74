"""Purges over AMQP at real brokers: the number of purged messages, and the answer when none was purged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final
from urllib.parse import quote

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from pydantic import SecretStr

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.sources.rabbitmq.http_reader import ManagementEndpoint
from gateway.sources.rabbitmq.http_writer import AmqpPurger, HttpWriter
from gateway.sources.rabbitmq.management_api import NotFound, Refused
from gateway.sources.rabbitmq.management_changes import (
    Changed,
    NotSent,
    Purge,
    Purged,
    Rejected,
    Unanswered,
)
from gateway.sources.rabbitmq.provisioning import ProvisionedUser, provision
from gateway.sources.rabbitmq.rights import UserRights, watching, writer_rights
from tests.components.rabbitmq import VirtualHost
from tests.links.wire import Wire

PURGE: Final = b"\x00\x32\x00\x1e"
"""Class 50, method 30 of AMQP 0-9-1."""

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)


def endpoint_of(broker: PrivateBroker, user: Credentials | None = None, *urls: str) -> AmqpEndpoint:
    who = user or broker.administrator
    first, *others = urls or (f"amqp://127.0.0.1:{broker.ports.amqp}",)
    return AmqpEndpoint(first, "/", who.name, SecretStr(who.password), others=tuple(others))


@asynccontextmanager
async def filled(host: VirtualHost, name: str, messages: int, kind: str) -> AsyncIterator[AbstractChannel]:
    """Provide a channel to a queue with messages, all of which are confirmed."""
    async with await aio_pika.connect(host.amqp_url()) as connection:
        channel = await connection.channel(publisher_confirms=True)
        await channel.declare_queue(name, durable=True, arguments={"x-queue-type": kind})
        for _ in range(messages):
            await channel.default_exchange.publish(aio_pika.Message(b"x"), name)
        yield channel


async def left(channel: AbstractChannel, name: str) -> int | None:
    return (await channel.declare_queue(name, passive=True)).declaration_result.message_count


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_the_broker_says_how_many_messages_went(virtual_host: VirtualHost, kind: str) -> None:
    purger = AmqpPurger(endpoint_of(virtual_host.broker))
    purge = Purge(virtual_host.name, "orders")
    async with filled(virtual_host, "orders", 53, kind) as channel:
        await channel.set_qos(prefetch_count=10)
        unacknowledged = await channel.get_queue("orders")
        taken = asyncio.Event()
        got: list[object] = []

        async def take(message: object) -> None:
            got.append(message)
            if len(got) == 10:
                taken.set()

        await unacknowledged.consume(take)
        await taken.wait()
        assert await purger.purge(purge) == Purged(43)
        assert await left(channel, "orders") == 0
        assert await purger.purge(purge) == Purged(0)


async def test_a_queue_of_another_broker_is_not_purged(virtual_host: VirtualHost) -> None:
    purger = AmqpPurger(endpoint_of(virtual_host.broker))
    with virtual_host.http() as client:
        name = client.get("cluster-name").json()["name"]
    async with filled(virtual_host, "orders", 3, "classic") as channel:
        elsewhere = Purge(virtual_host.name, "orders", frozenset({"stock", f"{name}x"}))
        answer = await purger.purge(elsewhere)
        assert isinstance(answer, NotSent)
        assert f"is another broker, cluster {name!r}" in answer.reason
        assert await left(channel, "orders") == 3
        assert await purger.purge(replace(elsewhere, clusters=frozenset({"old", name}))) == Purged(3)


async def test_what_the_broker_refuses_is_certain(virtual_host: VirtualHost) -> None:
    broker, host = virtual_host.broker, virtual_host.name
    purger = AmqpPurger(endpoint_of(broker))
    reader = Credentials.generate("purge-reader")
    rights = UserRights.of(("monitoring",), [watching(host)])
    with broker.http() as client:
        provision(client, (ProvisionedUser(reader.name, reader.password, rights),), vhost="")
        async with filled(virtual_host, "journal", 1, "stream") as channel:
            await channel.declare_queue("mine", exclusive=True)
            assert await purger.purge(Purge(host, "nothing")) == NotFound()
            stream, locked = [await purger.purge(Purge(host, name)) for name in ("journal", "mine")]
            refused = await AmqpPurger(endpoint_of(broker, reader)).purge(Purge(host, "journal"))
        client.delete(f"users/{reader.name}").raise_for_status()
    assert isinstance(stream, Rejected)
    assert "not supported by stream queues" in stream.reason
    assert isinstance(locked, Rejected)
    assert "RESOURCE_LOCKED" in locked.reason
    assert isinstance(refused, Refused)
    assert not refused.login


async def test_the_least_rights_of_a_writer_are_enough(virtual_host: VirtualHost) -> None:
    broker, writer = virtual_host.broker, Credentials.generate("purge-writer")
    with broker.http() as client:
        rights = writer_rights([virtual_host.name])
        provision(client, (ProvisionedUser(writer.name, writer.password, rights),), vhost="")
        async with filled(virtual_host, "orders", 2, "classic"):
            purged = await AmqpPurger(endpoint_of(broker, writer)).purge(Purge(virtual_host.name, "orders"))
        client.delete(f"users/{writer.name}").raise_for_status()
    assert purged == Purged(2)


async def test_another_node_is_asked_where_the_first_is_not_reached(virtual_host: VirtualHost) -> None:
    broker = virtual_host.broker
    endpoint = endpoint_of(broker, None, "amqp://127.0.0.1:1", f"amqp://127.0.0.1:{broker.ports.amqp}")
    async with filled(virtual_host, "orders", 2, "classic"):
        assert await AmqpPurger(endpoint).purge(Purge(virtual_host.name, "orders")) == Purged(2)


@pytest.mark.parametrize("amqp", ["", "amqp://127.0.0.1:1"])
async def test_where_amqp_is_not_reached_it_goes_by_http_once(virtual_host: VirtualHost, amqp: str) -> None:
    broker = virtual_host.broker
    who = broker.administrator
    management = ManagementEndpoint(broker.management_url, who.name, SecretStr(who.password))
    purger = AmqpPurger(endpoint_of(broker, None, amqp)) if amqp else None
    async with (
        HttpWriter(management, management, purger) as writer,
        filled(virtual_host, "orders", 2, "classic") as channel,
    ):
        assert await writer.make(Purge(virtual_host.name, "orders")) == Changed()
        assert await left(channel, "orders") == 0


@pytest.mark.parametrize("queue", ["q?", "für Aufträge", 'a|b\\c"{}', "x" * 255])
async def test_a_queue_of_any_name_is_purged(virtual_host: VirtualHost, queue: str) -> None:
    """The client library takes fewer names than the broker; the others go over HTTP."""
    broker, who = virtual_host.broker, virtual_host.broker.administrator
    management = ManagementEndpoint(broker.management_url, who.name, SecretStr(who.password))
    path = f"queues/{virtual_host.path}/{quote(queue, safe='')}"
    purger = AmqpPurger(endpoint_of(broker))
    with virtual_host.http() as http:
        http.put(path, json={"durable": True}).raise_for_status()
        message = {"properties": {}, "routing_key": queue, "payload": "x", "payload_encoding": "string"}
        sent = http.post(f"exchanges/{virtual_host.path}/amq.default/publish", json=message)
        assert sent.json() == {"routed": True}
        async with HttpWriter(management, management, purger) as writer:
            assert isinstance(await writer.make(Purge(virtual_host.name, queue)), Changed | Purged)
            # A name that AMQP does not take is no reason to try AMQP no more.
            assert await writer.make(Purge(virtual_host.name, "no")) == NotFound()
            assert await purger.purge(Purge(virtual_host.name, "no")) == NotFound()
        taken = http.post(
            f"{path}/get", json={"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
        )
        assert taken.json() == []


async def test_a_queue_of_another_virtual_host_is_not_purged(virtual_host: VirtualHost) -> None:
    """The libraries of AMQP take some names of virtual hosts for others."""
    broker = virtual_host.broker
    odd = f"x/../{virtual_host.name}"
    with virtual_host.http() as http:
        http.put(f"vhosts/{quote(odd, safe='')}", json={}).raise_for_status()
        grant = f"permissions/{quote(odd, safe='')}/{broker.administrator.name}"
        http.put(grant, json=dict.fromkeys(("configure", "write", "read"), ".*")).raise_for_status()
        http.put(f"queues/{quote(odd, safe='')}/orders", json={}).raise_for_status()
        try:
            async with filled(virtual_host, "orders", 2, "classic") as channel:
                purger = AmqpPurger(endpoint_of(broker))
                assert await purger.purge(Purge(odd, "orders")) == Purged(0)
                escaped = await purger.purge(Purge(virtual_host.path + "%2F", "orders"))
                assert isinstance(escaped, NotSent)
                assert await left(channel, "orders") == 2
        finally:
            http.delete(f"vhosts/{quote(odd, safe='')}").raise_for_status()


async def test_a_broker_that_ends_at_the_purge_leaves_its_outcome_unknown(virtual_host: VirtualHost) -> None:
    """The client library cancels those who wait for an answer on a connection that ends."""
    broker = virtual_host.broker
    async with filled(virtual_host, "orders", 2, "classic"), Wire(broker.ports.amqp) as wire:
        purger = AmqpPurger(endpoint_of(broker, None, f"amqp://127.0.0.1:{wire.port}"))
        wire.end_at(PURGE)
        answer = await purger.purge(Purge(virtual_host.name, "orders"))
        assert isinstance(answer, Unanswered)


async def test_wrong_credentials_send_nothing(virtual_host: VirtualHost) -> None:
    unanswered = Credentials("nobody", "wrong")
    answer = await AmqpPurger(endpoint_of(virtual_host.broker, unanswered)).purge(
        Purge(virtual_host.name, "orders")
    )
    assert isinstance(answer, NotSent)
    assert "user 'nobody' was refused" in answer.reason


async def test_a_purge_without_an_answer_may_have_been_carried_out(virtual_host: VirtualHost) -> None:
    purger = AmqpPurger(endpoint_of(virtual_host.broker), deadline=0)
    async with filled(virtual_host, "orders", 2, "classic"):
        answer = await purger.purge(Purge(virtual_host.name, "orders"))
    assert answer == Unanswered("no answer within 0 s")
