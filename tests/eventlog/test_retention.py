"""The log within its bounds: what goes, in which order, and how it is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.eventlog.retention import (
    TRUSTED_AFTER,
    AgeClock,
    Deleted,
    LogFileSettings,
    StoredFile,
    keep_within,
    stored,
    too_much,
)
from gateway.eventlog.segment import LogIdentity, identity_path, lake_files, list_segments
from tests.components.waiting import until
from tests.eventlog.plant import HOUR, Plant
from tests.eventlog.reading import BEGIN, numbers, read_log, reasons
from tests.eventlog.records import LOG_ID, write_segment

DAY = 24 * HOUR


def in_lake(folder: Path, hour: str, first_seq: int, octets: int) -> Path:
    """A file of the lake: ``hour`` as ``2026-11-20 14``."""
    day, _, of_day = hour.partition(" ")
    path = folder / f"lake/dt={day}/hour={of_day}/{LOG_ID}-{first_seq:020}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(octets))
    return path


def identified(folder: Path) -> None:
    identity_path(folder).write_text(LogIdentity(version=1, log_id=LOG_ID, next_seq=9).text())


def aged(path: Path, nanoseconds: int) -> Path:
    os.utime(path, ns=(BEGIN - nanoseconds,) * 2)
    return path


def some_log(folder: Path) -> dict[str, Path]:
    """One file of each sort, 1,000 octets each."""
    lost = folder / "lost" / "00000000000000000001-5.tail"
    lost.parent.mkdir(parents=True)
    lost.write_bytes(bytes(1000))
    files = {
        "tail": aged(lost, 50 * HOUR),
        "lake, older": in_lake(folder, "2026-11-18 14", 1, 1000),  # ends 47 h ago
        "lake": in_lake(folder, "2026-11-20 11", 20, 1000),
        "segment": aged(write_segment(folder, 30, bytes(1000)), HOUR),
        "open": aged(write_segment(folder, 40, bytes(1000), is_open=True), 60 * HOUR),
    }
    draft = folder / "lake" / ".tmp-x" / "file"
    draft.parent.mkdir()
    draft.write_bytes(bytes(1000))
    return files


def test_all_files_count_and_those_in_use_stay(tmp_path: Path) -> None:
    files = some_log(tmp_path)
    held = stored(tmp_path, BEGIN)
    assert (held.octets, held.segments) == (6000, 2)
    assert [file.path for file in held.files] == [
        files[name] for name in ("tail", "lake, older", "lake", "segment")
    ]


def test_a_folder_without_a_log_holds_nothing(tmp_path: Path) -> None:
    assert keep_within(tmp_path / "absent", LogFileSettings(), BEGIN)[1] is None


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    files = some_log(tmp_path)
    settings = LogFileSettings(max_age=47 * HOUR)
    old, large = too_much(stored(tmp_path, BEGIN), settings, BEGIN)
    assert ([file.path for file in old], large) == ([files["tail"], files["lake, older"]], [])
    left, deleted = keep_within(tmp_path, settings, BEGIN)
    assert deleted == Deleted(2, 2000, "max_age", "2026-11-18T15:00:00.000000Z")
    assert left.octets == 4000
    assert not (tmp_path / "lake/dt=2026-11-18").exists(), "no empty folders are left"
    assert files["lake"].exists()
    assert keep_within(tmp_path, settings, BEGIN) == (left, None)


def test_beyond_the_size_the_oldest_go_until_there_is_some_room(tmp_path: Path) -> None:
    files = some_log(tmp_path)
    left, deleted = keep_within(tmp_path, LogFileSettings(max_size=4200), BEGIN)
    assert deleted is not None
    assert (deleted.files, deleted.octets, deleted.because) == (2, 2000, "max_size")
    assert left.octets == 4000
    assert files["lake"].exists()


def test_what_was_written_while_the_clock_was_behind_is_no_older_than_what_is_before_it(
    tmp_path: Path,
) -> None:
    identified(tmp_path)
    in_lake(tmp_path, "2026-11-20 12", 1, 1000)
    in_lake(tmp_path, "1970-01-01 00", 2, 1000)
    aged(write_segment(tmp_path, 3, bytes(1000)), BEGIN)
    aged(write_segment(tmp_path, 4, bytes(1000)), HOUR)
    assert keep_within(tmp_path, LogFileSettings(max_age=DAY), BEGIN)[1] is None
    deleted = keep_within(tmp_path, LogFileSettings(max_size=2500), BEGIN)[1]
    assert deleted == Deleted(2, 2000, "max_size", "2026-11-20T13:00:00.000000Z")
    assert [segment.first_seq for segment in list_segments(tmp_path)] == [3, 4]


def test_what_was_written_while_the_clock_was_ahead_is_as_old_as_what_follows_it(tmp_path: Path) -> None:
    identified(tmp_path)
    in_lake(tmp_path, "2026-11-17 12", 1, 1000)
    ahead = in_lake(tmp_path, "2050-01-01 00", 2, 1000)
    in_lake(tmp_path, "2026-11-18 12", 3, 1000)
    aged(write_segment(tmp_path, 4, bytes(1000)), -90 * DAY)
    (later,) = list_segments(tmp_path)
    assert [file.path for file in old_ones(tmp_path, 50 * HOUR)] == [
        in_lake(tmp_path, "2026-11-17 12", 1, 1000)
    ]
    assert ahead in [file.path for file in old_ones(tmp_path, 49 * HOUR)]
    assert later.path not in [file.path for file in old_ones(tmp_path, 0)]


def old_ones(folder: Path, max_age: int) -> list[StoredFile]:
    return too_much(stored(folder, BEGIN), LogFileSettings(max_age=max_age), BEGIN)[0]


HOURS = st.sampled_from(["1970-01-01 00", "2026-11-16 03", "2026-11-19 23", "2026-11-20 14", "2050-01-01 00"])


@given(hours=st.lists(HOURS, max_size=8), max_age=st.integers(0, 120), max_size=st.integers(1, 9000))
def test_what_is_deleted_of_a_log_is_what_was_recorded_first(
    tmp_path_factory: pytest.TempPathFactory, hours: list[str], max_age: int, max_size: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    for seq, hour in enumerate(hours, start=1):
        in_lake(folder, hour, seq, 1000)
    keep_within(folder, LogFileSettings(max_age=max_age * HOUR, max_size=max_size), BEGIN)
    left = [file.first_seq for file in lake_files(folder)]
    assert left == list(range(len(hours) - len(left) + 1, len(hours) + 1))


def test_what_is_in_use_stays_whatever_its_size(tmp_path: Path) -> None:
    files = some_log(tmp_path)
    left, deleted = keep_within(tmp_path, LogFileSettings(max_size=1), BEGIN)
    assert deleted is not None
    assert deleted.files == 4
    assert left.octets == 2000
    assert files["open"].exists()


def test_deletions_add_up() -> None:
    first = Deleted(1, 10, "max_age", "2026-11-18T15:00:00.000000Z")
    second = Deleted(2, 20, "max_size", "2026-11-19T15:00:00.000000Z")
    assert first + second == Deleted(3, 30, "max_age, max_size", "2026-11-19T15:00:00.000000Z")


async def test_a_writer_stays_within_its_bounds_and_reports_what_that_cost(tmp_path: Path) -> None:
    bound = 200_000
    settings = LogFileSettings(
        commit_interval=1_000_000, min_free=0, max_size=bound, segment_size=20_000
    )  # fmt: skip
    plant = Plant(tmp_path, settings)
    async with plant.log() as log:
        number = 0
        while log.state.deleted_files < 5:
            for _ in range(50):
                log.append(plant.update(number))
                number += 1
            await log.reached(log.append(plant.update(number)))
            number += 1
            held = stored(plant.folder, BEGIN).octets
            if held > bound:
                await until(lambda: stored(plant.folder, BEGIN).octets <= bound, "old segments go")
        assert plant.states[-1].deleted_files >= 1
    async with plant.log():
        pass
    records = read_log(plant.folder)
    assert records[0]["seq"] > 1
    assert numbers(records)[-1] == number - 1
    told = [record["values"]["deleted"] for record in records if "deleted" in (record.get("values") or {})]
    assert told
    assert all(one["because"] == "max_size" and one["octets"] > 0 for one in told)
    assert set(reasons(records)) == {"size", "began"}


async def test_old_hours_go_while_the_gateway_runs(tmp_path: Path) -> None:
    plant = Plant(tmp_path, LogFileSettings(commit_interval=0, min_free=0, max_age=DAY))
    old = in_lake(plant.folder, "2026-11-19 12", 1, 10)
    identified(plant.folder)
    async with plant.log() as log:
        await until(lambda: log.state.deleted_files == 1, "the old file goes")
    assert not old.exists()


def test_a_clock_that_jumps_forward_makes_nothing_old() -> None:
    ages = AgeClock(BEGIN, 0)
    assert ages.now(BEGIN + HOUR, HOUR) == BEGIN + HOUR
    assert ages.now(BEGIN + 90 * DAY, HOUR + 1) == BEGIN + HOUR + 1
    assert ages.now(BEGIN + HOUR + 2, HOUR + 2) == BEGIN + HOUR + 2


def test_a_clock_that_was_set_is_trusted_when_it_has_agreed_with_the_monotonic_clock_for_long() -> None:
    ages = AgeClock(BEGIN, 0)
    late = BEGIN + 90 * DAY
    assert ages.now(late, 1) == BEGIN + 1
    assert ages.now(late + TRUSTED_AFTER // 2, TRUSTED_AFTER // 2) == BEGIN + TRUSTED_AFTER // 2
    assert ages.now(late + TRUSTED_AFTER, TRUSTED_AFTER + 1) == late + TRUSTED_AFTER


def test_a_clock_that_goes_back_makes_nothing_older() -> None:
    ages = AgeClock(BEGIN, 0)
    assert ages.now(BEGIN - DAY, 1) == BEGIN - DAY


async def test_what_a_log_has_is_not_too_old_because_the_clock_was_set_while_no_gateway_ran(
    tmp_path: Path,
) -> None:
    plant = Plant(tmp_path, LogFileSettings(commit_interval=0, min_free=0, max_age=DAY))
    async with plant.log() as log:
        await log.reached(log.append(plant.update(1)))
    segments = {segment.path.name for segment in list_segments(plant.folder)}
    plant.clock.time += 90 * DAY
    async with plant.log() as log:
        await log.reached(log.append(plant.update(2)))
        await until(lambda: log.state.segments > len(segments), "the bounds were looked after")
        assert log.state.deleted_files == 0
    assert segments <= {segment.path.name for segment in list_segments(plant.folder)}
