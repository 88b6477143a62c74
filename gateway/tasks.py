"""Running several coroutines as one, functions again and again, and connections to their end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn

CLOSE_SECONDS: Final = 1.0
"""Seconds in which the other end of a connection that is closed may still read what was written."""


async def every(seconds: float, act: Callable[[], object]) -> NoReturn:
    """Call ``act`` once in so many seconds, for the first time after the first of them, until cancelled."""
    while True:
        await asyncio.sleep(seconds)
        act()


async def until_one_ends(*parts: Coroutine[Any, Any, object]) -> None:
    """Run all at once until one of them ends or fails; then cancel the others and wait for their ends.

    Raises:
        BaseException: what the first in order raised, of those that had ended by then.
    """
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until_closed(writer: asyncio.StreamWriter, patience: float = CLOSE_SECONDS) -> None:
    """Close a connection, and wait until the other end has read all of it, which it may never do.

    So the wait is bounded, and ends with this task, too; what is not read by then is dropped.

    Args:
        writer: of the connection.
        patience: seconds.
    """
    writer.close()
    try:
        with contextlib.suppress(OSError):  # it went away, or reads nothing: TimeoutError is an OSError
            async with asyncio.timeout(patience):
                await writer.wait_closed()
    finally:
        # What has ended by itself cannot be aborted: its transport has no loop any more.
        if writer.get_extra_info("socket").fileno() >= 0:
            writer.transport.abort()
