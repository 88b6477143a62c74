"""The event log of one core, with the parts that durable subscriptions wait for (`AckTracker`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random

from gateway.eventlog.last_state import RecordedDeliveries
from gateway.eventlog.record import AnyRecord
from gateway.model.times import MILLISECOND, SECOND
from gateway.service.processes.event_log import named_after
from tests.simulation.recording import OperationDisk
from tests.simulation.scheduler import Clock

_BEFORE = (1, 60 * MILLISECOND)
"""The range of the time from the first record that a task waits for to the begin of its commit."""
_COMMIT = (MILLISECOND, 300 * MILLISECOND)
_SLOW_COMMIT = (500 * MILLISECOND, 10 * SECOND)
_TRIES = 100 * MILLISECOND


class DeliveriesLog:
    """The records that deliveries lead to, and the commits that write them to the disk.

    A commit is begun when a task waits for it. Other records may or may not reach the disk, which
    `tests.simulation.log` decides.

    Args:
        disk: the disk, which may be slow or full.
        random: its own source of chance.
        clock: the gateway's clock.
        known: deliveries that the log has from before.
        count: returns the number of records.
        record: takes records.
        begins: called before a delivery is taken.
        ends: called after all records of a delivery were made.

    Attributes:
        committed: the number of records on the disk.
        spans: the number of records before and after each delivery.
        gathered: the records of the delivery that is being taken; ``None`` where none is.
    """

    is_open = True

    def __init__(
        self,
        disk: OperationDisk,
        random: Random,
        clock: Clock,
        known: Iterable[str],
        count: Callable[[], int],
        record: Callable[[list[AnyRecord]], None],
        begins: Callable[[], None],
        ends: Callable[[], None],
    ) -> None:
        self.committed = 0
        self.spans: list[tuple[int, int]] = []
        self.gathered: list[AnyRecord] | None = None
        self._disk = disk
        self._random = random
        self._clock = clock
        self._late = RecordedDeliveries(known, clock.now())
        self._count = count
        self._record = record
        self._begins = begins
        self._ends = ends
        self._is_committing = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def facts(self) -> dict[str, object]:
        """The values at the begin of each segment."""
        return self._late.values()

    @property
    def last_seq(self) -> int:
        """The seq of the record that was appended last."""
        return self._count()

    @contextmanager
    def delivering(self, delivery: str) -> Iterator[None]:
        """Name the records made within the block after one delivery."""
        self._begins()
        gathered: list[AnyRecord] = []
        self.gathered = gathered
        try:
            yield
        finally:
            self.gathered = None
            before = self._count()
            self._record(named_after(gathered, delivery))
            self.spans.append((before, self._count()))
            if gathered:
                self._late.add(delivery, self._clock.now())
            self._ends()

    def delivered_again(self, delivery: str) -> None:
        """Record a delivery that may come once more."""
        self._late.add(delivery, self._clock.now())

    async def reached(self, seq: int) -> None:
        """Wait until so many records are on the disk."""
        if seq > self.committed:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((seq, waiter))
            self._commit_soon()
            await waiter

    def _commit_soon(self) -> None:
        if not self._is_committing:
            self._is_committing = True
            self._disk.scheduler.after(self._random.randrange(*_BEFORE), self._begin)

    def _begin(self) -> None:
        count = self._count()
        takes = _SLOW_COMMIT if self._disk.slow else _COMMIT
        self._disk.scheduler.after(self._random.randrange(*takes), lambda: self._commit(count))

    def _commit(self, count: int) -> None:
        if self._disk.full:
            self._disk.scheduler.after(_TRIES, lambda: self._commit(count))
            return
        self.committed = count
        self._is_committing = False
        for seq, waiter in self._waiters:
            if seq <= count and not waiter.done():
                waiter.set_result(None)
        self._waiters = [(seq, waiter) for seq, waiter in self._waiters if seq > count]
        if self._waiters:
            self._commit_soon()
