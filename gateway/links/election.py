"""Which of several agents on one broker serves: the one that holds an exclusive queue; the others stand by.

The queue belongs to the connection over which its holder hears requests, so both end at once, however that
comes: whoever has the queue hears requests, and nobody else does. RabbitMQ deletes it when the connection
ends, after a missing heartbeat at the latest, and tells that by an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from aio_pika.abc import AbstractConnection
from aiormq import exceptions

from gateway.links.amqp_connection import close_channel, ended
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

TRY_SECONDS = 5.0
"""Between two attempts where no event tells of the other's end: RabbitMQ logs each as an error."""
TOLD_TRY_SECONDS = 600.0
"""Between two attempts where events tell of its end, in case one was lost unnoticed."""
_PREFIX = "amqp-gateway.manager."
_LONGEST = 255


def manager_queue(exchange: str) -> str:
    """The name of the queue that the agent holds which serves consoles on a management exchange."""
    name = _PREFIX + exchange
    if len(name.encode()) <= _LONGEST:
        return name
    return _PREFIX + hashlib.blake2b(exchange.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Election:
    """One candidate.

    Attributes:
        queue: which decides.
        standing_by: told again and again that another serves at this moment.
        vacant: set when the queue may be free.
        told_since: since when (any clock) ``vacant`` has been set whenever the queue became free; 0 while
            nothing tells of that.
        try_seconds: between two attempts while nothing does; else it is looked that often whether the answer
            of ``told_since`` is still the same.
    """

    queue: str
    standing_by: Callable[[], None] = lambda: None
    vacant: asyncio.Event = field(default_factory=asyncio.Event)
    told_since: Callable[[], int] = lambda: 0
    try_seconds: float = TRY_SECONDS

    async def won(self, connection: AbstractConnection) -> None:
        """Wait until the queue is held by ``connection``.

        Raises:
            AMQPError: the connection ended, or the queue may not be declared.
            ConnectionError: the connection ended.
        """
        await until_one_ends(self._holding(connection), ended(connection))

    async def _holding(self, connection: AbstractConnection) -> None:
        logged = False
        while True:
            told_since = self.told_since()
            if await self._holds(connection):
                break
            if not logged:
                log.info("standing-by", queue=self.queue, detail="another agent serves")
                logged = True
            await self._perhaps_vacant(told_since)
        log.info("elected", queue=self.queue)

    async def _perhaps_vacant(self, told_since: int) -> None:
        """Wait until the queue may be free, or may have become free unheard since ``told_since``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TOLD_TRY_SECONDS):
                while not self.vacant.is_set():
                    self.standing_by()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self.try_seconds):
                            await self.vacant.wait()
                    if not told_since or self.told_since() != told_since:
                        return

    async def _holds(self, connection: AbstractConnection) -> bool:
        self.vacant.clear()
        channel = await connection.channel(publisher_confirms=False)
        try:
            await channel.declare_queue(self.queue, exclusive=True)
        except exceptions.ChannelLockedResource:
            return False
        await close_channel(channel)
        return True
