"""Waiting for conditions: never for a time, always with a deadline that only a fault reaches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

DEADLINE = 120.0
"""Seconds; generous, because a slow machine is not a fault."""

_POLL_SECONDS = 0.02
_LONGEST_PAUSE = 0.5


def wait_until(condition: Callable[[], object], what: str, deadline: float = DEADLINE) -> None:
    """Return once ``condition()`` is true; fail after ``deadline`` seconds, saying ``what`` was missing.

    The last look begins after the deadline: one look may take longer than that.
    """
    begun = time.monotonic()
    end = begun + deadline
    while not condition():
        assert begun < end, f"not within {deadline:g} s: {what}"
        time.sleep(_pause(time.monotonic() - begun))
        begun = time.monotonic()


async def eventually(
    condition: Callable[[], Awaitable[object]], what: str, deadline: float = DEADLINE
) -> None:
    """Like `wait_until`, for a condition that is awaited."""
    begun = time.monotonic()
    end = begun + deadline
    while not await condition():
        assert begun < end, f"not within {deadline:g} s: {what}"
        await asyncio.sleep(_pause(time.monotonic() - begun))
        begun = time.monotonic()


async def until(condition: Callable[[], object], what: str, deadline: float = DEADLINE) -> None:
    """Like `eventually`, for a condition of what the event loop has taken in."""

    async def met() -> object:
        return condition()

    await eventually(met, what, deadline)


def _pause(took: float) -> float:
    """Seconds until the next look: no more than a third of the time is spent on looking, if a look is short.

    What is waited for needs the processors, too, and a look may be a command of its own.
    """
    return min(max(_POLL_SECONDS, 2 * took), _LONGEST_PAUSE)
