"""Channels, consumers, bindings, policies and users of a real RabbitMQ, as the console receives them."""

from __future__ import annotations

import secrets

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.sources.rabbitmq.object_lives import KnownObject
from tests.components.rabbitmq import VirtualHost, new_virtual_host
from tests.components.waiting import until
from tests.sources.rabbitmq.test_live_methods import writer
from tests.sources.rabbitmq.watching import Watch, reading_user, ready, synchronised, watch

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)

__all__ = ["writer"]


async def acknowledge(message: AbstractIncomingMessage) -> None:
    await message.ack()


async def test_channels_and_consumers_come_count_and_go(virtual_host: VirtualHost) -> None:
    with reading_user(virtual_host.broker, [virtual_host.name]) as user:
        async with watch(virtual_host.broker, user, virtual_host=virtual_host.name) as watched:
            await ready(watched)
            async with await aio_pika.connect(virtual_host.amqp_url()) as client:
                channel = await client.channel()
                await channel.set_qos(7)
                queue = await channel.declare_queue("orders", durable=True)
                tag = await queue.consume(acknowledge, arguments={"x-priority": 5})
                await until(lambda: watched.exists("consumer", tag), "the consumer is heard of")
                assert watched.value("consumer", tag, "queue") == "orders"
                assert watched.value("consumer", tag, "prefetchCount") == 7
                assert watched.value("consumer", tag, "arguments") == {"x-priority": 5}
                name = str(watched.value("consumer", tag, "channel"))
                assert watched.exists("channel", name)
                assert watched.value("channel", name, "number") == 1
                await channel.default_exchange.publish(aio_pika.Message(b"x"), "orders")
                await until(lambda: watched.value("channel", name, "messagesAcknowledged") == 1, "it counts")
                await until(lambda: watched.value("consumer", tag, "activityStatus") == "up", "it is listed")
                (first,) = {one.native_id for one in watched.received("channel", name)}
                await queue.cancel(tag)
                await until(lambda: watched.gone("consumer", tag), "the consumer's end is heard of")
                await channel.close()
                await until(lambda: watched.gone("channel", name), "the channel's end is heard of")
                again = await client.channel()
                await until(lambda: watched.exists("channel", name), "another of its number is heard of")
                assert watched.received("channel", name)[-1].native_id != first
                taken = await (await again.get_queue("orders")).consume(acknowledge)
                await until(lambda: watched.exists("consumer", taken), "its consumer is heard of")
            await until(lambda: watched.gone("channel", name), "it ended with its connection")
            assert watched.gone("consumer", taken)


def known_within(watched: Watch, virtual_host: VirtualHost) -> list[KnownObject]:
    """Return the known bindings of a virtual host; events report those of others, too."""
    return [one for one in watched.source.known("binding") if one.name.parts[0] == virtual_host.name]


async def test_what_was_there_before_the_agent_is_listed(virtual_host: VirtualHost) -> None:
    with reading_user(virtual_host.broker, [virtual_host.name]) as user:
        async with await aio_pika.connect(virtual_host.amqp_url()) as client:
            channel = await client.channel()
            queue = await channel.declare_queue("before", exclusive=True)
            exchange = await channel.declare_exchange("till", "headers", durable=True)
            await queue.bind(exchange, arguments={"x-match": "all", "kind": "cash"})
            tag = await queue.consume(acknowledge)
            async with watch(virtual_host.broker, user, virtual_host=virtual_host.name) as watched:
                await ready(watched)
                await until(lambda: watched.exists("consumer", tag), "the consumer is listed")
                (key,) = {one.name.leaf for one in known_within(watched, virtual_host)}
                assert watched.value("binding", key, "arguments") == {"x-match": "all", "kind": "cash"}
                assert watched.value("binding", key, "durable") is False
                await queue.unbind(exchange, arguments={"x-match": "all", "kind": "cash"})
                await until(lambda: watched.gone("binding", key), "the end of a binding with arguments")
                await queue.cancel(tag)
                await until(lambda: watched.gone("consumer", tag), "the end of a consumer opened unheard")


CHANNEL_NOT_COLLECTED = """spawn(fun() ->
    [begin ets:match_delete(channel_created_stats, {'_', <<"%s">>, '_'}), timer:sleep(20) end
     || _ <- lists:seq(1, 400)]
end)."""
"""For eight seconds the broker has not collected a channel; then it collects it within five."""


async def test_a_consumer_that_is_listed_before_its_channel_has_one_name(virtual_host: VirtualHost) -> None:
    broker, path = virtual_host.broker, f"consumers/{virtual_host.path}"
    with reading_user(broker, [virtual_host.name]) as user, broker.http() as http:
        async with await aio_pika.connect(virtual_host.amqp_url()) as client:
            queue = await (await client.channel()).declare_queue("before", exclusive=True)
            tag = await queue.consume(acknowledge, consumer_tag="1")  # Celery's tags are numbers, too.
            await until(lambda: any(one["channel_details"] for one in http.get(path).json()), "it is listed")
            (channel,) = (one["channel_details"]["name"] for one in http.get(path).json())
            broker.rabbitmqctl("eval", CHANNEL_NOT_COLLECTED % channel)
            await until(lambda: not http.get(path).json()[0]["channel_details"], "it has no channel")
            async with watch(broker, user, events=False, virtual_host=virtual_host.name) as watched:
                await until(lambda: watched.exists("consumer", tag), "the consumer is shown")
                (shown,) = {one.native_id for one in watched.received("consumer", tag)}
                assert watched.value("consumer", tag, "channel") == channel
                # For a moment it has none again.
                broker.rabbitmqctl("eval", CHANNEL_NOT_COLLECTED % channel)
                await until(lambda: not http.get(path).json()[0]["channel_details"], "it has no channel")
                await until(lambda: http.get(path).json()[0]["channel_details"], "it has it again")
                await queue.cancel(tag)
                await until(lambda: watched.gone("consumer", tag), "the consumer has ended")
                assert {one.native_id for one in watched.received("consumer", tag)} == {shown}


async def test_bindings_come_and_go_with_their_ends_and_the_default_exchange_has_none(
    virtual_host: VirtualHost,
) -> None:
    with reading_user(virtual_host.broker, [virtual_host.name]) as user:
        async with watch(virtual_host.broker, user, virtual_host=virtual_host.name) as watched:
            await ready(watched)
            async with await aio_pika.connect(virtual_host.amqp_url()) as client:
                channel = await client.channel()
                queue = await channel.declare_queue("orders", durable=True)
                source = await channel.declare_exchange("source", "topic", durable=True)
                inner = await channel.declare_exchange("inner", "fanout", auto_delete=True)
                await queue.bind(source, "a b.#")
                await queue.bind(source, "")
                await inner.bind(source, "inner")
                await until(lambda: len(known_within(watched, virtual_host)) == 3, "all are known")
                await until(lambda: watched.exists("binding", "inner"), "all are told")
                assert watched.value("binding", "a+b.%23", "routingKey") == "a b.#"
                assert watched.value("binding", "a+b.%23", "durable") is True
                assert watched.value("binding", "inner", "durable") is False
                assert watched.value("binding", "inner", "destinationType") == "exchange"
                numbers = {known.name: known.number for known in known_within(watched, virtual_host)}
                await until(
                    lambda: all(known.listed for known in known_within(watched, virtual_host)), "listed too"
                )
                assert {known.name: known.number for known in known_within(watched, virtual_host)} == numbers
                await queue.unbind(source, "")
                await until(lambda: watched.gone("binding", "~"), "it was unbound")
                await channel.exchange_delete("source")
                await until(lambda: watched.gone("binding", "a+b.%23"), "it ended with its exchange")
                assert watched.gone("binding", "inner")


async def test_policies_are_reported_when_they_are_set_changed_and_cleared(virtual_host: VirtualHost) -> None:
    path = f"policies/{virtual_host.path}/cap"
    with reading_user(virtual_host.broker, [virtual_host.name]) as user, virtual_host.http() as client:
        async with watch(virtual_host.broker, user, virtual_host=virtual_host.name) as watched:
            await ready(watched)
            policy = {"pattern": "^a", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}
            client.put(path, json=policy).raise_for_status()
            await until(lambda: watched.exists("policy", "cap"), "it is heard of")
            assert watched.value("policy", "cap", "definition") == {"max-length": 5}
            client.put(path, json={**policy, "priority": -3}).raise_for_status()
            await until(lambda: watched.value("policy", "cap", "priority") == -3, "its change is heard of")
            client.delete(path).raise_for_status()
            await until(lambda: watched.gone("policy", "cap"), "its end is heard of")
            client.put(path, json=policy).raise_for_status()
            await until(lambda: watched.exists("policy", "cap"), "it is heard of again at once")


async def test_users_are_not_shown_to_who_may_not_read_them_and_that_is_said(
    virtual_host: VirtualHost, writer: Credentials
) -> None:
    broker = virtual_host.broker
    with reading_user(broker, [virtual_host.name]) as user:
        async with watch(broker, user) as watched:
            await ready(watched)
            assert not list(watched.source.known("user"))
            assert watched.status is not None
            assert "users, permissions and runtime parameters are not shown" in watched.status.detail
        async with watch(broker, user, writer=writer) as watched:
            await ready(watched)
            await until(lambda: watched.exists("user", user.name), "they are listed")
            assert watched.value("user", user.name, "tags") == ("monitoring",)
            assert watched.value("user", user.name, "maxConnections") == -1
            name = f"new-{secrets.token_hex(4)}"
            with broker.http() as client:
                client.put(f"users/{name}", json={"password": "x", "tags": "policymaker"}).raise_for_status()
                await until(
                    lambda: (
                        watched.exists("user", name)
                        and watched.value("user", name, "tags") == ("policymaker",)
                    ),
                    "a new user",
                )
                client.put(f"user-limits/{name}/max-channels", json={"value": 9}).raise_for_status()
                await until(lambda: watched.value("user", name, "maxChannels") == 9, "its limit")
                client.delete(f"users/{name}").raise_for_status()
            await until(lambda: watched.gone("user", name), "its end")


async def test_nothing_of_the_gateways_own_is_shown(rabbitmq: PrivateBroker) -> None:
    with new_virtual_host(rabbitmq) as vhost, reading_user(rabbitmq, [vhost.name, "/"]) as user:
        async with watch(rabbitmq, user) as watched:
            await ready(watched)
            await until(synchronised(watched), "all is read")
            own = [known for known in watched.source.known("connection") if known.name.leaf]
            names = {known.name.leaf for known in own}
            for channel in watched.source.known("channel"):
                assert channel.name.leaf.rpartition(" (")[0] in names
            assert not [
                one for one in watched.source.known("consumer") if "amqp-gateway." in one.name.parts[1]
            ]
            assert not [
                one for one in watched.source.known("binding") if "amqp-gateway." in one.name.parts[3]
            ]
