"""Half-open connections: what falls silent in one direction or both, without an end that tells of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.simulation.pipes import Pipe
from tests.simulation.scheduler import SECOND, Scheduler

LONGEST = 120 * SECOND


class Direction(enum.Enum):
    """What does not pass."""

    BOTH = "both directions"
    THERE = "what is sent"
    BACK = "what is received"


@dataclass(frozen=True, slots=True)
class Silence:
    """One time in which a connection is half-open.

    Attributes:
        scheduler: time and chance.
        duration: nanoseconds.
        direction: what does not pass.
        heals: what waited arrives then, late, as TCP sends it again; otherwise it is lost.
    """

    scheduler: Scheduler
    duration: int
    direction: Direction
    heals: bool

    @classmethod
    def chosen(cls, scheduler: Scheduler, longest: int = LONGEST) -> Silence:
        """Any."""
        random = scheduler.random
        duration = scheduler.between(SECOND, longest)
        return cls(scheduler, duration, random.choice(tuple(Direction)), heals=random.random() < 0.5)

    def __str__(self) -> str:
        return f"half-open for {self.duration / SECOND:.1f} s: {self.direction.value}"

    def falls(self, there: Iterable[Pipe[Any]], back: Iterable[Pipe[Any]], cut: Callable[[], None]) -> None:
        """Let these pipes fall silent; ``cut`` ends the connection where it does not heal."""
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
