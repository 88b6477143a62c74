"""Half-open connections: no data passes in one direction or both, and no end is reported."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gateway.model.times import SECOND
from tests.simulation.pipes import Pipe
from tests.simulation.scheduler import Scheduler

LONGEST = 120 * SECOND


class Direction(enum.Enum):
    """The blocked direction of a half-open connection."""

    BOTH = "both directions"
    THERE = "what is sent"
    BACK = "what is received"


@dataclass(frozen=True, slots=True)
class Silence:
    """One period in which a connection is half-open.

    Attributes:
        scheduler: time and chance.
        duration: its length in nanoseconds.
        direction: the blocked direction.
        heals: whether blocked data arrives afterwards, as TCP retransmits it; otherwise it is lost.
    """

    scheduler: Scheduler
    duration: int
    direction: Direction
    heals: bool

    @classmethod
    def chosen(cls, scheduler: Scheduler, longest: int = LONGEST) -> Silence:
        """Return a random period."""
        random = scheduler.random
        duration = scheduler.between(SECOND, longest)
        return cls(scheduler, duration, random.choice(tuple(Direction)), heals=random.random() < 0.5)

    def __str__(self) -> str:
        return f"half-open for {self.duration / SECOND:.1f} s: {self.direction.value}"

    def falls(self, there: Iterable[Pipe[Any]], back: Iterable[Pipe[Any]], cut: Callable[[], None]) -> None:
        """Stall these pipes; ``cut`` ends the connection where it does not heal."""
        pipes = [
            *(there if self.direction is not Direction.BACK else ()),
            *(back if self.direction is not Direction.THERE else ()),
        ]
        for pipe in pipes:
            pipe.stall()

        def heal() -> None:
            for pipe in pipes:
                pipe.resume()

        self.scheduler.after_in(None, self.duration, heal if self.heals else cut)
