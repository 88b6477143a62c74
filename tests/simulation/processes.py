"""Processes that can be stopped for a while, as by SIGSTOP: none of their code runs, and time goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

Action = Callable[[], None]


class Process:
    """One process of the gateway, from its start to its end.

    All that it schedules belongs to it: timers, callbacks and arrivals of a stopped process wait until
    it is resumed.

    Attributes:
        is_stopped: whether the process is stopped.
    """

    def __init__(self) -> None:
        self.is_stopped = False
        self._has_ended = False
        self._held: list[Action] = []
        self._callbacks: list[Action] = []

    def run(self, action: Action) -> None:
        """Call ``action`` in this process: now, or when it it is resumed."""
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
        """Hold a callback of the event loop until the process is resumed; the loop determines the order."""
        self._callbacks.append(callback)

    def stop(self) -> None:
        """Stop the process."""
        self.is_stopped = True

    def go_on(self) -> list[Action]:
        """Resume the process, and return the actions that were due meanwhile, in order."""
        self.is_stopped = False
        held, self._held = self._held, []
        self._release()
        return held

    def end(self) -> None:
        """Kill the process: its scheduled actions are discarded, except the end of its tasks."""
        self.is_stopped = False
        self._has_ended = True
        self._held.clear()
        self._release()

    def _release(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


RUNNING: ContextVar[Process | None] = ContextVar("RUNNING", default=None)
"""The process that runs now; ``None`` outside the gateway's processes."""
