"""An agent on a shared broker accepts methods of its gateway only, not of others at the exchange."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aio_pika
import aiormq
import pytest
from aio_pika.abc import AbstractExchange

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import MethodRequest
from gateway.model.operations import Outcome
from gateway.model.schema import ClassKey
from gateway.sources.rabbitmq.rights import MANAGEMENT_EXCHANGE, MANAGEMENT_VHOST
from tests.components.waiting import until
from tests.service.test_election import Site, site

pytestmark = pytest.mark.xdist_group("lent broker")

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


def application(broker: PrivateBroker) -> Credentials:
    """Return a plain user that has every permission on the virtual host where the agent listens."""
    user = Credentials.generate("application")
    with broker.http() as client:
        client.put(f"users/{user.name}", json={"password": user.password, "tags": ""}).raise_for_status()
        client.put(f"permissions/{MANAGEMENT_VHOST}/{user.name}", json=EVERYTHING).raise_for_status()
    return user


async def filled_queue(shop: Site) -> bytes:
    """Fill a queue with three messages; return the request that purges it."""
    await shop.declare("orders")
    async with await aio_pika.connect(shop.broker.amqp_url()) as client:
        channel = await client.channel()
        for _ in range(3):
            await channel.default_exchange.publish(aio_pika.Message(b"x"), "orders")
    await until(lambda: shop.gateway.objects("queue").get("orders"), "the queue is known")
    (queue,) = shop.gateway.objects("queue")["orders"]
    target = ObjectId.parse(queue.native_id)
    return write(MethodRequest(1, target, ClassKey("rabbitmq", "queue"), "purge"))


async def messages(broker: PrivateBroker) -> int:
    """Return the number of messages in the queue, as the broker counts them now."""
    async with await aio_pika.connect(broker.amqp_url()) as client:
        queue = await (await client.channel()).declare_queue("orders", passive=True)
        return queue.declaration_result.message_count or 0


async def asks(exchange: AbstractExchange, body: bytes, reply_to: str, user_id: str | None) -> None:
    await exchange.publish(aio_pika.Message(body, reply_to=reply_to, user_id=user_id), "agent.1.0")


async def test_a_purge_that_an_application_asks_for_achieves_nothing(
    lent_rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    async with site(lent_rabbitmq, tmp_path, agents=["first"]) as shop:
        purge = await filled_queue(shop)
        user = application(lent_rabbitmq)
        async with await aio_pika.connect(lent_rabbitmq.amqp_url(user, MANAGEMENT_VHOST)) as client:
            channel = await client.channel()
            replies = await channel.declare_queue(exclusive=True)
            await replies.bind("amq.direct", replies.name)
            exchange = await channel.get_exchange(MANAGEMENT_EXCHANGE)
            await asks(exchange, purge, replies.name, user.name)
            await asks(exchange, purge, replies.name, None)
            with pytest.raises(aiormq.exceptions.ChannelPreconditionFailed):
                await asks(exchange, purge, replies.name, "gateway")

            # What the gateway asks for afterwards the agent hears behind all that.
            fence = await shop.gateway.call(1, "vhost", "/", "setMaxQueues", 500)
            assert fence.outcome is Outcome.APPLIED
            assert await messages(lent_rabbitmq) == 3
            agent = shop.agents[shop.serving()[0]]
            (refused,) = [line for line in agent.log if line["event"] == "refused-sender"]
            assert user.name in refused["detail"]
            looking = await client.channel()
            passive = await looking.declare_queue(replies.name, passive=True)
            assert passive.declaration_result.message_count == 0

        purged = await shop.gateway.call(2, "queue", "orders", "purge")
        assert purged.outcome is Outcome.APPLIED
        assert purged.text.startswith("3 messages purged")
        assert await messages(lent_rabbitmq) == 0


async def test_a_console_with_a_role_calls_what_it_grants_and_no_more(
    lent_rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    queue = {"classes": ["rabbitmq:queue"], "objects": ["/|ord*"], "invoke": ["purge"]}
    policy = {
        "roles": {"purging": {"includes": ["everything"], "allow": [queue]}},
        "principals": {"qmf:gateway": ["purging"]},
    }
    async with site(lent_rabbitmq, tmp_path, policy, ["first"]) as shop:
        await filled_queue(shop)
        refused = await shop.gateway.call(1, "vhost", "/", "setMaxQueues", 500)
        assert refused.outcome is not Outcome.APPLIED
        assert "no rule lets qmf:gateway call setMaxQueues" in refused.text
        limits = await asyncio.to_thread(lent_rabbitmq.rabbitmqctl, "list_vhost_limits", "--silent")
        assert "500" not in limits

        purged = await shop.gateway.call(2, "queue", "orders", "purge")
        assert purged.outcome is Outcome.APPLIED
        assert await messages(lent_rabbitmq) == 0
