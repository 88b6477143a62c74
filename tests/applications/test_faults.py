"""An internal fault in a source of applications loses none of the data that they reported."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.clock import SystemClock
from gateway.config.files import load_configuration
from gateway.dialects.ami.relay import RelaySession
from gateway.dialects.session import BytesReceived, Effect, Event
from gateway.service.processes import core
from gateway.service.processes.lifeline import Lifeline
from gateway.service.sources import ami as ami_source
from tests.applications.plant import Plant, new_plant, wait_for_the_disk
from tests.components.waiting import wait_until

pytestmark = pytest.mark.xdist_group("plant of faults")


class FaultySession(RelaySession):
    """A session that fails on messages with the word "fault"."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        if isinstance(event, BytesReceived) and b"fault" in event.octets:
            raise RuntimeError("a fault of ours")
        return super().handle(event, now)


def provoke(plant: Plant) -> None:
    """Report two tanks from an application, and then a message that causes the fault."""
    wait_until(lambda: plant.source().get("state") == "synchronised", "the source listens")
    with plant.application("pump-7") as application:
        application.say('O|T="Tank"|I="t1"|level=42|state="open"|raw="AQID"U', 'O|T="Tank"|I="t2"|level=7')
        wait_for_the_disk(plant, "pump-7|Tank|t1", "pump-7|Tank|t2")
        application.say("fault")
        application.receive_all()  # until it is cut off


def come_back(plant: Plant) -> None:
    """Connect the application again, and change one tank in part."""
    wait_until(lambda: plant.source().get("state") == "synchronised", "the source began again")
    with plant.application("pump-7") as application:
        application.say('O|T="Tank"|I="t1"|level=43')

        def is_shown() -> bool:
            tank = plant.values("ami:Tank/pump-7|t1")
            return tank["stale_since"] is None and tank["values"]["level"] == 43

        wait_until(is_shown, "the change")
        assert plant.values("ami:Tank/pump-7|t1")["values"]["state"] == "open"
        assert "level" in plant.values("ami:Tank/pump-7|t2")["absent"]  # the log need not have the last one


async def test_the_source_restarts_with_what_it_knew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ami_source, "RelaySession", FaultySession)
    monkeypatch.setattr(ami_source, "RESTART_SECONDS", 0.01)
    monkeypatch.setattr(core, "tune_garbage_collection", lambda: None)  # of this whole process
    plant = new_plant(tmp_path)
    configuration = load_configuration(plant.site.configuration)
    with capture_logs() as logs:
        running = asyncio.create_task(core.run_core(configuration, SystemClock(), Lifeline(None)))
        try:
            await asyncio.to_thread(provoke, plant)
            await asyncio.to_thread(come_back, plant)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert [one["name"] for one in logs if one["event"] == "source-failed"] == ["plant"]
