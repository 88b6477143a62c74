"""Values of the MBeans that `gateway.jmx.own_beans` defines: of the gateway, and of its sources."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from gateway.feed.records import AlarmRecord, DeleteRecord, EventLogRecord, SourceRecord
from gateway.feed.replica import FeedStatus
from gateway.jmx import types
from gateway.jmx.commands import JmxValue
from gateway.jmx.objects import Group, counts
from gateway.jmx.own_beans import COUNTERS, UNKNOWN, OwnBean
from gateway.model.observations import Severity

SHOWN_ALARMS = 200
"""The attribute ``ActiveAlarms`` of a source has so many entries: the gravest, and of those the latest."""

SHOWN_DELETIONS = 100
"""The attribute ``RecentlyDeleted`` of a source has so many entries."""


class ShownAlarms:
    """The active alarms of a source or of the gateway itself, at most one of each name.

    Attributes:
        changed: whether they changed since this was last set to ``False``; ``True`` at first.
    """

    def __init__(self) -> None:
        self.changed = True
        self._active: dict[str, AlarmRecord] = {}
        self._generations: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._active)

    def __iter__(self) -> Iterator[AlarmRecord]:
        return iter(self._active.values())

    @property
    def worst(self) -> Severity:
        """The highest severity; cleared where no alarm is active."""
        return max((record.severity for record in self), default=Severity.CLEARED)

    def update(self, record: AlarmRecord, generation: int) -> None:
        """Raise, replace or clear an alarm, during or after the snapshot ``generation``."""
        former = self._active.get(record.condition)
        if not record.cleared:
            self.changed |= former != record
            self._active[record.condition] = record
            self._generations[record.condition] = generation
        elif former is not None and former.number <= record.number:
            self._remove(record.condition)

    def sweep(self, generation: int) -> None:
        """Clear the alarms that the snapshot ``generation`` did not contain."""
        for condition in [name for name, last in self._generations.items() if last < generation]:
            self._remove(condition)

    def _remove(self, condition: str) -> None:
        del self._active[condition], self._generations[condition]
        self.changed = True


class ShownEventLog:
    """The state of the event log, as attributes of the Gateway MBean."""

    def __init__(self) -> None:
        self._record: EventLogRecord | None = None
        self._is_known = False

    def update(self, record: EventLogRecord) -> None:
        """Take the state that the core sent."""
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
    """A source: its MBean, its alarms, and the last objects of it that ended."""

    name: str
    bean: OwnBean
    synchronised: bool = False
    alarms: ShownAlarms = field(default_factory=ShownAlarms)
    _deletions: deque[str] = field(default_factory=lambda: deque(maxlen=SHOWN_DELETIONS))

    def object_ended(self, record: DeleteRecord, class_name: str) -> None:
        """Remember the end of an object."""
        self._deletions.appendleft(_ending(record, class_name))

    def show_history(self) -> None:
        """Bring alarms and deletions up to date."""
        values: dict[str, JmxValue] = {"RecentlyDeleted": tuple(self._deletions)}
        if self.alarms.changed:
            self.alarms.changed = False
            values |= {
                "ActiveAlarms": _alarms(self.alarms),
                "ActiveAlarmCount": len(self.alarms),
                "WorstSeverity": self.alarms.worst.name.lower(),
            }
        self.bean.show(values)


def source_values(record: SourceRecord) -> dict[str, JmxValue]:
    """Return the attributes that come from a source's record."""
    return {
        "Name": types.text(record.name),
        "Number": record.number,
        "Kind": types.text(record.kind),
        "State": record.state.value,
        "Detail": types.text(record.detail),
        "Since": types.time(record.since),
        "LastHeardTime": types.time(record.last_heard),
        **{attribute: record.counters.get(counter, 0) for counter, (attribute, _) in COUNTERS.items()},
    }


def _alarms(records: Iterable[AlarmRecord]) -> JmxValue:
    shown = sorted(records, key=lambda record: (-record.severity, -record.number))[:SHOWN_ALARMS]
    return tuple(sorted((types.text(record.condition), _alarm(record)) for record in shown))


def _alarm(record: AlarmRecord) -> str:
    return f"{record.severity.name.lower()} since {types.moment(record.raised)}: {types.text(record.text)}"


def _ending(record: DeleteRecord, class_name: str) -> str:
    when = types.moment(record.deleted) if record.deleted else f"before {types.moment(record.heard)}"
    created = f"created {types.moment(record.created)}, " if record.created else ""
    return f"{types.text(class_name)} {types.text(record.stable_name)}: {created}deleted {when}"


@dataclass(slots=True)
class Health:
    """Counters of the Gateway MBean, since the start of the virtual machine.

    Attributes:
        unfit: elements with a value that could not be shown.
        emitted: events sent to listeners.
        lost: events that could be sent to no listener, since the process was started.
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
    """Return the attributes of the Gateway MBean that change."""
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
