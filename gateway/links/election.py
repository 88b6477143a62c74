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
"""Between two attempts while another serves, if no event tells of its end: RabbitMQ logs each as an error."""
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
        standing_by: told at each attempt that failed that another serves at this moment.
        vacant: set when the queue may be free.
        try_seconds: between two attempts.
    """

    queue: str
    standing_by: Callable[[], None] = lambda: None
    vacant: asyncio.Event = field(default_factory=asyncio.Event)
    try_seconds: float = TRY_SECONDS

    async def won(self, connection: AbstractConnection) -> None:
        """Wait until the queue is held by ``connection``.

        Raises:
            AMQPError: the connection ended, or the queue may not be declared.
            ConnectionError: the connection ended.
        """
        await until_one_ends(self._holding(connection), ended(connection))

    async def _holding(self, connection: AbstractConnection) -> None:
        told = False
        while not await self._holds(connection):
            if not told:
                log.info("standing-by", queue=self.queue, detail="another agent serves")
                told = True
            self.standing_by()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.try_seconds):
                    await self.vacant.wait()
        log.info("elected", queue=self.queue)

    async def _holds(self, connection: AbstractConnection) -> bool:
        self.vacant.clear()
        channel = await connection.channel(publisher_confirms=False)
        try:
            await channel.declare_queue(self.queue, exclusive=True)
        except exceptions.ChannelLockedResource:
            return False
        await close_channel(channel)
        return True
