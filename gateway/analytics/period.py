"""Which part of the log is meant: a stretch of the gateway's time."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name it has wherever Spark is written


@dataclass(frozen=True, slots=True)
class Period:
    """From ``begin`` to before ``end``, by ``ingest_ts``; both have a time zone."""

    begin: dt.datetime
    end: dt.datetime

    def __post_init__(self) -> None:
        assert self.begin.tzinfo is not None
        assert self.end.tzinfo is not None
        assert self.begin <= self.end

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (self.end - self.begin).total_seconds()

    def holds(self, time: str = "ingest_ts") -> Column:
        """Whether the column ``time`` is in it."""
        return (F.col(time) >= F.lit(self.begin)) & (F.col(time) < F.lit(self.end))

    def may_hold_hour(self) -> Column:
        """Whether an hour of the lake (``dt``, ``hour``) meets it; read from folder names, without a file."""
        first, last = self.begin.astimezone(dt.UTC), self.end.astimezone(dt.UTC)
        day, hour = F.col("dt"), F.col("hour")
        begun = (day > F.lit(first.date())) | ((day == F.lit(first.date())) & (hour >= first.hour))
        not_over = (day < F.lit(last.date())) | ((day == F.lit(last.date())) & (hour <= last.hour))
        return begun & not_over
