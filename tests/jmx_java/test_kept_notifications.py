"""Notifications that clients have not fetched yet are no danger to the heap, however long they are."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.jmx.commands import Change, Command, Register
from gateway.jmx.virtual_machine import JavaMachine, kept_notifications
from tests.components.waiting import eventually
from tests.jmx_java.conftest import AsyncClient, Connect, authenticate, publish_well, settings
from tests.jmx_java.test_notifications import CREATED, FRESH, LONG_ENOUGH, ORDERS, QUEUE, VALUES

HEAP = 32
"""MiB, the smallest heap that the configuration permits."""

LONG = 20_000
"""Characters of a text. The notifications of a test have more of them than the heap has octets."""


def _texts(count: int) -> list[str]:
    return [chr(97 + number % 26) * LONG for number in range(count)]


EVENTS = tuple(replace(CREATED, message=text) for text in _texts(20))
DATA = tuple(replace(CREATED, data=(("eventId", CREATED.data[0][1], text),)) for text in _texts(20))
CHANGES = tuple(Change.of(1, {0: text}) for text in _texts(20))
"""Commands of which each makes one notification."""


@pytest.mark.parametrize("batch", [EVENTS, DATA, CHANGES], ids=["message", "data", "change"])
async def test_long_notifications_leave_the_heap_before_it_is_full(
    connect: Connect, batch: tuple[Command, ...]
) -> None:
    async with JavaMachine(settings(heap=HEAP), authenticate) as machine:
        await machine.open()
        await publish_well(machine, QUEUE, FRESH, Register(1, 1, 1, ORDERS, VALUES))
        async with connect(machine) as client:
            await client("listen", ORDERS)
            await client("standStill")
            batches = HEAP * 2**20 * 5 // 4 // (LONG * len(batch))
            for _ in range(batches):
                await publish_well(machine, *batch)
            await client("goOn")
            sent = batches * len(batch)
            received, lost = await _all_of(client, sent)
            assert received + lost == sent
            assert lost > 0
            await publish_well(machine, CREATED)
            assert await _is_received(client, "queue orders created")


async def _all_of(client: AsyncClient, sent: int) -> tuple[int, int]:
    """Return how many notifications a client has received, and missed, when it knows of all."""
    received = lost = 0

    async def knows_of_all() -> bool:
        nonlocal received, lost
        received, lost = await client("receivedCount"), await client("lostCount")
        return bool(received + lost >= sent)

    await eventually(knows_of_all, "all notifications received or missed")
    return received, lost


async def _is_received(client: AsyncClient, text: str) -> bool:
    while found := await client("received", LONG_ENOUGH):
        if text in found:
            return True
    return False


def test_the_number_of_kept_notifications_depends_on_the_heap() -> None:
    assert kept_notifications(100_000, 512) == 100_000
    assert kept_notifications(100_000, 64) == 12_800
    assert kept_notifications(1_000, 64) == 1_000
