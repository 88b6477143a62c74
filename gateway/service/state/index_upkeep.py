"""Begins to use the instance index, and keeps it on the disk without anybody waiting for it."""

from __future__ import annotations

import asyncio
import contextlib

from gateway.clock import Clock
from gateway.inventory.instances import InstanceIndex
from gateway.state_folder import StateFolder
from gateway.tasks import until_one_ends

UPKEEP_SECONDS = 15.0
"""After so long at the latest, a row number is where a power cut cannot reach it."""

FORGET_SECONDS, FORGET_SOON_SECONDS, FORGOTTEN_AT_ONCE = 3600.0, 0.1, 500


def count_start(state: StateFolder, index: InstanceIndex) -> int:
    """The number of this start, on the disk in both places before anything can be published under it.

    The index first: if the process dies between the two, the number is taken once more, and the index allows
    that.
    """
    boot = state.boots + 1
    index.start(state.identity, boot)
    return state.next_boot()


async def keep_index(index: InstanceIndex, clock: Clock, needed: asyncio.Event) -> None:
    """Run until cancelled.

    Args:
        index: in use on this loop.
        clock: the gateway's.
        needed: set by the index when it cannot wait.

    Raises:
        InstanceIndexError: the index has failed, here or for whoever used it: nothing may go on without it.
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
    """Give up row numbers of objects that are gone for ever, a few at a time."""
    while True:
        forgotten = index.forget_retired(clock.now(), FORGOTTEN_AT_ONCE)
        await asyncio.sleep(FORGET_SOON_SECONDS if forgotten == FORGOTTEN_AT_ONCE else FORGET_SECONDS)
