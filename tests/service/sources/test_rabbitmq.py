"""A fault of ours in a source that reads a RabbitMQ is reported, and only that source begins again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NoReturn

import pytest
from structlog.testing import capture_logs

from gateway.clock import SystemClock
from gateway.config.sources import RabbitMqSource
from gateway.feed.records import GapRecord, Record, SourceRecord
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.mapping.rules import Mapping
from gateway.model.observations import SourceState
from gateway.model.operations import ObjectFetch, Outcome
from gateway.model.schema import ClassKey
from gateway.model.secrets import SecretRules
from gateway.service.sources import rabbitmq as rabbitmq_source
from gateway.service.sources.source_context import SourceContext
from gateway.service.sources.sources import source_of
from gateway.sources.rabbitmq.http_reader import HttpReader
from tests.components.called_agent import Reported
from tests.components.opened_index import opened_index
from tests.components.rabbitmq import VirtualHost
from tests.components.shipped_mappings import shipped_mappings
from tests.components.waiting import eventually


async def test_a_fault_of_ours_is_reported_and_the_source_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq_source, "RESTART_SECONDS", 0.01)
    (tmp_path / "password").write_text("hidden")
    settings = RabbitMqSource.model_validate(
        {
            "kind": "rabbitmq",
            "management": "http://127.0.0.1:1",
            "user": "gateway",
            "password": {"file": "password"},
        }
    )
    mappings: dict[str, Mapping] = {}  # without its own mapping the agent cannot be made
    inventory = Inventory("gw", 1, ClassRegistry({}), opened_index(tmp_path / "i"), lambda _batch: None)
    around = SourceContext(inventory, mappings, SecretRules(), SystemClock(), tmp_path, 1)
    running = asyncio.create_task(source_of("shop", settings, around)())

    async def says(text: str) -> bool:
        records = [record for record in inventory.snapshot()[0] if isinstance(record, SourceRecord)]
        return records[0].state is SourceState.DOWN and text in records[0].detail

    try:
        await eventually(lambda: says("internal error KeyError: see the log"), "the fault is told")
        mappings.update(shipped_mappings())
        await eventually(lambda: says("the management API does not answer"), "the source began again")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_what_happens_while_a_fault_of_ours_restarts_it_is_a_gap(
    tmp_path: Path, virtual_host: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = virtual_host.broker
    (tmp_path / "password").write_text(broker.administrator.password)
    settings = RabbitMqSource.model_validate(
        {
            "kind": "rabbitmq",
            "management": broker.management_url,
            "user": broker.administrator.name,
            "password": {"file": "password"},
            "events": {"url": f"amqp://127.0.0.1:{broker.ports.amqp}"},
            "interval": "1s",
        }
    )
    records: list[Record] = []
    index = opened_index(tmp_path / "i")
    inventory = Inventory("gw", 1, ClassRegistry({}), index, lambda batch: records.extend(batch.records))
    clock = SystemClock()
    around = SourceContext(inventory, shipped_mappings(), SecretRules(), clock, tmp_path, 1)

    def state() -> SourceState:
        return next(one.state for one in reversed(records) if isinstance(one, SourceRecord))

    async def is_synchronised() -> bool:
        return bool(records) and state() is SourceState.SYNCHRONISED

    async def is_down() -> bool:
        return state() is SourceState.DOWN

    async def gaps() -> list[GapRecord]:
        return [one for one in records if isinstance(one, GapRecord)]

    def fail(*_: object) -> NoReturn:
        raise ValueError("a fault of ours")

    running = asyncio.create_task(source_of("shop", settings, around)())
    try:
        await eventually(is_synchronised, "the source is synchronised")
        with capture_logs(), monkeypatch.context() as patched:
            patched.setattr(HttpReader, "read", fail)
            await eventually(is_down, "the source has failed")
        with virtual_host.http() as http:
            http.put(f"queues/{virtual_host.path}/short-lived", json={}).raise_for_status()
            made = clock.now()
            http.delete(f"queues/{virtual_host.path}/short-lived").raise_for_status()
        await eventually(gaps, "the gap is reported")
        await eventually(is_synchronised, "the source is synchronised again")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    (gap,) = await gaps()
    assert gap.start < made < gap.end
    assert gap.reason == "the source was restarted after an internal error"


async def test_operations_on_a_broker_that_is_not_reached_are_not_sent(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hidden")
    settings = RabbitMqSource.model_validate(
        {
            "kind": "rabbitmq",
            "management": "http://127.0.0.1:1",
            "user": "gateway",
            "password": {"file": "password"},
        }
    )
    reported = Reported()
    inventory = Inventory("gw", 1, ClassRegistry({}), opened_index(tmp_path / "i"), lambda _batch: None)
    around = SourceContext(
        *(inventory, shipped_mappings(), SecretRules(), SystemClock(), tmp_path, 1), operations=reported
    )
    running = asyncio.create_task(source_of("shop", settings, around)())

    async def is_refused() -> bool:
        if reported.port is not None:
            reported.port.fetch(ObjectFetch(1, ClassKey("rabbitmq", "queue"), "1.0", "0-1-1-0-1", 2**62))
        return any("the management API does not answer" in answer.text for answer in reported.answers(1))

    try:
        await eventually(is_refused, "a fetch was refused")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert set(reported.outcomes(1)) == {Outcome.SOURCE_DOWN}
