"""The event log in the Gateway MBean."""

from __future__ import annotations

from gateway.feed.records import EventLogRecord
from gateway.jmx import types
from gateway.jmx.commands import JmxValue
from gateway.jmx.own_beans import UNKNOWN


class ShownEventLog:
    """What the core has told of its event log."""

    def __init__(self) -> None:
        self._record: EventLogRecord | None = None
        self._is_known = False

    def tell(self, record: EventLogRecord) -> None:
        """The log as it stands now."""
        self._record, self._is_known = record, True

    def doubt(self) -> None:
        """The core cannot be asked: the numbers are the last ones known, the state is not."""
        self._is_known = False

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
