"""The application of the feed to the store and to notifications.

The projection has no socket, and its clock and log are passed in. The replica of the feed decides which
objects are fresh. Changes of many rows are made in slices, so that requests are answered in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from gateway.feed.latest import HistoryLimits
from gateway.feed.operations import OperationRecord
from gateway.feed.records import (
    AlarmRecord,
    Batch,
    BatchPart,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventLogRecord,
    EventRecord,
    EventsMadeRecord,
    FeedMessage,
    ObjectRecord,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.replica import GATEWAY, FeedReplica, FeedStatus, FeedView
from gateway.feed.values import ObjectLink
from gateway.snmp.ber import Oid, encode_oid
from gateway.snmp.notifications.backlog import PastEvent
from gateway.snmp.notifications.bound_events import BoundEvent
from gateway.snmp.notifications.forms import NotificationForms
from gateway.snmp.notifications.notification import (
    ActiveAlarms,
    Events,
    Notification,
    Receivers,
    alarm_notification,
)
from gateway.snmp.oid_registry import OidRegistry
from gateway.snmp.registry_lookup import Log, OidRegistries, SaveProvisional
from gateway.snmp.restricted_views import RestrictedViews, ViewSettings
from gateway.snmp.row_access import ShownColumns
from gateway.snmp.store import Store
from gateway.snmp.tables.alarms import AlarmTable
from gateway.snmp.tables.classes import ClassTables, Target, Variable
from gateway.snmp.tables.health import LogScalars, ShownCounts, SourceTable, serve_health
from gateway.snmp.tables.history import EndedObjects, History, Operations
from gateway.snmp.tables.rows import BoundClass, Row, RowGroup, UnsettledRows
from gateway.snmp.tables.summaries import Summaries

SLICE_ROWS = 250
"""The maximum number of rows that one call removes or changes, which takes about a millisecond."""

_HEAVY = 10
"""The cost, in rows, of changing every cell of a row (to withhold, show again or remove it)."""

_POLICY_CHANGED: Final = "gateway:policyChanged"

_OF_SOURCES = frozenset({"sourceDown", "classNotReadable"})
"""The alarm that the core raises for a source that is down: it is fresh while the source is not."""


class ProjectionSettings(msgspec.Struct, frozen=True):
    """The settings of a projection.

    Attributes:
        root: the configured root of all object identifiers.
        registries: the shipped OID registries.
        serve_stale_for: nanoseconds for which the values of a stale row are still shown.
        version: the version of the gateway's software.
        history: the limits of ended objects and operations that are shown of each source.
        receivers: the names of the receivers of notifications.
    """

    root: Oid
    registries: tuple[OidRegistry, ...]
    serve_stale_for: int
    version: str
    history: HistoryLimits = msgspec.field(default_factory=HistoryLimits)
    receivers: tuple[str, ...] = ()


class Projection(FeedView[BoundClass, BoundEvent, Row, RowGroup]):
    """The subscriber that applies the feed to the store (`gateway.feed.client.Subscriber`).

    Args:
        store: filled here; the fixed tables are made at once, those of classes when they are received.
        settings: the configured settings.
        provisional: the registry of this site for classes that no shipped registry knows.
        save: saves a provisional registry that has grown; may raise ``OSError``, and is then called again.
        clock: returns the time in nanoseconds since 1970-01-01 UTC.
        log: called for classes, events and elements that cannot be shown.

    Attributes:
        views: what each principal sees of it.
        forms: what each receiver of notifications gets.
    """

    def __init__(
        self,
        store: Store,
        settings: ProjectionSettings,
        *,
        provisional: OidRegistry,
        save: SaveProvisional,
        clock: Callable[[], int],
        log: Log,
    ) -> None:
        root = settings.root
        self._root = root
        self._clock = clock
        self._receivers: list[Receivers] = []
        self.forms = NotificationForms(settings.receivers)
        self._operations: list[Callable[[OperationRecord], None]] = []
        self._new_core: list[Callable[[], None]] = []
        self._reloaded: list[Callable[[], None]] = []
        self._registries = OidRegistries(settings.registries, provisional, save=save, log=log, clock=clock)
        self._summaries = Summaries(store, root)
        self._source_table = SourceTable(store, root)
        self._replica = FeedReplica(self, settings.serve_stale_for, clock())
        self._log_scalars = LogScalars(store, root)
        self._columns = ShownColumns(self._source_table.name)
        for table in self._summaries.tables:
            self._columns.attach(table)
        self._tables = ClassTables(
            store, self._summaries, self._registries, root, self._columns, self._replica.last_end
        )
        self._events = Events(self._registries, self._tables, root)
        self._alarms = AlarmTable(store, root, self._alarm_is_stale)
        self._ended = EndedObjects(store, root, self._tables.row_oid, settings.history)
        self._all_operations = Operations(store, root, self._tables.row_oid, settings.history)
        self._history = History()
        self._history.tables = {self._ended.rows: None, self._all_operations.rows: None}
        self.views = RestrictedViews(
            store,
            ViewSettings(
                root,
                settings.history,
                self._tables.row_oid,
                self._alarm_is_stale,
                lambda: self.status.connected,
            ),
            self._columns,
            self._history,
            self._source_table.name,
        )
        self._class_names: dict[int, str] = {}
        self._unsettled = UnsettledRows()
        serve_health(store, root, settings.version, self._replica.status, self.counts, clock)

    def notify_of_events(self, receivers: Receivers) -> None:
        """Notify ``receivers`` of each event, also of those that a snapshot repeats.

        Call this before the feed is connected.
        """
        self._receivers.append(receivers)

    def notify_of_reloads(self, take: Callable[[], None]) -> None:
        """Call ``take`` wherever a reload of the configuration may be known: before a policy is used."""
        self._reloaded.append(take)

    def change_clients(self, principals: Iterable[str], receivers: Sequence[str]) -> None:
        """Show what they may see to other principals of SNMP, and to other receivers of notifications."""
        self.views.keep(principals)
        self.forms.change(self._replica.access, receivers)

    def notify_of_operations(self, take: Callable[[OperationRecord], None]) -> None:
        """Pass each record of an operation to ``take``, also those that a snapshot repeats."""
        self._operations.append(take)

    def notify_of_cores(self, take: Callable[[], None]) -> None:
        """Call ``take`` when another core is connected, before anything of it is shown."""
        self._new_core.append(take)

    @property
    def status(self) -> FeedStatus:
        """The connection to the core, as the scalars show it."""
        return self._replica.status

    @property
    def sources(self) -> Iterable[SourceRecord]:
        """The last record of each source; they say nothing about now while the core is not connected."""
        return self._source_table.records()

    def counts(self) -> ShownCounts:
        """Return the present numbers of sources, rows, classes, elements and events."""
        registries = self._registries
        rows, stale, withheld = self._summaries.totals()
        return ShownCounts(
            sources=len(self._source_table),
            synchronised=self._source_table.synchronised() if self.status.connected else 0,
            rows=rows,
            stale=stale,
            withheld=withheld,
            provisional_classes=len(registries.provisional.classes),
            classes_not_shown=len(registries.classes_not_shown),
            elements_not_shown=len(registries.elements_not_shown),
            provisional_events=len(registries.provisional.events),
            events_not_shown=len(registries.events_not_shown),
        )

    @property
    def provisional(self) -> OidRegistry:
        """The site's own registry as it has grown."""
        return self._registries.provisional

    def active_alarms(self) -> Mapping[str, ActiveAlarms] | None:
        """Return the active alarms, by the name of the source; ``None`` while they are unknown."""
        # During a snapshot the list is incomplete: alarms that it still lacks would be cleared at the
        # receivers.
        if not self.status.connected or self._replica.in_snapshot:
            return None
        conditions = self._alarms.conditions(self._replica.generation)
        own = ActiveAlarms(conditions.get(GATEWAY, {}), self._alarms.complete)
        return {"": own} | {
            self._source_table.name(number): ActiveAlarms(
                conditions.get(number, {}),
                self._alarms.complete and not self._replica.has_stale_parts(number),
            )
            for number in self._source_table
        }

    def source_number(self, name: str) -> int | None:
        """Return the number of a source; ``None`` while the source is not known."""
        return self._source_table.number(name)

    def alarm_notification(self, source: str, condition: str) -> Notification | None:
        """Return agAlarmRaised for an active alarm of the source of this name, as if it were raised now."""
        number = self._source_table.number(source) if source else GATEWAY
        record = None if number is None else self._alarms.active(number, condition)
        if record is None:
            return None
        row = encode_oid(self._tables.row_oid(record.subject, record.source))
        notification = alarm_notification(record, row, source, self.status.epoch, self._root)
        forms = self.forms.of_alarm(record, source, notification)
        again = partial(self._alarm_again, record, source, notification)
        forms = {name: form and msgspec.structs.replace(form, again=again) for name, form in forms.items()}
        return msgspec.structs.replace(notification, forms=forms, again=again)

    def _alarm_again(
        self, record: AlarmRecord, source: str, notification: Notification, receiver: str
    ) -> Notification | None:
        return self.forms.alarm_again(receiver, record, source, notification)

    def target(self, instance: Oid) -> Target | None:
        """Return the object in whose row an instance is, or would be; ``None`` outside objects' tables."""
        return self._tables.target(instance)

    def variable(self, name: Oid) -> Variable | None:
        """Return the variable of an object that has this name; ``None`` outside the tables of objects."""
        return self._tables.variable(name)

    def absent(self, name: Oid) -> Variable | None:
        """Return the variable of this name as of a row that is not there; ``None`` outside the tables."""
        return self._tables.absent(name)

    def pointer(self, link: ObjectLink, source: int) -> bytes | None:
        """Return the TLV of a RowPointer to an object of the source of this number; ``None`` without row."""
        return self._tables.pointer(link, source)

    def received(self, message: FeedMessage) -> None:
        """Apply one message of the feed; sums and counts are shown when a batch is whole."""
        self._replica.received(message, self._clock())
        if isinstance(message, BatchPart):
            self._work()
            return
        # A growing registry is saved once a batch: classes arrive many at a time, and each save writes the
        # whole file.
        if self._registries.has_changes and isinstance(message, Batch):
            self._registries.save()
        self._work()
        self._show()

    def disconnected(self, reason: str) -> None:
        """Mark everything stale: the core cannot be reached. May be called again and again."""
        now = self._clock()
        if not self._replica.disconnected(now):
            return
        self._log_scalars.mark_unknown()
        # The gateway's own alarms are of no source, and so are not among those that the replica judges.
        self.sources_judged([GATEWAY])
        why = f"the core of the gateway cannot be reached: {reason}"
        for sources in (self._source_table, *(view.sources for view in self.views.all)):
            sources.mark_unknown(why, now)
        self._work()
        self._show()

    def tick(self) -> bool:
        """Continue pending work, and withhold values that have been stale for too long.

        Call this about once a second; and again soon, after requests, while it returns ``True``.
        """
        self._registries.save()
        self._replica.age(self._clock())
        self._work()
        self._show()
        return bool(
            self._replica.is_sweeping
            or self._unsettled.waiting
            or any(alarms.unsettled for alarms in self._alarm_tables())
            or self._history.unsettled
        )

    # ---- what the replica calls ---------------------------------------------------------------------------

    def new_group(self, source: int, agent: str, class_name: str) -> RowGroup:
        """Make the group of the rows of an agent and class."""
        return RowGroup(source, agent, class_name)

    def freshness_changed(self, group: RowGroup) -> None:
        """Bring the rows of a group into its state, in slices."""
        # In slices: an agent may have a hundred thousand rows.
        self._unsettled.add(group)

    def sources_judged(self, sources: Iterable[int]) -> None:
        """Bring alarms of sources up to date, in slices."""
        sources = tuple(sources)
        for alarms in self._alarm_tables():
            alarms.unsettle(sources)

    def core_restarted(self) -> None:
        """Forget the names of classes."""
        self._class_names.clear()
        self._summaries.forget_versions()
        for take in self._new_core:
            take()

    def policy_changed(self) -> None:
        """Show restricted views nothing but what the snapshot shows from now on."""
        self._take_reload()
        self._summaries.forget_roles()
        self._tables.forget_roles()
        self.views.policy_changed(self._replica.access)
        self.forms.change(self._replica.access)
        for receivers in self._receivers:
            receivers.policy_changing()

    def _take_reload(self) -> None:
        for take in self._reloaded:
            take()

    def source_changed(self, record: SourceRecord) -> None:
        """Show a source."""
        self._source_table.show(record)
        self.views.source_changed(record)

    def source_removed(self, number: int) -> None:
        """Remove a source with its alarms and summaries."""
        self._unsettled.forget(self._replica.groups_of(number))
        self._alarms.forget_source(number)
        self._summaries.remove_source(number)
        self.views.source_removed(number)
        self._source_table.remove(number)

    def version_of(self, record: ClassRecord) -> BoundClass | None:
        """Bind a version of a class to its table."""
        # Also for classes that get no table: the ends of their objects are shown by name.
        self._class_names[record.number] = str(record.schema.key)
        return self._tables.bind(record.schema)

    def event_version_of(self, record: EventClassRecord) -> BoundEvent | None:
        """Bind a version of an event to its notification."""
        return self._events.bind(record)

    def find(self, source: int, version: BoundClass, row: int) -> Row | None:
        """Find the row of an object."""
        return version.table.rows.get((source, row))

    def objects_of(self, source: int) -> Iterable[Row]:
        """List the rows of a source."""
        return [row for group in self._replica.groups_of(source) for row in group.rows]

    def show(self, record: ObjectRecord, version: BoundClass, shown: Row | None, group: RowGroup) -> Row:
        """Write the row of an object."""
        return version.table.show(version, record, shown, group, self._tables.pointer, self._clock())

    def change(self, record: UpdateRecord, version: BoundClass, shown: Row) -> None:
        """Write the cells that have changed."""
        version.table.update(version, shown, record)

    def remove(self, shown: Row) -> None:
        """Remove a row."""
        shown.table.remove(shown, self._clock())

    def object_ended(self, record: DeleteRecord, version: BoundClass | None) -> None:  # noqa: ARG002
        """Show the end of an object, also of a class that has no table."""
        class_name = self._class_names.get(record.class_number, "")
        self._ended.object_ended(record, class_name, self._replica.generation)
        self.views.object_ended(record, class_name, self._replica.generation)

    def event_occurred(self, record: EventRecord, version: BoundEvent | None) -> None:
        """Notify the receivers of an event."""
        if version is None:
            self.status.refused += 1
            return
        if version.name == _POLICY_CHANGED:
            self._take_reload()
            self.views.settle()
        if self._receivers:
            source = self._source_table.name(record.source)
            repeated, epoch = self._replica.in_snapshot, self.status.epoch
            again = partial(self._again, epoch, record, version, source, repeated=repeated)
            notification = self._events.notification(
                record, version, source, epoch, repeated=repeated, again=again
            )
            if self.forms.has_restricted:
                make = partial(self._maker(version, source, epoch, repeated=repeated), again=again)
                forms = self.forms.of_event(record, version, source, make)
                notification = msgspec.structs.replace(notification, forms=forms)
            for receivers in self._receivers:
                receivers.notify(notification)

    def _maker(
        self, version: BoundEvent, source: str, epoch: int, *, repeated: bool
    ) -> Callable[..., Notification]:
        """Return what makes the notification of a form of an event."""
        return partial(
            self._events.notification, bound=version, source_name=source, epoch=epoch, repeated=repeated
        )

    def _again(
        self,
        epoch: int,
        record: EventRecord,
        version: BoundEvent,
        source: str,
        receiver: str,
        *,
        repeated: bool,
    ) -> Notification | None:
        """Return what a receiver may get of an event now."""
        make = self._maker(version, source, epoch, repeated=repeated)
        in_epoch = epoch == self.status.epoch
        return self.forms.again(receiver, record, version, source, make, in_epoch=in_epoch)

    @property
    def is_complete(self) -> bool:
        """Whether the core is connected, and no snapshot of it is under way."""
        return self._replica.is_complete and not self._replica.in_snapshot

    def past_event(
        self, receiver: str, record: EventRecord, former_sources: Mapping[int, str] | None = None
    ) -> PastEvent | None:
        """Return an event of before as a receiver gets it; ``None`` where no notification can be made of it.

        Call it while the feed is whole (`is_complete`): the tables of the policy are incomplete otherwise.

        Args:
            receiver: the name of the receiver.
            record: the event, from the core's `PastEvents`.
            former_sources: likewise from there.
        """
        version = self._replica.event_versions.get(record.class_number)
        known = self._source_table.name(record.source)
        source, epoch = known or (former_sources or {}).get(record.source, ""), self.status.epoch
        # Without a name it would be one of the gateway itself, for whom other rules hold.
        if version is None or (record.source != GATEWAY and not source):
            return None
        again = partial(self._again, epoch, record, version, source, repeated=False)
        is_meant = receiver not in record.withheld
        notification = again(receiver) if is_meant else None
        if notification is not None:
            notification = msgspec.structs.replace(notification, again=again)
        condition = (source, record.condition) if record.condition else None
        return PastEvent((record.boot, record.number), version.name, notification, is_meant, condition)

    def events_made(self, record: EventsMadeRecord) -> None:
        """Have the receivers count the events that they missed."""
        for receivers in self._receivers:
            receivers.events_made(record.boot, record.number, more=record.more)

    def alarm_changed(self, record: AlarmRecord) -> None:
        """Show an alarm, or its end."""
        row = self._tables.row_oid(record.subject, record.source)
        self._alarms.show(record, row, self._replica.generation)
        self.views.alarm_changed(record, row, self._replica.generation)

    def alarms_swept(self, source: int) -> None:
        """Remove alarms that the last snapshot did not contain, in slices."""
        for alarms in self._alarm_tables():
            alarms.sweep(source, self._replica.generation)

    def operation_changed(self, record: OperationRecord) -> None:
        """Show an operation."""
        self._all_operations.operation_changed(record, self._replica.generation)
        self.views.operation_changed(record, self._replica.generation)
        for take in self._operations:
            take(record)

    def event_log_changed(self, record: EventLogRecord) -> None:
        """Show the state of the event log."""
        self._log_scalars.show(record)

    def snapshot_ended(self) -> None:
        """Remove rows of the history that the snapshot did not contain, in slices."""
        self._take_reload()
        self.views.settle()
        self._history.sweep(self._replica.generation)
        self._columns.settle()
        for receivers in self._receivers:
            receivers.policy_changed()

    def _alarm_is_stale(self, record: AlarmRecord, generation: int) -> bool:
        """Return whether it is unknown now if an alarm of this snapshot is still active."""
        if not self.status.connected or generation < self._replica.generation:
            return True
        # These are the core's own findings: they are known as long as the core answers.
        if record.name in _OF_SOURCES or record.source == GATEWAY:
            return False
        row = self._tables.row(record.subject, record.source) if record.subject else None
        return (
            bool(row.group.stale_since) if row is not None else self._replica.has_stale_parts(record.source)
        )

    # ---- work in slices -------------------------------------------------------------------------------

    def _work(self) -> None:
        """Remove and settle up to `SLICE_ROWS` rows, or fewer where every cell is touched."""
        budget = self._replica.work(SLICE_ROWS, _HEAVY, self._clock())
        if self._unsettled.waiting:
            budget = self._unsettled.settle(budget, _HEAVY)
        for alarms in self._alarm_tables():
            if alarms.unsettled:
                # The last heavy row may have taken the budget below 0.
                budget -= _HEAVY * alarms.settle(max(budget // _HEAVY, 0))
        if self._history.unsettled:
            self._history.settle(max(budget // _HEAVY, 0))

    def _show(self) -> None:
        """Update sums and the counts of sources; all other counts are made when they are read."""
        views = self.views.all
        if self._summaries.changed:
            # Once for each message, however many of its records touch a sum.
            for source in self._summaries.flush():
                counts = self._summaries.counts(source)
                self._source_table.count(source, *counts)
                for place, view in enumerate(views):
                    shown = counts if view.counts else self._summaries.rows_shown(source, place)
                    view.sources.count(source, *shown)
        of_views = ((view.alarms, view.sources) for view in views)
        for alarms, sources in ((self._alarms, self._source_table), *of_views):
            if alarms.changed_sources:
                for source, (active, worst) in alarms.take_changed().items():
                    sources.count_alarms(source, active, worst)

    def _alarm_tables(self) -> Iterator[AlarmTable]:
        yield self._alarms
        for view in self.views.all:
            yield view.alarms
