"""How a process of the gateway ends when it is asked to: in order, with exit code 0."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def until_terminated(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` to its end; SIGINT or SIGTERM cancel it, which is no error then.

    Raises:
        Exception: what ``work`` raises.
    """
    task = asyncio.ensure_future(work)
    asked = False

    def ask() -> None:
        nonlocal asked
        asked = True
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ask)
    try:
        await task
    except asyncio.CancelledError:
        if not asked:
            raise
