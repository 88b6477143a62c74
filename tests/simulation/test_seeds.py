"""Twenty simulations, thousands in a proof, each from another seed; all invariants hold in every one."""

from __future__ import annotations

import secrets

import pytest

from tests.hypothesis_profiles import PROVING
from tests.simulation.simulation import Simulation
from tests.simulation.violations import ViolationError

PARTS = 20
SEEDS_OF_A_PART = 200 if PROVING else 1


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_goes_wrong_everything_holds(part: int) -> None:
    # Quick runs try the same seeds each time, so that a failure is the change's own; proofs try new ones.
    first = secrets.randbelow(2**32) if PROVING else part * SEEDS_OF_A_PART
    for seed in range(first, first + SEEDS_OF_A_PART):
        try:
            Simulation(seed).run()
        except ViolationError as violation:
            pytest.fail(f"seed {seed}: {violation}\nrepeat it: python -m tests.simulation {seed} --trace")
        except Exception as error:
            error.add_note(f"repeat it: python -m tests.simulation {seed} --trace")
            raise
