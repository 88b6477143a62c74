"""Processes that can be stopped for a while, as by SIGSTOP: nothing of theirs runs, and time goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

Action = Callable[[], None]


class Process:
    """One process of the gateway, from its start to its end.

    Whatever it arranges for later is its own: timers, callbacks and arrivals of a process that is stopped
    wait until it goes on.

    Attributes:
        is_stopped: nothing of it runs.
    """

    def __init__(self) -> None:
        self.is_stopped = False
        self._has_ended = False
        self._held: list[Action] = []
        self._callbacks: list[Action] = []

    def run(self, action: Action) -> None:
        """Do something in this process: now, or when it goes on."""
        if self._has_ended:
            return
        if self.is_stopped:
            self._held.append(action)
            return
        former = RUNNING.set(self)
        try:
            action()
        finally:
            RUNNING.reset(former)

    def hold(self, callback: Action) -> None:
        """Keep a callback of its event loop until it goes on: their order is the loop's own."""
        self._callbacks.append(callback)

    def stop(self) -> None:
        """It stands still from now on."""
        self.is_stopped = True

    def go_on(self) -> list[Action]:
        """It goes on; returns what was due meanwhile, in that order."""
        self.is_stopped = False
        held, self._held = self._held, []
        self._release()
        return held

    def end(self) -> None:
        """It is killed: what it arranged for does not happen any more, but for the end of its tasks."""
        self.is_stopped = False
        self._has_ended = True
        self._held.clear()
        self._release()

    def _release(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


RUNNING: ContextVar[Process | None] = ContextVar("RUNNING", default=None)
"""The process that does something now; ``None``: something outside the gateway's processes."""
