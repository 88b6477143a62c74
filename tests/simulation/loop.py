"""An event loop on virtual time, for the asynchronous parts of the gateway."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

from gateway.model.times import SECOND
from tests.simulation.processes import RUNNING
from tests.simulation.scheduler import BEGINNING, Scheduler, Timer

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class VirtualLoop(asyncio.AbstractEventLoop):
    """Calls, timers, futures and tasks; sockets are simulated elsewhere, and there are no threads.

    Callbacks keep their order, as in any event loop; their times are the scheduler's choice.

    Args:
        scheduler: time and chance.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._ready: deque[asyncio.Handle] = deque()
        self._turn: Timer | None = None
        self._timers: dict[int, Timer] = {}  # by the identity of their handles, which may be equal
        self._failures: list[BaseException | str] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make this the running loop within the block."""
        asyncio._set_running_loop(self)  # noqa: SLF001  for whoever implements an event loop
        try:
            yield
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001  likewise

    def is_running(self) -> bool:
        """Return ``True``."""
        return True

    def is_closed(self) -> bool:
        """Return ``False``."""
        return False

    def get_debug(self) -> bool:
        """Return ``False``."""
        return False

    def time(self) -> float:
        """Return the seconds since the simulation began."""
        return (self._scheduler.now - BEGINNING) / SECOND

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback after all that are already scheduled."""
        handle = asyncio.Handle(callback, args, self, context)
        self._soon(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a callback in so many seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a callback at this time."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def due() -> None:
            del self._timers[id(handle)]
            self._soon(handle)

        self._timers[id(handle)] = self._scheduler.after(round((when - self.time()) * SECOND), due)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """Return a new future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # nothing else is ever given here
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        """Return a new task that runs a coroutine."""
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def spawn(self, coro: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        """Run a coroutine whose result is not awaited; its failure fails the simulation."""
        task = self.create_task(coro)
        task.add_done_callback(_raise_failure)
        return task

    def settle(self) -> None:
        """Run all callbacks that are due, so that cancelled tasks end."""
        self._run_ready()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record a failure that no task handles; it fails the simulation."""
        self._failures.append(context.get("exception") or context["message"])

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        timer = self._timers.pop(id(handle), None)
        if timer is not None:
            timer.cancel()

    def _soon(self, handle: asyncio.Handle) -> None:
        self._ready.append(handle)
        if self._turn is None:
            self._turn = self._scheduler.after_in(None, 0, self._run_ready)

    def _run_ready(self) -> None:
        while self._ready:
            handle = self._ready.popleft()
            context: Context = getattr(handle, "_context")  # noqa: B009  typeshed does not know it
            owner = context.get(RUNNING)
            if owner is not None and owner.is_stopped:
                owner.hold(partial(self._soon, handle))
            elif not handle.cancelled():
                handle._run()  # noqa: SLF001  what an event loop does with it
            if self._failures:
                failure = self._failures[0]
                raise failure if isinstance(failure, BaseException) else RuntimeError(failure)
        self._turn = None


def _raise_failure(task: asyncio.Task[object]) -> None:
    if not task.cancelled():
        task.result()
