"""A ledger in memory; the test decides what is on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class MemoryLedger:
    """A ledger in which each recorded identity is one more position; the test decides which are lasting.

    Args:
        prompt: whether everything is lasting at once.
        told: the identities that a former process recorded.
    """

    def __init__(self, *, prompt: bool = True, told: tuple[str, ...] = ()) -> None:
        self.told: list[str] = list(told)
        self._prompt = prompt
        self._lasting_to = 0
        self._moved = asyncio.Event()

    def is_recorded(self, identity: str) -> bool:
        return identity in self.told

    @contextmanager
    def recording(self, identity: str) -> Iterator[None]:
        yield
        self.told.append(identity)

    def came_again(self, identity: str) -> None:
        assert identity in self.told

    @property
    def position(self) -> int:
        return len(self.told)

    async def lasting(self, position: int) -> None:
        while not self._prompt and self._lasting_to < position:
            self._moved.clear()
            await self._moved.wait()

    def sync(self) -> None:
        """Make all recorded identities lasting."""
        self._lasting_to = self.position
        self._moved.set()
