"""The core's event log: the records of the feed are on the disk, and its failures are reported."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from gateway.clock import SystemClock
from gateway.config.model import LogSettings
from gateway.eventlog.disk import Disk
from gateway.feed.records import Batch, EventLogRecord, EventLogState, Record
from gateway.service.processes.event_log import CoreEventLog, LogAlarmMark, file_settings
from tests.components.full_disk import full_disk
from tests.components.waiting import DEADLINE, until
from tests.eventlog.disks import FailingDisk, HangingDisk
from tests.eventlog.feeds import AGENT, DEPTH, FULL, QUEUE, SHOP, T0, deletion, event, queue, update
from tests.eventlog.reading import of_kind, read_log

SETTINGS = LogSettings.model_validate({"min_free": 0, "commit_interval": "1ms", "statistics_interval": "1ms"})
BEGUN = (SHOP, AGENT, QUEUE, FULL)


class Core:
    """A log as a core runs it."""

    def __init__(self, folder: Path, disk: Disk | None = None, settings: LogSettings = SETTINGS) -> None:
        self.folder = folder / "log"
        self.reported: list[EventLogRecord] = []
        self.log = CoreEventLog(self.folder, settings, SystemClock(), lambda: {"boot": 3}, disk=disk)
        self._sequence = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Core]:
        """Run the log as long as the core lives."""
        async with self.log:
            task = asyncio.create_task(self.log.run(self.reported.append))
            try:
                yield self
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    def publish(self, *records: Record) -> int:
        """Publish the records as one batch."""
        self._sequence += 1
        return self.log.take(Batch(3, self._sequence, records))

    async def begin(self) -> None:
        """Publish the objects of the shop, and wait until the first segment's head contains them again."""
        self.publish(*BEGUN)
        await until(lambda: len(of_kind(self.read(), "agent")) == 2, "the head is told")

    def read(self) -> list[dict[str, Any]]:
        """Return the records on the disk so far; none while a file is being given its last name."""
        with suppress(FileNotFoundError):
            return read_log(self.folder) if self.log.record.committed else []
        return []

    async def commit(self) -> list[dict[str, Any]]:
        """Return the records on the disk once everything that was published is there."""
        async with asyncio.timeout(DEADLINE):
            await self.log.reached(self.log.last_seq)
        return read_log(self.folder)

    async def reported_of(self, state: EventLogState) -> EventLogRecord:
        """Wait until the log is in this state; return the record that reported it."""
        await until(lambda: self.reported and self.reported[-1].state is state, f"the log is {state.value}")
        return self.reported[-1]


async def test_what_the_feed_reports_is_on_the_disk(tmp_path: Path) -> None:
    async with Core(tmp_path).running() as core:
        await core.begin()
        core.publish(queue(1))
        core.publish(update({DEPTH: 4}), event())
        core.publish(deletion(1))
        records = await core.commit()
    assert records[0]["kind"] == "start"
    assert records[0]["values"]["boot"] == 3
    assert [record["kind"] for record in records[-4:]] == ["create", "update", "event", "delete"]
    assert records[-2]["event_id"] == "gw.1.7"
    assert core.reported[-1].state is EventLogState.WRITING


async def test_each_segment_begins_with_all_that_lives(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"segment_duration": 10**9})
    async with Core(tmp_path, settings=settings).running() as core:
        core.publish(*BEGUN, queue(1), queue(2))
        core.publish(update({DEPTH: 7}, row=2))
        await until(lambda: heads(core)[-1:] == [{1: 0, 2: 7}], "its head is told")


def heads(core: Core) -> list[dict[int, int]]:
    """Return the depths of queues in the snapshots of each segment but the first."""
    found: list[dict[int, int]] = []
    for record in core.read():
        if record["kind"] == "start":
            found.append({})
        elif record["kind"] == "snapshot":
            found[-1][record["row"]] = record["values"]["depth"]
    return found[1:]


async def test_values_that_wait_are_recorded_when_they_are_due(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"statistics_interval": 200_000_000})
    async with Core(tmp_path, settings=settings).running() as core:
        await core.begin()
        core.publish(queue(1))
        core.publish(update({DEPTH: 4}))
        await until(lambda: of_kind(core.read(), "update"), "the statistics are recorded")


async def test_a_fault_of_ours_costs_what_it_concerns_and_is_reported(tmp_path: Path) -> None:
    async with Core(tmp_path).running() as core:
        await core.begin()
        core.publish(queue(1), queue(2))
        with capture_logs() as lines:
            core.publish(update({99: 1}), update({DEPTH: 1}))  # there is no such element
        core.publish(update({DEPTH: 5}, row=2))
        records = await core.commit()
    assert [line["event"] for line in lines] == ["event-log-fault"]
    gap, change = records[-2:]
    assert (gap["kind"], gap["lost"]) == ("gap", 2)
    assert change["values"] == {"depth": 5}


async def test_how_the_log_is_is_reported_at_least_when_it_changes(tmp_path: Path) -> None:
    async with Core(tmp_path).running() as core:
        first = await core.reported_of(EventLogState.WRITING)
        seq = core.publish(*BEGUN)
        await until(lambda: core.reported[-1].committed >= seq, "what was committed is told")
        await until(lambda: core.reported[-1].segments == 1, "the segment is counted")
    assert first.since > 0
    assert core.reported[-1].octets > 0


async def test_trouble_is_reported_at_once_and_nothing_waits_for_its_end(tmp_path: Path) -> None:
    failing = [False]
    disk = FailingDisk(lambda call: failing[0] and call == "write", errno.ENOSPC)
    async with Core(tmp_path, disk).running() as core:
        await core.begin()
        with capture_logs() as lines:
            failing[0] = True
            seq = core.publish(queue(1))
            full = await core.reported_of(EventLogState.DISK_FULL)
            for row in range(2, 50):
                core.publish(queue(row))
            failing[0] = False
            well = await core.reported_of(EventLogState.WRITING)
        records = await core.commit()
    assert full.detail
    assert full.waiting > 0
    assert well.lost == 0
    assert len(of_kind(records, "create")) == 49
    assert core.log.last_seq > seq
    events = [line["event"] for line in lines]
    # On a busy machine the disk is slow, too.
    troubles = [line["trouble"] for line in lines if line["event"] == "event-log-trouble"]
    assert troubles.count(EventLogState.DISK_FULL.value) == 1
    assert events.count("event-log-written") == 1


async def test_a_slow_disk_is_trouble_too(tmp_path: Path) -> None:
    disk = HangingDisk()
    async with Core(tmp_path, disk).running() as core:
        await core.begin()
        disk.hang()
        core.publish(queue(1))
        slow = await core.reported_of(EventLogState.SLOW)
        disk.answer()
        await core.commit()
    assert "longer than 1 s" in slow.detail


async def test_a_log_that_cannot_be_used_stops_nothing(tmp_path: Path) -> None:
    core = Core(tmp_path)
    core.folder.mkdir()
    (core.folder / "LOG").write_text("{}")
    with capture_logs() as lines:
        async with core.running():
            failed = await core.reported_of(EventLogState.FAILED)
            assert core.publish(*BEGUN, queue(1)) == 0
    assert str(core.folder / "LOG") in failed.detail
    assert failed.since > T0
    assert [line["event"] for line in lines] == ["event-log-failed"]
    assert not (core.folder / "segments").exists()


def test_sizes_of_the_configuration_are_mebibytes() -> None:
    settings = LogSettings.model_validate(
        {"segment_size": 3, "max_size": 1000, "min_free": 5, "max_age": "2h"}
    )
    files = file_settings(settings)
    assert (files.segment_size, files.max_size, files.min_free) == (3 << 20, 1000 << 20, 5 << 20)
    assert (files.max_age, files.commit_interval, files.max_waiting) == (7200 * 10**9, 50 * 10**6, 200_000)


async def test_who_is_in_a_hurry_does_not_wait_for_others(tmp_path: Path) -> None:
    slow = SETTINGS.model_copy(update={"commit_interval": 60 * 10**9})
    async with Core(tmp_path, settings=slow).running() as core:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for row in range(1, 4):
            core.publish(*BEGUN, queue(row))
            core.log.flush(core.log.last_seq)
            await core.log.reached(core.log.last_seq)
        assert loop.time() - began < 60  # one interval; three have passed otherwise


def test_whether_the_alarm_is_raised_is_known_to_the_next_core(tmp_path: Path) -> None:
    mark = LogAlarmMark(tmp_path / "log-alarm")
    assert not mark.was_raised
    mark.note(raised=True)
    with full_disk():
        assert LogAlarmMark(tmp_path / "log-alarm").was_raised
    mark.note(raised=False)
    assert not LogAlarmMark(tmp_path / "log-alarm").was_raised
    assert not LogAlarmMark(tmp_path / "missing" / "log-alarm").was_raised, "a disk that fails is no error"
