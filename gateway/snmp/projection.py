"""Applies the feed to the store: what each message means for the rows that SNMP shows.

No socket, no clock of its own, no log: all three are handed in. What is not known any more is never shown
as if it were: rows turn stale when their agent or source is silent, when the core is gone, and when a new
core has not synchronised the source yet; after a while their values are withheld. Changes that concern many
rows are made in slices, so that requests are answered in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gateway.feed.records import (
    AgentRecord,
    Batch,
    ClassRecord,
    DeleteRecord,
    FeedMessage,
    Hello,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SourceRecord,
    UpdateRecord,
)
from gateway.model.observations import SourceState
from gateway.snmp.ber import Oid
from gateway.snmp.lock import Lock
from gateway.snmp.row_columns import RowState
from gateway.snmp.store import Store
from gateway.snmp.tables.classes import ClassTables, Log, SaveProvisional
from gateway.snmp.tables.health import HealthScalars
from gateway.snmp.tables.rows import BoundClass, Row, RowGroup
from gateway.snmp.tables.sources import SourceTable
from gateway.snmp.tables.summaries import Summaries

SLICE_ROWS = 250
"""Rows that one call may call stale or current again: a millisecond's worth."""

_HEAVY = 10
"""What touches every cell of a row (to withhold, show again or remove it) counts as so many rows."""

_BELIEVED = frozenset({SourceState.SYNCHRONISED, SourceState.DEGRADED})
_NOT_BELIEVED = frozenset({SourceState.CONNECTING, SourceState.DOWN})


@dataclass(slots=True)
class _Source:
    """What is remembered of a source: since when it is not believed (0: it is), and the snapshots.

    ``generation`` is the snapshot that told the source last; ``swept`` the last one after which rows that
    it had not told were taken away.
    """

    doubted_since: int
    generation: int = 0
    swept: int = 0


@dataclass(frozen=True, slots=True)
class ProjectionSettings:
    """What a projection follows all its life.

    Attributes:
        root: the configured root of all object identifiers.
        locks: the shipped locks.
        serve_stale_for: nanoseconds for which the values of a stale row are still shown.
        version: of the gateway's software.
    """

    root: Oid
    locks: tuple[Lock, ...]
    serve_stale_for: int
    version: str


class Projection:
    """The subscriber that keeps the store true to the feed (`gateway.feed.client.Subscriber`).

    Args:
        store: filled here; the fixed tables are made at once, those of classes as they are told.
        settings: what is configured.
        provisional: the lock of this site for classes that no shipped lock knows.
        save: keeps a provisional lock that has grown; may raise ``OSError``, and is then called again.
        clock: now, in nanoseconds since 1970-01-01 UTC.
        log: told of what cannot be shown.
    """

    def __init__(
        self,
        store: Store,
        settings: ProjectionSettings,
        *,
        provisional: Lock,
        save: SaveProvisional,
        clock: Callable[[], int],
        log: Log,
    ) -> None:
        self._clock = clock
        self._serve_stale_for = settings.serve_stale_for
        self._summaries = Summaries(store, settings.root)
        self._source_table = SourceTable(store, settings.root)
        self._health = HealthScalars(store, settings.root, settings.version, clock)
        self._tables = ClassTables(
            store,
            self._summaries,
            root=settings.root,
            locks=settings.locks,
            provisional=provisional,
            save=save,
            log=log,
            clock=clock,
        )
        self._classes: dict[int, BoundClass] = {}
        self._sources: dict[int, _Source] = {}
        self._agents: dict[tuple[int, str], AgentRecord] = {}
        self._groups: dict[tuple[int, str], RowGroup] = {}
        self._generation = 0
        self._in_snapshot = False
        self._unsettled: dict[RowGroup, list[Row]] = {}
        self._unswept: list[Row] = []
        self._handlers: dict[type, Callable[..., None]] = {
            SourceRecord: self._source_told,
            ClassRecord: self._class_told,
            AgentRecord: self._agent_told,
            ObjectRecord: self._object_told,
            UpdateRecord: self._object_updated,
            DeleteRecord: self._object_deleted,
        }
        self._health.feed.stale_since = clock()
        self._health.show_times()

    @property
    def provisional(self) -> Lock:
        """The site's own lock as it has grown."""
        return self._tables.provisional

    def received(self, message: FeedMessage) -> None:
        """Apply one message of the feed; a batch is applied whole."""
        now = self._clock()
        self._health.feed.messages += 1
        self._health.feed.last_message = now
        if isinstance(message, Batch):
            self._apply(message.records)
            self._tables.save()
        elif isinstance(message, Hello):
            self._connected(message, now)
        elif isinstance(message, SnapshotBegan):
            self._generation += 1
            self._in_snapshot = True
        else:
            self._snapshot_ended()
        self._work()
        self._show()

    def disconnected(self, reason: str) -> None:
        """The core cannot be reached: nothing is known to be true any more. May be called again and again."""
        if not self._health.feed.connected:
            return
        now = self._clock()
        self._health.feed.connected = False
        self._health.feed.stale_since = now
        self._in_snapshot = False
        for source in self._sources.values():
            source.doubted_since = source.doubted_since or now
        self._source_table.doubt_all(f"the core of the gateway cannot be reached: {reason}", now)
        self._judge(self._groups.values())
        self._work()
        self._show()

    def tick(self) -> bool:
        """Go on with what is left to do, and withhold what has been stale for too long.

        To be called about once a second; and again soon, after requests, while it returns ``True``.
        """
        self._tables.save()
        self._judge(group for group in self._groups.values() if group.state is RowState.STALE)
        self._work()
        self._show()
        return bool(self._unsettled or self._unswept)

    # ---- messages -------------------------------------------------------------------------------------

    def _connected(self, hello: Hello, now: int) -> None:
        feed = self._health.feed
        if hello.epoch != feed.epoch:
            # A new core numbers classes anew and has heard of no agent yet.
            self._classes.clear()
            self._agents.clear()
        for source in self._sources.values():
            source.doubted_since = source.doubted_since or now
        feed.gateway, feed.epoch, feed.started = hello.gateway, hello.epoch, hello.started
        feed.connected, feed.stale_since = True, 0
        self._judge(self._groups.values())

    def _snapshot_ended(self) -> None:
        self._in_snapshot = False
        self._health.feed.snapshots += 1
        self._groups = {key: group for key, group in self._groups.items() if group.rows}
        for number in self._source_table:
            if self._sources[number].generation < self._generation:
                self._remove_source(number)
            else:
                self._sweep(number)

    def _apply(self, records: Iterable[Record]) -> None:
        for record in records:
            handler = self._handlers.get(type(record))
            if handler is not None:  # events and gaps change no row
                handler(record)

    def _source_told(self, record: SourceRecord) -> None:
        source = self._sources.setdefault(record.number, _Source(self._clock()))
        source.generation = self._generation
        self._source_table.show(record)
        was_doubted = bool(source.doubted_since)
        if record.state in _BELIEVED:
            source.doubted_since = 0
        elif record.state in _NOT_BELIEVED:
            source.doubted_since = source.doubted_since or self._clock()
        if bool(source.doubted_since) != was_doubted:
            self._judge(group for group in self._groups.values() if group.source == record.number)
        if not self._in_snapshot:
            self._sweep(record.number)

    def _class_told(self, record: ClassRecord) -> None:
        bound = self._tables.bind(record.schema)
        if bound is not None:
            self._classes[record.number] = bound

    def _agent_told(self, record: AgentRecord) -> None:
        self._agents[record.source, record.agent] = record
        group = self._groups.get((record.source, record.agent))
        if group is not None:
            self._judge([group])

    def _object_told(self, record: ObjectRecord) -> None:
        bound = self._classes.get(record.class_number)
        if bound is None:
            self._health.feed.refused += 1
            return
        group = self._group(record.source, record.agent)
        bound.table.tell(bound, record, group, self._tables.pointer, self._clock(), self._generation)

    def _object_updated(self, record: UpdateRecord) -> None:
        bound = self._classes.get(record.class_number)
        row = bound.table.rows.get((record.source, record.row)) if bound else None
        if bound is None or row is None:
            self._health.feed.refused += 1
            return
        bound.table.update(bound, row, record)

    def _object_deleted(self, record: DeleteRecord) -> None:
        bound = self._classes.get(record.class_number)
        row = bound.table.rows.get((record.source, record.row)) if bound else None
        if row is None:
            self._health.feed.refused += 1
            return
        row.table.remove(row, self._clock())

    # ---- freshness ------------------------------------------------------------------------------------

    def _group(self, source: int, agent: str) -> RowGroup:
        group = self._groups.get((source, agent))
        if group is None:
            group = self._groups[source, agent] = RowGroup(source, agent)
            self._judge([group])
        return group

    def _judge(self, groups: Iterable[RowGroup]) -> None:
        """Decide how far the rows of these groups can be believed now."""
        now = self._clock()
        for group in groups:
            since = self._stale_since(group)
            # What is stale for a second reason has been stale since the first.
            group.stale_since = min(group.stale_since or since, since) if since else 0
            state = RowState.FRESH
            if group.stale_since:
                withheld = now - group.stale_since >= self._serve_stale_for
                state = RowState.WITHHELD if withheld else RowState.STALE
            if state is not group.state:
                group.state = state
                self._unsettled[group] = list(group.rows)

    def _stale_since(self, group: RowGroup) -> int:
        """Since when nobody vouches for these rows; 0 if somebody does."""
        source = self._sources.get(group.source)
        agent = self._agents.get((group.source, group.agent))
        reasons = [
            source.doubted_since if source else self._clock(),
            agent.since if agent and not agent.fresh else 0,
        ]
        return min((since for since in reasons if since), default=0)

    def _sweep(self, number: int) -> None:
        """Take away what the last whole snapshot did not tell, if its source is believed by now."""
        source = self._sources[number]
        if source.doubted_since or source.swept == self._generation:
            return
        source.swept = self._generation
        for group in self._groups.values():
            if group.source == number:
                self._unswept += [row for row in group.rows if row.generation < self._generation]

    def _remove_source(self, number: int) -> None:
        now = self._clock()
        for key in [key for key in self._groups if key[0] == number]:
            group = self._groups.pop(key)
            for row in tuple(group.rows):
                row.table.remove(row, now)
            self._unsettled.pop(group, None)
        self._summaries.remove_source(number)
        self._source_table.remove(number)
        del self._sources[number]

    # ---- work in slices -------------------------------------------------------------------------------

    def _work(self) -> None:
        """Settle and sweep up to `SLICE_ROWS` rows, or fewer where every cell is touched."""
        rows_left = SLICE_ROWS
        now = self._clock()
        while rows_left > 0 and self._unswept:
            rows_left -= _HEAVY
            row = self._unswept.pop()
            if row in row.group.rows and row.generation < self._generation:
                row.table.remove(row, now)
        while rows_left > 0 and self._unsettled:
            group, rows = next(iter(self._unsettled.items()))
            while rows_left > 0 and rows:
                row = rows.pop()
                if row in group.rows:
                    rows_left -= _HEAVY if RowState.WITHHELD in (row.state, group.state) else 1
                    row.table.settle(row)
            if not rows:
                del self._unsettled[group]

    def _show(self) -> None:
        """Bring counts, sums and health up to date."""
        feed, tables = self._health.feed, self._tables
        for source in self._summaries.flush():
            self._source_table.count(source, *self._summaries.counts(source))
        feed.rows, feed.stale, feed.withheld = self._summaries.totals()
        feed.sources = len(self._source_table)
        feed.synchronised = self._source_table.synchronised() if feed.connected else 0
        feed.provisional_classes = len(tables.provisional.classes)
        feed.classes_not_shown = len(tables.classes_not_shown)
        feed.elements_not_shown = len(tables.elements_not_shown)
        self._health.show_times()
