"""The whole benchmark with small counts: every row is present; no speed is asserted."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bench.__main__ import main

ROWS = {
    *("am01-decode", "am2-decode", "am2-encode", "ami-decode", "cml-decode", "cml-encode", "cml-poll"),
    *("protected-receive", "protected-send"),
}


def test_every_row_is_measured_beside_its_peer(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert main(["dialects", "--quick", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert {row["name"] for row in rows} >= ROWS
    assert {row["peer_name"] for row in rows if not row["name"].startswith("protected")} == {"yardstick"}
    assert {row["peer_name"] for row in rows if row["name"].startswith("protected")} == {"plain"}
    assert all(len(row["runs"]) == 2 for row in rows)
    assert all(row["ours"] > 0 and row["peer"] > 0 for row in rows)
