"""agSourceTable: each configured source, how far it can be believed, and what has come from it."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.feed.records import SourceRecord
from gateway.model.events import Severity
from gateway.model.observations import SourceState
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import counter64, date_and_time, gauge32, text
from gateway.snmp.fixed_mib import SOURCE_ENTRY, SourceColumn, SourceStateNumber
from gateway.snmp.severities import SEVERITIES
from gateway.snmp.store import Store

_STATES = {state: ber.encode_integer(SourceStateNumber[state.name]) for state in SourceState}
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
            SourceColumn.STATE: _STATES[record.state],
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
