"""Where the Parquet files of the log lie, and what their names say.

``lake/dt=YYYY-MM-DD/hour=HH/LOG_ID-FIRST_SEQ.parquet``: day and hour, in UTC, of the ``ingest_ts`` of all its
records; the seq of the first one with twenty digits, as in the name of the segment that it was made of.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LAKE: Final = "lake"
"""The folder in that of the log."""

DRAFTS: Final = ".tmp-"
"""How the names of unfinished files begin; readers of any kind pass over hidden ones."""

_NAME: Final = re.compile(r"(?P<log_id>.+)-(?P<first>\d{20})\.parquet", re.DOTALL)
_DAY: Final = re.compile(r"dt=(\d{4}-\d{2}-\d{2})")
_HOUR: Final = re.compile(r"hour=([01]\d|2[0-3])")


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A Parquet file of the lake.

    Attributes:
        path: of the file.
        log_id: of the log whose records it holds.
        first_seq: of its first record.
        hour: its day and hour, UTC.
    """

    path: Path
    log_id: str
    first_seq: int
    hour: dt.datetime


def lake_file(folder: Path, log_id: str, first_seq: int, ingested: dt.datetime) -> LakeFile:
    """The file for the segment that begins with ``first_seq``.

    Args:
        folder: of the log.
        log_id: of the log.
        first_seq: of the segment.
        ingested: when any of its records was ingested; with a time zone.
    """
    hour = ingested.astimezone(dt.UTC).replace(minute=0, second=0, microsecond=0)
    name = f"{log_id}-{first_seq:020}.parquet"
    return LakeFile(
        folder / LAKE / f"dt={hour.date().isoformat()}" / f"hour={hour:%H}" / name, log_id, first_seq, hour
    )


def lake_files(folder: Path) -> list[LakeFile]:
    """All files of the lake by log and seq; none where there is no lake.

    What is named otherwise is none of ours and is passed over, and so are drafts. A folder that goes while it
    is listed has no files.

    Raises:
        OSError: a folder cannot be listed.
    """
    found = [file for day in _entries(folder / LAKE) for hour in _entries(day) for file in _files(day, hour)]
    return sorted(found, key=lambda file: (file.log_id, file.first_seq))


def _files(day: Path, hour: Path) -> Iterator[LakeFile]:
    begins = _hour_of(day.name, hour.name)
    if begins is None:
        return
    for path in _entries(hour):
        name = _NAME.fullmatch(path.name)
        if name and not path.name.startswith("."):
            yield LakeFile(path, name["log_id"], int(name["first"]), begins)


def _hour_of(day: str, hour: str) -> dt.datetime | None:
    found_day, found_hour = _DAY.fullmatch(day), _HOUR.fullmatch(hour)
    if found_day is None or found_hour is None:
        return None
    try:
        date = dt.date.fromisoformat(found_day[1])
    except ValueError:
        return None
    return dt.datetime.combine(date, dt.time(int(found_hour[1])), dt.UTC)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
