"""The kind of queue that the gateway declares by default: bounded, gone with its connection."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue

from gateway.dialects.session import Binding
from gateway.links.amqp_connection import CONNECT_SECONDS, LinkError, Trouble
from gateway.tasks import until_one_ends

Arrived: TypeAlias = Callable[[AbstractIncomingMessage], Awaitable[None]]

PREFETCH = 100
"""Messages on their way to us at a time. An answer to `WatchedQueue.watch` waits behind them: with more it
would come too late just when the queue fills; with 100, 2,000 messages a second still fit a way of 50 ms.
"""


@dataclass(frozen=True, slots=True)
class WatchedQueue:
    """A length-limited queue.

    The broker drops the oldest message beyond ``max_length`` without a trace, so `watch` looks how many wait.

    Attributes:
        max_length: messages.
        doubtful: more messages waiting than a consumer that keeps up ever has.
        watch_seconds: between two looks.
        prefetch: messages on their way to us, or not acknowledged, at a time.
        sooner: set to have a look at once.
        heard: set whenever a message arrives: an answer may have to wait behind many of them.
        looked: told at each look how many messages wait.
        doubted: told that messages may be lost, as often as `watch` tells it.
    """

    max_length: int
    doubtful: int
    watch_seconds: float = 5.0
    prefetch: int = PREFETCH
    sooner: asyncio.Event = field(default_factory=asyncio.Event)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    looked: Callable[[int], None] = lambda _waiting: None
    doubted: Callable[[], None] = lambda: None

    async def watch(
        self,
        connection: AbstractConnection,
        name: str,
        doubt: Callable[[str, float], None],
        exchanges: Iterable[str] = (),
        *,
        channel: AbstractChannel | None = None,
        bounded: bool = True,
    ) -> None:
        """Look again and again; ends by what ends the connection only.

        All looks share one channel, because the broker counts each channel that is opened, and reports it by
        an event.

        Args:
            connection: that the queue was declared on.
            name: of the queue.
            doubt: told once that messages may be lost, when those that waited have been consumed (what is
                asked for before would be stale), and for how many seconds is unknown.
            exchanges: must be there each time too.
            channel: to look by, where the broker allows one for a connection; else another one is opened,
                and again where the broker has closed it.
            bounded: whether the broker bounds the queue. Otherwise we do: a queue that grows beyond
                `max_length` is given up with its connection, and nothing is missed unnoticed.

        Raises:
            ChannelNotFoundEntity: the queue or an exchange is gone.
            TimeoutError: the broker neither answers nor sends anything else: the connection may be open on
                one side only, which shows here before it shows in missing heartbeats.
            LinkError: the queue is longer than the broker was told to let it grow, or could be told.
        """
        wanted = sorted(set(exchanges))
        looking = channel
        doubted = False
        clock = asyncio.get_running_loop().time
        fine_at = clock()

        async def look() -> int:
            nonlocal looking
            if looking is None or (looking is not channel and looking.is_closed):
                looking = await connection.channel(publisher_confirms=False)
            return await self._look(looking, name, wanted)

        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.watch_seconds):
                    await self.sooner.wait()
            self.sooner.clear()
            waiting = await self._answered(look())
            self.looked(waiting)
            if waiting > self.max_length and not bounded:
                text = (
                    f"more than {self.max_length} messages wait in {name}, which this broker does not bound"
                )
                raise LinkError(Trouble.BROKEN, text)
            if doubted and waiting < self.doubtful:
                reason = f"more than {self.doubtful} messages waited in {name}: some may be lost"
                self.doubted()
                doubt(reason, clock() - fine_at)
            doubted = waiting >= self.doubtful
            if not doubted:
                fine_at = clock()

    async def _answered(self, look: Coroutine[Any, Any, int]) -> int:
        answers: list[int] = []

        async def answered() -> None:
            answers.append(await look)

        await until_one_ends(answered(), self._silence())
        return answers[0]

    async def _silence(self) -> None:
        """End by `TimeoutError` when no message came for as long as an answer may take.

        What a broker without a prefetch has sent stands before its answer, be it a flood of notifications.
        """
        while True:
            self.heard.clear()
            await asyncio.sleep(CONNECT_SECONDS)
            if not self.heard.is_set():
                raise TimeoutError

    @staticmethod
    async def _look(channel: AbstractChannel, name: str, exchanges: Sequence[str]) -> int:
        waiting = await messages_in(channel, name)
        for exchange in exchanges:
            await channel.declare_exchange(exchange, passive=True)
        return waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnQueue(WatchedQueue):
    """One exclusive, auto-delete queue: nothing of it outlives its connection.

    Attributes:
        purpose: part of its name, ``amqp-gateway.<purpose>.<uuid>``.
    """

    purpose: str

    @contextlib.contextmanager
    def listening(self, arrived: Arrived) -> Iterator[Arrived]:
        """What the queue is consumed with: it gives deliveries to ``arrived`` while the block lasts.

        Behind it, while the channel is being closed, they are dropped, as the queue goes with its connection:
        an acknowledgement would be an error to the broker.
        """
        listens = True

        async def take(message: AbstractIncomingMessage) -> None:
            if listens:
                self.heard.set()
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
        """Declare and bind it, under a name that was never used before.

        Args:
            channel: that declares it.
            bindings: given that name.
            extended: as `BrokerAbilities.extended`. An older broker is told neither a bound, which it may
                refuse, nor a prefetch: what it sends before we have read it, TCP holds up.
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


async def messages_in(channel: AbstractChannel, name: str) -> int:
    """Return how many messages wait in a queue.

    Raises:
        ChannelNotFoundEntity: there is no such queue; the broker has closed the channel.
    """
    declared = await channel.declare_queue(name, passive=True)
    return declared.declaration_result.message_count or 0


async def bind(queue: AbstractQueue, bindings: Callable[[str], Sequence[Binding]]) -> None:
    """Bind a queue; ``bindings`` are given its name."""
    for binding in bindings(queue.name):
        await queue.bind(binding.exchange, binding.routing_key)
