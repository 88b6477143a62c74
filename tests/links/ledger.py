"""A ledger in memory; the test decides what is on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class MemoryLedger:
    """A ledger in which each recorded identity is one more position; the test decides which are lasting.

    Args:
        prompt: whether everything is lasting at once.
        reported: the identities that a former process recorded.
    """

    def __init__(self, *, prompt: bool = True, reported: tuple[str, ...] = ()) -> None:
        self.reported: list[str] = list(reported)
        self._prompt = prompt
        self._lasting_to = 0
        self._moved = asyncio.Event()

    def is_recorded(self, identity: str) -> bool:
        return identity in self.reported

    @contextmanager
    def recording(self, identity: str) -> Iterator[None]:
        yield
        self.reported.append(identity)

    def came_again(self, identity: str) -> None:
        assert identity in self.reported

    @property
    def position(self) -> int:
        return len(self.reported)

    async def committed(self, position: int) -> None:
        while not self._prompt and self._lasting_to < position:
            self._moved.clear()
            await self._moved.wait()

    def sync(self) -> None:
        """Make all recorded identities lasting."""
        self._lasting_to = self.position
        self._moved.set()
