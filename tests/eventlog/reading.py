"""The records of a log, read from its files as strictly as possible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gateway.clock import Clock
from gateway.eventlog.segment import list_segments, read_segment

BEGIN = 1_795_183_506 * 10**9
"""2026-11-20T14:05:06Z."""


class HeldClock(Clock):
    """A clock that the test moves."""

    def __init__(self, now: int = BEGIN) -> None:
        self.time = now

    def now(self) -> int:
        """Nanoseconds since 1970-01-01 UTC."""
        return self.time


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The records of all segments, in order; nothing may be missing or twice between the first and the last.

    Each segment is of one hour and goes forward in time.
    """
    records: list[dict[str, Any]] = []
    for segment in list_segments(folder):
        found = [json.loads(line) for block in read_segment(segment) for line in block.split()]
        times = [record["ingest_ts"] for record in found]
        assert times == sorted(times), segment
        assert len({time[:13] for time in times}) <= 1, segment
        records += found
    assert [record["seq"] for record in records] == list(
        range(records[0]["seq"], records[0]["seq"] + len(records))
    )
    assert len({record["log_id"] for record in records}) == 1
    return records


def of_kind(records: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the records of one kind."""
    return [record for record in records if record["kind"] == kind]


def reasons(records: list[dict[str, Any]]) -> list[str]:
    """Return the reasons for which the segments began, in order."""
    return [record["values"]["why"] for record in of_kind(records, "start")]


def numbers(records: list[dict[str, Any]]) -> list[int]:
    """Return the numbers that `tests.eventlog.records.update` was given, in order."""
    return [record["values"]["messagesReady"] for record in of_kind(records, "update")]
