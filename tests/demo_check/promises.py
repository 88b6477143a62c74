"""What the demonstration promises: each is waited for, and told when it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

DEADLINE_SECONDS = 90.0
POLL_SECONDS = 0.5

Problems = Callable[[], Awaitable[list[str]]]
"""What is not as promised yet, one line each."""


class CheckFailedError(Exception):
    """Something differs; the text says what, one line each."""


class Promises:
    """Waits for promises to be kept.

    Args:
        tell: told one line for each that is.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def kept(self, promise: str) -> None:
        """Tell that a promise is kept."""
        self._tell(f"ok   {promise}")

    async def until_none(self, promise: str, problems: Problems) -> None:
        """Wait until there are no problems: the broker's statistics and our polling take their time.

        Raises:
            CheckFailedError: there still are some after `DEADLINE_SECONDS`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_SECONDS
        while lines := await problems():
            if loop.time() > deadline:
                shown_lines = "\n".join(f"     {line}" for line in lines[:20])
                raise CheckFailedError(f"not kept: {promise}:\n{shown_lines}")
            await asyncio.sleep(POLL_SECONDS)
        self.kept(promise)
