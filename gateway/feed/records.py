"""Records of the feed: they describe sources, classes, objects and events after resolution.

Every time is in nanoseconds since 1970-01-01 UTC, 0 for unknown. Positions count the elements of a class
as ``ClassSchema.elements`` orders them. An absent value is missing, never zero. References are
already resolved (`ObjectLink`): a front end needs no second look-up. Source 0 is the gateway itself: it has
events and alarms, and no `SourceRecord`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, TypeAlias

import msgspec

from gateway.feed.access import ClassAccessRecord, EventAccessRecord, PolicyRecord, Quoted
from gateway.feed.operations import OperationAnswer, OperationRecord
from gateway.feed.values import FeedStruct, ObjectLink, PositionedValues
from gateway.model.observations import Counting, EventState, Severity, SourceState
from gateway.model.schema import ClassSchema, EventSchema


class Lifetime(enum.Enum):
    """The lifetime of an object.

    A durable object keeps its row and name over every restart; a transient one is new each time.
    """

    DURABLE = "durable"
    TRANSIENT = "transient"


class SourceRecord(FeedStruct, frozen=True, tag="source"):
    """A source in its present state; replaces an earlier record of the same number.

    ``counters`` are cumulative since the core's start: ``messages``, ``octets``, ``protocol_errors``,
    ``refused`` (sender not trusted), ``resyncs``, ``gaps``, ``objects_created``, ``objects_deleted``,
    ``objects_refused`` and ``alarms_refused`` (beyond the bound), ``objects_unshown`` (they waited for the
    disk of the state folder, not shown), ``unknown_class`` (seen before the schema),
    ``events``. ``complete_until``: the time up to which nothing of it was missed, as in `SourceStateSeen`.
    """

    number: int
    name: str
    kind: str
    state: SourceState
    detail: str
    since: int
    last_received: int
    counters: Mapping[str, int] = msgspec.field(default_factory=dict)
    complete_until: int = 0


class ClassRecord(FeedStruct, frozen=True, tag="class"):
    """One version of a class, with the mapping applied; rows name it by ``number`` (valid this epoch)."""

    number: int
    schema: ClassSchema
    name_element: str
    parent_element: str


class EventClassRecord(FeedStruct, frozen=True, tag="event-class"):
    """One version of an event; `EventRecord` names it by ``number`` (valid this epoch)."""

    number: int
    schema: EventSchema


class ObjectRecord(FeedStruct, frozen=True, tag="object"):
    """A whole object: new, or published again. ``row`` is unique within (source, class) for ever.

    ``statistics_sampled`` is the one sample time that front ends show; ``reset`` is the last time at which
    its counters may have started again (discontinuity); ``changed`` when any property last changed, in the
    gateway's clock. ``presumed``: whether it is the object that had its name before a restart is not known.
    ``unread_since``: the time since which its source cannot read it, although it reads others; 0 if it can.
    ``counting``: how its counters relate to those of before the core's start, or of before ``reset``. With
    ``GO_ON`` a discontinuity is of the row only: a counter that is not less than before has gone on.
    """

    source: int
    class_number: int
    row: int
    stable_name: str
    leaf_name: str
    parent: ObjectLink | None
    native_id: str
    agent: str
    lifetime: Lifetime
    created: int
    properties_sampled: int
    statistics_sampled: int
    reset: int
    changed: int
    values: PositionedValues
    presumed: bool = False
    unread_since: int = 0
    counting: Counting = Counting.GO_ON


class UpdateRecord(FeedStruct, frozen=True, tag="update"):
    """Changed values of an object: ``values`` are new, those of the positions in ``absent`` are removed.

    With another ``reset`` and ``counting`` ``BEGAN``, its counters count from zero; with ``UNKNOWN`` what
    they gained is not known; else some of them fell, as their values show, and the others go on.
    """

    source: int
    class_number: int
    row: int
    properties_sampled: int
    statistics_sampled: int
    reset: int
    changed: int
    values: PositionedValues
    absent: tuple[int, ...] = ()
    counting: Counting = Counting.GO_ON


class DeleteRecord(FeedStruct, frozen=True, tag="delete"):
    """The end of an object. ``inferred``: not reported, but missing from a complete resynchronisation.

    ``number`` identifies the end among those of all objects, for ever, in ascending order, but for a core
    that died while its disk took nothing: the next one gives its last numbers again. ``received`` is the
    gateway's clock. A snapshot repeats the last ends, before the objects: a subscriber ignores those
    whose number it has received. The number 0 means that nothing ended: the object follows in another version
    of its class.
    """

    source: int
    class_number: int
    row: int
    stable_name: str
    deleted: int
    inferred: bool
    number: int = 0
    leaf_name: str = ""
    native_id: str = ""
    agent: str = ""
    lifetime: Lifetime = Lifetime.DURABLE
    created: int = 0
    received: int = 0


class AgentRecord(FeedStruct, frozen=True, tag="agent"):
    """The freshness of an agent, and of all its objects. ``since`` is the time of the last change.

    ``confirmed`` is the last time at which the agent (by update or heartbeat) confirmed its objects.
    ``current_until``: when the values of a class (``package:name``) are stale although the agent is fresh,
    because nothing confirmed them in time; the empty name stands for all other classes.
    """

    source: int
    agent: str
    fresh: bool
    since: int
    confirmed: int
    current_until: Mapping[str, int] = msgspec.field(default_factory=dict)

    def outdated_since(self, class_name: str, now: int) -> int:
        """Return since when values of a class were not confirmed in time; 0 while they were."""
        until = self.current_until.get(class_name, self.current_until.get("", now + 1))
        return until if until <= now else 0

    def outdated_classes(self, now: int) -> tuple[str, ...]:
        """Return the classes whose values were not confirmed in time; ``""`` as in ``current_until``."""
        return tuple(sorted(name for name, until in self.current_until.items() if until <= now))


class AgentGoneRecord(FeedStruct, frozen=True, tag="agent-gone"):
    """The end of an agent at ``gone`` (the gateway's clock): it has no objects, and is in no snapshot.

    Another agent may use the name later; its `AgentRecord` comes first.
    """

    source: int
    agent: str
    gone: int


class EventRecord(FeedStruct, frozen=True, tag="event"):
    """An event; ``event_id`` is ``<gateway uuid>.<epoch>.<number>``, the same in every front end.

    ``time`` is the agent's clock, ``received`` the gateway's. ``subject`` is the object concerned, which may
    be gone already; its row is 0 where the object was never known. ``text`` is one line for people, at most
    255 octets. ``condition`` names the condition that a raising event begins and a clearing event ends; it is
    empty for an event without one. Both may be published again. A clearing event, and no other, has the
    severity ``CLEARED``. ``values`` are the arguments by position. A snapshot repeats the last events, after
    everything else: a subscriber ignores those whose number it has received. Where ``boot`` is not 0, an
    earlier core made the event in that epoch, and perhaps no front end received it: such events are in
    snapshots only.
    ``cause`` is that of `EventSeen`: the same whichever gateway reports the same event of a broker.
    ``quoted`` is what the text quotes beside the arguments, of an event that the gateway makes of an object's
    values; ``None`` where it is not known. ``withheld``: of an event in `PastEvents`, the receivers of
    notifications to whom their roles did not let it be sent when it happened.
    """

    event_id: str
    source: int
    class_number: int
    agent: str
    time: int
    severity: Severity
    values: PositionedValues
    number: int = 0
    received: int = 0
    subject: ObjectLink | None = None
    text: str = ""
    state: EventState = EventState.ONE_SHOT
    condition: str = ""
    boot: int = 0
    cause: str = ""
    quoted: Quoted | None = None
    withheld: tuple[str, ...] = ()


class EventsMadeRecord(FeedStruct, frozen=True, tag="events-made"):
    """The number of the last event that the core of the epoch ``boot``, before this one, made, from 1 on.

    It is in snapshots only, after the events that are still available: a subscriber that received fewer will
    not receive the others. ``more`` if further ones may have been made, whose number is not known; ``number``
    may be 0 then.
    """

    boot: int
    number: int
    more: bool = False


class AlarmRecord(FeedStruct, frozen=True, tag="alarm"):
    """A condition that lasts; replaces an earlier record of the same number. Snapshots have the active ones.

    ``number`` is unique for ever, a new one each time the condition is raised. ``condition`` names it within
    its source (``memoryAlarm rabbitmq:node "rabbit@host"``, at most 255 octets), ``name`` is its kind.
    ``event_id`` is that of the event that raised it. ``raised`` and ``cleared`` are in the gateway's clock;
    ``cleared`` is 0 while it is active. A cleared alarm is in no later snapshot, and a slow subscriber may
    receive its end only. ``quoted`` is what the text quotes; ``None`` where it is not known.
    """

    number: int
    source: int
    name: str
    condition: str
    severity: Severity
    subject: ObjectLink | None
    text: str
    event_id: str
    raised: int
    cleared: int = 0
    quoted: Quoted | None = None


class GapRecord(FeedStruct, frozen=True, tag="gap"):
    """A time, from ``start`` to ``end``, in which something of this source was missed."""

    source: int
    start: int
    end: int
    reason: str


class EventLogState(enum.Enum):
    """The state of the event log.

    ``off``: the log is not configured. ``writing``: records reach the disk. The others are faults: no room,
    no right, an error, too slow; ``upkeep``: records are written, but a file cannot be completed or deleted;
    ``failed``: the log itself, until the gateway is started again.
    """

    OFF = "off"
    WRITING = "writing"
    DISK_FULL = "disk-full"
    READ_ONLY = "read-only"
    DISK_ERROR = "disk-error"
    SLOW = "slow"
    UPKEEP = "upkeep"
    FAILED = "failed"


class EventLogRecord(FeedStruct, frozen=True, tag="event-log"):
    """The state of the event log; replaces an earlier record.

    Attributes:
        detail: one line for people, with what to do about a fault.
        since: the time at which the state began, the gateway's clock.
        committed: the sequence number of the last record on the disk; it never decreases.
        waiting: records that are not on the disk yet.
        lost: records that were discarded since the core's start; the log has their number by kind.
        octets: bytes of all its files.
        segments: files that are not compacted yet.
        deleted_files: files that were deleted to keep it within its bounds, since the core's start.
        deleted_octets: bytes of those files.
    """

    state: EventLogState
    detail: str = ""
    since: int = 0
    committed: int = 0
    waiting: int = 0
    lost: int = 0
    octets: int = 0
    segments: int = 0
    deleted_files: int = 0
    deleted_octets: int = 0


Record: TypeAlias = (
    SourceRecord
    | ClassRecord
    | EventClassRecord
    | ObjectRecord
    | UpdateRecord
    | DeleteRecord
    | AgentRecord
    | AgentGoneRecord
    | EventRecord
    | EventsMadeRecord
    | AlarmRecord
    | GapRecord
    | EventLogRecord
    | OperationRecord
    | PolicyRecord
    | ClassAccessRecord
    | EventAccessRecord
)


Place: TypeAlias = tuple[int, int]
"""The place of an event among all of the gateway's: the epoch of its core, and its number."""


class PastEventsRequest(FeedStruct, frozen=True, tag="past-events"):
    """A request of a front end for events that happened before, from the event log; see `PastEvents`.

    Attributes:
        request: the front end's number for it, unique on its connection.
        after: the place behind which they begin.
        until: the last place.
        limit: the maximum number of events.
    """

    request: int
    after: Place
    until: Place
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)]


class PastEvents(FeedStruct, frozen=True, tag="past"):
    """The answer: the events of these places that are known, in their order.

    Attributes:
        request: the front end's number.
        records: the events; each has the epoch of its core as ``boot``.
        through: the last place that was looked at. What is missing up to there, in the event log and in the
            memory of the core, is gone for good.
        former_sources: the names of sources of these events that are not configured any more, by number. The
            feed has no other record of them.
    """

    request: int
    records: tuple[EventRecord, ...]
    through: Place
    former_sources: Mapping[int, str] = msgspec.field(default_factory=dict)


class Hello(FeedStruct, frozen=True, tag="hello"):
    """The first message of a feed. A new ``epoch`` is a new core: all records are stale until sent again.

    ``hides`` stands for what the core's mappings hide. Where it changes, values of the former core may be
    secrets now: front ends withhold all until they are fresh.
    """

    version: int
    epoch: int
    gateway: str
    started: int
    hides: str = ""


class SnapshotBegan(FeedStruct, frozen=True, tag="begin"):
    """The following batches contain the whole state, up to `SnapshotEnded`."""

    epoch: int
    sequence: int


class SnapshotEnded(FeedStruct, frozen=True, tag="end"):
    """The end of a snapshot: an object that was in no batch since `SnapshotBegan` no longer exists."""

    epoch: int
    sequence: int


class Batch(FeedStruct, frozen=True, tag="batch"):
    """Records that belong together, in their order.

    A front end may answer reads between two of them, because no record shows as fresh what a later one of the
    batch corrects; an operation is answered behind all of them.
    """

    epoch: int
    sequence: int
    records: tuple[Record, ...]


class BatchPart(Batch, frozen=True, tag="batch"):
    """Records of a batch, further ones of which follow; made by a front end, and never sent."""


def slices(batch: Batch, limit: int) -> Iterator[Batch]:
    """Yield ``limit`` records of a batch at a time: each as a `BatchPart`, but the last ones as a batch."""
    records = batch.records
    last = max(0, len(records) - 1) // limit * limit
    for start in range(0, last, limit):
        yield BatchPart(batch.epoch, batch.sequence, records[start : start + limit])
    yield Batch(batch.epoch, batch.sequence, records[last:]) if last else batch


class Alive(FeedStruct, frozen=True, tag="alive"):
    """A sign of life, sent when the core has sent nothing else for a while."""


FeedAnswer: TypeAlias = OperationAnswer | PastEvents
"""The answers of the core; one that was refused is an `OperationAnswer`, whatever was requested."""

FeedMessage: TypeAlias = Hello | SnapshotBegan | SnapshotEnded | Batch | OperationAnswer | PastEvents | Alive
"""The messages of the core; a front end sends `OperationRequest`, `LoginReport`, `ReloadRequest`,
`PastEventsRequest` and `Interest`."""


MAX_WANTED: Final = 100
"""Largest number of names, and of rows, in one interest."""


class Interest(FeedStruct, frozen=True, tag="interest"):
    """A limit of the objects of snapshots from now on; other records, and changes, are not limited.

    Attributes:
        names: texts that native ids are equal to, or stable names or leaf names begin with.
        rows: numbers of source and row, whatever the class is.
    """

    names: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_WANTED)] = ()
    rows: Annotated[tuple[tuple[int, int], ...], msgspec.Meta(max_length=MAX_WANTED)] = ()

    def wants(self, record: ObjectRecord) -> bool:
        """Return whether this object is wanted, or may be."""
        return (
            record.stable_name.startswith(self.names)
            or record.leaf_name.startswith(self.names)
            or record.native_id in self.names
            or (record.source, record.row) in self.rows
        )
