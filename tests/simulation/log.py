"""The event log's mirror of each core, the records that reach the disk, and the invariants of its records.

The disk outlives the cores. Of each core it has the records up to a moment shortly before its end, in
segments whose heads may be cut off; the next core reads the last state from there.

It makes none of the simulation's choices: it is driven by the batches alone, and its own chances come from
the seed. So the same seed makes the same faults with and without it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from gateway.eventlog.last_state import LastEvents, LastState, last_events, last_state
from gateway.eventlog.logged_events import absence_record, start_record
from gateway.eventlog.record import AnyRecord, LogRecord, RecordKind, converter
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.eventlog.retention import Why, time_text
from gateway.eventlog.segment import VERSION, LogIdentity, compactable, identity_path, segment_path
from gateway.feed.latest import HistoryLimits
from gateway.feed.records import Batch, ClassRecord, EventRecord, GapRecord, ObjectRecord, SourceRecord
from gateway.inventory.inventory import Inventory
from gateway.model.observations import SETTLED_AFTER
from gateway.model.times import SECOND
from gateway.service.processes.event_log import AckTracker
from tests.eventlog.records import LOG_ID, block, with_all_fields, write_segment
from tests.eventlog.replay import Replayed, assert_deltas_add_up
from tests.simulation.core import GATEWAY
from tests.simulation.log_bounds import LogBounds
from tests.simulation.log_deliveries import DeliveriesLog
from tests.simulation.recording import OperationDisk, Recording
from tests.simulation.scheduler import Clock

INTERVAL = 10 * SECOND
_NEW_SEGMENT = 0.03
_AT_A_TIME = 5
_UNCOMMITTED = SECOND
"""The time before a kill within which records may not have reached the disk."""

_COMPACTED = 0.5
_LOOKS = 5 * SECOND
"""The shortest time between two checks of the bounds of the log."""

_ABSENCE = absence_record("", "").text


@dataclass
class _Segment:
    """One segment: its records, and their number when its head was complete; 0 if it is not yet."""

    records: list[LogRecord] = field(default_factory=list)
    head_ends_at: int = 0


@dataclass
class _Life:
    """The records of one core, and its events and gaps."""

    mirror: LogRecorder
    head: Iterator[AnyRecord]
    facts: Callable[[], dict[str, object]]
    segments: list[_Segment] = field(default_factory=lambda: [_Segment()])
    events: list[str] = field(default_factory=list)
    gaps: int = 0
    recording: Recording | None = None
    deliveries: DeliveriesLog | None = None
    recorded: list[tuple[int, int]] = field(default_factory=list)
    """Pairs of time and number of records, of the last moments."""
    times: list[int] = field(default_factory=list)
    """The time at which each record was made, by the clock that is never set."""

    @property
    def records(self) -> list[LogRecord]:
        """All records of the core."""
        return [record for segment in self.segments for record in segment.records]

    def record(self, records: list[AnyRecord]) -> None:
        """Add records to the open segment."""
        whole = with_all_fields(records)
        self.segments[-1].records += whole
        for record in whole:
            if record.kind is RecordKind.OPERATION and self.recording is not None:
                self.recording.append(record)

    def publish_head(self, most: int | None = None) -> None:
        """Add further records to the head of the open segment."""
        reported = list(islice(self.head, most))
        self.record(reported)
        if most is None or len(reported) < most:
            open_segment = self.segments[-1]
            open_segment.head_ends_at = open_segment.head_ends_at or len(open_segment.records)

    def note(self, time: int) -> None:
        """Note the number of records at a time; they will all reach the disk soon."""
        self.recorded.append((time, sum(len(segment.records) for segment in self.segments)))
        self.times += [time] * (self.recorded[-1][1] - len(self.times))
        while len(self.recorded) > 1 and self.recorded[1][0] < time - _UNCOMMITTED:
            del self.recorded[0]

    def are_on_disk(self, records: int, time: int) -> bool:
        """Return whether so many records are certainly on the disk, even after a kill now."""
        return self.committed(time - _UNCOMMITTED) >= records

    def committed(self, time: int) -> int:
        """Return how many records had been recorded by a time of the last moments."""
        return max((count for noted, count in self.recorded if noted <= time), default=0)

    def tick(self, now: int) -> None:
        """Record all statistics that are due."""
        while (due := self.mirror.wake_at) is not None and due <= now:
            self.record(self.mirror.tick(now))


class SimulatedLog:
    """The event log, which records the feed of each core.

    Args:
        seed: the seed for the begin of segments, the loss of records, and compaction.
        clock: the gateway's clock.
        mirror: the part under test.
        disk: takes the records of operations.
        folder: the folder of the log.
        bounds: keeps the log within its bounds.
        durable: names of the sources with a durable subscription.

    Attributes:
        acks: the deliveries that the log has, for the present core.
        reported_again: records of deliveries that were on the disk in part when a core was killed.
    """

    def __init__(
        self,
        seed: int,
        clock: Clock,
        mirror: type[LogRecorder],
        disk: OperationDisk,
        folder: Path,
        bounds: type[LogBounds] = LogBounds,
        durable: Collection[str] = (),
    ) -> None:
        self.acks: AckTracker
        self.reported_again: list[LogRecord] = []
        self._durable = durable
        self.disk = disk
        self._random = random.Random(f"log {seed}")  # noqa: S311  repeatable on purpose
        self._clock = clock
        self._made = mirror
        self._folder = folder
        self._life: _Life | None = None
        self._past: list[LogRecord] = []
        self._standing_seq = 1
        self._last = LastState()
        self._bounds = bounds(random.Random(f"bounds {seed}"), clock.scheduler, folder)  # noqa: S311  likewise
        self._kept_at = 0
        segment_path(folder, 1, is_open=True).parent.mkdir(parents=True)
        self._write_identity()

    def last_state(self, sources: Collection[str]) -> LastState:
        """Return the last state of these sources, as a core reads it at its start."""
        self._last = last_state(self._folder, sources)
        return self._last

    def last_events(self) -> LastEvents:
        """Return the events of earlier cores, as a core reads them at its start."""
        return last_events(self._folder, HistoryLimits().events, GATEWAY)

    @property
    def events(self) -> list[str]:
        """The ids of all events that the log has."""
        return [record.event_id for record in self.event_records if record.event_id]

    @property
    def event_records(self) -> list[LogRecord]:
        """The records of all events that the log has."""
        assert self._life is not None
        records = (*self._past, *self._life.records)
        return [record for record in records if record.kind is RecordKind.EVENT]

    def begins(self, inventory: Inventory, facts: Callable[[], dict[str, object]]) -> Recording:
        """Begin the log of a core whose sources are known."""
        records, sequence = inventory.snapshot()
        recording = Recording(self.disk)
        self._bounds.core_begins()
        mirror = self._made(RecorderSettings(INTERVAL), self._last, self._durable)
        life = self._life = _Life(mirror, mirror.head(self._clock.now), facts, recording=recording)
        self._await_deliveries(life)
        self._start_segment(self._life, Why.BEGAN)
        self.published(Batch(1, sequence, tuple(records)))
        return recording

    def ends(self) -> None:
        """End the log of a core that was killed."""
        life = self._life
        if life is None or life.recording is None:
            return
        life.recording.die()
        life.recording = None
        self._write(life)
        for segment in compactable(self._folder, standing=False):
            if self._random.random() < _COMPACTED:
                self._bounds.compacted(segment)  # no core looks there

    def published(self, batch: Batch) -> None:
        """Record a batch that leaves the inventory."""
        life = self._life
        assert life is not None, "a core that told something before its log was open"
        now = self._clock.now()
        gathered = life.deliveries.gathered if life.deliveries is not None else None
        if gathered is None:
            life.tick(now)
        records = life.mirror.apply(batch, now)
        life.events += [record.event_id for record in batch.records if isinstance(record, EventRecord)]
        life.gaps += sum(isinstance(record, GapRecord) for record in batch.records)
        if gathered is None:
            life.record(records)
            self._recorded(life)
        else:
            gathered += records

    def _await_deliveries(self, life: _Life) -> None:
        life.deliveries = DeliveriesLog(
            self.disk,
            self._random,
            self._clock,
            self._last.deliveries,
            lambda: sum(len(segment.records) for segment in life.segments),
            life.record,
            lambda: life.tick(self._clock.now()),
            lambda: self._recorded(life),
        )
        self.acks = AckTracker(life.deliveries, self._last.deliveries)

    def _recorded(self, life: _Life) -> None:
        """Begin a new segment, by chance, after something was recorded."""
        if self._random.random() < _NEW_SEGMENT:
            life.publish_head()
            life.segments.append(_Segment())
            if life.recording is not None:
                life.recording.new_segment()
            life.head = life.mirror.head(self._clock.now)
            self._start_segment(life, Why.AGE)
        life.publish_head(_AT_A_TIME)
        life.note(self._clock.scheduler.now)
        self._keep_within_bounds(life)

    def _keep_within_bounds(self, life: _Life) -> None:
        """Delete old records, once the records that the next core needs are on the disk."""
        head = life.segments[0].head_ends_at
        if (
            head
            and life.are_on_disk(head, self._clock.scheduler.now)
            and self._clock.scheduler.now - self._kept_at > _LOOKS
        ):
            self._kept_at = self._clock.scheduler.now
            self._bounds.keep()

    def check(self, inventory: Inventory, *, is_calm: bool) -> Iterator[str]:
        """Yield the differences between the log of a core that ends now and its inventory.

        Args:
            inventory: the inventory of the core.
            is_calm: whether everything was read since the core was started.
        """
        life = self._life
        assert life is not None
        life.publish_head()
        life.tick(self._clock.now() + SETTLED_AFTER + 2 * INTERVAL)
        if life.mirror.refused:
            yield f"the log refused {life.mirror.refused} records"
        yield from self._lives(inventory, life, is_calm=is_calm)
        reported = life.records
        events = [record.event_id for record in reported if record.kind is RecordKind.EVENT]
        if events != life.events:
            yield "the log has other events than were told"
        gaps = [record for record in reported if record.kind is RecordKind.GAP and record.text != _ABSENCE]
        if len(gaps) != life.gaps:
            yield "the log has other gaps than were told"

    @property
    def records(self) -> list[LogRecord]:
        """The log from its begin; of sources whose last state was not read, that of the present core."""
        assert self._life is not None
        remembered = {None, *self._last.complete_until}
        return [*(record for record in self._past if record.source in remembered), *self._life.records]

    def _lives(self, inventory: Inventory, life: _Life, *, is_calm: bool) -> Iterator[str]:
        expected = dict(_standing(inventory))
        log = self.records
        unconfirmed = frozenset() if is_calm else frozenset(self._last.objects)
        for what, records in (("the last segment", life.segments[-1].records), ("the log", log)):
            found = Replayed().read(records).values
            for identifier in sorted(found.keys() | expected.keys()):
                if identifier not in expected and identifier in unconfirmed:
                    continue
                if found.get(identifier) != expected.get(identifier):
                    reported, known = found.get(identifier), expected.get(identifier)
                    yield f"{what} tells {identifier} as {reported}, the core knows {known}"
        begun = Counter(r.object_id for r in log if r.kind is RecordKind.CREATE)
        ended = Counter(r.object_id for r in log if r.kind is RecordKind.DELETE)
        deleted = sum(source.counters["objects_deleted"] for source in inventory.sources)
        if ended.total() < deleted:
            yield f"the log has {ended.total()} ends of objects, the core told of {deleted}"
        for lived, times in begun.items():
            if times > ended[lived] + (lived in expected or lived in unconfirmed):
                yield f"{lived} began {times} times, ended {ended[lived]} times"
        try:
            assert_deltas_add_up(log)
        except (AssertionError, KeyError) as error:
            yield f"the log's deltas do not add up: {error!r}"

    def _start_segment(self, life: _Life, why: Why) -> None:
        late = life.deliveries.facts if life.deliveries is not None else {}
        life.record([start_record(time_text(self._clock.now()), why, {**life.facts(), **late})])

    def _write(self, life: _Life) -> None:
        """Write the records that have reached the disk, of a core that was killed just now."""
        left = life.committed(self._clock.scheduler.now - self._random.randrange(_UNCOMMITTED))
        if life.deliveries is not None:
            left = max(left, life.deliveries.committed)
            for before, after in life.deliveries.spans:
                if (
                    before < left < after
                ):  # what came of it is there in part: it is promised no more than that
                    self.reported_again += life.records[before:left]
        reported = 0
        for segment in life.segments:
            there, left = segment.records[:left], max(0, left - len(segment.records))
            if there:
                seq = len(self._past) + 1
                if segment.head_ends_at and segment.head_ends_at <= len(there):
                    self._standing_seq = seq
                path = write_segment(self._folder, seq, block(there, seq))
                reported += len(there)
                self._bounds.written(path, seq, life.times[reported - 1])
                self._past += there
        self._write_identity()

    def _write_identity(self) -> None:
        identity = LogIdentity(
            version=VERSION, log_id=LOG_ID, next_seq=len(self._past) + 1, standing_seq=self._standing_seq
        )
        identity_path(self._folder).write_text(identity.text(), encoding="utf-8")


def _standing(inventory: Inventory) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the objects of an inventory, with their values in the log's form."""
    records, _ = inventory.snapshot()
    classes = {record.number: record.schema for record in records if isinstance(record, ClassRecord)}
    sources = {record.number: record.name for record in records if isinstance(record, SourceRecord)}
    for record in records:
        if isinstance(record, ObjectRecord):
            schema, source = classes[record.class_number], sources[record.source]
            values = {}
            for position, value in record.values.items():
                element = schema.elements[position]
                convert = converter(element.type)
                shown = value if convert is None else convert(value, source)
                if shown is not None:
                    values[element.name] = shown
            yield f"{source}/{schema.key}/{record.row}", values
