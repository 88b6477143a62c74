"""Durable subscriptions, killed anywhere: the log has each delivery at least once, events not twice."""

from __future__ import annotations

import contextlib
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from gateway.links.durable_queue import Ledger, UnacknowledgedDeliveries
from tests.hypothesis_profiles import PROVING
from tests.simulation.kept import Instant, KeptParts, KeptSimulation
from tests.simulation.violations import ViolationError

PARTS = 10
SEEDS_OF_A_PART = 500 if PROVING else 3
KILLED_SEEDS = 30
"""The first seeds, of which it is counted at which instants cores are killed."""
MUTANT_SEEDS = 60


@pytest.mark.parametrize("part", range(PARTS))
def test_each_delivery_is_reported_and_no_event_twice(part: int) -> None:
    first = secrets.randbelow(2**32) if PROVING else KILLED_SEEDS + part * SEEDS_OF_A_PART
    for seed in range(first, first + SEEDS_OF_A_PART):
        try:
            KeptSimulation(seed).run()
        except Exception as error:
            error.add_note(f"repeat it: KeptSimulation({seed}).run()")
            raise


def test_cores_are_killed_at_every_instant() -> None:
    kills: Counter[Instant] = Counter()
    for seed in range(KILLED_SEEDS):
        simulation = KeptSimulation(seed)
        simulation.run()
        kills += simulation.kills
    assert kills.keys() == set(Instant)
    assert min(kills.values()) >= 2


def test_the_same_seed_makes_the_same_steps() -> None:
    digests = set()
    for _ in range(2):
        simulation = KeptSimulation(7)
        simulation.run()
        digests.add(simulation.scheduler.trace.digest)
    assert len(digests) == 1


class Passing:
    """A ledger that delegates to another one."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def is_recorded(self, identity: str) -> bool:
        return self.ledger.is_recorded(identity)

    def recording(self, identity: str) -> AbstractContextManager[None]:
        return self.ledger.recording(identity)

    def came_again(self, identity: str) -> None:
        self.ledger.came_again(identity)

    @property
    def position(self) -> int:
        return self.ledger.position

    async def committed(self, position: int) -> None:
        await self.ledger.committed(position)


class Hasty(Passing):
    """A ledger that does not wait for the disk."""

    async def committed(self, position: int) -> None:
        pass


class Late(Passing):
    """A ledger that waits for all records but the last."""

    async def committed(self, position: int) -> None:
        await self.ledger.committed(position - 1)


class Forgetful(Passing):
    """A ledger that recognises no delivery."""

    def is_recorded(self, identity: str) -> bool:  # noqa: ARG002  forgets it
        return False


class Nameless(Passing):
    """A ledger that records all deliveries under one name."""

    def recording(self, identity: str) -> AbstractContextManager[None]:  # noqa: ARG002  forgets it
        return self._publishing()

    @contextmanager
    def _publishing(self) -> Iterator[None]:
        with self.ledger.recording("one name"):
            yield


class Suspicious(UnacknowledgedDeliveries):
    """A receiver of deliveries that skips every redelivery, whether or not it was recorded."""

    def proceed(self) -> None:
        with contextlib.suppress(IndexError):
            while self._waiting[0].redelivered and self._ready():
                self._reported = self._waiting.popleft()
                self._passed_on += 1
                self._news.set()
        super().proceed()


MUTANTS: Iterable[tuple[str, KeptParts]] = (
    ("a ledger that does not wait for the disk", KeptParts(ledger=Hasty)),
    ("a ledger that waits for all but the last record", KeptParts(ledger=Late)),
    ("a ledger that forgets", KeptParts(ledger=Forgetful)),
    ("a ledger that names nothing", KeptParts(ledger=Nameless)),
    ("segments that do not tell of late deliveries", KeptParts(publishes_late=False)),
    ("deliveries that are passed over in suspicion", KeptParts(deliveries=Suspicious)),
)


@pytest.mark.parametrize("parts", [pytest.param(parts, id=name) for name, parts in MUTANTS])
def test_a_broken_part_is_noticed(parts: KeptParts) -> None:
    for seed in range(MUTANT_SEEDS):
        try:
            KeptSimulation(seed, parts).run()
        except ViolationError:
            return
    pytest.fail(f"not noticed in {MUTANT_SEEDS} simulations")
