"""A real log with audited records in several segments, its key, and heads; and ways to tamper with it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.eventlog.audit_statements import AuditKey, line_of
from gateway.eventlog.audit_verification import AuditReport, verify_audit
from gateway.eventlog.compaction import Compactor
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.retention import time_text
from gateway.eventlog.segment import Segment, compactable, list_segments
from gateway.eventlog.writer import EventLog
from gateway.model.times import HOUR, SECOND
from tests.eventlog.plant import Plant

GATEWAY = "6f1b5f0e-0000-4000-8000-000000000001"


def operation(number: int, ingest_ts: str) -> LogRecord:
    """The record of an operation that has ended, as JMX requested it."""
    return LogRecord(
        kind=RecordKind.OPERATION,
        ingest_ts=ingest_ts,
        source="rabbitmq",
        package="rabbitmq",
        class_name="queue",
        object_name=f"/|queue-{number}",
        state="ended",
        outcome="applied",
        principal="jmx:operator",
        origin="192.0.2.7",
        operation_id=f"{GATEWAY}.1.o{number}",
        operation="set",
        latency_ns=12_345_678,
        values={"maxLength": 2**64 - 1 - number, "share": number / 7, "name": 'Käse\u0001\t"', "none": []},
        absent=["expires"],
        former={"maxLength": number},
        found={},
    )


class AuditedLog:
    """A log of some hours, with a segment for each; each has three operations and other records between.

    Attributes:
        folder: the folder of the log.
        key: the key of the gateway.
        heads: the lines of signed heads, one at the end of each hour.
    """

    def __init__(self, folder: Path) -> None:
        self.plant = Plant(folder)
        self.folder = self.plant.folder
        self.key = AuditKey.generate()
        self.heads: list[str] = []
        self._number = 0

    async def write(self, hours: int = 4) -> None:
        """Append some hours, with a restart of the writer in the middle of them."""
        for hour in range(hours):
            async with self.plant.log() as log:
                log.sign_deletion = self.deletion
                await self.hour(log)
                self.plant.clock.time += HOUR
            assert hour >= 0

    async def hour(self, log: EventLog) -> None:
        """Append the records of one hour, and sign a head."""
        for _ in range(3):
            self.plant.clock.time += SECOND
            self._number += 1
            now = time_text(self.plant.clock.time)
            log.append(operation(self._number, now))
            log.append(self.plant.update(self._number))
        end, seq = log.audited
        await log.reached(seq)
        now = time_text(self.plant.clock.time)
        self.heads.append(line_of(self.key.head(GATEWAY, log.log_id, end.number, seq, end.hash, now)))

    def deletion(self, log_id: str, before_seq: int) -> str:
        """Sign the statement of a deletion."""
        return line_of(self.key.deletion(GATEWAY, log_id, before_seq, time_text(self.plant.clock.time)))

    def compact(self, *, but: int = 0) -> None:
        """Make Parquet files of all segments but the last ones."""
        with Compactor(self.folder) as compactor:
            for segment in compactable(self.folder)[: -but or None]:
                compactor.compact(segment)

    def verified(self, *, with_heads: bool = True) -> AuditReport:
        """Verify the log."""
        heads = [(f"heads: line {n}", line.encode()) for n, line in enumerate(self.heads, 1)]
        keys = {self.key.fingerprint: self.key.public_key}
        return verify_audit(self.folder, keys, heads if with_heads else [])

    def faults(self, *, with_heads: bool = True) -> list[str]:
        """Return the faults that a verification finds, in order."""
        return [problem.fault.value for problem in self.verified(with_heads=with_heads).problems]

    def segment(self, number: int) -> Segment:
        """Return a segment by its place."""
        return list_segments(self.folder)[number]


def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Change the records of a segment, and make its numbers and checksums right again, as one block."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    records = change([line for line in lines if line["kind"] != "_commit"])
    text = b"".join(
        json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for record in records
    )
    log_id, seq = records[-1]["log_id"], records[-1]["seq"]
    commit = (
        f'{{"log_id":"{log_id}","kind":"_commit","seq":{seq},"n":{len(records)},"len":{len(text)},'
        f'"crc":"{zlib.crc32(text):08x}"}}\n'
    )
    path.write_bytes(text + commit.encode())


def renumbered(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give records the seqs that follow on that of the first one."""
    first = records[0]["seq"]
    return [{**record, "seq": first + place} for place, record in enumerate(records)]
