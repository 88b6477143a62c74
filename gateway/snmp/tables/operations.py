"""agOperationTable: what users had done lately, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gateway.feed.json_values import as_json
from gateway.feed.latest import HistoryLimits
from gateway.feed.operations import OperationRecord
from gateway.feed.values import FeedValue
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import date_and_time, gauge64, text
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
from gateway.snmp.tables.latest_rows import LatestRows

_INDEXES = 2**31 - 1
_INTEGER32 = range(-(2**31), 2**31)


class OperationTable:
    """The table and its scalars in the store.

    Args:
        store: where they are made.
        root: the configured root.
        limits: of the rows of each source.

    Attributes:
        rows: to be swept after a snapshot. A core that was started again numbers again.
    """

    def __init__(self, store: Store, root: Oid, limits: HistoryLimits) -> None:
        table = store.table((*root, *OPERATION_ENTRY), tuple(OperationColumn))
        self.rows = LatestRows(table, limits.operations, limits.octets)
        base = (*root, *OPERATIONS)
        self.rows.serve(
            store,
            (*base, OperationScalar.COUNT),
            (*base, OperationScalar.LAST),
            (*base, OperationScalar.TOLD),
        )

    def tell(self, record: OperationRecord, row: Oid, generation: int) -> None:
        """An operation on an object that has ``row``, as it is now; or that it is still told."""
        index = (record.number - 1) % _INDEXES + 1
        self.rows.put(record.source, index, record.operation_id, _cells(record, row), generation)


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
        OperationColumn.VALUES: _json({**record.values, **dict.fromkeys(record.absent)}),
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
