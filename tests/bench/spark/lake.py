"""A lake of hours in which queues were at work, made as by a gateway: segments, then compaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Final

from gateway.eventlog.block import MAX_BLOCK_RECORDS
from gateway.eventlog.compaction import Compactor
from gateway.eventlog.record import AnyRecord
from tests.bench.log.workload import BATCH_RECORDS, Workload
from tests.eventlog.logs import segment

_MINUTE: Final = 60 * 10**9
_HOUR: Final = len("2026-11-20T14")


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake and its size.

    Attributes:
        log: folder of the log.
        records: the number of records.
        files: the number of files.
        octets: of all files.
    """

    log: Path
    records: int
    files: int
    octets: int


def make_lake(log: Path, queues: int, minutes: int) -> Lake:
    """Make a lake with a file for each hour, in which each queue's statistics change once a minute."""
    workload = Workload(queues, step=_MINUTE * BATCH_RECORDS // queues)
    reported = chain(workload.begin(), workload.updates(minutes))
    next_seq = 1
    with Compactor(log) as compactor:
        for records in _hours(reported):
            written = segment(log, next_seq, records, of_a_block=MAX_BLOCK_RECORDS)
            compacted = compactor.compact(written)
            assert compacted is not None
            assert compacted.records == len(records), compacted
            next_seq += len(records)
    files = list(log.rglob("*.parquet"))
    return Lake(log, next_seq - 1, len(files), sum(file.stat().st_size for file in files))


def _hours(records: Iterator[AnyRecord]) -> Iterator[list[AnyRecord]]:
    for _, of_an_hour in groupby(records, lambda record: record.ingest_ts[:_HOUR]):
        yield list(of_an_hour)
