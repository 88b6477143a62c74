"""Waiting for conditions: never for a time, always with a deadline that only a fault reaches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

DEADLINE = 120.0
"""Seconds; generous, because a slow machine is not a fault."""

_POLL_SECONDS = 0.02


def wait_until(condition: Callable[[], object], what: str, deadline: float = DEADLINE) -> None:
    """Return once ``condition()`` is true; fail after ``deadline`` seconds, saying ``what`` was missing."""
    end = time.monotonic() + deadline
    while not condition():
        assert time.monotonic() < end, f"not within {deadline:g} s: {what}"
        time.sleep(_POLL_SECONDS)


async def eventually(
    condition: Callable[[], Awaitable[object]], what: str, deadline: float = DEADLINE
) -> None:
    """Like `wait_until`, for a condition that is awaited."""
    end = time.monotonic() + deadline
    while not await condition():
        assert time.monotonic() < end, f"not within {deadline:g} s: {what}"
        await asyncio.sleep(_POLL_SECONDS)
