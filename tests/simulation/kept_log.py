"""The event log under a durable subscription: real blocks on a disk that can be torn off anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gateway.eventlog.block import Block, BlockDraft
from gateway.eventlog.last_state import LastState, RecordedDeliveries, last_state
from gateway.eventlog.record import AnyRecord, LogRecord, RecordKind
from gateway.eventlog.segment import list_segments, scan_segment, segment_path
from gateway.model.times import MILLISECOND
from gateway.service.processes.event_log import named_after
from tests.simulation.kept_broker import Message
from tests.simulation.scheduler import Scheduler, Timer

LOG_ID = "0b0e6c2e-1111-4222-8333-444455556666"
SOURCE = "plant"

_BEFORE = (100_000, 60 * MILLISECOND)
"""The range of the time from a record to the begin of the write that contains it."""
_WRITE = (50_000, 30 * MILLISECOND)
_TIME = "2026-11-20T08:00:00.000000Z"
"""The time of every record; no part under test reads it."""
_KINDS = {"e": RecordKind.EVENT, "u": RecordKind.UPDATE}

Stored = tuple[int, int]
"""A record on the disk: the serial of its message, and the index of the record within the message."""


def records_of(message: Message) -> list[LogRecord]:
    """Return the records that a message leads to."""
    return [
        LogRecord(
            kind=_KINDS[letter],
            ingest_ts=_TIME,
            source=SOURCE,
            values={"serial": message.serial, "part": part},
        )
        for part, letter in enumerate(message.records)
    ]


def stored_in(blocks: Iterable[Block]) -> Iterator[Stored]:
    """Yield the records of blocks, in order."""
    for block in blocks:
        for line in block.split():
            values = json.loads(line)["values"]
            if "serial" in values:
                yield values["serial"], values["part"]


class LogFolder:
    """The files of the log, which outlive processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compacted: list[Stored] = []
        segment_path(folder, 1, is_open=True).parent.mkdir(parents=True)

    def recovered(self) -> tuple[int, LastState]:
        """Truncate torn blocks, as a new core does, and return the next seq and the last state."""
        next_seq = 1
        for segment in list_segments(self._folder):
            blocks = _blocks(segment.path)
            next_seq = max([next_seq, *(block.last_seq + 1 for block in blocks)])
            if segment.is_open:
                with segment.path.open("r+b") as file:
                    file.truncate(blocks[-1].end if blocks else 0)
                complete = segment_path(self._folder, segment.first_seq, is_open=False)
                segment.path.replace(complete) if blocks else segment.path.unlink()
        return next_seq, last_state(self._folder, [SOURCE])

    def open(self, first_seq: int) -> Path:
        """Create a new segment and return its path."""
        path = segment_path(self._folder, first_seq, is_open=True)
        path.touch()
        return path

    def compact(self) -> None:
        """Move complete segments but the newest to the lake, which no core reads at its start."""
        for segment in [one for one in list_segments(self._folder) if _blocks(one.path)][:-1]:
            if not segment.is_open:
                self._compacted += stored_in(_blocks(segment.path))
                segment.path.unlink()

    def stored(self) -> list[Stored]:
        """Return all records of the log, in order."""
        return [
            *self._compacted,
            *(one for segment in list_segments(self._folder) for one in stored_in(_blocks(segment.path))),
        ]


def _blocks(path: Path) -> list[Block]:
    """Return the whole blocks of a segment."""
    return [block for block in scan_segment(path) if isinstance(block, Block)]


class SimulatedEventLog:
    """The log of one core (`gateway.service.processes.event_log.RecordingLog`).

    Args:
        scheduler: time and chance.
        files: the files of the log.
        first_seq: the seq of its first record.
        late: deliveries that the log has from before.
        block_records: the most records of one block; a block may end within the records of a delivery.
        on_disk: called with the records that have come to the disk, before tasks that wait are resumed.
        settle: resumes the tasks that waited for the disk.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        files: LogFolder,
        first_seq: int,
        late: RecordedDeliveries,
        block_records: int,
        on_disk: Callable[[list[Stored]], None],
        settle: Callable[[], None],
    ) -> None:
        self.last_seq = first_seq
        self.is_open = True
        self._scheduler = scheduler
        self._path = files.open(first_seq)
        self._block_records = block_records
        self._on_disk = on_disk
        self._settle = settle
        self._committed = first_seq - 1
        self._late = late
        start = LogRecord(kind=RecordKind.START, ingest_ts=_TIME, values=late.values())
        self._waiting: list[AnyRecord] = [start]
        self._gathered: list[AnyRecord] | None = None
        self._writing: tuple[bytes, list[AnyRecord]] | None = None
        self._timer: Timer | None = None
        self._reached: list[tuple[int, asyncio.Future[None]]] = []
        self._begin()

    @contextlib.contextmanager
    def delivering(self, delivery: str) -> Iterator[None]:
        """Name records as `gateway.service.processes.event_log.CoreEventLog.delivering` does."""
        gathered: list[AnyRecord] = []
        self._gathered = gathered
        yield
        self._gathered = None
        self._append(named_after(gathered, delivery))
        if gathered:
            self._late.add(delivery, self._scheduler.now)

    def delivered_again(self, delivery: str) -> None:
        """Do as `gateway.service.processes.event_log.CoreEventLog.delivered_again`."""
        self._late.add(delivery, self._scheduler.now)

    def record(self, records: list[LogRecord]) -> None:
        """Add records of the delivery under way."""
        assert self._gathered is not None
        self._gathered += records

    async def reached(self, seq: int) -> None:
        """Wait until that seq is on the disk."""
        if seq > self._committed:
            future = asyncio.get_running_loop().create_future()
            self._reached.append((seq, future))
            await future

    def kill(self) -> None:
        """Kill the process; of a write under way, any part is on the disk."""
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            octets, records = self._writing
            there = self._scheduler.random.randrange(len(octets) + 1)
            self._write(octets[:there], records if there == len(octets) else [])

    def _append(self, records: list[AnyRecord]) -> None:
        if self.is_open and records:
            self._waiting += records
            self.last_seq += len(records)
            self._begin()

    def _begin(self) -> None:
        if self._waiting and self._timer is None:
            self._timer = self._scheduler.after(self._scheduler.between(*_BEFORE), self._begin_write)

    def _begin_write(self) -> None:
        count = self._scheduler.random.randint(1, self._block_records)
        records, self._waiting = self._waiting[:count], self._waiting[count:]
        draft = BlockDraft(LOG_ID, self._committed + 1)
        for record in records:
            draft.add(record)
        self._writing = bytes(draft.seal()), records
        self._timer = self._scheduler.after(self._scheduler.between(*_WRITE), self._end_write)

    def _end_write(self) -> None:
        assert self._writing is not None
        octets, records = self._writing
        self._writing = self._timer = None
        self._write(octets, records)
        if not self.is_open:
            return  # killed before anybody learnt of it
        self._committed += len(records)
        for seq, future in self._reached:
            if seq <= self._committed and not future.done():
                future.set_result(None)
        self._reached = [(seq, future) for seq, future in self._reached if seq > self._committed]
        self._begin()
        self._settle()

    def _write(self, octets: bytes, records: list[AnyRecord]) -> None:
        with self._path.open("ab") as file:
            file.write(octets)
        found = [record.values for record in records if record.values and "serial" in record.values]
        self._on_disk([(int(str(one["serial"])), int(str(one["part"]))) for one in found])
