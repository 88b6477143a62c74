"""Policies, users, bindings and shovels of a real RabbitMQ, changed through the source."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import aio_pika
import pytest

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.dialects.qmf.statuses import Status
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import eventually, until
from tests.sources.rabbitmq.test_live_classes import acknowledge
from tests.sources.rabbitmq.test_live_methods import DONE, listed, watching, writer
from tests.sources.rabbitmq.watching import Watch

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)

__all__ = ["writer"]


async def test_each_property_of_a_policy_is_set_and_the_others_stay(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    policy = {"pattern": "^a", "definition": {"max-length": 5}, "priority": 2, "apply-to": "all"}
    with virtual_host.http() as client:
        client.put(f"policies/{virtual_host.path}/cap", json=policy).raise_for_status()
    async with watching(virtual_host, writer) as watched:
        for element, method, value in (
            ("pattern", "setPattern", "^b"),
            ("appliesTo", "setAppliesTo", "queues"),
            ("priority", "setPriority", 0),
            ("definition", "setDefinition", {"max-length": 9, "expires": 60_000}),
        ):
            answer = await watched.call("policy", "cap", method, value)
            assert (answer.outcome, answer.text, answer.code) == DONE
            assert watched.value("policy", "cap", element) == value
        (row,) = await asyncio.to_thread(listed, virtual_host, "policies")
        assert (row["pattern"], row["apply-to"], row["priority"]) == ("^b", "queues", 0)
        assert json.loads(row["definition"]) == {"max-length": 9, "expires": 60_000}
        refused = await watched.call("policy", "cap", "setDefinition", {"no-such-thing": 1})
        assert refused.code == Status.EXCEPTION
        assert "no-such-thing" in refused.text
        assert (await watched.call("policy", "cap", "delete")).code == Status.OK
        assert watched.gone("policy", "cap")
        assert await asyncio.to_thread(listed, virtual_host, "policies") == []


@contextmanager
def user(broker: PrivateBroker) -> Iterator[str]:
    """Provide a user whose limits are set."""
    name = Credentials.generate("limited").name
    path = f"users/{quote(name)}"
    with broker.http() as client:
        client.put(path, json={"password": "x", "tags": ""}).raise_for_status()
        try:
            yield name
        finally:
            client.delete(path).raise_for_status()


async def test_limits_of_a_user_are_set_and_cleared(virtual_host: VirtualHost, writer: Credentials) -> None:
    broker = virtual_host.broker

    async def limits(name: str) -> dict[str, Any]:
        reported = await asyncio.to_thread(broker.rabbitmqctl, "list_user_limits", "--user", name, "--silent")
        return dict(json.loads(reported.strip() or "{}"))

    with user(broker) as name:
        async with watching(virtual_host, writer) as watched:
            await until(lambda: watched.exists("user", name), "the user is listed")
            assert (await watched.call("user", name, "setMaxConnections", 3)).code == Status.OK
            assert (await watched.call("user", name, "setMaxChannels", 30)).code == Status.OK
            assert watched.value("user", name, "maxConnections") == 3
            assert watched.value("user", name, "maxChannels") == 30
            assert await limits(name) == {"max-connections": 3, "max-channels": 30}
            assert (await watched.call("user", name, "setMaxConnections", -1)).code == Status.OK
            assert watched.value("user", name, "maxConnections") == -1
            refused = await watched.call("user", name, "setMaxConnections", 0)
            assert refused.code == Status.FORBIDDEN
            assert "lockout" in refused.text
            assert await limits(name) == {"max-channels": 30}


async def test_a_binding_is_deleted_whatever_its_routing_key(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    async with await aio_pika.connect(virtual_host.amqp_url()) as client:
        channel = await client.channel()
        queue = await channel.declare_queue("orders", durable=True)
        source = await channel.declare_exchange("source", "topic", durable=True)
        keys = {"a b/c.d*#é~": "a+b%2Fc.d%2A%23%C3%A9%7E", "": "~", "plain": "plain"}
        for key in keys:
            await queue.bind(source, key)
        async with watching(virtual_host, writer) as watched:
            for called in keys.values():
                await until(lambda: watched.exists("binding", called), called)  # noqa: B023  awaited here
                answer = await watched.call("binding", called, "delete")
                assert (answer.outcome, answer.text, answer.code) == DONE
                assert watched.gone("binding", called)
        left = await asyncio.to_thread(listed, virtual_host, "bindings", "source_name")
        assert [row for row in left if row["source_name"] == "source"] == []


async def read_again(watched: Watch, class_name: str, leaf: str) -> bool:
    answer = await watched.fetch(class_name, leaf)
    assert answer.outcome is DONE[0] or answer.text == "the broker does not list it yet", (class_name, answer)
    return answer.outcome is DONE[0]


async def test_single_objects_are_read_again(virtual_host: VirtualHost, writer: Credentials) -> None:
    async with await aio_pika.connect(virtual_host.amqp_url()) as client:
        channel = await client.channel()
        queue = await channel.declare_queue("orders", durable=True)
        source = await channel.declare_exchange("source", "topic", durable=True)
        await queue.bind(source, "key")
        tag = await queue.consume(acknowledge)
        with virtual_host.http() as api:
            policy = {"pattern": "^a", "definition": {"max-length": 5}}
            api.put(f"policies/{virtual_host.path}/cap", json=policy).raise_for_status()
        async with watching(virtual_host, writer) as watched:
            for class_name, leaf in (
                *(("binding", "key"), ("consumer", tag), ("policy", "cap")),
                ("user", virtual_host.broker.administrator.name),
            ):
                await until(lambda: watched.exists(class_name, leaf), leaf)  # noqa: B023  awaited here
                # What an event told of may be known before the broker's listing has it: that is said.
                await eventually(lambda: read_again(watched, class_name, leaf), leaf)  # noqa: B023  awaited here


@pytest.mark.xdist_group("disturbed")
async def test_a_shovel_is_changed_and_its_password_is_neither_shown_nor_lost(
    forwarding_host: VirtualHost,
) -> None:
    path = f"parameters/shovel/{forwarding_host.path}/move"
    source = "amqp://somebody:hush@127.0.0.1:1/"
    with_key = "amqps://127.0.0.1:1?keyfile=/nowhere/key.pem&password=hush"
    value = {
        "src-uri": source,
        "src-queue": "a",
        "dest-uri": ["amqp://", source, with_key],
        "dest-queue": "b",
        "reconnect-delay": 600,
    }

    def stored() -> dict[str, Any]:
        with forwarding_host.http() as client:
            return dict(client.get(path).raise_for_status().json()["value"])

    with forwarding_host.http() as client:
        client.put(path, json={"value": value}).raise_for_status()
    async with watching(forwarding_host, forwarding_host.broker.administrator) as watched:
        await until(lambda: watched.exists("parameter", "move"), "the shovel is listed")
        shown = watched.value("parameter", "move", "value")
        masked = "amqp://***@127.0.0.1:1/"
        masked_key = with_key.replace("hush", "***")
        assert shown == {**value, "src-uri": masked, "dest-uri": ("amqp://", masked, masked_key)}
        assert isinstance(shown, dict)
        answer = await watched.call("parameter", "move", "setValue", {**shown, "dest-queue": "c"})
        assert (answer.outcome, answer.text, answer.code) == DONE
        assert await asyncio.to_thread(stored) == {**value, "dest-queue": "c"}
        for elsewhere in ("amqp://***@elsewhere/", "amqps://elsewhere?password=***"):
            lured = {**shown, "src-uri": elsewhere}
            refused = await watched.call("parameter", "move", "setValue", lured)
            assert refused.code == Status.INVALID_PARAMETER
        assert await asyncio.to_thread(stored) == {**value, "dest-queue": "c"}
        assert (await watched.call("parameter", "move", "delete")).code == Status.OK
        assert watched.gone("parameter", "move")
    assert not [one for one in watched.seen if "hush" in repr(one)]
