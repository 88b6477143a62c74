"""The delivery of a projection's commands to the virtual machine, in batches.

While two batches are on their way, further commands wait: with one, the virtual machine would have nothing to
do until this process has read its answer. Beyond a bound no more of the feed is read, and the core merges the
changes that wait for this process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

import structlog

from gateway.feed.records import FeedMessage, SnapshotEnded
from gateway.jmx.commands import Command, encode_batch
from gateway.jmx.projection import Projection
from gateway.jmx.virtual_machine import MAX_BATCH_OCTETS, PushResult
from gateway.rate_limiter import RateLimiter

log = structlog.get_logger(__name__)

BATCH_COMMANDS = 2000
"""The maximum number of commands of a batch, which takes a few milliseconds to encode."""

MAX_WAITING = 20_000
"""The number of waiting commands from which on the feed is not read."""

TICK_SECONDS = 1.0
ALIVE_SECONDS = 1.0
"""The interval of empty batches: without any batch, the virtual machine shows everything as stale."""

BUSY_TICK_SECONDS = 0.002


class Delivery:
    """The subscriber of the feed for one virtual machine (`gateway.feed.client.Subscriber`).

    Args:
        projection: makes the commands.
        push: sends a batch to the virtual machine; raises when that has ended. It is called again before it
            has returned; batches must arrive in the order of the calls.

    Attributes:
        complete: set once the virtual machine has everything, or the core cannot be reached.
        failed: the number of commands, or single values, that could not be carried out so far.
    """

    def __init__(self, projection: Projection, push: Callable[[bytes], Awaitable[PushResult]]) -> None:
        self.complete = asyncio.Event()
        self.failed = 0
        self._projection = projection
        self._push = push
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._has_everything = False
        self._taken = self._pushed = 0
        self._newest: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._has_ended = False
        self._errors = RateLimiter(lines=20, seconds=60)
        self._look()

    def received(self, message: FeedMessage) -> None:
        """Apply a message."""
        self._projection.received(message)
        self._has_everything |= isinstance(message, SnapshotEnded)
        self._look()

    def disconnected(self, reason: str) -> None:
        """Mark everything stale, because the core cannot be reached."""
        self._projection.disconnected(reason)
        self._has_everything = True
        self._look()

    async def ready(self) -> None:
        """Wait until more of the feed can be taken."""
        # Others of the loop get a turn after each message, also while there is room.
        await asyncio.sleep(0)
        await self._room.wait()

    async def run(self, judge: Callable[[], object]) -> NoReturn:
        """Push commands, for ever.

        Args:
            judge: called before each push, which is a sign of life. It marks everything stale where this
                process stood still (`gateway.feed.client.FeedLink.judge`).

        Raises:
            Exception: whatever ``push`` raises.
        """
        try:
            while True:
                await self._something_waits(judge)
                judge()
                commands = self._projection.take(BATCH_COMMANDS)
                self._taken += len(commands)
                self._look()
                # One that is empty stands for commands that are all left out.
                *first, last = batches(commands) or [encode_batch(())]
                for batch in first:
                    await self._send(batch, self._pushed)
                await self._send(last, self._taken)
        finally:
            await self._end()

    async def _send(self, batch: bytes, pushed: int) -> None:
        """Send a batch, and wait for the one before it; ``pushed`` is the count when this one has arrived."""
        result = asyncio.ensure_future(self._push(batch))
        former, self._newest = self._newest, asyncio.create_task(self._arrive(result, pushed))
        if former is not None:
            await former

    async def _arrive(self, result: Awaitable[PushResult], pushed: int) -> None:
        self._report(await result)
        self._pushed = max(self._pushed, pushed)
        self._look()

    async def _end(self) -> None:
        self._has_ended = True
        self._look()
        if self._newest is not None:
            self._newest.cancel()
            await asyncio.gather(self._newest, return_exceptions=True)

    async def _something_waits(self, judge: Callable[[], object]) -> None:
        """Wait until there is something to push; meanwhile send signs of life."""
        while True:
            try:
                async with asyncio.timeout(ALIVE_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                judge()
                if not self._wake.is_set():
                    await self._push(encode_batch(()))
            else:
                return

    async def caught_up(self) -> None:
        """Wait until the virtual machine has all commands so far, or has ended."""
        commands = self._taken + self._projection.waiting
        if self._pushed < commands and not self._has_ended:
            reached = asyncio.get_running_loop().create_future()
            self._waiting.append((commands, reached))
            await reached

    async def tick(self) -> NoReturn:
        """Call the projection's ``tick`` regularly, for ever."""
        while True:
            busy = self._projection.tick()
            self._look()
            await self._room.wait()
            await asyncio.sleep(BUSY_TICK_SECONDS if busy else TICK_SECONDS)

    def _look(self) -> None:
        """Wake the tasks that wait for commands, for room or for a push."""
        _set(self._wake, self._projection.waiting > 0)
        _set(self._room, self._projection.waiting < MAX_WAITING)
        if self._has_everything and not self._projection.waiting and self._pushed == self._taken:
            self.complete.set()
        while self._waiting and (self._has_ended or self._waiting[0][0] <= self._pushed):
            _, reached = self._waiting.popleft()
            if not reached.done():  # else who waited was cancelled
                reached.set_result(None)

    def _report(self, result: PushResult) -> None:
        self.failed += result.errors
        for text in result.texts:
            left_out = self._errors.admit()
            if left_out is not None:
                log.error("jmx-command-failed", reason=text, errors=result.errors, left_out=left_out)


def batches(commands: Sequence[Command], limit: int = MAX_BATCH_OCTETS) -> list[bytes]:
    """Return the commands, in order, in as few batches of at most ``limit`` octets as halving makes.

    One command that alone is larger is left out, because it is faulty.
    """
    if not commands:
        return []
    octets = encode_batch(commands)
    if len(octets) <= limit:
        return [octets]
    if len(commands) == 1:
        log.error("jmx-command-too-large", command=type(commands[0]).__name__, octets=len(octets))
        return []
    # The size is known only after encoding, and a batch that is too large is rare.
    half = len(commands) // 2
    return batches(commands[:half], limit) + batches(commands[half:], limit)


def _set(event: asyncio.Event, state: bool) -> None:  # noqa: FBT001  what it is set to
    if state:
        event.set()
    else:
        event.clear()
