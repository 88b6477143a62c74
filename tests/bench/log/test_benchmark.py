"""The whole benchmark with small counts: every row is present; no speed is asserted."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.eventlog.record import RecordKind
from tests.bench.__main__ import main
from tests.bench.log.workload import COUNTERS, GAUGES, Workload

ROWS = [
    ("append", "raw-fdatasync"),
    ("append", "sqlite-wal"),
    ("compact", "duckdb"),
    ("recover", "sqlite-wal"),
    ("recover", "yardstick"),
]


def test_every_row_is_measured_beside_its_peers(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert main(["log", "--quick", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert sorted((row["name"], row["peer_name"]) for row in rows) == ROWS
    assert all(len(row["runs"]) == 2 for row in rows)
    assert all(row["ours"] > 0 and row["peer"] > 0 for row in rows)


def test_each_update_of_the_workload_changes_all_statistics() -> None:
    workload = Workload(queues=3, step=10**9)
    workload.begin()
    first, *others = workload.updates(4)
    assert len(others) == 11
    for record in (first, *others):
        assert record.kind is RecordKind.UPDATE
        assert record.values is not None
        assert list(record.values) == [*GAUGES, *COUNTERS]
        assert record.deltas is not None
        assert list(record.deltas) == list(COUNTERS)
    assert first.ingest_ts < others[-1].ingest_ts
