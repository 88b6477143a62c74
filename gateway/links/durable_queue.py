"""A queue that outlives its connection: what is said while nobody listens waits in it, for a time.

It is durable, belongs to one consumer, and is bounded in length and, by its expiry, in time: a gateway that
never comes back leaves nothing behind in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aiormq import exceptions

from gateway.dialects.session import Binding
from gateway.links.amqp_connection import AmqpEndpoint, LinkError, Trouble, close_channel
from gateway.links.durable_queue_counts import DurableQueueCounts, Loss, Refusal
from gateway.links.own_queue import WatchedQueue, bind
from gateway.links.unacknowledged_deliveries import Ledger

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
            waiting: as `waiting` told while nobody consumed it.
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
            LinkError: somebody else does.
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
        while True:
            declared = await channel.declare_queue(self.name, passive=True)
            if not declared.declaration_result.message_count:
                break
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
