"""The replica: the copy of the feed's contents that each front end keeps.

The replica follows the feed (epoch, snapshot, batches), decides which values are fresh, and removes objects
that a snapshot did not contain. The meaning of an object, an event or an alarm to a front end is defined by
its `FeedView`. There is no I/O here and no clock: times are handed in, in nanoseconds since 1970-01-01 UTC.

When the core goes, objects keep the values that they had. They are fresh again when the next snapshot is
complete, its source is trusted, and everything that the snapshot did not contain has been removed: before
that, a value from before the snapshot would be shown as fresh.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec

from gateway.feed.access import AccessTables, ClassAccessRecord, EventAccessRecord, PolicyRecord
from gateway.feed.freshness import AnyGroup, FreshnessTracker
from gateway.feed.operations import OperationRecord
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
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
    GapRecord,
    Hello,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SnapshotEnded,
    SourceRecord,
    UpdateRecord,
)

GATEWAY: Final = 0
"""The number of the gateway itself where a source's number is expected."""

SWEEP_LOOKS: Final = 5_000
"""Objects that one call of `FeedReplica.work` examines at most: about a millisecond of work."""

_REMOVED: Final = sys.maxsize
"""Generation of a removed object: no sweep removes it a second time."""


@dataclass(slots=True, eq=False)
class ShownObject(Generic[AnyGroup]):
    """A front end's data of an object; the replica sets ``generation``, and ``group`` when that changes.

    Attributes:
        group: the group that determines the object's freshness.
        generation: the number of the snapshot that contained it last, or after which it was created.
        life: the number of the last end of its source before its present life.
    """

    group: AnyGroup
    generation: int = field(default=0, kw_only=True)
    life: int = field(default=0, kw_only=True)


Version = TypeVar("Version")
EventVersion = TypeVar("EventVersion")
Object = TypeVar("Object", bound=ShownObject[Any])


class FeedView(Generic[Version, EventVersion, Object, AnyGroup]):
    """The actions of a front end; the replica calls them in the order of the records.

    A front end inherits from this class, and overrides the methods that it needs: by default they do nothing.
    It chooses the types of groups, versions of classes and objects, and must override the methods for them.
    """

    def new_group(self, source: int, agent: str, class_name: str) -> AnyGroup:
        """Return a group for the objects of a class (``package:name``) of an agent."""
        raise NotImplementedError

    def freshness_changed(self, group: AnyGroup) -> None:
        """React to a change of ``group.freshness``."""

    def sources_judged(self, sources: Iterable[int]) -> None:
        """React to a change of the freshness of these sources, or of agents of them."""

    def core_restarted(self) -> None:
        """Forget the numbers of classes and events, which another core assigns differently."""

    def policy_changed(self) -> None:
        """Hide every object from restricted clearances until it is shown again: numbers and vectors changed.

        A snapshot follows.
        """

    def source_changed(self, record: SourceRecord) -> None:
        """React to a new source or a new state; `FeedReplica.sources` still has the previous record."""

    def source_leaves(self, number: int) -> None:
        """React to the end of a source that is configured no longer; its objects are removed from now on."""

    def source_removed(self, number: int) -> None:
        """React to the removal of the last object of a source that has left."""

    def version_of(self, record: ClassRecord) -> Version | None:
        """Return the data kept of a version of a class; ``None`` where its objects are not shown."""
        raise NotImplementedError

    def event_version_of(self, record: EventClassRecord) -> EventVersion | None:  # noqa: ARG002  see above
        """Return the data kept of a version of an event; ``None`` where it is not shown."""
        return None

    def find(self, source: int, version: Version, row: int) -> Object | None:
        """Return an object that is shown, in this or in another version of its class."""
        raise NotImplementedError

    def objects_of(self, source: int) -> Iterable[Object]:
        """Return all objects of a source that are shown."""
        raise NotImplementedError

    def show(self, record: ObjectRecord, version: Version, shown: Object | None, group: AnyGroup) -> Object:
        """Show an object with the values of a record, and return it.

        ``shown`` is the object if it is shown already.
        """
        raise NotImplementedError

    def change(self, record: UpdateRecord, version: Version, shown: Object) -> None:
        """Show the values of an object that have changed."""
        raise NotImplementedError

    def remove(self, shown: Object) -> None:
        """Stop showing an object."""
        raise NotImplementedError

    def object_ended(self, record: DeleteRecord, version: Version | None) -> None:
        """Process the end of an object; `remove` follows if it is shown. A snapshot repeats the last ends."""

    def event_occurred(self, record: EventRecord, version: EventVersion | None) -> None:
        """Process an event. A snapshot repeats the last ones."""

    def events_made(self, record: EventsMadeRecord) -> None:
        """Note the number of events that an earlier core made."""

    def alarm_changed(self, record: AlarmRecord) -> None:
        """Process an alarm that was raised, changed or cleared."""

    def alarms_swept(self, source: int) -> None:
        """Remove alarms of a source, or of the `GATEWAY`, that the last snapshot did not contain."""

    def operation_changed(self, record: OperationRecord) -> None:
        """Process an operation that began, ended or was settled. A snapshot repeats the last ones."""

    def event_log_changed(self, record: EventLogRecord) -> None:
        """Process a state of the event log."""

    def gap_found(self, record: GapRecord) -> None:
        """Process a time in which something of a source was missed."""

    def snapshot_ended(self) -> None:
        """Note that the snapshot is complete. Objects that it did not contain are removed from now on."""


class FeedStatus(msgspec.Struct):
    """The state of the connection to the core, and counters of it.

    Attributes:
        connected: whether the core is connected.
        stale_since: the time since which it is not; 0 while it is.
        gateway: the identity of the gateway; empty before the first message.
        epoch: the epoch of the core; 0 before the first message.
        started: the start of the core; 0 before the first message.
        hides: what the core's mappings hide, as `Hello.hides`.
        messages: messages that were received since the start of this process.
        last_message: the time of the last message; 0 for none.
        snapshots: complete snapshots.
        refused: records of an unknown object or class.
    """

    connected: bool = False
    stale_since: int = 0
    gateway: str = ""
    epoch: int = 0
    started: int = 0
    hides: str = ""
    messages: int = 0
    last_message: int = 0
    snapshots: int = 0
    refused: int = 0


class KnownSource(msgspec.Struct):
    """A source in the replica.

    Attributes:
        record: the last record.
        generation: the number of the last snapshot that contained the source.
        swept: the number of the last snapshot after which its objects were swept.
        last_end: the number of the last end of one of its objects.
        present_end: likewise of the ends that the present core has reported.
    """

    record: SourceRecord
    generation: int = 0
    swept: int = 0
    last_end: int = 0
    present_end: int = 0


@dataclass(slots=True)
class _Sweep(Generic[Object]):
    """Objects to examine: those of a lower generation than this one are removed."""

    objects: list[Object]
    generation: int


class FeedReplica(Generic[Version, EventVersion, Object, AnyGroup]):
    """The state of one subscription.

    Args:
        view: the actions of the front end.
        serve_stale_for: nanoseconds for which the values of stale objects are shown.
        now: the time at which the subscription begins.

    Attributes:
        status: the state of the connection.
        generation: the number of snapshots that have begun.
        in_snapshot: whether a snapshot is being received.
        sources: the sources by number; one that is no longer configured stays until its objects are removed.
        versions: the versions of classes, by the core's number.
        event_versions: the versions of events, by the core's number.
        access: the tables by which principals read; they are complete before the first object.
    """

    def __init__(
        self,
        view: FeedView[Version, EventVersion, Object, AnyGroup],
        serve_stale_for: int,
        now: int,
    ) -> None:
        self._view = view
        self._tracker = FreshnessTracker(view.new_group, view.freshness_changed, serve_stale_for)
        self.status = FeedStatus(stale_since=now)
        self.generation = 0
        self.in_snapshot = False
        self.sources: dict[int, KnownSource] = {}
        self.versions: dict[int, Version] = {}
        self._class_names: dict[int, str] = {}
        self.event_versions: dict[int, EventVersion] = {}
        self.access = AccessTables()
        # Objects whose next version follows, in the same batch or, where that was split, in the next one.
        self._left: dict[int, Object] = {}
        self._left_before: dict[int, Object] = {}
        self._is_complete = False
        self._sweeps: deque[_Sweep[Object]] = deque()
        self._leaving: set[int] = set()

    # ---- queries of front ends ----------------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Whether the core is connected, and has sent a whole snapshot on this connection."""
        return self._is_complete

    @property
    def is_sweeping(self) -> bool:
        """Whether `work` has objects to examine or sources to remove."""
        return bool(self._sweeps or self._leaving)

    @property
    def groups(self) -> Iterable[AnyGroup]:
        """The groups of all agents and classes."""
        return self._tracker

    def groups_of(self, source: int) -> list[AnyGroup]:
        """Return the groups of the agents of one source."""
        return self._tracker.of_source(source)

    def is_stale(self, source: int) -> bool:
        """Return whether no object of the source is fresh."""
        return self._tracker.is_stale(source)

    def stale_since(self, source: int, agent: str, class_name: str, now: int, unread_since: int = 0) -> int:
        """Return the time since which the source, the agent or the class is stale, or something unread.

        It is 0 while all are fresh.
        """
        return self._tracker.stale_since(source, agent, class_name, now, unread_since)

    def is_known_end(self, record: DeleteRecord) -> bool:
        """Return whether the end of the object was received before: snapshots repeat the last ends."""
        source = self.sources.get(record.source)
        return source is not None and 0 < record.number <= source.present_end

    def last_end(self, source: int) -> int:
        """Return the number of the last end of an object of a source; 0 for none."""
        known = self.sources.get(source)
        return 0 if known is None else known.last_end

    def has_stale_parts(self, source: int) -> bool:
        """Return whether the source, one of its agents, or a class of one is stale."""
        return self._tracker.has_stale_parts(source)

    # ---- calls of the link --------------------------------------------------------------------------------

    def received(self, message: FeedMessage, now: int) -> None:
        """Apply a message; a batch is applied as a whole."""
        if not isinstance(message, BatchPart):
            self.status.messages += 1
        self.status.last_message = now
        match message:
            case Batch():
                for record in message.records:
                    self._apply(record, now)
                if self._left or self._left_before:
                    self._batch_ended(message)
            case Hello():
                self._connected(message, now)
            case SnapshotBegan():
                self.generation += 1
                self.in_snapshot = True
                self._left, self._left_before = {}, {}
                self._tracker.snapshot_began()
            case SnapshotEnded():
                self._snapshot_ended()

    def disconnected(self, now: int) -> bool:
        """Mark everything stale, because the core cannot be reached. Return whether it was connected."""
        if not self.status.connected:
            return False
        self.status.connected, self.status.stale_since = False, now
        self.in_snapshot = self._is_complete = False
        self._mark_all_stale(now)
        return True

    def work(self, budget: int, cost: int, now: int) -> int:
        """Remove objects that snapshots did not contain, and then confirm the sources that wait for it.

        Must be called after each message, and again soon while `is_sweeping`.

        Args:
            budget: the permitted cost of removals.
            cost: the cost of one removal.
            now: the time.

        Returns:
            The rest of the budget; 0 or less where more may remain to be done.
        """
        if self._sweeps:
            budget = self._sweep_some(budget, cost)
        if not self._sweeps:
            if self._tracker.awaited and not self.in_snapshot:
                self._view.sources_judged(self._tracker.confirm_sources(now))
            for number in tuple(self._leaving):
                self._remove_source(number)
        return budget

    def work_off(self, now: int) -> None:
        """Do all of `work` at once, for a front end that serves no requests meanwhile."""
        self.work(1, 0, now)
        while self.is_sweeping:
            self.work(1, 0, now)

    def age(self, now: int) -> None:
        """Mark stale what was not confirmed in time, and withhold what has been stale for too long.

        Must be called about once a second.
        """
        if judged := self._tracker.age(now):
            self._view.sources_judged(judged)
        self._forget_gone_agents()

    # ---- messages -----------------------------------------------------------------------------------------

    def _connected(self, hello: Hello, now: int) -> None:
        status = self.status
        if hello.epoch != status.epoch:
            # A new core numbers classes again, and knows no agent yet.
            self.versions.clear()
            self._class_names.clear()
            self.event_versions.clear()
            self.access.core_restarted()
            self._tracker.forget_agents()
            # It reports none that a former core did, and may give a number again that was not on the disk.
            for source in self.sources.values():
                source.present_end = 0
            self._view.core_restarted()
            if status.epoch and hello.hides != status.hides:
                # An operator may have marked a secret: its value must not stay, not even as stale.
                self._tracker.withhold_all()
        status.hides = hello.hides
        status.gateway, status.epoch, status.started = hello.gateway, hello.epoch, hello.started
        status.connected, status.stale_since = True, 0
        self._is_complete = False
        self._mark_all_stale(now)

    def _mark_all_stale(self, now: int) -> None:
        self._tracker.mark_all_stale(now)
        self._view.sources_judged(tuple(self.sources))

    def _snapshot_ended(self) -> None:
        self.in_snapshot, self._is_complete = False, True
        self.status.snapshots += 1
        self._tracker.snapshot_ended()
        self._forget_gone_agents()
        self._view.snapshot_ended()
        self._view.alarms_swept(GATEWAY)
        for number, source in self.sources.items():
            if source.generation == self.generation:
                self._sweep_if_trusted(number, source)
            elif number not in self._leaving:
                self._leaving.add(number)
                self._sweep(number)
                self._view.source_leaves(number)

    def _apply(self, record: Record, now: int) -> None:  # noqa: C901, PLR0912  one branch for each kind
        view = self._view
        match record:
            case UpdateRecord():
                self._update(record)
            case ObjectRecord():
                self._object(record, now)
            case EventRecord():
                view.event_occurred(record, self.event_versions.get(record.class_number))
            case DeleteRecord():
                self._delete(record)
            case SourceRecord():
                self._source(record, now)
            case AgentRecord():
                if self._tracker.agent_received(record, now):
                    view.sources_judged((record.source,))
            case AgentGoneRecord():
                if self._tracker.agent_gone(record, now):
                    view.sources_judged((record.source,))
                self._forget_gone_agents()
            case ClassRecord():
                self._class_names[record.number] = record.schema.class_name
                _keep(self.versions, record.number, view.version_of(record))
            case EventClassRecord():
                _keep(self.event_versions, record.number, view.event_version_of(record))
            case EventsMadeRecord():
                view.events_made(record)
            case AlarmRecord():
                view.alarm_changed(record)
            case OperationRecord():
                view.operation_changed(record)
            case EventLogRecord():
                view.event_log_changed(record)
            case GapRecord():
                view.gap_found(record)
            case PolicyRecord() | ClassAccessRecord() | EventAccessRecord():
                if self.access.take(record):
                    view.policy_changed()

    # ---- sources and their objects ------------------------------------------------------------------------

    def _source(self, record: SourceRecord, now: int) -> None:
        self._view.source_changed(record)
        source = self.sources.get(record.number)
        if source is None:
            source = self.sources[record.number] = KnownSource(record)
        source.record, source.generation = record, self.generation
        if record.number in self._leaving:
            # The front end has removed what it showed of the source, so the ends that follow are new to it.
            self._leaving.discard(record.number)
            source.last_end = source.present_end = 0
        if self._tracker.source_received(record, now):
            self._view.sources_judged((record.number,))
        if not self.in_snapshot:
            self._sweep_if_trusted(record.number, source)

    def _object(self, record: ObjectRecord, now: int) -> None:
        version = self.versions.get(record.class_number)
        if version is None or record.source not in self.sources:
            self.status.refused += 1
            return
        class_name = self._class_names[record.class_number]
        group = self._tracker.group(record.source, record.agent, class_name, now, record.unread_since)
        known = self._view.find(record.source, version, record.row)
        if known is None or known.group is not group:
            group.objects += 1
            if known is not None:
                known.group.objects -= 1
        shown = self._view.show(record, version, known, group)
        shown.group, shown.generation = group, self.generation
        if known is not None and (self._left or self._left_before):
            self._left.pop(id(known), None)
            self._left_before.pop(id(known), None)
        if known is None:
            shown.life = self.last_end(record.source)
        elif known is not shown:
            shown.life, known.generation = known.life, _REMOVED

    def _update(self, record: UpdateRecord) -> None:
        version = self.versions.get(record.class_number)
        shown = None if version is None else self._view.find(record.source, version, record.row)
        if version is None or shown is None:
            self.status.refused += 1
            return
        self._view.change(record, version, shown)

    def _delete(self, record: DeleteRecord) -> None:
        version = self.versions.get(record.class_number)
        if not record.number:
            known = None if version is None else self._view.find(record.source, version, record.row)
            if known is not None:
                self._left[id(known)] = known
            return
        self._view.object_ended(record, version)
        is_known = self.is_known_end(record)
        source = self.sources.get(record.source)
        if source is not None:
            source.last_end = max(source.last_end, record.number)
            source.present_end = max(source.present_end, record.number)
        shown = None if version is None else self._view.find(record.source, version, record.row)
        if is_known or self.in_snapshot:
            # An earlier end: an object that has the row now follows in this snapshot, or is swept.
            if shown is not None and not is_known:
                shown.life = record.number
            return
        if shown is None:
            self.status.refused += 1
            return
        self._remove(shown)

    def _remove(self, shown: Object) -> None:
        shown.group.objects -= 1
        shown.generation = _REMOVED
        self._view.remove(shown)

    def _batch_ended(self, batch: Batch) -> None:
        """Remove objects whose next version is not shown."""
        if isinstance(batch, BatchPart):
            return
        for shown in self._left_before.values():
            if shown.generation != _REMOVED:
                self._remove(shown)
        self._left, self._left_before = {}, self._left

    def _forget_gone_agents(self) -> None:
        if judged := self._tracker.forget_gone():
            self._view.sources_judged(judged)

    # ---- objects that a snapshot did not contain ----------------------------------------------------------

    def _sweep_if_trusted(self, number: int, source: KnownSource) -> None:
        """Remove objects that the last snapshot did not contain, once, as soon as the source is trusted."""
        if self._tracker.will_be_trusted(number) and source.swept != self.generation:
            source.swept = self.generation
            self._sweep(number)

    def _sweep(self, number: int) -> None:
        self._view.alarms_swept(number)
        self._sweeps.append(_Sweep(list(self._view.objects_of(number)), self.generation))

    def _sweep_some(self, budget: int, cost: int) -> int:
        looks = SWEEP_LOOKS
        while self._sweeps and budget > 0:
            sweep = self._sweeps[0]
            while sweep.objects and budget > 0:
                if not looks:
                    return 0
                looks -= 1
                shown = sweep.objects.pop()
                if shown.generation < sweep.generation:
                    self._remove(shown)
                    budget -= cost
            if not sweep.objects:
                self._sweeps.popleft()
        return budget

    def _remove_source(self, number: int) -> None:
        self._leaving.discard(number)
        del self.sources[number]
        self._view.source_removed(number)
        self._tracker.remove_source(number)


def _keep(versions: dict[int, Version], number: int, version: Version | None) -> None:
    if version is None:
        versions.pop(number, None)
    else:
        versions[number] = version
