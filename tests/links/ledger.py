"""A ledger in memory, whose disk the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class MemoryLedger:
    """Everything told is one more position; lasting is what the test says.

    Args:
        prompt: everything is lasting at once.
        told: identities told by a former process.
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
        """All that was told is on the disk."""
        self._lasting_to = self.position
        self._moved.set()
