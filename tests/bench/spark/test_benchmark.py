"""The whole benchmark with small counts: every row is present; no speed is asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.__main__ import main

pytestmark = pytest.mark.xdist_group("spark")  # two of them at a time would only take longer


@pytest.mark.prove
def test_batches_are_measured_beside_duckdb_and_find_the_same(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert main(["spark", "--quick", "--rounds", "1", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert [(row["name"], row["peer_name"]) for row in rows] == [
        ("silver-batch", "duckdb"),
        ("gold-batch", "duckdb"),
    ]
    assert all(row["ours"] > 0 and row["peer"] > 0 for row in rows)
