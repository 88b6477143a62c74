"""The deliveries that the log has: noted with their records, found again where the log ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.clock import SystemClock
from gateway.config.model import LogSettings
from gateway.eventlog.block import Block
from gateway.eventlog.last_state import last_state
from gateway.eventlog.segment import list_segments, scan_segment
from gateway.feed.records import Batch, GapRecord, Record
from gateway.service.processes import event_log
from gateway.service.processes.event_log import AckTracker, CoreEventLog
from tests.eventlog.feeds import AGENT, QUEUE, SHOP, T0, queue, update


def batch(*records: Record) -> Batch:
    return Batch(1, 1, records)


def log_in(folder: Path) -> CoreEventLog:
    return CoreEventLog(folder, LogSettings(), SystemClock())


def deliveries(folder: Path) -> list[str]:
    """Return the deliveries in the order of the log's records."""
    blocks = [
        block
        for segment in list_segments(folder)
        for block in scan_segment(segment.path)
        if isinstance(block, Block)
    ]
    lines = [line.decode() for block in blocks for line in block.split()]
    return [line.partition('"delivery":"')[2].partition('"')[0] for line in lines if '"delivery"' in line]


async def test_the_last_record_that_reports_what_happened_names_its_delivery(tmp_path: Path) -> None:
    async with log_in(tmp_path) as log:
        ledger = AckTracker(log)
        agents = ledger.of("agents")
        log.take(batch(SHOP, QUEUE, AGENT))
        with agents.recording("first"):
            log.take(batch(queue(1)))
            log.take(batch(queue(2), update({0: "renamed"}, row=2), GapRecord(1, T0, T0, "why")))
        with agents.recording("nothing"):
            pass
        await agents.committed(agents.position)
        assert deliveries(tmp_path) == ["agents:first"]
        assert agents.is_recorded("first")
        assert agents.is_recorded("nothing")
        assert not ledger.of("others").is_recorded("first")

    again = AckTracker(log_in(tmp_path), last_state(tmp_path, ["shop"]).deliveries)
    assert again.of("agents").is_recorded("first")
    assert not again.of("agents").is_recorded("nothing"), "to tell it again changes nothing"


async def test_a_delivery_is_known_over_any_number_of_starts(tmp_path: Path) -> None:
    """A delivery may be repeated after each start, until a core lives long enough to acknowledge it."""
    async with log_in(tmp_path) as log:
        log.take(batch(SHOP, QUEUE, AGENT))
        with AckTracker(log).recording("agents:first"):
            log.take(batch(queue(1)))
    for _ in range(4):
        former = last_state(tmp_path, ["shop"])
        assert AckTracker(log_in(tmp_path), former.deliveries).is_recorded("agents:first")
        async with CoreEventLog(tmp_path, LogSettings(), SystemClock(), former=former):
            pass
    assert deliveries(tmp_path) == ["agents:first"]


async def test_records_of_a_delivery_stand_together(tmp_path: Path) -> None:
    async with log_in(tmp_path) as log:
        ledger = AckTracker(log)
        log.take(batch(SHOP, QUEUE, AGENT))
        before = ledger.position
        with ledger.recording("a"):
            log.take(batch(queue(1)))
            assert ledger.position == before, "it goes to the log when it is told whole"
        assert ledger.position == before + 1


async def test_nothing_is_lasting_while_the_disk_is_full(tmp_path: Path) -> None:
    log = CoreEventLog(tmp_path / "log", LogSettings(min_free=2**40), SystemClock())
    async with log:
        ledger = AckTracker(log)
        await ledger.committed(0)
        with ledger.recording("a"):
            log.take(batch(SHOP, QUEUE, AGENT, queue(1)))
        waiting = asyncio.create_task(ledger.committed(ledger.position))
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_the_oldest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MAX_REMEMBERED", 2)
    async with log_in(tmp_path) as log:
        ledger = AckTracker(log)
        for name in ("a", "b", "c"):
            with ledger.recording(name):
                pass
        assert [ledger.is_recorded(name) for name in ("a", "b", "c")] == [False, True, True]


async def test_a_log_that_cannot_be_opened_acknowledges_nothing(tmp_path: Path) -> None:
    (tmp_path / "LOG").write_text("no identity")
    async with log_in(tmp_path) as log:
        assert not AckTracker(log).is_open
