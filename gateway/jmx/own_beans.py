"""The MBeans of the gateway itself: ``type=Gateway``, and ``type=Source`` for each source; and their values.

The Gateway MBean emits every event, a Source MBean those of its source.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.feed.access import bitmap_of
from gateway.feed.cleared import COUNTERS_OF_ALL
from gateway.feed.operations import OperationKind
from gateway.feed.records import AlarmRecord, DeleteRecord, EventLogRecord, EventLogState, SourceRecord
from gateway.feed.replica import FeedStatus
from gateway.feed.values import ObjectLink
from gateway.jmx import types
from gateway.jmx.audience import Audience
from gateway.jmx.commands import (
    Attribute,
    AttributeType,
    Change,
    Command,
    DefineClass,
    JmxValue,
    NotificationType,
    Register,
    Rights,
    Unregister,
    varying,
)
from gateway.jmx.names import DOMAIN, object_name
from gateway.jmx.notifications import OPERATION
from gateway.jmx.objects import Group, counts_by_user
from gateway.jmx.past_events import EVENTS_SINCE
from gateway.model.observations import Severity, SourceState

UNKNOWN = "unknown"
"""The state of every source while the core cannot be reached."""

_STANDS_STILL = "the process 'jmx' of the gateway does not respond"

COUNTERS = {
    "messages": ("Messages", "Messages received."),
    "octets": ("Octets", "Bytes of the messages received."),
    "protocol_errors": ("ProtocolErrors", "Messages that were not valid."),
    "refused": ("MessagesRefused", "Messages whose sender is not trusted."),
    "resyncs": ("Resyncs", "Resyncs: how many times everything was read again."),
    "gaps": ("Gaps", "Gaps: times in which something was not received."),
    "objects_created": ("ObjectsCreated", "Objects created."),
    "objects_deleted": ("ObjectsDeleted", "Objects deleted."),
    "objects_refused": ("ObjectsRefused", "Objects not shown because of the configured limit."),
    "objects_unshown": (
        "ObjectsUnshown",
        "Objects that waited, not shown, for the disk of the state folder.",
    ),
    "alarms_refused": ("AlarmsRefused", "Alarms not raised because of the limit of active ones."),
    "unknown_class": ("UnknownClasses", "Objects and events received before their schema."),
    "events": ("Events", "Events received."),
}
"""Attribute and description of each counter of a source; all since the core's start."""

_SEVERITIES = tuple(severity.name.lower() for severity in Severity)

Send: TypeAlias = Callable[[Command], None]


def _text(
    name: str,
    description: str,
    *legal: str,
    notifies: bool = False,
    when_abandoned: str | None = None,
    varies: bool = False,
) -> Attribute:
    return Attribute(
        name,
        AttributeType.STRING,
        description,
        legal=legal,
        notifies=notifies,
        always=True,
        when_abandoned=when_abandoned,
        varies=varies,
    )


def _number(
    name: str,
    description: str,
    units: str = "",
    *,
    counter: bool = False,
    is_measured: bool = True,
    when_abandoned: int | None = None,
    varies: bool = False,
) -> Attribute:
    kind = {"metricType": "counter" if counter else "gauge"} if is_measured else {}
    descriptor = kind | ({"units": units} if units else {})
    return Attribute(
        name,
        AttributeType.LONG,
        description,
        descriptor=descriptor,
        always=True,
        when_abandoned=when_abandoned,
        varies=varies,
    )


def _time(name: str, description: str) -> Attribute:
    return Attribute(name, AttributeType.DATE, description, always=True)


_COUNTS = (
    _number("Objects", "Objects known.", "objects", varies=True),
    _number("StaleObjects", "Objects whose values are stale.", "objects", varies=True),
    _number(
        "WithheldObjects",
        "Stale objects whose values read null, after serve_stale_for.",
        "objects",
        varies=True,
    ),
    _number("ActiveAlarmCount", "Active alarms.", "alarms", varies=True),
    _text(
        "WorstSeverity",
        "Highest severity of the active alarms; cleared where there are none.",
        *_SEVERITIES,
        notifies=True,
        varies=True,
    ),
)
"""What is counted for each user: what exists for that user."""

GATEWAY_ATTRIBUTES = (
    _text("Version", "Version of the gateway's software."),
    _text(
        "Uuid",
        "Identity of the gateway, which begins the id of each event; kept in the state folder.",
    ),
    _number("Epoch", "How many times the core was started on this state folder.", counter=True),
    _time("CoreStartTime", "When the core was started."),
    Attribute(
        "FeedConnected",
        AttributeType.BOOLEAN,
        "Whether the core can be reached; while it cannot, everything is stale.",
        notifies=True,
        always=True,
        when_abandoned=False,
    ),
    _time("FeedStaleSince", "Since when the core cannot be reached; null while it can."),
    _time("LastMessageTime", "When the last message from the core was received."),
    _number("FeedMessages", "Messages from the core, since the start of the virtual machine.", counter=True),
    _number(
        "FeedSnapshots", "Complete snapshots received, since the start of the virtual machine.", counter=True
    ),
    _number(
        "RefusedRecords",
        "Records that name something unknown: a fault of the gateway.",
        counter=True,
    ),
    _number(
        "UnfitValues",
        "Elements with a value that does not fit its type; since the start of the virtual machine.",
        "elements",
    ),
    _number(
        "VirtualMachineStarts", "Starts of the virtual machine, since the start of its process.", counter=True
    ),
    _number("Sources", "Sources configured.", "sources", varies=True),
    _number(
        "SourcesSynchronised", "Sources that were read completely.", "sources", when_abandoned=0, varies=True
    ),
    *_COUNTS,
    _number("EventsEmitted", "Events sent to listeners since the virtual machine was started.", counter=True),
    _number("EventsLost", "Events that could be sent to no listener.", counter=True),
    Attribute(
        "EventsLostUnknown",
        AttributeType.BOOLEAN,
        "Whether more may have been lost than EventsLost says: nothing on the disk has their number.",
        always=True,
    ),
    Attribute(
        "LastOperations",
        AttributeType.LIST,
        "The last 100 operations of each source that ended, latest first: outcome, what, who, when, object.",
        always=True,
        varies=True,
    ),
    _text(
        "EventLogState",
        "State of the event log: whether records reach the disk.",
        *(state.value for state in EventLogState),
        UNKNOWN,
        notifies=True,
        when_abandoned=UNKNOWN,
    ),
    _text("EventLogDetail", "Reason of the state, and what to do about it."),
    _time("EventLogSince", "When the state began."),
    _number("EventLogCommitted", "Number (seq) of the last record on the disk.", "records", counter=True),
    _number("EventLogWaiting", "Records that are not on the disk yet.", "records"),
    _number("EventLogLost", "Records dropped, since the core's start.", "records", counter=True),
    _number("EventLogOctets", "Size of all files of the log, in bytes.", "octets"),
    _number("EventLogSegments", "Segments that are not compacted yet.", "files"),
    _number(
        "EventLogDeletedFiles",
        "Files deleted to keep the log within its limits, since the core's start.",
        "files",
        counter=True,
    ),
    _number(
        "EventLogDeletedOctets", "Size of the files that were deleted, in bytes.", "octets", counter=True
    ),
)
SOURCE_ATTRIBUTES = (
    _text("Name", "Name in the configuration."),
    _number("Number", "Number of the source in SNMP; a name keeps its number for ever.", is_measured=False),
    _text("Kind", "Kind of the source: rabbitmq, qmf, am01, cml or ami."),
    _text(
        "State",
        "Whether the source is trusted, and why not.",
        *(state.value for state in SourceState),
        UNKNOWN,
        notifies=True,
        when_abandoned=UNKNOWN,
    ),
    _text("Detail", "Reason of the state, and what to do about it.", when_abandoned=_STANDS_STILL),
    _time("Since", "When the state began."),
    _time("LastHeardTime", "When something was last received from it."),
    *_COUNTS,
    Attribute(
        "ActiveAlarms",
        AttributeType.MAP,
        "The active alarms, by name: severity, since when, and a text.",
        always=True,
        varies=True,
    ),
    Attribute(
        "RecentlyDeleted",
        AttributeType.LIST,
        "The last 100 objects that were deleted, latest first: class, stable name, created, deleted.",
        always=True,
        varies=True,
    ),
    *(_number(name, description, counter=True) for name, description in COUNTERS.values()),
)
_EVENTS = NotificationType(DOMAIN, "Every event; the type continues with package and name of the event.")

_OPERATIONS = tuple(
    NotificationType(
        f"{OPERATION}.{kind.value}",
        f"{what}, by any front end; or an unknown outcome became known.",
    )
    for kind, what in (
        (OperationKind.SET, "Attributes were set, or could not be"),
        (OperationKind.INVOKE, "An operation was invoked, or could not be"),
        (OperationKind.READ, "An object was read again, or could not be"),
    )
)

GATEWAY = DefineClass(
    1,
    f"{DOMAIN}.Gateway",
    "The gateway as a whole.",
    GATEWAY_ATTRIBUTES,
    (_EVENTS, *_OPERATIONS),
    (EVENTS_SINCE,),
)
SOURCE = DefineClass(2, f"{DOMAIN}.Source", "One source of the gateway.", SOURCE_ATTRIBUTES, (_EVENTS,))

GATEWAY_NAME = object_name([("type", "Gateway")])

_COUNTS_OF_ALL: Final = frozenset(
    {"FeedMessages", "RefusedRecords", "UnfitValues", "EventsEmitted", "EventsLost", "EventsLostUnknown"}
    | {attribute for counter, (attribute, _) in COUNTERS.items() if counter not in COUNTERS_OF_ALL}
)
"""Attributes that count what not every user sees."""


def _rights(definition: DefineClass, hidden: Callable[[str], bool]) -> Rights:
    """Return the rights to the attributes that are not hidden, by name."""
    return Rights(
        bitmap_of(
            position for position, attribute in enumerate(definition.attributes) if not hidden(attribute.name)
        )
    )


_RESTRICTED_SOURCE: Final = _rights(SOURCE, _COUNTS_OF_ALL.__contains__)
_RESTRICTED_GATEWAY: Final = _rights(GATEWAY, _COUNTS_OF_ALL.__contains__)
_OF_EVERYBODY: Final = _rights(GATEWAY, lambda name: name in _COUNTS_OF_ALL or name.startswith("EventLog"))


def gateway_rights(sees: Iterable[bool], counts: Iterable[bool]) -> list[Rights | None]:
    """Return the rights to the Gateway MBean.

    It exists for everybody who has logged in, so that every client can see whether it is shown the present.

    Args:
        sees: whether a user sees the gateway as a source.
        counts: whether a user is shown counts of all objects and events.
    """
    return [
        Rights(None) if every else _RESTRICTED_GATEWAY if each else _OF_EVERYBODY
        for each, every in zip(sees, counts, strict=True)
    ]


def source_rights(sees: Iterable[bool], counts: Iterable[bool]) -> list[Rights | None]:
    """Return the rights to the MBean of a source, by whether a user sees it, and counts of all objects."""
    return [
        Rights(None) if every else _RESTRICTED_SOURCE if each else None
        for each, every in zip(sees, counts, strict=True)
    ]


def source_name(source: str) -> str:
    """Return the ObjectName of a source's MBean."""
    return object_name([("type", "Source"), ("source", source)])


class OwnBean:
    """An MBean of the gateway or of a source. It is registered with its first values; then changes are sent.

    Args:
        definition: the definition of its class.
        number: the number of the object.
        group: the group whose freshness it has.
        name: its ObjectName.
        access: the number of the access of users to it.
        send: takes commands for the virtual machine.
    """

    def __init__(
        self, definition: DefineClass, number: int, group: int, name: str, access: int, send: Send
    ) -> None:
        self.number = number
        self._class_number = definition.class_number
        self._group = group
        self._name = name
        self._access = access
        self._send = send
        self._positions = {attribute.name: place for place, attribute in enumerate(definition.attributes)}
        self._values: list[JmxValue] = [None] * len(self._positions)
        self._registered = False

    def show(self, values: Mapping[str, JmxValue]) -> None:
        """Set attributes, by name."""
        changes: dict[int, JmxValue] = {}
        for name, value in values.items():
            position = self._positions[name]
            # Only what has changed is sent: counts are shown every second.
            if self._values[position] != value:
                self._values[position] = changes[position] = value
        if not self._registered:
            self._register()
        elif changes:
            self._send(Change.of(self.number, changes))

    def grant(self, access: int) -> None:
        """Give users another access to the MBean."""
        self._access = access
        if self._registered:
            self._register()

    def _register(self) -> None:
        self._registered = True
        values = tuple(self._values)
        self._send(
            Register(self.number, self._class_number, self._group, self._name, values, access=self._access)
        )

    def remove(self) -> None:
        """Unregister the MBean."""
        self._send(Unregister(self.number))


SHOWN_ALARMS = 200
"""The maximum of entries in the attribute ``ActiveAlarms`` of a source: the gravest, of those the latest."""

SHOWN_DELETIONS = 100
"""The maximum of entries in the attribute ``RecentlyDeleted`` of a source."""


@dataclass(frozen=True, slots=True)
class AlarmSummary:
    """The active alarms that a user sees.

    Attributes:
        count: their number.
        worst: the highest severity; cleared where there are none.
        listed: the alarms of the attribute ``ActiveAlarms``.
    """

    count: int
    worst: Severity
    listed: JmxValue


class ShownAlarms:
    """The active alarms of a source or of the gateway itself, at most one of each name.

    Args:
        audience: the users.
        source: the name of the source, as rules have it.
    """

    def __init__(self, audience: Audience, source: str) -> None:
        self._audience = audience
        self._source = source
        self._summaries: tuple[AlarmSummary, ...] | None = None
        self._active: dict[str, AlarmRecord] = {}
        self._generations: dict[str, int] = {}

    @property
    def summaries(self) -> tuple[AlarmSummary, ...]:
        """What each user sees of them."""
        if self._summaries is None:
            seen = [self._audience.of_alarm(record, self._source) for record in self._active.values()]
            self._summaries = self._audience.spread(
                lambda user: _summary([shown for users in seen if (shown := users[user]) is not None])
            )
        return self._summaries

    def policy_changed(self) -> None:
        """Decide again who sees what."""
        self._summaries = None

    def update(self, record: AlarmRecord, generation: int) -> None:
        """Raise, replace or clear an alarm, during or after the snapshot ``generation``."""
        former = self._active.get(record.condition)
        if not record.cleared:
            if former != record:
                self._summaries = None
            self._active[record.condition] = record
            self._generations[record.condition] = generation
        elif former is not None and former.number <= record.number:
            # A clearing of an older alarm than the active one of this condition ends nothing.
            self._remove(record.condition)

    def sweep(self, generation: int) -> None:
        """Clear the alarms that the snapshot ``generation`` did not contain."""
        for condition in [name for name, last in self._generations.items() if last < generation]:
            self._remove(condition)

    def _remove(self, condition: str) -> None:
        del self._active[condition], self._generations[condition]
        self._summaries = None


def _summary(records: Sequence[AlarmRecord]) -> AlarmSummary:
    worst = max((record.severity for record in records), default=Severity.CLEARED)
    return AlarmSummary(len(records), worst, _alarms(records))


def alarm_values(summaries: Iterable[Sequence[AlarmSummary]]) -> dict[str, JmxValue]:
    """Return the number of alarms and their highest severity, by user, of these sources together."""
    of_users = list(zip(*summaries, strict=True))
    worst = [max((each.worst for each in mine), default=Severity.CLEARED).name.lower() for mine in of_users]
    return {
        "ActiveAlarmCount": varying([sum(each.count for each in mine) for mine in of_users]),
        "WorstSeverity": varying(worst),
    }


class ShownEventLog:
    """The state of the event log, as attributes of the Gateway MBean."""

    def __init__(self) -> None:
        self._record: EventLogRecord | None = None
        self._is_known = False

    def update(self, record: EventLogRecord) -> None:
        """Record the state that the core sent."""
        self._record, self._is_known = record, True

    def core_lost(self) -> None:
        """Show the state as unknown, and the numbers as they were when the core could be reached last."""
        self._is_known = False

    def values(self) -> dict[str, JmxValue]:
        """Return the attributes that are known."""
        record = self._record
        if record is None:
            return {"EventLogState": UNKNOWN}
        return {
            "EventLogState": record.state.value if self._is_known else UNKNOWN,
            "EventLogDetail": types.text(record.detail) if self._is_known else None,
            "EventLogSince": types.time(record.since) if self._is_known else None,
            "EventLogCommitted": record.committed,
            "EventLogWaiting": record.waiting,
            "EventLogLost": record.lost,
            "EventLogOctets": record.octets,
            "EventLogSegments": record.segments,
            "EventLogDeletedFiles": record.deleted_files,
            "EventLogDeletedOctets": record.deleted_octets,
        }


@dataclass(slots=True, eq=False)
class ShownSource:
    """A source: its MBean, its alarms, and the last objects of it that ended.

    Attributes:
        name: its name.
        bean: its MBean.
        seen: whether it exists, by user.
        audience: the users.
        alarms: its alarms.
        synchronised: whether it was read completely.
    """

    name: str
    bean: OwnBean
    seen: tuple[bool, ...]
    audience: Audience
    alarms: ShownAlarms
    synchronised: bool = False
    _deletions: deque[tuple[str, ObjectLink]] = field(default_factory=lambda: deque(maxlen=SHOWN_DELETIONS))
    _shown_deletions: JmxValue = None
    _has_deletions: bool = True

    def object_ended(self, record: DeleteRecord, class_name: str) -> None:
        """Remember the end of an object."""
        link = ObjectLink(class_name, record.row, record.stable_name)
        self._deletions.appendleft((_ending(record, class_name), link))
        self._has_deletions = True

    def policy_changed(self) -> None:
        """Decide again who sees what of alarms and deletions."""
        self.alarms.policy_changed()
        self._has_deletions = True

    def show_history(self) -> None:
        """Update the attributes of alarms and deletions."""
        if self._has_deletions:
            self._has_deletions = False
            seen = [(line, self.audience.reads_named(self.name, link)) for line, link in self._deletions]
            self._shown_deletions = varying(
                self.audience.spread(lambda user: tuple(line for line, users in seen if users[user]))
            )
        summaries = self.alarms.summaries
        self.bean.show(
            {
                "RecentlyDeleted": self._shown_deletions,
                "ActiveAlarms": varying([summary.listed for summary in summaries]),
                **alarm_values([summaries]),
            }
        )


def source_values(record: SourceRecord) -> dict[str, JmxValue]:
    """Return the attributes that come from a source's record."""
    return {
        "Name": types.text(record.name),
        "Number": record.number,
        "Kind": types.text(record.kind),
        "State": record.state.value,
        "Detail": types.text(record.detail),
        "Since": types.time(record.since),
        "LastHeardTime": types.time(record.last_received),
        **{attribute: record.counters.get(counter, 0) for counter, (attribute, _) in COUNTERS.items()},
    }


def _alarms(records: Iterable[AlarmRecord]) -> JmxValue:
    shown = sorted(records, key=lambda record: (-record.severity, -record.number))[:SHOWN_ALARMS]
    # In a fixed order, so that the same alarms are the same value, and no change is sent.
    return tuple(sorted((types.text(record.condition), _alarm(record)) for record in shown))


def _alarm(record: AlarmRecord) -> str:
    return f"{record.severity.name.lower()} since {types.moment(record.raised)}: {types.text(record.text)}"


def _ending(record: DeleteRecord, class_name: str) -> str:
    when = types.moment(record.deleted) if record.deleted else f"before {types.moment(record.received)}"
    created = f"created {types.moment(record.created)}, " if record.created else ""
    return f"{types.text(class_name)} {types.text(record.stable_name)}: {created}deleted {when}"


@dataclass(slots=True)
class Health:
    """Counters of the Gateway MBean, since the start of the virtual machine.

    Attributes:
        unfit: elements with a value that could not be shown.
        emitted: events sent to listeners.
        lost: events that could be sent to no listener, since the process was started.
        lost_unknown: there may be more of them, whose number is not known.
    """

    unfit: int = 0
    emitted: int = 0
    lost: int = 0
    lost_unknown: bool = False


def health_values(
    status: FeedStatus,
    health: Health,
    sources: Collection[ShownSource],
    groups: Iterable[Group],
    event_log: ShownEventLog,
    own_alarms: ShownAlarms,
    users: int,
) -> dict[str, JmxValue]:
    """Return the attributes of the Gateway MBean that change; those that are counted, for so many users."""
    alarms = [own_alarms, *(source.alarms for source in sources)]
    seen = [[source for source in sources if source.seen[user]] for user in range(users)]
    synchronised = [status.connected and sum(source.synchronised for source in each) for each in seen]
    return {
        "Uuid": types.text(status.gateway) or None,
        "Epoch": status.epoch or None,
        "CoreStartTime": types.time(status.started),
        "FeedConnected": status.connected,
        "FeedStaleSince": types.time(status.stale_since),
        "LastMessageTime": types.time(status.last_message),
        "FeedMessages": status.messages,
        "FeedSnapshots": status.snapshots,
        "RefusedRecords": status.refused,
        "UnfitValues": health.unfit,
        "Sources": varying([len(each) for each in seen]),
        "SourcesSynchronised": varying([int(each) for each in synchronised]),
        **alarm_values([each.summaries for each in alarms]),
        "EventsEmitted": health.emitted,
        "EventsLost": health.lost,
        "EventsLostUnknown": health.lost_unknown,
        **counts_by_user(groups, users),
        **event_log.values(),
    }
