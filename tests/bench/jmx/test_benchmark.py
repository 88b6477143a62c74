"""The whole benchmark with small counts: every row is present; no speed is asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.__main__ import main

ROWS = ["getAttribute", "getAttribute-busy", "getAttributes12", "push", "register"]


@pytest.mark.prove
def test_every_row_is_measured_beside_native_mxbeans(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert main(["jmx", "--quick", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert sorted(row["name"] for row in rows) == ROWS
    assert {row["peer_name"] for row in rows} == {"native-mxbean"}
    assert all(len(row["runs"]) == 2 for row in rows)
    assert all(row["ours"] > 0 and row["peer"] > 0 for row in rows)
