"""A seed determines the whole run: repeated, also in another process, it makes the same steps."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.simulation import Simulation

SEED = 7


@pytest.mark.prove  # so it does in two processes, below
@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_makes_the_same_steps(seed: int) -> None:
    digests = []
    for _ in range(2):
        simulation = Simulation(seed)
        simulation.run()
        digests.append(simulation.scheduler.trace.digest)
    assert digests[0] == digests[1]


def test_another_seed_makes_other_steps() -> None:
    simulations = [Simulation(seed) for seed in (1, 2)]
    for simulation in simulations:
        simulation.run()
    first, second = (simulation.scheduler.trace.digest for simulation in simulations)
    assert first != second


def test_a_seed_is_repeated_with_a_readable_trace_whatever_order_sets_have_there() -> None:
    outputs = [
        subprocess.run(  # noqa: S603  ourselves
            (sys.executable, "-m", "tests.simulation", str(SEED), "--trace"),
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONHASHSEED": order},
        ).stdout
        for order in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    lines = outputs[0].splitlines()
    assert lines[-1].startswith(f"seed {SEED}, digest ")
    assert any("snmp" in line and "<- SnapshotBegan" in line for line in lines)
