"""The upkeep of the instance index while a core runs: rows reach the disk, forgotten ones are released."""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from gateway.clock import Clock
from gateway.inventory.index_upkeep import DiskState
from gateway.inventory.instance_file import IndexNotWrittenError
from gateway.inventory.instances import InstanceIndex
from gateway.tasks import until_one_ends

log = structlog.get_logger(__name__)

UPKEEP_SECONDS = 15.0
"""Seconds after which, at the latest, a row number is safe from a power failure."""

RETRY_SECONDS = 1.0
"""Seconds after which a disk that took nothing is tried again."""

FORGET_SECONDS, FORGET_SOON_SECONDS, FORGOTTEN_AT_ONCE = 3600.0, 0.1, 500


async def keep_index(index: InstanceIndex, clock: Clock, needed: asyncio.Event) -> None:
    """Maintain the index until cancelled, or until its file has to be opened again (`is_left_read_only`).

    Args:
        index: in use on this loop.
        clock: the gateway's.
        needed: set by the index when it cannot wait.

    Raises:
        InstanceIndexError: the index has failed, not for its disk: nothing may continue without it.
    """
    await until_one_ends(_keep_on_disk(index, needed), _forget(index, clock))


async def _keep_on_disk(index: InstanceIndex, needed: asyncio.Event) -> None:
    shown = DiskState.ROOM
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS if index.trouble else UPKEEP_SECONDS):
                await needed.wait()
        needed.clear()
        index.check()
        if index.is_left_read_only:
            return
        upkeep = index.upkeep()
        if upkeep is not None:
            try:
                index.upkept(await asyncio.to_thread(upkeep))
            except IndexNotWrittenError as error:
                index.not_kept(error)
        if index.disk is not shown:
            shown = index.disk
            _log_disk(index)


def _log_disk(index: InstanceIndex) -> None:
    match index.disk:
        case DiskState.ROOM:
            log.info("state-written")
        case DiskState.RESERVE:
            log.warning(
                "state-reserve-used",
                left=index.reserve_left,
                advice="make room on the disk of the state folder; without it, new objects will not be shown",
            )
        case DiskState.NOTHING:
            log.warning(
                "state-not-written", reason=index.trouble, detail="new objects wait, and are not shown"
            )


async def _forget(index: InstanceIndex, clock: Clock) -> None:
    """Release row numbers of objects that will not return, a few at a time."""
    while True:
        forgotten = index.forget_retired(clock.now(), FORGOTTEN_AT_ONCE)
        await asyncio.sleep(FORGET_SOON_SECONDS if forgotten == FORGOTTEN_AT_ONCE else FORGET_SECONDS)
