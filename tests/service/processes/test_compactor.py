"""The compactor as a process of a gateway, and what it does where something is in its way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest
import structlog

from gateway.eventlog.segment import VERSION, LogIdentity, compactable, lake_files, list_segments
from gateway.eventlog.verification import Summary, verify
from gateway.service.metrics import families
from gateway.service.processes import compactor
from gateway.service.processes.compactor import NICENESS, Compaction
from gateway.service.processes.exit_codes import ExitCode
from tests.components.command_line import new_site, running
from tests.components.waiting import DEADLINE, eventually, wait_until
from tests.eventlog.logs import LOG_ID, everything, segment, some_segments, update


def values(compaction: Compaction) -> dict[str, float]:
    return {reading.family: reading.value for reading in compaction.counts.readings()}


def test_it_compacts_what_is_complete_when_it_comes_and_gives_way_to_others(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    log = site.folder / "state" / "log"
    some_segments(log, 2)
    before = everything(log)
    with running("process", "compactor", "--config", site.configuration, log=tmp_path / "stderr") as process:
        process.ready()
        wait_until(lambda: len(list_segments(log)) == 1, "the segments are in the lake")
        assert psutil.Process(process.process.pid).nice() == min(psutil.Process().nice() + NICENESS, 19)
        assert everything(log) == before
        (log / "segments" / f"{51:020}.open.jsonl").unlink()
        segment(log, 51, map(update, range(51, 60)))
        segment(log, 60, (), is_open=True)
        wait_until(lambda: len(list_segments(log)) == 1, "the new one too")
    assert len(everything(log)) == 59


def test_what_cannot_be_compacted_keeps_nothing_else_from_it(tmp_path: Path) -> None:
    first, second, _ = some_segments(tmp_path, 3)
    in_the_way = tmp_path / "lake" / "dt=2026-11-20" / "hour=08" / f"{LOG_ID}-{1:020}.parquet"
    in_the_way.mkdir(parents=True)
    second.path.write_bytes(b"no log at all")
    compaction = Compaction(tmp_path)
    with structlog.testing.capture_logs() as logs:
        assert compaction.compact_all()
    assert [segment.first_seq for segment in list_segments(tmp_path)] == [first.first_seq, 76]
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("segment-damaged", "warning"),
        ("compaction-failed", "warning"),
    ]
    assert values(compaction) == {
        families.COMPACTION_WAITING.name: 1,
        families.COMPACTION_SEGMENTS.name: 2,
        families.COMPACTION_DAMAGED.name: 1,
        families.COMPACTION_RECORDS.name: 25,
        families.COMPACTION_READ.name: compaction.counts.octets,
        families.COMPACTION_WRITTEN.name: compaction.counts.file_octets,
        families.COMPACTION_FAILURES.name: 1,
    }


def test_the_end_of_the_log_is_left_to_a_core_that_is_away(tmp_path: Path) -> None:
    """The core closed the log when it was asked to end; the next core finds the last state there."""
    some_segments(tmp_path, 2)
    (tmp_path / "segments" / f"{51:020}.open.jsonl").unlink()
    identity = LogIdentity(version=VERSION, log_id=LOG_ID, next_seq=51)
    (tmp_path / "LOG").write_text(identity.text(), encoding="utf-8")
    assert [one.first_seq for one in compactable(tmp_path)] == [1, 26]
    assert not Compaction(tmp_path).compact_all()
    assert [one.first_seq for one in list_segments(tmp_path)] == [26]


def test_a_log_that_did_not_begin_is_nothing_to_do(tmp_path: Path) -> None:
    assert not Compaction(tmp_path / "log").compact_all()
    assert not (tmp_path / "log").exists()


def test_what_was_interrupted_begins_nothing(tmp_path: Path) -> None:
    some_segments(tmp_path, 2)
    compaction = Compaction(tmp_path)
    compaction.interrupt()
    assert not compaction.compact_all()
    assert len(list_segments(tmp_path)) == 3


def test_a_gateway_compacts_what_it_writes_also_after_its_compactor_was_killed(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    site.configure(jmx={"enabled": False}, log={"segment_duration": "1s", "min_free": 0})
    log = site.folder / "state" / "log"

    def compactors() -> list[psutil.Process]:
        children = psutil.Process(gateway.process.pid).children()
        return [child for child in children if "compactor" in child.cmdline()]

    with running("run", "--config", site.configuration, log=tmp_path / "stderr") as gateway:
        gateway.ready()
        wait_until(lambda: len(lake_files(log)) > 1, "files in the lake")
        (killed,) = compactors()
        killed.kill()
        there = len(lake_files(log))
        wait_until(lambda: len(lake_files(log)) > there + 1, "more files in the lake")
        assert gateway.terminate().code is ExitCode.OK
    summary = Summary()
    assert list(verify(log, summary, lambda *_: None)) == []
    assert summary.lake_files > there


async def test_it_ends_when_nothing_has_waited_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactor, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(compactor, "IDLE_SECONDS", 0.05)
    some_segments(tmp_path, 2)
    compaction = Compaction(tmp_path)
    async with asyncio.timeout(DEADLINE):
        await compaction.run()
    assert len(list_segments(tmp_path)) == 1
    assert (compaction.counts.segments, compaction.counts.waiting) == (2, 0)


async def test_it_stays_while_it_cannot_do_its_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactor, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(compactor, "LAST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(compactor, "IDLE_SECONDS", 0.05)
    some_segments(tmp_path, 1)
    (tmp_path / "lake").write_text("in the way")
    compaction = Compaction(tmp_path)
    running = asyncio.create_task(compaction.run())

    async def tried() -> bool:
        return compaction.counts.failures > 20

    await eventually(tried, "it tries again and again")
    assert not running.done()
    (tmp_path / "lake").unlink()
    async with asyncio.timeout(DEADLINE):
        await running
    assert compaction.counts.segments == 1


def test_no_compactor_runs_where_none_is_wanted(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    site.configure(jmx={"enabled": False}, log={"compact": False})
    with running("run", "--config", site.configuration, log=tmp_path / "stderr") as gateway:
        gateway.ready()
        lines: list[dict[str, Any]] = []

        def is_reported() -> bool:
            lines[:] = [line for line in gateway.log if line["event"] == "gateway-ready"]
            return bool(lines)

        wait_until(is_reported, "what runs is told")
    (ready,) = lines
    assert set(ready["processes"]) == {"core", "snmp"}
