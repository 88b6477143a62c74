"""The messages that wait for one subscriber: bounded, in order, merged when the subscriber is slow."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from gateway.feed.operations import OperationRecord
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    AlarmRecord,
    Batch,
    DeleteRecord,
    EventLogRecord,
    FeedAnswer,
    FeedMessage,
    Interest,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SnapshotEnded,
    SourceRecord,
    UpdateRecord,
)

_LASTING = AgentRecord | AlarmRecord | EventLogRecord | OperationRecord

MAX_BATCH_RECORDS = 256
"""Records in one message. A hundred thousand may have been merged for a slow subscriber: encoding them at
once would block the event loop for seconds, and exceed the largest frame."""

SNAPSHOT_BATCH_RECORDS = 32
"""Records in one batch of a snapshot, so few that encoding one blocks the loop for less than 5 ms."""


_LOOKED_AT = 2_000
"""Records of a snapshot that are examined for one message to a subscriber with an `Interest`."""


class Subscription:
    """The messages that one subscriber has not taken yet.

    Args:
        epoch: the epoch of the core.
        limit: records that may wait. Beyond it, updates of one object are merged into the latest, and so are
            the states of sources, agents, alarms, operations and of the event log. If creates, deletes and
            events alone exceed it, everything waiting is dropped, ``overflows`` counts it, and
            `needs_snapshot` requests a new snapshot. The subscriber then knows that it missed something,
            because a snapshot begins in the middle of its stream. Answers to requests are never dropped,
            and never overtake batches that were offered before them.

    Attributes:
        needs_snapshot: whether `start_snapshot` must be called before anything can be taken.
        merges: the number of times that records were merged.
        overflows: the number of times that merging was not enough.
        answers: answers that were not taken yet.
    """

    def __init__(self, epoch: int, limit: int = 100_000) -> None:
        self._epoch = epoch
        self._limit = limit
        self._waiting: deque[Batch | FeedAnswer] = deque()
        self._records = 0
        self.answers = 0
        self._snapshot: deque[Record] | None = None
        self._sequence = 0
        self._began = False
        self._interest: Interest | None = None
        self.needs_snapshot = True
        self.merges = 0
        self.overflows = 0

    @property
    def waiting(self) -> int:
        """The records that were not taken yet, without those of a snapshot."""
        return self._records

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits to be taken, and no snapshot is due."""
        return not (self.needs_snapshot or self._waiting) and self._snapshot is None

    def start_snapshot(self, records: Iterable[Record], sequence: int) -> None:
        """Send ``records`` (immutable, in dependency order) before anything that waits after ``sequence``."""
        self._snapshot = deque(records)
        self._drop_batches()
        self._sequence = sequence
        self._began = False
        self.needs_snapshot = False

    def require_snapshot(self) -> None:
        """Begin again with a snapshot, as after an overflow; answers are kept."""
        self._drop_batches()
        self._snapshot = None
        self.needs_snapshot = True

    def narrow(self, interest: Interest) -> None:
        """Limit snapshots to these objects from now on, also the rest of the one under way."""
        self._interest = interest

    def offer(self, batch: Batch) -> None:
        """Add a batch, which every subscriber receives."""
        if self.needs_snapshot:
            return
        self._waiting.append(batch)
        self._records += len(batch.records)
        if self._records > self._limit:
            self._merge()
        if self._records > self._limit:
            self.overflows += 1
            self.require_snapshot()

    def answer(self, answer: FeedAnswer) -> None:
        """Add an answer to this subscriber. The server bounds their number."""
        self._waiting.append(answer)
        self.answers += 1

    def take(self) -> FeedMessage | None:
        """Return the next message to send; ``None`` when nothing waits."""
        if self._snapshot is not None:
            return self._next_of_snapshot(self._snapshot)
        if self.needs_snapshot or not self._waiting:
            return None
        message = self._waiting.popleft()
        if not isinstance(message, Batch):
            self.answers -= 1
            return message
        if len(message.records) > MAX_BATCH_RECORDS:
            self._waiting.extendleft(reversed(_parts(message)))
            return self.take()
        self._records -= len(message.records)
        return message

    def _next_of_snapshot(self, snapshot: deque[Record]) -> FeedMessage:
        if not self._began:
            self._began = True
            return SnapshotBegan(self._epoch, self._sequence)
        if not snapshot:
            self._snapshot = None
            return SnapshotEnded(self._epoch, self._sequence)
        if self._interest is not None:
            records = _wanted(snapshot, self._interest)
        else:
            records = [snapshot.popleft() for _ in range(min(SNAPSHOT_BATCH_RECORDS, len(snapshot)))]
        return Batch(self._epoch, self._sequence, tuple(records))

    def _drop_batches(self) -> None:
        answers = [message for message in self._waiting if not isinstance(message, Batch)]
        self._waiting = deque(answers)
        self._records = 0

    def _merge(self) -> None:
        """Merge all waiting batches into one, and the updates of an object into its latest state."""
        self.merges += 1
        batches = [message for message in self._waiting if isinstance(message, Batch)]
        self._drop_batches()
        merged: list[Record | None] = []
        last: dict[tuple[object, ...], int] = {}
        for batch in batches:
            for record in batch.records:
                key = _mergeable_key(record)
                position = last.get(key) if key else None
                earlier = merged[position] if position is not None else None
                if isinstance(record, UpdateRecord) and isinstance(earlier, ObjectRecord | UpdateRecord):
                    assert position is not None
                    merged[position] = _folded(earlier, record)
                    continue
                if isinstance(record, _LASTING) and position is not None:
                    merged[position] = record  # in its place: later records may depend on it
                    continue
                # These move behind the last changes of the agent's objects.
                if isinstance(record, SourceRecord | AgentGoneRecord) and position is not None:
                    merged[position] = None
                if key:
                    last[key] = len(merged)
                if isinstance(record, DeleteRecord):
                    last.pop((record.source, record.class_number, record.row), None)
                merged.append(record)
        records = tuple(record for record in merged if record is not None)
        self._waiting.appendleft(Batch(self._epoch, batches[-1].sequence, records))
        self._records = len(records)


def _wanted(snapshot: deque[Record], interest: Interest) -> list[Record]:
    """Return the next records of a snapshot without unwanted objects; possibly none."""
    wanted: list[Record] = []
    for _ in range(min(_LOOKED_AT, len(snapshot))):
        record = snapshot.popleft()
        if not isinstance(record, ObjectRecord) or interest.wants(record):
            wanted.append(record)
            if len(wanted) == SNAPSHOT_BATCH_RECORDS:
                break
    return wanted


def _parts(batch: Batch) -> list[Batch]:
    """Split a batch into messages of at most `MAX_BATCH_RECORDS`."""
    starts = range(0, len(batch.records), MAX_BATCH_RECORDS)
    parts = (batch.records[start : start + MAX_BATCH_RECORDS] for start in starts)
    return [msgspec.structs.replace(batch, records=part) for part in parts]


def _mergeable_key(record: Record) -> tuple[object, ...] | None:
    key: tuple[object, ...] | None = None
    match record:
        case ObjectRecord() | UpdateRecord():
            key = (record.source, record.class_number, record.row)
        case SourceRecord():
            key = ("source", record.number)
        case AgentRecord() | AgentGoneRecord():
            key = ("agent", record.source, record.agent)
        case AlarmRecord():
            key = ("alarm", record.number)
        case OperationRecord():
            key = ("operation", record.number)
        case EventLogRecord():
            key = ("event-log",)
    return key


def _folded(earlier: ObjectRecord | UpdateRecord, later: UpdateRecord) -> ObjectRecord | UpdateRecord:
    """Return ``earlier`` with the changes of ``later``: the same state in one record less."""
    gone = set(later.absent)
    values = {p: v for p, v in earlier.values.items() if p not in gone} | dict(later.values)
    if isinstance(earlier, UpdateRecord):
        absent = tuple(sorted((set(earlier.absent) | gone) - values.keys()))
        # What a reader did not see of its counters is not undone by a later change.
        counting = max(earlier.counting, later.counting)
        return msgspec.structs.replace(later, values=values, absent=absent, counting=counting)
    return msgspec.structs.replace(
        earlier,
        properties_sampled=later.properties_sampled,
        statistics_sampled=later.statistics_sampled,
        reset=later.reset,
        changed=later.changed,
        values=values,
        counting=max(earlier.counting, later.counting),
    )
