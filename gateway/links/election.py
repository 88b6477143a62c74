"""The election of the agent that serves a broker: it holds an exclusive queue; the others stand by.

The queue belongs to the connection over which its holder receives requests, so both end at once in
any case: only the holder receives requests. RabbitMQ deletes the queue when the connection
ends, after a missing heartbeat at the latest, and reports that by an event.
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
"""Interval of attempts where no event reports the other's end: RabbitMQ logs each as an error."""
REPORTED_TRY_SECONDS = 600.0
"""Interval of attempts where events report it, in case one was lost unnoticed."""
_PREFIX = "amqp-gateway.manager."
_LONGEST = 255


def manager_queue(exchange: str) -> str:
    """Return the name of the queue of the agent that serves consoles on a management exchange."""
    name = _PREFIX + exchange
    if len(name.encode()) <= _LONGEST:
        return name
    return _PREFIX + hashlib.blake2b(exchange.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Election:
    """One candidate.

    Attributes:
        queue: the name of the deciding queue.
        standing_by: called every ``try_seconds`` while another agent serves.
        vacant: is set when the queue may be free.
        reported_since: returns since when (any clock) ``vacant`` has been set each time that the queue became
            free; 0 while no event reports that.
        try_seconds: interval of attempts while no event reports that; otherwise of checks that
            ``reported_since`` still returns the same.
    """

    queue: str
    standing_by: Callable[[], None] = lambda: None
    vacant: asyncio.Event = field(default_factory=asyncio.Event)
    reported_since: Callable[[], int] = lambda: 0
    try_seconds: float = TRY_SECONDS

    async def won(self, connection: AbstractConnection) -> None:
        """Wait until ``connection`` holds the queue.

        Raises:
            AMQPError: the connection ended, or the queue may not be declared.
            ConnectionError: the connection ended.
        """
        await until_one_ends(self._holding(connection), ended(connection))

    async def _holding(self, connection: AbstractConnection) -> None:
        logged = False
        while True:
            reported_since = self.reported_since()
            if await self._holds(connection):
                break
            if not logged:
                log.info("standing-by", queue=self.queue, detail="another agent serves")
                logged = True
            await self._perhaps_vacant(reported_since)
        log.info("elected", queue=self.queue)

    async def _perhaps_vacant(self, reported_since: int) -> None:
        """Wait until the queue may be free, or an event that reports that may have been missed."""
        checks = max(1, int(REPORTED_TRY_SECONDS / self.try_seconds)) if reported_since else 1
        for _ in range(checks):
            self.standing_by()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.try_seconds):
                    await self.vacant.wait()
                return
            if self.reported_since() != reported_since:
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
