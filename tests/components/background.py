"""What lives on an event loop, for tests that do not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tests.components.waiting import DEADLINE

ContextT = TypeVar("ContextT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Background(Generic[ContextT]):
    """What a context gave, on an event loop of another thread."""

    is_: ContextT
    _loop: asyncio.AbstractEventLoop

    def do(self, function: Callable[[], object]) -> None:
        """Have it done on that loop, where all that touches sockets has to be, and wait for it."""

        async def carried_out() -> None:
            function()

        asyncio.run_coroutine_threadsafe(carried_out(), self._loop).result(DEADLINE)


@contextmanager
def background(
    context: Callable[[], AbstractAsyncContextManager[ContextT]],
) -> Iterator[Background[ContextT]]:
    """What ``context`` gives, alive on an event loop of another thread until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    entered = context()

    def carried_out(step: Coroutine[Any, Any, ResultT]) -> ResultT:
        return asyncio.run_coroutine_threadsafe(step, loop).result(DEADLINE)

    async def enter() -> ContextT:
        return await entered.__aenter__()

    async def leave() -> None:
        await entered.__aexit__(None, None, None)

    try:
        entered_as = carried_out(enter())
        try:
            yield Background(entered_as, loop)
        finally:
            carried_out(leave())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(DEADLINE)
        loop.close()


@contextmanager
def in_background(context: Callable[[], AbstractAsyncContextManager[ContextT]]) -> Iterator[ContextT]:
    """As `background`, for tests that have nothing done there."""
    with background(context) as entered:
        yield entered.is_
