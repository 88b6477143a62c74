"""What arrives from a kept queue: told once, and acknowledged when it is told lastingly.

A broker delivers again what was not acknowledged. Which of it was told already, also by a process that was
killed since, a `Ledger` knows: it is kept with what the deliveries led to, so neither is ever without the
other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Final, Protocol

from aio_pika.abc import AbstractIncomingMessage

from gateway.links.durable_queue_counts import DurableQueueCounts

_IDENTITY_OCTETS: Final = 8
_HELD_SECONDS: Final = 0.05


class Ledger(Protocol):
    """Knows which deliveries were told, and when that is lasting."""

    def is_recorded(self, identity: str) -> bool:
        """Whether what the delivery of this identity led to is told already."""
        ...

    def recording(self, identity: str) -> AbstractContextManager[None]:
        """While the context lasts, what is told comes of the delivery of this identity."""
        ...

    def came_again(self, identity: str) -> None:
        """The delivery of this identity, which was told, came again, and may do so once more."""
        ...

    @property
    def position(self) -> int:
        """Of what was told last."""
        ...

    async def lasting(self, position: int) -> None:
        """Wait until all that was told up to ``position`` cannot be lost by the death of this process."""
        ...


class UnacknowledgedDeliveries:
    """The deliveries of one consumer; what a former connection delivered is none of them.

    Args:
        ledger: where they are noted.
        tell: told each delivery, once.
        ready: whether there is somebody to tell: until then deliveries wait, and are not acknowledged.
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
        """Tell what waits, in order, as long as there is somebody to tell."""
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
        """Wait until none waits for somebody to be told."""
        await self._idle.wait()

    async def release(self) -> None:
        """Tell, soon after there is somebody to tell, what waits; never ends."""
        while True:
            await self._held.wait()
            self._held.clear()
            await asyncio.sleep(_HELD_SECONDS)
            self.proceed()

    async def acknowledge(self) -> None:
        """Acknowledge, many at once, what is told lastingly; ends by what ends the channel only.

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
    """What tells a message from any other, also when it is delivered again: 16 hexadecimal digits.

    It covers where it was published and all that it says, with the sender's time.
    """
    digest = blake2b(digest_size=_IDENTITY_OCTETS)
    headers = sorted((str(name), repr(value)) for name, value in message.headers.items())
    said = (message.exchange, message.routing_key, message.message_id, message.user_id, message.timestamp)
    for part in (repr(said).encode(), repr(headers).encode(), message.body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
