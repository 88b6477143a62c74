"""Disks that are full, read-only, broken or slow: records wait, losses are reported, and the log goes on."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from pathlib import Path

import pytest

from gateway.eventlog.disk import Disk
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.retention import LogFileSettings
from gateway.eventlog.segment import list_segments
from gateway.eventlog.waiting import Pressure
from gateway.feed.records import EventLogState
from gateway.file_owners import user_name
from gateway.model.times import HOUR, SECOND
from tests.components.full_disk import full_disk
from tests.components.waiting import until
from tests.eventlog.disks import FailingDisk, HangingDisk
from tests.eventlog.plant import Plant
from tests.eventlog.reading import numbers, of_kind, read_log, reasons
from tests.hypothesis_profiles import PROVING

SMALL = LogFileSettings(
    commit_interval=1_000_000, min_free=0, retry_interval=10_000_000, max_waiting=1000
)  # fmt: skip


def event(plant: Plant, number: int) -> LogRecord:
    record = plant.update(number)
    return LogRecord(kind=RecordKind.EVENT, ingest_ts=record.ingest_ts, values={"number": number})


def states(plant: Plant) -> list[EventLogState]:
    """Return the states of the log in the order in which they were reported."""
    reported = [record.state for record in plant.states]
    return [state for n, state in enumerate(reported) if n == 0 or state is not reported[n - 1]]


@pytest.mark.parametrize(
    ("call", "error", "state"),
    [
        ("sync", errno.EIO, EventLogState.DISK_ERROR),
        ("sync done", errno.EIO, EventLogState.DISK_ERROR),
        ("write", errno.ENOSPC, EventLogState.DISK_FULL),
        ("write done", errno.EDQUOT, EventLogState.DISK_FULL),
        ("write", errno.EROFS, EventLogState.READ_ONLY),
        ("check_free", errno.ENOSPC, EventLogState.DISK_FULL),
    ],
)
async def test_what_could_not_be_committed_is_committed_when_the_disk_is_well_again(
    tmp_path: Path, call: str, error: int, state: EventLogState
) -> None:
    broken = False
    disk = FailingDisk(lambda name: broken and name == call, error)
    plant = Plant(tmp_path, disk=disk)
    plant.standing = [1, 2]
    async with plant.log() as log:
        await log.reached(log.append(plant.update(0)))
        broken = True
        seq = log.append(plant.update(1))
        await until(lambda: disk.failures >= 2, "it fails and is tried again")
        assert log.committed < seq
        assert log.state.state is state
        assert log.state.detail
        assert log.state.since == plant.clock.time
        log.append(plant.update(2))
        broken = False
        await log.reached(seq)
        await until(
            lambda: log.state.state is EventLogState.WRITING and plant.heads >= 2,
            "it is over, all is told again",
        )
    assert states(plant) == [EventLogState.WRITING, state, EventLogState.WRITING]
    records = read_log(plant.folder)
    assert numbers(records) == [0, 1, 2]
    assert reasons(records) == ["began", "trouble"]
    assert len(of_kind(records, "snapshot")) == 4


async def test_where_files_of_root_are_in_the_way_the_detail_has_what_mends_that(tmp_path: Path) -> None:
    plant = Plant(tmp_path, disk=FailingDisk(lambda name: name == "write", errno.EACCES))
    async with plant.log() as log:
        log.append(plant.update(0))
        await until(lambda: log.state.state is EventLogState.READ_ONLY, "it cannot be written")
        assert f": chown -R {user_name(os.geteuid())} {plant.folder}, as root" in log.state.detail


async def test_after_an_error_the_same_file_is_not_synced_again_in_hope(tmp_path: Path) -> None:
    class ForgetfulDisk(Disk):
        """A disk that has forgotten what it could not write, and reports success."""

        def __init__(self) -> None:
            self.files: dict[int, int] = {}
            self.created = 0
            self.syncs: list[int] = []

        def create(self, path: Path) -> int:
            descriptor = super().create(path)
            self.created += 1
            self.files[descriptor] = self.created
            return descriptor

        def sync(self, descriptor: int) -> None:
            file = self.files[descriptor]
            assert file not in self.syncs[:-1] or file == self.syncs[-1]
            self.syncs.append(file)
            if len(self.syncs) in {3, 4, 6}:
                raise OSError(errno.EIO, "error")
            super().sync(descriptor)

    disk = ForgetfulDisk()
    plant = Plant(tmp_path, disk=disk)
    async with plant.log() as log:
        for number in range(8):
            await log.reached(log.append(plant.update(number)))
    assert disk.syncs[2] != disk.syncs[3] != disk.syncs[4], "another file for the same records"
    assert disk.syncs[5] != disk.syncs[6]
    assert numbers(read_log(plant.folder)) == list(range(8))
    assert not list((plant.folder / "segments").glob("*.open.jsonl"))


@pytest.mark.parametrize("seed", range(500 if PROVING else 25))
async def test_any_calls_may_fail_and_nothing_is_lost_or_reported_twice(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)  # noqa: S311  a test's choice
    only = choice.choice([None, None, "sync", "rename", "delete", "shorten", "create", "replace_text"])
    rate = choice.choice([0.02, 0.1, 0.3 if only else 0.05])
    healthy = False

    def fails(call: str) -> bool:
        fits = only is None or call.startswith(only)
        return not healthy and fits and choice.random() < rate

    settings = LogFileSettings(commit_interval=0, min_free=1, segment_size=5_000, retry_interval=1_000_000)
    plant = Plant(tmp_path, settings, FailingDisk(fails))
    plant.standing = [1]
    number = 0
    promised: dict[int, int] = {}
    for _ in range(2):
        healthy = False
        async with plant.log() as log:
            for _ in range(20):
                for _ in range(choice.randint(1, 9)):
                    promised[log.append(plant.update(number))] = number
                    number += 1
                await asyncio.sleep(0)
                if choice.random() < 0.5:
                    await log.reached(choice.choice(sorted(promised)))
            healthy = True
            await log.reached(max(promised))
    async with plant.log():
        pass
    records = read_log(plant.folder)
    assert numbers(records) == list(range(number))
    reported = {record["seq"]: record["values"]["messagesReady"] for record in of_kind(records, "update")}
    assert reported == promised
    assert records[0]["seq"] == 1


async def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log() as log:
        await log.reached(log.append(plant.update(0)))
        with full_disk():
            seq = log.append(plant.update(1))
            await until(lambda: log.state.state is EventLogState.DISK_FULL, "the full disk is told")
            assert log.committed < seq
        await log.reached(seq)
        await until(lambda: log.state.state is EventLogState.WRITING, "it is over")
    assert numbers(read_log(plant.folder)) == [0, 1]


async def test_nothing_is_written_while_less_is_free_than_shall_be_left(tmp_path: Path) -> None:
    settings = LogFileSettings(commit_interval=0, min_free=1 << 62, retry_interval=10_000_000)
    plant = Plant(tmp_path, settings)
    async with plant.log() as log:
        log.append(plant.update(0))
        await until(lambda: log.state.state is EventLogState.DISK_FULL, "it is told")
        assert "MiB are free, less than the" in log.state.detail
    assert list_segments(plant.folder) == []


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.ENOSPC])
async def test_a_log_can_begin_on_a_disk_that_cannot_be_written_yet(tmp_path: Path, error: int) -> None:
    healthy = False
    plant = Plant(tmp_path, disk=FailingDisk(lambda _: not healthy, error))
    async with plant.log() as log:
        seq = log.append(plant.update(0))
        await until(
            lambda: log.state.state in {EventLogState.READ_ONLY, EventLogState.DISK_FULL}, "it is told"
        )
        healthy = True
        await log.reached(seq)
    records = read_log(plant.folder)
    assert numbers(records) == [0]
    assert records[0]["seq"] == 1


async def test_a_slow_disk_is_reported_and_delays_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.eventlog.committer.SLOW_SECONDS", 0.3)
    disk = HangingDisk()
    plant = Plant(tmp_path, disk=disk)
    async with plant.log() as log:
        await log.reached(1)
        disk.hang()
        seq = log.append(plant.update(0))
        await until(lambda: log.state.state is EventLogState.SLOW, "it is told")
        log.append(plant.update(1))
        assert log.committed < seq
        disk.answer()
        await log.reached(seq + 1)
        log.append(plant.update(2))
        await until(lambda: log.state.state is EventLogState.WRITING, "it is over")
    assert states(plant) == [EventLogState.WRITING, EventLogState.SLOW, EventLogState.WRITING]
    assert numbers(read_log(plant.folder)) == [0, 1, 2]


async def test_pressure_rises_and_what_is_lost_is_counted_by_kind_from_when_to_when(tmp_path: Path) -> None:
    broken = True
    plant = Plant(tmp_path, SMALL, FailingDisk(lambda call: broken and call == "sync", errno.ENOSPC))
    plant.standing = [1]
    async with plant.log() as log:
        await until(lambda: plant.heads, "the first head")
        await until(lambda: log.state.waiting == 2, "start and snapshot wait")
        number = 0
        pressures = []
        while log.pressure is not Pressure.FULL:
            pressures.append(log.pressure)
            log.append(plant.update(number))
            number += 1
        assert pressures == [Pressure.NONE] * 498 + [Pressure.MERGE] * 250
        plant.clock.time += SECOND
        lost_from = plant.clock.time
        gap = log.append(plant.update(number))
        plant.clock.time += SECOND
        assert log.append(plant.update(number + 1)) == gap, "one gap takes all"
        events = [log.append(event(plant, n)) for n in range(249)]
        assert events == list(range(gap + 1, gap + 250)), "events still have room"
        plant.clock.time += SECOND
        assert log.append(event(plant, 249)) == gap, "the room has an end"
        assert log.append(plant.update(number + 2)) == gap
        assert log.state.waiting == 1000
        assert log.state.lost == 4
        broken = False
        await log.reached(events[-1])
        await until(lambda: plant.heads == 2, "how all stands is told again")
        await until(lambda: log.pressure is Pressure.NONE, "there is room again")
    records = read_log(plant.folder)
    assert numbers(records) == list(range(number))
    assert [record["values"]["number"] for record in of_kind(records, "event")] == list(range(249))
    (reported,) = of_kind(records, "gap")
    assert reported["seq"] == gap
    assert reported["lost"] == 4
    assert reported["values"] == {"event": 1, "update": 3}
    assert lost_from == plant.clock.time - 2 * SECOND
    assert (reported["from_ts"][17:19], reported["to_ts"][17:19]) == ("07", "09")
    assert reasons(records) == ["began", "trouble"]
    assert plant.states[-1].lost == 4


async def test_a_gap_is_of_the_hour_of_its_segment_whenever_it_begins(tmp_path: Path) -> None:
    broken = True
    plant = Plant(tmp_path, SMALL, FailingDisk(lambda call: broken and call == "sync"))
    async with plant.log() as log:
        while log.pressure is not Pressure.FULL:
            log.append(plant.update(0))
        plant.clock.time += HOUR
        log.append(plant.update(0))
        plant.clock.time -= 5 * SECOND
        log.append(event(plant, 1))
        broken = False
        await until(lambda: log.state.waiting == 0, "what waits is written")
    records = read_log(plant.folder)  # each segment of one hour, and forward in time
    (gap,) = of_kind(records, "gap")
    assert (gap["ingest_ts"][11:16], gap["from_ts"][11:16]) == ("14:05", "15:05")


async def test_few_large_records_are_bounded_by_their_octets(tmp_path: Path) -> None:
    broken = True
    plant = Plant(tmp_path, SMALL, FailingDisk(lambda call: broken and call == "sync"))
    async with plant.log() as log:
        large = LogRecord(kind=RecordKind.EVENT, ingest_ts="", text="x" * 100_000)
        for _ in range(50):
            log.append(large)
        assert log.state.waiting < 20
        assert log.state.lost > 30
        broken = False
        await until(lambda: log.state.waiting == 0, "what waits is written")
    (gap,) = of_kind(read_log(plant.folder), "gap")
    assert gap["lost"] == log.state.lost


async def test_a_log_that_ends_in_trouble_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    broken = False
    plant = Plant(tmp_path, disk=FailingDisk(lambda call: broken and call != "check_free"))
    async with plant.log() as log:
        await log.reached(log.append(plant.update(0)))
        broken = True
        waiting = asyncio.ensure_future(log.reached(log.append(plant.update(1))))
        await until(lambda: log.state.state is EventLogState.DISK_ERROR, "it is told")
    with pytest.raises(Exception, match="seq 3 is not on the disk"):
        await waiting
    broken = False
    async with plant.log() as log:
        assert log.recovered
        log.append(plant.update(2))
    records = read_log(plant.folder)
    assert numbers(records)[0] == 0
    assert numbers(records)[-1] == 2


async def test_a_failure_at_the_end_is_tried_again_too(tmp_path: Path) -> None:
    disk = FailingDisk(lambda call: call == "sync" and disk.failures < 2)
    plant = Plant(tmp_path, disk=disk)
    async with plant.log() as log:
        log.append(plant.update(0))
    assert disk.failures == 2
    assert numbers(read_log(plant.folder)) == [0]


async def test_a_disk_that_never_answers_does_not_hold_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.eventlog.writer.CLOSE_SECONDS", 0.2)
    disk = HangingDisk()
    plant = Plant(tmp_path, disk=disk)
    try:
        async with plant.log() as log:
            await log.reached(1)
            disk.hang()
            log.append(plant.update(0))
            await until(lambda: log.state.waiting == 1, "it waits")
    finally:
        disk.answer()


async def test_a_segment_that_cannot_be_completed_is_reported_and_tried_again(tmp_path: Path) -> None:
    broken = True
    plant = Plant(tmp_path, disk=FailingDisk(lambda call: broken and call == "rename"))
    async with plant.log() as log:
        plant.clock.time += 600 * SECOND
        await until(lambda: log.state.state is EventLogState.UPKEEP, "it is told")
        await log.reached(log.append(plant.update(0)))
        assert [segment.is_open for segment in list_segments(plant.folder)] == [True, True]
        broken = False
        plant.clock.time += 600 * SECOND
        await until(lambda: log.state.state is EventLogState.WRITING, "it is over")
    assert [segment.is_open for segment in list_segments(plant.folder)] == [False] * 3
    assert numbers(read_log(plant.folder)) == [0]
