"""Whether what is shown can be believed as a whole: what the Gateway MBean tells."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gateway.jmx import types
from gateway.jmx.alarms import ShownAlarms
from gateway.jmx.commands import JmxValue
from gateway.jmx.event_log import ShownEventLog
from gateway.jmx.groups import Groups, counts
from gateway.jmx.sources import ShownSource


@dataclass(slots=True)
class Health:
    """What is counted in this life of the virtual machine; times in nanoseconds, 0 for none.

    Attributes:
        stale_since: since when the core is not there; 0 while it is.
        refused: records of things not known.
        unfit: elements with a value that could not be shown.
        emitted: events told to listeners.
        lost: events that listeners could not be told, since the process was started.
    """

    stale_since: int
    connected: bool = False
    gateway: str = ""
    epoch: int = 0
    started: int = 0
    last_message: int = 0
    messages: int = 0
    snapshots: int = 0
    refused: int = 0
    unfit: int = 0
    emitted: int = 0
    lost: int = 0


def health_values(
    health: Health,
    sources: Collection[ShownSource],
    groups: Groups,
    event_log: ShownEventLog,
    own_alarms: ShownAlarms,
) -> dict[str, JmxValue]:
    """The values of the Gateway MBean that may change, by attribute."""
    alarms = [own_alarms, *(source.alarms for source in sources)]
    synchronised = sum(source.synchronised for source in sources) if health.connected else 0
    return {
        "Uuid": types.text(health.gateway) or None,
        "Epoch": health.epoch or None,
        "CoreStartTime": types.time(health.started),
        "FeedConnected": health.connected,
        "FeedStaleSince": types.time(health.stale_since),
        "LastMessageTime": types.time(health.last_message),
        "FeedMessages": health.messages,
        "FeedSnapshots": health.snapshots,
        "RefusedRecords": health.refused,
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
