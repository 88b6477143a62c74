"""Short-lived objects cost neither disk nor memory; the last of a million costs as much as the first."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pytest

from gateway.feed.records import Batch, DeleteRecord, ObjectRecord
from gateway.inventory import instances
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instances import BLOCK, InstanceIndex
from gateway.inventory.inventory import Inventory
from gateway.model.observations import ClassLearned, ObjectSeen, ResyncBegan, ResyncEnded
from gateway.model.times import SECOND
from tests.components.opened_index import opened_index
from tests.hypothesis_profiles import PROVING
from tests.inventory.playbook import AGENT, CONNECTION, MAPPING, NOW, QUEUE, VHOST, queue, vhost

OBJECTS = 1_000_000 if PROVING else 10_000
PART = OBJECTS // 10 if PROVING else OBJECTS // 2
NAMES = OBJECTS // 5 if PROVING else 7_000
BLOCKS = 5 if PROVING else 2
BEFORE = 11_000
"""The number of objects after which every bounded list of recent objects is full."""


class Core:
    """An inventory whose index is kept as the core keeps it, and whose records are dropped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reported: Counter[type] = Counter()
        self.last_rows: Counter[int] = Counter()
        self.statements: Counter[str] = Counter()
        self.index = opened_index(folder / "instances.sqlite3", needs_upkeep=self._needs_upkeep)
        self.index._database.set_trace_callback(self._written)  # noqa: SLF001  what is written is what counts
        self.asked = False
        self.inventory = Inventory("gw", 1, ClassRegistry({"shop": MAPPING}), self.index, self._published)
        self.source = self.inventory.add_source("shop", "qmf")
        self.now = NOW
        self.publish(*(ClassLearned(schema) for schema in (VHOST, QUEUE, CONNECTION)), ResyncBegan())
        self.publish(vhost("/", "v1"))
        self.publish(ResyncEnded(complete=True))

    def publish(self, *observations: ClassLearned | ResyncBegan | ResyncEnded | ObjectSeen) -> None:
        """Observe one message; the upkeep that it makes due comes after it."""
        self.now += SECOND // 1000
        self.inventory.observed(self.source, observations, self.now)
        if self.asked:
            self.asked = False
            self.index.checkpoint()

    def disk(self) -> int:
        """Octets of all files."""
        return sum(path.stat().st_size for path in self.folder.iterdir())

    def _needs_upkeep(self) -> None:
        self.asked = True

    def _written(self, statement: str) -> None:
        words = statement.split()
        self.statements[" ".join(words[:3] if words[0] == "INSERT" else words[:1])] += 1

    def _published(self, batch: Batch) -> None:
        for record in batch.records:
            self.reported[type(record)] += 1
            if isinstance(record, ObjectRecord):
                assert record.row > self.last_rows[record.class_number], "no number is given again"
                self.last_rows[record.class_number] = record.row


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    core = Core(tmp_path)
    with closing(core.index):
        yield core


def connection(number: int, *, deleted: int = 0) -> ObjectSeen:
    native_id = f"c{number}"
    return ObjectSeen(CONNECTION.key, AGENT, native_id, NOW, NOW, deleted, (f"10.0.0.1:{number}",), ())


def come_and_go(core: Core, numbers: range) -> None:
    for number in numbers:
        core.publish(connection(number))
        core.publish(connection(number, deleted=core.now))


def test_a_million_connections_leave_nothing_behind(core: Core) -> None:
    come_and_go(core, range(BEFORE))
    disk, reported = core.disk(), core.reported.copy()
    core.statements.clear()
    come_and_go(core, range(BEFORE, BEFORE + PART))
    first = core.statements.copy()

    come_and_go(core, range(BEFORE + PART, BEFORE + OBJECTS - PART))
    core.statements.clear()
    come_and_go(core, range(BEFORE + OBJECTS - PART, BEFORE + OBJECTS))
    last = core.statements.copy()

    assert core.reported[ObjectRecord] - reported[ObjectRecord] == OBJECTS
    assert core.reported[DeleteRecord] - reported[DeleteRecord] == OBJECTS
    assert core.disk() - disk < 64 * 1024
    assert last == first, "an object costs as many statements after all those as at first"
    assert not last, "and that is none: blocks are reserved elsewhere"


def memory_grown(folder: Path) -> int:
    """Octets by which a part of the objects makes the memory of this process grow, once lists are full."""
    core = Core(folder)
    with closing(core.index):
        tracemalloc.start()
        come_and_go(core, range(BEFORE))
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        come_and_go(core, range(BEFORE, BEFORE + PART))
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before


def test_memory_does_not_remember_them(tmp_path: Path) -> None:
    """The test has a process of its own: threads of other tests' peers would count here."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(memory_grown, tmp_path).result() < 64 * 1024


def test_without_upkeep_they_cost_one_write_a_block(tmp_path: Path) -> None:
    written: list[str] = []
    with closing(InstanceIndex(tmp_path / "i")) as index:
        index._database.set_trace_callback(written.append)  # noqa: SLF001  what is written is what counts
        for _ in range(BLOCKS * BLOCK):
            index.transient_row(1, "shop:connection")
            index.commit()
    assert len([statement for statement in written if statement.startswith("INSERT")]) == BLOCKS


def test_names_that_come_and_go_are_forgotten_and_their_numbers_never_given_again(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = 1_000
    monkeypatch.setattr(instances, "MAX_RETIRED", kept)

    def forget() -> None:
        while core.index.forget_retired(core.now) == 500:
            pass

    sizes = []
    for number in range(NAMES):
        name = f"durable {number}"
        core.publish(queue(name, name))
        core.publish(queue(name, name, deleted=core.now))
        if number % kept == 0:
            forget()
            sizes.append(core.disk())
    assert core.reported[ObjectRecord] == NAMES + 1
    assert max(sizes[5:]) < 2 * sizes[4]
    forget()
    names = core.index._database.execute("SELECT COUNT(*) FROM durable").fetchone()[0]  # noqa: SLF001
    assert names <= kept + 1, "the vhost lives, the others are remembered"
