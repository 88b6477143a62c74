"""kill -9 of a core at random points while objects come and go: no number is ever given to another object."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.state_folder import StateFolder
from tests.hypothesis_profiles import PROVING
from tests.state.churning import QUEUES

SEEDS = range(20) if PROVING else range(1)
LIVES = 8 if PROVING else 4


class Witness:
    """The record of everything that was observed of one gateway, through all its lives."""

    def __init__(self) -> None:
        self.owners: dict[tuple[str, int], str] = {}
        self.rows: dict[str, int] = {}
        self.ends: set[int] = set()
        self.epoch = 0
        self.incarnations = 0

    def saw(self, life: int, line: str) -> None:
        what, *rest = line.split(" ", 4)
        match what, rest:
            case "epoch", [epoch]:
                assert int(epoch) > self.epoch, "an epoch is never repeated"
                self.epoch = int(epoch)
            case "end", [number]:
                assert int(number) not in self.ends, "an end has a number of its own"
                self.ends.add(int(number))
            case "object", [class_number, row, lifetime, name]:
                if lifetime == "durable":
                    assert self.rows.setdefault(f"{class_number} {name}", int(row)) == int(row), name
                    owner = name
                else:
                    owner = f"{name} of life {life}"
                    self.incarnations += 1
                held = self.owners.setdefault((class_number, int(row)), owner)
                assert held == owner, f"row {row} was {held}'s and is now {owner}'s"
            case (("locking" | "opening" | "counting"), []):
                pass
            case _:
                pytest.fail(f"a line that means nothing: {line!r}")


def a_life(folder: Path, seed: int, lines: int) -> Iterator[str]:
    """Yield the output of a core that is killed after about so many lines."""
    command = [sys.executable, "-m", "tests.state.churning", str(folder), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  our own
        assert process.stdout is not None
        for number, line in enumerate(process.stdout):
            if number == lines:
                process.kill()
            if line.endswith("\n"):
                yield line[:-1]  # the last may be half a line: nobody can have used it
        assert process.wait() == -9, "it was killed, and ended by nothing else"


@pytest.mark.parametrize("seed", SEEDS)
def test_whenever_it_is_killed_numbers_stay_with_their_objects(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  nothing to keep secret
    state = StateFolder.create(tmp_path / "state")
    witness = Witness()
    for life in range(LIVES):
        # In one life of three it is killed while it starts, else after some hundreds of objects.
        lines = chance.randrange(5) if chance.random() < 1 / 3 else chance.randrange(5, 1_500)
        for line in a_life(state.path, chance.randrange(2**30), lines):
            witness.saw(life, line)
        assert witness.epoch <= state.boots <= life + 1
    for line in a_life(state.path, seed, 1_500):
        witness.saw(LIVES, line)
    assert len(witness.rows) == QUEUES + 1
    assert witness.incarnations > 300
