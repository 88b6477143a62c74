"""Asynchronous contexts on an event loop of another thread, for tests that are not asynchronous."""

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
    """The result of an asynchronous context, on an event loop of another thread."""

    is_: ContextT
    _loop: asyncio.AbstractEventLoop

    def do(self, function: Callable[[], object]) -> None:
        """Call a function on that loop, and wait for its end.

        Every function that uses sockets of the context must be called there.
        """

        async def carried_out() -> None:
            function()

        asyncio.run_coroutine_threadsafe(carried_out(), self._loop).result(DEADLINE)


@contextmanager
def background(
    context: Callable[[], AbstractAsyncContextManager[ContextT]],
) -> Iterator[Background[ContextT]]:
    """Enter ``context`` on an event loop of another thread, and leave it at the end of the block."""
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
    """Provide the result of ``context`` as `background`, for tests that call nothing on that loop."""
    with background(context) as entered:
        yield entered.is_
