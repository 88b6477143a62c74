"""The choice of faults: each seed chooses a few kinds and a rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.model.times import SECOND
from tests.simulation.scheduler import Scheduler

MEAN_PAUSE = (1 * SECOND, 30 * SECOND)
"""The range of the mean time between two faults, from which a seed chooses."""


class FaultPlan:
    """The faults of one simulation, injected until `cease` is called.

    Args:
        scheduler: time and chance.
        kinds: the functions that inject each kind of fault, by name.
        only: suffixes of the names of the kinds to use; any kind if it is empty.
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
        scheduler.note("faults", f"{', '.join(names) or 'none'}; every {self._pause / SECOND:.1f} s")
        self._later()

    def cease(self) -> None:
        """Inject no further faults."""
        self._ceased = True

    def _later(self) -> None:
        if self._kinds:
            pause = self._scheduler.random.expovariate(1 / self._pause)
            self._scheduler.after(int(pause), self._strike)

    def _strike(self) -> None:
        if self._ceased:
            return
        name = self._scheduler.random.choice(tuple(self._kinds))
        self._scheduler.note("fault", name)
        self._kinds[name]()
        self._later()
