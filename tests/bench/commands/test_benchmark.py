"""The whole benchmark with small counts: every row is present; no time is asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.__main__ import main


@pytest.mark.prove
def test_every_command_is_measured_beside_the_interpreter(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert main(["commands", "--quick", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert sorted(row["name"] for row in rows) == ["check", "get", "health"]
    assert {row["peer_name"] for row in rows} == {"interpreter"}
