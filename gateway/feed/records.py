"""What a feed carries: records that describe sources, classes, objects and events after resolution.

Every time is in nanoseconds since 1970-01-01 UTC, 0 for unknown. Positions count the elements of a class
as ``ClassSchema.elements`` orders them. A value that is not there is absent, never zero. References are
already resolved (`ObjectLink`): a front end needs no second look-up. Source 0 is the gateway itself: it has
events and alarms, and no `SourceRecord`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

import msgspec

from gateway.feed.operations import OperationAnswer, OperationRecord
from gateway.feed.values import FeedStruct, ObjectLink, PositionedValues
from gateway.model.observations import EventState, Severity, SourceState
from gateway.model.schema import ClassSchema, EventSchema


class Lifetime(enum.Enum):
    """Durable objects keep row and name over every restart; a transient one is new each time."""

    DURABLE = "durable"
    TRANSIENT = "transient"


class SourceRecord(FeedStruct, frozen=True, tag="source"):
    """A source as it stands now; replaces the former record of the same number.

    ``counters`` are cumulative since the core's start: ``messages``, ``octets``, ``protocol_errors``,
    ``refused`` (sender not trusted), ``resyncs``, ``gaps``, ``objects_created``, ``objects_deleted``,
    ``objects_refused`` and ``alarms_refused`` (beyond the bound), ``unknown_class`` (seen before the schema),
    ``events``. ``heard_until``: the time up to which nothing of it was missed, as in `SourceStateSeen`.
    """

    number: int
    name: str
    kind: str
    state: SourceState
    detail: str
    since: int
    last_heard: int
    counters: Mapping[str, int] = msgspec.field(default_factory=dict)
    heard_until: int = 0


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
    gateway's clock.
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


class UpdateRecord(FeedStruct, frozen=True, tag="update"):
    """Some values of an object changed: ``values`` are new, positions in ``absent`` have none any more."""

    source: int
    class_number: int
    row: int
    properties_sampled: int
    statistics_sampled: int
    reset: int
    changed: int
    values: PositionedValues
    absent: tuple[int, ...] = ()


class DeleteRecord(FeedStruct, frozen=True, tag="delete"):
    """An object is gone. ``inferred``: not reported, but missing from a complete resync.

    ``number`` identifies the end among those of all objects, for ever, in ascending order; ``heard`` is
    the gateway's clock. A snapshot has the last ends again, before the objects: a subscriber that has seen
    the number passes it over. An end of the number 0 is none: the object follows in another version of its
    class, and lives on.
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
    heard: int = 0


class AgentRecord(FeedStruct, frozen=True, tag="agent"):
    """Whether the values of an agent's objects are current; all its rows follow. ``since`` dates a change.

    ``confirmed`` is the last time at which the agent (by update or heartbeat) confirmed its objects.
    """

    source: int
    agent: str
    fresh: bool
    since: int
    confirmed: int


class AgentGoneRecord(FeedStruct, frozen=True, tag="agent-gone"):
    """An agent is no more, since ``gone`` (the gateway's clock): it has no objects, and is in no snapshot.

    Another agent may have the name later; its `AgentRecord` comes first.
    """

    source: int
    agent: str
    gone: int


class EventRecord(FeedStruct, frozen=True, tag="event"):
    """An event; ``event_id`` is ``<gateway uuid>.<epoch>.<number>``, the same in every front end.

    ``time`` is the agent's clock, ``heard`` the gateway's. ``subject`` is the object concerned, which may be
    gone already; its row is 0 where the object was never seen. ``text`` is one line for people, at most 255
    octets. ``condition`` names what a raising event begins and a clearing event ends, empty for one that
    stands for itself; both may be published again. A clearing event, and no other, has the severity
    ``CLEARED``. ``values`` are the arguments by position. A snapshot has the last events again, after
    everything else: a subscriber passes over those whose number it has seen. Where ``boot`` is not 0, a core
    before this one made the event, in that epoch: perhaps no front end has received it. It stands in
    snapshots only.
    ``cause`` is that of `EventSeen`: the same whichever gateway reports the same event of a broker.
    """

    event_id: str
    source: int
    class_number: int
    agent: str
    time: int
    severity: Severity
    values: PositionedValues
    number: int = 0
    heard: int = 0
    subject: ObjectLink | None = None
    text: str = ""
    state: EventState = EventState.ONE_SHOT
    condition: str = ""
    boot: int = 0
    cause: str = ""


class EventsMadeRecord(FeedStruct, frozen=True, tag="events-made"):
    """The core of the epoch ``boot``, before this one, made events up to ``number``, counted from 1.

    It stands in snapshots only, behind those of them that are still in it: a subscriber that received fewer
    will not receive the others.
    """

    boot: int
    number: int


class AlarmRecord(FeedStruct, frozen=True, tag="alarm"):
    """A condition that lasts; replaces the former record of the same number. A snapshot has the active ones.

    ``number`` is unique for ever, a new one each time the condition is raised. ``condition`` names it within
    its source (``memoryAlarm rabbitmq:node "rabbit@host"``, at most 255 octets), ``name`` what kind it is.
    ``event_id`` is that of the event that raised it. ``raised`` and ``cleared`` are in the gateway's clock;
    ``cleared`` is 0 while it is active, then the alarm ceases to exist: also for a subscriber that was slow,
    and only its end is published.
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


class GapRecord(FeedStruct, frozen=True, tag="gap"):
    """From ``start`` to ``end`` something of this source was missed."""

    source: int
    start: int
    end: int
    reason: str


class EventLogState(enum.Enum):
    """Whether records reach the event log's disk.

    ``off``: the log is not configured. ``writing``: all is well. The others say what is wrong: no room, no
    right, an error, too slow; ``upkeep``: records are written, but a file cannot be completed or deleted;
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
    """How the gateway's event log is; replaces the former record.

    Attributes:
        detail: one line for people, with what to do where something is wrong.
        since: when the state began, the gateway's clock.
        committed: seq of the last record on the disk: ascending for ever.
        waiting: records that are not on the disk yet.
        lost: records that were given up, since the core's start; the log has how many of what.
        octets: of all its files.
        segments: files that are not compacted yet.
        deleted_files: files that were deleted to keep it within its bounds, since the core's start.
        deleted_octets: their octets.
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
)


class Hello(FeedStruct, frozen=True, tag="hello"):
    """First message of a feed. A new ``epoch`` is a new core: what is known is stale until sent again."""

    version: int
    epoch: int
    gateway: str
    started: int


class SnapshotBegan(FeedStruct, frozen=True, tag="begin"):
    """The following batches contain the whole state, up to `SnapshotEnded`."""

    epoch: int
    sequence: int


class SnapshotEnded(FeedStruct, frozen=True, tag="end"):
    """What was in no batch since `SnapshotBegan` no longer exists."""

    epoch: int
    sequence: int


class Batch(FeedStruct, frozen=True, tag="batch"):
    """Records that belong together: apply all before the next read is answered."""

    epoch: int
    sequence: int
    records: tuple[Record, ...]


class Alive(FeedStruct, frozen=True, tag="alive"):
    """The core lives, and has sent nothing else for a moment."""


FeedMessage: TypeAlias = Hello | SnapshotBegan | SnapshotEnded | Batch | OperationAnswer | Alive
"""What the core sends; a front end sends an `OperationRequest` or an `Interest`."""


MAX_WANTED: Final = 100
"""Names and rows of one interest, each."""


class Interest(FeedStruct, frozen=True, tag="interest"):
    """Limits the objects of snapshots from now on; other records, and changes, are sent as ever.

    Attributes:
        names: texts that native ids are equal to, or stable names or leaf names begin with.
        rows: numbers of source and row, whatever the class is.
    """

    names: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_WANTED)] = ()
    rows: Annotated[tuple[tuple[int, int], ...], msgspec.Meta(max_length=MAX_WANTED)] = ()

    def wants(self, record: ObjectRecord) -> bool:
        """Whether this object is meant, or may be."""
        return (
            record.stable_name.startswith(self.names)
            or record.leaf_name.startswith(self.names)
            or record.native_id in self.names
            or (record.source, record.row) in self.rows
        )
