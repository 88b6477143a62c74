"""The upkeep of the instance index while a core runs: rows reach the disk, forgotten ones are released."""

from __future__ import annotations

import asyncio
import contextlib

from gateway.clock import Clock
from gateway.inventory.instances import InstanceIndex
from gateway.tasks import until_one_ends

UPKEEP_SECONDS = 15.0
"""Seconds after which, at the latest, a row number is safe from a power failure."""

FORGET_SECONDS, FORGET_SOON_SECONDS, FORGOTTEN_AT_ONCE = 3600.0, 0.1, 500


async def keep_index(index: InstanceIndex, clock: Clock, needed: asyncio.Event) -> None:
    """Maintain the index until cancelled.

    Args:
        index: in use on this loop.
        clock: the gateway's.
        needed: set by the index when it cannot wait.

    Raises:
        InstanceIndexError: the index has failed: nothing may continue without it.
    """
    await until_one_ends(_keep_on_disk(index, needed), _forget(index, clock))


async def _keep_on_disk(index: InstanceIndex, needed: asyncio.Event) -> None:
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(needed.wait(), UPKEEP_SECONDS)
        needed.clear()
        index.check()
        upkeep = index.upkeep()
        if upkeep is not None:
            index.reserved(await asyncio.to_thread(upkeep))


async def _forget(index: InstanceIndex, clock: Clock) -> None:
    """Release row numbers of objects that will not return, a few at a time."""
    while True:
        forgotten = index.forget_retired(clock.now(), FORGOTTEN_AT_ONCE)
        await asyncio.sleep(FORGET_SOON_SECONDS if forgotten == FORGOTTEN_AT_ONCE else FORGET_SECONDS)
