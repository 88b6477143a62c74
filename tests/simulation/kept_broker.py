"""A durable queue as in RabbitMQ: bounded, with an expiry and one consumer; it redelivers messages."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.model.times import MILLISECOND
from tests.simulation.pipes import Pipe
from tests.simulation.scheduler import Scheduler, Timer

WAY = (50_000, 5 * MILLISECOND)


@dataclass(frozen=True, slots=True)
class Message:
    """A published message.

    Attributes:
        serial: the unique number of the message.
        records: the records that it leads to in the log, one letter each: ``e`` an event, ``u`` an update.
    """

    serial: int
    records: str


class Watcher(Protocol):
    """The observer of the broker's messages."""

    def dropped(self, message: Message) -> None:
        """Record that the broker dropped a message: the queue did not exist, was full, or has expired."""

    def acknowledged(self, message: Message) -> None:
        """Record that a message was acknowledged by its consumer."""


@dataclass(eq=False, slots=True)
class Incoming:
    """A delivery, with the attributes that `gateway.links.durable_queue` reads."""

    message: Message
    redelivered: bool
    tag: int
    link: Link
    exchange: str = "qpid.management"
    user_id: str = "agent"
    timestamp: dt.datetime | None = None
    headers: dict[str, Any] = field(default_factory=dict)

    @property
    def routing_key(self) -> str:
        """The routing key of the message."""
        return f"console.obj.{self.message.serial % 3}"

    @property
    def message_id(self) -> str:
        """The empty string; messages are distinguished by the body."""
        return ""

    @property
    def body(self) -> bytes:
        """The body of the message."""
        return b"%d" % self.message.serial

    async def ack(self, multiple: bool = False) -> None:  # noqa: FBT001, FBT002  as aio-pika has it
        """Acknowledge this delivery and all before it."""
        assert multiple
        self.link.acknowledge(self.tag)


class Link:
    """A connection that consumes the queue."""

    def __init__(self, broker: KeptBroker, scheduler: Scheduler, arrived: Callable[[Incoming], None]) -> None:
        self.unacknowledged: dict[int, Message] = {}
        self.deliveries: Pipe[Incoming] = Pipe(scheduler, arrived, WAY)
        self.acknowledgements: Pipe[int] = Pipe(scheduler, lambda tag: broker.acknowledged(self, tag), WAY)
        self.tags = 0

    def acknowledge(self, tag: int) -> None:
        """Send an acknowledgement to the broker."""
        self.acknowledgements.put(tag)

    def cut(self) -> None:
        """Discard all that is in transit in either direction."""
        self.deliveries.cut()
        self.acknowledgements.cut()


class KeptBroker:
    """One queue and its consumer.

    Args:
        scheduler: time and chance.
        watcher: the observer of dropped and acknowledged messages.
        max_length: the number of messages beyond which the oldest is dropped.
        expires: nanoseconds without a consumer after which the queue is deleted.
        prefetch: the number of unacknowledged messages of one consumer.
        incoming: the type of deliveries.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        watcher: Watcher,
        max_length: int,
        expires: int,
        prefetch: int,
        incoming: type[Incoming] = Incoming,
    ) -> None:
        self.exists = False
        self.link: Link | None = None
        self._scheduler = scheduler
        self._watcher = watcher
        self._max_length = max_length
        self._expires = expires
        self._prefetch = prefetch
        self._incoming = incoming
        self._ready: deque[tuple[Message, bool]] = deque()
        self._expiry: Timer | None = None

    @property
    def waiting(self) -> int | None:
        """The number of messages that wait to be delivered; ``None`` where there is no queue."""
        return len(self._ready) if self.exists else None

    @property
    def is_empty(self) -> bool:
        """Whether no message waits, and all deliveries are acknowledged."""
        return not self._ready and (self.link is None or not self.link.unacknowledged)

    def publish(self, message: Message) -> None:
        """Publish a message; it is dropped if the queue does not exist."""
        if not self.exists:
            self._watcher.dropped(message)
            return
        self._ready.append((message, False))
        self._deliver()
        self._keep_within()

    def consume(self, arrived: Callable[[Incoming], None]) -> Link:
        """Declare the queue if it is missing, and consume it."""
        assert self.link is None, "it has one consumer"
        if self._expiry is not None:
            self._expiry.cancel()
        self.exists = True
        self.link = Link(self, self._scheduler, arrived)
        self._deliver()
        return self.link

    def lose(self) -> None:
        """End the connection; unacknowledged messages are delivered again, in order."""
        if self.link is not None:
            self.link.cut()
            again = [(message, True) for message in self.link.unacknowledged.values()]
            self._ready.extendleft(reversed(again))
            self.link = None
            self._keep_within()
            self.started()

    def started(self) -> None:
        """Restart the expiry time, because the broker was started or the consumer is gone."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self._scheduler.after_in(None, self._expires, self._expire)

    def stopped(self) -> None:
        """Stop the broker; the messages are kept, and the queue does not expire."""
        self.lose()
        if self._expiry is not None:
            self._expiry.cancel()

    def acknowledged(self, link: Link, tag: int) -> None:
        """Process an acknowledgement of all deliveries up to ``tag``."""
        for earlier in [one for one in link.unacknowledged if one <= tag]:
            self._watcher.acknowledged(link.unacknowledged.pop(earlier))
        self._deliver()

    def _deliver(self) -> None:
        link = self.link
        while link is not None and self._ready and len(link.unacknowledged) < self._prefetch:
            message, again = self._ready.popleft()
            link.tags += 1
            link.unacknowledged[link.tags] = message
            link.deliveries.put(self._incoming(message, again, link.tags, link))

    def _keep_within(self) -> None:
        while len(self._ready) > self._max_length:
            self._watcher.dropped(self._ready.popleft()[0])

    def _expire(self) -> None:
        self._scheduler.note("broker", "the queue has expired")
        self.exists = False
        while self._ready:
            self._watcher.dropped(self._ready.popleft()[0])
