"""The event log of a running gateway: it takes records in order, and writes them to the disk in groups.

Appending never waits, and reports a disk's trouble through `EventLog.state` only. Records are
numbered and encoded on the event loop; a thread writes and syncs what was taken from the queue on the loop,
so that no record is taken twice or forgotten. All methods are for the loop's own thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from gateway.clock import Clock
from gateway.eventlog.audit_chain import ChainEnd
from gateway.eventlog.committer import Committer, Recovery, SegmentWriter, look
from gateway.eventlog.disk import Disk, EventLogClosedError, EventLogError, lock_lake, try_lock
from gateway.eventlog.logged_events import absence_record, start_record
from gateway.eventlog.logged_operations import adoption_record, deletion_record
from gateway.eventlog.ownership import LogOwner, LogPlace, check_owner, write_place
from gateway.eventlog.record import AnyRecord, nanoseconds_of
from gateway.eventlog.retention import LogFileSettings, Rotation, Upkeep, Why, time_text
from gateway.eventlog.segment import LAKE, VERSION, LogIdentity
from gateway.eventlog.waiting import Batch, Pressure, WaitingRecords
from gateway.feed.records import EventLogRecord, EventLogState
from gateway.file_owners import reason_of
from gateway.model.times import SECOND

SLICE_SECONDS: Final = 0.002
"""The longest time for which recording a segment's head holds the loop at once."""

RETENTION_SECONDS: Final = 60.0
"""The interval of checks of the bounds, which are also checked with each new segment and when exceeded."""

LOCK_SECONDS: Final = 10.0
"""The longest wait for the end of another writer."""

CLOSE_SECONDS: Final = 10.0
"""The longest wait at the end for a disk that does not answer."""

STATEMENT_SECONDS: Final = 5.0
"""The longest wait for a disk to take the statement of a deletion before the files are deleted."""

_LOCK_POLL_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 1.0
_HOLD_SECONDS: Final = 0.05


class EventLog:
    """The one writer of a log; a context manager, to be used on the loop on which it is entered.

    Args:
        folder: the log's folder; made where it is missing.
        settings: bounds and times.
        clock: the gateway's clock.
        head: returns the whole state, recorded at the begin of each segment; read slice by slice, while other
            records are appended in between.
        on_state: called when trouble begins or ends, records were lost, segments came or went.
        facts: returns further values of each segment's first record; called for each.
        covered: names of sources that miss nothing while there is no writer, or record it themselves.
        disk: the disk of the folder.

    Attributes:
        problems: deviations found when the log was entered, a line for each.
        recovered: the last writer left an open segment.
        owner: the start of a gateway that writes; set before the log is entered. ``None`` to go on with a log
            whose owner is not checked.
        sign_deletion: returns the signed statement that the records of a log before a seq are deleted, by
            ``log_id`` and seq; ``None`` where deletions are not to be stated in the chain.
    """

    def __init__(
        self,
        folder: Path,
        settings: LogFileSettings,
        clock: Clock,
        head: Callable[[], Iterator[AnyRecord]],
        on_state: Callable[[EventLogRecord], None],
        *,
        facts: Callable[[], Mapping[str, object]] = dict,
        covered: Collection[str] = (),
        disk: Disk | None = None,
    ) -> None:
        self.problems: tuple[str, ...] = ()
        self.recovered = False
        self.owner: LogOwner | None = None
        self.sign_deletion: Callable[[str, int], str] | None = None
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._head = head
        self._on_state = on_state
        self._facts = facts
        self._log_id = ""
        self._covered = covered
        self._disk = disk or Disk()
        self._place = LogPlace()
        self._rotation = Rotation(settings)
        self._lock: int | None = None
        self._next_seq = 0  # as it was found
        self._recorded: tuple[object, ...] = ()
        self._state = EventLogRecord(EventLogState.WRITING)
        self._upkeep = Upkeep(folder, settings, clock)
        self._lost_recorded = 0
        self._head_wanted = asyncio.Event()
        self._failures: list[Exception] = []
        self._tasks: list[asyncio.Task[None]] = []

    # ---- in use ---------------------------------------------------------------------------------------

    def append(self, record: AnyRecord) -> int:
        """Append a record; a disk neither delays this nor makes it fail.

        Where too much waits already, the record is counted in a gap instead.

        Returns:
            Its seq, or that of the gap.

        Raises:
            TypeError, ValueError: a value has no form in JSON; nothing was recorded.
        """
        waiting, rotation = self._waiting, self._rotation
        if not waiting.takes(record.kind):
            return waiting.lose(record.kind, record.ingest_ts, rotation.last_ts)
        # Nearly all records have the time of the one before: the segment's bounds are then not looked at.
        if record.ingest_ts != rotation.last_ts or waiting.appended >= rotation.full_at:
            record = self._placed(record)
        seq = waiting.add(record)
        if waiting.appended > self._committer.wake_above:
            self._committer.wake()
        return seq

    def append_all(self, records: Sequence[AnyRecord], instead: Callable[[Exception], AnyRecord]) -> int:
        """Append several records, as `append` does, but quicker for those that have one ``ingest_ts``.

        Args:
            records: in order.
            instead: returns the record in place of one with a value that has no form in JSON.

        Returns:
            The seq of the last one, or of the gap that counts it; 0 where there are none.
        """
        waiting, rotation = self._waiting, self._rotation
        seq = done = 0
        while done < len(records):
            rest = records[done:] if done else records
            added = waiting.add_all(rest, rotation.last_ts, rotation.full_at - waiting.appended)
            if added:
                done += added
                seq = waiting.next_seq - 1
                continue
            try:
                seq = self.append(records[done])
            except (TypeError, ValueError) as error:
                seq = self.append(instead(error))
            done += 1
        if waiting.appended > self._committer.wake_above:
            self._committer.wake()
        return seq

    @property
    def committed(self) -> int:
        """The seq of the last record on the disk."""
        return self._committer.committed

    async def reached(self, seq: int) -> None:
        """Wait until a record, or the gap that counts it, is on the disk.

        Raises:
            EventLogClosedError: the log was closed before; the record is perhaps not on the disk.
        """
        await self._committer.reached(seq)

    def flush(self, seq: int) -> None:
        """Commit a record without waiting for further ones: a caller waits for it."""
        self._committer.flush(seq)

    @property
    def log_id(self) -> str:
        """The identity of the log; empty before it is entered."""
        return self._log_id

    @property
    def audited(self) -> tuple[ChainEnd, int]:
        """The end of the chain of audited records, and the seq of the last one, perhaps not on the disk."""
        return self._waiting.chain.end, self._waiting.chain.seq

    @property
    def pressure(self) -> Pressure:
        """The pressure, which shows the records that should be appended."""
        return self._waiting.pressure

    @property
    def state(self) -> EventLogRecord:
        """The present state of the log; ``detail`` says what to do where something can be done."""
        return msgspec.structs.replace(
            self._state,
            committed=self._committer.committed,
            waiting=self._waiting.records,
            lost=self._waiting.lost,
            octets=self._upkeep.octets(self._files.written),
            segments=self._upkeep.segments,
            deleted_files=self._upkeep.deleted_files,
            deleted_octets=self._upkeep.deleted_octets,
        )

    # ---- begin and end --------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Begin a segment.

        Raises:
            EventLogError: another process writes the log, or it cannot be read, or must not be gone on with;
                `ForeignLogError` where it belongs to another state.
        """
        found = await asyncio.to_thread(self._open)
        identity = self._identity(found.identity)
        self._next_seq = found.next_seq
        self.problems = found.problems
        self.recovered = bool(found.unclosed)
        self._log_id = identity.log_id
        settings = self._settings
        self._waiting = WaitingRecords(identity.log_id, found.next_seq, settings.max_waiting, found.chain_end)
        self._files = SegmentWriter(
            self._folder,
            identity,
            self._disk,
            settings.min_free,
            found.unclosed,
            trusted_ts=lambda: time_text(self._upkeep.trusted),
        )
        self._committer = Committer(
            self._waiting,
            self._write,
            interval_seconds=settings.commit_interval / SECOND,
            retry_seconds=settings.retry_interval / SECOND,
            on_state=self._stands,
            on_commit=self._was_committed,
            reason=partial(reason_of, folder=self._folder),
        )
        now = self._clock.now()
        self._state = EventLogRecord(EventLogState.WRITING, since=now)
        self._begin_segment(Why.RECOVERED if self.recovered else Why.BEGAN, time_text(now), now)
        if identity.adopted:
            record = adoption_record(self._rotation.last_ts, identity.adopted_by, identity.adopted)
            self._files.adopted_at = self._waiting.add(record)
        if found.last_ts:
            self._upkeep.ends_at(nanoseconds_of(found.last_ts), nanoseconds_of(identity.trusted_ts))
            self._waiting.add(absence_record(self._rotation.last_ts, found.last_ts, self._covered))
        self._run(lambda: self._committer.run(self._close_files))
        self._run(self._record_heads)
        self._run(self._look_after)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit the waiting records and complete the segment, if the disk permits it.

        Raises:
            Exception: the exception that ended a part of the log before.
        """
        # The committer is the last one: the others still add to what it commits.
        committing, *others = self._tasks
        for task in others:
            task.cancel()
        self._committer.close()
        # Not for ever: a process that must end does not wait for a disk that hangs.
        await asyncio.wait({committing}, timeout=CLOSE_SECONDS)
        committing.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._unlock()
        if self._failures and error is None:
            raise self._failures[0]

    def _open(self) -> Recovery:
        """Lock the folder, or leave that for later where the disk does not permit it; examine the log."""
        with contextlib.suppress(OSError):
            self._disk.make_folder(self._folder)
            deadline = time.monotonic() + LOCK_SECONDS
            while (lock := try_lock(self._folder)) is None:
                if time.monotonic() > deadline:
                    self._check_owner()
                    raise EventLogError(
                        f"{self._folder}: another gateway writes this log: stop it, or give this one a "
                        "folder of its own"
                    )
                # In a thread: the loop goes on while another writer ends.
                time.sleep(_LOCK_POLL_SECONDS)
            self._lock = lock
        try:
            self._check_owner()
            found = look(self._folder)
        except EventLogError:
            self._unlock()
            raise
        self._refuse_older_compactors()
        return found

    def _refuse_older_compactors(self) -> None:
        """Make the lock of the lake, if the disk permits it; else a compactor of this version does."""
        with contextlib.suppress(OSError):
            lake = self._folder / LAKE
            self._disk.make_folder(lake)
            os.close(lock_lake(lake, wait=False))

    def _check_owner(self) -> None:
        """Raise `ForeignLogError` where this start of this gateway must not write the log."""
        if self.owner is not None:
            check_owner(self._folder, self.owner)

    def _identity(self, found: LogIdentity | None) -> LogIdentity:
        """Return the content of ``LOG`` to begin with: that of a new log, or of this version and owner."""
        identity = found or LogIdentity(version=VERSION, log_id=str(uuid.uuid4()), standing_seq=1)
        owner = self.owner
        if owner is None:
            return msgspec.structs.replace(identity, version=VERSION)
        return msgspec.structs.replace(identity, version=VERSION, gateway=owner.gateway, boot=owner.boot)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _run(self, part: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def guarded() -> None:
            try:
                await part()
            except Exception as error:  # noqa: BLE001  whatever it is, the gateway goes on without its log
                self._failures.append(error)
                self._stands(EventLogState.FAILED, f"a fault of the gateway: {error!r}")

        self._tasks.append(asyncio.create_task(guarded()))

    # ---- segments -------------------------------------------------------------------------------------

    def _placed(self, record: AnyRecord) -> AnyRecord:
        """Return the record as it fits into the segment, or into a new one that is begun for it."""
        rotation, now = self._rotation, self._clock.now()
        why = rotation.of_record(record.ingest_ts, self._waiting.appended, now)
        if why is not None:
            self._begin_segment(why, time_text(now) if why is Why.CLOCK else record.ingest_ts, now)
        if record.ingest_ts < rotation.last_ts:
            return msgspec.structs.replace(record, ingest_ts=rotation.last_ts)
        rotation.last_ts = record.ingest_ts
        return record

    def _begin_segment(self, why: Why, ingest_ts: str, now: int) -> None:
        if why is not Why.CLOCK:
            ingest_ts = max(ingest_ts, self._rotation.last_ts)
        self._waiting.begin_segment()
        self._rotation.begin(ingest_ts, now, self._waiting.appended)
        facts = {"log_id": self._log_id, **self._facts(), "audit": self._audit_value()}
        self._waiting.add(start_record(ingest_ts, why, facts, self._upkeep.take_unrecorded()))
        self._head_wanted.set()

    def _audit_value(self) -> dict[str, object]:
        """Return the place in the chain before a segment, and what the chain lacks since the last one."""
        end, lost = self._waiting.chain.end, self._waiting.take_lost_audited()
        value: dict[str, object] = {"number": end.number, "hash": end.hash}
        return {**value, "lost": lost} if lost else value

    async def _record_heads(self) -> None:
        """Record the whole state, again for each segment, in slices that leave the loop to others."""
        loop = asyncio.get_running_loop()
        while True:
            await self._head_wanted.wait()
            self._head_wanted.clear()
            records = self._head()
            until = loop.time() + SLICE_SECONDS
            while not self._head_wanted.is_set():
                # A head can wait: it must not crowd out what happens now.
                if self._waiting.pressure is not Pressure.NONE:
                    await asyncio.sleep(_HOLD_SECONDS)
                elif loop.time() >= until:
                    await asyncio.sleep(0)
                    until = loop.time() + SLICE_SECONDS
                elif (record := next(records, None)) is not None:
                    self._append_of_head(record)
                else:
                    self._rotation.complete_head(self._waiting.appended)
                    self._files.head_ends_at = self._waiting.next_seq - 1
                    break

    def _append_of_head(self, record: AnyRecord) -> None:
        if record.ingest_ts < self._rotation.last_ts:
            record = msgspec.structs.replace(record, ingest_ts=self._rotation.last_ts)
        self.append(record)

    async def _look_after(self) -> None:
        """Begin segments when it is time, and keep the log within its bounds."""
        loop = asyncio.get_running_loop()
        step = min(_LOOK_SECONDS, self._settings.segment_duration / SECOND / 4)
        segments, listed = -1, loop.time()
        while True:
            is_due = loop.time() - listed >= RETENTION_SECONDS or self.state.octets > self._settings.max_size
            if is_due or segments != self._files.segments:
                segments, listed = self._files.segments, loop.time()
                await self._upkeep.keep(self._files.written, self._state_deletion)
            self._publish_state()
            await asyncio.sleep(step)
            now = self._clock.now()
            why = self._rotation.of_time(self._waiting.appended, now)
            # While the disk takes nothing, each further segment would add a whole head to what waits.
            if why is not None and self._waiting.pressure is Pressure.NONE and not self._is_stuck():
                self._begin_segment(why, time_text(now), now)
                if self._waiting.appended > self._committer.wake_above:
                    self._committer.wake()

    async def _state_deletion(self, begins: Mapping[str, int]) -> None:
        """Record that the oldest records are deleted, before they are: a kill in between loses no statement.

        A full disk may need the room first, so this waits for a moment only.
        """
        if self.sign_deletion is None:
            return
        for log_id, seq in begins.items():
            statement = self.sign_deletion(log_id, seq)
            record = deletion_record(time_text(self._clock.now()), log_id, seq, statement)
            # Whether it fits or not, because without it the deletion would look like tampering.
            self._waiting.add(self._placed(record))
        stated = self._waiting.next_seq - 1
        self._committer.flush(stated)
        with contextlib.suppress(TimeoutError, EventLogClosedError):
            async with asyncio.timeout(STATEMENT_SECONDS):
                await self._committer.reached(stated)

    # ---- the disk -------------------------------------------------------------------------------------

    def _write(self, batch: Batch) -> None:
        """Write a batch, in the committer's thread."""
        if self._lock is None:
            self._disk.make_folder(self._folder)
            self._lock = try_lock(self._folder)
            if self._lock is None:
                raise BlockingIOError(0, "another gateway writes this log", str(self._folder))
            # The lock could not be had at the start, so that until now another writer may have been here.
            self._check_owner()
            if look(self._folder).next_seq != self._next_seq:
                raise EventLogError(f"{self._folder}: another gateway wrote this log meanwhile: start again")
            self._refuse_older_compactors()
        self._files.commit(batch)
        self._note_place()

    def _close_files(self) -> None:
        self._files.close()
        self._note_place()

    def _note_place(self) -> None:
        """Write how far the log is into the state folder, after ``LOG`` has it; a failure is tried again."""
        identity = self._files.identity
        place = LogPlace(log_id=identity.log_id, next_seq=identity.next_seq)
        if self.owner is not None and place != self._place:
            with contextlib.suppress(OSError):
                write_place(self.owner.place, place)
                self._place = place

    def _was_committed(self, attempts: int) -> None:
        lost = self._waiting.lost > self._lost_recorded and self._waiting.pressure is Pressure.NONE
        if attempts > 1 or lost:
            # What was appended meanwhile is there or is counted; the whole state is recorded again.
            self._lost_recorded = self._waiting.lost
            now = self._clock.now()
            self._begin_segment(Why.TROUBLE, time_text(now), now)
        self._publish_state()

    def _is_stuck(self) -> bool:
        return self._state.state not in {EventLogState.WRITING, EventLogState.UPKEEP, EventLogState.SLOW}

    def _stands(self, state: EventLogState, detail: str) -> None:
        if self._state.state is EventLogState.FAILED:
            return
        if state is EventLogState.WRITING and (
            detail := self._files.unclosed_because or self._upkeep.trouble
        ):
            state = EventLogState.UPKEEP
        since = self._state.since if state is self._state.state else self._clock.now()
        self._state = EventLogRecord(state, detail, since)
        self._publish_state()

    def _publish_state(self) -> None:
        state = self.state
        key = (state.state, state.lost, state.segments, state.deleted_files)
        # Sizes change with each record: only these differences are worth a message to all front ends.
        if key != self._recorded:
            self._recorded = key
            self._on_state(state)
