"""What the compactor counts. The supervisor reports it while no compactor runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.service.metrics import families
from gateway.service.metrics.readings import Reading


@dataclass(slots=True)
class CompactionCounts:
    """The counts of one compactor.

    Attributes:
        waiting: segments that wait.
        segments: that were compacted.
        damaged: of these, set aside because not all in them is whole.
        records: that went to the lake.
        octets: of the segments.
        file_octets: of the files that they became.
        failures: times that it could not be done.
    """

    waiting: int = 0
    segments: int = 0
    damaged: int = 0
    records: int = 0
    octets: int = 0
    file_octets: int = 0
    failures: int = 0

    def readings(self) -> Iterator[Reading]:
        """For the metrics."""
        yield families.COMPACTION_WAITING.at(self.waiting)
        yield families.COMPACTION_SEGMENTS.at(self.segments)
        yield families.COMPACTION_DAMAGED.at(self.damaged)
        yield families.COMPACTION_RECORDS.at(self.records)
        yield families.COMPACTION_READ.at(self.octets)
        yield families.COMPACTION_WRITTEN.at(self.file_octets)
        yield families.COMPACTION_FAILURES.at(self.failures)
