"""Repeat one simulation: ``python -m tests.simulation SEED [--trace]``."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.simulation import Simulation
from tests.simulation.violations import ViolationError


def main() -> int:
    """Run the simulation; return exit code 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--trace", action="store_true", help="print every step")
    arguments = parser.parse_args()
    simulation = Simulation(arguments.seed, keep_trace=arguments.trace)
    failure = ""
    try:
        simulation.run()
    except ViolationError as error:
        failure = str(error)
    for line in simulation.scheduler.trace.lines:
        sys.stdout.write(f"{line}\n")
    outcome = failure or "everything held"
    digest = simulation.scheduler.trace.digest
    sys.stdout.write(f"seed {arguments.seed}, digest {digest}: {outcome}\n")
    return bool(failure)


if __name__ == "__main__":
    sys.exit(main())
