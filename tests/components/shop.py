"""The records of a shop with halls and tills, for tests of any front end.

Each front end has classes with the elements that matter to it; the records of objects are the same.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.feed.messages import VERSION
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    Batch,
    EventClassRecord,
    EventLogRecord,
    EventLogState,
    EventRecord,
    FeedMessage,
    Hello,
    Lifetime,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SnapshotEnded,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.inventory.own_events import LOG_TROUBLE
from gateway.model.observations import EventState, Severity, SourceState
from gateway.model.times import SECOND

START = 1_700_000_000 * SECOND
SERVE_STALE_FOR = 60 * SECOND
GATEWAY_ID = "7b0c"
HALL_CLASS, TILL_CLASS = 10, 20
"""The numbers of the classes."""

next_end = itertools.count(1000).__next__
"""Returns the number of another end of an object."""


@dataclass
class Feeding(ABC):
    """A front end with a clock of its own, and the core that talks to it."""

    now: int = START
    logged: list[tuple[str, str]] = field(default_factory=list)
    epoch: int = 1

    @abstractmethod
    def received(self, message: FeedMessage) -> None:
        """Pass a message to the front end."""

    @abstractmethod
    def disconnect(self) -> None:
        """End the connection to the core."""

    @abstractmethod
    def settle(self) -> None:
        """Let the front end finish its pending work."""

    def hello(self, epoch: int = 1, hides: str = "") -> None:
        self.epoch = epoch
        self.received(Hello(VERSION, epoch, GATEWAY_ID, self.now, hides))

    def publish(self, *records: Record) -> None:
        self.received(Batch(self.epoch, 1, records))

    def begin_snapshot(self, *records: Record) -> None:
        self.received(SnapshotBegan(self.epoch, 1))
        self.publish(*records)

    def snapshot(self, *records: Record) -> None:
        self.begin_snapshot(*records)
        self.received(SnapshotEnded(self.epoch, 1))

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        self.settle()

    def log(self, event: str, detail: str) -> None:
        self.logged.append((event, detail))


def source(state: SourceState = SourceState.SYNCHRONISED, number: int = 1, **counters: int) -> SourceRecord:
    return SourceRecord(number, f"shop{number}", "qmf", state, "a detail", START, START, counters)


def agent(*, fresh: bool, since: int = START, name: str = "1.0", number: int = 1) -> AgentRecord:
    return AgentRecord(number, name, fresh, since, since)


def agent_gone(name: str = "1.0", number: int = 1, gone: int = START) -> AgentGoneRecord:
    return AgentGoneRecord(number, name, gone)


def hall_link(row: int = 1) -> ObjectLink:
    return ObjectLink("shop:hall", row, f"hall{row}")


def hall(row: int = 1, number: int = 1, values: Mapping[int, FeedValue] | None = None) -> ObjectRecord:
    """Return the record of a hall with these values beside its name."""
    return ObjectRecord(
        number,
        HALL_CLASS,
        row,
        f"hall{row}",
        f"hall{row}",
        None,
        f"0-1-1-0-{row}",
        "1.0",
        Lifetime.DURABLE,
        START,
        START,
        0,
        START,
        START,
        {0: f"hall{row}", **(values or {})},
    )


def till_record(
    row: int,
    stable_name: str,
    values: Mapping[int, FeedValue],
    number: int = 1,
    agent_name: str = "1.0",
    class_number: int = TILL_CLASS,
) -> ObjectRecord:
    """Return the record of a till of the first hall."""
    return ObjectRecord(
        number,
        class_number,
        row,
        stable_name,
        f"till{row}",
        hall_link(),
        f"0-1-1-0-{row}",
        agent_name,
        Lifetime.TRANSIENT,
        START,
        START,
        START + SECOND,
        START,
        START,
        values,
    )


def update(row: int, values: Mapping[int, FeedValue], absent: tuple[int, ...] = ()) -> UpdateRecord:
    """Return an update of a till, 9 s after the start."""
    return UpdateRecord(1, TILL_CLASS, row, START, START + 9 * SECOND, START, START, values, absent)


FULL_LOG = EventLogRecord(
    EventLogState.DISK_FULL,
    "3 MiB are free",
    since=START,
    committed=2**40,
    waiting=7,
    lost=3,
    octets=2**41,
    segments=2,
    deleted_files=4,
    deleted_octets=2**42,
)
"""The record of an event log whose disk is full, with numbers that need 64 bits."""

LOG_TROUBLE_CLASS = EventClassRecord(5, LOG_TROUBLE)
LOG_TROUBLE_BEGAN = EventRecord(
    event_id=f"{GATEWAY_ID}.1.4",
    source=0,
    class_number=LOG_TROUBLE_CLASS.number,
    agent="",
    time=START,
    severity=Severity.MAJOR,
    values={0: "disk-full", 1: "3 MiB are free", 2: 2**40},
    number=4,
    text="event log: disk-full: 3 MiB are free",
    state=EventState.RAISED,
    condition="logTrouble",
)
"""The same condition as an event of the gateway itself."""
