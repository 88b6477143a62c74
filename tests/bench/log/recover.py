"""The recovery after a killed writer, beside reading the segment with a CRC, and beside SQLite."""

from __future__ import annotations

import shutil
import time
import zlib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.durable_files import PUBLIC, write_durably
from gateway.eventlog.block import MAX_BLOCK_RECORDS
from gateway.eventlog.committer import look
from gateway.eventlog.segment import VERSION, LogIdentity, identity_path
from tests.bench.log import sqlite_log
from tests.bench.log.append import over_and_over
from tests.bench.log.workload import Workload
from tests.eventlog.logs import LOG_ID, blocks, segment
from tests.eventlog.records import with_all_fields

_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Crashed:
    """The same records in a log and in databases, left as by a killed writer.

    Attributes:
        log: folder of the log.
        segment: the only segment of the log.
        database: file of a database, nothing of whose WAL was checkpointed.
        checkpointed: file of a database that has checkpointed as SQLite does by itself.
        records: the number of acknowledged records.
        octets: the size of the segment.
    """

    log: Path
    segment: Path
    database: Path
    checkpointed: Path
    records: int
    octets: int


def crash(folder: Path, workload: Workload, turns: int) -> Crashed:
    """Return a segment that ends within a block, and databases with their WALs."""
    records = list(workload.updates(turns))
    log = folder / "crashed"
    there = segment(log, 1, records, is_open=True, of_a_block=MAX_BLOCK_RECORDS)
    write_durably(identity_path(log), LogIdentity(version=VERSION, log_id=LOG_ID).text(), PUBLIC)
    torn = next(blocks(len(records) + 1, records[:MAX_BLOCK_RECORDS], of_a_block=MAX_BLOCK_RECORDS))
    with there.path.open("ab") as file:
        file.write(torn[: len(torn) // 2])
    database, checkpointed = folder / "crashed.sqlite3", folder / "checkpointed.sqlite3"
    for path, checkpoints in ((database, False), (checkpointed, True)):
        written = folder / f"written-{path.name}"
        with closing(sqlite_log.create(written, checkpoints=checkpoints)) as writer:
            sqlite_log.fill(writer, over_and_over(with_all_fields(records), 1))
            sqlite_log.copy_open(written, path)
    return Crashed(log, there.path, database, checkpointed, len(records), there.path.stat().st_size)


def by_us(crashed: Crashed) -> float:
    """Return the seconds until the next seq and the incomplete tail of the log are known."""
    start = time.perf_counter()
    found = look(crashed.log)
    seconds = time.perf_counter() - start
    assert found.next_seq == crashed.records + 1, found
    assert [unclosed.keep_tail for unclosed in found.unclosed] == [True], found
    return seconds


def by_reading(crashed: Crashed) -> float:
    """Return the seconds to read the segment and to calculate a CRC over it."""
    start = time.perf_counter()
    crc = octets = 0
    with crashed.segment.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            crc = zlib.crc32(piece, crc)
            octets += len(piece)
    seconds = time.perf_counter() - start
    assert octets == crashed.octets
    return seconds


def by_sqlite(database: Path, scratch: Path, records: int) -> float:
    """Return the seconds until a copy of a database, opened as it was left, returns its last record."""
    scratch.mkdir()
    copy = scratch / database.name
    sqlite_log.copy_open(database, copy)
    seconds, last_seq = sqlite_log.reopen(copy)
    assert last_seq == records, last_seq
    shutil.rmtree(scratch)
    return seconds
