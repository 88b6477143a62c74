"""The event log in the Gateway MBean, and the alarm that the gateway itself has while it is in trouble."""

from __future__ import annotations

from gateway.feed.records import AlarmRecord, EventLogRecord
from gateway.jmx import types
from gateway.jmx.commands import JmxValue
from gateway.jmx.own_beans import UNKNOWN
from gateway.model.events import Severity

GATEWAY = 0
"""Number of the source that stands for the gateway itself in events and alarms; it has no MBean."""


class ShownEventLog:
    """What the core has told of its event log, and of the gateway's own alarms."""

    def __init__(self) -> None:
        self._record: EventLogRecord | None = None
        self._is_known = False
        self._alarms: dict[str, tuple[AlarmRecord, int]] = {}

    def tell(self, record: EventLogRecord) -> None:
        """The log as it stands now."""
        self._record, self._is_known = record, True

    def doubt(self) -> None:
        """The core cannot be asked: the numbers are the last ones known, the state is not."""
        self._is_known = False

    def tell_alarm(self, record: AlarmRecord, generation: int) -> None:
        """A condition of the gateway itself has begun, changed or ended; ``generation`` of the snapshot."""
        if record.cleared:
            self._alarms.pop(record.condition, None)
        else:
            self._alarms[record.condition] = record, generation

    def drop_alarms_before(self, generation: int) -> None:
        """Conditions that the last snapshot did not tell have ended."""
        self._alarms = {c: (r, told) for c, (r, told) in self._alarms.items() if told >= generation}

    @property
    def alarm_count(self) -> int:
        """Conditions of the gateway itself that last."""
        return len(self._alarms)

    @property
    def worst(self) -> Severity:
        """Of these conditions."""
        return max((record.severity for record, _ in self._alarms.values()), default=Severity.CLEARED)

    def values(self) -> dict[str, JmxValue]:
        """The attributes of the Gateway MBean that tell of the log; null where nothing is known."""
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
