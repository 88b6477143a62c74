"""The report as files: for other programs, and to be kept."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from gateway.analytics.reports.answers import Report


def write(report: Report, folder: Path) -> list[Path]:
    """Write ``report.json`` and a CSV file for each table; returns the files.

    Raises:
        OSError: a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plain = report.as_json()
    whole = folder / "report.json"
    whole.write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
    names = [table.name for table in report.tables]
    return [whole, *(_write_table(report, name, folder / f"{name}.csv") for name in names)]


def _write_table(report: Report, name: str, file: Path) -> Path:
    rows = report.plain_rows(name)
    # Rows may hold more than people are shown.
    names = list(rows[0]) if rows else [column.name for column in report.table(name).columns]
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, fieldnames=names)
        writer.writeheader()
        writer.writerows(rows)
    return file
