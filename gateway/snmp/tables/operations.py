"""agOperationTable: what users had done lately, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gateway.feed.json_values import as_json
from gateway.feed.operations import OperationRecord
from gateway.feed.values import FeedValue
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import counter64, date_and_time, gauge32, gauge64, text
from gateway.snmp.fixed_mib import (
    OPERATION_ENTRY,
    OPERATIONS,
    OperationColumn,
    OperationKindNumber,
    OperationScalar,
    OperationStateNumber,
    OutcomeNumber,
)
from gateway.snmp.store import Store
from gateway.snmp.syntax import MAX_JSON_OCTETS

MAX_OPERATIONS = 1_000
"""Rows of the table: when one more comes, the oldest leaves."""

_INDEXES = 2**31 - 1
_INTEGER32 = range(-(2**31), 2**31)


class OperationTable:
    """The table and its scalars in the store.

    Args:
        store: where they are made.
        root: the configured root.
    """

    def __init__(self, store: Store, root: Oid) -> None:
        self._table = store.table((*root, *OPERATION_ENTRY), tuple(OperationColumn))
        self._generations: dict[int, int] = {}  # of each row, in the order in which they came
        self._ids: dict[int, str] = {}
        self._unswept: list[int] = []
        self._swept = 0
        self._last = 0
        self._told = 0
        base = (*root, *OPERATIONS)
        store.scalar((*base, OperationScalar.COUNT, 0), lambda: gauge32(len(self._generations)))
        store.scalar((*base, OperationScalar.LAST, 0), lambda: ber.encode_integer(self._last))
        store.scalar((*base, OperationScalar.TOLD, 0), lambda: counter64(self._told))

    def tell(self, record: OperationRecord, row: Oid, generation: int) -> None:
        """An operation on an object that has ``row``, as it is now; or that it is still told."""
        index = (record.number - 1) % _INDEXES + 1
        if self._ids.get(index) != record.operation_id:  # a core that was started again numbers anew
            self._generations.pop(index, None)
            self._ids[index] = record.operation_id
            self._last = index
            self._told += 1
        self._generations[index] = generation
        self._table.put((index,), _cells(record, row))
        if len(self._generations) > MAX_OPERATIONS:
            self._remove(next(iter(self._generations)))

    def sweep(self, generation: int) -> None:
        """What this whole snapshot did not tell is to leave: see to it with `settle`."""
        self._swept = generation
        self._unswept = [index for index, told in self._generations.items() if told < generation]

    def settle(self, limit: int) -> None:
        """Take up to ``limit`` rows away that are to leave."""
        indexes, self._unswept = self._unswept[:limit], self._unswept[limit:]
        for index in indexes:
            if self._generations.get(index, self._swept) < self._swept:
                self._remove(index)

    @property
    def unsettled(self) -> bool:
        """Whether `settle` has something left to do."""
        return bool(self._unswept)

    def _remove(self, index: int) -> None:
        del self._generations[index], self._ids[index]
        self._table.remove((index,))


def _cells(record: OperationRecord, row: Oid) -> dict[int, bytes | None]:
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
        OperationColumn.VALUES: _json(record.values),
        OperationColumn.STATE: ber.encode_integer(OperationStateNumber[record.state.name]),
        OperationColumn.OUTCOME: None if outcome is None else ber.encode_integer(OutcomeNumber[outcome.name]),
        OperationColumn.ELEMENT: text(record.element),
        OperationColumn.CODE: ber.encode_integer(code) if code is not None and code in _INTEGER32 else None,
        OperationColumn.TEXT: text(record.text),
        OperationColumn.BEGAN: date_and_time(record.began),
        OperationColumn.ENDED: date_and_time(record.ended) if record.ended else None,
        OperationColumn.DURATION: gauge64(lasted) if lasted >= 0 else None,
        OperationColumn.FORMER: _json(record.former),
        OperationColumn.FOUND: _json(record.found),
    }


def _json(values: Mapping[str, FeedValue | None]) -> bytes:
    """JSON text in ASCII; nothing where it is too long, because half of it misleads."""
    try:
        octets = json.dumps(as_json(values), separators=(",", ":"), sort_keys=True).encode("ascii")
    except (RecursionError, ValueError, TypeError):
        octets = b""
    return ber.encode_octets(octets if len(octets) <= MAX_JSON_OCTETS else b"")
