"""Functions that wait for conditions, with a deadline that only a fault reaches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

DEADLINE = 300.0
"""The default deadline in seconds; generous, because a slow machine is not a fault.

A broker that answers slowly is read every 2 min at the latest.
"""

_POLL_SECONDS = 0.02
_LONGEST_PAUSE = 1.0
_PART_OF_WAIT = 30
"""The part of the time waited so far by which the next check may be late: what takes long is asked seldom."""


def wait_until(condition: Callable[[], object], what: str, deadline: float = DEADLINE) -> None:
    """Return once ``condition()`` is true; fail after ``deadline`` seconds with ``what`` as the description.

    The last check begins after the deadline: one check may take longer than that.
    """
    first = begun = time.monotonic()
    while not condition():
        assert begun < first + deadline, f"not within {deadline:g} s: {what}"
        time.sleep(_pause(begun - first, time.monotonic() - begun))
        begun = time.monotonic()


async def eventually(
    condition: Callable[[], Awaitable[object]], what: str, deadline: float = DEADLINE
) -> None:
    """Wait as `wait_until`, for a condition that is awaited."""
    first = begun = time.monotonic()
    while not await condition():
        assert begun < first + deadline, f"not within {deadline:g} s: {what}"
        await asyncio.sleep(_pause(begun - first, time.monotonic() - begun))
        begun = time.monotonic()


async def until(condition: Callable[[], object], what: str, deadline: float = DEADLINE) -> None:
    """Wait as `eventually`, for a condition that is not awaited; the event loop runs between the checks."""

    async def met() -> object:
        return condition()

    await eventually(met, what, deadline)


def _pause(waited: float, took: float) -> float:
    """Return the seconds until the next check: a short check takes at most a quarter of the time.

    The awaited work needs the processors, too, and a check may be a command of its own or a request.
    """
    return min(max(_POLL_SECONDS, waited / _PART_OF_WAIT, 3 * took), _LONGEST_PAUSE)
