"""What goes wrong, when and how often: each seed chooses its own few kinds and its own rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.simulation.scheduler import SECOND, Scheduler

MEAN_PAUSE = (1 * SECOND, 30 * SECOND)
"""Between two faults, on average: a seed chooses between these."""


class FaultPlan:
    """Chooses faults until it is told to cease.

    Args:
        scheduler: time and chance.
        kinds: what can go wrong, by name.
        only: how the names of those end that do; any where it is empty.
    """

    def __init__(
        self, scheduler: Scheduler, kinds: Mapping[str, Callable[[], None]], only: tuple[str, ...] = ()
    ) -> None:
        random = scheduler.random
        self._scheduler = scheduler
        # Few kinds at a time meet deeper than all at once.
        names = random.sample(sorted(kinds), random.randrange(len(kinds) + 1))
        if only:
            names = [name for name in sorted(kinds) if name.endswith(only)]
        self._kinds = {name: kinds[name] for name in names}
        self._pause = scheduler.between(*MEAN_PAUSE)
        self._ceased = False
        scheduler.tell("faults", f"{', '.join(names) or 'none'}; every {self._pause / SECOND:.1f} s")
        self._later()

    def cease(self) -> None:
        """Nothing goes wrong any more."""
        self._ceased = True

    def _later(self) -> None:
        if self._kinds:
            pause = self._scheduler.random.expovariate(1 / self._pause)
            self._scheduler.after(int(pause), self._strike)

    def _strike(self) -> None:
        if self._ceased:
            return
        name = self._scheduler.random.choice(tuple(self._kinds))
        self._scheduler.tell("fault", name)
        self._kinds[name]()
        self._later()
