"""Conditions of the gateway itself that last: what it cannot write, and processes that it cannot start.

Nothing of them is written to the instance index, because its disk may be the one that is full
(`gateway.inventory.inventory.EventLogCondition`). So an alarm does not outlive a core: the next one raises
it again if the condition lasts, and else reports that the condition of before has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from gateway.feed.records import AlarmRecord, EventRecord, Record
from gateway.inventory.alarms import own_alarm
from gateway.inventory.events import EventRecorder, duration_text, one_line
from gateway.inventory.index_upkeep import DiskState
from gateway.inventory.own_events import ALARM_CLEARED, ALARM_RAISED
from gateway.inventory.scope import IdAllocator
from gateway.model.observations import EventState, Severity
from gateway.model.schema import EventSchema
from gateway.model.times import SECOND

AUDIT_HEADS_ALARM: Final = "auditHeadsNotWritten"
"""The name of the alarm of the file of signed heads, which is its condition, because there is one file."""

STATE_DISK_ALARM: Final = "stateNotWritten"
"""The name of the alarm of the state folder's disk, which is its condition."""

LOG_LINES_ALARM: Final = "logLinesLost"
"""The name of the alarm of standard error that loses lines, which is its condition."""

PROCESSES_ALARM: Final = "processNotStarted"
"""The name of the alarm of processes that cannot be started, which is its condition."""

OWN_CONDITIONS: Final = (AUDIT_HEADS_ALARM, STATE_DISK_ALARM, LOG_LINES_ALARM, PROCESSES_ALARM)
"""The names of the alarms of this module."""

_CALM: Final = 60 * SECOND


class OwnCondition:
    """A condition of the gateway itself, with the alarm that stands for it.

    Args:
        name: the name of the alarm, and of the condition.
        subject: what the text of its end is about.
        ended: what ended it, in words.
        recorder: makes the events of the gateway itself.
        ids: allocates the numbers of alarms.
    """

    def __init__(
        self, name: str, subject: str, ended: str, recorder: EventRecorder, ids: IdAllocator
    ) -> None:
        self._name, self._subject, self._ended = name, subject, ended
        self._recorder = recorder
        self._ids = ids
        self._alarm: AlarmRecord | None = None
        self._reason: object = None
        self._is_unended = False

    def records(self) -> Iterator[Record]:
        """Yield the active alarm, for a snapshot."""
        if self._alarm is not None:
            yield self._alarm

    def expect_clearings(self, raised: Iterable[EventRecord]) -> None:
        """Take the events that raised conditions which, by the event log, have not ended."""
        self._is_unended = any(event.condition == self._name for event in raised)

    def stands(self, reason: object, severity: Severity, text: str, now: int) -> list[Record]:
        """Raise the alarm, or change its text for another reason; return the records to publish."""
        if self._alarm is not None and reason == self._reason:
            return []
        self._reason, self._is_unended = reason, False
        event = self._event(ALARM_RAISED, severity, EventState.RAISED, text, now)
        self._alarm = own_alarm(self._name, event, self._alarm, self._ids.alarm)
        return [event, self._alarm]

    def over(self, now: int) -> list[Record]:
        """Take that the condition has ended, or never was; return the records to publish."""
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            self._ids.alarm_over(alarm.number)
            lasted = duration_text(max(0, now - alarm.raised))
            over = msgspec.structs.replace(alarm, cleared=now)
            return [self._cleared(f"{self._subject}: {self._ended} after {lasted}", now), over]
        if not self._is_unended:
            return []
        self._is_unended = False
        return [self._cleared(f"{self._subject}: {self._ended} since the start", now)]

    def _cleared(self, text: str, now: int) -> EventRecord:
        return self._event(ALARM_CLEARED, Severity.CLEARED, EventState.CLEARED, text, now)

    def _event(
        self, schema: EventSchema, severity: Severity, state: EventState, text: str, now: int
    ) -> EventRecord:
        return self._recorder.own(
            schema, (self._name,), severity, one_line(text), now, state=state, condition=self._name
        )


class AuditHeadsCondition(OwnCondition):
    """The state of the file of signed heads; `over` takes that it was written, or that there is none.

    Args:
        recorder: makes the events of the gateway itself.
        ids: allocates the numbers of alarms.
    """

    def __init__(self, recorder: EventRecorder, ids: IdAllocator) -> None:
        subject, ended = "signed heads of the audit", "written again, or not used any more,"
        super().__init__(AUDIT_HEADS_ALARM, subject, ended, recorder, ids)

    def not_written(self, file: str, reason: str, now: int) -> list[Record]:
        """Raise the alarm, or change its text for another reason; return the records to publish.

        Args:
            file: the path of the file.
            reason: why it cannot be written.
            now: nanoseconds since 1970 UTC.
        """
        text = (
            f"signed heads of the audit are not written: {reason}: correct that, or name another file"
            f" (audit.heads.file): {file}"
        )
        return self.stands(reason, Severity.MAJOR, text, now)


class StateDiskCondition(OwnCondition):
    """The state of the disk of the state folder, as far as the instance index knows it.

    Args:
        recorder: makes the events of the gateway itself.
        ids: allocates the numbers of alarms.
    """

    def __init__(self, recorder: EventRecorder, ids: IdAllocator) -> None:
        super().__init__(STATE_DISK_ALARM, "state folder", "all is written again", recorder, ids)

    def tick(self, disk: DiskState, trouble: str, now: int) -> list[Record]:
        """Compare the disk with the alarm; return the records to publish.

        Args:
            disk: what it takes.
            trouble: why it takes nothing, and what to do.
            now: nanoseconds since 1970 UTC.
        """
        match disk:
            case DiskState.ROOM:
                return self.over(now)
            case DiskState.RESERVE:
                text = (
                    "the disk of the state folder is full, and its reserve is used; when that ends, new "
                    "objects are not shown: make room on the disk"
                )
                return self.stands(disk, Severity.MAJOR, text, now)
            case DiskState.NOTHING:
                text = f"new objects wait, not shown, since the state folder cannot be written: {trouble}"
                return self.stands((disk, trouble), Severity.CRITICAL, text, now)


class LogLinesCondition(OwnCondition):
    """The state of the standard error of the gateway, which all processes share.

    Args:
        recorder: makes the events of the gateway itself.
        ids: allocates the numbers of alarms.
    """

    def __init__(self, recorder: EventRecorder, ids: IdAllocator) -> None:
        super().__init__(LOG_LINES_ALARM, "lines of the log", "none was lost for a minute,", recorder, ids)
        self._lost = self._lost_at = 0

    def tick(self, lost: int, now: int) -> list[Record]:
        """Compare the number of lost lines with the alarm; return the records to publish.

        Args:
            lost: how many lines all processes have lost since the core's start.
            now: nanoseconds since 1970 UTC.
        """
        if lost > self._lost:
            self._lost, self._lost_at = lost, now
        if not self._lost_at or now - self._lost_at >= _CALM:
            self._lost_at = 0
            return self.over(now)
        text = (
            "lines of the gateway's log are lost, since what reads its standard error stands still or has "
            "ended, or its disk is full: see to what it is connected to"
        )
        return self.stands(LOG_LINES_ALARM, Severity.MINOR, text, now)


class ProcessesCondition(OwnCondition):
    """The state of the gateway's processes, as far as the supervisor can start them.

    Args:
        recorder: makes the events of the gateway itself.
        ids: allocates the numbers of alarms.
    """

    def __init__(self, recorder: EventRecorder, ids: IdAllocator) -> None:
        super().__init__(
            PROCESSES_ALARM, "processes of the gateway", "all of them start again", recorder, ids
        )

    def not_started(self, reasons: Mapping[str, str], now: int) -> list[Record]:
        """Compare what the supervisor reports with the alarm; return the records to publish.

        Args:
            reasons: why a process cannot be started, by its name; empty if all of them start.
            now: nanoseconds since 1970 UTC.
        """
        if not reasons:
            return self.over(now)
        each = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        text = f"processes of the gateway cannot be started, which is tried again: {each}"
        return self.stands(dict(reasons), Severity.MAJOR, text, now)
