"""Applies the feed to the store and to notifications: what each message means for what SNMP tells.

No socket, no clock of its own, no log: all three are handed in. What is not known any more is never shown
as if it were: rows turn stale when their agent or source is silent, when the core is gone, and when a new
core has not synchronised the source yet; after a while their values are withheld. Changes that concern many
rows are made in slices, so that requests are answered in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gateway.feed.latest import HistoryLimits
from gateway.feed.operations import OperationRecord
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    AlarmRecord,
    Batch,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventLogRecord,
    EventRecord,
    EventsMadeRecord,
    FeedMessage,
    Hello,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.values import ObjectLink
from gateway.snmp.ber import Oid
from gateway.snmp.events import Events, alarm_notification
from gateway.snmp.freshness import RowFreshness
from gateway.snmp.lock import Lock
from gateway.snmp.notification import Notification, Receivers, StandingAlarms
from gateway.snmp.schema_locks import Log, SaveProvisional, SchemaLocks
from gateway.snmp.store import Store
from gateway.snmp.sweep import Sweep
from gateway.snmp.tables.alarms import AlarmTable
from gateway.snmp.tables.classes import ClassTables, Target, Variable
from gateway.snmp.tables.event_log import LogScalars
from gateway.snmp.tables.health import FeedHealth, HealthScalars
from gateway.snmp.tables.history import History
from gateway.snmp.tables.rows import BoundClass
from gateway.snmp.tables.sources import SourceTable
from gateway.snmp.tables.summaries import Summaries

SLICE_ROWS = 250
"""Rows that one call may call stale or current again: a millisecond's worth."""

_HEAVY = 10
"""What touches every cell of a row (to withhold, show again or remove it) counts as so many rows."""

_GATEWAY = 0
"""The source that stands for the gateway itself: it has alarms, and is in no table."""

_SOURCE_DOWN = "sourceDown"
"""The alarm that the core raises of a source: it can be believed while the source cannot."""


@dataclass(frozen=True, slots=True)
class ProjectionSettings:
    """What a projection follows all its life.

    Attributes:
        root: the configured root of all object identifiers.
        locks: the shipped locks.
        serve_stale_for: nanoseconds for which the values of a stale row are still shown.
        version: of the gateway's software.
        history: how many objects that ended, and how many operations, are shown of each source.
    """

    root: Oid
    locks: tuple[Lock, ...]
    serve_stale_for: int
    version: str
    history: HistoryLimits = field(default_factory=HistoryLimits)


class Projection:
    """The subscriber that keeps the store true to the feed (`gateway.feed.client.Subscriber`).

    Args:
        store: filled here; the fixed tables are made at once, those of classes as they are told.
        settings: what is configured.
        provisional: the lock of this site for classes that no shipped lock knows.
        save: keeps a provisional lock that has grown; may raise ``OSError``, and is then called again.
        clock: now, in nanoseconds since 1970-01-01 UTC.
        log: told of what cannot be shown.
        receivers: told of each event; of what a snapshot tells again, too, with the same epoch and number.
        operation: given each record of an operation, those of a snapshot again.
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
        receivers: Receivers | None = None,
        operation: Callable[[OperationRecord], None] | None = None,
    ) -> None:
        root = settings.root
        self._root = root
        self._clock = clock
        self._receivers = receivers
        self._locks = SchemaLocks(settings.locks, provisional, save=save, log=log, clock=clock)
        self._summaries = Summaries(store, root)
        self._source_table = SourceTable(store, root)
        self._health = HealthScalars(store, root, settings.version, clock)
        self._log_scalars = LogScalars(store, root)
        self._tables = ClassTables(store, self._summaries, self._locks, root)
        self._events = Events(self._locks, self._tables, root)
        self._alarms = AlarmTable(store, root, self._alarm_is_stale)
        self._history = History(store, root, self._tables.row_oid, settings.history)
        self._operation = operation or _to_nobody
        self._freshness = RowFreshness(clock, settings.serve_stale_for, self._alarms.unsettle)
        self._classes: dict[int, BoundClass] = {}
        self._class_names: dict[int, str] = {}
        self._generation = 0
        self._in_snapshot = False
        self._unswept = Sweep()
        self._leaving: set[int] = set()
        self._handlers: dict[type, Callable[..., None]] = {
            SourceRecord: self._source_told,
            ClassRecord: self._class_told,
            EventClassRecord: self._events.learn,
            AgentRecord: self._freshness.agent_told,
            AgentGoneRecord: self._freshness.agent_gone,
            ObjectRecord: self._object_told,
            UpdateRecord: self._object_updated,
            DeleteRecord: self._object_deleted,
            EventRecord: self._event_told,
            EventsMadeRecord: self._events_made,
            AlarmRecord: self._alarm_told,
            EventLogRecord: self._log_scalars.tell,
            OperationRecord: self._operation_told,
        }
        self._health.feed.stale_since = clock()
        self._health.show_times()

    @property
    def health(self) -> FeedHealth:
        """What is counted, as the scalars show it."""
        return self._health.feed

    @property
    def provisional(self) -> Lock:
        """The site's own lock as it has grown."""
        return self._locks.provisional

    def standing_alarms(self) -> Mapping[str, StandingAlarms] | None:
        """What lasts, by the name of the source; ``None`` while nobody can tell."""
        if not self._health.feed.connected or self._in_snapshot:
            return None
        standing = self._alarms.standing(self._generation)
        own = StandingAlarms(standing.get(_GATEWAY, {}), self._alarms.complete)
        return {"": own} | {
            self._source_table.name(number): StandingAlarms(
                standing.get(number, {}),
                self._alarms.complete and not self._freshness.has_doubts(number),
            )
            for number in self._source_table
        }

    def alarm_notification(self, source: str, condition: str) -> Notification | None:
        """AgAlarmRaised for an active alarm of the source of this name, as if it were raised now."""
        number = self._source_table.number(source) if source else _GATEWAY
        record = None if number is None else self._alarms.active(number, condition)
        if record is None:
            return None
        row = self._tables.row_oid(record.subject, record.source)
        return alarm_notification(record, row, source, self._health.feed.epoch, self._root)

    def target(self, instance: Oid) -> Target | None:
        """The object in whose row an instance is, or would be; ``None`` outside the tables of objects."""
        return self._tables.target(instance)

    def variable(self, name: Oid) -> Variable | None:
        """The variable of an object that has this name; ``None`` outside the tables of objects."""
        return self._tables.variable(name)

    def pointer(self, link: ObjectLink, source: int) -> bytes | None:
        """The TLV of a RowPointer to an object of the source with that number; ``None`` without a row."""
        return self._tables.pointer(link, source)

    def received(self, message: FeedMessage) -> None:
        """Apply one message of the feed; a batch is applied whole."""
        now = self._clock()
        self._health.feed.messages += 1
        self._health.feed.last_message = now
        if isinstance(message, Batch):
            self._apply(message.records)
            self._locks.save()
        elif isinstance(message, Hello):
            self._connected(message)
        elif isinstance(message, SnapshotBegan):
            self._generation += 1
            self._in_snapshot = True
            self._freshness.snapshot_began()
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
        self._log_scalars.doubt()
        self._alarms.unsettle([_GATEWAY])
        self._source_table.doubt_all(f"the core of the gateway cannot be reached: {reason}", now)
        self._freshness.doubt_all()
        self._work()
        self._show()

    def tick(self) -> bool:
        """Go on with what is left to do, and withhold what has been stale for too long.

        To be called about once a second; and again soon, after requests, while it returns ``True``.
        """
        self._locks.save()
        self._freshness.age()
        self._work()
        self._show()
        return bool(
            self._unswept or self._freshness.unsettled or self._alarms.unsettled or self._history.unsettled
        )

    # ---- messages -------------------------------------------------------------------------------------

    def _connected(self, hello: Hello) -> None:
        feed = self._health.feed
        if hello.epoch != feed.epoch:
            # A new core numbers classes anew and has heard of no agent yet.
            self._classes.clear()
            self._class_names.clear()
            self._events.forget()
            self._freshness.forget_agents()
        feed.gateway, feed.epoch, feed.started = hello.gateway, hello.epoch, hello.started
        feed.connected, feed.stale_since = True, 0
        self._freshness.doubt_all()

    def _snapshot_ended(self) -> None:
        self._in_snapshot = False
        self._health.feed.snapshots += 1
        self._freshness.snapshot_ended()
        self._history.sweep(self._generation)
        self._alarms.sweep(_GATEWAY, self._generation)
        for number in self._source_table:
            if self._freshness.snapshots[number].generation < self._generation:
                self._leaving.add(number)
                self._take_away(number)
            else:
                self._sweep(number)

    def _apply(self, records: Iterable[Record]) -> None:
        for record in records:
            handler = self._handlers.get(type(record))
            if handler is not None:  # gaps change no row, and are events beside
                handler(record)

    def _source_told(self, record: SourceRecord) -> None:
        self._leaving.discard(record.number)
        self._source_table.show(record)
        self._freshness.source_told(record, self._generation)
        if not self._in_snapshot:
            self._sweep(record.number)

    def _class_told(self, record: ClassRecord) -> None:
        self._class_names[record.number] = str(record.schema.key)
        bound = self._tables.bind(record.schema)
        if bound is not None:
            self._classes[record.number] = bound

    def _object_told(self, record: ObjectRecord) -> None:
        bound = self._classes.get(record.class_number)
        if bound is None:
            self._health.feed.refused += 1
            return
        group = self._freshness.group(record.source, record.agent)
        bound.table.tell(bound, record, group, self._tables.pointer, self._clock(), self._generation)

    def _object_updated(self, record: UpdateRecord) -> None:
        bound = self._classes.get(record.class_number)
        row = bound.table.rows.get((record.source, record.row)) if bound else None
        if bound is None or row is None:
            self._health.feed.refused += 1
            return
        bound.table.update(bound, row, record)

    def _object_deleted(self, record: DeleteRecord) -> None:
        """The end of an object; one that a snapshot tells is history, and no row of today is touched."""
        class_name = self._class_names.get(record.class_number, "")
        known = self._history.object_ended(record, class_name, self._generation)
        if known or self._in_snapshot:
            return
        bound = self._classes.get(record.class_number)
        row = bound.table.rows.get((record.source, record.row)) if bound else None
        if row is None:
            self._health.feed.refused += 1
            return
        row.table.remove(row, self._clock())

    def _event_told(self, record: EventRecord) -> None:
        epoch, source = self._health.feed.epoch, self._source_table.name(record.source)
        notification = self._events.notification(record, source, epoch, repeated=self._in_snapshot)
        if notification is None:
            self._health.feed.refused += 1
            return
        if self._receivers is not None:
            self._receivers.notify(notification)

    def _events_made(self, record: EventsMadeRecord) -> None:
        if self._receivers is not None:
            self._receivers.events_made(record.boot, record.number)

    def _alarm_told(self, record: AlarmRecord) -> None:
        self._alarms.tell(record, self._tables.row_oid(record.subject, record.source), self._generation)

    def _operation_told(self, record: OperationRecord) -> None:
        self._history.operation_told(record, self._generation)
        self._operation(record)

    def _alarm_is_stale(self, record: AlarmRecord, generation: int) -> bool:
        """Whether nobody vouches for an alarm that this snapshot told."""
        if not self._health.feed.connected or generation < self._generation:
            return True
        if record.name == _SOURCE_DOWN or record.source == _GATEWAY:
            return False
        row = self._tables.row(record.subject, record.source) if record.subject else None
        return bool(row.group.stale_since) if row is not None else self._freshness.has_doubts(record.source)

    # ---- what is gone -----------------------------------------------------------------------------------

    def _sweep(self, number: int) -> None:
        """Take away what the last whole snapshot did not tell, if its source is believed by now."""
        snapshots = self._freshness.snapshots[number]
        if not self._freshness.is_told_whole(number) or snapshots.swept == self._generation:
            return
        snapshots.swept = self._generation
        self._take_away(number)

    def _take_away(self, number: int) -> None:
        """Whatever this snapshot did not tell of a source is to go, in slices."""
        self._alarms.sweep(number, self._generation)
        for group in self._freshness.of_source(number):
            self._unswept.add(group.rows, self._generation)

    def _see_off(self, number: int) -> None:
        """A source that is not configured any more goes when all of it has gone."""
        if any(group.rows for group in self._freshness.of_source(number)) or self._alarms.has(number):
            return
        self._leaving.discard(number)
        self._freshness.remove_source(number)
        self._alarms.forget_source(number)
        self._summaries.remove_source(number)
        self._source_table.remove(number)

    # ---- work in slices -------------------------------------------------------------------------------

    def _work(self) -> None:
        """Settle and sweep up to `SLICE_ROWS` rows, or fewer where every cell is touched."""
        rows_left = self._unswept.work(SLICE_ROWS, _HEAVY, self._clock())
        if not self._in_snapshot and not self._unswept:
            self._freshness.vouch()
        rows_left = self._freshness.settle(rows_left, _HEAVY)
        rows_left -= _HEAVY * self._alarms.settle(max(rows_left // _HEAVY, 0))
        self._history.settle(max(rows_left // _HEAVY, 0))
        for number in tuple(self._leaving):
            self._see_off(number)

    def _show(self) -> None:
        """Bring counts, sums and health up to date."""
        feed, locks = self._health.feed, self._locks
        for source in self._summaries.flush():
            self._source_table.count(source, *self._summaries.counts(source))
        for source, (active, worst) in self._alarms.changed_sources().items():
            self._source_table.count_alarms(source, active, worst)
        self._alarms.show_last_change()
        feed.rows, feed.stale, feed.withheld = self._summaries.totals()
        feed.sources = len(self._source_table)
        feed.synchronised = self._source_table.synchronised() if feed.connected else 0
        feed.provisional_classes = len(locks.provisional.classes)
        feed.classes_not_shown = len(locks.classes_not_shown)
        feed.elements_not_shown = len(locks.elements_not_shown)
        feed.provisional_events = len(locks.provisional.events)
        feed.events_not_shown = len(locks.events_not_shown)
        self._health.show_times()


def _to_nobody(_told: object) -> None:
    """Nobody wants to be told."""
