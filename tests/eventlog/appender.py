"""A process that writes a log until it is killed, and prints the records that are on the disk.

``python -m tests.eventlog.appender FOLDER SEED``; lines ``SEQ NUMBER``, each after the commit.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import deque
from pathlib import Path

from gateway.clock import SystemClock
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.retention import LogFileSettings, time_text
from gateway.eventlog.writer import EventLog
from tests.eventlog.records import update

SETTINGS = LogFileSettings(commit_interval=1_000_000, min_free=0, segment_size=50_000)


async def append(folder: Path, seed: int) -> None:
    """Append until killed; numbers begin with a million times the seed."""
    choice = random.Random(seed)  # noqa: S311  a test's choice
    clock = SystemClock()
    number = seed * 1_000_000
    waiting: deque[tuple[int, int]] = deque()

    def snapshot() -> LogRecord:
        return LogRecord(kind=RecordKind.SNAPSHOT, ingest_ts=time_text(clock.now()))

    async with EventLog(
        folder, SETTINGS, clock, lambda: iter([snapshot() for _ in range(3)]), lambda _: None
    ) as log:
        while True:
            for _ in range(choice.choice([1, 10, 200])):
                waiting.append((log.append(update(number, time_text(clock.now()))), number))
                number += 1
            await asyncio.sleep(0 if choice.random() < 0.9 else 0.002)
            while waiting and waiting[0][0] <= log.committed:
                sys.stdout.write("{} {}\n".format(*waiting.popleft()))
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(append(Path(sys.argv[1]), int(sys.argv[2])))
