"""The source on each version of RabbitMQ: the versions' different answers, and no errors in their logs."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from aiormq.abc import FieldTable

from gateway.demo.broker import BrokerSettings, Credentials, PrivateBroker
from gateway.model.observations import SourceState
from gateway.model.operations import Outcome
from gateway.sources.rabbitmq.object_names import ByteName
from gateway.sources.rabbitmq.path_proof import NOT_SHOWN
from gateway.sources.rabbitmq.status import STATISTICS_OFF, WITHIN_BUDGET
from tests.components.rabbitmq import TEST_SETTINGS, VirtualHost, version_of
from tests.components.waiting import until
from tests.sources.rabbitmq.test_live_methods import watching, writer
from tests.sources.rabbitmq.test_versions import COUNTERS, NOT_MEASURED_SINCE_4_0
from tests.sources.rabbitmq.watching import Watch, complaints, node_name, ready, synchronised, watch

pytestmark = pytest.mark.each_rabbitmq

__all__ = ["writer"]


async def ignore(_message: AbstractIncomingMessage) -> None:
    """Ignore a message."""


async def known(watched: Watch, *class_names: str) -> None:
    """Wait until an object of each class is known."""
    for class_name in class_names:
        await until(partial(_any, watched, class_name), f"a {class_name} is known")


def _any(watched: Watch, class_name: str) -> bool:
    return any(True for _ in watched.source.known(class_name))


async def has(watched: Watch, queue: str, element: str, value: object) -> None:
    """Wait until an element of a queue has a value."""

    def holds() -> bool:
        return watched.exists("queue", queue) and watched.value("queue", queue, element) == value

    await until(holds, f"{element} of {queue} is {value}")


async def test_every_class_is_listed_and_the_log_of_the_broker_holds_no_crash(
    own_rabbitmq: PrivateBroker,
) -> None:
    broker = own_rabbitmq
    with broker.http() as client:
        client.put("policies/%2F/cap", json={"pattern": "^o", "definition": {"max-length": 9}})
        client.put("vhosts/shop%2Feast", json={}).raise_for_status()
    administrator = broker.administrator
    async with (
        watch(broker, administrator, writer=administrator) as watched,
        await aio_pika.connect(broker.amqp_url(), client_properties={"connection_name": "client"}) as client,
    ):
        await ready(watched)
        channel = await client.channel()
        queue = await channel.declare_queue("orders", durable=True)
        exchange = await channel.declare_exchange("sales")
        await queue.bind(exchange, "new")
        await queue.consume(ignore)
        await known(watched, "node", "vhost", "queue", "exchange", "connection", "channel", "consumer")
        await known(watched, "binding", "policy", "user")
        assert watched.value("vhost", "shop/east", "state") == "running"
        assert (await watched.fetch("vhost", "shop/east")).outcome is Outcome.APPLIED
        # Listings after the first one, too.
        await has(watched, "orders", "consumers", 1)
        await until(lambda: watched.value("vhost", "/", "receivedOctets"), "virtual hosts are measured")
        assert watched.status is not None
        parts = watched.status.detail.split("; ") if watched.status.detail else []
        assert [part for part in parts if not part.endswith(WITHIN_BUDGET)] == []
    assert complaints(broker) == []


async def test_what_a_version_does_not_measure_is_absent(virtual_host: VirtualHost) -> None:
    measures = version_of(virtual_host.broker) < (4, 0)
    async with watching(virtual_host, None) as watched:
        node = node_name(watched)
        await until(lambda: watched.value("node", node, "fileDescriptorsUsed"), "the node is measured")
        reported = {name: watched.value("node", node, name) for name in NOT_MEASURED_SINCE_4_0}
        if measures:
            assert None not in reported.values()
            assert reported["definitionDiskTransactions"]
        else:
            assert set(reported.values()) == {None}


async def test_counters_of_a_queue_without_traffic_are_zero_and_of_a_stream_absent(
    virtual_host: VirtualHost,
) -> None:
    with virtual_host.http() as client:
        for kind in ("classic", "quorum", "stream"):
            declared = {"durable": True, "arguments": {"x-queue-type": kind}}
            client.put(f"queues/{virtual_host.path}/{kind}", json=declared).raise_for_status()
    async with watching(virtual_host, None) as watched:
        for kind in ("classic", "quorum"):
            for name in COUNTERS:
                await has(watched, kind, name, 0)
        await has(watched, "stream", "messages", 0)
        assert {watched.value("queue", "stream", name) for name in COUNTERS} == {None}
        async with await aio_pika.connect(virtual_host.amqp_url()) as client:
            channel = await client.channel()
            for _ in range(3):
                await channel.default_exchange.publish(aio_pika.Message(b"x"), "classic")
            # The broker may forget the counts of a channel that is closed before they were collected.
            await has(watched, "classic", "messagesPublished", 3)
        assert watched.value("queue", "classic", "messagesDelivered") == 0


async def test_whose_a_queue_is_that_was_there_before_and_who_is_its_single_consumer(
    virtual_host: VirtualHost,
) -> None:
    async with await aio_pika.connect(virtual_host.amqp_url()) as client:
        channel = await client.channel()
        await channel.declare_queue("mine", exclusive=True)
        queues: dict[str, FieldTable] = {
            "single": {"x-single-active-consumer": True},
            "single quorum": {"x-single-active-consumer": True, "x-queue-type": "quorum"},
            "plain quorum": {"x-queue-type": "quorum"},
        }
        for name, arguments in queues.items():
            queue = await channel.declare_queue(name, durable=True, arguments=arguments)
            await queue.consume(ignore, consumer_tag=f"consumer of {name}")
        async with watching(virtual_host, None) as watched:
            await until(lambda: watched.value("queue", "mine", "exclusiveOwner"), "its owner is asked for")
            owner = watched.value("queue", "mine", "exclusiveOwner")
            await until(lambda: watched.exists("connection", str(owner)), "that is a connection")
            for name in ("single", "single quorum"):
                await has(watched, name, "singleActiveConsumerTag", f"consumer of {name}")
            await has(watched, "plain quorum", "consumers", 1)
            assert watched.value("queue", "plain quorum", "singleActiveConsumerTag") is None


async def test_a_policy_is_for_kinds_of_queues_and_a_permission_for_nothing(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    knows_kinds = version_of(virtual_host.broker) >= (4, 0)
    policy, user = f"policies/{virtual_host.path}/cap", f"nobody-{secrets.token_hex(4)}"
    with virtual_host.http() as http:
        http.put(policy, json={"pattern": "^o", "definition": {"max-length": 9}}).raise_for_status()
        async with watching(virtual_host, writer) as watched:
            await until(lambda: watched.exists("policy", "cap"), "the policy is known")
            for kind in ("classic_queues", "quorum_queues", "streams", "all"):
                answer = await watched.call("policy", "cap", "setAppliesTo", kind)
                held = http.get(policy).json()["apply-to"]
                assert (held == kind) is (knows_kinds or kind == "all"), answer
                assert watched.value("policy", "cap", "appliesTo") == held
            http.put(f"users/{user}", json={"password": "x", "tags": ""}).raise_for_status()
            nothing = {"configure": "", "write": "", "read": ""}
            http.put(f"permissions/{virtual_host.path}/{user}", json=nothing).raise_for_status()
            await until(lambda: watched.reported("permissionSet", user=user, **nothing), "it is told")
            http.delete(f"users/{user}").raise_for_status()


@pytest.mark.prove  # test_live_metrics.py reads a RabbitMQ 4.0 without them, too, and its metrics besides
async def test_a_broker_without_statistics_is_read_and_listened_to(
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker],
) -> None:
    settings = replace(TEST_SETTINGS, configuration=("management.disable_stats = true",))
    broker = await asyncio.to_thread(start_rabbitmq, settings)
    await is_read_without_statistics(broker)


@pytest.mark.prove
@pytest.mark.each_rabbitmq(since="4.0")
async def test_a_broker_that_permits_no_metrics_collection_is_read_and_listened_to(
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker],
) -> None:
    denied = "deprecated_features.permit.management_metrics_collection = false"
    broker = await asyncio.to_thread(start_rabbitmq, replace(TEST_SETTINGS, configuration=(denied,)))
    await is_read_without_statistics(broker)


async def is_read_without_statistics(broker: PrivateBroker) -> None:
    """Check that a source knows what there is, and what comes and goes, on a broker without statistics."""
    async with watch(broker, broker.administrator) as watched:
        await ready(watched, events=False)
        await until(
            lambda: watched.status and watched.status.detail == STATISTICS_OFF, "the source says what is off"
        )
        async with await aio_pika.connect(broker.amqp_url()) as client:
            channel = await client.channel()
            queue = await channel.declare_queue("orders", durable=True)
            await channel.default_exchange.publish(aio_pika.Message(b"x"), "orders")
            await has(watched, "orders", "messages", 1)
            await queue.consume(ignore)
            await known(watched, "connection", "channel", "consumer")
            (connection,) = [known.name.leaf for known in watched.source.known("connection")]
            # A listing of connections that showed nothing would have ended it by then.
            await channel.default_exchange.publish(aio_pika.Message(b"x"), "orders")
            await until(lambda: watched.value("vhost", "/", "state") == "running", "all is listed")
            assert watched.exists("connection", connection)
        await until(lambda: watched.gone("connection", connection), "its end is heard of")
        assert watched.value("queue", "orders", "messagesPublished") is None
        assert synchronised(watched)()
        assert watched.status is not None
        assert watched.status.state is SourceState.SYNCHRONISED
    # Of what a setting denies the broker complains at its start.
    assert [line for line in complaints(broker) if "crash" in line.lower()] == []


@pytest.mark.each_rabbitmq(until="3.10")
async def test_an_object_whose_name_is_listed_without_its_bytes_is_neither_changed_nor_declared_gone(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    """Another path would be used: the broker's 404 there says nothing about the object."""
    with virtual_host.http() as http:
        queue = f"queues/{virtual_host.path}/caf%E9"
        http.put(queue, json={"durable": True}).raise_for_status()
        async with watching(virtual_host, writer) as watched:
            name = "caf\ufffd"
            for answer in (
                await watched.call("queue", name, "delete", False, False),
                await watched.call("queue", name, "purge"),
                await watched.fetch("queue", name),
            ):
                assert answer.outcome is not Outcome.OBJECT_GONE
                assert NOT_SHOWN in answer.text
            assert watched.exists("queue", name)
        http.get(queue).raise_for_status()


@pytest.mark.each_rabbitmq(until="3.10")
async def test_an_object_whose_bytes_an_event_had_is_changed_although_it_is_listed_without_them(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    name = ByteName.of(b"caf\xe9")
    async with watching(virtual_host, writer) as watched:
        with virtual_host.http() as http:
            for collection, kind in (("queues", {}), ("exchanges", {"type": "direct"})):
                made = http.put(f"{collection}/{virtual_host.path}/caf%E9", json={"durable": True, **kind})
                made.raise_for_status()
            for class_name, arguments in (("queue", (None, None)), ("exchange", (None,))):
                await until(partial(watched.exists, class_name, name), "it is heard of")
                answer = await watched.call(class_name, name, "delete", *arguments)
                assert (answer.outcome, watched.gone(class_name, name)) == (Outcome.APPLIED, True), (
                    answer.text
                )
            assert http.get(f"queues/{virtual_host.path}").json() == []
