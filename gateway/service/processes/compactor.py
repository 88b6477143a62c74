"""The compactor: makes Parquet of the event log's complete segments, out of everybody's way."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import structlog

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.eventlog.compaction import (
    Compacted,
    CompactionBusyError,
    CompactionError,
    Compactor,
    compactable,
)
from gateway.eventlog.segment import Segment, list_segments
from gateway.service.metrics import families
from gateway.service.metrics.readings import Reading
from gateway.service.processes.lifeline import Lifeline
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

POLL_SECONDS = 2.0
LAST_RETRY_SECONDS = 300.0

NICENESS = 10
"""Who reads the log can wait; who asks by SNMP or JMX should not."""


async def run_compactor(loaded: LoadedConfiguration, clock: Clock, lifeline: Lifeline) -> None:  # noqa: ARG001  as all processes; files tell their own times
    """Compact whatever is complete until the supervisor goes or the task is cancelled.

    Nothing that stands in the way ends it: segments wait, and it tries again.
    """
    os.nice(NICENESS)
    compaction = Compaction(loaded.log_folder)
    lifeline.metrics.add("compaction", compaction.readings)
    lifeline.ready()
    log.info("compactor-ready", folder=str(loaded.log_folder))
    try:
        await until_one_ends(compaction.run(), lifeline.parent_gone())
    finally:
        compaction.interrupt()


class Compaction:
    """Compacts again and again.

    Attributes:
        waiting: segments that wait.
        segments: that were compacted.
        damaged: of these, set aside because not all in them is whole.
        records: that went to the lake.
        octets: of the segments.
        file_octets: of the files that they became.
        failures: times that it could not be done.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compactor: Compactor | None = None
        self._interrupted = False
        self.waiting = 0
        self.segments = 0
        self.damaged = 0
        self.records = 0
        self.octets = 0
        self.file_octets = 0
        self.failures = 0

    async def run(self) -> None:
        """Look every few seconds, less often while it cannot be done."""
        pause = POLL_SECONDS
        while True:
            try:
                failed = await asyncio.to_thread(self.compact_all)
            except OSError as error:
                failed = True
                self.failures += 1
                log.warning("compaction-failed", reason=str(error), retry_in_seconds=pause)
            pause = min(2 * pause, LAST_RETRY_SECONDS) if failed else POLL_SECONDS
            await asyncio.sleep(pause)

    def interrupt(self) -> None:
        """End what another thread compacts; the segment waits for the next time."""
        self._interrupted = True
        if self._compactor is not None:
            self._compactor.interrupt()

    def compact_all(self) -> bool:
        """Compact what waits; one segment that cannot be compacted keeps no other from it.

        Returns:
            Whether something failed.

        Raises:
            OSError: the log cannot be read or written.
        """
        segments = self._due()
        self.waiting = len(segments)
        if not segments:
            return False
        failures: list[CompactionError] = []
        try:
            with Compactor(self._folder) as compactor:
                self._compactor = compactor
                for segment in segments:
                    if self._interrupted:
                        return False
                    try:
                        self._count(compactor.compact(segment))
                    except CompactionError as error:
                        failures.append(error)
        except CompactionBusyError:
            return False  # somebody does it by hand
        finally:
            self._compactor = None
        self.failures += len(failures)
        if failures and not self._interrupted:
            log.warning("compaction-failed", reason=str(failures[0]), segments=len(failures))
        return bool(failures)

    def _due(self) -> list[Segment]:
        """What waits, but for the segments from which the next core goes on, should this one end."""
        newest = list_segments(self._folder)[-1:]
        waiting = compactable(self._folder, standing=False)
        return [segment for segment in waiting if segment not in newest]

    def readings(self) -> Iterator[Reading]:
        """For the metrics."""
        yield families.COMPACTION_WAITING.at(self.waiting)
        yield families.COMPACTION_SEGMENTS.at(self.segments)
        yield families.COMPACTION_DAMAGED.at(self.damaged)
        yield families.COMPACTION_RECORDS.at(self.records)
        yield families.COMPACTION_READ.at(self.octets)
        yield families.COMPACTION_WRITTEN.at(self.file_octets)
        yield families.COMPACTION_FAILURES.at(self.failures)

    def _count(self, done: Compacted | None) -> None:
        self.waiting -= 1
        if done is None:
            return
        self.segments += 1
        self.records += done.records
        self.octets += done.octets
        self.file_octets += done.file_octets
        if done.set_aside is not None:
            self.damaged += 1
            log.warning(
                "segment-damaged",
                segment=str(done.segment.path),
                problem=done.problems[0],
                problems=len(done.problems),
                records_kept=done.records,
                set_aside=str(done.set_aside),
            )
