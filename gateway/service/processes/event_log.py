"""The event log of the core: takes batches, gives records to the log's writer, publishes the log's state.

Nothing waits for the log, and nothing stops because of it: its faults are reported here, in the feed, and
from there by every front end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Protocol, Self

import msgspec
import structlog

from gateway.clock import Clock
from gateway.config.model import LogSettings
from gateway.durable_files import create_durably
from gateway.eventlog.audit_chain import ChainEnd
from gateway.eventlog.disk import Disk, EventLogClosedError, EventLogError, NewerLogError
from gateway.eventlog.last_state import LastState, RecordedDeliveries
from gateway.eventlog.logged_operations import Reloaded
from gateway.eventlog.ownership import ForeignLogError, LogOwner
from gateway.eventlog.record import AnyRecord, LogRecord, RecordKind, microseconds_text
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.eventlog.retention import LogFileSettings
from gateway.eventlog.writer import EventLog
from gateway.feed.operations import LoginReport
from gateway.feed.records import Batch, EventLogRecord, EventLogState
from gateway.model.times import SECOND
from gateway.rate_limiter import RateLimiter

log = structlog.get_logger(__name__)

OFF: Final = EventLogRecord(EventLogState.OFF)
"""The record where no log is configured."""

RECORD_SECONDS: Final = 1.0
"""Seconds between two publications of numbers; trouble is published at once."""

_LINES, _LINES_SECONDS = 3, 60.0
_DROPPED_FIRST = frozenset({RecordKind.UPDATE, RecordKind.SNAPSHOT})
_MEBIBYTE = 1 << 20


class CoreEventLog:
    """The event log of one core; to be entered before anything is observed.

    Args:
        folder: the folder of the log.
        settings: the configured settings.
        clock: the gateway's.
        facts: returns facts of gateway and core, for the first record of each segment; called for each.
        former: the states of the sources that need them, when the log ended.
        disk: the disk of the folder.
        durable: names of the sources with a durable subscription. Those that the log knows record themselves
            what they missed while there was no core; what others missed is recorded here.
        recording: further settings of the recorder; the intervals of statistics are those of ``settings``.

    Attributes:
        mirror: what has been recorded so far.
        last_seq: the seq of the record that was appended last.
    """

    def __init__(
        self,
        folder: Path,
        settings: LogSettings,
        clock: Clock,
        facts: Callable[[], Mapping[str, object]] = dict,
        former: LastState | None = None,
        disk: Disk | None = None,
        durable: Collection[str] = (),
        recording: RecorderSettings | None = None,
    ) -> None:
        mirrored = replace(
            recording or RecorderSettings(),
            statistics_interval=settings.statistics_interval,
            statistics_intervals=settings.statistics_intervals,
        )
        self.mirror = LogRecorder(mirrored, former, own_gaps=durable)
        self.last_seq = 0
        self._late = RecordedDeliveries(() if former is None else former.deliveries, clock.now())
        self._folder = folder
        self._clock = clock
        self._woken = asyncio.Event()
        self._gathered: list[AnyRecord] | None = None
        self._is_open = False
        self._failure = ""
        self._since = 0
        self._recorded_state = EventLogState.WRITING
        self._recorded_lost = 0
        self._recorded_deleted = 0
        self._trouble_lines = RateLimiter(_LINES, _LINES_SECONDS)
        self._fault_lines = RateLimiter(_LINES, _LINES_SECONDS)
        self._log = EventLog(
            folder,
            file_settings(settings),
            clock,
            lambda: self.mirror.head(clock.now),
            lambda _state: self._woken.set(),
            facts=lambda: {**facts(), **self._late.values()},
            covered=() if former is None else list(former.complete_until),
            disk=disk,
        )

    def belongs_to(self, owner: LogOwner) -> None:
        """Let a start of a gateway own the log, before it is entered; without one that is not checked."""
        self._log.owner = owner

    async def __aenter__(self) -> Self:
        """Open the log; where that fails, the gateway runs without it.

        Raises:
            ForeignLogError, NewerLogError: it must not be written by this gateway.
        """
        self._since = self._clock.now()
        try:
            await self._log.__aenter__()
        except (ForeignLogError, NewerLogError):
            raise
        except EventLogError as error:
            self._failure = str(error)
            log.error("event-log-failed", reason=str(error))  # noqa: TRY400  the text says what to do
            return self
        self._is_open = True
        for problem in self._log.problems:
            log.warning("event-log-recovered", problem=problem)
        log.info("event-log-ready", folder=str(self._folder), committed=self._log.committed)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._is_open:
            return
        self._is_open = False
        try:
            await self._log.__aexit__(kind, error, traceback)
        except Exception:  # reported long since; the core ends all the same
            log.exception("event-log-failed")
        committed = self._log.committed
        log.info("event-log-closed", committed=committed, not_written=max(0, self.last_seq - committed))

    def take(self, batch: Batch) -> int:
        """Record a batch; neither waits nor raises.

        Returns:
            Seq of the last record that was appended so far, for `reached`.
        """
        self._record(lambda: self.mirror.apply(batch, self._clock.now()), len(batch.records))
        return self.last_seq

    def state_deletions(self, sign: Callable[[str, int], str]) -> None:
        """State deletions by the bounds of the log in the chain of audited records.

        Args:
            sign: as `gateway.eventlog.writer.EventLog.sign_deletion`.
        """
        self._log.sign_deletion = sign

    @property
    def log_id(self) -> str:
        """The identity of the log; empty while it is not open."""
        return self._log.log_id if self._is_open else ""

    @property
    def audited(self) -> tuple[ChainEnd, int]:
        """The end of the chain of audited records, and the seq of the last one; of an open log."""
        return self._log.audited

    def take_login(self, report: LoginReport) -> None:
        """Record logins; neither waits nor raises."""
        self._record(lambda: self.mirror.login(report, self._clock.now()), 1)

    def take_heads_file(self, file: str) -> None:
        """Record the file to which signed heads are written; neither waits nor raises."""
        self._record(lambda: self.mirror.heads_file(file, self._clock.now()), 1)

    def take_reload(self, reloaded: Reloaded, principal: str, changes: Sequence[str]) -> None:
        """Record that a principal had the configuration reloaded; neither waits nor raises."""
        self._record(lambda: self.mirror.reloaded(reloaded, principal, changes, self._clock.now()), 1)

    async def reached(self, seq: int) -> None:
        """Return when the record of this seq is on the disk, or the gap that counts it.

        Raises:
            EventLogClosedError: the log was closed before.
        """
        await self._log.reached(seq)

    def flush(self, seq: int) -> None:
        """Write the record of this seq to the disk soon, because a user waits for it."""
        if self._is_open:
            self._log.flush(seq)

    @property
    def is_open(self) -> bool:
        """Whether the log is written at all, even if with trouble."""
        return self._is_open

    @contextlib.contextmanager
    def delivering(self, delivery: str) -> Iterator[None]:
        """Append all records of the block together, and name in them the delivery from which they came."""
        gathered: list[AnyRecord] = []
        self._gathered = gathered
        try:
            yield
        finally:
            self._gathered = None
            self._append(named_after(gathered, delivery))
            if gathered:
                self._late.add(delivery, self._clock.now())

    def delivered_again(self, delivery: str) -> None:
        """Note that a recorded delivery came again: it is not recorded again, and may come once more."""
        self._late.add(delivery, self._clock.now())

    @property
    def record(self) -> EventLogRecord:
        """The state of the log, for the feed."""
        if not self._is_open:
            return EventLogRecord(EventLogState.FAILED, self._failure, since=self._since)
        return self._log.state

    async def run(self, publish: Callable[[EventLogRecord], None]) -> NoReturn:
        """Record what becomes due, and publish the state of the log. Ends by cancellation only.

        Args:
            publish: called with the state of the log, at once when there is trouble, else once a second.
        """
        loop = asyncio.get_running_loop()
        record_at = loop.time()
        while True:
            if self._woken.is_set() or loop.time() >= record_at:
                self._woken.clear()
                record_at = loop.time() + RECORD_SECONDS
                self._say()
                publish(self.record)
            self._record(lambda: self.mirror.tick(self._clock.now()), 0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(self._seconds_to_wait(), record_at - loop.time())):
                    await self._woken.wait()

    def _seconds_to_wait(self) -> float:
        wake_at = self.mirror.wake_at if self._is_open else None
        return RECORD_SECONDS if wake_at is None else max(0.0, (wake_at - self._clock.now()) / SECOND)

    def _record(self, make: Callable[[], list[AnyRecord]], size: int) -> None:
        """Append the records that ``make`` returns for ``size`` records of the feed."""
        if not self._is_open:
            return
        # Under pressure the recorder leaves out what can be left out, before records are lost.
        self.mirror.pressure = self._log.pressure
        try:
            records = make()
        except Exception as error:  # noqa: BLE001  our fault may cost these records, not the core
            records = [self._faulty(error, size)]
        if self._gathered is not None:
            self._gathered += records
        else:
            self._append(records)

    def _append(self, records: list[AnyRecord]) -> None:
        if records:
            self.last_seq = self._log.append_all(records, lambda error: self._faulty(error, 1))

    def _faulty(self, error: Exception, size: int) -> LogRecord:
        """Return a gap in place of records that are missing because of an error of ours."""
        if self._fault_lines.admit() is not None:
            log.error("event-log-fault", records=size, exc_info=error)
        now = microseconds_text(self._clock.now()) or ""
        return LogRecord(
            kind=RecordKind.GAP,
            ingest_ts=now,
            text="a fault of the gateway: see its process log",
            from_ts=now,
            to_ts=now,
            lost=size,
        )

    def _say(self) -> None:
        """Report changes of the event log's state in the process log."""
        if not self._is_open:
            return
        state = self._log.state
        is_well = state.state is EventLogState.WRITING
        if state.state is not self._recorded_state and self._trouble_lines.admit() is not None:
            self._recorded_state = state.state
            if is_well:
                log.info("event-log-written", committed=state.committed, lost=state.lost)
            else:
                log.warning("event-log-trouble", trouble=state.state.value, detail=state.detail)
        if state.lost > self._recorded_lost and is_well:
            log.warning("event-log-lost", records=state.lost - self._recorded_lost)
            self._recorded_lost = state.lost
        if state.deleted_files > self._recorded_deleted:
            log.info("event-log-files-deleted", files=state.deleted_files - self._recorded_deleted)
            self._recorded_deleted = state.deleted_files


class LogAlarmMark:
    """Whether a core has raised the alarm of the event log, for the next core.

    Its raising may not be in the log, which could not be written. The disk may be full: so the file has one
    byte that is overwritten in its place. It is not synced, because the disk may hang, and after a power
    failure it is less than what receivers have already.

    Args:
        path: the file; made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._raised: bool | None = None
        self.was_raised = False
        with contextlib.suppress(OSError):
            create_durably(path, _MARKS[False])
        with contextlib.suppress(OSError):  # it is there also on a disk that takes no draft
            self.was_raised = path.read_text("ascii", "replace") == _MARKS[True]

    def note(self, *, raised: bool) -> None:
        """Note whether the alarm is active; a failure of the disk has no consequence."""
        if raised is self._raised:
            return
        self._raised = raised
        with contextlib.suppress(OSError), self._path.open("r+b", buffering=0) as file:
            file.write(_MARKS[raised].encode())


_MARKS: Final = {False: "0\n", True: "1\n"}


def named_after(records: list[AnyRecord], delivery: str) -> list[AnyRecord]:
    """Return ``records``, the last of which names their delivery.

    It is the last of those that are not dropped for want of room, if there are any.
    """
    kept = [number for number, record in enumerate(records) if record.kind not in _DROPPED_FIRST]
    if records:
        last = kept[-1] if kept else -1
        records[last] = msgspec.structs.replace(records[last], delivery=delivery)
    return records


def file_settings(settings: LogSettings) -> LogFileSettings:
    """Return the settings of the log's files."""
    return LogFileSettings(
        commit_interval=settings.commit_interval,
        segment_duration=settings.segment_duration,
        segment_size=settings.segment_size * _MEBIBYTE,
        max_size=settings.max_size * _MEBIBYTE,
        max_age=settings.max_age,
        min_free=settings.min_free * _MEBIBYTE,
        max_waiting=settings.max_waiting,
    )


MAX_REMEMBERED: Final = 100_000
"""The largest number of identities that are kept.

A broker redelivers no more than were on their way when a connection ended.
"""


class RecordingLog(Protocol):
    """The part of `CoreEventLog` that the tracker uses."""

    @property
    def is_open(self) -> bool:
        """Whether the log is written."""
        ...

    @property
    def last_seq(self) -> int:
        """The seq of the record that was appended last."""
        ...

    def delivering(self, delivery: str) -> AbstractContextManager[None]:
        """Assign the records of the block to ``delivery``."""
        ...

    def delivered_again(self, delivery: str) -> None:
        """Note that a recorded delivery came again; it is not recorded again."""
        ...

    async def reached(self, seq: int) -> None:
        """Wait until that seq is on the disk."""
        ...


class AckTracker:
    """The deliveries that the log has, of all sources.

    Args:
        log: records the consequences of deliveries.
        recorded: the deliveries that it had when it was opened, in order.
    """

    def __init__(self, log: RecordingLog, recorded: Iterable[str] = ()) -> None:
        self._log = log
        self._recorded: OrderedDict[str, None] = OrderedDict.fromkeys(recorded)

    @property
    def is_open(self) -> bool:
        """Whether there is a log that can record deliveries."""
        return self._log.is_open

    def of(self, source: str) -> SourceAcks:
        """Return the ledger of one source."""
        return SourceAcks(self, source)

    def is_recorded(self, delivery: str) -> bool:
        """Return whether the log has the consequences of a delivery, or will before anything later."""
        return delivery in self._recorded

    @contextmanager
    def recording(self, delivery: str) -> Iterator[None]:
        """Assign the records of the block to ``delivery``."""
        with self._log.delivering(delivery):
            yield
        self._recorded[delivery] = None
        if len(self._recorded) > MAX_REMEMBERED:
            self._recorded.popitem(last=False)

    def came_again(self, delivery: str) -> None:
        """Note that a recorded delivery came again, and forget it last."""
        self._recorded.move_to_end(delivery)
        self._log.delivered_again(delivery)

    @property
    def position(self) -> int:
        """The seq of the last record; 0 before the first."""
        return self._log.last_seq

    async def committed(self, position: int) -> None:
        """Wait until the record at ``position`` is on the disk; for ever, if the log was closed before."""
        if not position:
            return
        try:
            await self._log.reached(position)
        except EventLogClosedError:
            await asyncio.Event().wait()


class SourceAcks:
    """The deliveries of one source, as a `gateway.links.durable_queue.Ledger`."""

    def __init__(self, ledger: AckTracker, source: str) -> None:
        self._ledger = ledger
        self._source = source

    def is_recorded(self, identity: str) -> bool:
        """Return whether the consequences of the delivery with this identity are recorded already."""
        return self._ledger.is_recorded(f"{self._source}:{identity}")

    @contextmanager
    def recording(self, identity: str) -> Iterator[None]:
        """Assign the records of the block to the delivery with this identity."""
        with self._ledger.recording(f"{self._source}:{identity}"):
            yield

    def came_again(self, identity: str) -> None:
        """Note that the recorded delivery with this identity came again, and may do so once more."""
        self._ledger.came_again(f"{self._source}:{identity}")

    @property
    def position(self) -> int:
        """The position of the last record."""
        return self._ledger.position

    async def committed(self, position: int) -> None:
        """Wait until nothing recorded up to ``position`` can be lost by the death of this process."""
        await self._ledger.committed(position)
