"""The compactor: converts complete segments of the event log to Parquet, without disturbing other processes.

The supervisor starts it when a segment waits. It ends when none has waited for a while.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import structlog

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.eventlog.compaction import (
    Compacted,
    CompactionBusyError,
    CompactionError,
    Compactor,
)
from gateway.eventlog.segment import due
from gateway.service.metrics.process import CompactionCounts
from gateway.service.processes.lifeline import Lifeline
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

POLL_SECONDS = 2.0
LAST_RETRY_SECONDS = 300.0

IDLE_SECONDS = 30.0
"""A compactor that has had no work for so long ends: it has 70 MB, most of it DuckDB."""

NICENESS = 10
"""Niceness of the process: readers of the log can wait, those of SNMP and JMX should not."""


async def run_compactor(loaded: LoadedConfiguration, clock: Clock, lifeline: Lifeline) -> None:  # noqa: ARG001  as all processes; files tell their own times
    """Compact complete segments until none waits, the supervisor goes or the task is cancelled.

    An error does not end it: segments wait, and it tries again.
    """
    os.nice(NICENESS)
    compaction = Compaction(loaded.log_folder)
    lifeline.metrics.add("compaction", compaction.counts.readings)
    lifeline.ready()
    log.info("compactor-ready", folder=str(loaded.log_folder))
    try:
        await until_one_ends(compaction.run(), lifeline.parent_gone())
    finally:
        compaction.interrupt()


class Compaction:
    """Compacts until no segment waits.

    Attributes:
        counts: of the compactions.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compactor: Compactor | None = None
        self._interrupted = False
        self._had_work = False
        self.counts = CompactionCounts()

    async def run(self) -> None:
        """Compact every few seconds, less often after errors, until no segment has waited for a while."""
        pause, last_work = POLL_SECONDS, time.monotonic()
        while True:
            try:
                failed = await asyncio.to_thread(self.compact_all)
            except OSError as error:
                failed = True
                self.counts.failures += 1
                log.warning("compaction-failed", reason=str(error), retry_in_seconds=pause)
            if failed or self._had_work:
                last_work = time.monotonic()
            elif time.monotonic() - last_work >= IDLE_SECONDS:
                return
            pause = min(2 * pause, LAST_RETRY_SECONDS) if failed else POLL_SECONDS
            await asyncio.sleep(pause)

    def interrupt(self) -> None:
        """Stop the compaction in another thread; its segment waits for the next time."""
        self._interrupted = True
        if self._compactor is not None:
            self._compactor.interrupt()

    def compact_all(self) -> bool:
        """Compact all waiting segments; one that cannot be compacted does not stop the others.

        Returns:
            Whether something failed.

        Raises:
            OSError: the log cannot be read or written.
        """
        segments = due(self._folder)
        self.counts.waiting = len(segments)
        self._had_work = bool(segments)
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
            return False  # the command `log compact` does it now
        finally:
            self._compactor = None
        self.counts.failures += len(failures)
        if failures and not self._interrupted:
            log.warning("compaction-failed", reason=str(failures[0]), segments=len(failures))
        return bool(failures)

    def _count(self, done: Compacted | None) -> None:
        self.counts.waiting -= 1
        if done is None:
            return
        self.counts.segments += 1
        self.counts.records += done.records
        self.counts.octets += done.octets
        self.counts.file_octets += done.file_octets
        if done.set_aside is not None:
            self.counts.damaged += 1
            log.warning(
                "segment-damaged",
                segment=str(done.segment.path),
                problem=done.problems[0],
                problems=len(done.problems),
                records_kept=done.records,
                set_aside=str(done.set_aside),
            )
