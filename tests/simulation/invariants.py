"""What must hold whatever happens: everything that a simulation checks stands here.

Checked with each batch that leaves the inventory, with each reading of the SNMP store, and at the end, when
all faults have ceased. Each check says above it what it means for whoever relies on the gateway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gateway.feed.freshness import Freshness
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
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import (
    ALARM_ENTRY,
    CLASS_ENTRY,
    SOURCE_ENTRY,
    SUM_ENTRY,
    AlarmColumn,
    ClassColumn,
    SourceColumn,
    SourceStateNumber,
    SumColumn,
)
from gateway.snmp.row_columns import RowColumn, RowLifetime
from gateway.snmp.store import Store
from tests.simulation.receivers import Receivers
from tests.simulation.scheduler import FURTHEST_OFF, SECOND, Scheduler
from tests.simulation.table_reader import ROOT, ShownRow, TableReader, decoded, walk
from tests.simulation.truth import Plain, Thing, Truth, plain

ALLOWED_LAG = 60 * SECOND
"""What is shown as fresh was true so long ago at most: three heartbeats missed, and ways through queues."""

STALE_AFTER = 45 * SECOND
"""Of a source that nobody heard for so long nothing is shown as fresh."""

GAP_SLACK = 5 * SECOND
"""A gap is told by the gateway's clock, which may have been set, and by what was still on its way."""


class ViolationError(AssertionError):
    """Something that must hold did not."""


@dataclass(slots=True)
class _Told:
    """An object as the feed told it last."""

    identity: object
    reset: int
    counters: dict[int, int]


class Invariants:
    """Watches one simulation.

    Args:
        scheduler: for the time.
        truth: what is true.
        reader: reads the tables of classes.
    """

    def __init__(self, scheduler: Scheduler, truth: Truth, reader: TableReader) -> None:
        self.sources: dict[int, str] = {}
        self.contact: dict[str, int] = {}
        self._unwatched: dict[str, int] = {}
        self._unreached: dict[str, int] = {}
        self._scheduler = scheduler
        self._truth = truth
        self._reader = reader
        self._epoch = 0
        self._sequence = 0
        self._classes: dict[int, ClassSchema] = {}
        self._events: dict[int, EventSchema] = {}
        self._living: dict[tuple[int, str, int], _Told] = {}
        self._owners: dict[tuple[int, str, int], object] = {}
        self._durable_rows: dict[tuple[int, str, str], int] = {}
        self._seen: set[int] = set()
        self._gaps: dict[str, list[tuple[int, int]]] = {}
        self._event_ids: set[str] = set()
        self._names: dict[str, object] = {}
        self._durable_names: dict[object, str] = {}
        self._counters_shown: dict[tuple[str, int, int, str], tuple[int, Plain]] = {}

    # ---- what the gateway cannot know -----------------------------------------------------------------

    def watches(self, number: int, source: str) -> None:
        """A core begins to watch a source; what was before, nobody can tell."""
        self.sources[number] = source
        self._unwatched.setdefault(source, self.contact.get(source, 0))

    def core_killed(self) -> None:
        """What was on its way to the core, and what happens until the next has heard all, is lost.

        A subscriber knows that by the new epoch, and by the state in which the former left the source.
        """
        for source in self.sources.values():
            heard = self._unreached.get(source, self.contact.get(source, 0))
            self._unwatched.setdefault(source, heard)

    def _state(self, source: str, state: SourceState) -> None:
        if state is not SourceState.SYNCHRONISED:
            self._unreached.setdefault(source, self.contact.get(source, 0))
            return
        self._unreached.pop(source, None)
        since = self._unwatched.pop(source, None)
        if since is not None:
            self._gaps.setdefault(source, []).append((since, self._scheduler.now))

    # ---- the feed -------------------------------------------------------------------------------------

    def published(self, batch: Batch) -> None:
        """A batch left the inventory."""
        if batch.epoch != self._epoch:
            _demand(batch.epoch > self._epoch, f"epoch {batch.epoch} comes after {self._epoch}")
            self._epoch, self._sequence = batch.epoch, 0
            self._classes.clear()
            self._events.clear()
            self._living.clear()
        _demand(batch.sequence == self._sequence + 1, f"sequence {batch.sequence} after {self._sequence}")
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
                _demand(start <= end, f"a gap ends before it begins: {record}")
                self._gaps.setdefault(self.sources[source], []).append((start, end))
            case SourceRecord(number, state=state):
                self._state(self.sources[number], state)
            case EventClassRecord(number, schema):
                self._events[number] = schema
            case EventRecord():
                self._event(record)

    def _event(self, record: EventRecord) -> None:
        # An event id is the same everywhere and never means another event.
        _demand(record.event_id not in self._event_ids, f"event id {record.event_id} is told twice")
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
        owner = self._owners.setdefault(key, identity)
        _demand(owner == identity, f"row {key} belonged to {owner} and is given to {identity}")
        if record.lifetime is Lifetime.DURABLE:
            # A durable object keeps its row over every restart of anything.
            name = (record.source, str(schema.key), record.stable_name)
            row = self._durable_rows.setdefault(name, record.row)
            _demand(row == record.row, f"{name} had row {row} and has {record.row}")
        if thing is not None:
            self._seen.add(thing.serial)
        known = self._living.get(key)
        counters = _counters(schema, record.values)
        if known is not None:
            _demand(known.identity == identity, f"row {key} of {known.identity} is told for {identity}")
            self._discontinuity(key, known, counters, record.reset)
        self._living[key] = _Told(identity, record.reset, counters)

    def _update(self, record: UpdateRecord) -> None:
        schema = self._classes[record.class_number]
        key = (record.source, str(schema.key), record.row)
        known = self._living.get(key)
        # Nobody is told of changes of what he does not know.
        _demand(known is not None, f"an update of {key}, which nobody was told of")
        assert known is not None
        counters = _counters(schema, record.values)
        self._discontinuity(key, known, counters, record.reset)
        known.counters |= counters
        known.reset = record.reset

    def _delete(self, record: DeleteRecord) -> None:
        schema = self._classes[record.class_number]
        key = (record.source, str(schema.key), record.row)
        _demand(key in self._living, f"an end of {key}, which nobody was told of, or twice")
        del self._living[key]
        # An end that somebody told has a time.
        _demand(record.inferred or record.deleted > 0, f"{record} was told, and has no time")

    def _discontinuity(
        self, key: tuple[int, str, int], known: _Told, counters: dict[int, int], reset: int
    ) -> None:
        # Whoever computes rates is told whenever a counter may have begun again.
        for position, value in counters.items():
            former = known.counters.get(position)
            if former is not None and value < former:
                _demand(reset != known.reset, f"counter {position} of {key} fell and nobody was told")

    def _thing_of(self, record: ObjectRecord, schema: ClassSchema) -> Thing | None:
        class_name = str(schema.key)
        element = self._truth.marks.get(class_name, "")
        position = schema.positions.get(element)
        if position is None:
            return None
        mark = self._mark(record.values.get(position))
        return self._truth.marked(self.sources[record.source], class_name, mark)

    @staticmethod
    def _mark(value: object) -> Plain:
        if isinstance(value, dict):  # RabbitMQ's arguments
            return next((f'{{"{k}":{v}}}'.encode() for k, v in value.items() if k == "x-serial"), None)
        return value.encode() if isinstance(value, str) else value if isinstance(value, int) else None

    @staticmethod
    def _identity(record: ObjectRecord, thing: Thing | None) -> object:
        if record.lifetime is Lifetime.DURABLE:
            return record.stable_name
        return thing.serial if thing is not None else (record.stable_name, record.native_id)

    # ---- what SNMP shows ------------------------------------------------------------------------------

    def read(self, store: Store) -> None:
        """A management station reads everything."""
        rows = {class_name: self._reader.rows(store, class_name) for class_name in self._reader.class_names}
        for of_class in rows.values():
            for row in of_class:
                self._row(row)
                self._pointers(store, row)
                self._discontinuity_shown(row)
        self._summaries(store, rows)

    def read_beans(self, beans: Mapping[str, ShownRow]) -> None:
        """A Java client reads everything; ``beans`` by ObjectName."""
        for name, row in beans.items():
            self._row(row)
            # An ObjectName never means two objects, and a durable object keeps its own.
            owner = self._owners[row.source, row.class_name, row.row]
            known = self._names.setdefault(name, owner)
            _demand(known == owner, f"{name} was of {known} and is of {owner}")
            if row.fixed[RowColumn.LIFETIME] == RowLifetime.DURABLE:
                key = (row.source, row.class_name, owner)
                former = self._durable_names.setdefault(key, name)
                _demand(former == name, f"{key} was called {former} and is called {name}")

    def _row(self, row: ShownRow) -> None:
        thing = self._shown_thing(row)
        if thing is None:
            _demand(
                row.fixed[RowColumn.STATE] == Freshness.WITHHELD,
                f"{_where(row)} shows what never was: {row.values}",
            )
            return
        owner = self._owners.get((row.source, row.class_name, row.row))
        durable = row.fixed[RowColumn.LIFETIME] == RowLifetime.DURABLE
        _demand(
            owner == (_text(row.fixed[RowColumn.FULL_NAME]) if durable else thing.serial),
            f"{_where(row)} is of {owner} and shows {thing}",
        )
        if row.fixed[RowColumn.STATE] == Freshness.FRESH:
            self._fresh(row, thing)

    def _shown_thing(self, row: ShownRow) -> Thing | None:
        mark = row.values.get(self._truth.marks[row.class_name])
        return self._truth.marked(self.sources[row.source], row.class_name, mark)

    def _fresh(self, row: ShownRow, thing: Thing) -> None:
        # What is shown as fresh was so within the allowed lag, and somebody vouched for it since.
        now = self._scheduler.now
        since = now - ALLOWED_LAG
        _demand(
            now - self.contact.get(thing.source, 0) <= STALE_AFTER,
            f"{_where(row)} is shown as fresh, and nobody was heard since {self._ago(thing.source)}",
        )
        if thing.hidden or thing.hidden_until > since:
            return
        # What an agent may not read any more stays as it was, but for statistics; the source says so.
        blind_since, blind_until = self._truth.blind.get(thing.source, (0, 1))
        blind = not blind_until or blind_until > since
        known_since = min(since, blind_since - ALLOWED_LAG) if blind else since
        _demand(thing.existed(known_since, now), f"{_where(row)} is shown as fresh: {thing} ended long ago")
        for element, timeline in thing.values.items():
            value = row.values.get(element)
            is_pointer = self._reader.is_pointer(row.class_name, element)
            is_statistic = element in self._truth.statistics
            if value is None and (is_pointer or (blind and is_statistic)):
                continue  # what is pointed to is not known yet, or not any more; a statistic is not known
            if is_pointer and isinstance(value, bytes):
                value = value.partition(b"#")[0]  # a name that its former holder still has is told with more
            _demand(
                timeline.held(value, since if is_statistic else known_since, now),
                f"{_where(row)}.{element} is shown as fresh with {value!r}: {thing} has {timeline.now!r}",
            )

    def _ago(self, source: str) -> str:
        return f"{(self._scheduler.now - self.contact.get(source, 0)) / SECOND:.0f} s ago"

    def _pointers(self, store: Store, row: ShownRow) -> None:
        # What a row belongs to is what its own reference says; where that says nothing, it may still be the
        # former one, which is gone.
        parent = row.fixed.get(RowColumn.PARENT)
        named = row.pointers.get(self._truth.parents.get(row.class_name, ""))
        if named is not None:
            belongs = parent == ber.encode_name(named)
            _demand(belongs, f"{_where(row)} belongs to {parent!r}, and refers to {named}")
        # A pointer leads to the object whose name stands beside it, or for a moment to nothing.
        for element, oid in row.pointers.items():
            source, target_row = oid[-2:]
            tlv = store.get((*oid[:-3], RowColumn.FULL_NAME, source, target_row))
            if tlv != ber.NO_SUCH_INSTANCE:
                _demand(
                    decoded(tlv) == row.values.get(element),
                    f"{_where(row)}.{element} points to {decoded(tlv)!r}, names {row.values.get(element)!r}",
                )

    def _discontinuity_shown(self, row: ShownRow) -> None:
        for element in ("done", "steps", "messagesPublished"):
            value = row.values.get(element)
            if not isinstance(value, int):
                continue
            key = (row.class_name, row.source, row.row, element)
            former = self._counters_shown.get(key)
            discontinuity = row.fixed.get(RowColumn.DISCONTINUITY)
            self._counters_shown[key] = (value, discontinuity)
            if former is not None and value < former[0]:
                _demand(discontinuity != former[1], f"{_where(row)}.{element} fell without discontinuity")

    def _summaries(self, store: Store, rows: Mapping[str, list[ShownRow]]) -> None:
        # Counts and sums are those of the rows, at any moment.
        counts: dict[tuple[int, int], dict[int, bytes]] = {}
        for (column, *key), tlv in walk(store, (*ROOT, *CLASS_ENTRY)):
            counts.setdefault((key[0], key[1]), {})[column] = tlv
        totals = {index: decoded(tlv) for index, tlv in walk(store, (*ROOT, *SUM_ENTRY, SumColumn.TOTAL))}
        classes = {self._reader.entry(class_name)[:-1]: class_name for class_name in rows}
        for (source, class_index), cells in counts.items():
            class_name = classes.get(ber.decode_name(cells[ClassColumn.ROW_TABLE][2:]))
            if class_name is None:
                continue
            of_source = [row for row in rows[class_name] if row.source == source]
            stale = [row for row in of_source if row.fixed[RowColumn.STATE] != Freshness.FRESH]
            for column, expected in ((ClassColumn.ROWS, of_source), (ClassColumn.STALE_ROWS, stale)):
                count = decoded(cells[column])
                _demand(count == len(expected), f"{class_name} of {source}: {column.name} {count!r}")
            for number, element in self._reader.columns(class_name).items():
                total = totals.get((source, class_index, number))
                addends = [value for row in of_source if isinstance(value := row.values.get(element), int)]
                _demand(
                    total in (None, min(sum(addends), 2**64 - 1)),
                    f"sum of {class_name}.{element}: {total!r} of {addends}",
                )

    def told(self, receivers: Receivers) -> None:
        """Receivers of notifications are looked at."""
        for receiver in receivers.all.values():
            # While the SNMP process lives, it tells an event to a receiver once.
            twice = [event_id for event_id in receiver.twice if event_id]
            _demand(not twice, f"{receiver.target.name} was told twice of {twice}")

    # ---- the end --------------------------------------------------------------------------------------

    def differences(self, store: Store) -> Iterator[str]:
        """What SNMP shows otherwise than it is; nothing, once all faults have ceased for long enough."""
        numbers = {name: number for number, name in self.sources.items()}
        for source, number in numbers.items():
            state = store.get((*ROOT, *SOURCE_ENTRY, SourceColumn.STATE, number))
            if state == ber.NO_SUCH_INSTANCE or decoded(state) != SourceStateNumber.SYNCHRONISED:
                yield f"source {source} is in state {state!r}"
        rows = [row for name in self._reader.class_names for row in self._reader.rows(store, name)]
        yield from self.object_differences("SNMP", rows)
        for row in rows:
            for element, oid in row.pointers.items():
                if store.get((*oid[:-3], RowColumn.FULL_NAME, *oid[-2:])) == ber.NO_SUCH_INSTANCE:
                    yield f"{_where(row)}.{element} points to no row"

    def object_differences(self, north: str, rows: Iterable[ShownRow]) -> Iterator[str]:
        """Which objects a north shows otherwise than they are."""
        shown: dict[int, ShownRow] = {}
        for row in rows:
            thing = self._shown_thing(row)
            if thing is None or not (thing.exists or thing.hidden):
                yield f"{north}: {_where(row)} shows {thing}, which is not there"
            elif thing.serial in shown:
                yield f"{north}: {thing} is shown twice: {_where(row)}, {_where(shown[thing.serial])}"
            else:
                shown[thing.serial] = row
                yield from (f"{north}: {text}" for text in self._row_differences(row, thing))
        for source in self.sources.values():
            for thing in self._truth.living(source):
                if thing.serial not in shown and not thing.hidden:
                    yield f"{north}: {thing} is not shown"

    def _row_differences(self, row: ShownRow, thing: Thing) -> Iterator[str]:
        name = _text(row.fixed[RowColumn.FULL_NAME])
        durable = row.fixed[RowColumn.LIFETIME] == RowLifetime.DURABLE
        fits = name == thing.name if durable else name.startswith(thing.name)
        if durable is not thing.durable or not fits:
            yield f"{_where(row)} of {thing} is called {name}"
        if row.fixed[RowColumn.STATE] != Freshness.FRESH:
            yield f"{_where(row)} of {thing} is in state {row.fixed[RowColumn.STATE]!r}"
        if thing.hidden:
            return
        for element, timeline in thing.values.items():
            if row.values.get(element) != timeline.now:
                yield f"{thing}.{element} is {timeline.now!r}, shown as {row.values.get(element)!r}"

    def alarm_differences(
        self, store: Store, expected: set[tuple[str, str]], receivers: Receivers
    ) -> Iterator[str]:
        """What people are told to last otherwise than it does: no alarm without cause, and none missing."""
        cells: dict[Oid, dict[int, Plain]] = {}
        for (column, *index), tlv in walk(store, (*ROOT, *ALARM_ENTRY)):
            cells.setdefault(tuple(index), {})[column] = decoded(tlv)
        names = {plain(number): name for number, name in self.sources.items()}
        shown = {
            (names.get(row.get(AlarmColumn.SOURCE), ""), _text(row.get(AlarmColumn.CONDITION)))
            for row in cells.values()
        }
        if shown != expected or len(cells) != len(shown):
            yield f"alarms shown: {sorted(shown)}, there are {sorted(expected)}"
        for receiver in receivers.all.values():
            if receiver.believed != expected:
                yield f"{receiver.target.name} believes {receiver.believed}, there are {sorted(expected)}"

    def account(self) -> None:
        """Every object that ever was has been told, or falls into a time that is told as a gap."""
        for thing in self._truth.things.values():
            if thing.serial in self._seen or not thing.announced or not thing.ended:
                continue
            intervals = self._gaps.get(thing.source, [])
            covered = any(
                start - GAP_SLACK <= thing.ended and thing.created <= end + GAP_SLACK
                for start, end in intervals
            )
            _demand(covered, f"{thing} came and went, and nobody was told, nor of a gap")


def _demand(holds: bool, otherwise: str) -> None:  # noqa: FBT001  as assert
    if not holds:
        raise ViolationError(otherwise)


def _counters(schema: ClassSchema, values: object) -> dict[int, int]:
    assert isinstance(values, dict)
    elements = schema.elements
    return {
        position: value
        for position, value in values.items()
        if elements[position].kind is Kind.COUNTER and isinstance(value, int)
    }


def _where(row: ShownRow) -> str:
    return f"row {row.source}.{row.row} of {row.class_name}"


def _text(value: Plain) -> str:
    return value.decode() if isinstance(value, bytes) else ""
