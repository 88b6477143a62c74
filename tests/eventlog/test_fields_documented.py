"""``docs/event-log.md`` describes every kind of record and every field, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.eventlog.parquet import COLUMNS
from gateway.eventlog.record import RecordKind

PAGE = (Path(__file__).parents[2] / "docs" / "event-log.md").read_text(encoding="utf-8")


def first_cells(heading: str) -> list[str]:
    """Return the names in the first column of a section's table, in order."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_every_kind_of_record() -> None:
    assert sorted(first_cells("What is recorded")) == sorted(RecordKind)


def test_every_field_in_the_order_of_the_columns() -> None:
    assert first_cells("Fields") == list(COLUMNS)
