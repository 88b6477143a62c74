"""The log's writing thread, from the queue to the disk, and the recovery of where the last writer ended.

One thread writes, so that a disk that hangs stops nothing else. A batch that could not be committed is tried
again until it succeeds; meanwhile records wait. `look` finds what the last writer left, however it ended, and
changes nothing; what has to be cut off is moved to ``lost/`` with the first batch. Records that were
acknowledged are kept; what follows them in a file was never promised.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import heapq
import itertools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from gateway.eventlog.audit_chain import ChainEnd, end_in_block
from gateway.eventlog.block import Block, CommitLine, Damage, read_commit_line
from gateway.eventlog.disk import Disk, EventLogClosedError, EventLogError
from gateway.eventlog.segment import (
    LOST,
    SEGMENTS,
    WHAT_TO_DO,
    LogIdentity,
    Segment,
    identity_path,
    lake_files,
    list_segments,
    read_identity,
    scan_segment,
    segment_path,
    tail,
)
from gateway.eventlog.waiting import MAX_COMMIT_OCTETS, Batch, WaitingRecords
from gateway.feed.records import EventLogState
from gateway.file_owners import reason_of


def _state_of(error: OSError) -> EventLogState:
    """Return the state of the log for an operating system's error that prevents writing."""
    return _STATES.get(error.errno or 0, EventLogState.DISK_ERROR)


_STATES: Final[Mapping[int, EventLogState]] = {
    errno.ENOSPC: EventLogState.DISK_FULL,
    errno.EDQUOT: EventLogState.DISK_FULL,
    errno.EFBIG: EventLogState.DISK_FULL,
    errno.EROFS: EventLogState.READ_ONLY,
    errno.EACCES: EventLogState.READ_ONLY,
    errno.EPERM: EventLogState.READ_ONLY,
}


@dataclass(frozen=True, slots=True)
class Unclosed:
    """A segment that takes no more records and is not complete yet.

    Attributes:
        path: its file.
        first_seq: as its name says.
        last_seq: the seq of the last record that is kept; ``first_seq - 1`` for none.
        last_ts: ``ingest_ts`` of that record.
        octets: the number of octets that are kept, from its beginning.
        keep_tail: the octets behind them go to ``lost/``; else they are in another segment, or not needed.
        chain_end: the end of the chain of audited records in it; ``None`` where it has none.
    """

    path: Path
    first_seq: int
    last_seq: int
    last_ts: str
    octets: int
    keep_tail: bool = False
    chain_end: ChainEnd | None = None


@dataclass(slots=True)
class _OpenSegment:
    segment: int
    descriptor: int
    kept: Unclosed


class SegmentWriter:
    """Writes the segments of one log.

    Args:
        folder: the log's folder.
        identity: the log's identity; brought to the disk before the first segment.
        disk: the disk of the folder.
        min_free: the number of octets that are left free on it.
        unclosed: segments found by recovery, oldest first.
        trusted_ts: returns the value of that name for ``LOG``.

    Attributes:
        unclosed: segments that could not be completed yet; they are tried again with each new segment.
        unclosed_because: the last error that prevented it.
        written: the number of octets so far.
        segments: the number of segments begun so far.
        head_ends_at: seq of the last record of the last head that was recorded whole; 0 for none.
        adopted_at: seq of the record that the log was adopted; 0 where there is none to be written.
    """

    def __init__(
        self,
        folder: Path,
        identity: LogIdentity,
        disk: Disk,
        min_free: int,
        unclosed: tuple[Unclosed, ...] = (),
        *,
        trusted_ts: Callable[[], str] = str,
    ) -> None:
        self.unclosed = list(unclosed)
        self.unclosed_because = ""
        self.written = 0
        self.segments = 0
        self.head_ends_at = 0
        self.adopted_at = 0
        self._folder = folder
        self._identity = identity
        self._identity_is_written = False
        self._disk = disk
        self._min_free = min_free
        self._trusted_ts = trusted_ts
        self._open: _OpenSegment | None = None

    @property
    def identity(self) -> LogIdentity:
        """The content of ``LOG``, as far as it is on the disk."""
        return self._identity

    @property
    def open_path(self) -> Path | None:
        """The path of the segment that is being written."""
        return None if self._open is None else self._open.kept.path

    def commit(self, batch: Batch) -> None:
        """Bring a batch to the disk; it can be tried again where this fails.

        Raises:
            OSError: the batch may not be there.
        """
        if self._open is None:
            self._disk.make_folder(self._folder / SEGMENTS)
        # Before each write: the log can wait for room, others on the same disk (the instance index is one)
        # cannot.
        self._disk.check_free(self._folder, self._min_free)
        # A batch never contains records of two segments.
        if self._open is None or self._open.segment != batch.segment:
            self.close()
            self._begin(batch)
        assert self._open is not None
        try:
            self._disk.write(self._open.descriptor, batch.blocks)
            self._disk.sync(self._open.descriptor)
        except OSError:
            # After a failed sync the system may forget what it could not write: the batch goes to a new
            # segment, and this one is cut to what was acknowledged.
            self._end_open()
            raise
        octets = sum(map(len, batch.blocks))
        kept = self._open.kept
        self._open.kept = Unclosed(
            *(kept.path, kept.first_seq, batch.last_seq, batch.last_ts, kept.octets + octets),
            chain_end=batch.chain_end,
        )
        self.written += octets
        self._note_head(self._open.kept)

    def close(self) -> None:
        """Complete the open segment and the unclosed ones; after a failure this is tried again later."""
        self._end_open()
        self.unclosed_because = ""
        for unclosed in tuple(self.unclosed):
            try:
                if unclosed.path.exists():
                    self._complete(unclosed)
                else:
                    self._pass_over(unclosed)  # something took it away
            except OSError as error:
                self.unclosed_because = f"{unclosed.path}: {reason_of(error, self._folder)}"
            else:
                self.unclosed.remove(unclosed)

    def _note_head(self, written: Unclosed) -> None:
        """Note in ``LOG`` that the open segment's head is whole on the disk: a start needs no older one.

        And that an adoption is recorded.
        """
        if self._identity.adopted and written.last_seq >= self.adopted_at:
            with contextlib.suppress(OSError):
                self._write_identity(msgspec.structs.replace(self._identity, adopted="", adopted_by=""))
        is_there = written.first_seq <= self.head_ends_at <= written.last_seq
        # Once for each segment.
        if is_there and self._identity.standing_seq < written.first_seq:
            with contextlib.suppress(OSError):  # with the next batch then
                self._write_identity(msgspec.structs.replace(self._identity, standing_seq=written.first_seq))

    def _begin(self, batch: Batch) -> None:
        self._write_identity(self._identity)
        path = segment_path(self._folder, batch.first_seq, is_open=True)
        kept = Unclosed(path, batch.first_seq, batch.first_seq - 1, "", 0)
        try:
            descriptor = self._disk.create(path)
        except OSError:
            if kept not in self.unclosed:  # it may be there, and nothing in it was acknowledged
                self.unclosed.append(kept)
            raise
        # The file is new: an earlier one of this name is gone, whatever its deletion said.
        self.unclosed = [unclosed for unclosed in self.unclosed if unclosed.path != path]
        self._open = _OpenSegment(batch.segment, descriptor, kept)
        self.segments += 1

    def _end_open(self) -> None:
        if self._open is not None:
            with contextlib.suppress(OSError):  # nothing that was committed depends on it
                self._disk.close(self._open.descriptor)
            self.unclosed.append(self._open.kept)
            self._open = None

    def _complete(self, unclosed: Unclosed) -> None:
        """Cut off the octets that are not kept, and give the segment the name of a complete one."""
        if unclosed.keep_tail:
            name = f"{unclosed.first_seq:020}-{unclosed.octets}.tail"
            self._disk.copy_tail(unclosed.path, unclosed.octets, self._folder / LOST / name)
        if not unclosed.octets:
            self._disk.delete(unclosed.path)
            return
        self._disk.shorten(unclosed.path, unclosed.octets)
        # Before the name lets compaction take the segment away, and its last seq with it.
        self._pass_over(unclosed)
        complete = segment_path(self._folder, unclosed.first_seq, is_open=False)
        if unclosed.path != complete:
            self._disk.rename(unclosed.path, complete)

    def _pass_over(self, unclosed: Unclosed) -> None:
        """Note in ``LOG`` the last seq of a segment, so that it is never given again."""
        if unclosed.last_seq >= self._identity.next_seq:
            self._write_identity(
                self._identity.after(
                    unclosed.last_seq, unclosed.last_ts, unclosed.chain_end, self._trusted_ts()
                )
            )

    def _write_identity(self, identity: LogIdentity) -> None:
        if identity == self._identity and self._identity_is_written:
            return
        self._disk.replace_text(identity_path(self._folder), identity.text())
        self._identity, self._identity_is_written = identity, True


ENOUGH_OCTETS: Final = 2 << 20
"""The number of waiting octets from which they are committed without waiting for more."""

SLOW_SECONDS: Final = 1.0
"""The duration from which a commit is trouble; the trouble ends with one shorter than half of it."""

CLOSING_ATTEMPTS: Final = 3
"""The number of attempts to write a batch while the log is being closed; before, there is no limit."""

_NEVER: Final = 2**63


class Committer:
    """Commits the waiting records.

    Args:
        waiting: the queue.
        write: brings a batch to the disk, in a thread of its own; `OSError` where it failed.
        interval_seconds: the time that records wait for others at most.
        retry_seconds: the pause after a failure.
        on_state: called with the state and its detail in words; with ``WRITING`` when trouble is over.
        on_commit: called for each commit, with the number of its attempts.
        reason: returns why a file of the log cannot be used, in words.

    Attributes:
        committed: the seq of the last record on the disk.
        wake_above: when more octets than this were appended, since the start, `wake` has to be called.
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
        reason: Callable[[OSError], str],
    ) -> None:
        self.committed = waiting.next_seq - 1
        self.wake_above = _NEVER
        self._waiting = waiting
        self._write = write
        self._interval = interval_seconds
        self._retry = retry_seconds
        self._on_state = on_state
        self._on_commit = on_commit
        self._reason = reason
        # A thread of its own: a disk that hangs must not take the threads of the loop's default pool.
        self._thread = ThreadPoolExecutor(1, "event-log")
        self._woken = asyncio.Event()
        self._closing = False
        self._hurried = 0
        self._ended = False
        self._slow = False
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def wake(self) -> None:
        """Wake the committer, because enough records wait to be written."""
        self.wake_above = _NEVER
        self._woken.set()

    def flush(self, seq: int) -> None:
        """Commit the record of this seq without waiting for further ones: a caller waits for it."""
        self._hurried = max(self._hurried, seq)
        self._woken.set()

    def close(self) -> None:
        """Commit the waiting records and end; a batch that fails `CLOSING_ATTEMPTS` times is given up."""
        self._closing = True
        self.wake()

    async def reached(self, seq: int) -> None:
        """Wait until the record with this seq is on the disk.

        Raises:
            EventLogClosedError: it will never be.
        """
        if seq <= self.committed:
            return
        if self._ended:
            raise EventLogClosedError(f"seq {seq} is not on the disk")
        waiter = asyncio.get_running_loop().create_future()
        # The number decides between equal seqs, because futures cannot be compared.
        heapq.heappush(self._waiters, (seq, next(self._numbers), waiter))
        await waiter

    async def run(self, finish: Callable[[], None]) -> None:
        """Commit until closed.

        Args:
            finish: called in the thread in the end, when nothing waits any more.

        Raises:
            Exception: any exception of ``write`` except `OSError`.
        """
        loop = asyncio.get_running_loop()
        try:
            since = loop.time()
            while self._waiting.records or not self._closing:
                if not self._waiting.records:
                    await self._until(0, None)
                    since = loop.time()
                await self._until(ENOUGH_OCTETS, since + self._interval)
                # On the loop, not in the thread: otherwise a record that is appended meanwhile could be lost
                # between two batches.
                batch = self._waiting.take()
                since = loop.time()
                if batch is not None and not await self._commit(batch):
                    break
            await loop.run_in_executor(self._thread, finish)
        finally:
            self._end()

    async def _until(self, octets: int, deadline: float | None) -> None:
        """Wait until more than so many octets wait, the deadline, or closing."""
        if self._waiting.octets > octets or self._closing:
            return
        if deadline is not None and self._hurried > self.committed:
            return
        self._woken.clear()
        self.wake_above = self._waiting.appended - self._waiting.octets + octets
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._woken.wait()
        self.wake_above = _NEVER

    def _words(self, error: OSError) -> str:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{self._reason(error)}"

    async def _commit(self, batch: Batch) -> bool:
        """Commit a batch; return whether it is on the disk. If not, the log is being closed."""
        attempts = 1
        while (error := await self._attempt(batch)) is not None:
            self._on_state(_state_of(error), self._words(error))
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
        # Not `wait_for`, which would cancel: a write that was begun must end before the next one.
        done, _ = await asyncio.wait({work}, timeout=SLOW_SECONDS)
        if not done:
            self._slow = True
            self._on_state(EventLogState.SLOW, f"a commit takes longer than {SLOW_SECONDS:g} s")
        try:
            await work
        except OSError as error:
            self._slow = False
            return error
        # Half of it, so that a disk at the limit does not raise and clear the trouble with each commit.
        if loop.time() - began < SLOW_SECONDS / 2:
            self._slow = False
        return None

    def _end(self) -> None:
        self._ended = True
        # Without waiting: a write may hang in the system.
        self._thread.shutdown(wait=False)
        for seq, _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(EventLogClosedError(f"seq {seq} is not on the disk"))
        self._waiters.clear()


MAX_PROBLEMS: Final = 100
"""The maximum number of problems that one recovery reports; the first ones."""

_LAST_LINE: Final = 512
_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class Recovery:
    """The result of a recovery.

    Attributes:
        identity: the log's identity; ``None`` for a log that has to be made.
        next_seq: the seq of the next record.
        last_ts: ``ingest_ts`` of the last record; empty where it is not known.
        unclosed: segments that have to be completed, oldest first.
        problems: deviations from the expected form, a line for each.
        chain_end: the end of the chain of audited records; ``None`` where there are none.
    """

    identity: LogIdentity | None
    next_seq: int = 1
    last_ts: str = ""
    unclosed: tuple[Unclosed, ...] = ()
    problems: tuple[str, ...] = ()
    chain_end: ChainEnd | None = None


def look(folder: Path) -> Recovery:
    """Examine the log in ``folder``; open segments are read whole, of others the end.

    Raises:
        EventLogError: its identity is missing, damaged or not that of its files, or it cannot be read.
    """
    attempts = _ATTEMPTS
    while True:
        identity = read_identity(folder)
        try:
            segments = list_segments(folder)
            if identity is None:
                _check_is_new(folder, segments)
                return Recovery(None)
            return _Look(folder, identity).at(segments)
        except OSError as error:
            attempts -= 1
            if not attempts or not isinstance(error, FileNotFoundError):  # else: compacted meanwhile
                raise EventLogError(
                    f"{error.filename or folder}: the event log cannot be read: {reason_of(error, folder)}"
                ) from error


@dataclass(frozen=True, slots=True)
class _End:
    """The end of the kept part of a segment."""

    last_seq: int
    last_ts: str = ""
    octets: int = 0
    chain_end: ChainEnd | None = None


class _Look:
    def __init__(self, folder: Path, identity: LogIdentity) -> None:
        self._folder = folder
        self._identity = identity
        self._unclosed: list[Unclosed] = []
        self._problems: list[str] = []

    def at(self, segments: list[Segment]) -> Recovery:
        lake = {file.first_seq for file in lake_files(self._folder) if file.log_id == self._identity.log_id}
        next_seq, last_ts, expected = self._identity.next_seq, self._identity.last_ts, 0
        chain_end = self._identity.chain_end
        for number, segment in enumerate(segments):
            following = segments[number + 1].first_seq if number + 1 < len(segments) else None
            end = self._end_of(segment, following)
            # What is missing between two segments may be in the lake already.
            if expected not in (0, segment.first_seq) and expected not in lake:
                self._problem(
                    segment.path, f"seq {expected} to {segment.first_seq - 1} are missing before it"
                )
            expected = end.last_seq + 1
            if expected > next_seq:
                next_seq, last_ts, chain_end = expected, end.last_ts, end.chain_end or chain_end
        # A file LOG from a backup would give seqs again that are in the lake.
        if lake and max(lake) >= next_seq:
            raise EventLogError(
                f"{identity_path(self._folder)}: is older than the lake: it ends before seq {next_seq}, "
                f"a file of the lake begins with {max(lake)}: {WHAT_TO_DO}"
            )
        return Recovery(
            self._identity,
            next_seq,
            last_ts,
            tuple(self._unclosed),
            tuple(self._problems[:MAX_PROBLEMS]),
            chain_end,
        )

    def _end_of(self, segment: Segment, following: int | None) -> _End:
        if not segment.is_open:
            commit = _last_commit_line(segment)
            if commit is not None and (following is None or commit.seq < following):
                self._check_log(segment, commit.log_id)
                # LOG has the end of the chain up to its own end; behind it, the segment has.
                is_known = commit.seq < self._identity.next_seq
                return _End(commit.seq) if is_known else self._scan(segment, following)
            if commit is None:
                # Evidence, and perhaps not all of it: it is left to compaction.
                self._problem(segment.path, "is damaged: it does not end with a commit line")
                return self._scan(segment, following)
        end = self._scan(segment, following)
        size = segment.path.stat().st_size
        self._unclosed.append(
            Unclosed(
                segment.path,
                segment.first_seq,
                end.last_seq,
                end.last_ts,
                end.octets,
                keep_tail=size > end.octets,
                chain_end=end.chain_end,
            )
        )
        if size > end.octets:
            self._problem(segment.path, f"{size - end.octets} octets behind the last commit line go to lost/")
        return end

    def _scan(self, segment: Segment, following: int | None) -> _End:
        """Return the end of the acknowledged part of a segment.

        Behind damage there can be whole blocks. Those of the last commit may have reached the disk in any
        order before a power cut: they are cut off with it. Damage that is older than the last commit is of
        what was acknowledged, and so is what stands behind it: that is kept.
        """
        unsure = segment.path.stat().st_size - MAX_COMMIT_OCTETS
        kept = _End(segment.first_seq - 1)
        for found in scan_segment(segment.path):
            if isinstance(found, Damage):
                if found.offset >= unsure:
                    break
                self._problem(segment.path, str(found))
                continue
            self._check_log(segment, found.log_id)
            if following is not None and found.last_seq >= following:
                break
            if found.first_seq != kept.last_seq + 1:
                if found.first_seq <= kept.last_seq or found.offset >= unsure:
                    break
                self._problem(
                    segment.path, f"seq {kept.last_seq + 1} to {found.first_seq - 1} are missing in it"
                )
            chain_end = end_in_block(found) or kept.chain_end
            kept = _End(found.last_seq, _last_ts(found), found.end, chain_end)
        return kept

    def _check_log(self, segment: Segment, log_id: str) -> None:
        if log_id != self._identity.log_id:
            raise EventLogError(
                f"{segment.path}: is of log {log_id[:64]}, {identity_path(self._folder)} says "
                f"{self._identity.log_id}: {WHAT_TO_DO}"
            )

    def _problem(self, path: Path, text: str) -> None:
        self._problems.append(f"{path}: {text}")


def _check_is_new(folder: Path, segments: list[Segment]) -> None:
    if segments or lake_files(folder):
        raise EventLogError(
            f"{identity_path(folder)}: is missing, although there are files of a log: {WHAT_TO_DO}"
        )


def _last_commit_line(segment: Segment) -> CommitLine | None:
    octets = tail(segment.path, _LAST_LINE)
    return read_commit_line(octets[octets.rfind(b"\n", 0, -1) + 1 :])


class _Time(msgspec.Struct):
    ingest_ts: str = ""


def _last_ts(block: Block) -> str:
    try:
        return _TIME.decode(block.lines[block.lines.rfind(b"\n", 0, -1) + 1 :]).ingest_ts
    except msgspec.MsgspecError:
        return ""


_TIME: Final = msgspec.json.Decoder(_Time)
