"""The MBeans of the gateway itself: ``type=Gateway``, and ``type=Source`` for each source.

The Gateway MBean is the one place to subscribe to every event, each Source MBean to those of its source.
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
from gateway.model.events import Severity
from gateway.model.observations import SourceState

UNKNOWN = "unknown"
"""State of every source while the core cannot be reached."""

_STANDS_STILL = "the process 'jmx' of the gateway stands still"

COUNTERS = {
    "messages": ("Messages", "Messages received."),
    "octets": ("Octets", "Bytes of the messages received."),
    "protocol_errors": ("ProtocolErrors", "Messages that were not valid."),
    "refused": ("MessagesRefused", "Messages whose sender is not trusted."),
    "resyncs": ("Resyncs", "How many times everything was read again."),
    "gaps": ("Gaps", "Gaps: times in which something was missed."),
    "objects_created": ("ObjectsCreated", "Objects created."),
    "objects_deleted": ("ObjectsDeleted", "Objects deleted."),
    "objects_refused": ("ObjectsRefused", "Objects beyond the configured limit."),
    "alarms_refused": ("AlarmsRefused", "Alarms beyond the limit of active ones."),
    "unknown_class": ("UnknownClasses", "Objects and events that came before their schema."),
    "events": ("Events", "Events received."),
}
"""Attribute and description of each counter of a source; all since the core's start."""

_SEVERITIES = tuple(severity.name.lower() for severity in Severity)

Tell: TypeAlias = Callable[[Command], None]


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
    _number(
        "WithheldObjects", "Of those, the ones stale for so long that their values read null.", "objects"
    ),
    _number("ActiveAlarmCount", "Conditions that last.", "alarms"),
    _text(
        "WorstSeverity",
        "Of the active alarms; cleared where there are none.",
        *_SEVERITIES,
        notifies=True,
    ),
)

GATEWAY_ATTRIBUTES = (
    _text("Version", "Of the gateway's software."),
    _text(
        "Uuid", "Of the gateway: begins the id of each event; the same for as long as its state folder is."
    ),
    _number("Epoch", "How many times a core was started on this state.", counter=True),
    _time("CoreStartTime", "When the core was started."),
    Attribute(
        "FeedConnected",
        AttributeType.BOOLEAN,
        "Whether the core is there; while it is not, everything is stale.",
        notifies=True,
        always=True,
        when_abandoned=False,
    ),
    _time("FeedStaleSince", "Since when the core is not there; null while it is."),
    _time("LastMessageTime", "When the last message of the core was received."),
    _number("FeedMessages", "Messages of the core, in this life of the virtual machine.", counter=True),
    _number("FeedSnapshots", "How many snapshots were received, likewise.", counter=True),
    _number("RefusedRecords", "Records of things not known, likewise: a fault of ours.", counter=True),
    _number("UnfitValues", "Elements with a value that could not be shown, likewise.", "elements"),
    _number("VirtualMachineStarts", "Of the virtual machine, since its process was started.", counter=True),
    _number("Sources", "Sources configured.", "sources"),
    _number("SourcesSynchronised", "Sources of which everything is known.", "sources", when_abandoned=0),
    *_COUNTS,
    _number("EventsEmitted", "Events sent to listeners since the virtual machine was started.", counter=True),
    _number("EventsLost", "Events that happened while they could be sent to no listener.", counter=True),
    Attribute(
        "LastOperations",
        AttributeType.LIST,
        "The operations that ended last, 100 of each source, latest first: outcome, what, who, when, object.",
        always=True,
    ),
    _text(
        "EventLogState",
        "Whether what happens reaches the disk of the event log.",
        *(state.value for state in EventLogState),
        UNKNOWN,
        notifies=True,
        when_abandoned=UNKNOWN,
    ),
    _text("EventLogDetail", "Why, and what to do about it."),
    _time("EventLogSince", "When the state began."),
    _number("EventLogCommitted", "The seq of the last record on the disk.", "records", counter=True),
    _number("EventLogWaiting", "Records that are not on the disk yet.", "records"),
    _number("EventLogLost", "Records given up, since the core's start.", "records", counter=True),
    _number("EventLogOctets", "Size of all files of the log.", "octets"),
    _number("EventLogSegments", "Files that are not compacted yet.", "files"),
    _number(
        "EventLogDeletedFiles",
        "Files deleted to keep the log within its bounds, since the core's start.",
        "files",
        counter=True,
    ),
    _number("EventLogDeletedOctets", "Their octets.", "octets", counter=True),
)
SOURCE_ATTRIBUTES = (
    _text("Name", "As the configuration has it."),
    _number("Number", "Of the source in SNMP; the same for its name for ever."),
    _text("Kind", "How it is read: rabbitmq or qmf."),
    _text(
        "State",
        "Whether the source is trusted, and why not.",
        *(state.value for state in SourceState),
        UNKNOWN,
        notifies=True,
        when_abandoned=UNKNOWN,
    ),
    _text("Detail", "Why, and what to do about it.", when_abandoned=_STANDS_STILL),
    _time("Since", "When the state began."),
    _time("LastHeardTime", "When something was last heard of it."),
    *_COUNTS,
    Attribute(
        "ActiveAlarms",
        AttributeType.MAP,
        "The conditions that last, by name: severity, since when, and a line for people.",
        always=True,
    ),
    Attribute(
        "RecentlyDeleted",
        AttributeType.LIST,
        "The objects that went last, 100, the latest first: class, stable name, created, deleted.",
        always=True,
    ),
    *(_number(name, description, counter=True) for name, description in COUNTERS.values()),
)
_EVENTS = NotificationType(DOMAIN, "Every event; the type goes on with package and name of the event.")

_OPERATIONS = tuple(
    NotificationType(
        f"{OPERATION}.{kind.value}",
        f"{what}, by any way; or an outcome that was unknown is known now.",
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
    """One of these MBeans: it is registered with its first values, and only changes are sent.

    Args:
        definition: of its class.
        number: of the object.
        group: whose freshness is its own.
        name: its ObjectName.
        tell: takes the commands.
    """

    def __init__(self, definition: DefineClass, number: int, group: int, name: str, tell: Tell) -> None:
        self.number = number
        self._class_number = definition.class_number
        self._group = group
        self._name = name
        self._tell = tell
        self._positions = {attribute.name: place for place, attribute in enumerate(definition.attributes)}
        self._values: list[JmxValue] = [None] * len(self._positions)
        self._registered = False

    def show(self, values: Mapping[str, JmxValue]) -> None:
        """Some attributes as they are now, by name."""
        changes: dict[int, JmxValue] = {}
        for name, value in values.items():
            position = self._positions[name]
            if self._values[position] != value:
                self._values[position] = changes[position] = value
        if not self._registered:
            self._registered = True
            told = tuple(self._values)
            self._tell(Register(self.number, self._class_number, self._group, self._name, told))
        elif changes:
            self._tell(Change(self.number, changes))

    def remove(self) -> None:
        """It is no more."""
        self._tell(Unregister(self.number))
