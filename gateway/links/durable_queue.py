"""A queue that outlives its connection: messages that are sent meanwhile wait in it, for a time.

It is durable, belongs to one consumer, and is bounded in length and, by its expiry, in time: a gateway that
does not return leaves nothing behind in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Final, Protocol

import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aiormq import exceptions

from gateway.dialects.session import Binding
from gateway.links.amqp_connection import AmqpEndpoint, LinkError, Trouble
from gateway.links.own_queue import WatchedQueue, bind, messages_in
from gateway.model.times import MILLISECOND


class Loss(enum.StrEnum):
    """The reasons why messages may be missing in the queue; the broker does not report dropped ones."""

    MISSING = "missing"
    """The queue did not exist: it is new, or has expired."""
    FULL = "full"
    """It was full when it was consumed again: the broker had dropped the oldest."""
    UNBOUND = "unbound"
    """It lacked bindings, as where its exchange was deleted and declared again."""
    SILENT = "silent"
    """It was bound, and nothing arrived in it."""
    FORGOTTEN = "forgotten"
    """What was accepted before is not known any more, so that protected bodies in it were refused."""
    DROPPED = "dropped"
    """A policy reached it, by which the broker may have dropped some."""
    DOWN = "down"
    """Its node was down, while other nodes of the cluster were running."""
    SUSPECTED = "doubtful"
    """It was nearly full while it was consumed, and perhaps full between two checks."""


class Refusal(enum.StrEnum):
    """The reasons why the queue could not be used."""

    IN_USE = "in_use"
    """It has another consumer."""
    DECLARED_OTHERWISE = "declared_otherwise"
    """It was declared with another bound or expiry."""


@dataclass(slots=True)
class DurableQueueCounts:
    """Counters of one durable subscription; they continue over reconnections.

    Attributes:
        taken: deliveries that arrived.
        redelivered: of these, those that the broker had delivered before.
        repeated: of these, those that were recorded before, and so were skipped.
        acknowledged: acknowledged deliveries.
        declared: the number of times that the queue was created.
        losses: the number of times that messages may have been lost, by cause.
        refusals: the number of times that the queue could not be used, by cause.
        waiting: messages in the queue at the last check, without those in transit; ``None`` while it is not
            consumed, because it is not checked then.
        unacknowledged: deliveries that wait until they are recorded.
        is_quorum: whether it is a quorum queue, which an earlier version of the gateway created in a
            virtual host whose queues are quorum queues by default.
        is_down: whether another node reported its node as down; until the queue is consumed again.
    """

    taken: int = 0
    redelivered: int = 0
    repeated: int = 0
    acknowledged: int = 0
    declared: int = 0
    losses: Counter[Loss] = field(default_factory=Counter)
    refusals: Counter[Refusal] = field(default_factory=Counter)
    waiting: int | None = None
    unacknowledged: int = 0
    is_quorum: bool = False
    is_down: bool = False

    def looked(self, waiting: int) -> None:
        """Note the number of messages in the queue."""
        self.waiting = waiting

    def loss_suspected(self) -> None:
        """Note that it was nearly full."""
        self.losses[Loss.SUSPECTED] += 1

    @contextlib.contextmanager
    def connection(self) -> Iterator[None]:
        """Cover one connection: deliveries that are unacknowledged at its end return to the queue."""
        try:
            yield
        finally:
            self.waiting = None
            self.unacknowledged = 0


_IDENTITY_OCTETS: Final = 8
_HELD_SECONDS: Final = 0.05


class Ledger(Protocol):
    """Remembers which deliveries were recorded, and when that is durable."""

    def is_recorded(self, identity: str) -> bool:
        """Return whether the consequences of the delivery with this identity are recorded."""
        ...

    def recording(self, identity: str) -> AbstractContextManager[None]:
        """Assign records to the delivery with this identity while the context lasts."""
        ...

    def came_again(self, identity: str) -> None:
        """Note that a recorded delivery came again, and may do so once more."""
        ...

    @property
    def position(self) -> int:
        """The position of the last record."""
        ...

    async def committed(self, position: int) -> None:
        """Wait until all records up to ``position`` survive the death of this process."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What a message of a durable queue is.

    Attributes:
        identity: of the message, as the ledger knows it.
        deliver: passes it on.
        repeated: called instead if the ledger has it.
        is_signed: whether the identity is certain, so that any message with one that the ledger has is a
            repetition; otherwise only one that the broker delivers again is.
    """

    identity: str
    deliver: Callable[[], object]
    repeated: Callable[[], None] = lambda: None
    is_signed: bool = False


class UnacknowledgedDeliveries:
    """The deliveries of one consumer, without those of earlier connections.

    Args:
        ledger: remembers recorded deliveries.
        deliver: called with each delivery, once.
        ready: returns whether the session accepts deliveries; until then they wait, unacknowledged.
        counts: the counters of the subscription.
        received: is set with each delivery that arrives or is passed on. The broker's answers come after
            deliveries, which may take longer than the time limit of an answer.

        read: returns what a message is, in the place of ``deliver``; ``None`` for one that waits for the next
            connection, with all behind it.
        commit: returns what is to be done, in a thread, when the records of all deliveries so far are
            durable, before these are acknowledged; ``None`` where that is nothing.

    Attributes:
        repeated: deliveries that had been passed on before.
    """

    def __init__(
        self,
        ledger: Ledger,
        deliver: Callable[[AbstractIncomingMessage], object],
        ready: Callable[[], bool] = lambda: True,
        counts: DurableQueueCounts | None = None,
        received: asyncio.Event | None = None,
        *,
        read: Callable[[AbstractIncomingMessage], Reading | None] | None = None,
        commit: Callable[[], Callable[[], None]] | None = None,
    ) -> None:
        self.repeated = 0
        self._commit = commit
        self._received = received or asyncio.Event()
        self._ledger = ledger
        self._read = read or (lambda message: Reading(identity_of(message), partial(deliver, message)))
        self._ready = ready
        self._waiting: deque[AbstractIncomingMessage] = deque()  # no longer than the consumer's prefetch
        self._counts = counts or DurableQueueCounts()
        self._last: AbstractIncomingMessage | None = None
        self._passed_on = 0
        self._acknowledged = 0  # of these
        self._position = 0
        self._news = asyncio.Event()
        self._held = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    async def arrived(self, message: AbstractIncomingMessage) -> None:
        """Take a delivery, in the broker's order."""
        self._received.set()
        self._waiting.append(message)
        self._counts.taken += 1
        self._counts.redelivered += bool(message.redelivered)
        self._counts.unacknowledged += 1
        self.proceed()

    def proceed(self) -> None:
        """Pass waiting deliveries on, in order, as long as the session accepts them."""
        while self._waiting and self._ready():
            self._received.set()
            message = self._waiting[0]
            reading = self._read(message)
            if reading is None:
                return
            self._waiting.popleft()
            identity = reading.identity
            if (message.redelivered or reading.is_signed) and self._ledger.is_recorded(identity):
                self._ledger.came_again(identity)
                self.repeated += 1
                self._counts.repeated += 1
                reading.repeated()
            else:
                with self._ledger.recording(identity):
                    reading.deliver()
            self._last, self._position = message, self._ledger.position
            self._passed_on += 1
            self._news.set()
        if self._waiting:
            self._idle.clear()
            self._held.set()
        else:
            self._idle.set()

    @property
    def are_passed_on(self) -> bool:
        """Whether no delivery waits for the session."""
        return self._idle.is_set()

    async def all_passed_on(self) -> None:
        """Wait until no delivery waits for the session."""
        await self._idle.wait()

    async def release(self) -> None:
        """Pass waiting deliveries on soon after the session accepts them; never returns."""
        while True:
            await self._held.wait()
            self._held.clear()
            await asyncio.sleep(_HELD_SECONDS)
            self.proceed()

    async def acknowledge(self) -> None:
        """Acknowledge durably recorded deliveries, many at once, until the channel ends.

        Raises:
            AMQPError, ChannelInvalidStateError: the channel has ended.
            LinkError: what was accepted cannot be written.
        """
        while True:
            await self._news.wait()
            self._news.clear()
            last, position, deliveries = self._last, self._position, self._passed_on
            if last is not None:
                commit = None if self._commit is None else self._commit()
                await self._ledger.committed(position)
                if commit is not None:
                    await asyncio.to_thread(commit)
                await last.ack(multiple=True)
                self._counts.acknowledged += deliveries - self._acknowledged
                self._counts.unacknowledged -= deliveries - self._acknowledged
                self._acknowledged = deliveries


def identity_of(message: AbstractIncomingMessage) -> str:
    """Return the identity of a message, which is kept when it is delivered again: 16 hexadecimal digits.

    It covers exchange, routing key, body and properties, including the sender's time.
    """
    digest = blake2b(digest_size=_IDENTITY_OCTETS)
    headers = sorted((str(name), repr(value)) for name, value in message.headers.items())
    said = (message.exchange, message.routing_key, message.message_id, message.user_id, message.timestamp)
    for part in (repr(said).encode(), repr(headers).encode(), message.body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


log = structlog.get_logger(__name__)

KEPT_PREFETCH: Final = 1_000
"""Unacknowledged messages: they are in memory if the disk is slow, and are repeated after a kill."""

SUSPICIOUS_SHARE: Final = 0.9
"""Share of the queue's length from which on messages may be lost between two checks, seconds apart."""

OWN_PREFIX: Final = "amqp-gateway."
"""The prefix of every queue of the gateway; its users may declare no others."""

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
"""Values of ``x-queue-type``."""

QUORUM_REMARK: Final = (
    "the durable subscription's queue {queue} is a quorum queue: RabbitMQ 4 drops a message of it after 20"
    " deliveries, unless its delivery limit is another one; delete it while the gateway is stopped, and the"
    " gateway declares a classic queue, which has no such limit"
)

_DOWN: Final = ("home node", "due to timeout")
"""Parts of RabbitMQ's answer where the node of a durable queue is down.

3.10 answers at once, 4.0 after 70 s.
"""

_DRAIN_SECONDS: Final = 0.05
_CLOSED_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class DurableSubscription:
    """A durable subscription: a queue that is kept for its consumer's return.

    Attributes:
        queue: the name of the queue.
        max_length: messages; the broker drops the oldest beyond it.
        expires: nanoseconds without a consumer after which the broker deletes it.
        ledger: remembers which deliveries were recorded.
        counts: the counters of the subscription.
    """

    queue: str
    max_length: int
    expires: int
    ledger: Ledger
    counts: DurableQueueCounts = field(default_factory=DurableQueueCounts)

    @property
    def remark(self) -> str:
        """A remark for people about the queue in use, on one line; empty where there is none."""
        return QUORUM_REMARK.format(queue=self.queue) if self.counts.is_quorum else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableQueue(WatchedQueue):
    """A durable classic queue with an expiry and one exclusive consumer.

    The type is declared, because a virtual host may have another default. A quorum queue of this name, with
    the same bound and expiry, is used as it is: an earlier version of the gateway, which declared no type,
    created it where quorum queues are the default.

    Attributes:
        name: the name of the queue.
        expires: nanoseconds without a consumer after which the broker deletes it.
        counts: the counters of the subscription.
    """

    name: str
    expires: int
    prefetch: int = KEPT_PREFETCH
    counts: DurableQueueCounts = field(default_factory=DurableQueueCounts)

    async def look(
        self, connection: AbstractConnection, channel: AbstractChannel
    ) -> tuple[int | None, AbstractChannel]:
        """Look at it before it is used: how many messages are in it, and of what type it is.

        This uses the channel that will consume it, as a broker or a limit of its user may permit only one.
        The broker closes a channel on which a queue is missing, or has another type: then another is opened.

        Args:
            connection: the connection of the channel.
            channel: the channel that will consume it.

        Returns:
            The number of messages, ``None`` where the queue does not exist; and the channel to use now.

        Raises:
            LinkError: its node is down. The queue will return with its node, without messages
                of the meantime.
        """
        waiting = await self.waiting(channel)
        if waiting is None:
            self.counts.is_quorum = False
            return None, await another_channel(connection)
        was_quorum = self.counts.is_quorum
        self.counts.is_quorum = False
        # A passive declaration does not return the type. The last known one is tried first: each refused one
        # is an error in the broker's log.
        for queue_type in (QUORUM, CLASSIC) if was_quorum else (CLASSIC, QUORUM):
            try:
                await self._declare(channel, queue_type)
            except exceptions.ChannelPreconditionFailed:
                channel = await another_channel(connection)
                continue
            self.counts.is_quorum = queue_type == QUORUM
            break
        if self.counts.is_quorum and not was_quorum:
            log.warning("durable-queue-is-quorum", detail=QUORUM_REMARK.format(queue=self.name))
        return waiting, channel

    async def waiting(self, channel: AbstractChannel) -> int | None:
        """Return the number of messages in it; ``None`` where it does not exist, and the channel is closed.

        Raises:
            LinkError: as of `look`.
        """
        try:
            declared = await channel.declare_queue(self.name, passive=True)
        except exceptions.ChannelNotFoundEntity as error:  # the broker has closed the channel
            if not any(sign in str(error) for sign in _DOWN):
                return None
            self.counts.is_down = True
            text = f"the durable subscription waits for the node that has its queue: {error}"
            raise LinkError(Trouble.UNREACHABLE, text) from error
        waiting = declared.declaration_result.message_count or 0
        self.looked(waiting)
        return waiting

    def loss(self, waiting: int | None) -> Loss | None:
        """Return why it lacks messages since it was last consumed; ``None`` if it does not.

        Args:
            waiting: the number of messages that `look` found in it.
        """
        if waiting is None:
            return Loss.MISSING
        if self.counts.is_down:
            return Loss.DOWN
        return Loss.FULL if waiting >= self.max_length else None

    def missed(self, loss: Loss | None, waiting: int | None) -> str:
        """Return the reason of a loss for people; empty where there is none."""
        texts = {
            Loss.MISSING: "did not exist: it is new, or has expired",
            Loss.FULL: f"was full with {waiting} messages: it dropped the oldest",
            Loss.DOWN: "was on a node that was down: it lacks what was sent meanwhile",
            Loss.FORGOTTEN: (
                "had protected bodies, and it is not known which were accepted before: the file of accepted"
                " bodies is missing or damaged"
            ),
            Loss.UNBOUND: "was not bound any more: its exchange was declared again",
            Loss.SILENT: "was bound, and nothing arrived in it",
        }
        return f"the queue {self.name} {texts[loss]}" if loss in texts else ""

    async def declare(
        self,
        connection: AbstractConnection,
        channel: AbstractChannel,
        bindings: Callable[[str], Sequence[Binding]],
        *,
        is_new: bool,
    ) -> AbstractQueue:
        """Declare and bind it; existing bindings stay.

        Args:
            connection: the connection of the channel.
            channel: the channel that will consume it.
            bindings: returns the bindings, by its name.
            is_new: whether it does not exist. If it cannot be bound it is deleted then, because it would seem
                to have received everything.

        Raises:
            ChannelPreconditionFailed: it exists with other arguments.
        """
        await channel.set_qos(prefetch_count=self.prefetch)
        try:
            queue = await self._declare(channel, QUORUM if self.counts.is_quorum else CLASSIC)
        except exceptions.ChannelPreconditionFailed:
            self.counts.refusals[Refusal.DECLARED_OTHERWISE] += 1
            raise
        try:
            await bind(queue, bindings)
        except exceptions.ChannelClosed:
            if is_new:
                await (await connection.channel(publisher_confirms=False)).queue_delete(self.name)
            raise
        self.counts.declared += is_new
        return queue

    async def _declare(self, channel: AbstractChannel, queue_type: str) -> AbstractQueue:
        return await channel.declare_queue(
            self.name,
            durable=True,
            arguments={
                "x-queue-type": queue_type,
                "x-expires": max(1, self.expires // MILLISECOND),
                "x-max-length": self.max_length,
                "x-overflow": "drop-head",
            },
        )

    async def consume(
        self,
        endpoint: AmqpEndpoint,
        queue: AbstractQueue,
        arrived: Callable[[AbstractIncomingMessage], Awaitable[None]],
    ) -> None:
        """Consume it exclusively.

        Raises:
            LinkError: another process consumes it.
        """
        try:
            await queue.consume(arrived, exclusive=True)
            self.counts.is_down = False
        except exceptions.ChannelAccessRefused as error:
            if "exclusive" not in str(error):
                raise
            self.counts.refusals[Refusal.IN_USE] += 1
            raise LinkError(
                Trouble.MISCONFIGURED,
                f"{endpoint}: the queue {self.name} has another consumer: two gateways cannot share a durable"
                " subscription; stop the other one, or name another queue under 'durable'",
            ) from error

    async def drained(self, channel: AbstractChannel) -> None:
        """Wait until all waiting messages have arrived on the channel that consumes it."""
        while await messages_in(channel, self.name):  # noqa: ASYNC110  a broker does not say when
            await asyncio.sleep(_DRAIN_SECONDS)
        # The broker's channel delivers what it has before it answers another request.
        await channel.declare_queue(self.name, passive=True)


async def another_channel(connection: AbstractConnection) -> AbstractChannel:
    """Open a channel in the place of one that the broker has closed.

    RabbitMQ counts channels of a user behind their ends: the closed one still counts for some milliseconds.
    """
    await asyncio.sleep(_CLOSED_SECONDS)
    return await connection.channel(publisher_confirms=False)


def durable_queue(subscription: DurableSubscription, watch_seconds: float = 5.0) -> DurableQueue:
    """Return the queue of a durable subscription, checked every ``watch_seconds``."""
    counts = subscription.counts
    return DurableQueue(
        subscription.max_length,
        max(1, int(subscription.max_length * SUSPICIOUS_SHARE)),
        watch_seconds,
        looked=counts.looked,
        loss_suspected=counts.loss_suspected,
        name=subscription.queue,
        expires=subscription.expires,
        counts=counts,
    )


def default_name(purpose: str, source: str) -> str:
    """Return the default name of a source's durable subscription, to ``events`` or as a ``console``."""
    return f"{OWN_PREFIX}{purpose}.{source}"
