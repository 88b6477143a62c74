"""The default queue of the gateway: bounded, and deleted with its connection."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

from gateway.dialects.session import Binding
from gateway.links.amqp_connection import CONNECT_SECONDS, LinkError, OpenConnectionSilentError, Trouble
from gateway.tasks import until_one_ends

Arrived: TypeAlias = Callable[[AbstractIncomingMessage], Awaitable[None]]

PREFETCH = 100
"""Messages in transit at a time. An answer to `WatchedQueue.watch` waits behind them: with more it
would be late just when the queue fills; 100 still permit 2,000 messages a second over 50 ms.
"""


_SOON_SECONDS = 0.5
"""Seconds until the next check of a queue in which messages waited."""
_TURNS = 4
"""The client library begins a task for each delivery, which begins another one, before it reads an answer."""


@dataclass(frozen=True, slots=True)
class Proofs:
    """The receiver of what checks of a queue prove. Times are nanoseconds of the gateway's clock.

    Attributes:
        now: returns the time.
        received: called with a time up to which every message of the queue was received, and passed on.
        loss_suspected: called once when messages may be lost, after those that waited have been consumed
            (answers to earlier requests would be stale), with the reason, and the last such time.
    """

    now: Callable[[], int]
    received: Callable[[int], None]
    loss_suspected: Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class WatchedQueue:
    """A length-limited queue.

    The broker drops the oldest message beyond ``max_length`` silently, so `watch` checks how many wait.

    Attributes:
        max_length: messages.
        suspicious: more waiting messages than a consumer that keeps up ever has.
        watch_seconds: interval of checks.
        prefetch: messages that may be in transit, or unacknowledged.
        sooner: is set for a check at once.
        received: is set whenever a message arrives: an answer may have to wait behind many of them.
        looked: called at each check with the number of waiting messages.
        loss_suspected: called when messages may be lost, as often as `watch` reports it.
    """

    max_length: int
    suspicious: int
    watch_seconds: float = 5.0
    prefetch: int = PREFETCH
    sooner: asyncio.Event = field(default_factory=asyncio.Event)
    received: asyncio.Event = field(default_factory=asyncio.Event)
    looked: Callable[[int], None] = lambda _waiting: None
    loss_suspected: Callable[[], None] = lambda: None

    async def watch(
        self,
        channel: AbstractChannel,
        name: str,
        proofs: Proofs,
        exchanges: Iterable[str] = (),
        *,
        bounded: bool = True,
    ) -> None:
        """Check the queue until the channel ends.

        A passive declaration on the channel that consumes the queue is a barrier: what reached the queue
        before it was sent either is counted as waiting, or was delivered before the answer. So an answer
        that counts no message proves that everything until then was received, however late it is read.

        Args:
            channel: the channel that consumes the queue.
            name: the name of the queue.
            proofs: what is found out is reported there.
            exchanges: exchanges that must exist, too.
            bounded: whether the broker bounds the queue. Otherwise the gateway does: if the queue grows
                beyond `max_length`, its connection is given up, and nothing is lost unnoticed.

        Raises:
            ChannelNotFoundEntity: the queue or an exchange does not exist.
            OpenConnectionSilentError: the broker neither answers nor sends anything else: the connection may
                be open on one side only, which shows here before heartbeats are missing.
            LinkError: the queue is longer than `max_length`, and the broker cannot bound it.
        """
        wanted = sorted(set(exchanges))
        suspected = False
        received_until = proofs.now()
        pause = self.watch_seconds
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.sooner.wait()
            self.sooner.clear()
            asked = proofs.now()
            waiting = await self._answered(self._look(channel, name, wanted))
            self.looked(waiting)
            pause = min(self.watch_seconds, _SOON_SECONDS) if waiting else self.watch_seconds
            if not waiting:
                await taken()
                received_until = asked
                proofs.received(asked)
            if waiting > self.max_length and not bounded:
                text = (
                    f"more than {self.max_length} messages wait in {name}, which this broker does not bound"
                )
                raise LinkError(Trouble.BROKEN, text)
            if suspected and waiting < self.suspicious:
                reason = f"more than {self.suspicious} messages waited in {name}: some may be lost"
                self.loss_suspected()
                proofs.loss_suspected(reason, received_until)
            suspected = waiting >= self.suspicious

    async def _answered(self, look: Coroutine[Any, Any, int]) -> int:
        answers: list[int] = []

        async def answered() -> None:
            answers.append(await look)

        await until_one_ends(answered(), self._silence())
        return answers[0]

    async def _silence(self) -> None:
        """Raise `OpenConnectionSilentError` when no message came within the time limit of an answer.

        All messages that a broker without a prefetch has sent come before its answer.
        """
        while True:
            self.received.clear()
            await asyncio.sleep(CONNECT_SECONDS)
            if not self.received.is_set():
                raise OpenConnectionSilentError

    @staticmethod
    async def _look(channel: AbstractChannel, name: str, exchanges: Sequence[str]) -> int:
        waiting = await messages_in(channel, name)
        for exchange in exchanges:
            await channel.declare_exchange(exchange, passive=True)
        return waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnQueue(WatchedQueue):
    """An exclusive, auto-delete queue, which ends with its connection.

    Attributes:
        purpose: a part of its name, ``amqp-gateway.<purpose>.<uuid>``.
    """

    purpose: str

    @contextlib.contextmanager
    def listening(self, arrived: Arrived) -> Iterator[Arrived]:
        """Return the consumer of the queue: it passes deliveries to ``arrived`` while the block lasts.

        Afterwards, while the channel is being closed, they are dropped, as the queue ends with its
        connection: an acknowledgement would be an error for the broker.
        """
        listens = True

        async def take(message: AbstractIncomingMessage) -> None:
            if listens:
                self.received.set()
                await arrived(message)

        try:
            yield take
        finally:
            listens = False

    async def declare(
        self,
        channel: AbstractChannel,
        bindings: Callable[[str], Sequence[Binding]],
        *,
        extended: bool = True,
    ) -> AbstractQueue:
        """Declare and bind it, under a new name.

        Args:
            channel: the channel that declares it.
            bindings: returns the bindings, by its name.
            extended: as `BrokerAbilities.extended`. An older broker gets neither a bound, which it may
                refuse, nor a prefetch: TCP limits what it sends ahead.
        """
        if extended:
            await channel.set_qos(prefetch_count=self.prefetch)
        queue = await channel.declare_queue(
            f"amqp-gateway.{self.purpose}.{uuid.uuid4()}",
            exclusive=True,
            auto_delete=True,
            arguments={"x-max-length": self.max_length, "x-overflow": "drop-head"} if extended else None,
        )
        await bind(queue, bindings)
        return queue


async def taken() -> None:
    """Let the deliveries that came before an answer be passed on."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


async def messages_in(channel: AbstractChannel, name: str) -> int:
    """Return how many messages wait in a queue.

    Raises:
        ChannelNotFoundEntity: it does not exist; the broker has closed the channel.
    """
    declared = await channel.declare_queue(name, passive=True)
    return declared.declaration_result.message_count or 0


async def bind(queue: AbstractQueue, bindings: Callable[[str], Sequence[Binding]]) -> None:
    """Bind a queue; ``bindings`` returns its bindings by its name."""
    for binding in bindings(queue.name):
        await queue.bind(binding.exchange, binding.routing_key)
