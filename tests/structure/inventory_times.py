"""The processor time that inventory and feed take for an object."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from gateway.feed.messages import FrameReader, encode
from gateway.feed.records import Batch, UpdateRecord
from gateway.feed.subscription import MAX_BATCH_RECORDS
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.model.observations import (
    ClassLearned,
    ObjectSeen,
    Observation,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from tests.bench.snmp.table import SCHEMA, TIME, cells

BODY: Final = 50
"""Objects of one message body, as many as one of QMF has at most."""


@dataclass(frozen=True, slots=True)
class InventoryTimes:
    """Microseconds of processor time for each object."""

    created: float
    updated: float
    confirmed: float


def inventory_times(objects: int) -> InventoryTimes:
    """Measure with so many durable objects of two properties and ten statistics."""
    batches: list[object] = []
    with TemporaryDirectory() as folder, closing(InstanceIndex(Path(folder) / "instances")) as index:
        index.start("gw", 1)
        inventory = Inventory("gw", 1, ClassRegistry({}), index, batches.append)
        source = inventory.add_source("bench", "qmf")

        def took(bodies: Iterable[Iterable[Observation]]) -> float:
            waiting = list(bodies)
            gc.collect()
            began = time.process_time()
            for body in waiting:
                inventory.observed(source, body, TIME)
            return (time.process_time() - began) / objects * 10**6

        inventory.observed(source, (SourceStateSeen(SourceState.SYNCHRONISING), ClassLearned(SCHEMA)), TIME)
        return InventoryTimes(
            took(_bodies(objects, 0)),
            took(_bodies(objects, 1)),
            took([(ResyncBegan(),), *_bodies(objects, 1), (ResyncEnded(complete=True),)]),
        )


def _bodies(objects: int, change: int) -> Iterator[list[ObjectSeen]]:
    for start in range(1, objects + 1, BODY):
        yield [_seen(number, change) for number in range(start, min(start + BODY, objects + 1))]


def _seen(number: int, change: int) -> ObjectSeen:
    name, durable, *numbers = cells(number)
    statistics = tuple(int(value) + change for value in numbers)
    return ObjectSeen(SCHEMA.key, "1.0", f"0-1-1-0-{number}", TIME, TIME, 0, (name, durable), statistics)


@dataclass(frozen=True, slots=True)
class FeedTimes:
    """Microseconds of processor time for each record of a batch."""

    encoded: float
    decoded: float


def feed_times(batches: int) -> FeedTimes:
    """Measure with so many batches of updates of ten statistics, as one message has at most."""
    records = tuple(
        UpdateRecord(1, 1, row, TIME, TIME, TIME, TIME, dict(enumerate(map(int, cells(row)[2:]), 2)), ())
        for row in range(1, MAX_BATCH_RECORDS + 1)
    )
    batch, reader = Batch(1, 1, records), FrameReader()
    began = time.process_time()
    frames = [encode(batch) for _ in range(batches)]
    encoded = time.process_time()
    for frame in frames:
        for _ in reader.feed(frame):
            pass
    each = 10**6 / (batches * len(records))
    return FeedTimes((encoded - began) * each, (time.process_time() - encoded) * each)
