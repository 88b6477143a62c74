"""The alarm of the file of signed audit heads that cannot be written: a condition of the gateway itself.

Nothing of it is written to the instance index, because its disk may be the one that is full
(`gateway.inventory.inventory.EventLogCondition`). So the alarm does not outlive a core: the next one raises
it again when the file cannot be written still, and else reports that the condition of before has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from gateway.feed.records import AlarmRecord, EventRecord, Record
from gateway.inventory.alarms import own_alarm
from gateway.inventory.events import EventRecorder, duration_text, one_line
from gateway.inventory.instances import IdAllocator
from gateway.inventory.own_events import ALARM_CLEARED, ALARM_RAISED
from gateway.model.observations import EventState, Severity
from gateway.model.schema import EventSchema

ALARM: Final = "auditHeadsNotWritten"
"""The name of the alarm, which is its condition, because there is one file."""


class AuditHeadsCondition:
    """The state of the file of signed heads.

    Args:
        recorder: makes the events of the gateway itself.
        ids: allocates the numbers of alarms.
    """

    def __init__(self, recorder: EventRecorder, ids: IdAllocator) -> None:
        self._recorder = recorder
        self._ids = ids
        self._alarm: AlarmRecord | None = None
        self._reason = ""
        self._is_unended = False

    def records(self) -> Iterator[Record]:
        """Yield the active alarm, for a snapshot."""
        if self._alarm is not None:
            yield self._alarm

    def expect_clearings(self, raised: Iterable[EventRecord]) -> None:
        """Take the events that raised conditions which, by the event log, have not ended."""
        self._is_unended = any(event.condition == ALARM for event in raised)

    def not_written(self, file: str, reason: str, now: int) -> list[Record]:
        """Raise the alarm, or change its text for another reason; return the records to publish.

        Args:
            file: the path of the file.
            reason: why it cannot be written.
            now: nanoseconds since 1970 UTC.
        """
        if self._alarm is not None and reason == self._reason:
            return []
        self._reason, self._is_unended = reason, False
        text = (
            f"signed heads of the audit are not written: {reason}: correct that, or name another file"
            f" (audit.heads.file): {file}"
        )
        event = self._event(ALARM_RAISED, Severity.MAJOR, EventState.RAISED, text, now)
        self._alarm = own_alarm(ALARM, event, self._alarm, self._ids.alarm)
        return [event, self._alarm]

    def written(self, now: int) -> list[Record]:
        """Take that the file was written, or that there is none; return the records to publish."""
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            self._ids.alarm_over(alarm.number)
            text = f"written again, or not used any more, after {duration_text(max(0, now - alarm.raised))}"
            over = msgspec.structs.replace(alarm, cleared=now)
            return [self._cleared(f"signed heads of the audit: {text}", now), over]
        if not self._is_unended:
            return []
        self._is_unended = False
        return [self._cleared("signed heads of the audit: written, or not used, since the start", now)]

    def _cleared(self, text: str, now: int) -> EventRecord:
        return self._event(ALARM_CLEARED, Severity.CLEARED, EventState.CLEARED, text, now)

    def _event(
        self, schema: EventSchema, severity: Severity, state: EventState, text: str, now: int
    ) -> EventRecord:
        return self._recorder.own(
            schema, (ALARM,), severity, one_line(text), now, state=state, condition=ALARM
        )
