"""A memory alarm held: the broker accepts nothing over AMQP, and events are reported within seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest
import pytest_asyncio

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE
from tests.end_to_end.observer import Observer
from tests.end_to_end.rightness import Rightness
from tests.end_to_end.rights import Rights
from tests.end_to_end.story import Story
from tests.end_to_end.witness import Witness
from tests.hypothesis_profiles import PROVING

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demonstration")]

HELD_SECONDS = 60.0 if PROVING else 5.0
REPORTED_SECONDS = 5.0 if PROVING else 30.0
LOW_WATERMARK, USUAL_WATERMARK = "0.0000001", "0.4"


Watermark: TypeAlias = Callable[[str], Awaitable[None]]


@pytest_asyncio.fixture(loop_scope="session")
async def watermark(observer: Observer) -> AsyncIterator[Watermark]:
    """Provide a function that sets the share of memory beyond which the broker blocks publishers.

    Afterwards it is the usual one.
    """

    async def set_to(share: str) -> None:
        await asyncio.to_thread(observer.broker.rabbitmqctl, "set_vm_memory_high_watermark", share)

    yield set_to
    await set_to(USUAL_WATERMARK)


async def test_events_are_reported_while_the_broker_blocks_publishers(
    observer: Observer,
    witness: Witness,
    rightness: Rightness,
    rights: Rights,
    story: Story,
    watermark: Watermark,
    record_property: Callable[[str, object], None],
) -> None:
    async def reported(name: str, **facts: str) -> float:
        """Return the seconds until traps of both sources report an event that happens now."""
        begun = time.monotonic()

        async def by_both() -> bool:
            found = await story.found(name, **facts)
            return {trap.values["agEventSource"] for trap in found} == {SOURCE, AGENT_SOURCE}

        await observer.until(f"{name} is told by both sources", by_both)
        return time.monotonic() - begun

    await watermark(LOW_WATERMARK)
    delays = [await reported("rmqMemoryAlarmSet")]
    held_until = time.monotonic() + HELD_SECONDS
    while time.monotonic() < held_until:
        name = f"while.blocked.{len(delays)}"
        await rights.change("PUT", f"queues/%2F/{name}", {"durable": True})
        delays.append(await reported("rmqQueueCreated", rmqEventName=name))
        await rights.change("DELETE", f"queues/%2F/{name}")
        delays.append(await reported("rmqQueueDeleted", rmqEventName=name))
        await witness.after(10)
    for source in (SOURCE, AGENT_SOURCE):
        assert (await observer.sources())[source]["agSourceWorstAlarm"] == "critical"
        assert not await observer.stale(source)
    await watermark(USUAL_WATERMARK)
    delays.append(await reported("rmqMemoryAlarmCleared"))
    record_property("slowest_trap_seconds", round(max(delays), 2))
    assert max(delays) < REPORTED_SECONDS
    await rightness.again()
    await story.end()
