"""A fault of ours in a source of kind ami restarts it, and the time in between is a gap."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.clock import SystemClock
from gateway.config.sources import AmiSource
from gateway.feed.records import GapRecord, Record, SourceRecord
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.links.session_driver import StreamDriver, Streams
from gateway.model.observations import SourceState
from gateway.model.secrets import SecretRules
from gateway.service.sources import ami as ami_source
from gateway.service.sources.source_context import SourceContext
from gateway.service.sources.sources import source_of
from tests.components.opened_index import opened_index
from tests.components.ports import free_tcp_port
from tests.components.shipped_mappings import shipped_mappings
from tests.components.waiting import eventually


async def test_the_time_until_it_listens_again_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ami_source, "RESTART_SECONDS", 0.01)
    port = free_tcp_port()
    settings = AmiSource.model_validate({"kind": "ami", "listen": f"127.0.0.1:{port}"})
    records: list[Record] = []
    index = opened_index(tmp_path / "i")
    inventory = Inventory("gw", 1, ClassRegistry({}), index, lambda batch: records.extend(batch.records))
    mappings, clock = shipped_mappings(), SystemClock()
    around = SourceContext(inventory, mappings, SecretRules(), clock, tmp_path, 1)
    drivers: list[StreamDriver] = []
    made = StreamDriver.carried_by

    def note(driver: StreamDriver, streams: Streams) -> None:
        drivers.append(driver)
        made(driver, streams)

    monkeypatch.setattr(StreamDriver, "carried_by", note)

    async def is_up() -> bool:
        states = [one.state for one in records if isinstance(one, SourceRecord)]
        return bool(states) and states[-1] is not SourceState.DOWN and bool(drivers)

    async def gaps() -> list[GapRecord]:
        return [one for one in records if isinstance(one, GapRecord)]

    running = asyncio.create_task(source_of("plant", settings, around)())
    try:
        await eventually(is_up, "it listens")
        assert await gaps() == []
        failed = clock.now()
        with capture_logs() as lines:
            drivers[0].fail(ValueError("a fault of ours"))
            await eventually(gaps, "the gap is reported")
        assert "source-failed" in [line["event"] for line in lines]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    (gap,) = await gaps()
    assert failed <= gap.start < gap.end <= clock.now()
    assert gap.reason == "internal error ValueError: see the log; it begins again"
