"""How the gateway itself does: agHealth, agLog, agSourceTable and agTargetTable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gateway.feed.records import EventLogRecord, EventLogState, SourceRecord
from gateway.feed.replica import FeedStatus
from gateway.model.events import Severity
from gateway.model.observations import SourceState
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import SEVERITIES, counter64, date_and_time, gauge32, gauge64, text, truth
from gateway.snmp.fixed_mib import (
    HEALTH,
    LOG,
    SOURCE_ENTRY,
    TARGET_ENTRY,
    Health,
    LogScalar,
    LogStateNumber,
    SourceColumn,
    SourceStateNumber,
    TargetColumn,
    TargetKindNumber,
)
from gateway.snmp.notifications.receiver import TargetHealth
from gateway.snmp.store import Store

_TICK_NANOSECONDS = 10_000_000
_MAX_TICKS = 0xFFFF_FFFF


@dataclass(slots=True)
class ShownCounts:
    """How much is shown; the scalars have it as it is when they are read."""

    sources: int = 0
    synchronised: int = 0
    rows: int = 0
    stale: int = 0
    withheld: int = 0
    provisional_classes: int = 0
    classes_not_shown: int = 0
    elements_not_shown: int = 0
    provisional_events: int = 0
    events_not_shown: int = 0


class HealthScalars:
    """The scalars in the store.

    Args:
        store: where they are served.
        root: the configured root.
        version: of the gateway's software.
        status: of the connection to the core.
        clock: now, in nanoseconds since 1970-01-01 UTC.

    Attributes:
        counts: to be kept up to date.
    """

    def __init__(
        self, store: Store, root: Oid, version: str, status: FeedStatus, clock: Callable[[], int]
    ) -> None:
        self.counts = ShownCounts()
        self._status = status
        self._store = store
        self._base = (*root, *HEALTH)
        self._clock = clock
        feed, counts = status, self.counts
        self._store.scalar(self._oid(Health.VERSION), text(version))
        values: dict[Health, Callable[[], bytes]] = {
            Health.GATEWAY_UUID: lambda: text(feed.gateway),
            Health.CORE_EPOCH: lambda: gauge64(feed.epoch),
            Health.CORE_UPTIME: lambda: self._ticks_since(feed.started if feed.connected else 0),
            Health.FEED_CONNECTED: lambda: truth(feed.connected),
            Health.FEED_IDLE: lambda: self._ticks_since(feed.last_message),
            Health.FEED_MESSAGES: lambda: counter64(feed.messages),
            Health.FEED_SNAPSHOTS: lambda: counter64(feed.snapshots),
            Health.FEED_REFUSED: lambda: counter64(feed.refused),
            Health.SOURCES: lambda: gauge32(counts.sources),
            Health.SOURCES_SYNCHRONISED: lambda: gauge32(counts.synchronised),
            Health.ROWS: lambda: gauge32(counts.rows),
            Health.ROWS_STALE: lambda: gauge32(counts.stale),
            Health.ROWS_WITHHELD: lambda: gauge32(counts.withheld),
            Health.CLASSES_PROVISIONAL: lambda: gauge32(counts.provisional_classes),
            Health.CLASSES_NOT_SHOWN: lambda: gauge32(counts.classes_not_shown),
            Health.ELEMENTS_NOT_SHOWN: lambda: gauge32(counts.elements_not_shown),
            Health.EVENTS_PROVISIONAL: lambda: gauge32(counts.provisional_events),
            Health.EVENTS_NOT_SHOWN: lambda: gauge32(counts.events_not_shown),
        }
        for scalar, value in values.items():
            self._store.scalar(self._oid(scalar), value)
        self._shown_times: dict[Health, int] = {}

    def show_times(self) -> None:
        """Bring the times up to date: one that is not known has no instance."""
        times = {
            Health.CORE_STARTED: self._status.started,
            Health.FEED_STALE_SINCE: self._status.stale_since,
            Health.FEED_LAST_MESSAGE: self._status.last_message,
        }
        for scalar, time in times.items():
            if time == self._shown_times.get(scalar, 0):
                continue
            value = date_and_time(time) if time else None
            if value is not None:
                self._store.scalar(self._oid(scalar), value)
                self._shown_times[scalar] = time
            elif self._shown_times.pop(scalar, 0):
                self._store.remove_scalar(self._oid(scalar))

    def _oid(self, scalar: Health) -> Oid:
        return (*self._base, scalar, 0)

    def _ticks_since(self, time: int) -> bytes:
        """Hundredths of a second since ``time``; 0 where there is none or the clock was set back."""
        ticks = (self._clock() - time) // _TICK_NANOSECONDS if time else 0
        return ber.encode_time_ticks(min(max(ticks, 0), _MAX_TICKS))


_UNKNOWN_STATE = ber.encode_integer(LogStateNumber.UNKNOWN)
_LOG_STATES = {state: ber.encode_integer(LogStateNumber[state.name]) for state in EventLogState}


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
        return _LOG_STATES[self._told.state] if self._is_known else _UNKNOWN_STATE

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


_SOURCE_STATES = {state: ber.encode_integer(SourceStateNumber[state.name]) for state in SourceState}
_COUNTERS = {
    SourceColumn.MESSAGES: "messages",
    SourceColumn.OCTETS: "octets",
    SourceColumn.PROTOCOL_ERRORS: "protocol_errors",
    SourceColumn.REFUSED: "refused",
    SourceColumn.RESYNCS: "resyncs",
    SourceColumn.GAPS: "gaps",
    SourceColumn.OBJECTS_CREATED: "objects_created",
    SourceColumn.OBJECTS_DELETED: "objects_deleted",
    SourceColumn.EVENTS: "events",
}


class SourceTable:
    """The table in the store, indexed by the source's number.

    Args:
        store: where the table is made.
        root: the configured root.
    """

    def __init__(self, store: Store, root: Oid) -> None:
        self._table = store.table((*root, *SOURCE_ENTRY), tuple(SourceColumn))
        self._records: dict[int, SourceRecord] = {}

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[int]:
        return iter(tuple(self._records))

    def show(self, record: SourceRecord) -> None:
        """A source as it stands now."""
        former = self._records.get(record.number)
        self._records[record.number] = record
        cells: dict[int, bytes | None] = {
            column: counter64(record.counters.get(name, 0)) for column, name in _COUNTERS.items()
        }
        cells |= {
            SourceColumn.NAME: text(record.name),
            SourceColumn.KIND: text(record.kind),
            SourceColumn.STATE: _SOURCE_STATES[record.state],
            SourceColumn.DETAIL: text(record.detail),
            SourceColumn.SINCE: date_and_time(record.since) if record.since else None,
            SourceColumn.LAST_HEARD: date_and_time(record.last_heard) if record.last_heard else None,
        }
        self._table.put((record.number,), cells)
        if former is None:
            self.count(record.number, 0, 0)
            self.count_alarms(record.number, 0, Severity.CLEARED)

    def count(self, source: int, rows: int, stale: int) -> None:
        """How many rows a source has; one that was not told yet is passed over."""
        if source in self._records:
            self._table.put(
                (source,), {SourceColumn.ROWS: gauge32(rows), SourceColumn.STALE_ROWS: gauge32(stale)}
            )

    def count_alarms(self, source: int, active: int, worst: Severity) -> None:
        """How many alarms of a source last; one that was not told yet is passed over."""
        if source in self._records:
            self._table.put(
                (source,),
                {SourceColumn.ACTIVE_ALARMS: gauge32(active), SourceColumn.WORST_ALARM: SEVERITIES[worst]},
            )

    def name(self, source: int) -> str:
        """What the configuration calls a source; empty for one that was not told yet."""
        record = self._records.get(source)
        return record.name if record is not None else ""

    def number(self, name: str) -> int | None:
        """The source that the configuration calls so."""
        return next((number for number, record in self._records.items() if record.name == name), None)

    def synchronised(self) -> int:
        """How many sources are in the state synchronised."""
        return sum(record.state is SourceState.SYNCHRONISED for record in self._records.values())

    def doubt_all(self, detail: str, now: int) -> None:
        """The core cannot be asked: what a source's state is, nobody knows."""
        for source in self._records:
            self._table.put(
                (source,),
                {
                    SourceColumn.STATE: ber.encode_integer(SourceStateNumber.UNKNOWN),
                    SourceColumn.DETAIL: text(detail),
                    SourceColumn.SINCE: date_and_time(now),
                },
            )

    def remove(self, source: int) -> None:
        """A source is not configured any more."""
        del self._records[source]
        self._table.remove((source,))


class TargetTable:
    """The table in the store, indexed by the receiver's name as configured.

    Args:
        store: where the table is made.
        root: the configured root.
    """

    def __init__(self, store: Store, root: Oid) -> None:
        self._table = store.table((*root, *TARGET_ENTRY), tuple(TargetColumn))

    def add(self, name: str, address: str, kind: TargetKindNumber) -> None:
        """A receiver that has not been sent anything yet.

        Args:
            name: as configured, 1 to 64 characters of ASCII.
            address: address and port, as people write it.
            kind: what it is sent.
        """
        self._table.put(
            _index(name),
            {TargetColumn.ADDRESS: text(address), TargetColumn.KIND: ber.encode_integer(kind)},
        )
        self.show(name, TargetHealth())

    def show(self, name: str, health: TargetHealth) -> None:
        """A receiver as it stands now; ``KeyError`` for one that was not added."""
        if _index(name) not in self._table:
            raise KeyError(name)
        self._table.put(
            _index(name),
            {
                TargetColumn.SENT: counter64(health.sent),
                TargetColumn.ACKNOWLEDGED: counter64(health.acknowledged),
                TargetColumn.SUPPRESSED: counter64(health.suppressed),
                TargetColumn.FAILED: counter64(health.failed),
                TargetColumn.WAITING: gauge32(health.waiting),
                TargetColumn.LOST: counter64(health.lost),
                TargetColumn.LAST_SENT: date_and_time(health.last_sent) if health.last_sent else None,
            },
        )


def _index(name: str) -> Oid:
    return tuple(name.encode("utf-8"))
