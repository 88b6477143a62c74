"""The conversion of the feed into commands for the virtual machine: the front end of the replica of the feed.

The projection has no socket, and its clock and log are passed in. It keeps the list of objects without their
values, which are in the virtual machine.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.feed.access import GATEWAY_NAME
from gateway.feed.latest import HistoryLimits
from gateway.feed.operations import OperationRecord
from gateway.feed.records import (
    AlarmRecord,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventLogRecord,
    EventRecord,
    EventsMadeRecord,
    FeedMessage,
    Hello,
    ObjectRecord,
    SnapshotEnded,
    SourceRecord,
    UpdateRecord,
)
from gateway.feed.replica import GATEWAY, FeedReplica, FeedStatus, FeedView
from gateway.feed.values import ObjectLink
from gateway.jmx import own_beans, types
from gateway.jmx.audience import Audience, Hidden, source_name_of
from gateway.jmx.classes import ClassVersions, ColumnOids, ShownClass
from gateway.jmx.commands import NOTHING, Command, Emit, JmxValue
from gateway.jmx.notifications import EventCursor, OperationCursor, ShownEvent, operation_notice
from gateway.jmx.objects import (
    Group,
    Groups,
    LastOperations,
    ShownObject,
    ShownObjects,
    Target,
    counts,
    counts_by_user,
)
from gateway.jmx.own_beans import (
    Health,
    OwnBean,
    ShownAlarms,
    ShownEventLog,
    ShownSource,
    health_values,
    source_values,
)
from gateway.jmx.past_events import event_line
from gateway.jmx.types import UnfitValues
from gateway.model.observations import SourceState

SLICE_OBJECTS: Final = 1000
"""The maximum number of objects that one call removes, which takes a millisecond."""


@dataclass(frozen=True, slots=True)
class ProjectionSettings:
    """The settings of a projection.

    Attributes:
        serve_stale_for: nanoseconds for which the values of a stale object are still shown.
        version: the version of the gateway's software.
        buckets: the number of groups into which the names of a class (``package:class``) are split.
        virtual_machine_starts: the number of virtual machines that this process started, with this one.
        history: the limits of the objects of each source whose last operation is shown.
        users: the names of the users who may log in, in the order of their numbers.
    """

    serve_stale_for: int
    version: str
    buckets: Mapping[str, int] = field(default_factory=dict)
    virtual_machine_starts: int = 1
    history: HistoryLimits = field(default_factory=HistoryLimits)
    users: tuple[str, ...] = ()


class Projection(FeedView[ShownClass, ShownEvent, ShownObject, Group]):
    """The MBeans of one virtual machine: a subscriber of the feed (`gateway.feed.client.Subscriber`).

    Args:
        settings: the settings.
        cursor: the events that were sent to clients; it outlives this projection.
        operations: the operations that were sent; likewise.
        clock: returns the time in nanoseconds since 1970-01-01 UTC.
        log: called with an event name and a text for classes and values that cannot be shown.
        column_oid: finds the SNMP column of an element, for descriptors.
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
        self._send = self._commands.append
        # One count for the gateway's own MBeans and all objects: the virtual machine has one table of
        # numbers.
        self._new_number = itertools.count(1).__next__
        self._groups = Groups(self._send)
        self._replica = FeedReplica(self, settings.serve_stale_for, clock())
        self._audience = Audience(settings.users, self._replica.access, self._send)
        self._classes = ClassVersions(self._send, log, column_oid)
        self._sources: dict[int, ShownSource] = {}
        self._unfit = UnfitValues(log)
        self._last_operations = LastOperations(settings.history)
        self._objects = ShownObjects(
            settings.buckets,
            self._last_operations,
            self._audience,
            new_number=self._new_number,
            send=self._send,
            unfit=self._unfit.seen,
        )
        self._health = Health()
        self._event_log = ShownEventLog()
        self._own_alarms = ShownAlarms(self._audience, GATEWAY_NAME)
        # First of all: a command may only name classes that the virtual machine has.
        for definition in (own_beans.GATEWAY, own_beans.SOURCE):
            self._send(definition)
        self._bean = OwnBean(
            own_beans.GATEWAY,
            self._new_number(),
            self._groups.own.number,
            own_beans.GATEWAY_NAME,
            self._gateway_access(),
            self._send,
        )
        self._bean.show(
            {"Version": settings.version, "VirtualMachineStarts": settings.virtual_machine_starts}
        )
        self._show()

    @property
    def health(self) -> Health:
        """The counters of the Gateway MBean."""
        return self._health

    @property
    def status(self) -> FeedStatus:
        """The connection to the core."""
        return self._replica.status

    @property
    def counts(self) -> Mapping[str, int]:
        """The numbers of objects, and of stale and withheld ones, by attribute."""
        return counts(self._replica.groups)

    @property
    def objects(self) -> ShownObjects:
        """The MBeans of managed objects."""
        return self._objects

    def last_end(self, source: int) -> int:
        """Return the number of the last end of an object of a source; 0 for none."""
        return self._replica.last_end(source)

    @property
    def waiting(self) -> int:
        """The number of commands that were not taken yet."""
        return len(self._commands)

    def take(self, limit: int) -> list[Command]:
        """Remove and return the next commands, at most ``limit``."""
        return [self._commands.popleft() for _ in range(min(limit, len(self._commands)))]

    def received(self, message: FeedMessage) -> None:
        """Apply one message of the feed."""
        self._replica.received(message, self._clock())
        self._remove_some()
        # Counts are shown by `tick`, once a second; only these two change everything.
        if isinstance(message, Hello | SnapshotEnded):
            self._show()
        elif self._last_operations.has_changed and not self._replica.in_snapshot:
            # Behind those of objects: what is among the last operations of all is the last one of its object.
            self._bean.show({"LastOperations": self._operations_of_all()})

    def disconnected(self, reason: str) -> None:
        """Mark everything stale, because the core cannot be reached. Further calls change nothing."""
        now = self._clock()
        if not self._replica.disconnected(now):
            return
        self._event_log.core_lost()
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
        """Update counts and histories, withhold values that have been stale for too long, remove objects.

        Call this about once a second; and again soon while it returns ``True``.
        """
        self._replica.age(self._clock())
        self._remove_some()
        self._show_histories()
        return self._replica.is_sweeping

    def _remove_some(self) -> None:
        self._replica.work(SLICE_OBJECTS, 1, self._clock())

    # ---- what the replica calls ---------------------------------------------------------------------------

    def new_group(self, source: int, agent: str, class_name: str) -> Group:
        """Make the group of the objects of an agent and class."""
        return self._groups.new(source, agent, class_name)

    def freshness_changed(self, group: Group) -> None:
        """Send the freshness of a group to the virtual machine."""
        self._groups.changed(group)

    def sources_judged(self, sources: Iterable[int]) -> None:
        """Send the freshness of the MBeans of sources to the virtual machine."""
        for number in sources:
            if number in self._sources:
                self._groups.judge_source(number, is_stale=self._replica.is_stale(number))

    def policy_changed(self) -> None:
        """Hide everything from those who are restricted; the gateway and its sources are shown at once."""
        self._audience.policy_changed()
        self._objects.policy_changed()
        for source in self._sources.values():
            source.seen = self._audience.sees_source(source.name)
        # Before anybody is shown them again: alarms and histories were those of the former policy.
        self._judge_again()
        self._last_operations.judge_again()
        self._show_histories()
        self._bean.grant(self._gateway_access())
        for source in self._sources.values():
            source.bean.grant(self._source_access(source.seen))

    def _judge_again(self) -> None:
        """Decide again who sees what has happened: the tables of classes are other ones, or complete now."""
        self._own_alarms.policy_changed()
        for source in self._sources.values():
            source.policy_changed()

    def snapshot_ended(self) -> None:
        """Forget versions of classes that the core does not use; objects are removed in slices."""
        self._judge_again()
        self._objects.operations_judged()
        self._cursor.snapshot_ended()
        self._operation_cursor.snapshot_ended()
        self._classes.drop_unused(self._replica.versions.values())

    def source_changed(self, record: SourceRecord) -> None:
        """Show a source by an MBean of its own."""
        source = self._sources.get(record.number)
        if source is not None and source.name != record.name:  # renamed: its objects get other names too
            source.bean.remove()
            self._objects.remove_tables(record.number)
            source = None
        if source is None:
            source = self._sources[record.number] = self._new_source(record)
        source.synchronised = record.state is SourceState.SYNCHRONISED
        source.bean.show(source_values(record))
        # A source that comes back while it leaves is judged no other than before, and has a new group.
        self._groups.judge_source(record.number, is_stale=self._replica.is_stale(record.number))

    def source_leaves(self, number: int) -> None:
        """Remove the MBean of a source; those of its objects are removed in slices."""
        self._sources.pop(number).bean.remove()
        self._objects.remove_tables(number)
        self._groups.remove_source(number)

    def version_of(self, record: ClassRecord) -> ShownClass | None:
        """Find a version of a class."""
        return self._classes.find(record)

    def event_version_of(self, record: EventClassRecord) -> ShownEvent:
        """Return the notifications of a version of an event."""
        return ShownEvent(record)

    def find(self, source: int, version: ShownClass, row: int) -> ShownObject | None:
        """Find the MBean of an object."""
        return self._objects.in_row(source, version.name, row)

    def objects_of(self, source: int) -> Iterable[ShownObject]:
        """List the MBeans of the objects of a source."""
        return self._objects.of_source(source)

    def show(
        self, record: ObjectRecord, version: ShownClass, shown: ShownObject | None, group: Group
    ) -> ShownObject:
        """Register the MBean of an object."""
        self._classes.define(version, (event.schema for event in self._replica.event_versions.values()))
        return self._objects.show(record, self._sources[record.source].name, version, shown, group)

    def change(self, record: UpdateRecord, version: ShownClass, shown: ShownObject) -> None:  # noqa: ARG002
        """Change attributes of an MBean."""
        self._objects.update(record, shown)

    def remove(self, shown: ShownObject) -> None:
        """Unregister the MBean of an object."""
        self._objects.remove(shown)

    def object_ended(self, record: DeleteRecord, version: ShownClass | None) -> None:
        """Show the end of an object among the last ones of its source."""
        source = self._sources.get(record.source)
        is_new = record.number > 0 and not self._replica.is_known_end(record)
        if is_new and source is not None and version is not None:
            source.object_ended(record, version.name)

    def event_occurred(self, record: EventRecord, version: ShownEvent | None) -> None:
        """Notify listeners of an event that was not sent yet."""
        epoch, in_snapshot = record.boot or self.status.epoch, self._replica.in_snapshot
        if not self._cursor.is_new(epoch, record.number, repeated=in_snapshot):
            return
        source = self._sources.get(record.source)
        if version is None or (source is None and record.source != GATEWAY):
            self.status.refused += 1
            return
        self._health.emitted += 1
        age = self._clock() - record.received
        # A former core made it, or a snapshot repeats what could have been sent before.
        late = record.boot > 0 or (in_snapshot and self._cursor.is_late(epoch, age))
        name = source_name_of("" if source is None else source.name)
        received = self._audience.receives(record, name, version.references)
        if any(each is not None for each in received):
            self._send(self._emit(record, version, source, received, is_late=late))

    @property
    def gateway(self) -> str:
        """The uuid of the gateway; empty while it is not known."""
        return self.status.gateway

    @property
    def is_complete(self) -> bool:
        """Whether the core is connected, and no snapshot of it is under way."""
        return self._replica.is_complete and not self._replica.in_snapshot

    @property
    def bean_number(self) -> int:
        """The number of the Gateway MBean."""
        return self._bean.number

    def past_event(self, record: EventRecord, user: str) -> str | None:
        """Return an event of the event log as a user may read it now, as JSON; ``None`` for nothing."""
        version = self._replica.event_versions.get(record.class_number)
        number = self._audience.number_of(user)
        source = self._sources.get(record.source)
        if version is None or number is None or (source is None and record.source != GATEWAY):
            return None
        name = source_name_of("" if source is None else source.name)
        received = self._audience.receives(record, name, version.references)[number]
        if received is None:
            return None
        emitted = self._emit(record, version, source, (received,), is_late=True)
        text, data = emitted.message, emitted.data
        if emitted.choices and emitted.choices[0] > 0:
            text, data = emitted.variants[emitted.choices[0] - 1]
        return event_line(emitted.type, text, emitted.time, data)

    def events_made(self, record: EventsMadeRecord) -> None:
        """Count the events that listeners missed."""
        self._cursor.events_made(record.boot, record.number, more=record.more)

    def alarm_changed(self, record: AlarmRecord) -> None:
        """Show an alarm, or its end."""
        alarms = self._alarms_of(record.source)
        if alarms is None:
            self.status.refused += 1
        else:
            alarms.update(record, self._replica.generation)

    def alarms_swept(self, source: int) -> None:
        """Forget alarms that the last snapshot did not contain."""
        alarms = self._alarms_of(source)
        if alarms is not None:
            alarms.sweep(self._replica.generation)

    def event_log_changed(self, record: EventLogRecord) -> None:
        """Show the state of the event log."""
        self._event_log.update(record)

    def operation_changed(self, record: OperationRecord) -> None:
        """Show the outcome of an operation, and notify listeners."""
        if record.outcome is None:
            return
        self._objects.operation_changed(record)
        in_snapshot = self._replica.in_snapshot
        if not self._operation_cursor.is_new(self.status.epoch, record, repeated=in_snapshot):
            return
        source = self._sources.get(record.source)
        shown = self._objects.at(Target(record.source, record.class_name, record.row))
        choices = self._objects.judge(record)
        if any(choice != NOTHING for choice in choices):
            self._send(
                operation_notice(
                    record,
                    self._bean.number,
                    "" if source is None else source.name,
                    None if shown is None else shown.name,
                    choices,
                )
            )

    def _alarms_of(self, number: int) -> ShownAlarms | None:
        if number == GATEWAY:
            return self._own_alarms
        source = self._sources.get(number)
        return None if source is None else source.alarms

    def _emit(
        self,
        record: EventRecord,
        event: ShownEvent,
        source: ShownSource | None,
        received: tuple[Hidden, ...],
        *,
        is_late: bool,
    ) -> Emit:
        def resolve(_position: int, link: ObjectLink) -> str | None:
            found = self._objects.at(Target(record.source, link.class_name, link.row))
            return None if found is None else found.name

        # A client may listen to the gateway, to a source or to an object: each gets the event.
        emitters = [self._bean.number] if source is None else [source.bean.number, self._bean.number]
        link = record.subject
        subject = None if link is None else self._objects.at(Target(record.source, link.class_name, link.row))
        if subject is not None:
            emitters.insert(0, subject.number)
        name = source.name if source is not None else ""
        return event.emit(
            record, tuple(emitters), name, resolve, self._unfit.seen, hidden=received, is_late=is_late
        )

    # ---- sources --------------------------------------------------------------------------------------

    def _new_source(self, record: SourceRecord) -> ShownSource:
        group = self._groups.of_source(record.number)
        seen = self._audience.sees_source(record.name)
        bean = OwnBean(
            own_beans.SOURCE,
            self._new_number(),
            group.number,
            own_beans.source_name(record.name),
            self._source_access(seen),
            self._send,
        )
        return ShownSource(record.name, bean, seen, self._audience, ShownAlarms(self._audience, record.name))

    def _source_access(self, seen: Iterable[bool]) -> int:
        return self._audience.of_own(
            own_beans.SOURCE.class_number, own_beans.source_rights(seen, self._audience.counts)
        )

    def _gateway_access(self) -> int:
        seen = self._audience.sees_source(GATEWAY_NAME)
        return self._audience.of_own(
            own_beans.GATEWAY.class_number, own_beans.gateway_rights(seen, self._audience.counts)
        )

    def _show_histories(self) -> None:
        """Update alarms, deletions and operations, counts and health."""
        for source in self._sources.values():
            source.show_history()
        self._show()

    def _show(self) -> None:
        """Update counts and health."""
        users = len(self._audience.users)
        for number, source in self._sources.items():
            source.bean.show(counts_by_user(self._replica.groups_of(number), users))
        self._health.unfit = len(self._unfit)
        self._health.lost, self._health.lost_unknown = self._cursor.lost, self._cursor.lost_unknown
        self._bean.show(
            health_values(
                self.status,
                self._health,
                self._sources.values(),
                self._replica.groups,
                self._event_log,
                self._own_alarms,
                users,
            )
            | {"LastOperations": self._operations_of_all()}
        )

    def _operations_of_all(self) -> JmxValue:
        return self._last_operations.recent(self._objects.judge, len(self._audience.users))
