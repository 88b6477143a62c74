"""The log within its bounds: the files that are deleted, their order, and the report."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.eventlog.retention import (
    TRUSTED_AFTER,
    AgeClock,
    Deleted,
    LogFileSettings,
    Stored,
    StoredFile,
    keep_within,
    stored,
    too_much,
)
from gateway.eventlog.segment import list_segments
from gateway.model.times import HOUR
from tests.components.waiting import until
from tests.eventlog.plant import Plant
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
    held = stored(tmp_path)
    assert (held.octets, held.segments) == (6000, 2)
    assert {file.path for file in held.files} == {
        files[name] for name in ("tail", "lake, older", "lake", "segment")
    }


def test_a_folder_without_a_log_holds_nothing(tmp_path: Path) -> None:
    assert keep_within(tmp_path / "absent", LogFileSettings(), BEGIN)[1] is None


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    files = some_log(tmp_path)
    settings = LogFileSettings(max_age=47 * HOUR)
    old, large = too_much(stored(tmp_path), settings, BEGIN)
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


ORIGIN = BEGIN  # a file as old as this was written in 1970
FUTURE = -24 * 365 * DAY


def log_of(folder: Path, **ages: int) -> dict[str, Path]:
    """Segments of one log with 1,000 octets each, as they were written one after the other.

    Args:
        folder: of the log.
        ages: names, and how long before now each was written by the clock that it was written with.
    """
    folder.mkdir(exist_ok=True)
    (folder / "LOG").write_text(f'{{"version":1,"log_id":"{LOG_ID}","next_seq":1000}}')
    return {
        name: aged(write_segment(folder, 10 * (number + 1), bytes(1000)), age)
        for number, (name, age) in enumerate(ages.items())
    }


def left(folder: Path, files: dict[str, Path], settings: LogFileSettings, now: int = BEGIN) -> list[str]:
    """Delete the files beyond the bounds; return the names of the files that are left."""
    keep_within(folder, settings, now)
    return [name for name, path in files.items() if path.exists()]


def test_what_was_written_while_the_clock_was_behind_is_as_young_as_what_was_written_before(
    tmp_path: Path,
) -> None:
    settings = LogFileSettings(max_age=DAY)
    files = log_of(tmp_path, old=3 * DAY, today=2 * HOUR, of_1970=ORIGIN, set_back=20 * DAY, later=HOUR)
    assert left(tmp_path, files, settings) == ["today", "of_1970", "set_back", "later"]
    assert left(tmp_path, files, settings, BEGIN + 22 * HOUR) == ["today", "of_1970", "set_back", "later"]
    assert left(tmp_path, files, settings, BEGIN + 22 * HOUR + 1) == ["later"]


def test_a_log_that_begins_before_its_machine_knows_the_time_is_as_young_as_what_follows(
    tmp_path: Path,
) -> None:
    files = log_of(tmp_path, first=ORIGIN, second=ORIGIN - HOUR, today=HOUR)
    assert left(tmp_path, files, LogFileSettings(max_age=DAY)) == ["first", "second", "today"]
    assert left(tmp_path, files, LogFileSettings(max_age=DAY), BEGIN + DAY) == []


def test_for_the_size_of_all_the_first_records_go_whatever_the_clock_said(tmp_path: Path) -> None:
    files = log_of(tmp_path, first=3 * HOUR, of_1970=ORIGIN, of_2050=FUTURE, last=HOUR)
    assert left(tmp_path, files, LogFileSettings(max_size=3300)) == ["of_1970", "of_2050", "last"]
    assert left(tmp_path, files, LogFileSettings(max_size=2300)) == ["of_2050", "last"]
    assert left(tmp_path, files, LogFileSettings(max_size=1300)) == ["last"]


def test_what_was_written_while_the_clock_was_ahead_goes_in_its_turn(tmp_path: Path) -> None:
    files = log_of(tmp_path, first=5 * DAY, of_2050=FUTURE, third=4 * DAY, last=HOUR)
    settings = LogFileSettings(max_age=DAY)
    assert left(tmp_path, files, settings, BEGIN - 4 * DAY + HOUR) == ["of_2050", "third", "last"]
    assert left(tmp_path, files, settings) == ["last"]


def test_hours_of_the_lake_and_segments_are_in_one_order(tmp_path: Path) -> None:
    files = log_of(tmp_path, segment=2 * HOUR)
    files["of 1970"] = in_lake(tmp_path, "1970-01-01 00", 5, 1000)
    files["before"] = in_lake(tmp_path, "2026-11-20 11", 1, 1000)
    assert set(left(tmp_path, files, LogFileSettings(max_age=DAY))) == files.keys()
    assert left(tmp_path, files, LogFileSettings(max_size=2300)) == ["segment", "of 1970"]


def test_what_was_set_aside_goes_with_the_records_around_it_but_makes_none_younger(tmp_path: Path) -> None:
    files = log_of(tmp_path, first=5 * DAY, second=4 * DAY, third=3 * DAY, last=HOUR)
    aside = tmp_path / "lost" / f"{20:020}.damaged.jsonl"
    aside.parent.mkdir()
    aside.write_bytes(bytes(1000))
    files["set aside"] = aged(aside, HOUR)
    foreign = tmp_path / "lost" / "notes"
    foreign.write_bytes(bytes(10))
    files["foreign"] = aged(foreign, 2 * HOUR)
    assert left(tmp_path, files, LogFileSettings(max_age=DAY)) == ["last", "foreign"]


def test_the_order_of_one_log_says_nothing_about_another(tmp_path: Path) -> None:
    files = log_of(tmp_path, today=HOUR)
    of_another = tmp_path / f"lake/dt=2026-11-18/hour=14/another-{90:020}.parquet"
    of_another.parent.mkdir(parents=True)
    of_another.write_bytes(bytes(1000))
    files["of another"] = of_another
    assert left(tmp_path, files, LogFileSettings(max_age=DAY)) == ["today"]


YEAR_2050 = int(dt.datetime(2050, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**9
TIMES = st.sampled_from((0, HOUR, BEGIN - 9 * DAY, BEGIN - HOUR, BEGIN, YEAR_2050)) | st.integers(
    BEGIN - 10 * DAY, BEGIN + DAY
)


@st.composite
def files_of_logs(draw: st.DrawFn) -> list[StoredFile]:
    """Segments, or files of the lake, of two logs, with any times, in any order."""
    files = [
        StoredFile(Path(log_id, str(number)), draw(st.integers(1, 100)), draw(TIMES), log_id, number)
        for log_id in ("one", "another")
        for number in range(1, draw(st.integers(1, 8)))
    ]
    return draw(st.permutations(files))


@given(files_of_logs(), st.integers(HOUR, 10 * DAY), st.integers(1, 1000))
def test_what_goes_is_the_beginning_of_each_log(
    files: Sequence[StoredFile], max_age: int, max_size: int
) -> None:
    held = Stored(sum(file.octets for file in files), 0, tuple(files))
    old, large = too_much(held, LogFileSettings(max_age=max_age, max_size=max_size), BEGIN)
    for log_id in ("one", "another"):
        gone = [file.first_seq for file in (*old, *large) if file.log_id == log_id]
        assert gone == list(range(1, len(gone) + 1)), "in this order, so that a kill leaves no hole either"
    assert held.octets - sum(file.octets for file in (*old, *large)) <= max_size


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
            held = stored(plant.folder).octets
            if held > bound:
                await until(lambda: stored(plant.folder).octets <= bound, "old segments go")
        assert plant.states[-1].deleted_files >= 1
    async with plant.log():
        pass
    records = read_log(plant.folder)
    assert records[0]["seq"] > 1
    assert numbers(records)[-1] == number - 1
    reported = [
        record["values"]["deleted"] for record in records if "deleted" in (record.get("values") or {})
    ]
    assert reported
    assert all(one["because"] == "max_size" and one["octets"] > 0 for one in reported)
    assert set(reasons(records)) == {"size", "began"}


async def test_old_hours_go_while_the_gateway_runs(tmp_path: Path) -> None:
    plant = Plant(tmp_path, LogFileSettings(commit_interval=0, min_free=0, max_age=DAY))
    old = in_lake(plant.folder, "2026-11-19 12", 1, 10)
    (plant.folder / "LOG").write_text(f'{{"version":1,"log_id":"{LOG_ID}","next_seq":9}}')
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


async def test_a_start_while_the_clock_is_ahead_makes_nothing_old(tmp_path: Path) -> None:
    """The last records were made by that clock: their presence does not make it right."""
    plant = Plant(tmp_path, LogFileSettings(commit_interval=0, min_free=0, max_age=DAY))
    async with plant.log() as log:
        await log.reached(log.append(plant.update(1)))
    async with plant.log() as log:
        plant.clock.time += 90 * DAY
        await log.reached(log.append(plant.update(2)))
    segments = {segment.path.name for segment in list_segments(plant.folder)}
    async with plant.log() as log:
        await log.reached(log.append(plant.update(3)))
        await until(
            lambda: log.state.segments > len(segments) or log.state.deleted_files > 0,
            "the bounds were looked after",
        )
        assert log.state.deleted_files == 0
    assert segments <= {segment.path.name for segment in list_segments(plant.folder)}
