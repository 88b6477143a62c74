"""What the event log says of a churned broker after kills, held against the ledger of who churned it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.demo.broker import BrokerSettings, PrivateBroker
from tests.components.rabbitmq import TEST_SETTINGS
from tests.components.waiting import wait_until
from tests.hypothesis_profiles import PROVING
from tests.ledger.plant import KEPT, PLAIN, plant
from tests.ledger.verdict import violations

VICTIMS = ("core", "supervisor", "snmp", "compactor")
KILLS = 200 if PROVING else 4
LONGEST_WAIT = 200
"""Acts between two kills: some seconds of a quiet machine."""


@pytest.mark.long
@pytest.mark.timeout(7200 if PROVING else 900)
@pytest.mark.parametrize("seed", range(1))
def test_each_life_is_told_once_with_its_times_and_each_counter_s_gain(
    tmp_path: Path, start_rabbitmq: Callable[[BrokerSettings], PrivateBroker], seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable on purpose
    with plant(start_rabbitmq(TEST_SETTINGS), tmp_path, seed) as made:
        for number in range(KILLS):
            # Every other kill comes while the former victim recovers.
            made.after(chance.randrange(LONGEST_WAIT if number % 2 == 0 else LONGEST_WAIT // 10))
            made.kill(chance.choice(VICTIMS))
        truth = made.rest()
        for source in (KEPT, PLAIN):
            found = [f"killed: {made.kills}"]

            def none_found(source: str = source, found: list[str] = found) -> bool:
                found[1:] = violations(made.log, source, truth)
                return len(found) == 1

            try:
                wait_until(none_found, f"what the log says of {source} is right")
            except AssertionError as error:
                raise AssertionError("\n".join(found)) from error
