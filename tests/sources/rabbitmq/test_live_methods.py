"""Methods of the source on a real RabbitMQ; their effects are checked with `rabbitmqctl`."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import aio_pika
import pytest

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.dialects.qmf.statuses import Status
from gateway.model.operations import Outcome
from gateway.model.values import Value
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import until
from tests.sources.rabbitmq.watching import Watch, reading_user, ready, watch

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)

DONE = (Outcome.APPLIED, "OK", Status.OK)


@pytest.fixture
def writer(rabbitmq: PrivateBroker, virtual_host: VirtualHost) -> Iterator[Credentials]:
    """Provide the user who changes the broker: an administrator with all permissions in the virtual host."""
    user = Credentials.generate(f"writer-{secrets.token_hex(4)}")
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    with rabbitmq.http() as client:
        path = f"users/{quote(user.name)}"
        client.put(path, json={"password": user.password, "tags": "administrator"}).raise_for_status()
        client.put(f"permissions/{virtual_host.path}/{user.name}", json=everything).raise_for_status()
        try:
            yield user
        finally:
            client.delete(path).raise_for_status()


@asynccontextmanager
async def watching(
    virtual_host: VirtualHost, writer: Credentials | None, *, events: bool = True, lockout: bool = False
) -> AsyncIterator[Watch]:
    """Provide the watched agent, as soon as everything has been read."""
    broker = virtual_host.broker
    allowed = [virtual_host.name] if lockout else []
    with reading_user(broker, [virtual_host.name]) as reader:
        of = virtual_host.name
        async with watch(
            broker, reader, writer=writer, events=events, lockout=allowed, virtual_host=of
        ) as watched:
            await ready(watched, events=events)
            yield watched


def listed(virtual_host: VirtualHost, what: str, *columns: str) -> list[dict[str, Any]]:
    """Return a listing of `rabbitmqctl` in the test's virtual host."""
    reported = virtual_host.broker.rabbitmqctl(
        *(f"list_{what}", "--vhost", virtual_host.name, "--formatter", "json", "--silent"), *columns
    )
    rows: list[dict[str, Any]] = json.loads(reported)
    return rows


def limits(virtual_host: VirtualHost) -> dict[str, int]:
    """Return the limits of the test's virtual host according to `rabbitmqctl`."""
    name = virtual_host.name
    reported = virtual_host.broker.rabbitmqctl("list_vhost_limits", "--vhost", name, "--silent")
    return dict(json.loads(reported.strip() or "{}"))


def about(virtual_host: VirtualHost) -> dict[str, Any]:
    """Return the properties of the test's virtual host according to `rabbitmqctl`."""
    columns = ("name", "description", "tags", "tracing")
    reported = virtual_host.broker.rabbitmqctl("list_vhosts", "--formatter", "json", "--silent", *columns)
    (row,) = [row for row in json.loads(reported) if row["name"] == virtual_host.name]
    return dict(row)


async def set_and_reported(
    watched: Watch, virtual_host: VirtualHost, element: str, method: str, value: Value | None
) -> object:
    """Call a setting method; return the element's value at the console when it is answered."""
    answer = await watched.call("vhost", virtual_host.name, method, value)
    assert (answer.outcome, answer.text, answer.code) == DONE
    return watched.value("vhost", virtual_host.name, element)


async def test_the_limits_of_a_virtual_host_are_set_and_cleared(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    async with watching(virtual_host, writer) as watched:
        name = virtual_host.name
        await until(lambda: watched.value("vhost", name, "maxConnections") == -1, "there is no limit")
        assert await set_and_reported(watched, virtual_host, "maxConnections", "setMaxConnections", 7) == 7
        assert await set_and_reported(watched, virtual_host, "maxQueues", "setMaxQueues", 0) == 0
        assert limits(virtual_host) == {"max-connections": 7, "max-queues": 0}
        assert await set_and_reported(watched, virtual_host, "maxConnections", "setMaxConnections", -1) == -1
        assert limits(virtual_host) == {"max-queues": 0}


async def test_no_user_is_locked_out_unless_the_configuration_says_so(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    async with watching(virtual_host, writer) as watched:
        refused = await watched.call("vhost", virtual_host.name, "setMaxConnections", 0)
        assert refused.code == Status.FORBIDDEN
        assert "lockout" in refused.text
        assert limits(virtual_host) == {}
    async with watching(virtual_host, writer, lockout=True) as watched:
        assert await set_and_reported(watched, virtual_host, "maxConnections", "setMaxConnections", 0) == 0
        assert limits(virtual_host) == {"max-connections": 0}


async def test_what_a_virtual_host_says_of_itself_is_set_without_changing_the_rest(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    with virtual_host.http() as client:
        before = {"description": "before", "tags": "old", "tracing": True}
        client.put(f"vhosts/{virtual_host.path}", json=before).raise_for_status()
    async with watching(virtual_host, writer) as watched:
        reported = await set_and_reported(
            watched, virtual_host, "description", "setDescription", "für Aufträge"
        )
        assert reported == "für Aufträge"
        tags = ("eu", "orders")
        assert await set_and_reported(watched, virtual_host, "tags", "setTags", tags) == tags
        shown = about(virtual_host)
        assert (shown["description"], shown["tags"], shown["tracing"]) == ("für Aufträge", list(tags), True)
        assert await set_and_reported(watched, virtual_host, "tracing", "setTracing", False) is False
        assert await set_and_reported(watched, virtual_host, "description", "setDescription", None) == ""
        shown = about(virtual_host)
        assert (shown["description"], shown["tags"], shown["tracing"]) == ("", list(tags), False)


async def test_a_limit_that_others_set_is_seen(virtual_host: VirtualHost) -> None:
    async with watching(virtual_host, None) as watched:
        name = virtual_host.name
        definition = '{"max-connections": 3}'
        ctl = virtual_host.broker.rabbitmqctl
        await asyncio.to_thread(ctl, "set_vhost_limits", "--vhost", name, definition)
        await until(lambda: watched.value("vhost", name, "maxConnections") == 3, "the limit is told")


async def test_a_purge_empties_a_queue_and_its_statistics_say_so(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    async with (
        watching(virtual_host, writer) as watched,
        await aio_pika.connect(virtual_host.amqp_url()) as client,
    ):
        channel = await client.channel()
        queue = await channel.declare_queue("orders", durable=True)
        for _ in range(3):
            await channel.default_exchange.publish(aio_pika.Message(b"x"), "orders")
        await until(
            lambda: watched.exists("queue", "orders") and watched.value("queue", "orders", "messages") == 3,
            "messages count",
        )
        answer = await watched.call("queue", "orders", "purge")
        assert (answer.outcome, answer.outputs, answer.code) == (Outcome.APPLIED, (-1,), Status.OK)
        assert watched.value("queue", "orders", "messages") == 0
        assert listed(virtual_host, "queues", "name", "messages") == [{"name": "orders", "messages": 0}]
        assert await queue.get(fail=False) is None


async def test_a_queue_is_deleted_only_under_the_conditions_given(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    async with (
        watching(virtual_host, writer) as watched,
        await aio_pika.connect(virtual_host.amqp_url()) as client,
    ):
        channel = await client.channel()
        await channel.declare_queue("orders", durable=True)
        await channel.default_exchange.publish(aio_pika.Message(b"x"), "orders")
        await until(lambda: watched.exists("queue", "orders"), "the queue is heard of")
        refused = await watched.call("queue", "orders", "delete", True, None)
        assert refused.outcome is Outcome.REMOTE_FAILURE
        assert "not empty" in refused.text
        assert listed(virtual_host, "queues", "name") == [{"name": "orders"}]
        answer = await watched.call("queue", "orders", "delete", None, None)
        assert (answer.outcome, answer.text, answer.code) == DONE
        assert watched.gone("queue", "orders")
        assert listed(virtual_host, "queues", "name") == []


@pytest.mark.each_rabbitmq(until="3.10")
async def test_queues_with_mirrors_are_synchronised(virtual_host: VirtualHost, writer: Credentials) -> None:
    policy = {"pattern": "^mirrored", "definition": {"ha-mode": "all"}, "apply-to": "queues"}
    with virtual_host.http() as client:
        client.put(f"policies/{virtual_host.path}/ha", json=policy).raise_for_status()
        client.put(f"queues/{virtual_host.path}/mirrored", json={"durable": True}).raise_for_status()
    async with watching(virtual_host, writer) as watched:
        for method in ("sync", "cancelSync"):
            answer = await watched.call("queue", "mirrored", method)
            assert (answer.outcome, answer.text, answer.code) == DONE
        assert watched.value("queue", "mirrored", "mirrors") == ()
        assert watched.value("queue", "mirrored", "synchronisedMirrors") == ()


async def test_queues_without_mirrors_are_not_synchronised(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    kinds = {"orders": "classic", "ledger": "quorum", "journal": "stream"}
    with virtual_host.http() as client:
        for name, kind in kinds.items():
            declared = {"durable": True, "arguments": {"x-queue-type": kind}}
            client.put(f"queues/{virtual_host.path}/{name}", json=declared).raise_for_status()
    async with watching(virtual_host, writer) as watched:
        for name in kinds:
            refused = await watched.call("queue", name, "cancelSync")
            assert refused.outcome is Outcome.REMOTE_FAILURE
            assert "not mirrored" in refused.text
            assert watched.value("queue", name, "mirrors") is None


async def test_an_end_is_reported_also_without_events(virtual_host: VirtualHost, writer: Credentials) -> None:
    with virtual_host.http() as client:
        client.put(f"queues/{virtual_host.path}/orders", json={}).raise_for_status()
        async with watching(virtual_host, writer, events=False) as watched:
            await until(lambda: watched.exists("queue", "orders"), "the queue is listed")
            answer = await watched.call("queue", "orders", "delete", None, None)
            assert answer.outcome is Outcome.APPLIED
            assert watched.gone("queue", "orders")


async def test_what_others_have_deleted_meanwhile_is_unknown_and_not_shown_any_more(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    with virtual_host.http() as client:
        client.put(f"queues/{virtual_host.path}/orders", json={}).raise_for_status()
        async with watching(virtual_host, writer, events=False) as watched:
            await until(lambda: watched.exists("queue", "orders"), "the queue is listed")
            client.delete(f"queues/{virtual_host.path}/orders").raise_for_status()
            answer = await watched.call("queue", "orders", "purge")
            assert (answer.outcome, answer.code) == (Outcome.OBJECT_GONE, Status.UNKNOWN_OBJECT)
            await until(lambda: watched.gone("queue", "orders"), "its end is told")


async def test_an_exchange_is_deleted_if_nothing_is_bound_to_it(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    async with (
        watching(virtual_host, writer) as watched,
        await aio_pika.connect(virtual_host.amqp_url()) as client,
    ):
        channel = await client.channel()
        exchange = await channel.declare_exchange("prices", "topic", durable=True)
        queue = await channel.declare_queue("orders", durable=True)
        await queue.bind(exchange, "#")
        await until(lambda: watched.exists("exchange", "prices"), "the exchange is heard of")
        refused = await watched.call("exchange", "prices", "delete", True)
        assert refused.outcome is Outcome.REMOTE_FAILURE
        assert "in use" in refused.text
        answer = await watched.call("exchange", "prices", "delete", None)
        assert answer.outcome is Outcome.APPLIED
        assert watched.gone("exchange", "prices")
        assert "prices" not in {one["name"] for one in listed(virtual_host, "exchanges", "name")}


async def test_what_the_broker_keeps_for_itself_is_refused_with_what_is_missing(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    async with watching(virtual_host, writer) as watched:
        await until(lambda: watched.exists("exchange", "amq.fanout"), "exchanges are heard of")
        refused = await watched.call("exchange", "amq.fanout", "delete", None)
        assert refused.code == Status.FORBIDDEN
        assert writer.name in refused.text
        unnamed = await watched.call("exchange", "", "delete", None)
        assert unnamed.outcome is Outcome.REMOTE_FAILURE


async def test_a_young_connection_is_closed_as_soon_as_the_broker_lists_it(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    async with watching(virtual_host, writer) as watched:
        client = await aio_pika.connect(
            virtual_host.amqp_url(), client_properties={"connection_name": "young"}
        )
        closed: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        client.close_callbacks.add(lambda _connection, error: _end(closed, error))

        def name() -> str:
            connections = watched.source.known("connection")
            return next((one.name.leaf for one in connections if "young" in one.properties), "")

        await until(lambda: name() and watched.exists("connection", name()), "the connection is heard of")
        leaf = name()
        answer = await watched.call("connection", leaf, "close", "maintenance: back at five")
        assert (answer.outcome, answer.text, answer.code) == DONE
        assert watched.gone("connection", leaf)
        assert "maintenance: back at five" in str(await asyncio.wait_for(closed, 60))
        assert leaf not in virtual_host.broker.rabbitmqctl("list_connections", "name")
        await until(lambda: watched.reported("connectionClosed", name=leaf), "the event of the end")
        (reported,) = watched.reported("connectionClosed", name=leaf)
        assert reported["vhost"] == virtual_host.name


def _end(closed: asyncio.Future[BaseException | None], error: BaseException | None) -> None:
    if not closed.done():
        closed.set_result(error)


async def test_without_an_account_for_it_nothing_is_changed(virtual_host: VirtualHost) -> None:
    async with watching(virtual_host, None) as watched:
        refused = await watched.call("vhost", virtual_host.name, "setMaxQueues", 1)
        assert (refused.outcome, refused.code) == (Outcome.REMOTE_FAILURE, Status.FORBIDDEN)
        assert "'writing'" in refused.text
        assert limits(virtual_host) == {}


async def test_of_an_account_the_missing_rights_are_named(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    with virtual_host.http() as client:
        reported = {"password": writer.password, "tags": "monitoring"}
        client.put(f"users/{writer.name}", json=reported).raise_for_status()
        async with watching(virtual_host, writer) as watched:
            refused = await watched.call("vhost", virtual_host.name, "setMaxQueues", 1)
            assert refused.code == Status.FORBIDDEN
            assert "administrator" in refused.text
        wrong = Credentials(writer.name, "another")
        async with watching(virtual_host, wrong) as watched:
            refused = await watched.call("vhost", virtual_host.name, "setMaxQueues", 1)
            assert refused.code == Status.FORBIDDEN
            assert "password" in refused.text


async def test_a_virtual_host_is_started_and_queues_are_spread_again(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    async with watching(virtual_host, writer) as watched:
        node = next(known.name.leaf for known in watched.source.known("node"))
        started = await watched.call("vhost", virtual_host.name, "start", node)
        assert (started.outcome, started.text) == DONE[:2]
        missing = await watched.call("vhost", virtual_host.name, "start", "rabbit@nowhere")
        assert missing.outcome is Outcome.REMOTE_FAILURE
        assert re.search("nodedown|Unknown node: rabbit@nowhere", missing.text)  # the latter since 4.3
        spread = await watched.call("node", node, "rebalanceQueues")
        assert spread.outcome is Outcome.APPLIED


async def test_an_object_is_read_again_when_it_is_asked_for(virtual_host: VirtualHost) -> None:
    with virtual_host.http() as client:
        client.put(f"queues/{virtual_host.path}/orders", json={}).raise_for_status()
        async with watching(virtual_host, None, events=False) as watched:
            await until(lambda: watched.exists("queue", "orders"), "the queue is listed")
            host = virtual_host.name
            client.put(f"vhosts/{virtual_host.path}", json={"description": "new"}).raise_for_status()
            assert (await watched.fetch("vhost", host)).outcome is Outcome.APPLIED
            assert watched.value("vhost", host, "description") == "new"
            node = next(known.name.leaf for known in watched.source.known("node"))
            exchanges = (("exchange", "amq.fanout"), ("exchange", ""))
            for class_name, leaf in (("node", node), *exchanges, ("queue", "orders")):
                assert (await watched.fetch(class_name, leaf)).outcome is Outcome.APPLIED
            assert watched.exists("exchange", "")
            client.delete(f"queues/{virtual_host.path}/orders").raise_for_status()
            await watched.fetch("queue", "orders")
            await until(lambda: watched.gone("queue", "orders"), "its end is told")
