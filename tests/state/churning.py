"""A core whose objects come and go at random; each record is printed on standard output at once.

Run as ``python -m tests.state.churning FOLDER SEED``; it ends when it is killed.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from contextlib import closing
from pathlib import Path

from gateway.clock import SystemClock
from gateway.feed.records import Batch, DeleteRecord, ObjectRecord
from gateway.inventory import instances
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.model.observations import ClassLearned, ObjectSeen, Observation, ResyncBegan, ResyncEnded
from gateway.service.processes.core import count_start
from gateway.service.processes.index_upkeep import keep_index
from gateway.state_folder import StateFolder
from gateway.tasks import until_one_ends
from tests.inventory.playbook import AGENT, CONNECTION, MAPPING, QUEUE, VHOST, queue, vhost

SMALL_BLOCK = 64
"""The size of blocks, so small that blocks are reserved all the time."""

QUEUES = 40


def say(line: str) -> None:
    """Write a line at once: its reader knows that the record is published."""
    os.write(1, f"{line}\n".encode())


def publish(batch: Batch) -> None:
    """Write each record as a line: kind, class, row or number, name."""
    for record in batch.records:
        if isinstance(record, ObjectRecord):
            say(f"object {record.class_number} {record.row} {record.lifetime.value} {record.stable_name}")
        elif isinstance(record, DeleteRecord):
            say(f"end {record.number}")


async def churn(inventory: Inventory, clock: SystemClock, chance: random.Random) -> None:
    """Create and delete objects at random, for ever."""
    source = inventory.add_source("shop", "qmf")

    def announce(*observations: Observation) -> None:
        inventory.observed(source, observations, clock.now())

    announce(
        *(ClassLearned(schema) for schema in (VHOST, QUEUE, CONNECTION)), ResyncBegan(), vhost("/", "v1")
    )
    announce(ResyncEnded(complete=True))
    alive: list[ObjectSeen] = []
    for number in range(10**9):
        if alive and chance.random() < 0.5:
            seen = alive.pop(chance.randrange(len(alive)))
            deleted = clock.now()
            announce(
                ObjectSeen(
                    seen.key, AGENT, seen.native_id, deleted, seen.created, deleted, seen.properties, ()
                )
            )
        elif chance.random() < 0.3:
            seen = queue(f"queue {chance.randrange(QUEUES)}", f"q{number}")
            if any(other.properties == seen.properties for other in alive):
                continue
            announce(seen)
            alive.append(seen)
        else:
            created = clock.now()
            seen = ObjectSeen(CONNECTION.key, AGENT, f"c{number}", created, created, 0, (f"{number}",), ())
            announce(seen)
            alive.append(seen)
        await asyncio.sleep(0)


async def main(folder: Path, seed: int) -> None:
    """Start as the core does, with other sources."""
    instances.BLOCK = SMALL_BLOCK
    clock, needed = SystemClock(), asyncio.Event()
    state = StateFolder(folder)
    say("locking")
    with state.locked():
        say("opening")
        opened = InstanceIndex(state.instances, must_exist=state.boots > 0, needs_upkeep=needed.set)
        with closing(opened) as index:
            say("counting")
            epoch = count_start(state, index)
            say(f"epoch {epoch}")
            registry = ClassRegistry({"shop": MAPPING})
            inventory = Inventory(state.identity, epoch, registry, index, publish)
            chance = random.Random(seed)  # noqa: S311  nothing to keep secret
            await until_one_ends(churn(inventory, clock, chance), keep_index(index, clock, needed))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
