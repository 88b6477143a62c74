"""The index in the core: counted starts, blocks in time, nothing goes on without it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from gateway.clock import SystemClock
from gateway.inventory import instances
from gateway.inventory.instance_file import InstanceIndexError
from gateway.inventory.instances import BLOCK, InstanceIndex
from gateway.service.processes import index_upkeep
from gateway.service.processes.core import count_start
from gateway.service.processes.index_upkeep import keep_index
from gateway.state_folder import StateError, StateFolder
from tests.components.full_disk import full_disk
from tests.components.waiting import DEADLINE, eventually


@asynccontextmanager
async def kept(path: Path) -> AsyncIterator[tuple[InstanceIndex, asyncio.Task[None]]]:
    """Provide an index that is kept as the core keeps it."""
    needed = asyncio.Event()
    with closing(InstanceIndex(path, needs_upkeep=needed.set)) as index:
        index.start("gw", 1)
        task = asyncio.create_task(keep_index(index, SystemClock(), needed))
        try:
            yield index, task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, InstanceIndexError):
                await task


async def test_objects_never_wait_for_the_disk(tmp_path: Path) -> None:
    async with kept(tmp_path / "i") as (index, _):
        index.transient_row(1, "c")
        index.commit()
        written: list[str] = []
        index._database.set_trace_callback(written.append)  # noqa: SLF001  what the file sees is what is counted
        for _ in range(4):
            for _ in range(BLOCK // 4):
                index.transient_row(1, "c")
                index.commit()
            index.transient_row(1, "c")
            index.commit()

            async def in_time() -> bool:
                block = index._blocks[1, "c"]  # noqa: SLF001  nobody else can know
                return block.reserved - block.next >= BLOCK // 2

            await eventually(in_time, "the next block is reserved")
    assert not [statement for statement in written if statement.startswith("INSERT")]


async def test_a_failure_anywhere_ends_the_core_with_one_line(tmp_path: Path) -> None:
    async with kept(tmp_path / "i") as (index, task):
        await asyncio.sleep(0)
        with full_disk(), pytest.raises(InstanceIndexError):
            index.source_number("orders")
        with pytest.raises(InstanceIndexError, match="see to space on the disk"):
            await asyncio.wait_for(task, DEADLINE)


async def test_upkeep_that_fails_ends_the_core_with_one_line(tmp_path: Path) -> None:
    async with kept(tmp_path / "i") as (index, task):
        index.durable_row(1, "c", "a")
        index.commit()
        with full_disk():
            index._needs_upkeep()  # noqa: SLF001  as after many changes
            with pytest.raises(InstanceIndexError, match="see to space on the disk"):
                await asyncio.wait_for(task, DEADLINE)


async def test_retired_names_are_forgotten_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "MAX_RETIRED", 10)
    monkeypatch.setattr(index_upkeep, "FORGOTTEN_AT_ONCE", 20)
    monkeypatch.setattr(index_upkeep, "FORGET_SOON_SECONDS", 0.001)
    with closing(InstanceIndex(tmp_path / "i")) as index:
        for number in range(100):
            index.durable_row(1, "c", str(number))
            index.retire(1, "c", str(number), now=1 + number)
    async with kept(tmp_path / "i") as (index, _):

        async def forgotten() -> bool:
            return index._retired == 10  # noqa: SLF001  nobody else can know

        await eventually(forgotten, "the oldest are forgotten")


# -- starts


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder.create(tmp_path / "state")


def test_a_start_is_counted_in_both_places(state: StateFolder) -> None:
    for boot in (1, 2, 3):
        with closing(InstanceIndex(state.instances)) as index:
            assert count_start(state, index) == boot == state.boots


def test_a_start_that_was_cut_off_between_the_two_is_counted_once(state: StateFolder) -> None:
    with closing(InstanceIndex(state.instances)) as index:
        index.start(state.identity, 1)
    with closing(InstanceIndex(state.instances)) as index:
        assert count_start(state, index) == 1


def test_a_count_that_was_set_back_is_refused(state: StateFolder) -> None:
    for _ in range(3):
        with closing(InstanceIndex(state.instances)) as index:
            count_start(state, index)
    (state.path / "boots").write_text("1\n", encoding="ascii")
    with (
        closing(InstanceIndex(state.instances)) as index,
        pytest.raises(InstanceIndexError, match="was last used at start 3, and 'boots' beside it says 1"),
    ):
        count_start(state, index)


def test_a_start_that_cannot_be_counted_is_none(state: StateFolder) -> None:
    with (
        closing(InstanceIndex(state.instances)) as index,
        full_disk(),
        pytest.raises((StateError, InstanceIndexError)),
    ):
        count_start(state, index)
    assert state.boots == 0
    with closing(InstanceIndex(state.instances)) as index:
        assert count_start(state, index) == 1
