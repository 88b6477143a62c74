"""The names of files in the lake: the path for a segment's file, and the recognition of our files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from gateway.eventlog.segment import lake_file, lake_files

NAME = "0b0e6c2e-1111-4222-8333-444455556666-00000000000000000007.parquet"


def test_a_file_lies_in_the_hour_of_utc() -> None:
    ingested = dt.datetime(2026, 11, 21, 0, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    file = lake_file(Path("log"), "0b0e6c2e-1111-4222-8333-444455556666", 7, ingested)
    assert file.path == Path("log/lake/dt=2026-11-20/hour=22") / NAME
    assert file.hour == dt.datetime(2026, 11, 20, 22, tzinfo=dt.UTC)


def test_what_is_named_is_found_again_by_log_and_seq(tmp_path: Path) -> None:
    hour = dt.datetime(2026, 11, 20, 8, tzinfo=dt.UTC)
    files = [lake_file(tmp_path, log, seq, hour) for log, seq in (("a", 1), ("a-b", 3), ("a-b", 10))]
    for file in reversed(files):
        file.path.parent.mkdir(parents=True, exist_ok=True)
        file.path.touch()
    assert lake_files(tmp_path) == files


@pytest.mark.parametrize(
    "path",
    [
        f".tmp-abc/hour=08/{NAME}",
        f"dt=2026-11-20/{NAME}",
        f"dt=2026-13-20/hour=08/{NAME}",
        f"dt=2026-11-20/hour=24/{NAME}",
        f"dt=2026-11-20/hour=8/{NAME}",
        "dt=2026-11-20/hour=08/other.parquet",
        f"dt=2026-11-20/hour=08/.{NAME}",
        f"dt=2026-11-20/hour=08/{NAME}.tmp",
    ],
)
def test_what_is_named_otherwise_is_passed_over(tmp_path: Path, path: str) -> None:
    file = tmp_path / "lake" / path
    file.parent.mkdir(parents=True)
    file.touch()
    assert lake_files(tmp_path) == []


def test_no_lake_has_no_files(tmp_path: Path) -> None:
    assert lake_files(tmp_path) == []
