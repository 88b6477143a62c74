"""The name of a broker of QMF moves to another one, while the gateway runs and while it does not."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import aio_pika
import pytest

from gateway.clock import SystemClock
from gateway.demo.broker import PrivateBroker
from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.session import Send
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.components.agent_on_link import AgentOnLink
from tests.components.background import Background, background
from tests.components.command_line import Site, new_site
from tests.components.waiting import wait_until
from tests.durable.test_another_broker import (
    LIVES,
    Moving,
    add_user,
    another_rabbitmq,
    check_moves,
    lives,
    watched,
)
from tests.durable.test_standstills import rows

__all__ = ["another_rabbitmq"]

PACKAGE = "org.apache.qpid.broker"
SYSTEM = ClassSchema(
    ClassKey(PACKAGE, "system", b"\x01" * 16),
    (Element("systemId", ValueType.UUID, index=True), Element("nodeName", ValueType.STRING)),
)
QUEUE = ClassSchema(
    ClassKey(PACKAGE, "queue", b"\x02" * 16),
    (Element("name", ValueType.STRING, index=True),),
    (Element("msgTotalEnqueues", ValueType.U64),),
)
CREATED = 1_700_000_000 * SECOND


class QueueAgent(AgentOnLink):
    """An agent as of a broker on a machine, with one queue; both are as old as those of any other."""

    def __init__(self, user: str, machine: str, system: UUID, queue: str, enqueued: int) -> None:
        now, self._queue = SystemClock().now(), queue
        self.session = AgentSession(AgentConfig(uuid4(), 1, frozenset({user})), [SYSTEM, QUEUE])
        super().__init__(self.session)
        self.session.put(ManagedObject(SYSTEM.key, 1, CREATED, (system, machine), (), now))
        self.session.put(ManagedObject(QUEUE.key, 2, CREATED, (queue,), (enqueued,), now))

    def enqueued(self, number: int) -> list[Send]:
        """Have another number of messages in the queue; return what publishes it."""
        now = SystemClock().now()
        self.session.put(ManagedObject(QUEUE.key, 2, CREATED, (self._queue,), (number,), now))
        return [one for one in self.session.publish(2, now) if isinstance(one, Send)]


@contextmanager
def serving(broker: PrivateBroker, agent: QueueAgent) -> Iterator[Background[None]]:
    """Let an agent speak on a broker."""

    @asynccontextmanager
    async def speaking() -> AsyncIterator[None]:
        task = asyncio.create_task(agent.speak(broker, "/"))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with background(speaking) as spoken:
        yield spoken


async def publish(broker: PrivateBroker, sends: Sequence[Send]) -> None:
    """Publish messages of an agent, and wait until the broker has them."""
    async with await aio_pika.connect(broker.amqp_url()) as connection:
        channel = await connection.channel(publisher_confirms=True)
        for send in sends:
            exchange = await channel.get_exchange(send.exchange)
            message = aio_pika.Message(send.body, user_id=broker.administrator.name)
            await exchange.publish(message, send.routing_key)


def has_recorded(site: Site, queue: str, enqueued: int) -> bool:
    """Return whether this number of messages was recorded last, by a core that has read everything."""
    sql = """SELECT "values"->>'msgTotalEnqueues' FROM log WHERE class = 'queue' AND object_name = $name
             AND ("values"->>'msgTotalEnqueues') IS NOT NULL ORDER BY seq DESC LIMIT 1"""
    return [str(found) for (found,) in rows(site, sql, name=queue)] == [str(enqueued)]


@pytest.mark.long
@pytest.mark.parametrize("durable", [False, True], ids=["read when it is there", "durable subscription"])
def test_another_broker_has_other_objects_in_the_same_rows(
    rabbitmq: PrivateBroker, another_rabbitmq: PrivateBroker, tmp_path: Path, *, durable: bool
) -> None:
    """By a durable subscription, what waited is of the first broker: that is asked before."""
    brokers, queue = (rabbitmq, another_rabbitmq), f"moved-{secrets.token_hex(4)}"
    for broker in brokers:
        add_user(broker, queue, "")
    system = uuid4()
    agents: list[tuple[Background[None], QueueAgent]] = []
    with ExitStack() as stack:
        for broker, machine, one, enqueued in (
            (rabbitmq, "one.example", uuid4(), 3),
            (another_rabbitmq, "two.example", system, 30),
        ):
            agent = QueueAgent(queue, machine, one, queue, enqueued)
            agents.append((stack.enter_context(serving(broker, agent)), agent))
        name, site = Moving(stack, rabbitmq), new_site(tmp_path)
        source: dict[str, object] = {
            "kind": "qmf",
            "amqp": {
                "url": f"amqp://127.0.0.1:{name.amqp.port}",
                "vhost": "/",
                "user": queue,
                "password": site.secret(queue),
            },
            "trusted_users": [broker.administrator.name for broker in brokers],
        }
        source |= {"durable": {}} if durable else {}
        site.configure(sources={"orders": source}, log={"statistics_interval": "1s"}, snmp={"enabled": False})
        has = partial(has_recorded, site, queue)

        def meanwhile() -> None:
            (its_loop, agent), changed = agents[0], list[Send]()
            its_loop.do(lambda: changed.extend(agent.enqueued(50)))
            assert changed
            asyncio.run(publish(rabbitmq, changed))

        check_moves(site, name, brokers, queue, has, back=50, meanwhile=meanwhile)
    for broker in brokers:
        with broker.http() as http:
            http.delete(f"users/{queue}").raise_for_status()
            if durable:
                http.delete("queues/%2F/amqp-gateway.console.orders").raise_for_status()


@pytest.mark.long
def test_an_agent_of_another_broker_that_comes_later_is_asked_before_it_is_read(
    rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    """On the connection of the known one: after nobody answered for the known one, and in its place."""
    queue, site = f"late-{secrets.token_hex(4)}", new_site(tmp_path)
    add_user(rabbitmq, queue, "")
    amqp = {"url": f"amqp://127.0.0.1:{rabbitmq.ports.amqp}", "vhost": "/", "user": queue}
    source = {
        "kind": "qmf",
        "amqp": {**amqp, "password": site.secret(queue)},
        "trusted_users": [rabbitmq.administrator.name],
        "durable": {},
    }
    site.configure(sources={"orders": source}, log={"statistics_interval": "1s"}, snmp={"enabled": False})

    @contextmanager
    def read(machine: str, enqueued: int) -> Iterator[None]:
        """Let the agent of a broker serve, and wait until it is read."""
        with serving(rabbitmq, QueueAgent(queue, machine, uuid4(), queue, enqueued)):
            wait_until(lambda: has_recorded(site, queue, enqueued), f"{machine} is read")
            yield

    with watched(site, tmp_path / "first.txt"), read("one.example", 3):
        pass
    with watched(site, tmp_path / "second.txt") as gateway:
        wait_until(lambda: [one for one in gateway.log if one["event"] == "inquired"], "none has answered")
        with read("two.example", 30):
            late = lives(site, queue)
        with read("three.example", 50):
            replaced = lives(site, queue)
        with read("three.example", 70):
            restarted = rows(site, LIVES, name=queue)
    (_, identity, _), *_ = late
    another = [("delete", identity, True), ("create", identity, None)]
    assert (late, replaced) == (another, another * 2)
    assert [row[0] for row in restarted] == [*["delete", "create"] * 2, "update"]
    with rabbitmq.http() as http:
        http.delete(f"users/{queue}").raise_for_status()
        http.delete("queues/%2F/amqp-gateway.console.orders").raise_for_status()
