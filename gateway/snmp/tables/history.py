"""The history: objects that have ended (agDeletedTable), and operations of users (agOperationTable).

Each snapshot of the feed repeats the last rows of both tables; rows that it leaves out are removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from gateway.feed.latest import HistoryLimits, Latest
from gateway.feed.operations import OperationRecord
from gateway.feed.records import DeleteRecord
from gateway.feed.values import FeedValue, ObjectLink, as_json
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import (
    counter64,
    date_and_time,
    gauge32,
    gauge32_derivation,
    gauge64,
    known_time,
    text,
    truth,
)
from gateway.snmp.fixed_mib import (
    DELETED,
    DELETED_ENTRY,
    OPERATION_ENTRY,
    OPERATIONS,
    DeletedColumn,
    DeletedScalar,
    OperationColumn,
    OperationKindNumber,
    OperationScalar,
    OperationStateNumber,
    OutcomeNumber,
)
from gateway.snmp.store import Store
from gateway.snmp.syntax import MAX_JSON_OCTETS
from gateway.snmp.table import Table
from gateway.snmp.tables.rows import LIFETIMES

_INDEXES = 2**31 - 1
_INTEGER32 = range(-(2**31), 2**31)

RowOid: TypeAlias = Callable[[ObjectLink, int], Oid]
"""Returns the object identifier of the row that an object of a source has or had; zeroDotZero without one."""


class LatestRows:
    """The latest rows of a table, in the order of their arrival.

    Args:
        table: a table with one index, which ascends until the numbering starts again.
        most: the maximum number of rows of each source: a further row removes the source's oldest one.
        octets: the maximum size of the values in the rows of one source together.

    Attributes:
        unswept: the indexes of rows that `settle` has to check.
    """

    def __init__(self, table: Table, most: int, octets: int) -> None:
        self._table = table
        self._latest: Latest[int] = Latest(most, octets)
        self._sources: dict[int, int] = {}
        self._ids: dict[int, str] = {}
        self._generations: dict[int, int] = {}  # in the order in which the rows came
        self.unswept: list[int] = []
        self._swept = 0
        self._last = 0
        self._ever = 0

    def serve(self, store: Store, count: Oid, last: Oid, ever: Oid) -> None:
        """Serve the number of rows, the index that came last, and the number of all rows that ever came."""
        store.scalar((*count, 0), lambda: gauge32(len(self._generations)))
        store.scalar((*last, 0), lambda: ber.encode_integer(self._last))
        store.scalar((*ever, 0), lambda: counter64(self._ever))

    def knows(self, index: int, identity: str) -> bool:
        """Return whether there is a row with this index, of the subject of this identity."""
        return index in self._generations and self._ids.get(index) == identity

    def put(
        self, source: int, index: int, identity: str, cells: Mapping[int, bytes | None], generation: int
    ) -> None:
        """Show the present state of a row that this snapshot, or a message since, contained.

        Args:
            source: the number of its source.
            index: the index of the row.
            identity: the identity of its subject; another one at the same index is another row.
            cells: all cells of the row.
            generation: the number of the snapshot.
        """
        # An operation is shown several times, as it goes on; the core that restarted gives its index to
        # another.
        if self._ids.get(index) != identity:
            self._leave(index)
            self._ids[index], self._sources[index] = identity, source
            self._last = index
            self._ever += 1
        self._generations[index] = generation
        self._table.put((index,), cells)
        for left in self._latest.put(
            self._sources[index], index, sum(map(len, filter(None, cells.values())))
        ):
            self._remove(left)

    def confirm(self, index: int, generation: int) -> None:
        """Record that this snapshot contains a row that has not changed."""
        self._generations[index] = generation

    def sweep(self, generation: int) -> None:
        """Have `settle` remove the rows that this whole snapshot did not contain."""
        self._swept = generation
        self.unswept = [index for index, last in self._generations.items() if last < generation]

    def settle(self, limit: int) -> None:
        """Remove up to ``limit`` rows that the last snapshot did not contain."""
        indexes, self.unswept = self.unswept[:limit], self.unswept[limit:]
        for index in indexes:
            if self._generations.get(index, self._swept) < self._swept:
                self._remove(index)

    def _remove(self, index: int) -> None:
        self._leave(index)
        self._table.remove((index,))

    def _leave(self, index: int) -> None:
        if self._ids.pop(index, None) is not None:
            self._latest.remove(self._sources.pop(index), index)
            del self._generations[index]


class EndedObjects:
    """agDeletedTable.

    Args:
        store: the store in which it is made.
        root: the configured root.
        row_oid: returns the object identifiers of objects' rows.
        limits: the limits of the rows of each source.

    Attributes:
        rows: its rows.
    """

    def __init__(self, store: Store, root: Oid, row_oid: RowOid, limits: HistoryLimits) -> None:
        self._row_oid = row_oid
        table = store.table(
            (*root, *DELETED_ENTRY),
            [column for column in DeletedColumn if column is not DeletedColumn.DURATION_MILLISECONDS],
            {DeletedColumn.DURATION_MILLISECONDS: gauge32_derivation(DeletedColumn.DURATION, "milliseconds")},
            source_column=DeletedColumn.SOURCE,
        )
        self.rows = LatestRows(table, limits.ends, limits.octets)
        base = (*root, *DELETED)
        self.rows.serve(
            store, (*base, DeletedScalar.COUNT), (*base, DeletedScalar.LAST), (*base, DeletedScalar.TOLD)
        )

    def object_ended(
        self, record: DeleteRecord, class_name: str, generation: int, *, is_named: bool = True
    ) -> None:
        """Show the end of an object that this snapshot, or a message since, contained.

        Args:
            record: the record of the feed; one without a number has no row here.
            class_name: ``package:class``; empty where it is not known.
            generation: the number of the snapshot.
            is_named: the names of the object are shown.
        """
        if record.number <= 0 or not class_name:
            return
        # Ends never change. A core that died while its disk took nothing gave numbers that are given again.
        identity = f"{record.received}"
        if self.rows.knows(record.number, identity):
            self.rows.confirm(record.number, generation)
            return
        row = self._row_oid(ObjectLink(class_name, record.row, record.stable_name), record.source)
        cells = _end_cells(record, class_name, row)
        if not is_named:
            cells |= dict.fromkeys((DeletedColumn.NAME, DeletedColumn.FULL_NAME, DeletedColumn.NATIVE_ID))
        self.rows.put(record.source, record.number, identity, cells, generation)


class Operations:
    """agOperationTable.

    Args:
        store: the store in which it is made.
        root: the configured root.
        row_oid: returns the object identifiers of objects' rows.
        limits: the limits of the rows of each source.

    Attributes:
        rows: its rows.
    """

    def __init__(self, store: Store, root: Oid, row_oid: RowOid, limits: HistoryLimits) -> None:
        self._row_oid = row_oid
        table = store.table(
            (*root, *OPERATION_ENTRY),
            [column for column in OperationColumn if column is not OperationColumn.DURATION_MILLISECONDS],
            {
                OperationColumn.DURATION_MILLISECONDS: gauge32_derivation(
                    OperationColumn.DURATION, "milliseconds"
                )
            },
            source_column=OperationColumn.SOURCE,
        )
        self.rows = LatestRows(table, limits.operations, limits.octets)
        base = (*root, *OPERATIONS)
        self.rows.serve(
            store,
            (*base, OperationScalar.COUNT),
            (*base, OperationScalar.LAST),
            (*base, OperationScalar.TOLD),
        )

    def operation_changed(
        self, record: OperationRecord, generation: int, hidden: Iterable[OperationColumn] = ()
    ) -> None:
        """Show the present state of an operation, without some columns.

        A core that was restarted numbers from 1 again.
        """
        link = ObjectLink(record.class_name, record.row, record.stable_name)
        cells = _operation_cells(record, self._row_oid(link, record.source)) | dict.fromkeys(hidden)
        # INDEX is Integer32 (1..2147483647): a core that runs for that long begins again at 1.
        index = (record.number - 1) % _INDEXES + 1
        self.rows.put(record.source, index, record.operation_id, cells, generation)


class History:
    """The tables of ended objects and of operations, of every view.

    Attributes:
        unsettled: whether `settle` has rows left to check.
    """

    def __init__(self) -> None:
        self.unsettled = False
        self.tables: dict[LatestRows, None] = {}

    def sweep(self, generation: int) -> None:
        """Have `settle` remove the rows that this whole snapshot did not contain."""
        for rows in self.tables:
            rows.sweep(generation)
        self.unsettled = True

    def settle(self, limit: int) -> None:
        """Remove up to ``limit`` rows of each table that the last snapshot did not contain."""
        for rows in self.tables:
            rows.settle(limit)
        self.unsettled = any(rows.unswept for rows in self.tables)


def _end_cells(record: DeleteRecord, class_name: str, row: Oid) -> dict[int, bytes | None]:
    lived = record.deleted - record.created if record.deleted and record.created else -1
    return {
        DeletedColumn.SOURCE: ber.encode_integer(record.source),
        DeletedColumn.CLASS: text(class_name),
        DeletedColumn.NAME: text(record.leaf_name),
        DeletedColumn.FULL_NAME: text(record.stable_name),
        DeletedColumn.ROW: ber.encode_oid(row),
        DeletedColumn.NATIVE_ID: text(record.native_id),
        DeletedColumn.LIFETIME: LIFETIMES[record.lifetime],
        DeletedColumn.CREATED: known_time(record.created),
        DeletedColumn.DELETED: known_time(record.deleted),
        DeletedColumn.HEARD: known_time(record.received),
        DeletedColumn.INFERRED: truth(record.inferred),
        DeletedColumn.DURATION: gauge64(lived) if lived >= 0 else None,
    }


def _operation_cells(record: OperationRecord, row: Oid) -> dict[int, bytes | None]:
    outcome, code = record.outcome, record.code
    lasted = record.ended - record.began if record.ended else -1
    return {
        OperationColumn.ID: text(record.operation_id),
        OperationColumn.PRINCIPAL: text(str(record.principal)),
        OperationColumn.ORIGIN: text(record.principal.origin),
        OperationColumn.SOURCE: ber.encode_integer(record.source),
        OperationColumn.CLASS: text(record.class_name),
        OperationColumn.NAME: text(record.leaf_name),
        OperationColumn.FULL_NAME: text(record.stable_name),
        OperationColumn.ROW: ber.encode_oid(row),
        OperationColumn.KIND: ber.encode_integer(OperationKindNumber[record.kind.name]),
        OperationColumn.METHOD: text(record.method),
        OperationColumn.VALUES: _json({**record.values, **dict.fromkeys(record.absent)}),
        OperationColumn.STATE: ber.encode_integer(OperationStateNumber[record.state.name]),
        OperationColumn.OUTCOME: None if outcome is None else ber.encode_integer(OutcomeNumber[outcome.name]),
        OperationColumn.ELEMENT: text(record.element),
        OperationColumn.CODE: ber.encode_integer(code) if code is not None and code in _INTEGER32 else None,
        OperationColumn.TEXT: text(record.text),
        OperationColumn.BEGAN: date_and_time(record.began),
        OperationColumn.ENDED: known_time(record.ended),
        OperationColumn.DURATION: gauge64(lasted) if lasted >= 0 else None,
        OperationColumn.FORMER: _json(record.previous),
        OperationColumn.FOUND: _json(record.found),
    }


def _json(values: Mapping[str, FeedValue | None]) -> bytes:
    """Return a JSON text in ASCII; an empty one where it is too long, because half of it misleads."""
    try:
        # A peer's values may be nested too deeply, or be no JSON at all.
        octets = json.dumps(as_json(values), separators=(",", ":"), sort_keys=True).encode("ascii")
    except (RecursionError, ValueError, TypeError):
        octets = b""
    return ber.encode_octets(octets if len(octets) <= MAX_JSON_OCTETS else b"")
