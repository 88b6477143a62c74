"""What the projection remembers of each source: its objects, its alarms, and what it lost lately."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.feed.records import AlarmRecord, DeleteRecord, SourceRecord
from gateway.jmx import types
from gateway.jmx.classes import ShownClass
from gateway.jmx.commands import JmxValue
from gateway.jmx.groups import Group
from gateway.jmx.own_beans import COUNTERS, OwnBean
from gateway.model.events import Severity

SHOWN_ALARMS = 200
"""Entries of a source's attribute ``ActiveAlarms``: the gravest, of those the latest."""

SHOWN_DELETIONS = 100
"""Entries of a source's attribute ``RecentlyDeleted``."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(slots=True, eq=False)
class ShownObject:
    """An MBean of a managed object; its values are in the virtual machine only.

    Attributes:
        generation: of the snapshot that told it last.
    """

    number: int
    name: str
    shown_class: ShownClass
    group: Group
    generation: int


@dataclass(slots=True, eq=False)
class _ShownAlarm:
    record: AlarmRecord
    generation: int


@dataclass(slots=True, eq=False)
class ShownSource:
    """One source.

    Attributes:
        generation: of the snapshot that told it last.
        swept: the last one after which objects that it had not told were taken away.
        objects: by class (``package:name``) and row.
    """

    name: str
    bean: OwnBean
    generation: int = 0
    swept: int = 0
    synchronised: bool = False
    objects: dict[str, dict[int, ShownObject]] = field(default_factory=dict)
    _alarms: dict[str, _ShownAlarm] = field(default_factory=dict)
    _alarms_changed: bool = True
    _deletions: dict[int, str] = field(default_factory=dict)
    _latest_deletion: int = 0

    def tell_alarm(self, record: AlarmRecord, generation: int) -> None:
        """A condition has begun, changed or ended; a later one of its name replaces it."""
        former = self._alarms.get(record.condition)
        if record.cleared:
            if former is not None and former.record.number <= record.number:
                del self._alarms[record.condition]
                self._alarms_changed = True
            return
        self._alarms_changed |= former is None or former.record != record
        self._alarms[record.condition] = _ShownAlarm(record, generation)

    def drop_alarms_before(self, generation: int) -> None:
        """Conditions that the last snapshot did not tell have ended."""
        for condition in [c for c, alarm in self._alarms.items() if alarm.generation < generation]:
            del self._alarms[condition]
            self._alarms_changed = True

    def tell_deletion(self, record: DeleteRecord, class_name: str) -> None:
        """An object has gone; one that was told is passed over."""
        if record.number <= self._latest_deletion:
            return
        self._latest_deletion = record.number
        self._deletions[record.number] = _ending(record, class_name)
        while len(self._deletions) > SHOWN_DELETIONS:
            del self._deletions[next(iter(self._deletions))]

    @property
    def alarm_count(self) -> int:
        """Conditions that last."""
        return len(self._alarms)

    @property
    def worst(self) -> Severity:
        """Of the conditions that last."""
        return max((alarm.record.severity for alarm in self._alarms.values()), default=Severity.CLEARED)

    def show_history(self) -> None:
        """Bring alarms and deletions up to date."""
        told: dict[str, JmxValue] = {"RecentlyDeleted": tuple(reversed(self._deletions.values()))}
        if self._alarms_changed:
            self._alarms_changed = False
            told |= {
                "ActiveAlarms": _alarms(alarm.record for alarm in self._alarms.values()),
                "ActiveAlarmCount": self.alarm_count,
                "WorstSeverity": self.worst.name.lower(),
            }
        self.bean.show(told)


def source_values(record: SourceRecord) -> dict[str, JmxValue]:
    """What a source's record says, by attribute."""
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
    return tuple(
        sorted(
            (
                types.text(record.condition),
                f"{record.severity.name.lower()} since {_moment(record.raised)}: {types.text(record.text)}",
            )
            for record in shown
        )
    )


def _ending(record: DeleteRecord, class_name: str) -> str:
    when = _moment(record.deleted) if record.deleted else f"before {_moment(record.heard)}"
    created = f"created {_moment(record.created)}, " if record.created else ""
    return f"{types.text(class_name)} {types.text(record.stable_name)}: {created}deleted {when}"


def _moment(nanoseconds: int) -> str:
    """A time for people, in UTC to the millisecond."""
    try:
        moment = _EPOCH + dt.timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        return "?"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
