"""The records of operations on the event log's disk; commits are late, or wait while the disk is full.

A commit takes all records that wait; uncommitted records are lost with their core. The disk outlives cores.
"""

from __future__ import annotations

import asyncio

from gateway.eventlog.record import LogRecord
from gateway.feed.operations import OperationState
from gateway.feed.records import EventLogRecord, EventLogState
from gateway.model.times import MILLISECOND, SECOND
from tests.simulation.scheduler import Scheduler

_QUICK = (1 * MILLISECOND, 100 * MILLISECOND)
_SLOW = (500 * MILLISECOND, 10 * SECOND)
_NOTICED_AFTER = SECOND
_SEGMENTS_READ = 2
"""The number of segments that are read at the start, as in `gateway.eventlog.last_state`."""


class OperationDisk:
    """The records of operations on the disk, over all cores.

    Attributes:
        segments: the records of each segment, in order.
        full: whether the disk is full, so that nothing is committed.
        slow: whether each commit takes long.
        trouble_at: the last time at which a core had to wait long for the disk.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.segments: list[list[LogRecord]] = []
        self.full = False
        self.full_since = 0
        self.slow = False
        self.trouble_at = 0

    @property
    def records(self) -> list[LogRecord]:
        """All records, including those that a segment's head repeats."""
        return [record for segment in self.segments for record in segment]

    def unfinished(self) -> list[LogRecord]:
        """Return the operations that have a begin and no end, as a core reads them at its start."""
        begun: dict[str, LogRecord] = {}
        for segment in self.segments[-_SEGMENTS_READ:]:
            for record in segment:
                assert record.operation_id is not None
                if record.state != OperationState.BEGUN.value:
                    begun.pop(record.operation_id, None)
                else:
                    begun.setdefault(record.operation_id, record)
        return list(begun.values())

    def fill(self) -> None:
        """Make the disk full."""
        self.full, self.full_since = True, self.scheduler.now

    def clear(self) -> None:
        """Make room on the disk."""
        self.full = False


class Recording:
    """The event log of one core, with the parts that operations wait for (`RecordingLog`)."""

    def __init__(self, disk: OperationDisk) -> None:
        self.last_seq = 0
        self._disk = disk
        self._committed = 0
        self._segment: list[LogRecord] | None = None
        self._waiting: list[LogRecord | None] = [None]  # ``None``: a new segment
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._is_committing = False
        self._is_alive = True
        self._commit_soon()

    @property
    def record(self) -> EventLogRecord:
        """The state of the event log."""
        disk = self._disk
        noticed = disk.full and disk.scheduler.now - disk.full_since > _NOTICED_AFTER
        if noticed:
            disk.trouble_at = disk.scheduler.now
        return EventLogRecord(EventLogState.DISK_FULL if noticed else EventLogState.WRITING)

    def append(self, record: LogRecord) -> None:
        """Append a record."""
        self.last_seq += 1
        self._waiting.append(record)
        self._commit_soon()

    def new_segment(self) -> None:
        """Begin a new segment."""
        self._waiting.append(None)
        self._commit_soon()

    async def reached(self, seq: int) -> None:
        """Wait until that seq is on the disk."""
        if seq <= self._committed:
            return
        began = self._disk.scheduler.now
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((seq, waiter))
        try:
            await waiter
        finally:
            if self._disk.scheduler.now - began > SECOND:
                self._disk.trouble_at = self._disk.scheduler.now

    def flush(self, seq: int) -> None:
        """Do nothing, because a commit is always under way here."""

    def die(self) -> None:
        """Discard all uncommitted records."""
        self._is_alive = False

    def _commit_soon(self) -> None:
        if not self._is_committing:
            self._is_committing = True
            self._disk.scheduler.after(MILLISECOND, self._write)

    def _write(self) -> None:
        taken, self._waiting = self._waiting, []
        seq, scheduler = self.last_seq, self._disk.scheduler
        delay = scheduler.between(*(_SLOW if self._disk.slow else _QUICK))
        scheduler.after(delay, lambda: self._commit(taken, seq))

    def _commit(self, taken: list[LogRecord | None], seq: int) -> None:
        if not self._is_alive:
            return
        if self._disk.full:
            self._disk.scheduler.after(100 * MILLISECOND, lambda: self._commit(taken, seq))
            return
        for record in taken:
            if record is None or self._segment is None:
                self._segment = []
                self._disk.segments.append(self._segment)
            if record is not None:
                self._segment.append(record)
        self._committed = seq
        for waited, waiter in self._waiters:
            if waited <= seq and not waiter.done():
                waiter.set_result(None)
        self._waiters = [(waited, waiter) for waited, waiter in self._waiters if waited > seq]
        self._is_committing = False
        if self._waiting:
            self._commit_soon()
