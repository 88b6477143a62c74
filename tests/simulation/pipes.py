"""One direction of a connection: ordered, delayed, perhaps stalled or slow, and finally cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from gateway.model.times import MILLISECOND
from tests.simulation.processes import RUNNING
from tests.simulation.scheduler import Scheduler, Timer

Item = TypeVar("Item")

QUICK = (20_000, 5 * MILLISECOND)
"""The shortest and longest time from one arrival to the next."""


class Pipe(Generic[Item]):
    """A queue of items; each arrives some time after the one before it.

    Args:
        scheduler: time and chance.
        arrive: called with each item at its arrival.
        delay: shortest and longest time that one item takes, nanoseconds.
        limit: items that may wait; beyond it the oldest is dropped, as from a length-limited queue. 0: none.

    Items arrive in the process that made the pipe, unless `owner` is set otherwise.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        arrive: Callable[[Item], None],
        delay: tuple[int, int] = QUICK,
        limit: int = 0,
    ) -> None:
        self.delay = delay
        self.dropped = 0
        self.longest = 0
        self.owner = RUNNING.get()
        self._scheduler = scheduler
        self._arrive = arrive
        self._limit = limit
        self._waiting: deque[Item] = deque()
        self._timer: Timer | None = None
        self._stalled = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def items(self) -> list[Item]:
        """The items in transit, in order."""
        return list(self._waiting)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is in transit, and something that is sent now would arrive."""
        return not self._waiting and not self._stalled

    def put(self, item: Item) -> None:
        """Send an item."""
        self._waiting.append(item)
        if self._limit and len(self._waiting) > self._limit:
            self._waiting.popleft()
            self.dropped += 1
        self.longest = max(self.longest, len(self._waiting))
        self._go_on()

    def stall(self) -> None:
        """Stop all arrivals until `resume`; no item is lost."""
        self._stalled = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def resume(self) -> None:
        """Resume arrivals; waiting items arrive late."""
        self._stalled = False
        self._go_on()

    def cut(self) -> None:
        """Discard all items in transit."""
        self.stall()
        self._waiting.clear()

    def _go_on(self) -> None:
        if self._waiting and not self._stalled and self._timer is None:
            delay = self._scheduler.between(*self.delay)
            self._timer = self._scheduler.after_in(self.owner, delay, self._next)

    def _next(self) -> None:
        self._timer = None
        item = self._waiting.popleft()
        self._arrive(item)
        self._go_on()
