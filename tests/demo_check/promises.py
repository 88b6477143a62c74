"""The promises of the demonstration: each is waited for, and reported when it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

DEADLINE_SECONDS = 90.0
POLL_SECONDS = 0.5

Problems = Callable[[], Awaitable[list[str]]]
"""Returns the differences from a promise, one line each."""


class CheckFailedError(Exception):
    """A promise was not kept; the text names the differences, one line each."""


class Promises:
    """The wait for promises to be kept.

    Args:
        publish: called with one line for each that is.
    """

    def __init__(self, publish: Callable[[str], None]) -> None:
        self._publish = publish

    def kept(self, promise: str) -> None:
        """Report that a promise is kept."""
        self._publish(f"ok   {promise}")

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
