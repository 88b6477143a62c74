"""A log with what it needs, for examples of its writer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway.eventlog.disk import Disk
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.retention import LogFileSettings, time_text
from gateway.eventlog.writer import EventLog
from gateway.feed.records import EventLogRecord
from tests.eventlog.reading import HeldClock
from tests.eventlog.records import update

QUICK = LogFileSettings(commit_interval=1_000_000, min_free=0, retry_interval=10_000_000)


class Plant:
    """The parts with which a log is made."""

    def __init__(self, folder: Path, settings: LogFileSettings = QUICK, disk: Disk | None = None) -> None:
        self.folder = folder / "log"
        self.settings = settings
        self.disk = disk
        self.clock = HeldClock()
        self.states: list[EventLogRecord] = []
        self.standing: list[int] = []  # numbers of the objects that a head tells
        self.heads = 0
        self.facts: dict[str, object] = {"boot": 7}

    def log(self) -> EventLog:
        return EventLog(
            self.folder, self.settings, self.clock, self.head, self.states.append,
            facts=lambda: self.facts, disk=self.disk,
        )  # fmt: skip

    def head(self) -> Iterator[LogRecord]:
        self.heads += 1
        for number in self.standing:
            yield LogRecord(
                kind=RecordKind.SNAPSHOT, ingest_ts=time_text(self.clock.now()), values={"number": number}
            )

    def update(self, number: int) -> LogRecord:
        """Return an update with the present time."""
        return update(number, time_text(self.clock.now()))
