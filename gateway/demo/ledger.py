"""The workload's exchanges, queues and bindings, and the ledger of its acts on them.

Sums are in memory. Each act is also a line of a file, JSON with ``ts`` (UTC), ``act`` and its object; the
file's size is bounded. Nothing here knows the gateway, so that the gateway can be compared with it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Final, TypeAlias

import aio_pika
from aio_pika.abc import AbstractChannel


@dataclass(frozen=True, slots=True, order=True)
class QueueName:
    """A queue, by its virtual host and name."""

    vhost: str
    name: str


@dataclass(frozen=True, slots=True)
class Route:
    """The queues that receive messages published to ``exchange`` with ``key``."""

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
        """The queues with a steady consumer; the audit queue is emptied by a collector now and then."""
        return (self.incoming, self.live, self.due, self.mail)

    @property
    def all_queues(self) -> tuple[QueueName, ...]:
        """All queues that messages are published to."""
        return (*self.consumed_at_once, self.audit)

    @property
    def durable(self) -> tuple[QueueName, ...]:
        """The queues that outlive the broker."""
        return (self.incoming, self.audit, self.due)

    def permanent(self, vhost: str) -> tuple[QueueName, ...]:
        """Return the queues of ``vhost`` that `declare` declares."""
        return (self.incoming, self.audit) if vhost == self.shop else (self.due, self.mail)

    async def declare(self, channel: AbstractChannel, vhost: str) -> None:
        """Declare exchanges, queues and bindings of ``vhost``; the live queue is declared by its consumer."""
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
        """Declare the live queue, which is deleted with its consumer."""
        live = await channel.declare_queue(self.live.name, auto_delete=True)
        await live.bind("orders", "new.*")


MAX_FILE_OCTETS: Final = 16 * 1024 * 1024
"""The size at which a file takes the name ``ledger.1.jsonl``, in place of an older one."""

SERVER_NAMED: Final = "amq.gen-*"
"""The name under which queues are counted that the broker names: their number has no bound."""

_SERVER_NAMED_PREFIX: Final = "amq.gen-"


class Act(StrEnum):
    """An act of the workload; a message counts for each queue that it is in."""

    OPENED = "opened"
    CLOSED = "closed"
    DECLARED = "declared"
    DELETED = "deleted"
    PUBLISHED = "published"
    CONSUMED = "consumed"


Life: TypeAlias = tuple[Act, str, str]
"""A connection opened or closed, a queue declared or deleted: the act, its virtual host, and its name."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The acts up to an instant; the difference of two is the acts in between.

    Attributes:
        published: messages by queue, confirmed by the broker.
        lives: the number of beginnings and ends, by connection or queue.
    """

    published: Counter[QueueName]
    lives: Counter[Life]

    def __sub__(self, earlier: Sums) -> Sums:
        return Sums(self.published - earlier.published, self.lives - earlier.lives)


@dataclass(slots=True)
class Ledger:
    """The messages of each queue, and the connections, queues and visitors that came and went.

    After an interruption, messages may be lost or doubled, and the sums need not match the broker's, unless
    the workload was at rest.

    Attributes:
        published: messages by queue, confirmed by the broker.
        consumed: messages by queue, acknowledged to it.
        lives: connections and queues that began and ended.
        visits: visitors that came and went.
        interruptions: connections that were lost, or not made.
        last_interruption: the last interruption, as text.
        file: the file with a line for each act; ``None`` for no file.
    """

    published: Counter[QueueName] = field(default_factory=Counter)
    consumed: Counter[QueueName] = field(default_factory=Counter)
    lives: Counter[Life] = field(default_factory=Counter)
    visits: int = 0
    interruptions: int = 0
    last_interruption: str = "none"
    file: LedgerFile | None = None
    _living: dict[QueueName, str] = field(default_factory=dict)

    def waiting(self, queue: QueueName) -> int:
        """Return the number of messages that must be in ``queue``."""
        return self.published[queue] - self.consumed[queue]

    def sums(self) -> Sums:
        """Return the acts until now."""
        return Sums(self.published.copy(), self.lives.copy())

    def opened(self, vhost: str, name: str) -> None:
        """Record an opened connection; ``name`` is the workload's name for it."""
        self._lived(Act.OPENED, vhost, name)

    def closed(self, vhost: str, name: str) -> None:
        """Record the end of a connection, and of the queues that were declared to end with it."""
        self._lived(Act.CLOSED, vhost, name)
        for queue in [queue for queue, owner in self._living.items() if owner == name]:
            del self._living[queue]
            self._lived(Act.DELETED, queue.vhost, queue.name)

    def declared(self, queue: QueueName, goes_with: str = "") -> None:
        """Record a declared queue; it counts if it did not exist before.

        Args:
            queue: its name.
            goes_with: name of the connection with which it ends; empty for one that stays.
        """
        if queue not in self._living:
            self._living[queue] = goes_with
            self._lived(Act.DECLARED, queue.vhost, queue.name)

    def did_publish(self, queues: Iterable[QueueName]) -> None:
        """Record a confirmed message that is in ``queues``."""
        for queue in queues:
            self.published[queue] += 1
            self._noted(Act.PUBLISHED, queue.vhost, queue.name)

    def did_consume(self, queue: QueueName) -> None:
        """Record an acknowledged message of ``queue``."""
        self.consumed[queue] += 1
        self._noted(Act.CONSUMED, queue.vhost, queue.name)

    def interrupted(self, what: str) -> None:
        """Record that a connection was lost, or could not be made."""
        self.interruptions += 1
        self.last_interruption = what

    def _lived(self, act: Act, vhost: str, name: str) -> None:
        counted = SERVER_NAMED if name.startswith(_SERVER_NAMED_PREFIX) else name
        self.lives[act, vhost, counted] += 1
        self._noted(act, vhost, name)

    def _noted(self, act: Act, vhost: str, name: str) -> None:
        if self.file is not None:
            self.file.add(act, vhost, name)


class LedgerFile:
    """A file of JSON lines: ``{"ts": ..., "act": "published", "vhost": "shop", "name": "orders.audit"}``.

    Args:
        path: the path of the file; existing content stays.
        max_octets: the size at which it becomes the former file, and a new one begins.
    """

    def __init__(self, path: Path, max_octets: int = MAX_FILE_OCTETS) -> None:
        self.path = path
        self._max_octets = max_octets
        self._file: IO[bytes] = path.open("ab", buffering=0)

    @property
    def former(self) -> Path:
        """The file with the acts before the present file, if there were so many."""
        return self.path.with_suffix(f".1{self.path.suffix}")

    def add(self, act: Act, vhost: str, name: str) -> None:
        """Add a line with the present time.

        Raises:
            OSError: it cannot be written.
        """
        now = dt.datetime.now(tz=dt.UTC).isoformat(timespec="microseconds")
        line = {"ts": now.replace("+00:00", "Z"), "act": act, "vhost": vhost, "name": name}
        self._file.write(json.dumps(line).encode() + b"\n")
        if self._file.tell() >= self._max_octets:
            self._file.close()
            self.path.replace(self.former)
            self._file = self.path.open("ab", buffering=0)

    def close(self) -> None:
        """Close the file; nothing can be added afterwards."""
        self._file.close()
