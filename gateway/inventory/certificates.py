"""The alarms of certificates that expire: conditions of the gateway itself, one for each file.

A condition begins as a warning, and is reported again when it becomes graver. It ends when the file contains
certificates that are valid for longer, or is not used any more. Active alarms are kept in the instance index
over a restart, like those of objects (`gateway.inventory.alarms`): the first look at the files shows which of
them are over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from gateway.feed.records import AlarmRecord, EventRecord, Record
from gateway.inventory.alarms import own_alarm, restored_alarms, shortened_condition, store_alarm
from gateway.inventory.events import EventRecorder, duration_text, one_line
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.own_events import ALARM_CLEARED, ALARM_RAISED
from gateway.inventory.scope import IdAllocator
from gateway.model.observations import EventState, Severity
from gateway.model.times import DAY, utc_time

ALARM: Final = "certificateExpiring"
"""The name of the alarm, with which its condition begins."""

MAJOR_BEFORE: Final = 7 * DAY
"""Nanoseconds before the end of a certificate from which on it is more than a warning."""

MAX_ALARMS: Final = 1_000
"""The maximum number of these alarms; a configuration names fewer files."""

_MAX_KEYS: Final = 3


class CertificateExpiry(msgspec.Struct, frozen=True):
    """The end of the validity of a file's certificates.

    Attributes:
        name: the path of the file, or the name of a server that presented a certificate.
        ends: the end of the first that ends, nanoseconds since 1970 UTC.
        keys: the keys of the configuration that name it.
    """

    name: str
    ends: int
    keys: tuple[str, ...] = ()


class CertificateConditions:
    """The active alarms of certificates.

    Args:
        recorder: makes the events of the gateway itself.
        ids: allocates the numbers of alarms.
        index: stores the active alarms.
        source: the number of the source that stands for the gateway.
    """

    def __init__(self, recorder: EventRecorder, ids: IdAllocator, index: InstanceIndex, source: int) -> None:
        self._recorder = recorder
        self._ids = ids
        self._index = index
        self._alarms: dict[str, AlarmRecord] = {}
        self._ends: dict[str, int] = {}
        self._unended: dict[str, EventRecord] = {}
        for record in restored_alarms(index, source):
            if record.name == ALARM:
                ids.alarm_stands(record.number)
                self._alarms[record.condition] = record

    def records(self) -> Iterator[Record]:
        """Return the active alarms, for a snapshot."""
        return iter(list(self._alarms.values()))

    def expect_clearings(self, raised: Iterable[EventRecord]) -> None:
        """Take the events that raised conditions which, by the event log, have not ended.

        Those whose alarm is not active have ended without a record, which `judged` reports.
        """
        self._unended = {
            event.condition: event
            for event in raised
            if event.condition.partition(" ")[0] == ALARM and event.condition not in self._alarms
        }

    def judged(
        self,
        found: Iterable[CertificateExpiry],
        warn_before: int,
        now: int,
        not_known: Collection[str] = (),
    ) -> list[Record]:
        """Compare the files with the time; return the records to publish.

        Args:
            found: every file of certificates that is used.
            warn_before: nanoseconds before the end of a certificate from which on there is an alarm.
            now: nanoseconds since 1970 UTC.
            not_known: the names of files that cannot be read now, whose alarms stay as they are.
        """
        out: list[Record] = []
        lasting = {_condition(name) for name in not_known}
        for expiry in found:
            if expiry.ends - now < warn_before:
                condition = _condition(expiry.name)
                lasting.add(condition)
                out += self._lasts(condition, expiry, now)
        for condition in [condition for condition in self._alarms if condition not in lasting]:
            out += self._over(condition, now)
        for condition, event in self._unended.items():
            if condition not in self._alarms:
                text = f"over before the gateway was started again: {event.text}"
                out.append(self._clearing(condition, text, now))
        self._unended.clear()
        return out

    def _lasts(self, condition: str, expiry: CertificateExpiry, now: int) -> list[Record]:
        """Raise an alarm; report again one that became graver, or is for another certificate."""
        severity = _severity(expiry.ends - now)
        alarm = self._alarms.get(condition)
        if alarm is None and len(self._alarms) >= MAX_ALARMS:
            return []
        same_end = self._ends.get(condition, expiry.ends) == expiry.ends
        if alarm is not None and alarm.severity is severity and same_end:
            self._ends[condition] = expiry.ends
            return []
        event = self._recorder.own(
            ALARM_RAISED,
            (ALARM,),
            severity,
            _text(expiry, now),
            now,
            state=EventState.RAISED,
            condition=condition,
        )
        alarm = own_alarm(ALARM, event, alarm, self._ids.alarm)
        self._alarms[condition], self._ends[condition] = alarm, expiry.ends
        store_alarm(self._index, alarm)
        return [event, alarm]

    def _over(self, condition: str, now: int) -> list[Record]:
        alarm = self._alarms.pop(condition)
        self._ends.pop(condition, None)
        self._ids.alarm_over(alarm.number)
        self._index.drop_alarm(alarm.number)
        lasted = duration_text(max(0, now - alarm.raised))
        text = f"renewed, or not used any more, after {lasted}: {alarm.text}"
        return [self._clearing(condition, text, now), msgspec.structs.replace(alarm, cleared=now)]

    def _clearing(self, condition: str, text: str, now: int) -> EventRecord:
        return self._recorder.own(
            ALARM_CLEARED,
            (ALARM,),
            Severity.CLEARED,
            one_line(text),
            now,
            state=EventState.CLEARED,
            condition=condition,
        )


def _condition(name: str) -> str:
    return shortened_condition(f'{ALARM} "{name}"')


def _severity(left: int) -> Severity:
    if left <= 0:
        return Severity.CRITICAL
    return Severity.MAJOR if left < MAJOR_BEFORE else Severity.WARNING


def _text(expiry: CertificateExpiry, now: int) -> str:
    date = (utc_time(expiry.ends, 0) or "?").partition("T")[0]
    left = expiry.ends - now
    days = left // DAY
    when = (
        f"expired on {date}" if left <= 0 else f"expires on {date}, in {days} day{'' if days == 1 else 's'}"
    )
    keys = ", ".join(expiry.keys[:_MAX_KEYS])
    more = f" and {len(expiry.keys) - _MAX_KEYS} more" if len(expiry.keys) > _MAX_KEYS else ""
    used = f" ({keys}{more})" if keys else ""
    return one_line(f"certificate {when}: renew it: {expiry.name}{used}")
