"""Whether what is shown can be believed as a whole: what the Gateway MBean tells."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gateway.feed.replica import FeedStatus
from gateway.jmx import types
from gateway.jmx.alarms import ShownAlarms
from gateway.jmx.commands import JmxValue
from gateway.jmx.event_log import ShownEventLog
from gateway.jmx.groups import Group, counts
from gateway.jmx.sources import ShownSource


@dataclass(slots=True)
class Health:
    """What is counted in this life of the virtual machine.

    Attributes:
        unfit: elements with a value that could not be shown.
        emitted: events told to listeners.
        lost: events that listeners could not be told, since the process was started.
    """

    unfit: int = 0
    emitted: int = 0
    lost: int = 0


def health_values(
    status: FeedStatus,
    health: Health,
    sources: Collection[ShownSource],
    groups: Iterable[Group],
    event_log: ShownEventLog,
    own_alarms: ShownAlarms,
) -> dict[str, JmxValue]:
    """The values of the Gateway MBean that may change, by attribute."""
    alarms = [own_alarms, *(source.alarms for source in sources)]
    synchronised = sum(source.synchronised for source in sources) if status.connected else 0
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
        "Sources": len(sources),
        "SourcesSynchronised": synchronised,
        "ActiveAlarmCount": sum(map(len, alarms)),
        "WorstSeverity": max(each.worst for each in alarms).name.lower(),
        "EventsEmitted": health.emitted,
        "EventsLost": health.lost,
        **counts(groups),
        **event_log.values(),
    }
