"""The state of the gateway itself: agHealth, agLog, agSourceTable and agTargetTable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from gateway.feed.cleared import COUNTERS_OF_ALL
from gateway.feed.records import EventLogRecord, EventLogState, SourceRecord
from gateway.feed.replica import FeedStatus
from gateway.model.observations import Severity, SourceState
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import (
    SEVERITIES,
    counter64,
    date_and_time,
    gauge32,
    gauge32_in,
    gauge64,
    known_time,
    text,
    truth,
)
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
from gateway.snmp.store import ScalarValue, Store

_TICK_NANOSECONDS = 10_000_000
_MAX_TICKS = 0xFFFF_FFFF


class ShownCounts(msgspec.Struct, frozen=True):
    """The numbers of sources, rows, classes, elements and events, shown and not shown."""

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


def serve_health(
    store: Store,
    root: Oid,
    version: str,
    feed: FeedStatus,
    counts: Callable[[], ShownCounts],
    clock: Callable[[], int],
) -> None:
    """Serve agHealth. Each value is made when it is read, so that messages of the feed cost nothing here.

    Args:
        store: the store that serves the scalars.
        root: the configured root.
        version: the version of the gateway's software.
        feed: the connection to the core.
        counts: returns the present numbers.
        clock: returns the time in nanoseconds since 1970-01-01 UTC.
    """

    def ticks_since(time: int) -> bytes:
        """Return the hundredths of a second since ``time``; 0 if it is 0 or the clock was set back."""
        ticks = (clock() - time) // _TICK_NANOSECONDS if time else 0
        return ber.encode_time_ticks(min(max(ticks, 0), _MAX_TICKS))

    values: dict[Health, ScalarValue] = {
        Health.VERSION: text(version),
        Health.GATEWAY_UUID: lambda: text(feed.gateway),
        Health.CORE_EPOCH: lambda: gauge64(feed.epoch),
        Health.CORE_STARTED: lambda: known_time(feed.started),
        Health.CORE_UPTIME: lambda: ticks_since(feed.started if feed.connected else 0),
        Health.FEED_CONNECTED: lambda: truth(feed.connected),
        Health.FEED_STALE_SINCE: lambda: known_time(feed.stale_since),
        Health.FEED_LAST_MESSAGE: lambda: known_time(feed.last_message),
        Health.FEED_IDLE: lambda: ticks_since(feed.last_message),
        Health.FEED_MESSAGES: lambda: counter64(feed.messages),
        Health.FEED_SNAPSHOTS: lambda: counter64(feed.snapshots),
        Health.FEED_REFUSED: lambda: counter64(feed.refused),
        Health.SOURCES: lambda: gauge32(counts().sources),
        Health.SOURCES_SYNCHRONISED: lambda: gauge32(counts().synchronised),
        Health.ROWS: lambda: gauge32(counts().rows),
        Health.ROWS_STALE: lambda: gauge32(counts().stale),
        Health.ROWS_WITHHELD: lambda: gauge32(counts().withheld),
        Health.CLASSES_PROVISIONAL: lambda: gauge32(counts().provisional_classes),
        Health.CLASSES_NOT_SHOWN: lambda: gauge32(counts().classes_not_shown),
        Health.ELEMENTS_NOT_SHOWN: lambda: gauge32(counts().elements_not_shown),
        Health.EVENTS_PROVISIONAL: lambda: gauge32(counts().provisional_events),
        Health.EVENTS_NOT_SHOWN: lambda: gauge32(counts().events_not_shown),
        Health.CORE_EPOCH_GAUGE32: lambda: gauge32(feed.epoch),
    }
    for scalar, value in values.items():
        store.scalar((*root, *HEALTH, scalar, 0), value)


def serve_restricted_counts(
    store: Store, root: Oid, sources: SourceTable, is_connected: Callable[[], bool]
) -> None:
    """Serve those counts of agHealth that a restricted view has: of the sources and rows that it shows.

    Args:
        store: the store that serves the scalars.
        root: the configured root.
        sources: the sources of the view.
        is_connected: returns whether the core can be reached.
    """
    values: dict[Health, ScalarValue] = {
        Health.SOURCES: lambda: gauge32(len(sources)),
        Health.SOURCES_SYNCHRONISED: lambda: gauge32(sources.synchronised() if is_connected() else 0),
        Health.ROWS: lambda: gauge32(sources.rows()[0]),
        Health.ROWS_STALE: lambda: gauge32(sources.rows()[1]),
    }
    for scalar, value in values.items():
        store.scalar((*root, *HEALTH, scalar, 0), value)


COUNTS_OF_ALL: Final = (
    Health.FEED_MESSAGES,
    Health.FEED_REFUSED,
    Health.SOURCES,
    Health.SOURCES_SYNCHRONISED,
    Health.ROWS,
    Health.ROWS_STALE,
    Health.ROWS_WITHHELD,
    Health.CLASSES_PROVISIONAL,
    Health.CLASSES_NOT_SHOWN,
    Health.ELEMENTS_NOT_SHOWN,
    Health.EVENTS_PROVISIONAL,
    Health.EVENTS_NOT_SHOWN,
)
"""Scalars that count what restricted views do not show."""


def serve_losses(store: Store, root: Oid, dropped: Callable[[], int], lost: Callable[[], int | None]) -> None:
    """Serve the scalars of agHealth about requests without an answer.

    Args:
        store: the store that serves the scalars.
        root: the configured root.
        dropped: returns the number of requests that had to make room for those of others.
        lost: returns the number of those that could not be read; ``None`` where it is not known.
    """

    def lost_value() -> bytes | None:
        number = lost()
        return None if number is None else counter64(number)

    store.scalar((*root, *HEALTH, Health.REQUESTS_DROPPED, 0), lambda: counter64(dropped()))
    store.scalar((*root, *HEALTH, Health.REQUESTS_LOST, 0), lost_value)


_UNKNOWN_STATE = ber.encode_integer(LogStateNumber.UNKNOWN)
_LOG_STATES = {state: ber.encode_integer(LogStateNumber[state.name]) for state in EventLogState}


class LogScalars:
    """The scalars of agLog. Before the core reports on the log only its state has an instance: unknown.

    Args:
        store: the store that serves them.
        root: the configured root.
    """

    def __init__(self, store: Store, root: Oid) -> None:
        self._record: EventLogRecord | None = None
        self._is_known = False
        values: dict[LogScalar, Callable[[EventLogRecord], bytes | None]] = {
            LogScalar.DETAIL: lambda log: text(log.detail),
            LogScalar.SINCE: lambda log: known_time(log.since) if self._is_known else None,
            LogScalar.COMMITTED: lambda log: counter64(log.committed),
            LogScalar.WAITING: lambda log: gauge32(log.waiting),
            LogScalar.LOST: lambda log: counter64(log.lost),
            LogScalar.OCTETS: lambda log: gauge64(log.octets),
            LogScalar.SEGMENTS: lambda log: gauge32(log.segments),
            LogScalar.DELETED_FILES: lambda log: counter64(log.deleted_files),
            LogScalar.DELETED_OCTETS: lambda log: counter64(log.deleted_octets),
            LogScalar.OCTETS_KIBIBYTES: lambda log: gauge32_in("kibibytes", log.octets),
        }
        for scalar, value in values.items():
            store.scalar((*root, *LOG, scalar, 0), self._reader(value))
        store.scalar((*root, *LOG, LogScalar.STATE, 0), self._state)

    def show(self, record: EventLogRecord) -> None:
        """Show the present state of the log."""
        self._record, self._is_known = record, True

    def mark_unknown(self) -> None:
        """Show the state as unknown: the core cannot be reached. The numbers keep their last values."""
        self._is_known = False

    def _state(self) -> bytes:
        return _LOG_STATES[self._record.state] if self._record and self._is_known else _UNKNOWN_STATE

    def _reader(self, value: Callable[[EventLogRecord], bytes | None]) -> Callable[[], bytes | None]:
        return lambda: None if self._record is None else value(self._record)


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
    """agSourceTable, indexed by the source's number.

    Args:
        store: the store in which the table is made.
        root: the configured root.
        restricted: who reads it may not read everything: counters of objects and events have no instance.
    """

    def __init__(self, store: Store, root: Oid, *, restricted: bool = False) -> None:
        self._table = store.table((*root, *SOURCE_ENTRY), tuple(SourceColumn), by_source=True)
        self._records: dict[int, SourceRecord] = {}
        self._rows: dict[int, tuple[int, int]] = {}
        self._counters = {
            column: name for column, name in _COUNTERS.items() if not restricted or name in COUNTERS_OF_ALL
        }

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[int]:
        return iter(tuple(self._records))

    def show(self, record: SourceRecord) -> None:
        """Show the present state of a source."""
        former = self._records.get(record.number)
        self._records[record.number] = record
        cells: dict[int, bytes | None] = {
            column: counter64(record.counters.get(name, 0)) for column, name in self._counters.items()
        }
        cells |= {
            SourceColumn.NAME: text(record.name),
            SourceColumn.KIND: text(record.kind),
            SourceColumn.STATE: _SOURCE_STATES[record.state],
            SourceColumn.DETAIL: text(record.detail),
            SourceColumn.SINCE: known_time(record.since),
            SourceColumn.LAST_HEARD: known_time(record.last_received),
        }
        self._table.put((record.number,), cells)
        # Counts are written when they change; until then a new source would have holes.
        if former is None:
            self.count(record.number, 0, 0)
            self.count_alarms(record.number, 0, Severity.CLEARED)

    def count(self, source: int, rows: int, stale: int) -> None:
        """Show the numbers of rows of a source; a source that was not received yet is ignored."""
        if source in self._records:
            self._rows[source] = rows, stale
            self._table.put(
                (source,), {SourceColumn.ROWS: gauge32(rows), SourceColumn.STALE_ROWS: gauge32(stale)}
            )

    def count_alarms(self, source: int, active: int, worst: Severity) -> None:
        """Show the number and worst severity of a source's alarms; a source not received yet is ignored."""
        if source in self._records:
            self._table.put(
                (source,),
                {SourceColumn.ACTIVE_ALARMS: gauge32(active), SourceColumn.WORST_ALARM: SEVERITIES[worst]},
            )

    def name(self, source: int) -> str:
        """Return the configured name of a source; empty for one that was not received yet."""
        record = self._records.get(source)
        return record.name if record is not None else ""

    def number(self, name: str) -> int | None:
        """Return the number of the source with this configured name; ``None`` if there is none."""
        return next((number for number, record in self._records.items() if record.name == name), None)

    def records(self) -> Iterable[SourceRecord]:
        """Return the last record of each source."""
        return tuple(self._records.values())

    def rows(self) -> tuple[int, int]:
        """Return the numbers of rows and of stale rows of all sources."""
        counted = self._rows.values()
        return sum(rows for rows, _ in counted), sum(stale for _, stale in counted)

    def synchronised(self) -> int:
        """Return the number of sources in the state synchronised."""
        return sum(record.state is SourceState.SYNCHRONISED for record in self._records.values())

    def mark_unknown(self, detail: str, now: int) -> None:
        """Show the states of all sources as unknown, because the core cannot be reached."""
        # Only the cells change: alarms and notifications need the sources' names while the core is away.
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
        """Remove a source that is no longer configured."""
        del self._records[source]
        self._rows.pop(source, None)
        self._table.remove((source,))


class TargetTable:
    """agTargetTable, indexed by the receiver's name as configured.

    Args:
        store: the store in which the table is made.
        root: the configured root.
    """

    def __init__(self, store: Store, root: Oid) -> None:
        self._table = store.table((*root, *TARGET_ENTRY), tuple(TargetColumn))

    def add(self, name: str, address: str, kind: TargetKindNumber) -> None:
        """Add a receiver that has not been sent anything yet.

        Args:
            name: its configured name, 1 to 64 characters of ASCII.
            address: its address and port as text.
            kind: the kind of notification that it is sent.
        """
        self._table.put(
            _index(name),
            {TargetColumn.ADDRESS: text(address), TargetColumn.KIND: ber.encode_integer(kind)},
        )
        self.show(name, TargetHealth())

    def keep(self, names: Iterable[str]) -> None:
        """Remove all receivers but these."""
        kept = {_index(name) for name in names}
        for index in [index for index in self._table.indexes() if index not in kept]:
            self._table.remove(index)

    def show(self, name: str, health: TargetHealth) -> None:
        """Show the present state of a receiver. Raises ``KeyError`` for one that was not added."""
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
                TargetColumn.LAST_SENT: known_time(health.last_sent),
            },
        )


# Without a length in front: agTargetName is IMPLIED in the INDEX clause.
def _index(name: str) -> Oid:
    return tuple(name.encode("utf-8"))
