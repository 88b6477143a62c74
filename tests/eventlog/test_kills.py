"""The writer is killed at random instants, again and again on the same log."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from gateway.eventlog.audit_verification import verify_audit
from gateway.eventlog.segment import list_segments
from tests.eventlog.plant import Plant
from tests.eventlog.reading import of_kind, read_log, reasons
from tests.hypothesis_profiles import PROVING

KILLS = 200 if PROVING else 6


def acknowledged_until_killed(folder: Path, seed: int, lines: int) -> dict[int, int]:
    """Run a writer, kill it once it has printed so many lines; return seq and number of all printed lines."""
    command = [sys.executable, "-m", "tests.eventlog.appender", str(folder), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:  # noqa: S603  our own
        assert writer.stdout is not None
        try:
            reported = [writer.stdout.readline() for _ in range(lines)]
        finally:
            writer.kill()
        reported += writer.stdout.readlines()
    whole = [line.split() for line in reported if line.endswith(b"\n")]
    return {int(seq): int(number) for seq, number in whole}


async def test_nothing_acknowledged_is_lost_and_nothing_is_there_twice(tmp_path: Path) -> None:
    plant = Plant(tmp_path)
    chance = random.Random(KILLS)  # noqa: S311  a test's choice
    acknowledged: dict[int, int] = {}
    for seed in range(1, KILLS + 1):
        reported = acknowledged_until_killed(plant.folder, seed, chance.choice([1, 5, 100, 1000]))
        assert not reported.keys() & acknowledged.keys(), "a seq that was acknowledged is not given again"
        acknowledged |= reported
    plant.clock.time = time.time_ns()
    async with plant.log():
        pass
    records = read_log(plant.folder)
    assert records[0]["seq"] == 1
    there = {record["seq"]: record["values"]["messagesReady"] for record in of_kind(records, "update")}
    assert acknowledged.items() <= there.items()
    assert len(set(there.values())) == len(there)
    for writer, numbers in of_each_writer(list(there.values())).items():
        first = writer * 1_000_000
        assert numbers == list(range(first, first + len(numbers))), "without a hole, in order"
    begins = [why for why in reasons(records) if why in {"began", "recovered"}]
    assert len(begins) == KILLS + 1
    assert begins.count("recovered") > KILLS // 2, "few were killed between two segments"
    assert not [segment for segment in list_segments(plant.folder) if segment.is_open]
    audit = verify_audit(plant.folder, {})
    assert audit.problems == [], "a kill is no tampering"
    assert audit.chains[0].records == len(of_kind(records, "start"))


def of_each_writer(numbers: list[int]) -> dict[int, list[int]]:
    """The numbers of each writer, in the order of the log."""
    found: dict[int, list[int]] = {}
    for number in numbers:
        found.setdefault(number // 1_000_000, []).append(number)
    return found
