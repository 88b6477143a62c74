"""A broker's queues at work: the records of a core, and the resulting records of the log.

Each update changes two gauges and three counters of one queue. Nothing is random: the same arguments make the
same records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.eventlog.record import AnyRecord
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.feed.records import (
    AgentRecord,
    Batch,
    ClassRecord,
    Lifetime,
    ObjectRecord,
    Record,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.values import ObjectLink
from gateway.model.observations import SourceState
from gateway.model.schema import Access, ClassKey, ClassSchema, Element, Kind
from gateway.model.values import ValueType

BATCH_RECORDS: Final = 50
"""The number of records in one batch: as many objects as a body of QMF has at most."""

COUNTERS: Final = ("messagesPublished", "messagesDeliveredOrGot", "messagesAcknowledged")
GAUGES: Final = ("messages", "messagesReady")

BEGIN: Final = 1_795_183_206 * 10**9
"""2026-11-20T14:00:06Z, in nanoseconds since 1970."""

_SCHEMA = ClassSchema(
    ClassKey("rabbitmq", "queue", bytes(16)),
    properties=(
        Element("vhost", ValueType.REFERENCE, access=Access.READ_CREATE, index=True, references="vhost"),
        Element("name", ValueType.STRING, access=Access.READ_CREATE, index=True, max_length=255),
        Element("durable", ValueType.BOOL, access=Access.READ_CREATE),
    ),
    statistics=(
        *(Element(name, ValueType.U64) for name in GAUGES),
        *(Element(name, ValueType.U64, kind=Kind.COUNTER) for name in COUNTERS),
    ),
)
_FIRST_STATISTIC: Final = 3
_CLASS, _SOURCE = 1, 1
_AGENT: Final = "1.0"
_VHOST: Final = ObjectLink("rabbitmq:vhost", 1, "/")


class Workload:
    """Queues, and the mirror that receives their records.

    Args:
        queues: the number of queues.
        step: nanoseconds between two batches, by the clock of agent and gateway; 0: the clock stands still
            for the gateway.

    Attributes:
        now: nanoseconds since 1970.
        mirror: the mirror, which passes every change to the log.
    """

    def __init__(self, queues: int, step: int = 0) -> None:
        self.now = BEGIN
        self.mirror = LogRecorder(RecorderSettings(statistics_interval=0))
        self._queues = queues
        self._step = step
        self._turn = 0
        self._batch = 0

    def begin(self) -> list[AnyRecord]:
        """Apply the source, agent, class, and all queues; return the records of the log."""
        preface: tuple[Record, ...] = (
            SourceRecord(_SOURCE, "rabbitmq", "rabbitmq", SourceState.SYNCHRONISED, "", self.now, self.now),
            AgentRecord(_SOURCE, _AGENT, fresh=True, since=self.now, confirmed=self.now),
            ClassRecord(_CLASS, _SCHEMA, "name", "vhost"),
        )
        rows = range(1, self._queues + 1)
        return self.mirror.apply(Batch(1, 1, (*preface, *(self._queue(row) for row in rows))), self.now)

    def batches(self, turns: int) -> Iterator[Batch]:
        """Yield batches with this many updates of each queue."""
        for _ in range(turns):
            self._turn += 1
            rows = range(1, self._queues + 1)
            for start in range(0, self._queues, BATCH_RECORDS):
                self.now += self._step
                self._batch += 1
                reported = tuple(self._update(row) for row in rows[start : start + BATCH_RECORDS])
                yield Batch(1, self._batch, reported)

    def updates(self, turns: int) -> Iterator[AnyRecord]:
        """Yield the log's records of this many updates of each queue."""
        for batch in self.batches(turns):
            yield from self.mirror.apply(batch, self.now)

    def _queue(self, row: int) -> ObjectRecord:
        name = f"orders.incoming.{row:05}"
        return ObjectRecord(
            source=_SOURCE,
            class_number=_CLASS,
            row=row,
            stable_name=f"/|{name}",
            leaf_name=name,
            parent=_VHOST,
            native_id=f"0-1-1-0-{row}",
            agent=_AGENT,
            lifetime=Lifetime.DURABLE,
            created=self.now,
            properties_sampled=self.now,
            statistics_sampled=self.now,
            reset=self.now,
            changed=self.now,
            values={0: _VHOST, 1: name, 2: True, **self._statistics(row)},
        )

    def _update(self, row: int) -> UpdateRecord:
        sampled = self.now + self._turn * (1_000_000 if self._step == 0 else 0)
        return UpdateRecord(_SOURCE, _CLASS, row, BEGIN, sampled, BEGIN, sampled, self._statistics(row))

    def _statistics(self, row: int) -> dict[int, int | str | bool | ObjectLink]:
        """Return long counters, as of a broker that has run for months, and changing numbers of messages."""
        turn = self._turn
        published = row * 1_000_003 + turn * (row % 977 + 1)
        ready, unacknowledged = (row * 7 + turn * 13) % 5_000, (row + turn) % 250
        delivered = published - 5_000  # a counter that fell would wait
        values = (ready + unacknowledged, ready, published, delivered, delivered - 250)
        return dict(enumerate(values, _FIRST_STATISTIC))
