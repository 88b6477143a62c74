"""agLog: whether what happens reaches the disk of the event log."""

from __future__ import annotations

from collections.abc import Callable

from gateway.feed.records import EventLogRecord, EventLogState
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import counter64, date_and_time, gauge32, gauge64, text
from gateway.snmp.fixed_mib import LOG, LogScalar, LogStateNumber
from gateway.snmp.store import Store

_UNKNOWN = ber.encode_integer(LogStateNumber.UNKNOWN)
_STATES = {state: ber.encode_integer(LogStateNumber[state.name]) for state in EventLogState}


class LogScalars:
    """The scalars in the store. Until the core has told of the log there is only its state: unknown.

    Args:
        store: where they are served.
        root: the configured root.
    """

    def __init__(self, store: Store, root: Oid) -> None:
        self._store = store
        self._base = (*root, *LOG)
        self._record: EventLogRecord | None = None
        self._is_known = False
        self._shows_since = False
        store.scalar(self._oid(LogScalar.STATE), lambda: self._state)

    def tell(self, record: EventLogRecord) -> None:
        """The log as it stands now."""
        if self._record is None:
            for scalar, value in self._values.items():
                self._store.scalar(self._oid(scalar), value)
        self._record, self._is_known = record, True
        self._show_since(date_and_time(record.since) if record.since else None)

    def doubt(self) -> None:
        """The core cannot be asked: the numbers are the last ones known, the state is not."""
        self._is_known = False
        self._show_since(None)

    @property
    def _state(self) -> bytes:
        return _STATES[self._told.state] if self._is_known else _UNKNOWN

    @property
    def _told(self) -> EventLogRecord:
        assert self._record is not None
        return self._record

    @property
    def _values(self) -> dict[LogScalar, Callable[[], bytes]]:
        return {
            LogScalar.DETAIL: lambda: text(self._told.detail),
            LogScalar.COMMITTED: lambda: counter64(self._told.committed),
            LogScalar.WAITING: lambda: gauge32(self._told.waiting),
            LogScalar.LOST: lambda: counter64(self._told.lost),
            LogScalar.OCTETS: lambda: gauge64(self._told.octets),
            LogScalar.SEGMENTS: lambda: gauge32(self._told.segments),
            LogScalar.DELETED_FILES: lambda: counter64(self._told.deleted_files),
            LogScalar.DELETED_OCTETS: lambda: counter64(self._told.deleted_octets),
        }

    def _show_since(self, value: bytes | None) -> None:
        if value is not None:
            self._store.scalar(self._oid(LogScalar.SINCE), value)
        elif self._shows_since:
            self._store.remove_scalar(self._oid(LogScalar.SINCE))
        self._shows_since = value is not None

    def _oid(self, scalar: LogScalar) -> Oid:
        return (*self._base, scalar, 0)
