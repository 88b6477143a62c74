"""Coverage: the available records of each log as stretches of ``seq``, and missing or duplicate ones.

A log's ``seq`` goes on without holes, so a few stretches describe millions of records. That makes "each
record once" cheap: no state and no shuffle by record is needed where files do not overlap.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812


@dataclass(frozen=True, order=True, slots=True)
class Stretch:
    """All records of one log from ``first`` to ``last``, both included."""

    log_id: str
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class FileContents:
    """The contents of a file: ``stretches`` of a log, and the number of ``records``, duplicates included."""

    file: str
    stretches: tuple[Stretch, ...]
    records: int


def contents(records: DataFrame, file: str = "file") -> list[FileContents]:
    """Return the contents of each file; reads ``log_id``, ``seq`` and the column ``file`` of all records."""
    files = (
        records.groupBy("log_id", file)
        .agg(F.min("seq").alias("first"), F.max("seq").alias("last"), F.count("seq").alias("n"))
        .collect()
    )
    # Nearly no file has holes or repetitions: only of these each record is looked at.
    broken = [row[file] for row in files if row["n"] != row["last"] - row["first"] + 1]
    islands = _islands(records.where(F.col(file).isin(broken)), file) if broken else {}
    return [
        FileContents(
            row[file],
            islands.get((row["log_id"], row[file]), (Stretch(row["log_id"], row["first"], row["last"]),)),
            row["n"],
        )
        for row in files
    ]


def _islands(records: DataFrame, file: str) -> dict[tuple[str, str], tuple[Stretch, ...]]:
    """Return the stretches of files with holes in them, or with the same record twice."""
    order = Window.partitionBy("log_id", file).orderBy("seq")
    islands = (
        # Records without a hole between them have the same distance to their ranks; dense, so that copies
        # share one.
        records.select("log_id", file, "seq", (F.col("seq") - F.dense_rank().over(order)).alias("island"))
        .groupBy("log_id", file, "island")
        .agg(F.min("seq").alias("first"), F.max("seq").alias("last"))
        .collect()
    )
    found: dict[tuple[str, str], tuple[Stretch, ...]] = {}
    for row in islands:
        place = (row["log_id"], row[file])
        found[place] = (*found.get(place, ()), Stretch(row["log_id"], row["first"], row["last"]))
    return found


def union(all_stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return the same records in as few stretches as there can be, in order."""
    merged: list[Stretch] = []
    for stretch in sorted(all_stretches):
        before = merged[-1] if merged else None
        if before is not None and before.log_id == stretch.log_id and stretch.first <= before.last + 1:
            merged[-1] = Stretch(before.log_id, before.first, max(before.last, stretch.last))
        else:
            merged.append(stretch)
    return merged


def without(all_stretches: Iterable[Stretch], taken: Iterable[Stretch]) -> list[Stretch]:
    """Return those records of ``all_stretches`` that are not in ``taken``."""
    left: list[Stretch] = []
    gone = union(taken)
    for stretch in union(all_stretches):
        first = stretch.first
        for other in gone:
            if other.log_id == stretch.log_id and other.first <= stretch.last and other.last >= first:
                if other.first > first:
                    left.append(Stretch(stretch.log_id, first, other.first - 1))
                first = other.last + 1
        if first <= stretch.last:
            left.append(Stretch(stretch.log_id, first, stretch.last))
    return left


def holes(all_stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return the stretches that are missing between the first and the last record of each log."""
    merged = union(all_stretches)
    return [
        Stretch(before.log_id, before.last + 1, after.first - 1)
        for before, after in pairwise(merged)
        if before.log_id == after.log_id
    ]


def size(all_stretches: Iterable[Stretch]) -> int:
    """Return the number of records, each counted once."""
    return sum(len(stretch) for stretch in union(all_stretches))


def among(wanted: Sequence[Stretch]) -> Column:
    """Return the condition that a record is of one of these stretches."""
    conditions = [
        (F.col("log_id") == stretch.log_id) & F.col("seq").between(stretch.first, stretch.last)
        for stretch in wanted
    ]
    return reduce(lambda one, other: one | other, conditions, F.lit(False))


@dataclass(frozen=True, slots=True)
class Period:
    """A period from ``begin`` to before ``end``, by ``ingest_ts``; both have a time zone."""

    begin: dt.datetime
    end: dt.datetime

    def __post_init__(self) -> None:
        assert self.begin.tzinfo is not None
        assert self.end.tzinfo is not None
        assert self.begin <= self.end

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return (self.end - self.begin).total_seconds()

    def holds(self, time: str = "ingest_ts") -> Column:
        """Return the condition that the column ``time`` is in the period."""
        return (F.col(time) >= F.lit(self.begin)) & (F.col(time) < F.lit(self.end))

    def may_hold_hour(self) -> Column:
        """Return the condition that an hour of the lake meets the period; only folder names are read."""
        first, last = self.begin.astimezone(dt.UTC), self.end.astimezone(dt.UTC)
        day, hour = F.col("dt"), F.col("hour")
        begun = (day > F.lit(first.date())) | ((day == F.lit(first.date())) & (hour >= first.hour))
        not_over = (day < F.lit(last.date())) | ((day == F.lit(last.date())) & (hour <= last.hour))
        return begun & not_over
