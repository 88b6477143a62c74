"""Applies the feed to the MBeans: what each message means, as commands for the virtual machine.

No socket, no clock of its own, no log: all three are handed in. No value is kept here, only which objects
there are. What is not known any more is never shown as if it were: MBeans turn stale when their agent or
source is silent, when the core is gone, and when a new core has not synchronised the source yet; after a
while their values are withheld. The virtual machine keeps how far each group of objects can be believed, so
that is one command however many objects there are.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping
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
    SnapshotBegan,
    SnapshotEnded,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.values import ObjectLink
from gateway.jmx import own_beans, types
from gateway.jmx.alarms import GATEWAY, ShownAlarms
from gateway.jmx.class_versions import ClassVersions
from gateway.jmx.classes import ColumnOids
from gateway.jmx.commands import Command, Emit
from gateway.jmx.event_log import ShownEventLog
from gateway.jmx.events import EventCursor, ShownEvent
from gateway.jmx.groups import Groups, counts
from gateway.jmx.health import Health, health_values
from gateway.jmx.leaving import Leaving
from gateway.jmx.links import Target
from gateway.jmx.objects import ShownObjects
from gateway.jmx.operation_notices import LastOperations, OperationCursor, operation_notice
from gateway.jmx.own_beans import OwnBean
from gateway.jmx.sources import ShownObject, ShownSource, source_values
from gateway.jmx.unfit_values import UnfitValues
from gateway.model.observations import SourceState


@dataclass(frozen=True, slots=True)
class ProjectionSettings:
    """What a projection follows all its life.

    Attributes:
        serve_stale_for: nanoseconds for which the values of a stale object are still shown.
        version: of the gateway's software.
        buckets: into how many groups the names of a class (``package:class``) are split.
        virtual_machine_starts: how many there were in this process, with this one.
        history: of how many objects of each source the last operation is shown.
    """

    serve_stale_for: int
    version: str
    buckets: Mapping[str, int] = field(default_factory=dict)
    virtual_machine_starts: int = 1
    history: HistoryLimits = field(default_factory=HistoryLimits)


class Projection:
    """The subscriber that keeps one virtual machine's MBeans true (`gateway.feed.client.Subscriber`).

    Args:
        settings: what is configured.
        cursor: which events were told; outlives this projection.
        operations: which operations were told; likewise.
        clock: now, in nanoseconds since 1970-01-01 UTC.
        log: told of what cannot be shown: an event name, and a detail for people.
        column_oid: of the SNMP column that shows an element too, for descriptors.
    """

    def __init__(
        self,
        settings: ProjectionSettings,
        *,
        cursor: EventCursor,
        operations: OperationCursor,
        clock: Callable[[], int],
        log: Callable[[str, str], None],
        column_oid: ColumnOids = lambda _class_name, _element: "",
    ) -> None:
        self._settings = settings
        self._cursor = cursor
        self._operation_cursor = operations
        self._clock = clock
        self._commands: deque[Command] = deque()
        self._tell = self._commands.append
        self._new_number = itertools.count(1).__next__
        self._groups = Groups(self._tell, settings.serve_stale_for)
        self._classes = ClassVersions(self._tell, log, column_oid)
        self._events: dict[int, ShownEvent] = {}
        self._sources: dict[int, ShownSource] = {}
        self._unfit = UnfitValues(log)
        self._last_operations = LastOperations(settings.history)
        self._objects = ShownObjects(
            self._sources,
            settings.buckets,
            self._last_operations,
            new_number=self._new_number,
            tell=self._tell,
            unfit=self._unfit.seen,
        )
        self._generation = 0
        self._in_snapshot = False
        self._leaving = Leaving(self._objects.take_away)
        self._health = Health(stale_since=clock())
        self._event_log = ShownEventLog()
        self._own_alarms = ShownAlarms()
        for definition in (own_beans.GATEWAY, own_beans.SOURCE):
            self._tell(definition)
        self._bean = OwnBean(
            own_beans.GATEWAY,
            self._new_number(),
            self._groups.own.number,
            own_beans.GATEWAY_NAME,
            self._tell,
        )
        self._bean.show(
            {"Version": settings.version, "VirtualMachineStarts": settings.virtual_machine_starts}
        )
        self._handlers: dict[type, Callable[..., None]] = {
            SourceRecord: self._source_told,
            ClassRecord: self._classes.tell,
            EventClassRecord: self._event_class_told,
            AgentRecord: lambda record: self._groups.agent_told(record, clock()),
            AgentGoneRecord: lambda record: self._groups.agent_gone(record, clock()),
            ObjectRecord: self._object_told,
            UpdateRecord: self._object_updated,
            DeleteRecord: self._object_deleted,
            EventRecord: self._event_told,
            EventsMadeRecord: lambda record: self._cursor.events_made(record.boot, record.number),
            AlarmRecord: self._alarm_told,
            OperationRecord: self._operation_told,
            EventLogRecord: self._event_log.tell,
        }
        self._show()

    @property
    def health(self) -> Health:
        """What is counted, as the Gateway MBean tells it."""
        return self._health

    @property
    def counts(self) -> Mapping[str, int]:
        """How many objects there are, and how far they can be believed, by attribute."""
        return counts(self._groups)

    @property
    def objects(self) -> ShownObjects:
        """The MBeans of managed objects."""
        return self._objects

    @property
    def waiting(self) -> int:
        """Commands that nobody took yet."""
        return len(self._commands)

    def take(self, limit: int) -> list[Command]:
        """The next commands, in order, and at most so many."""
        return [self._commands.popleft() for _ in range(min(limit, len(self._commands)))]

    def received(self, message: FeedMessage) -> None:
        """Apply one message of the feed."""
        self._health.messages += 1
        self._health.last_message = self._clock()
        if isinstance(message, Batch):
            for record in message.records:
                handler = self._handlers.get(type(record))
                if handler is not None:  # a gap changes nothing; an event tells of it
                    handler(record)
        elif isinstance(message, Hello):
            self._connected(message)
        elif isinstance(message, SnapshotBegan):
            self._generation += 1
            self._in_snapshot = True
            self._groups.snapshot_began()
        elif isinstance(message, SnapshotEnded):
            self._snapshot_ended()
        self._leave()

    def disconnected(self, reason: str) -> None:
        """The core cannot be reached: nothing is known to be true any more. May be called again and again."""
        if not self._health.connected:
            return
        now = self._clock()
        self._health.connected, self._health.stale_since = False, now
        self._in_snapshot = False
        self._groups.doubt_all(now)
        self._event_log.doubt()
        for source in self._sources.values():
            source.bean.show(
                {
                    "State": own_beans.UNKNOWN,
                    "Detail": types.text(f"the core of the gateway cannot be reached: {reason}"),
                    "Since": types.time(now),
                }
            )
        self._show()

    def tick(self) -> bool:
        """Bring counts and histories up to date, withhold what has been stale for too long, take away.

        To be called about once a second; and again soon while it returns ``True``.
        """
        self._groups.tick(self._clock())
        self._leave()
        for source in self._sources.values():
            source.show_history()
        self._show()
        return bool(self._leaving)

    def _leave(self) -> None:
        """Take a slice away of what is to go; what stays is believed when nothing else is left."""
        self._leaving.work()
        if not self._in_snapshot and not self._leaving:
            self._groups.vouch(self._clock())

    # ---- messages -------------------------------------------------------------------------------------

    def _connected(self, hello: Hello) -> None:
        now = self._clock()
        self._groups.doubt_all(now)
        if hello.epoch != self._health.epoch:
            # A new core numbers classes anew and has heard of no agent yet.
            self._classes.forget_numbers()
            self._events.clear()
            self._groups.forget_agents()
        health = self._health
        health.gateway, health.epoch, health.started = hello.gateway, hello.epoch, hello.started
        health.connected, health.stale_since = True, 0
        self._show()

    def _snapshot_ended(self) -> None:
        self._in_snapshot = False
        self._health.snapshots += 1
        self._cursor.snapshot_ended()
        self._operation_cursor.snapshot_ended()
        self._own_alarms.drop_before(self._generation)
        self._classes.drop_unused()
        self._groups.snapshot_ended()
        for number, source in tuple(self._sources.items()):
            if source.generation < self._generation:
                self._remove_source(number)
            else:
                self._sweep(number)
        self._show()

    def _source_told(self, record: SourceRecord) -> None:
        source = self._sources.get(record.number)
        if source is not None and source.name != record.name:  # renamed: its objects have other names now
            self._remove_source(record.number)
            source = None
        if source is None:
            source = self._sources[record.number] = self._new_source(record)
        source.generation = self._generation
        source.synchronised = record.state is SourceState.SYNCHRONISED
        source.bean.show(source_values(record))
        self._groups.source_told(record, self._clock())
        if not self._in_snapshot:
            self._sweep(record.number)

    def _event_class_told(self, record: EventClassRecord) -> None:
        self._events[record.number] = ShownEvent(record)

    def _object_told(self, record: ObjectRecord) -> None:
        shown_class = self._classes.by_number.get(record.class_number)
        source = self._sources.get(record.source)
        if shown_class is None or source is None:
            self._health.refused += 1
            return
        self._classes.define(shown_class, (event.schema for event in self._events.values()))
        group = self._groups.of_agent(record.source, record.agent, self._clock())
        self._objects.tell(record, shown_class, group, self._generation)

    def _object_updated(self, record: UpdateRecord) -> None:
        shown = self._find(record.source, record.class_number, record.row)
        if shown is None:
            self._health.refused += 1
            return
        self._objects.update(record, shown)

    def _find(self, source: int, class_number: int, row: int) -> ShownObject | None:
        shown_class = self._classes.by_number.get(class_number)
        return None if shown_class is None else self._objects.at(Target(source, shown_class.name, row))

    def _object_deleted(self, record: DeleteRecord) -> None:
        shown_class = self._classes.by_number.get(record.class_number)
        source = self._sources.get(record.source)
        if shown_class is None or source is None:
            self._health.refused += 1
            return
        source.tell_deletion(record, shown_class.name)
        if self._in_snapshot:  # history: whoever has the row now is told further on, or swept
            return
        shown = self._objects.at(Target(record.source, shown_class.name, record.row))
        if shown is None:
            self._health.refused += 1
            return
        del source.objects[shown_class.name][record.row]
        self._objects.take_away(shown)

    def _event_told(self, record: EventRecord) -> None:
        epoch = record.boot or self._health.epoch
        if not self._cursor.is_new(epoch, record.number, repeated=self._in_snapshot):
            return
        event, source = self._events.get(record.class_number), self._sources.get(record.source)
        if event is None or (source is None and record.source != GATEWAY):
            self._health.refused += 1
            return
        self._health.emitted += 1
        age = self._clock() - record.heard
        # A former core made it, or a snapshot repeats what could have been sent before.
        late = record.boot > 0 or (self._in_snapshot and self._cursor.is_late(epoch, age))
        self._tell(self._emit(record, event, source, is_late=late))

    def _emit(
        self, record: EventRecord, event: ShownEvent, source: ShownSource | None, *, is_late: bool
    ) -> Emit:
        def resolve(_position: int, link: ObjectLink) -> str | None:
            found = self._objects.at(Target(record.source, link.class_name, link.row))
            return None if found is None else found.name

        emitters = [self._bean.number] if source is None else [source.bean.number, self._bean.number]
        link = record.subject
        subject = None if link is None else self._objects.at(Target(record.source, link.class_name, link.row))
        if subject is not None and subject.shown_class.emits:
            emitters.insert(0, subject.number)
        name = source.name if source is not None else ""
        return event.emit(record, tuple(emitters), name, resolve, self._unfit.seen, is_late=is_late)

    def _alarm_told(self, record: AlarmRecord) -> None:
        source = self._sources.get(record.source)
        if record.source == GATEWAY:
            self._own_alarms.tell(record, self._generation)
        elif source is None:
            self._health.refused += 1
        else:
            source.alarms.tell(record, self._generation)

    def _operation_told(self, record: OperationRecord) -> None:
        if record.outcome is None:
            return
        self._objects.operation_told(record)
        if not self._operation_cursor.is_new(self._health.epoch, record, repeated=self._in_snapshot):
            return
        source = self._sources.get(record.source)
        shown = self._objects.at(Target(record.source, record.class_name, record.row))
        self._tell(
            operation_notice(
                record,
                self._bean.number,
                "" if source is None else source.name,
                None if shown is None else shown.name,
            )
        )

    # ---- sources --------------------------------------------------------------------------------------

    def _new_source(self, record: SourceRecord) -> ShownSource:
        group = self._groups.of_source(record.number)
        bean = OwnBean(
            own_beans.SOURCE,
            self._new_number(),
            group.number,
            own_beans.source_name(record.name),
            self._tell,
        )
        return ShownSource(record.name, bean)

    def _remove_source(self, number: int) -> None:
        """A source is not configured any more: it goes at once, its objects in slices."""
        source = self._sources.pop(number)
        self._leaving.sweep(source, self._generation + 1)
        self._groups.remove_source(number)
        source.bean.remove()

    def _sweep(self, number: int) -> None:
        """Take away what the last whole snapshot did not tell, if its source is believed by now."""
        source = self._sources[number]
        if not self._groups.is_told_whole(number) or source.swept == self._generation:
            return
        source.swept = self._generation
        source.alarms.drop_before(self._generation)
        self._leaving.sweep(source, self._generation)

    def _show(self) -> None:
        """Bring counts and health up to date."""
        for number, source in self._sources.items():
            source.bean.show(counts(group for group in self._groups if group.source == number))
        self._health.unfit = len(self._unfit)
        self._health.lost = self._cursor.lost
        self._bean.show(
            health_values(
                self._health, self._sources.values(), self._groups, self._event_log, self._own_alarms
            )
            | {"LastOperations": self._last_operations.recent}
        )
