"""From the queue to the disk: when waiting records are taken, in which thread they are written, what if not.

One thread writes, so that a disk that hangs holds nothing else. A batch that could not be committed is tried
again until it is; meanwhile records wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from gateway.eventlog.state import EventLogClosedError, state_of
from gateway.eventlog.waiting import Batch, WaitingRecords
from gateway.feed.records import EventLogState

ENOUGH_OCTETS: Final = 2 << 20
"""So many waiting octets are committed at once, without waiting for more."""

SLOW_SECONDS: Final = 1.0
"""A commit that takes longer is trouble; the trouble ends with one that takes less than half of it."""

CLOSING_ATTEMPTS: Final = 3
"""So often is a batch tried when the log is being closed; before, there is no end to it."""

_NEVER: Final = 2**63


class Committer:
    """Commits what waits.

    Args:
        waiting: the queue.
        write: brings a batch to the disk, in a thread of its own; `OSError` where it failed.
        interval_seconds: for which records wait for others at most.
        retry_seconds: after a failure.
        on_state: told of what stands in the way, and in words; of ``WRITING`` when it is over.
        on_commit: told of each commit, and how many attempts it took.

    Attributes:
        committed: seq of the last record on the disk.
        stir_above: when more octets than this were appended, since the start, `stir` has to be called.
    """

    def __init__(
        self,
        waiting: WaitingRecords,
        write: Callable[[Batch], None],
        *,
        interval_seconds: float,
        retry_seconds: float,
        on_state: Callable[[EventLogState, str], None],
        on_commit: Callable[[int], None],
    ) -> None:
        self.committed = waiting.next_seq - 1
        self.stir_above = _NEVER
        self._waiting = waiting
        self._write = write
        self._interval = interval_seconds
        self._retry = retry_seconds
        self._on_state = on_state
        self._on_commit = on_commit
        self._thread = ThreadPoolExecutor(1, "event-log")
        self._stirred = asyncio.Event()
        self._closing = False
        self._hurried = 0
        self._ended = False
        self._slow = False
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def stir(self) -> None:
        """There is enough to do."""
        self.stir_above = _NEVER
        self._stirred.set()

    def hurry(self, seq: int) -> None:
        """Somebody waits for the record of this seq: let it wait for no others."""
        self._hurried = max(self._hurried, seq)
        self._stirred.set()

    def close(self) -> None:
        """Commit what waits and no more; what fails `CLOSING_ATTEMPTS` times is given up."""
        self._closing = True
        self.stir()

    async def reached(self, seq: int) -> None:
        """Return when the record with this seq is on the disk.

        Raises:
            EventLogClosedError: it will never be.
        """
        if seq <= self.committed:
            return
        if self._ended:
            raise EventLogClosedError(f"seq {seq} is not on the disk")
        waiter = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (seq, next(self._numbers), waiter))
        await waiter

    async def run(self, finish: Callable[[], None]) -> None:
        """Commit until closed.

        Args:
            finish: what the thread does in the end, when nothing waits any more.

        Raises:
            Exception: what ``write`` raised beyond `OSError`.
        """
        loop = asyncio.get_running_loop()
        try:
            since = loop.time()
            while self._waiting.records or not self._closing:
                if not self._waiting.records:
                    await self._until(0, None)
                    since = loop.time()
                await self._until(ENOUGH_OCTETS, since + self._interval)
                batch = self._waiting.take()
                since = loop.time()
                if batch is not None and not await self._commit(batch):
                    break
            await loop.run_in_executor(self._thread, finish)
        finally:
            self._end()

    async def _until(self, octets: int, deadline: float | None) -> None:
        """Wait until more than so many octets wait."""
        if self._waiting.octets > octets or self._closing:
            return
        if deadline is not None and self._hurried > self.committed:
            return
        self._stirred.clear()
        self.stir_above = self._waiting.appended - self._waiting.octets + octets
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._stirred.wait()
        self.stir_above = _NEVER

    async def _commit(self, batch: Batch) -> bool:
        """Whether the batch is on the disk; if not, the log is being closed."""
        attempts = 1
        while (error := await self._attempt(batch)) is not None:
            self._on_state(state_of(error), _words(error))
            if self._closing and attempts >= CLOSING_ATTEMPTS:
                return False
            attempts += 1
            await asyncio.sleep(self._retry)
        self._waiting.done(batch)
        self.committed = batch.last_seq
        while self._waiters and self._waiters[0][0] <= self.committed:
            waiter = heapq.heappop(self._waiters)[2]
            if not waiter.done():
                waiter.set_result(None)
        if not self._slow:
            self._on_state(EventLogState.WRITING, "")
        self._on_commit(attempts)
        return True

    async def _attempt(self, batch: Batch) -> OSError | None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        work = loop.run_in_executor(self._thread, self._write, batch)
        done, _ = await asyncio.wait({work}, timeout=SLOW_SECONDS)
        if not done:
            self._slow = True
            self._on_state(EventLogState.SLOW, f"a commit takes longer than {SLOW_SECONDS:g} s")
        try:
            await work
        except OSError as error:
            self._slow = False
            return error
        if loop.time() - began < SLOW_SECONDS / 2:
            self._slow = False
        return None

    def _end(self) -> None:
        self._ended = True
        self._thread.shutdown(wait=False)
        for seq, _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(EventLogClosedError(f"seq {seq} is not on the disk"))
        self._waiters.clear()


def _words(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"
