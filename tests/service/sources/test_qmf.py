"""A source of kind qmf on a real RabbitMQ, where a recorded Java broker falls silent and comes back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from gateway.clock import SystemClock
from gateway.config.sources import QmfSource
from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.messages import CommandComplete, GetQuery, StatisticContent
from gateway.feed.records import AgentRecord, Batch, ObjectRecord
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.model.secrets import SecretRules
from gateway.service.sources.source_context import SourceContext
from gateway.service.sources.sources import source_of
from tests.components.rabbitmq import VirtualHost
from tests.components.waiting import eventually
from tests.dialects.qmf.recordings import definitions
from tests.dialects.qmf.replaying import RecordedPeer, publications
from tests.inventory.playbook import of

JAVA = "java-0.8"
LATE = "test-queue"
"""A queue that the broker does not report in its first answers."""


class JavaBroker:
    """A broker that answers as the recorded one at the end of its recording, and publishes nothing itself."""

    def __init__(self, channel: aio_pika.abc.AbstractChannel) -> None:
        self._channel = channel
        self._known = definitions(JAVA)
        self._peer = RecordedPeer(JAVA)
        self._now = publications(JAVA)[-1].at
        self._hides = True
        self.asked = 0

    async def serve(self) -> None:
        exchange = await self._channel.declare_exchange("qpid.management", "topic", durable=True)
        queue = await self._channel.declare_queue(exclusive=True)
        for key in ("broker", "agent.#"):
            await queue.bind(exchange, key)
        await queue.consume(self._answer, no_ack=True)

    async def _answer(self, message: AbstractIncomingMessage) -> None:
        direct = await self._channel.get_exchange("amq.direct", ensure=False)
        for request in read_body(message.body, self._known):
            self.asked += isinstance(request, GetQuery)
            answers = self._peer.answers(request, message.routing_key or "", self._now)  # type: ignore[arg-type]
            if not isinstance(answers[-1], CommandComplete):
                answers.append(CommandComplete(answers[-1].sequence, 0, ""))
            for answer in answers:
                body = write(answer, self._known)
                if not (self._hides and LATE.encode() in body):
                    await direct.publish(aio_pika.Message(body), message.reply_to or "")

    async def publishes_statistics_alone(self) -> None:
        """Publish statistics of the queue that was not reported, and report it from now on."""
        self._hides = False
        (life,) = [one for one in self._peer.lives.values() if str(one.object_id) == "0-0-0-0-17"]
        (reported,) = [one for one in life.reported if isinstance(one, StatisticContent)][-1:]
        exchange = await self._channel.get_exchange("qpid.management", ensure=False)
        key = "console.obj.1.0.org.apache.qpid.broker.queue"
        await exchange.publish(aio_pika.Message(write(reported, self._known)), key)


@asynccontextmanager
async def java_broker(host: VirtualHost) -> AsyncIterator[JavaBroker]:
    async with await aio_pika.connect(host.amqp_url()) as connection:
        broker = JavaBroker(await connection.channel())
        await broker.serve()
        yield broker


@asynccontextmanager
async def source(host: VirtualHost, folder: Path, heartbeat: str) -> AsyncIterator[Inventory]:
    """Provide the inventory of a source that listens there."""
    user = host.broker.administrator
    path = folder / "password"
    path.touch(mode=0o600)
    path.write_text(user.password, encoding="utf-8")
    url = f"amqp://127.0.0.1:{host.broker.ports.amqp}"
    amqp = {"url": url, "vhost": host.name, "user": user.name, "password": {"file": "password"}}
    quick = {"heartbeat": heartbeat, "request_deadline": "2s"}
    settings = QmfSource.model_validate({"kind": "qmf", "amqp": amqp, "trust_anyone": True, **quick})
    batches: list[Batch] = []
    with closing(InstanceIndex(folder / "index")) as index:
        inventory = Inventory("gw", 1, ClassRegistry({}), index, batches.append)
        around = SourceContext(inventory, {}, SecretRules(), SystemClock(), folder, 1)
        running = asyncio.create_task(source_of("java", settings, around)())
        try:
            yield inventory
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


def is_fresh(inventory: Inventory) -> bool | None:
    """Return whether the broker's reports are fresh; ``None`` before it has reported anything."""
    agents = of(AgentRecord, list(inventory.snapshot()[0]))
    return agents[0].fresh if agents else None


def objects(inventory: Inventory) -> set[str]:
    return {one.native_id for one in of(ObjectRecord, list(inventory.snapshot()[0]))}


async def becomes_fresh(inventory: Inventory, *, fresh: bool) -> None:
    async def is_so() -> bool:
        return is_fresh(inventory) is fresh

    await eventually(is_so, f"what the broker told is {'fresh' if fresh else 'stale'}")


async def test_a_java_broker_that_falls_silent_is_asked_and_stale_when_it_does_not_answer(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    async with source(virtual_host, tmp_path, "1s") as inventory:
        async with java_broker(virtual_host) as broker:
            await becomes_fresh(inventory, fresh=True)
            reported, asked = objects(inventory), broker.asked

            async def is_asked_again() -> bool:
                return broker.asked >= 2 * asked

            await eventually(is_asked_again, "it publishes nothing, and is asked for everything again")
            assert is_fresh(inventory)
        await becomes_fresh(inventory, fresh=False)
        assert objects(inventory) == reported, "nothing of it is gone, as far as known"
        async with java_broker(virtual_host):
            await becomes_fresh(inventory, fresh=True)
            assert objects(inventory) == reported


async def test_an_object_whose_properties_were_not_reported_is_asked_for(
    virtual_host: VirtualHost, tmp_path: Path
) -> None:
    async with java_broker(virtual_host) as broker, source(virtual_host, tmp_path, "60s") as inventory:
        await becomes_fresh(inventory, fresh=True)
        assert "0-0-0-0-17" not in objects(inventory)
        await broker.publishes_statistics_alone()

        async def is_known() -> bool:
            return "0-0-0-0-17" in objects(inventory)

        await eventually(is_known, "everything was read again")
