"""The power is cut at random instants of a log's life: what was acknowledged is there, and it goes on."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from gateway.eventlog.audit_verification import verify_audit
from gateway.eventlog.retention import LogFileSettings
from gateway.model.times import SECOND
from tests.eventlog.disks import Image, PowerCutDisk
from tests.eventlog.plant import Plant
from tests.eventlog.reading import numbers, read_log
from tests.hypothesis_profiles import PROVING

SEEDS = range(300 if PROVING else 2)
SETTINGS = LogFileSettings(commit_interval=0, min_free=0, segment_size=6_000, retry_interval=1_000_000)


@pytest.mark.parametrize("seed", SEEDS)
async def test_what_was_acknowledged_outlives_the_power(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)  # noqa: S311  a test's choice
    images = tmp_path / "images"
    images.mkdir()
    plant = Plant(tmp_path, SETTINGS)
    committed = [0]
    plant.disk = disk = PowerCutDisk(plant.folder, images, choice, lambda: committed[0], every=14)
    plant.standing = [1, 2]
    number = 0
    for _ in range(3):  # lives of the gateway
        async with plant.log() as log:
            for _ in range(15):
                for _ in range(choice.randint(1, 12)):
                    last = log.append(plant.update(number))
                    number += 1
                await log.reached(choice.randint(log.committed + 1, last))
                committed[0] = log.committed
                plant.clock.time += choice.choice([0, SECOND, 900 * SECOND])
    whole = {record["seq"]: record for record in read_log(plant.folder)}
    assert numbers(list(whole.values())) == list(range(number))
    assert len(disk.made) > 5
    for image in disk.made:
        await check(image, whole)


async def check(image: Image, whole: dict[int, dict[str, object]]) -> None:
    plant = Plant(image.folder)
    plant.folder = image.folder
    async with plant.log() as log:
        log.append(plant.update(10**9))
        await asyncio.sleep(0)
    assert verify_audit(plant.folder, {}).problems == [], "no power failure is tampering"
    found = {record["seq"]: record for record in read_log(plant.folder)}
    assert min(found) == 1, image.instant
    for seq in range(1, image.acknowledged + 1):
        assert found[seq] == whole[seq], (image.instant, seq)
    assert list(numbers(list(found.values())))[-1] == 10**9, "it goes on"
