"""The exchanges, queues and bindings of the demonstration's workload."""

from __future__ import annotations

from dataclasses import dataclass

import aio_pika
from aio_pika.abc import AbstractChannel


@dataclass(frozen=True, slots=True, order=True)
class QueueName:
    """A queue, by its virtual host and name."""

    vhost: str
    name: str


@dataclass(frozen=True, slots=True)
class Route:
    """Where a message published to ``exchange`` with ``key`` arrives."""

    vhost: str
    exchange: str
    key: str
    queues: tuple[QueueName, ...]


class Topology:
    """The exchanges, queues and bindings of the workload in its two virtual hosts."""

    def __init__(self, shop: str, billing: str) -> None:
        self.shop, self.billing = shop, billing
        self.incoming = QueueName(shop, "orders.incoming")
        self.audit = QueueName(shop, "orders.audit")
        self.live = QueueName(shop, "orders.live")
        self.due = QueueName(billing, "invoices.due")
        self.mail = QueueName(billing, "notices.mail")
        orders = (self.incoming, self.audit, self.live)
        self.routes = (
            Route(shop, "orders", "new.books", orders),
            Route(shop, "orders", "new.music", orders),
            Route(shop, "orders", "cancelled.books", (self.audit,)),
            Route(billing, "invoices", "due", (self.due,)),
            Route(billing, "notices", "", (self.mail,)),
        )

    @property
    def consumed_at_once(self) -> tuple[QueueName, ...]:
        """Queues with a steady consumer; the audit queue is emptied by a collector now and then."""
        return (self.incoming, self.live, self.due, self.mail)

    @property
    def all_queues(self) -> tuple[QueueName, ...]:
        """Every queue that messages are published to."""
        return (*self.consumed_at_once, self.audit)

    @property
    def durable(self) -> tuple[QueueName, ...]:
        """The queues that outlive the broker."""
        return (self.incoming, self.audit, self.due)

    def lasting(self, vhost: str) -> tuple[QueueName, ...]:
        """The queues of ``vhost`` that `declare` declares."""
        return (self.incoming, self.audit) if vhost == self.shop else (self.due, self.mail)

    async def declare(self, channel: AbstractChannel, vhost: str) -> None:
        """Declare what lasts in ``vhost``; the live queue is its consumer's own."""
        if vhost == self.shop:
            orders = await channel.declare_exchange("orders", aio_pika.ExchangeType.TOPIC, durable=True)
            # No quorum queue: in RabbitMQ 3.10.8, after a SIGKILL of its only node, one answers no consumer.
            incoming = await channel.declare_queue(self.incoming.name, durable=True)
            audit = await channel.declare_queue(self.audit.name, durable=True)
            await incoming.bind(orders, "new.#")
            await audit.bind(orders, "#")
        else:
            invoices = await channel.declare_exchange("invoices", aio_pika.ExchangeType.DIRECT, durable=True)
            notices = await channel.declare_exchange("notices", aio_pika.ExchangeType.FANOUT)
            due = await channel.declare_queue(self.due.name, durable=True)
            mail = await channel.declare_queue(self.mail.name, arguments={"x-message-ttl": 3_600_000})
            await due.bind(invoices, "due")
            await mail.bind(notices)

    async def declare_live(self, channel: AbstractChannel) -> None:
        """Declare the queue that goes with its consumer."""
        live = await channel.declare_queue(self.live.name, auto_delete=True)
        await live.bind("orders", "new.*")
