"""agAlarmTable: the active alarms, and the number of alarms of each severity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from gateway.feed.records import AlarmRecord
from gateway.model.observations import Severity
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import SEVERITIES, counter64, gauge32, known_time, line, text, truth
from gateway.snmp.fixed_mib import ALARM_ENTRY, ALARMS, AlarmColumn, AlarmScalar
from gateway.snmp.store import ScalarValue, Store

MAX_ALARMS = 10_000
"""The maximum number of rows; alarms without room are counted."""

_MAX_EVENT_ID_OCTETS = 60

IsStale: TypeAlias = Callable[[AlarmRecord, int], bool]
"""Returns whether it is unknown if an alarm, last contained in a snapshot of that number, is still active."""


class _Alarm(msgspec.Struct):
    """One row: the record that it shows, and the last snapshot that contained it."""

    record: AlarmRecord
    generation: int
    stale: bool = False


class AlarmTable:
    """The table and its scalars in the store.

    Args:
        store: the store in which they are made.
        root: the configured root.
        is_stale: see `IsStale`.
        limit: the maximum number of rows.

    Attributes:
        unsettled: the numbers of the alarms that `settle` has to check.
        changed_sources: the sources that `take_changed` has to return.
    """

    def __init__(
        self,
        store: Store,
        root: Oid,
        is_stale: IsStale,
        limit: int = MAX_ALARMS,
    ) -> None:
        self._table = store.table((*root, *ALARM_ENTRY), tuple(AlarmColumn), source_column=AlarmColumn.SOURCE)
        self._is_stale = is_stale
        self._limit = limit
        self._alarms: dict[int, _Alarm] = {}
        self._of_source: dict[int, dict[int, None]] = {}
        self._by_condition: dict[tuple[int, str], int] = {}
        self._active = dict.fromkeys(Severity, 0)
        self._by_source: dict[int, dict[Severity, int]] = {}
        self.changed_sources: set[int] = set()
        self.unsettled: dict[int, None] = {}
        self._swept: dict[int, int] = {}
        self._conditions: dict[int, dict[str, str]] = {}
        self._conditions_generation = 0
        self._last_change = 0
        self._not_shown = 0
        scalars: dict[AlarmScalar, ScalarValue] = {
            AlarmScalar.ACTIVE: lambda: gauge32(len(self._alarms)),
            AlarmScalar.CRITICAL: lambda: gauge32(self._active[Severity.CRITICAL]),
            AlarmScalar.MAJOR: lambda: gauge32(self._active[Severity.MAJOR]),
            AlarmScalar.MINOR: lambda: gauge32(self._active[Severity.MINOR]),
            AlarmScalar.WARNING: lambda: gauge32(self._active[Severity.WARNING]),
            AlarmScalar.INFO: lambda: gauge32(self._active[Severity.INFO]),
            AlarmScalar.LAST_CHANGE: lambda: known_time(self._last_change),
            AlarmScalar.NOT_SHOWN: lambda: counter64(self._not_shown),
        }
        for scalar, value in scalars.items():
            store.scalar((*root, *ALARMS, scalar, 0), value)

    def __len__(self) -> int:
        return len(self._alarms)

    def show(self, record: AlarmRecord, row: Oid, generation: int) -> None:
        """Show an active alarm, or remove a cleared one; ``row`` is the OID of its object's row."""
        self._last_change = max(self._last_change, record.raised, record.cleared)
        if record.cleared:
            self._remove(record.number)
            return
        former = self._by_condition.get((record.source, record.condition))
        if former is not None and former != record.number:
            self._remove(former)  # what an earlier core called the same condition
        if record.number not in self._alarms and len(self._alarms) >= self._limit:
            self._not_shown += 1
            return
        self._remove(record.number)
        # It was removed first, also where it is only renewed: its severity may be another, and is counted.
        alarm = _Alarm(record, generation, self._is_stale(record, generation))
        self._alarms[record.number] = alarm
        self._of_source.setdefault(record.source, {})[record.number] = None
        self._by_condition[record.source, record.condition] = record.number
        if generation != self._conditions_generation:
            self._conditions, self._conditions_generation = {}, generation
        self._conditions.setdefault(record.source, {})[record.condition] = record.event_id
        self._count(record, 1)
        self._table.put((record.number,), _cells(record, row) | {AlarmColumn.STALE: truth(alarm.stale)})

    def conditions(self, generation: int) -> Mapping[int, Mapping[str, str]]:
        """Return, by source, the active conditions that this whole snapshot or later messages contained.

        Each has the id of the event that raised it. The mapping changes with the alarms.
        """
        return self._conditions if generation == self._conditions_generation else {}

    @property
    def complete(self) -> bool:
        """Whether every alarm had room in the table."""
        return not self._not_shown

    def active(self, source: int, condition: str) -> AlarmRecord | None:
        """Return the active alarm of this condition; ``None`` if there is none."""
        number = self._by_condition.get((source, condition))
        return None if number is None else self._alarms[number].record

    def knows(self, number: int) -> bool:
        """Return whether an alarm is shown."""
        return number in self._alarms

    def sweep(self, source: int, generation: int) -> None:
        """Have `settle` remove the alarms of a source that this whole snapshot did not contain."""
        self._swept[source] = generation
        self.unsettle([source])

    def forget_source(self, source: int) -> None:
        """Remove the alarms of a source that is no longer configured."""
        for number in tuple(self._of_source.get(source, ())):
            self._remove(number)
        self._swept.pop(source, None)
        self._of_source.pop(source, None)

    def unsettle(self, sources: Iterable[int]) -> None:
        """Have `settle` check the alarms of sources whose freshness has changed."""
        for source in sources:
            self.unsettled.update(self._of_source.get(source, {}))

    def settle(self, limit: int) -> int:
        """Update up to ``limit`` rows. Return the number of alarms that were checked."""
        settled = 0
        while self.unsettled and settled < limit:
            number, _ = self.unsettled.popitem()
            settled += 1
            alarm = self._alarms.get(number)
            if alarm is None:
                continue
            if alarm.generation < self._swept.get(alarm.record.source, 0):
                self._remove(number)
                continue
            stale = self._is_stale(alarm.record, alarm.generation)
            if stale is not alarm.stale:
                alarm.stale = stale
                self._table.put((number,), {AlarmColumn.STALE: truth(stale)})
        return settled

    def take_changed(self) -> dict[int, tuple[int, Severity]]:
        """Return the number of alarms, and the worst severity, of each source changed since the last call."""
        changed = {}
        for source in self.changed_sources:
            active = self._by_source.get(source, {})
            worst = max((severity for severity, count in active.items() if count), default=Severity.CLEARED)
            changed[source] = (sum(active.values()), worst)
        self.changed_sources.clear()
        return changed

    def _remove(self, number: int) -> None:
        alarm = self._alarms.pop(number, None)
        if alarm is None:
            return
        record = alarm.record
        del self._of_source[record.source][number]
        # The condition may have another alarm by now.
        if self._by_condition.get((record.source, record.condition)) == number:
            del self._by_condition[record.source, record.condition]
            if alarm.generation == self._conditions_generation:
                del self._conditions[record.source][record.condition]
        self._count(record, -1)
        self._table.remove((number,))

    def _count(self, record: AlarmRecord, change: int) -> None:
        self._active[record.severity] += change
        of_source = self._by_source.setdefault(record.source, {})
        of_source[record.severity] = of_source.get(record.severity, 0) + change
        if not any(of_source.values()):
            del self._by_source[record.source]
        self.changed_sources.add(record.source)


def _cells(record: AlarmRecord, row: Oid) -> dict[int, bytes | None]:
    subject = record.subject
    return {
        AlarmColumn.SOURCE: ber.encode_integer(record.source),
        AlarmColumn.NAME: text(record.name),
        AlarmColumn.SEVERITY: SEVERITIES[record.severity],
        AlarmColumn.CONDITION: text(record.condition),
        AlarmColumn.CLASS: text(subject.class_name if subject else ""),
        AlarmColumn.OBJECT_NAME: text(subject.stable_name if subject else ""),
        AlarmColumn.ROW: ber.encode_oid(row),
        AlarmColumn.TEXT: line(record.text),
        AlarmColumn.SINCE: known_time(record.raised),
        AlarmColumn.EVENT_ID: text(record.event_id, _MAX_EVENT_ID_OCTETS),
    }
