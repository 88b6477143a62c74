"""The whole benchmark with small counts: every row is present; no time is asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.__main__ import main
from tests.bench.latency.benchmark import percentile

ROWS = ["latency", "latency-jmx", "latency-log", "latency-snmp", "latency-trap"]


@pytest.mark.prove
def test_every_front_end_is_measured_beside_the_yardstick(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert main(["latency", "--quick", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert sorted(row["name"] for row in rows) == ROWS
    assert {row["peer_name"] for row in rows} == {"yardstick"}
    assert all(len(row["runs"]) == 2 for row in rows)
    assert all(row["ours"] > 0 and row["peer"] > 0 for row in rows)


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(200, 0, -1)]
    assert percentile(values, 99) == 198.0
    assert percentile(values, 100) == 200.0
    assert percentile([7.0], 99) == 7.0
