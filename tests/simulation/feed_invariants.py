"""The invariants of the feed of the core.

They are checked with each batch that leaves the inventory, and at the end. Above each check stands its
meaning for a user of the gateway. The invariants of front ends are in `northbound_invariants`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gateway.feed.records import (
    Batch,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventRecord,
    GapRecord,
    Lifetime,
    ObjectRecord,
    Record,
    SourceRecord,
    UpdateRecord,
)
from gateway.model.observations import SourceState
from gateway.model.schema import ClassSchema, EventSchema, Kind
from gateway.model.times import SECOND
from tests.simulation.index_disk import DurableName
from tests.simulation.scheduler import FURTHEST_OFF, Scheduler
from tests.simulation.truth import Thing, Truth, mark_of
from tests.simulation.violations import demand

GAP_SLACK = 5 * SECOND
"""The tolerance of gaps: the gateway's clock may have been set, and messages may have been in transit."""

WATCHED_AGAIN = 25 * SECOND
"""The longest time after a core is resumed until it detects losses of the time before.

These are messages that its queues have dropped, and the end of an agent whose waiting messages it received.
"""


@dataclass(slots=True)
class _Reported:
    """The last state of an object in the feed."""

    identity: object
    reset: int
    counters: dict[int, int]


class FeedInvariants:
    """The invariants of the core of one simulation.

    Args:
        scheduler: the source of time.
        truth: the true state.

    Attributes:
        sources: the names of the sources, by number.
        contact: the time of the last message of each source.
        stopped_at: the begin of the last stop of the core; ``stopped_until`` is its end.
        no_core_since: the time since which no core runs, or it is stopped; 0 while one runs.
        owners: the owner of each row (source, class and row number) over all time.
        replaced: pairs of former and later owner which the core could not distinguish.
    """

    def __init__(self, scheduler: Scheduler, truth: Truth) -> None:
        self.sources: dict[int, str] = {}
        self.contact: dict[str, int] = {}
        self.no_core_since = 0
        self.stopped_at = self.stopped_until = 0
        self.owners: dict[tuple[int, str, int], object] = {}
        self.replaced: set[tuple[object, object]] = set()
        self._unwatched: dict[str, int] = {}
        self._unreached: dict[str, int] = {}
        self._missing_since: dict[str, int] = {}
        self._scheduler = scheduler
        self._truth = truth
        self._epoch = 0
        self._sequence = 0
        self._classes: dict[int, ClassSchema] = {}
        self._events: dict[int, EventSchema] = {}
        self._living: dict[tuple[int, str, int], _Reported] = {}
        self._durable_rows: dict[DurableName, int] = {}
        self._seen: set[int] = set()
        self._gaps: dict[str, list[tuple[int, int]]] = {}
        self._event_ids: set[str] = set()

    # ---- what the gateway cannot know -----------------------------------------------------------------

    def watches(self, number: int, source: str) -> None:
        """Record that a core begins to watch a source; earlier events may be unknown to it."""
        self.sources[number] = source
        if source not in self._truth.kept or self._epoch == 0:
            self._unwatched.setdefault(source, self.contact.get(source, 0))

    def core_stopped(self) -> None:
        """Record that the core is stopped; after a short resumption it may not have received all messages."""
        if self.stopped_until < self._scheduler.now - WATCHED_AGAIN:
            self.stopped_at = self._scheduler.now
        self.stopped_until = 2**63

    def core_killed(self) -> None:
        """Record that the core was killed: messages until the next core has read everything are lost.

        A subscriber recognises that by the new epoch, and by the source's state at the former core's end.
        """
        recently = self.stopped_until > self._scheduler.now - WATCHED_AGAIN
        for source in self.sources.values():
            if source in self._truth.kept:
                continue  # its events wait for the next core
            received = self._unreached.get(source, self.contact.get(source, 0))
            if source in self._missing_since:  # it said so; the core that ends does not say until when
                received = min(received, self._missing_since[source])
            if recently:  # what a queue dropped meanwhile is found out some seconds later
                received = min(received, self.stopped_at)
            since, until = self._truth.unheard.get(source, (0, 0))
            ran_until = self.stopped_at if recently else self._scheduler.now
            if until >= ran_until:  # stopped or killed before it could find out
                received = min(received, since)
            self._unwatched.setdefault(source, received)

    def power_failed(self, kept: Collection[DurableName]) -> None:
        """Keep only the rows of these names, which are on the disk; others may get new, unused rows."""
        self._durable_rows = {name: row for name, row in self._durable_rows.items() if name in kept}

    def _state(self, source: str, state: SourceState, complete_until: int) -> None:
        if complete_until:
            self._missing_since[source] = complete_until
        elif state is SourceState.SYNCHRONISED:
            self._missing_since.pop(source, None)
        if state is not SourceState.SYNCHRONISED:
            self._unreached.setdefault(source, self.contact.get(source, 0))
            return
        self._unreached.pop(source, None)
        since = self._unwatched.pop(source, None)
        if since is not None:
            self._gaps.setdefault(source, []).append((since, self._scheduler.now))

    # ---- the feed -------------------------------------------------------------------------------------

    def published(self, batch: Batch) -> None:
        """Check a batch that left the inventory."""
        if batch.epoch != self._epoch:
            demand(batch.epoch > self._epoch, f"epoch {batch.epoch} comes after {self._epoch}")
            self._epoch, self._sequence = batch.epoch, 0
            self._classes.clear()
            self._events.clear()
            self._living.clear()
        demand(batch.sequence == self._sequence + 1, f"sequence {batch.sequence} after {self._sequence}")
        self._sequence = batch.sequence
        for record in batch.records:
            self._record(record)

    def _record(self, record: Record) -> None:
        match record:
            case ClassRecord(number, schema):
                self._classes[number] = schema
            case ObjectRecord():
                self._object(record)
            case UpdateRecord():
                self._update(record)
            case DeleteRecord():
                self._delete(record)
            case GapRecord(source, start, end):
                demand(start <= end, f"a gap ends before it begins: {record}")
                self._gaps.setdefault(self.sources[source], []).append((start, end))
            case SourceRecord(number, state=state, complete_until=complete_until):
                self._state(self.sources[number], state, complete_until)
            case EventClassRecord(number, schema):
                self._events[number] = schema
            case EventRecord():
                self._event(record)

    def _event(self, record: EventRecord) -> None:
        # An event id is the same everywhere and never means another event.
        demand(record.event_id not in self._event_ids, f"event id {record.event_id} is told twice")
        self._event_ids.add(record.event_id)
        schema = self._events.get(record.class_number)  # the own ones are told in snapshots only
        if (
            schema is not None and schema.key.name == "eventsLost"
        ):  # as an agent tells a gap, by a clock of its own
            arguments = {argument.name: record.values.get(p) for p, argument in enumerate(schema.arguments)}
            since, until = (arguments.get(name) for name in ("since", "until"))
            if isinstance(since, int) and isinstance(until, int):
                gap = (since - FURTHEST_OFF, until + FURTHEST_OFF)
                self._gaps.setdefault(self.sources[record.source], []).append(gap)

    def _object(self, record: ObjectRecord) -> None:
        schema = self._classes[record.class_number]
        key = (record.source, str(schema.key), record.row)
        thing = self._thing_of(record, schema)
        identity = self._identity(record, thing)
        # No row number ever means two objects: not at once, not one after the other, not over restarts; and
        # a transient object, which is another one each time, never inherits a row.
        owner = self.owners.setdefault(key, identity)
        if owner != identity and key not in self._living and self._is_alike(record, owner):
            self.replaced.add((owner, identity))
            owner = self.owners[key] = identity
        demand(owner == identity, f"row {key} belonged to {owner} and is given to {identity}")
        if record.lifetime is Lifetime.DURABLE:
            # A durable object keeps its row over every restart of anything.
            name = (record.source, str(schema.key), record.stable_name)
            row = self._durable_rows.setdefault(name, record.row)
            demand(row == record.row, f"{name} had row {row} and has {record.row}")
        if thing is not None:
            self._seen.add(thing.serial)
        known = self._living.get(key)
        counters = _counters(schema, record.values)
        if known is not None:
            demand(known.identity == identity, f"row {key} of {known.identity} is told for {identity}")
            self._discontinuity(key, known, counters, record.reset)
        self._living[key] = _Reported(identity, record.reset, counters)

    def _is_alike(self, record: ObjectRecord, owner: object) -> bool:
        """Return whether a new core cannot know that the former object of this name has ended.

        RabbitMQ lists queues without their creation, and the end was not reported.
        """
        former = self._truth.things.get(owner) if isinstance(owner, int) else None
        unknown = record.lifetime is Lifetime.TRANSIENT and not record.created
        return unknown and former is not None and not former.exists

    def _update(self, record: UpdateRecord) -> None:
        schema = self._classes[record.class_number]
        key = (record.source, str(schema.key), record.row)
        known = self._living.get(key)
        # Nobody is told of changes of what he does not know.
        demand(known is not None, f"an update of {key}, which nobody was told of")
        assert known is not None
        counters = _counters(schema, record.values)
        self._discontinuity(key, known, counters, record.reset)
        known.counters |= counters
        known.reset = record.reset

    def _delete(self, record: DeleteRecord) -> None:
        schema = self._classes[record.class_number]
        key = (record.source, str(schema.key), record.row)
        demand(key in self._living, f"an end of {key}, which nobody was told of, or twice")
        del self._living[key]
        # An end that somebody told has a time.
        demand(record.inferred or record.deleted > 0, f"{record} was told, and has no time")

    def _discontinuity(
        self, key: tuple[int, str, int], known: _Reported, counters: dict[int, int], reset: int
    ) -> None:
        # Whoever computes rates is told whenever a counter may have begun again.
        for position, value in counters.items():
            former = known.counters.get(position)
            if former is not None and value < former:
                demand(reset != known.reset, f"counter {position} of {key} fell and nobody was told")

    def _thing_of(self, record: ObjectRecord, schema: ClassSchema) -> Thing | None:
        class_name = str(schema.key)
        element = self._truth.marks.get(class_name, "")
        position = schema.positions.get(element)
        if position is None:
            return None
        mark = mark_of(record.values.get(position))
        return self._truth.marked(self.sources[record.source], class_name, mark, record.stable_name)

    @staticmethod
    def _identity(record: ObjectRecord, thing: Thing | None) -> object:
        if record.lifetime is Lifetime.DURABLE:
            return record.stable_name
        return thing.serial if thing is not None else (record.stable_name, record.native_id)

    # ---- the end --------------------------------------------------------------------------------------

    def account(self) -> None:
        """Check that every object that ever existed was published, or lies within a published gap."""
        for thing in self._truth.things.values():
            if thing.serial in self._seen or not thing.announced or not thing.ended:
                continue
            intervals = self._gaps.get(thing.source, [])
            covered = any(
                start - GAP_SLACK <= thing.ended and thing.created <= end + GAP_SLACK
                for start, end in intervals
            )
            demand(covered, f"{thing} came and went, and nobody was told, nor of a gap")


def _counters(schema: ClassSchema, values: object) -> dict[int, int]:
    assert isinstance(values, dict)
    elements = schema.elements
    return {
        position: value
        for position, value in values.items()
        if elements[position].kind is Kind.COUNTER and isinstance(value, int)
    }
