"""Running several coroutines as one, and functions again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn


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
