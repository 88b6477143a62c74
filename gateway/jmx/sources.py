"""What the projection keeps of each source and of each object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.feed.records import AlarmRecord, DeleteRecord, SourceRecord
from gateway.feed.replica import ShownObject as ReplicaObject
from gateway.jmx import types
from gateway.jmx.alarms import ShownAlarms
from gateway.jmx.classes import ShownClass
from gateway.jmx.commands import JmxValue
from gateway.jmx.groups import Group
from gateway.jmx.info import moment
from gateway.jmx.own_beans import COUNTERS, OwnBean

SHOWN_ALARMS = 200
"""Entries of a source's attribute ``ActiveAlarms``: the gravest, of those the latest."""

SHOWN_DELETIONS = 100
"""Entries of a source's attribute ``RecentlyDeleted``."""


@dataclass(slots=True, eq=False)
class ShownObject(ReplicaObject[Group]):
    """An MBean of a managed object; its values are in the virtual machine only.

    Attributes:
        number: what the virtual machine knows the MBean by.
        row: of the object within source and class.
        name: its ObjectName.
        shown_class: the version of its class.
    """

    number: int
    row: int
    name: str
    shown_class: ShownClass


@dataclass(slots=True, eq=False)
class ShownSource:
    """One source: its own MBean, its alarms, and what ended of it lately."""

    name: str
    bean: OwnBean
    synchronised: bool = False
    alarms: ShownAlarms = field(default_factory=ShownAlarms)
    _deletions: dict[int, str] = field(default_factory=dict)
    _latest_deletion: int = 0

    def tell_deletion(self, record: DeleteRecord, class_name: str) -> None:
        """An object has gone; one that was told is passed over."""
        if record.number <= self._latest_deletion:
            return
        self._latest_deletion = record.number
        self._deletions[record.number] = _ending(record, class_name)
        while len(self._deletions) > SHOWN_DELETIONS:
            del self._deletions[next(iter(self._deletions))]

    def show_history(self) -> None:
        """Bring alarms and deletions up to date."""
        told: dict[str, JmxValue] = {"RecentlyDeleted": tuple(reversed(self._deletions.values()))}
        if self.alarms.changed:
            self.alarms.changed = False
            told |= {
                "ActiveAlarms": _alarms(self.alarms),
                "ActiveAlarmCount": len(self.alarms),
                "WorstSeverity": self.alarms.worst.name.lower(),
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
                f"{record.severity.name.lower()} since {moment(record.raised)}: {types.text(record.text)}",
            )
            for record in shown
        )
    )


def _ending(record: DeleteRecord, class_name: str) -> str:
    when = moment(record.deleted) if record.deleted else f"before {moment(record.heard)}"
    created = f"created {moment(record.created)}, " if record.created else ""
    return f"{types.text(class_name)} {types.text(record.stable_name)}: {created}deleted {when}"
