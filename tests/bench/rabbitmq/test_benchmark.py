"""The whole benchmark with small counts: every row is present; no cost is asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.__main__ import main


@pytest.mark.prove
def test_every_side_watches_every_broker(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert main(["rabbitmq", "--quick", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert sorted({row["name"] for row in rows}) == ["age10", "cpu0", "cpu10"]
    cpu = {row["peer_name"] for row in rows if row["name"] == "cpu10"}
    assert cpu == {"paged-listing", "prometheus", "management-page", "unwatched"}
    assert {row["peer_name"] for row in rows if row["name"] == "age10"} == {"paged-listing"}
