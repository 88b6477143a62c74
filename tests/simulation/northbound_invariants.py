"""The invariants of all that front ends show.

They are checked with each reading of the SNMP store and of the MBeans, and at the end, when all faults have
ceased. Above each check stands its meaning for a user of the gateway. The invariants of the feed are in
`feed_invariants`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gateway.feed.freshness import Freshness
from gateway.model.times import SECOND
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
from tests.simulation.feed_invariants import FeedInvariants
from tests.simulation.receivers import Receivers
from tests.simulation.scheduler import Scheduler
from tests.simulation.table_reader import ROOT, ShownRow, TableReader, decoded, walk
from tests.simulation.truth import Plain, Thing, Truth, plain
from tests.simulation.violations import demand

OVERFLOW_SEEN = 10 * SECOND
"""The time after a standstill in which a link looks whether its queue has dropped messages (every 5 s)."""

ALLOWED_LAG = 60 * SECOND
"""The maximum age of a value shown as fresh: three missed heartbeats, and the delays in queues."""

STALE_AFTER = 45 * SECOND
"""The time without a message of a source after which none of its values is shown as fresh."""

CORE_SILENT = 15 * SECOND
"""The time without a running core after which no value is shown as fresh.

It is 5 s of silence, after the data that a slow feed still had.
"""


_ADDED: Final = re.compile(rb"\\*#[^|]*")
"""What is added to a name (`gateway.model.stable_names`), escaped where it is the name of a parent."""


class NorthboundInvariants:
    """The invariants of the front ends of one simulation.

    Args:
        scheduler: the source of time.
        truth: the true state.
        feed: the invariants of the feed, with its sources and owners of rows.
        reader: reads the tables of classes.
    """

    def __init__(self, scheduler: Scheduler, truth: Truth, feed: FeedInvariants, reader: TableReader) -> None:
        self._scheduler = scheduler
        self._truth = truth
        self._feed = feed
        self._reader = reader
        self._names: dict[str, object] = {}
        self._durable_names: dict[object, str] = {}
        self._counters_shown: dict[tuple[str, int, int, str], tuple[int, Plain]] = {}

    # ---- what SNMP shows ------------------------------------------------------------------------------

    def read(self, store: Store) -> None:
        """Read and check the whole SNMP store."""
        rows = {class_name: self._reader.rows(store, class_name) for class_name in self._reader.class_names}
        for of_class in rows.values():
            for row in of_class:
                self._row(row)
                self._pointers(store, row)
                self._discontinuity_shown(row)
        self._summaries(store, rows)

    def read_beans(self, beans: Mapping[str, ShownRow]) -> None:
        """Read and check all MBeans; ``beans`` are the rows by ObjectName."""
        for name, row in beans.items():
            self._row(row)
            # An ObjectName never means two objects, and a durable object keeps its own.
            owner = self._feed.owners[row.source, row.class_name, row.row]
            known = self._names.setdefault(name, owner)
            if (known, owner) in self._feed.replaced:
                known = self._names[name] = owner
            demand(known == owner, f"{name} was of {known} and is of {owner}")
            if row.fixed[RowColumn.LIFETIME] == RowLifetime.DURABLE:
                key = (row.source, row.class_name, owner)
                former = self._durable_names.setdefault(key, name)
                demand(former == name, f"{key} was called {former} and is called {name}")

    def _row(self, row: ShownRow) -> None:
        thing = self._shown_thing(row)
        if thing is None:
            demand(
                row.fixed[RowColumn.STATE] == Freshness.WITHHELD,
                f"{_where(row)} shows what never was: {row.values}",
            )
            return
        owner = self._feed.owners.get((row.source, row.class_name, row.row))
        durable = row.fixed[RowColumn.LIFETIME] == RowLifetime.DURABLE
        expected = _text(row.fixed[RowColumn.FULL_NAME]) if durable else thing.serial
        demand(
            owner == expected or (expected, owner) in self._feed.replaced,
            f"{_where(row)} is of {owner} and shows {thing}",
        )
        if row.fixed[RowColumn.STATE] == Freshness.FRESH:
            self._fresh(row, thing)

    def _shown_thing(self, row: ShownRow) -> Thing | None:
        mark = row.values.get(self._truth.marks[row.class_name])
        name = _text(row.fixed[RowColumn.FULL_NAME])
        return self._truth.marked(self._feed.sources[row.source], row.class_name, mark, name)

    def _fresh(self, row: ShownRow, thing: Thing) -> None:
        # What is shown as fresh was so within the allowed lag, or within what the source says of itself, and
        # somebody vouched for it since.
        now = self._scheduler.now
        lag = ALLOWED_LAG + self._truth.seldom.get((thing.source, thing.class_name), 0)
        since = now - lag
        if self._feed.stopped_until > now - OVERFLOW_SEEN:
            # The queue of a core that stood still may have dropped messages, which it finds out afterwards.
            since = min(since, self._feed.stopped_at - lag)
        demand(
            now - self._feed.contact.get(thing.source, 0) <= STALE_AFTER,
            f"{_where(row)} is shown as fresh, and nobody was heard since {self._ago(thing.source)}",
        )
        alone = now - (self._feed.no_core_since or now)
        demand(
            alone <= CORE_SILENT,
            f"{_where(row)} is shown as fresh, and no core has run for {alone / SECOND:.1f} s",
        )
        if thing.hidden or thing.hidden_until > since:
            return
        # What an agent may not read any more stays as it was, but for statistics; the source says so.
        blind_since, blind_until = self._truth.blind.get(thing.source, (0, 1))
        blind = not blind_until or blind_until > since
        known_since = min(since, blind_since - lag) if blind else since
        demand(thing.existed(since, now), f"{_where(row)} is shown as fresh: {thing} ended long ago")
        for element, timeline in thing.values.items():
            value = row.values.get(element)
            is_pointer = self._reader.is_pointer(row.class_name, element)
            is_statistic = element in self._truth.statistics
            is_apart = element in self._truth.apart
            if value is None and (is_pointer or is_apart):
                continue  # what is pointed to is not known yet, or not any more
            if is_pointer and isinstance(value, bytes):
                # A name that its former holder still has is shown with more, also within a longer one.
                value = _ADDED.sub(b"", value)
            demand(
                timeline.held(value, since if is_statistic else known_since, now),
                f"{_where(row)}.{element} is shown as fresh with {value!r}: {thing} has {timeline.now!r}",
            )

    def _ago(self, source: str) -> str:
        return f"{(self._scheduler.now - self._feed.contact.get(source, 0)) / SECOND:.0f} s ago"

    def _pointers(self, store: Store, row: ShownRow) -> None:
        # What a row belongs to is what its own reference says; where that says nothing, it may still be the
        # former one, which is gone.
        parent = row.fixed.get(RowColumn.PARENT)
        named = row.pointers.get(self._truth.parents.get(row.class_name, ""))
        if named is not None:
            belongs = parent == ber.encode_name(named)
            demand(belongs, f"{_where(row)} belongs to {parent!r}, and refers to {named}")
        # A pointer leads to the object whose name stands beside it, or for a moment to nothing.
        for element, oid in row.pointers.items():
            source, target_row = oid[-2:]
            tlv = store.get((*oid[:-3], RowColumn.FULL_NAME, source, target_row))
            if tlv != ber.NO_SUCH_INSTANCE:
                demand(
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
                demand(discontinuity != former[1], f"{_where(row)}.{element} fell without discontinuity")

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
                demand(count == len(expected), f"{class_name} of {source}: {column.name} {count!r}")
            for number, element in self._reader.columns(class_name).items():
                total = totals.get((source, class_index, number))
                addends = [value for row in of_source if isinstance(value := row.values.get(element), int)]
                demand(
                    total in (None, min(sum(addends), 2**64 - 1)),
                    f"sum of {class_name}.{element}: {total!r} of {addends}",
                )

    def reported(self, receivers: Receivers) -> None:
        """Check that no receiver was notified of an event twice."""
        for receiver in receivers.all.values():
            # While the SNMP process lives, it tells an event to a receiver once.
            twice = [event_id for event_id in receiver.twice if event_id]
            demand(not twice, f"{receiver.target.name} was told twice of {twice}")

    # ---- the end --------------------------------------------------------------------------------------

    def differences(self, store: Store) -> Iterator[str]:
        """Yield the differences between SNMP and the true state; none, long enough after the last fault."""
        numbers = {name: number for number, name in self._feed.sources.items()}
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

    def object_differences(self, northbound: str, rows: Iterable[ShownRow]) -> Iterator[str]:
        """Yield the differences between the objects of a front end and the true state."""
        shown: dict[int, ShownRow] = {}
        for row in rows:
            thing = self._shown_thing(row)
            if thing is None or not (thing.exists or thing.hidden):
                yield f"{northbound}: {_where(row)} shows {thing}, which is not there"
            elif thing.serial in shown:
                yield f"{northbound}: {thing} is shown twice: {_where(row)}, {_where(shown[thing.serial])}"
            else:
                shown[thing.serial] = row
                yield from (f"{northbound}: {text}" for text in self._row_differences(row, thing))
        for source in self._feed.sources.values():
            for thing in self._truth.living(source):
                if thing.serial not in shown and not thing.hidden:
                    yield f"{northbound}: {thing} is not shown"

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
        """Yield the differences of the shown and notified alarms: alarms without cause, and missing ones."""
        cells: dict[Oid, dict[int, Plain]] = {}
        for (column, *index), tlv in walk(store, (*ROOT, *ALARM_ENTRY)):
            cells.setdefault(tuple(index), {})[column] = decoded(tlv)
        names = {plain(number): name for number, name in self._feed.sources.items()}
        shown = {
            (names.get(row.get(AlarmColumn.SOURCE), ""), _text(row.get(AlarmColumn.CONDITION)))
            for row in cells.values()
        }
        if shown != expected or len(cells) != len(shown):
            yield f"alarms shown: {sorted(shown)}, there are {sorted(expected)}"
        for receiver in receivers.all.values():
            if (receiver.trusted ^ expected) - receiver.unsure:
                yield f"{receiver.target.name} believes {receiver.trusted}, there are {sorted(expected)}"


def _where(row: ShownRow) -> str:
    return f"row {row.source}.{row.row} of {row.class_name}"


def _text(value: Plain) -> str:
    return value.decode() if isinstance(value, bytes) else ""
