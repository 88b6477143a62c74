"""The gateway's own event log as the feed has it: its state, and events when trouble begins and ends.

Nothing of this is written to the instance index: its disk may be the one that has no room. So the alarm does
not outlive a core; a new one reports once that the log is written, which clears the alarm of the former.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gateway.feed.records import AlarmRecord, EventLogRecord, EventLogState, EventRecord, Record
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.event_texts import duration_text, one_line
from gateway.inventory.events import EventRecorder
from gateway.inventory.instances import IdAllocator, InstanceIndex
from gateway.inventory.own_events import LOG_TROUBLE, LOG_WRITTEN
from gateway.inventory.scope import SourceIdentity, SourceScope
from gateway.model.observations import EventState, Severity

GATEWAY = 0
"""Number of the source that stands for the gateway itself; those of sources begin at 1."""

CONDITION = "logTrouble"

HOLD = 10 * 10**9
"""Nanoseconds without trouble after which it is over: a disk that is slow now and then is one condition."""

_WELL = frozenset({EventLogState.OFF, EventLogState.WRITING})
_SEVERITIES = {EventLogState.SLOW: Severity.WARNING, EventLogState.UPKEEP: Severity.WARNING}


class EventLogCondition:
    """The state, the events and the alarm of the event log.

    Args:
        classes: for the events' numbers.
        index: not written, see above.
        ids: of events and alarms.
    """

    def __init__(self, classes: ClassRegistry, index: InstanceIndex, ids: IdAllocator) -> None:
        self._ids = ids
        scope = SourceScope(SourceIdentity(GATEWAY, "", ""), classes, index, ids)
        self._recorder = EventRecorder(scope, None)
        # Drawn while the disk has room: see above.
        self._next_alarm = ids.alarm()
        self._alarm: AlarmRecord | None = None
        self._trouble = EventLogState.WRITING
        self._written = False
        self._record: EventLogRecord | None = None
        self._well_since = 0

    def records(self) -> Iterator[Record]:
        """How it stands, for a snapshot."""
        if self._record is not None:
            yield self._record
        if self._alarm is not None:
            yield self._alarm

    def stands(self, record: EventLogRecord, now: int) -> list[Record]:
        """Take the state of the log; returns what to publish."""
        out: list[Record] = [record] if record != self._record else []
        former, self._record = self._record, record
        if record.state not in _WELL:
            if self._alarm is None or record.state is not self._trouble:
                out += self._trouble_began(record, now)
        elif former is None or former.state not in _WELL:
            self._well_since = now
        return out + self.tick(now)

    def tick(self, now: int) -> list[Record]:
        """Publish the end of trouble that has not come back for a while."""
        record = self._record
        if record is None or record.state is not EventLogState.WRITING:
            return []
        if self._alarm is None:
            return [] if self._written else [self._written_event("the event log is written", record, now)]
        if 0 <= now - self._well_since < HOLD:
            return []
        alarm, self._alarm = self._alarm, None
        self._ids.alarm_over(alarm.number)
        self._next_alarm = self._ids.alarm()
        lasted = duration_text(max(0, self._well_since - alarm.raised))
        lost = f", {record.lost} records lost since the core's start" if record.lost else ""
        event = self._written_event(f"the event log is written again after {lasted}{lost}", record, now)
        return [event, msgspec.structs.replace(alarm, cleared=now)]

    def _trouble_began(self, record: EventLogRecord, now: int) -> list[Record]:
        """Trouble, or trouble of another kind: then the alarm is another one from here on."""
        self._trouble = record.state
        text = f"event log: {record.state.value}"
        event = self._recorder.own(
            LOG_TROUBLE,
            (record.state.value, record.detail, record.lost),
            _SEVERITIES.get(record.state, Severity.MAJOR),
            one_line(f"{text}: {record.detail}" if record.detail else text),
            now,
            state=EventState.RAISED,
            condition=CONDITION,
        )
        number = self._next_alarm if self._alarm is None else self._alarm.number
        self._alarm = AlarmRecord(
            number=number,
            source=GATEWAY,
            name=CONDITION,
            condition=CONDITION,
            severity=event.severity,
            subject=None,
            text=event.text,
            event_id=event.event_id,
            raised=now if self._alarm is None else self._alarm.raised,
        )
        return [event, self._alarm]

    def _written_event(self, text: str, record: EventLogRecord, now: int) -> EventRecord:
        self._written = True
        return self._recorder.own(
            LOG_WRITTEN,
            (record.lost,),
            Severity.CLEARED,
            one_line(text),
            now,
            state=EventState.CLEARED,
            condition=CONDITION,
        )
