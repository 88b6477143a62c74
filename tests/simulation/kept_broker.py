"""A kept queue as a RabbitMQ has it: bounded, with an expiry and one consumer; it delivers again."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.simulation.pipes import Pipe
from tests.simulation.scheduler import MILLISECOND, Scheduler, Timer

WAY = (50_000, 5 * MILLISECOND)


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody publishes.

    Attributes:
        serial: of this message and no other.
        records: what it leads to in the log, a letter each: ``e`` an event, ``u`` an update.
    """

    serial: int
    records: str


class Watcher(Protocol):
    """Who is told what the broker does with messages."""

    def dropped(self, message: Message) -> None:
        """It is gone: the queue was not there, or full, or has expired."""

    def acknowledged(self, message: Message) -> None:
        """It is gone, because its consumer wants it no more."""


@dataclass(eq=False, slots=True)
class Incoming:
    """A delivery, as far as `gateway.links.durable_queue` looks at one."""

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
        """Where it was published."""
        return f"console.obj.{self.message.serial % 3}"

    @property
    def message_id(self) -> str:
        """None: the body tells messages apart."""
        return ""

    @property
    def body(self) -> bytes:
        """What it says."""
        return b"%d" % self.message.serial

    async def ack(self, multiple: bool = False) -> None:  # noqa: FBT001, FBT002  as aio-pika has it
        """Tell the broker that it, and all before it, may be forgotten."""
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
        """Send an acknowledgement on its way."""
        self.acknowledgements.put(tag)

    def cut(self) -> None:
        """What is on its way in either direction is lost."""
        self.deliveries.cut()
        self.acknowledgements.cut()


class KeptBroker:
    """One queue, and who consumes it.

    Args:
        scheduler: time and chance.
        watcher: told what becomes of messages.
        max_length: messages beyond which the oldest is dropped.
        expires: nanoseconds without a consumer after which the queue is deleted.
        prefetch: messages that one consumer may have.
        incoming: makes deliveries.
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
        """How many messages wait, without those that were delivered; ``None`` where there is no queue."""
        return len(self._ready) if self.exists else None

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, and all that was delivered is acknowledged."""
        return not self._ready and (self.link is None or not self.link.unacknowledged)

    def publish(self, message: Message) -> None:
        """A message comes, if the queue is there."""
        if not self.exists:
            self._watcher.dropped(message)
            return
        self._ready.append((message, False))
        self._deliver()
        self._keep_within()

    def consume(self, arrived: Callable[[Incoming], None]) -> Link:
        """Declare the queue, where it is missing, and consume it."""
        assert self.link is None, "it has one consumer"
        if self._expiry is not None:
            self._expiry.cancel()
        self.exists = True
        self.link = Link(self, self._scheduler, arrived)
        self._deliver()
        return self.link

    def lose(self) -> None:
        """The connection has ended: what was not acknowledged comes again, in its order."""
        if self.link is not None:
            self.link.cut()
            again = [(message, True) for message in self.link.unacknowledged.values()]
            self._ready.extendleft(reversed(again))
            self.link = None
            self._keep_within()
            self.started()

    def started(self) -> None:
        """Its broker runs; the time without a consumer begins again."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self._scheduler.after_in(None, self._expires, self._expire)

    def stopped(self) -> None:
        """Its broker has stopped: what it has is kept, and does not expire."""
        self.lose()
        if self._expiry is not None:
            self._expiry.cancel()

    def acknowledged(self, link: Link, tag: int) -> None:
        """An acknowledgement of all up to ``tag`` arrived."""
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
        self._scheduler.tell("broker", "the queue has expired")
        self.exists = False
        while self._ready:
            self._watcher.dropped(self._ready.popleft()[0])
