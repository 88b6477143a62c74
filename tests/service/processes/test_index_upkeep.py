"""The index in the core: counted starts, blocks in time, and a disk that takes nothing for a while."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.clock import SystemClock
from gateway.inventory import instances
from gateway.inventory.index_upkeep import DiskState
from gateway.inventory.instance_file import IndexNotWrittenError, InstanceIndexError
from gateway.inventory.instances import BLOCK, InstanceIndex
from gateway.inventory.scope import IdAllocator
from gateway.service.processes import index_upkeep
from gateway.service.processes.core import count_start
from gateway.service.processes.index_upkeep import keep_index
from gateway.state_folder import StateError, StateFolder
from tests.components.full_disk import full_disk, small_disk
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


async def test_what_a_full_disk_does_not_take_waits_for_it(tmp_path: Path) -> None:
    async with kept(tmp_path / "i") as (index, task):
        known = index.durable_row(1, "c", "known")
        index.commit()
        with full_disk(), capture_logs():  # a log file cannot grow either
            published = index.durable_row(1, "c", "published")
            index.retire(1, "c", "known", now=1)
            index.keep_alarm(1, 7, "text")
            index.commit()  # the core publishes all three
            assert index.disk is DiskState.NOTHING
            assert "see to space on the disk" in index.trouble
            with pytest.raises(IndexNotWrittenError, match="see to space on the disk"):
                index.durable_row(1, "c", "new")
            with pytest.raises(IndexNotWrittenError):
                index.source_number("orders")
            assert index.durable_row(1, "c", "known") == known
            assert index.durable_row(1, "c", "published") == published
            short_lived = index.transient_row(1, "c")
            assert published < short_lived, "of a block that is on the disk"

        async def written() -> bool:
            return index.disk is DiskState.ROOM

        await eventually(written, "the disk takes it again")
        assert not index.trouble
        assert not task.done()
        assert index.durable_row(1, "c", "new") > short_lived
        index.commit()
    with closing(InstanceIndex(tmp_path / "i")) as again:
        assert again.durable_row(1, "c", "published") == published
        assert again.alarms(1) == [(7, "text")]
        assert again.forget_retired(now=1 << 62) == 0, "it had come back"


async def test_upkeep_that_fails_is_tried_again(tmp_path: Path) -> None:
    async with kept(tmp_path / "i") as (index, task):
        index.durable_row(1, "c", "a")
        index.commit()

        async def troubled() -> bool:
            return index.disk is DiskState.NOTHING

        async def well() -> bool:
            return index.disk is DiskState.ROOM

        with full_disk(), capture_logs():
            index._needs_upkeep()  # noqa: SLF001  as after many changes
            await eventually(troubled, "it takes nothing")
        await eventually(well, "it takes all")
        assert not task.done()


async def test_damage_ends_the_core_with_one_line(tmp_path: Path) -> None:
    async with kept(tmp_path / "i") as (index, task):
        await asyncio.sleep(0)
        index._database.execute("DROP TABLE alarms")  # noqa: SLF001  as damage would
        index.keep_alarm(1, 7, "text")
        with pytest.raises(InstanceIndexError, match="is damaged"):
            index.commit()
        with pytest.raises(InstanceIndexError, match="is damaged"):
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


KILLED = """
import os, sys
from pathlib import Path
from gateway.inventory.instances import InstanceIndex
from gateway.service.processes.core import count_start
from gateway.state_folder import StateFolder
state = StateFolder(Path(sys.argv[1]))
index = InstanceIndex(state.instances)
count_start(state, index)
print(index.durable_row(1, "c", "known"))
index.commit()
os._exit(0)
"""


def row_of_killed(state: StateFolder) -> str:
    """Let a process begin and number an object, and end as by a kill; return the number."""
    command = [sys.executable, "-c", KILLED, str(state.path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603  our own
    return done.stdout


async def test_where_a_core_was_killed_another_starts_on_a_read_only_disk(tmp_path: Path) -> None:
    """Known objects keep their rows, ends have numbers, and what is new waits.

    When the disk can be written, nothing of it is lost for the next core, which has to open the file again.
    """
    with small_disk(tmp_path / "disk", 16 << 20) as disk:
        state = StateFolder.create(disk.folder / "state")
        row = int(await asyncio.to_thread(row_of_killed, state))
        disk.remount("ro")
        needed = asyncio.Event()
        kept_index = closing(InstanceIndex(state.instances, must_exist=True, needs_upkeep=needed.set))
        with kept_index as index, capture_logs() as logs:
            assert count_start(state, index, 2) == 2
            assert index.durable_row(1, "c", "known") == row
            ids = IdAllocator(state.identity, 2, index)
            assert ids.end() < (end := ids.end())
            index.commit()
            with pytest.raises(IndexNotWrittenError, match="see to space on the disk"):
                index.durable_row(1, "c", "new")
            index.keep_alarm(1, alarm := ids.alarm(), "text")
            index.commit()
            assert state.boots == 1
            disk.remount("rw")
            await asyncio.wait_for(keep_index(index, SystemClock(), needed), DEADLINE)
        assert ("start-not-noted", 2) in [(line["event"], line.get("start")) for line in logs]
        with closing(InstanceIndex(state.instances, must_exist=True)) as index:
            assert count_start(state, index, 3) == 3 == state.boots
            assert index.alarms(1) == [(alarm, "text")]
            ids = IdAllocator(state.identity, 3, index)
            assert ids.end() > end
            assert ids.alarm() != alarm
            assert index.durable_row(1, "c", "new") > row


def test_a_start_that_a_full_disk_did_not_take_is_noted_later(state: StateFolder) -> None:
    with closing(InstanceIndex(state.instances)) as index, capture_logs():
        with full_disk():
            assert count_start(state, index, 5) == 5
            with pytest.raises(IndexNotWrittenError):
                index.note_start(5)
        upkeep = index.upkeep()
        assert upkeep is not None
        index.upkept(upkeep())
        index.note_start(5)
        state.note_boot(5)
    with closing(InstanceIndex(state.instances)) as index:
        assert count_start(state, index) == 6


async def test_it_ends_when_it_is_asked_to_at_the_moment_at_which_it_is_needed(tmp_path: Path) -> None:
    needed = asyncio.Event()
    with closing(InstanceIndex(tmp_path / "i")) as index:
        index.start("gw", 1)
        task = asyncio.create_task(keep_index(index, SystemClock(), needed))
        for _ in range(3):  # both of its parts have begun, and wait
            await asyncio.sleep(0)
        needed.set()
        await asyncio.sleep(0)
        task.cancel()
        ended, _ = await asyncio.wait({task}, timeout=DEADLINE)
    assert ended
