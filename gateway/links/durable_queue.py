"""A queue that outlives its connection: messages that are sent meanwhile wait in it, for a time.

It is durable, belongs to one consumer, and is bounded in length and, by its expiry, in time: a gateway that
never comes back leaves nothing behind in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Protocol

import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aiormq import exceptions

from gateway.dialects.session import Binding
from gateway.links.amqp_connection import AmqpEndpoint, LinkError, Trouble, close_channel
from gateway.links.own_queue import WatchedQueue, bind, messages_in


class Loss(enum.StrEnum):
    """Why some messages may not be in the queue; the broker reports no message that it drops."""

    MISSING = "missing"
    """The queue was not there: it is new, or has expired."""
    FULL = "full"
    """It was full when it was consumed again: it dropped the oldest."""
    UNBOUND = "unbound"
    """Its exchange was made again while the queue was not consumed."""
    DOWN = "down"
    """The node that has it was down, while other nodes of its cluster went on."""
    DOUBTFUL = "doubtful"
    """It was nearly full while it was consumed, and perhaps full between two looks."""


class Refusal(enum.StrEnum):
    """Why the broker did not let us have the queue."""

    IN_USE = "in_use"
    """It has another consumer."""
    DECLARED_OTHERWISE = "declared_otherwise"
    """There is one of this name with another bound or expiry."""


@dataclass(slots=True)
class DurableQueueCounts:
    """Counters of one durable subscription; they go on over every reconnection.

    Attributes:
        taken: deliveries that arrived here.
        redelivered: of these, those that the broker had delivered before.
        repeated: of these, those that the log had already: they were passed over.
        acknowledged: deliveries that the broker may forget.
        declared: times that the queue was made.
        losses: times that some of what was said may be missing, by cause.
        refusals: times that the queue could not be used, by cause.
        waiting: messages in the queue at the last look, without those on their way to us; ``None`` while it
            is not consumed, because it is not looked at then.
        unacknowledged: deliveries that arrived and wait for the log.
        is_quorum: the queue in use is a quorum queue, as an earlier version of the gateway left behind in a
            virtual host whose queues are quorum queues by default.
        is_down: another node said that the one that has the queue is down; until the queue is consumed again.
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
        """So many messages wait in the queue."""
        self.waiting = waiting

    def doubted(self) -> None:
        """It was nearly full."""
        self.losses[Loss.DOUBTFUL] += 1

    @contextlib.contextmanager
    def connection(self) -> Iterator[None]:
        """The time of one connection: what is not acknowledged at its end is the broker's again."""
        try:
            yield
        finally:
            self.waiting = None
            self.unacknowledged = 0


_IDENTITY_OCTETS: Final = 8
_HELD_SECONDS: Final = 0.05


class Ledger(Protocol):
    """Knows which deliveries were recorded, and when that is durable."""

    def is_recorded(self, identity: str) -> bool:
        """Whether what the delivery of this identity led to is recorded already."""
        ...

    def recording(self, identity: str) -> AbstractContextManager[None]:
        """While the context lasts, what is recorded comes of the delivery of this identity."""
        ...

    def came_again(self, identity: str) -> None:
        """The delivery of this identity, which was recorded, came again, and may do so once more."""
        ...

    @property
    def position(self) -> int:
        """The position of what was recorded last."""
        ...

    async def lasting(self, position: int) -> None:
        """Wait until all that was recorded up to ``position`` cannot be lost by the death of this process."""
        ...


class UnacknowledgedDeliveries:
    """The deliveries of one consumer; what an earlier connection delivered is none of them.

    Args:
        ledger: where they are noted.
        tell: told each delivery, once.
        ready: whether the session takes deliveries: until then they wait, and are not acknowledged.
        counts: of the subscription.
        heard: set with each delivery that comes or is told. The broker's answers stand behind deliveries,
            which may take longer than an answer is waited for.

    Attributes:
        repeated: deliveries that had been told before.
    """

    def __init__(
        self,
        ledger: Ledger,
        tell: Callable[[AbstractIncomingMessage], None],
        ready: Callable[[], bool] = lambda: True,
        counts: DurableQueueCounts | None = None,
        heard: asyncio.Event | None = None,
    ) -> None:
        self.repeated = 0
        self._heard = heard or asyncio.Event()
        self._ledger = ledger
        self._tell = tell
        self._ready = ready
        self._waiting: deque[AbstractIncomingMessage] = deque()  # no longer than the consumer's prefetch
        self._counts = counts or DurableQueueCounts()
        self._told: AbstractIncomingMessage | None = None
        self._deliveries_told = 0
        self._acknowledged = 0  # of these
        self._position = 0
        self._news = asyncio.Event()
        self._held = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    async def arrived(self, message: AbstractIncomingMessage) -> None:
        """A delivery, in the broker's order."""
        self._heard.set()
        self._waiting.append(message)
        self._counts.taken += 1
        self._counts.redelivered += bool(message.redelivered)
        self._counts.unacknowledged += 1
        self.proceed()

    def proceed(self) -> None:
        """Deliver what waits, in order, as long as the session takes it."""
        while self._waiting and self._ready():
            self._heard.set()
            message = self._waiting.popleft()
            identity = identity_of(message)
            if message.redelivered and self._ledger.is_recorded(identity):
                self._ledger.came_again(identity)
                self.repeated += 1
                self._counts.repeated += 1
            else:
                with self._ledger.recording(identity):
                    self._tell(message)
            self._told, self._position = message, self._ledger.position
            self._deliveries_told += 1
            self._news.set()
        if self._waiting:
            self._idle.clear()
            self._held.set()
        else:
            self._idle.set()

    async def all_told(self) -> None:
        """Wait until no delivery waits for the session."""
        await self._idle.wait()

    async def release(self) -> None:
        """Deliver what waits, soon after the session takes it; never ends."""
        while True:
            await self._held.wait()
            self._held.clear()
            await asyncio.sleep(_HELD_SECONDS)
            self.proceed()

    async def acknowledge(self) -> None:
        """Acknowledge, many at once, what is recorded durably; ends by what ends the channel only.

        Raises:
            AMQPError, ChannelInvalidStateError: the channel has ended.
        """
        while True:
            await self._news.wait()
            self._news.clear()
            told, position, deliveries = self._told, self._position, self._deliveries_told
            if told is not None:
                await self._ledger.lasting(position)
                await told.ack(multiple=True)
                self._counts.acknowledged += deliveries - self._acknowledged
                self._counts.unacknowledged -= deliveries - self._acknowledged
                self._acknowledged = deliveries


def identity_of(message: AbstractIncomingMessage) -> str:
    """What distinguishes a message from any other, also when it is delivered again: 16 hexadecimal digits.

    It covers where it was published and all that it says, with the sender's time.
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
"""Messages that are not acknowledged: what a slow disk keeps in memory, and what comes again after a kill."""

DOUBTFUL_SHARE: Final = 0.9
"""Of the queue's length. Looks are seconds apart: a queue this full may have been full in between."""

OWN_PREFIX: Final = "amqp-gateway."
"""Of every queue that is the gateway's own; its users may declare no others."""

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
"""Values of ``x-queue-type``."""

QUORUM_REMARK: Final = (
    "the durable subscription's queue {queue} is a quorum queue: RabbitMQ 4 drops a message of it after 20"
    " deliveries, unless its delivery limit is another one; delete it while the gateway is stopped, and the"
    " gateway declares a classic queue, which has no such limit"
)

_DOWN: Final = ("home node", "due to timeout")
"""Parts of what RabbitMQ answers where the node that has a durable queue is down.

3.10 answers at once, 4.0 after 70 s.
"""

_MILLISECOND: Final = 1_000_000
_DRAIN_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class DurableSubscription:
    """A durable subscription: a queue that is kept for its consumer's return.

    Attributes:
        queue: its name.
        max_length: messages; the broker drops the oldest beyond it.
        expires: nanoseconds without a consumer after which the broker deletes it.
        ledger: what of it was told.
        counts: what is counted of it.
    """

    queue: str
    max_length: int
    expires: int
    ledger: Ledger
    counts: DurableQueueCounts = field(default_factory=DurableQueueCounts)

    @property
    def remark(self) -> str:
        """What people should know of the queue in use, in one line; empty where all is well."""
        return QUORUM_REMARK.format(queue=self.queue) if self.counts.is_quorum else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableQueue(WatchedQueue):
    """A durable classic queue with an expiry, which only one consumer may have.

    The type is declared, because a virtual host may have another default. A quorum queue of this name, with
    the same bound and expiry, is used as it is: an earlier version of the gateway, which declared no type,
    made it where quorum queues are the default.

    Attributes:
        name: of the queue.
        expires: nanoseconds without a consumer after which the broker deletes it.
        counts: of the subscription.
    """

    name: str
    expires: int
    prefetch: int = KEPT_PREFETCH
    counts: DurableQueueCounts = field(default_factory=DurableQueueCounts)

    async def waiting(self, connection: AbstractConnection) -> int | None:
        """Messages in it; ``None`` where there is no such queue.

        Raises:
            LinkError: it is on a node that is down. It is there again with that node, without what is
                published meanwhile.
        """
        channel = await connection.channel(publisher_confirms=False)
        try:
            declared = await channel.declare_queue(self.name, passive=True)
        except exceptions.ChannelNotFoundEntity as error:  # which closes the channel
            if not any(sign in str(error) for sign in _DOWN):
                return None
            self.counts.is_down = True
            text = f"the durable subscription waits for the node that has its queue: {error}"
            raise LinkError(Trouble.UNREACHABLE, text) from error
        await close_channel(channel)
        waiting = declared.declaration_result.message_count or 0
        self.looked(waiting)
        return waiting

    def loss(self, waiting: int | None) -> Loss | None:
        """Why it lacks some of what was said since it was consumed last; ``None`` if it does not.

        Args:
            waiting: as `waiting` returned while it was not consumed.
        """
        if waiting is None:
            return Loss.MISSING
        if self.counts.is_down:
            return Loss.DOWN
        return Loss.FULL if waiting >= self.max_length else None

    def missed(self, loss: Loss | None, waiting: int | None) -> str:
        """The same for people; empty where nothing is missed."""
        match loss:
            case Loss.MISSING:
                return f"the queue {self.name} was not there: it is new, or has expired"
            case Loss.FULL:
                return f"the queue {self.name} was full with {waiting} messages: it dropped the oldest"
            case Loss.DOWN:
                return f"the queue {self.name} was on a node that was down: it lacks what was sent meanwhile"
            case Loss.UNBOUND:
                return f"the queue {self.name} was not bound any more: its exchange was made again"
            case _:
                return ""

    async def declare(
        self,
        connection: AbstractConnection,
        channel: AbstractChannel,
        bindings: Callable[[str], Sequence[Binding]],
        *,
        is_new: bool,
    ) -> AbstractQueue:
        """Declare and bind it; bindings that it has already stay.

        Args:
            connection: of the channel.
            channel: that will consume it.
            bindings: are given its name.
            is_new: it is not there. One that cannot be bound is deleted then: it would be taken for one that
                has heard everything.

        Raises:
            ChannelPreconditionFailed: it was declared otherwise.
        """
        await channel.set_qos(prefetch_count=self.prefetch)
        was_quorum = self.counts.is_quorum
        self.counts.is_quorum = not is_new and await self._is_quorum(connection)
        try:
            queue = await self._declare(channel, QUORUM if self.counts.is_quorum else CLASSIC)
        except exceptions.ChannelPreconditionFailed:
            self.counts.refusals[Refusal.DECLARED_OTHERWISE] += 1
            raise
        if self.counts.is_quorum and not was_quorum:
            log.warning("durable-queue-is-quorum", detail=QUORUM_REMARK.format(queue=self.name))
        try:
            await bind(queue, bindings)
        except exceptions.ChannelClosed:
            if is_new:
                await (await connection.channel(publisher_confirms=False)).queue_delete(self.name)
            raise
        self.counts.declared += is_new
        return queue

    async def _is_quorum(self, connection: AbstractConnection) -> bool:
        """Whether a queue that is there is a quorum queue, and otherwise as it is declared here.

        A passive declaration says nothing of the type. The type that the queue had last is tried first: each
        one that is refused ends its channel, and is an error in the broker's log.
        """
        types = (QUORUM, CLASSIC) if self.counts.is_quorum else (CLASSIC, QUORUM)
        for queue_type in types:
            channel = await connection.channel(publisher_confirms=False)
            try:
                await self._declare(channel, queue_type)
            except exceptions.ChannelPreconditionFailed:
                continue  # and the channel is closed
            await close_channel(channel)
            return queue_type == QUORUM
        return False  # of another type, or bound otherwise: to be refused as the one that is wanted

    async def _declare(self, channel: AbstractChannel, queue_type: str) -> AbstractQueue:
        return await channel.declare_queue(
            self.name,
            durable=True,
            arguments={
                "x-queue-type": queue_type,
                "x-expires": max(1, self.expires // _MILLISECOND),
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
        """Consume it, as the only one who may.

        Raises:
            LinkError: another process does.
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
        """Wait until all that waited in it has arrived on the channel that consumes it."""
        while await messages_in(channel, self.name):  # noqa: ASYNC110  a broker does not say when
            await asyncio.sleep(_DRAIN_SECONDS)
        # The broker's channel passes on what it was handed before it answers another question.
        await channel.declare_queue(self.name, passive=True)


def kept_queue(subscription: DurableSubscription, watch_seconds: float = 5.0) -> DurableQueue:
    """The queue of a durable subscription, looked at every ``watch_seconds``."""
    counts = subscription.counts
    return DurableQueue(
        subscription.max_length,
        max(1, int(subscription.max_length * DOUBTFUL_SHARE)),
        watch_seconds,
        looked=counts.looked,
        doubted=counts.doubted,
        name=subscription.queue,
        expires=subscription.expires,
        counts=counts,
    )


def default_name(purpose: str, source: str) -> str:
    """What a source's durable subscription to ``events``, or as a ``console``, is called unless named."""
    return f"{OWN_PREFIX}{purpose}.{source}"
