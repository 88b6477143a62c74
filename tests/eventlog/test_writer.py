"""The event log as the gateway uses it: appended, committed, in segments that each have the whole state."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.eventlog.disk import EventLogClosedError, EventLogError
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.retention import LogFileSettings
from gateway.eventlog.segment import list_segments, standing_segments, standing_seq
from gateway.eventlog.waiting import Pressure
from gateway.eventlog.writer import EventLog
from gateway.feed.records import EventLogState
from gateway.model.times import HOUR, SECOND
from tests.components.waiting import DEADLINE, until
from tests.eventlog.plant import Plant
from tests.eventlog.reading import BEGIN, numbers, of_kind, read_log, reasons
from tests.eventlog.records import update


async def test_what_is_appended_is_on_the_disk_when_it_is_reached(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log() as log:
        seqs = [log.append(plant.update(number)) for number in range(3)]
        assert seqs == [2, 3, 4], "the first record is the segment's start"
        await log.reached(4)
        assert log.committed >= 4
        records = read_log(plant.folder)
        assert numbers(records) == [0, 1, 2]
        assert log.state.waiting == 0
        assert [segment.is_open for segment in list_segments(plant.folder)] == [True]
    assert [segment.is_open for segment in list_segments(plant.folder)] == [False]


async def test_the_first_record_says_which_log_this_is_and_why(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log():
        pass
    (start,) = read_log(plant.folder)
    identity = json.loads((plant.folder / "LOG").read_text())
    assert start["kind"] == "start"
    assert start["log_id"] == identity["log_id"] == start["values"]["log_id"]
    assert (start["values"]["version"], start["values"]["why"], start["values"]["boot"]) == (3, "began", 7)
    assert start["values"]["gateway_version"]
    assert start["ingest_ts"] == "2026-11-20T14:05:06.000000Z"


async def test_seq_and_identity_go_on_after_a_restart_and_the_absence_is_a_gap(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log() as log:
        last = log.append(plant.update(1))
    plant.clock.time += 90 * SECOND
    async with plant.log() as log:
        assert log.append(plant.update(2)) == last + 3
        assert not log.recovered
    records = read_log(plant.folder)
    assert [record["kind"] for record in records] == ["start", "update", "start", "gap", "update"]
    (gap,) = of_kind(records, "gap")
    assert (gap["from_ts"], gap["to_ts"]) == ("2026-11-20T14:05:06.000000Z", "2026-11-20T14:06:36.000000Z")
    assert reasons(records) == ["began", "began"]


async def test_each_segment_begins_with_how_all_stands(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    plant.standing = [1, 2, 3]
    async with plant.log() as log:
        await until(lambda: plant.heads, "the first head")
        plant.clock.time += 600 * SECOND
        plant.standing = [2, 3]
        await until(lambda: plant.heads == 2, "a segment that begins for its age")
        await until(lambda: log.committed >= 7, "its head")
    records = read_log(plant.folder)
    assert reasons(records) == ["began", "age"]
    assert [record["values"]["number"] for record in of_kind(records, "snapshot")] == [1, 2, 3, 2, 3]
    assert [segment.first_seq for segment in list_segments(plant.folder)] == [1, 5]


async def test_the_identity_says_which_segments_say_how_all_stands(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    plant.standing = [1, 2, 3]
    async with plant.log() as log:
        await log.reached(await whole_head(plant, log))
    assert standing_seq(plant.folder) == 1
    for _ in range(2):
        async with plant.log():
            pass  # it ends before its head is told
    assert standing_seq(plant.folder) == 1
    assert standing_segments(plant.folder, standing_seq(plant.folder)) == list_segments(plant.folder)
    assert len(list_segments(plant.folder)) == 3
    async with plant.log() as log:
        await log.reached(await whole_head(plant, log))
    assert standing_segments(plant.folder, standing_seq(plant.folder)) == list_segments(plant.folder)[3:]


async def whole_head(plant: Plant, log: EventLog) -> int:
    """Return the seq of the first record behind the head of the first segment that this log writes."""
    first = log.append(plant.update(0))
    await until(lambda: log.committed >= first + len(plant.standing), "the head")
    return log.append(plant.update(1))


async def test_a_full_hour_begins_a_segment_with_the_first_record_of_it(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log() as log:
        plant.clock.time = BEGIN - BEGIN % HOUR + HOUR - 1000
        log.append(plant.update(1))
        plant.clock.time += 1000
        log.append(plant.update(2))
    records = read_log(plant.folder)
    assert reasons(records) == ["began", "hour"]
    assert [record["ingest_ts"][:16] for record in records] == ["2026-11-20T14:05", "2026-11-20T14:59"] + [
        "2026-11-20T15:00"
    ] * 2


async def test_a_full_hour_begins_a_segment_also_when_nothing_happens(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log():
        plant.clock.time += HOUR
        await until(lambda: len(list_segments(plant.folder)) == 2, "a segment of the next hour")
    assert reasons(read_log(plant.folder)) == ["began", "hour"]


async def test_a_segment_ends_at_its_size_but_never_within_its_head(tmp_path: Path) -> None:
    settings = LogFileSettings(commit_interval=1_000_000, min_free=0, segment_size=20_000)
    plant = Plant(tmp_path, settings)
    plant.standing = list(range(200))  # 29 KB
    async with plant.log() as log:
        await until(lambda: log.committed >= 201, "the head")
        assert plant.heads == 1
        number = 0
        while plant.heads == 1:
            log.append(plant.update(number))
            number += 1
            await asyncio.sleep(0)
        await until(lambda: log.committed >= 401, "the second head")
    assert reasons(read_log(plant.folder)) == ["began", "size"]
    first, _second = list_segments(plant.folder)
    assert 50_000 < first.path.stat().st_size < 70_000, "twice its head"


async def test_a_head_delays_no_record(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    plant.standing = list(range(20_000))
    async with plant.log() as log:
        await asyncio.sleep(0)
        turns = 0
        while log.committed < 20_001:
            log.append(plant.update(turns))
            turns += 1
            await asyncio.sleep(0)
    records = read_log(plant.folder)
    assert len(of_kind(records, "snapshot")) == 20_000
    first_update = next(n for n, record in enumerate(records) if record["kind"] == "update")
    assert first_update < 10_000, "updates stand between the snapshots"


async def test_a_clock_that_goes_back_a_little_is_waited_for(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log() as log:
        for number, step in enumerate((5, -4, -5, 9)):
            plant.clock.time += step * SECOND
            log.append(plant.update(number))
    assert [record["ingest_ts"][17:19] for record in read_log(plant.folder)] == ["06", "11", "11", "11", "11"]


async def test_a_clock_that_is_set_back_begins_a_segment_of_the_hour_it_shows(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log() as log:
        log.append(plant.update(1))
        plant.clock.time -= 2 * HOUR
        log.append(plant.update(2))
        plant.clock.time += 2 * HOUR
        log.append(plant.update(3))
    records = read_log(plant.folder)
    assert reasons(records) == ["began", "clock", "hour"]
    assert [record["ingest_ts"][11:13] for record in records] == ["14", "14", "12", "12", "14", "14"]


async def test_a_late_record_of_a_clock_that_is_right_is_put_at_the_last_time(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log() as log:
        log.append(plant.update(1))
        log.append(update(2, "2026-11-20T13:00:00.000000Z"))
    records = read_log(plant.folder)
    assert reasons(records) == ["began"]
    assert records[-1]["ingest_ts"] == "2026-11-20T14:05:06.000000Z"


async def test_a_record_without_a_form_is_the_callers_fault_and_costs_no_seq(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log() as log:
        with pytest.raises(TypeError):
            log.append(LogRecord(kind=RecordKind.UPDATE, ingest_ts="", values={"a": object()}))
        log.append(plant.update(1))
    assert numbers(read_log(plant.folder)) == [1]


def _no_form(error: Exception) -> LogRecord:
    return LogRecord(kind=RecordKind.GAP, ingest_ts="", text=str(error), lost=1)


async def test_several_are_recorded_like_one_after_the_other(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    late = plant.update(2)
    plant.clock.time += SECOND
    shapeless = LogRecord(kind=RecordKind.UPDATE, ingest_ts="", values={"a": object()})
    async with plant.log() as log:
        assert log.append_all([], _no_form) == 0
        assert (
            log.append_all([plant.update(0), plant.update(1), late, shapeless, plant.update(3)], _no_form)
            == 6
        )
        plant.clock.time += HOUR
        assert log.append_all([plant.update(4), plant.update(5)], _no_form) == 9, "a start before them"
    records = read_log(plant.folder)
    assert numbers(records) == [0, 1, 2, 3, 4, 5]
    assert [record["kind"] for record in records][4] == "gap"
    assert reasons(records) == ["began", "hour"]
    assert records[3]["ingest_ts"] == records[2]["ingest_ts"], "the late one"


async def test_several_that_are_too_many_for_a_segment_go_on_in_the_next(tmp_path: Path) -> None:
    plant = Plant(tmp_path, LogFileSettings(commit_interval=1_000_000, min_free=0, segment_size=20_000))
    async with plant.log() as log:
        await until(lambda: plant.heads == 1, "the first head")
        log.append_all([plant.update(number) for number in range(120)], _no_form)
        await until(lambda: plant.heads == 2, "the second head")
    assert numbers(read_log(plant.folder)) == list(range(120))
    first, _second = list_segments(plant.folder)
    assert 20_000 < first.path.stat().st_size < 22_000


async def test_several_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    plant = Plant(tmp_path, LogFileSettings(commit_interval=HOUR, min_free=0, max_waiting=100))
    async with plant.log() as log:
        log.append_all([plant.update(number) for number in range(150)], _no_form)
        lost = log.state.lost
        assert lost > 50
    records = read_log(plant.folder)
    assert numbers(records) == list(range(150 - lost))
    assert [gap["lost"] for gap in of_kind(records, "gap")] == [lost]


async def test_records_wait_for_others_no_longer_than_the_interval(tmp_path: Path) -> None:
    plant = Plant(tmp_path, LogFileSettings(commit_interval=10 * 60 * SECOND, min_free=0))
    async with plant.log() as log:
        seq = log.append(plant.update(1))
        await asyncio.sleep(0)
        assert log.committed == 0
        number = 0
        while log.committed < seq:
            log.append(
                plant.update(
                    number,
                )
            )
            number += 1
            await asyncio.sleep(0)
        assert log.state.waiting < number, "two megabytes are enough not to wait for more"
    assert numbers(read_log(plant.folder)) == [1, *range(number)]


async def test_two_writers_of_one_log_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.eventlog.writer.LOCK_SECONDS", 0.1)
    plant = Plant(tmp_path)
    async with plant.log():
        with pytest.raises(EventLogError, match="another gateway writes this log"):
            async with plant.log():
                pass


async def test_the_log_waits_for_the_end_of_its_last_writer(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log():
        other = asyncio.create_task(plant.log().__aenter__())
        await asyncio.sleep(0.2)
        assert not other.done()
    second = await asyncio.wait_for(other, DEADLINE)
    await second.__aexit__(None, None, None)
    assert reasons(read_log(plant.folder)) == ["began", "began"]


async def test_a_log_that_was_refused_is_not_held(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log():
        pass
    identity = (plant.folder / "LOG").read_text()
    (plant.folder / "LOG").unlink()
    refused = plant.log()
    with pytest.raises(EventLogError, match="LOG: is missing"):
        await refused.__aenter__()
    (plant.folder / "LOG").write_text(identity)
    async with plant.log():
        pass
    assert reasons(read_log(plant.folder)) == ["began", "began"]


async def test_no_seq_is_given_again_when_an_operator_removes_a_segment(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log() as log:
        await log.reached(log.append(plant.update(1)))
        list_segments(plant.folder)[0].path.unlink()
    async with plant.log():
        pass
    assert read_log(plant.folder)[0]["seq"] == 3


async def test_without_trouble_there_is_no_pressure(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log() as log:
        await log.reached(log.append(plant.update(1)))
        assert log.pressure is Pressure.NONE
        assert log.state.state is EventLogState.WRITING
        await until(lambda: log.state.segments == 1, "the files are counted")
        assert log.state.octets > 300


async def test_a_closed_log_reaches_nothing_more(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    async with plant.log() as log:
        pass
    await log.reached(1)
    with pytest.raises(EventLogClosedError):
        await log.reached(2)


async def test_a_fault_in_reporting_heads_is_reported_and_records_are_still_written(tmp_path: Path) -> None:
    def head() -> Iterator[LogRecord]:
        raise LookupError("a fault")
        yield

    plant = Plant(tmp_path)
    plant.head = head  # type: ignore[method-assign]

    async def use() -> None:
        async with plant.log() as log:
            await until(lambda: plant.states and plant.states[-1].state is EventLogState.FAILED, "it is told")
            await log.reached(log.append(plant.update(1)))

    with pytest.raises(LookupError):
        await use()
    assert numbers(read_log(plant.folder)) == [1]
