"""Two hours of a shop's broker, as the gateway records them, with a ledger of the records.

Every number follows from the constants here: the queues that fill, the users' connections and their
durations, the restart of the broker, the alarm that comes and goes, the time without reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from gateway.eventlog.record import Delta, LogRecord, RecordKind
from gateway.model.times import MINUTE
from tests.analytics.logs import WrittenLog, after, event, of_object, reported, text

SEGMENT_SECONDS = 600
SEGMENTS = 12
END = SEGMENT_SECONDS * SEGMENTS

RESTART = 3600
"""The broker is started again: counters begin again."""

GAP = (3600, 3720)
"""The begin and end of a time without reports from the broker."""

STORM_BEGIN = 5400
STORM_MINUTES = 3
STORM_A_MINUTE = 90

ALARMS = (1000, 1400, 1800, 2200)
ALARM_SECONDS = 120

SHORT_LIVED = 10
"""The number of queues that live for half a second."""

USERS = {"web": (30, 20.0), "batch": (6, 600.0), "probe": (40, 0.25)}
"""The connections of each user, and the duration of each: one begins every three minutes."""


@dataclass(frozen=True)
class Queue:
    """A queue with steady traffic, in messages a second."""

    row: int
    name: str
    published: int
    delivered: int

    def depth(self, seconds: float) -> int:
        return round((self.published - self.delivered) * seconds)


QUEUES = (
    Queue(1, "orders", 120, 120),
    Queue(2, "invoices", 22, 20),
    Queue(3, "audit", 5, 4),
    Queue(4, "returns", 0, 0),
    Queue(5, "mail", 40, 40),
)
COUNTERS = {
    "messagesPublished": "published",
    "messagesDeliveredOrGot": "delivered",
    "messagesAcknowledged": "delivered",
}


@dataclass
class Ledger:
    """The counts of everything that was recorded."""

    kinds: Counter[str] = field(default_factory=Counter)
    created: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    events: Counter[tuple[str, str]] = field(default_factory=Counter)
    gained: Counter[tuple[str, str]] = field(default_factory=Counter)
    resets: int = 0

    def note(self, record: LogRecord) -> None:
        self.kinds[record.kind] += 1
        if record.kind is RecordKind.CREATE:
            self.created[str(record.class_name)] += 1
        if record.kind is RecordKind.DELETE:
            self.deleted[str(record.class_name)] += 1
        if record.kind is RecordKind.EVENT:
            self.events[str(record.event), str(record.severity)] += 1
        for name, delta in (record.deltas or {}).items():
            self.gained[str(record.object_name), name] += delta.delta or 0
            self.resets += delta.reset


def segments() -> tuple[list[list[LogRecord]], Ledger]:
    """Return the records of each segment, and the ledger of all of them."""
    everything = sorted(_happenings(), key=lambda pair: pair[0])
    ledger = Ledger()
    found: list[list[LogRecord]] = []
    for number in range(SEGMENTS):
        begin, end = number * SEGMENT_SECONDS, (number + 1) * SEGMENT_SECONDS
        records = [*_head(begin), *(record for at, record in everything if begin <= at < end)]
        for record in records:
            ledger.note(record)
        found.append(records)
    return found, ledger


def write(log: WrittenLog, *, in_segments: int = 2) -> Ledger:
    """Write all of it; the last segments are not compacted yet, and the last one is open."""
    found, ledger = segments()
    for records in found[: SEGMENTS - in_segments]:
        log.lake(records)
    for records in found[SEGMENTS - in_segments : -1]:
        log.segment(records)
    log.segment(found[-1], is_open=True)
    return ledger


def _head(begin: int) -> Iterator[LogRecord]:
    yield LogRecord(kind=RecordKind.START, ingest_ts=text(after(begin)), values={"version": 1, "why": "age"})
    yield _source(begin, "synchronised")
    for queue in QUEUES:
        yield reported(
            of_object(RecordKind.SNAPSHOT, begin, queue.row, name=queue.name),
            begin,
            messages=queue.depth(begin),
            consumers=2,
        )


def _happenings() -> Iterator[tuple[float, LogRecord]]:
    for queue in QUEUES:
        yield from _traffic(queue)
    yield from _short_lived()
    yield from _connections()
    yield from _alarms()
    yield from _storm()
    begin, end = GAP
    yield begin, _source(begin, "down")
    gap = LogRecord(
        kind=RecordKind.GAP,
        ingest_ts=text(after(end)),
        source="rabbitmq",
        from_ts=text(after(begin)),
        to_ts=text(after(end)),
        text="the connection was lost",
        lost=3,
    )
    yield end, gap
    yield end, _source(end, "synchronised")


def _source(seconds: float, state: str) -> LogRecord:
    return LogRecord(
        kind=RecordKind.SOURCE,
        ingest_ts=text(after(seconds)),
        source="rabbitmq",
        dialect="rabbitmq",
        state=state,
    )


def _traffic(queue: Queue) -> Iterator[tuple[float, LogRecord]]:
    """Yield a sample each minute, a second before it is recorded; none in the time without reports."""
    counted = dict.fromkeys(COUNTERS, 0)
    sampled = 0
    for at in range(60, END, 60):
        if queue.published == 0 or GAP[0] <= at < GAP[1]:
            continue
        reset = sampled < RESTART <= at
        interval = at - sampled
        deltas: dict[str, Delta] = {}
        for name, flow in COUNTERS.items():
            gained = getattr(queue, flow) * (at - RESTART if reset else interval)
            counted[name] = gained if reset else counted[name] + gained
            deltas[name] = Delta(gained, interval * MINUTE // 60, reset)
        record = of_object(RecordKind.UPDATE, at, queue.row, name=queue.name)
        values: dict[str, Any] = {**counted, "messages": queue.depth(at)}
        yield at, replace(reported(record, at - 1, **values), deltas=deltas)
        sampled = at


def _short_lived() -> Iterator[tuple[float, LogRecord]]:
    for number in range(SHORT_LIVED):
        at, row = 300 + 600 * number, 100 + number
        times = {"create_ts": text(after(at)), "lifetime": "transient"}
        name = f"reply-to#{after(at).timestamp():.0f}000000000"
        record = of_object(RecordKind.CREATE, at + 0.5, row, name=name)
        yield at + 0.5, replace(reported(record, at, exclusive=True), **times)
        record = of_object(RecordKind.DELETE, at + 0.5, row, name=name)
        yield at + 0.5, replace(record, **times, delete_ts=text(after(at + 0.5)))


def _connections() -> Iterator[tuple[float, LogRecord]]:
    row = 0
    for user, (count, lasts) in USERS.items():
        for number in range(count):
            row += 1
            at = 60 + 170 * number
            name = f"127.0.0.1:{40000 + row} -> 127.0.0.1:5672"
            record = of_object(RecordKind.CREATE, at, row, "connection", name)
            begun = replace(reported(record, at, user=user), create_ts=text(after(at)))
            yield at, begun
            record = of_object(RecordKind.DELETE, at + lasts, row, "connection", name)
            yield (
                at + lasts,
                replace(record, create_ts=text(after(at)), delete_ts=text(after(at + lasts))),
            )


def _alarms() -> Iterator[tuple[float, LogRecord]]:
    condition = 'memoryAlarm rabbitmq:node "rabbit@shop"'
    for number, at in enumerate(ALARMS):
        raised = {"severity": "critical", "state": "raised", "condition": condition}
        yield at, event(at, "alarmSet", 1000 + 2 * number, **raised)
        cleared = {"severity": "cleared", "state": "cleared", "condition": condition}
        end = at + ALARM_SECONDS
        yield end, event(end, "alarmCleared", 1001 + 2 * number, **cleared)


def _storm() -> Iterator[tuple[float, LogRecord]]:
    for number in range(STORM_MINUTES * STORM_A_MINUTE):
        at = STORM_BEGIN + number * 60 / STORM_A_MINUTE
        yield at, event(at, "authenticationFailed", 2000 + number, severity="warning")
