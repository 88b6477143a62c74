"""The event log's mirror of each core, and what must hold of its records; no disk is under them.

It takes nothing of the simulation's choices: it is moved by the batches alone, and its own chances come from
the seed. So the same seed makes the same faults with and without it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from gateway.eventlog.logged_values import converter
from gateway.eventlog.mirror import Mirror, MirrorSettings
from gateway.eventlog.record import AnyRecord, LogRecord, RecordKind
from gateway.feed.records import Batch, ClassRecord, EventRecord, GapRecord, ObjectRecord, SourceRecord
from gateway.inventory.inventory import Inventory
from tests.eventlog.records import with_all_fields
from tests.eventlog.replay import Replayed, assert_deltas_add_up
from tests.simulation.recording import OperationDisk, Recording
from tests.simulation.scheduler import SECOND, Clock

INTERVAL = 10 * SECOND
_NEW_SEGMENT = 0.03
_AT_A_TIME = 5


@dataclass
class _Life:
    """What one core told, and what was recorded of it."""

    mirror: Mirror
    segments: list[list[LogRecord]] = field(default_factory=lambda: [[]])
    head: Iterator[AnyRecord] = field(default_factory=lambda: iter(()))
    events: list[str] = field(default_factory=list)
    gaps: int = 0
    recording: Recording | None = None

    def record(self, records: list[AnyRecord]) -> None:
        """Records come to stand in the segment that is open."""
        whole = with_all_fields(records)
        self.segments[-1] += whole
        for record in whole:
            if record.kind is RecordKind.OPERATION and self.recording is not None:
                self.recording.append(record)

    def tick(self, now: int) -> None:
        """All that is due."""
        while (due := self.mirror.wake_at) is not None and due <= now:
            self.record(self.mirror.tick(now))


class SimulatedLog:
    """Records what each core tells.

    Args:
        seed: of when segments begin.
        clock: the gateway's.
        mirror: the part under test.
        disk: takes what is told of operations.
    """

    def __init__(self, seed: int, clock: Clock, mirror: type[Mirror], disk: OperationDisk) -> None:
        self.disk = disk
        self._random = random.Random(f"log {seed}")  # noqa: S311  repeatable on purpose
        self._clock = clock
        self._made = mirror
        self._life: _Life | None = None

    def begins(self, inventory: Inventory) -> Recording:
        """A core was started, and its sources are known."""
        records, sequence = inventory.snapshot()
        recording = Recording(self.disk)
        self._life = _Life(self._made(MirrorSettings(INTERVAL)), recording=recording)
        self.published(Batch(1, sequence, tuple(records)))
        return recording

    def ends(self) -> None:
        """The core was killed."""
        if self._life is not None and self._life.recording is not None:
            self._life.recording.die()
            self._life.recording = None

    def published(self, batch: Batch) -> None:
        """A batch leaves the inventory."""
        life = self._life
        assert life is not None, "a core that told something before its log was open"
        now = self._clock.now()
        life.tick(now)
        life.record(life.mirror.apply(batch, now))
        life.events += [record.event_id for record in batch.records if isinstance(record, EventRecord)]
        life.gaps += sum(isinstance(record, GapRecord) for record in batch.records)
        if self._random.random() < _NEW_SEGMENT:
            life.record(list(life.head))
            life.segments.append([])
            if life.recording is not None:
                life.recording.new_segment()
            life.head = life.mirror.head(self._clock.now)
        life.record(list(islice(life.head, _AT_A_TIME)))

    def check(self, inventory: Inventory) -> Iterator[str]:
        """What the log of a core that ends now says otherwise than the core knows."""
        life = self._life
        assert life is not None
        life.record(list(life.head))
        life.tick(self._clock.now() + 2 * INTERVAL)
        log = [record for segment in life.segments for record in segment]
        if life.mirror.refused:
            yield f"the log refused {life.mirror.refused} records"
        yield from _lives(inventory, life, log)
        try:
            assert_deltas_add_up(log)
        except (AssertionError, KeyError) as error:
            yield f"the log's deltas do not add up: {error!r}"
        events = [record.event_id for record in log if record.kind is RecordKind.EVENT]
        if events != life.events:
            yield "the log has other events than were told"
        if sum(record.kind is RecordKind.GAP for record in log) != life.gaps:
            yield "the log has other gaps than were told"


def _lives(inventory: Inventory, life: _Life, log: list[LogRecord]) -> Iterator[str]:
    expected = dict(_standing(inventory))
    for what, records in (("the last segment", life.segments[-1]), ("the log", log)):
        found = Replayed().read(records).values
        for identifier in sorted(found.keys() | expected.keys()):
            if found.get(identifier) != expected.get(identifier):
                told, known = found.get(identifier), expected.get(identifier)
                yield f"{what} tells {identifier} as {told}, the core knows {known}"
    begun = Counter(r.object_id for r in log if r.kind is RecordKind.CREATE)
    ended = Counter(r.object_id for r in log if r.kind is RecordKind.DELETE)
    deleted = sum(source.counters["objects_deleted"] for source in inventory.sources)
    if ended.total() < deleted:
        yield f"the log has {ended.total()} ends of objects, the core told of {deleted}"
    for lived, times in begun.items():
        if times > ended[lived] + (lived in expected):
            yield f"{lived} began {times} times, ended {ended[lived]} times"


def _standing(inventory: Inventory) -> Iterator[tuple[str, dict[str, object]]]:
    """The objects that a core knows, with their values in the log's form."""
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
