"""The MBeans of the gateway itself: ``type=Gateway``, and ``type=Source`` for each source.

The Gateway MBean emits every event, a Source MBean those of its source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from gateway.feed.operations import OperationKind
from gateway.feed.records import EventLogState
from gateway.jmx.commands import (
    Attribute,
    AttributeType,
    Change,
    Command,
    DefineClass,
    JmxValue,
    NotificationType,
    Register,
    Unregister,
)
from gateway.jmx.names import DOMAIN, object_name
from gateway.jmx.operation_notices import OPERATION
from gateway.model.observations import Severity, SourceState

UNKNOWN = "unknown"
"""State of every source while the core cannot be reached."""

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
    "alarms_refused": ("AlarmsRefused", "Alarms not raised because of the limit of active ones."),
    "unknown_class": ("UnknownClasses", "Objects and events received before their schema."),
    "events": ("Events", "Events received."),
}
"""Attribute and description of each counter of a source; all since the core's start."""

_SEVERITIES = tuple(severity.name.lower() for severity in Severity)

Send: TypeAlias = Callable[[Command], None]


def _text(
    name: str, description: str, *legal: str, notifies: bool = False, when_abandoned: str | None = None
) -> Attribute:
    return Attribute(
        name,
        AttributeType.STRING,
        description,
        legal=legal,
        notifies=notifies,
        always=True,
        when_abandoned=when_abandoned,
    )


def _number(
    name: str,
    description: str,
    units: str = "",
    *,
    counter: bool = False,
    when_abandoned: int | None = None,
) -> Attribute:
    descriptor = {"metricType": "counter" if counter else "gauge"} | ({"units": units} if units else {})
    return Attribute(
        name,
        AttributeType.LONG,
        description,
        descriptor=descriptor,
        always=True,
        when_abandoned=when_abandoned,
    )


def _time(name: str, description: str) -> Attribute:
    return Attribute(name, AttributeType.DATE, description, always=True)


_COUNTS = (
    _number("Objects", "Objects known.", "objects"),
    _number("StaleObjects", "Objects whose values are stale.", "objects"),
    _number("WithheldObjects", "Stale objects whose values read null, after serve_stale_for.", "objects"),
    _number("ActiveAlarmCount", "Active alarms.", "alarms"),
    _text(
        "WorstSeverity",
        "Highest severity of the active alarms; cleared where there are none.",
        *_SEVERITIES,
        notifies=True,
    ),
)

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
    _number("Sources", "Sources configured.", "sources"),
    _number("SourcesSynchronised", "Sources that were read completely.", "sources", when_abandoned=0),
    *_COUNTS,
    _number("EventsEmitted", "Events sent to listeners since the virtual machine was started.", counter=True),
    _number("EventsLost", "Events that could be sent to no listener.", counter=True),
    Attribute(
        "LastOperations",
        AttributeType.LIST,
        "The last 100 operations of each source that ended, latest first: outcome, what, who, when, object.",
        always=True,
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
    _number("Number", "Number of the source in SNMP; a name keeps its number for ever."),
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
    ),
    Attribute(
        "RecentlyDeleted",
        AttributeType.LIST,
        "The last 100 objects that were deleted, latest first: class, stable name, created, deleted.",
        always=True,
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
    1, f"{DOMAIN}.Gateway", "The gateway as a whole.", GATEWAY_ATTRIBUTES, (_EVENTS, *_OPERATIONS)
)
SOURCE = DefineClass(2, f"{DOMAIN}.Source", "One source of the gateway.", SOURCE_ATTRIBUTES, (_EVENTS,))

FIRST_FREE_CLASS = 3
"""Numbers of classes from here on are for those of the feed."""

GATEWAY_NAME = object_name([("type", "Gateway")])


def source_name(source: str) -> str:
    """The ObjectName of a source's MBean."""
    return object_name([("type", "Source"), ("source", source)])


class OwnBean:
    """An MBean of the gateway or of a source. It is registered with its first values; then changes are sent.

    Args:
        definition: of its class.
        number: of the object.
        group: whose freshness is its own.
        name: its ObjectName.
        send: takes commands for the virtual machine.
    """

    def __init__(self, definition: DefineClass, number: int, group: int, name: str, send: Send) -> None:
        self.number = number
        self._class_number = definition.class_number
        self._group = group
        self._name = name
        self._send = send
        self._positions = {attribute.name: place for place, attribute in enumerate(definition.attributes)}
        self._values: list[JmxValue] = [None] * len(self._positions)
        self._registered = False

    def show(self, values: Mapping[str, JmxValue]) -> None:
        """Set attributes, by name."""
        changes: dict[int, JmxValue] = {}
        for name, value in values.items():
            position = self._positions[name]
            if self._values[position] != value:
                self._values[position] = changes[position] = value
        if not self._registered:
            self._registered = True
            first = tuple(self._values)
            self._send(Register(self.number, self._class_number, self._group, self._name, first))
        elif changes:
            self._send(Change(self.number, changes))

    def remove(self) -> None:
        """Unregister the MBean."""
        self._send(Unregister(self.number))
