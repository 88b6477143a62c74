"""kill -9 of the compactor while it compacts: the lake has every record once, and another goes on."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from gateway.demo.demonstration import Demonstration
from gateway.eventlog.segment import DRAFTS, LAKE, Segment, lake_files, list_segments
from gateway.eventlog.verification import Summary, verify
from tests.end_to_end.chaos import repeatable
from tests.end_to_end.observer import DEADLINE_SECONDS, Observer
from tests.end_to_end.rightness import Rightness
from tests.end_to_end.story import Story
from tests.eventlog.logs import lines_of, rows_of
from tests.hypothesis_profiles import PROVING

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demonstration")]

SEEDS = 20 if PROVING else 1
KILLS = 2 if PROVING else 1
"""The number of kills of each seed, one after the other, while the same records wait."""

FIRST_STEP, LONGEST_WORK = 0.005, 0.5
"""Seconds from the begin of a segment's compaction: the kill comes before, in or behind each step of it."""

_LOOK_SECONDS = 0.001


class Work:
    """The work of the compactor, as its folder shows it.

    Args:
        log: folder of the event log.
        copies: folder in which segments are kept as they were before they became Parquet.
    """

    def __init__(self, log: Path, copies: Path) -> None:
        self.log = log
        self.copies = copies
        self._left: set[Path] = set()  # by those that were killed

    def begun(self) -> None:
        """Block until a segment is being compacted: the compaction takes a moment only."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self._drafts():
            assert time.monotonic() < deadline, "no segment is compacted"
            self.keep()
            time.sleep(_LOOK_SECONDS)
        self.keep()

    def was_killed(self) -> str:
        """Remember the drafts that are left; return the stage of the work."""
        stage = self._stage()
        self._left |= self._drafts()
        return stage

    def keep(self) -> None:
        """Give each complete segment a second name: its octets outlive it."""
        for segment in self.complete():
            try:
                os.link(segment.path, self.copies / segment.path.name)
            except (FileExistsError, FileNotFoundError):
                continue  # kept already, or in the lake since

    def complete(self) -> list[Segment]:
        """Return the segments that are complete, and not deleted yet."""
        return [segment for segment in list_segments(self.log) if not segment.is_open]

    def _stage(self) -> str:
        waiting = {segment.first_seq for segment in self.complete()}
        in_lake = {file.first_seq for file in lake_files(self.log)}
        if waiting & in_lake:
            return "file in place, segment not deleted"
        if waiting:
            return "file in the making" if self._drafts() else "between two looks"
        return "done, draft left" if self._drafts() else "done"

    def differences(self) -> list[str]:
        """Return where the lake does not have the records of the kept segments, each once."""
        found = []
        for copy in sorted(self.copies.iterdir()):
            files = [
                one.path for one in lake_files(self.log) if one.first_seq == int(copy.name.split(".")[0])
            ]
            if len(files) != 1:
                found.append(f"{copy.name} is in {len(files)} files of the lake")
            elif rows_of(files[0]) != lines_of(copy):
                found.append(f"{files[0].name} has other records than {copy.name}")
        return found

    def problems(self) -> list[str]:
        """Return the errors of the log as a whole: damage, seqs that are missing or there twice."""
        return [str(problem) for problem in verify(self.log, Summary(), lambda *_: None)]

    def _drafts(self) -> set[Path]:
        return set((self.log / LAKE).glob(f"{DRAFTS}*")) - self._left


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_compactor_that_is_killed_loses_nothing_and_reports_nothing_twice(
    seed: int,
    observer: Observer,
    demonstration: Demonstration,
    rightness: Rightness,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable on purpose
    work = Work(demonstration.log_folder, tmp_path)
    with repeatable(request):
        await rightness.at_first()
        story = await Story.begin(observer, rightness)
        await observer.until("a segment waits for the compactor", partial(compacts, observer))
        for kill in range(KILLS):
            await asyncio.to_thread(work.begun)
            spread = (LONGEST_WORK / FIRST_STEP) ** chance.random()  # over orders of magnitude
            await asyncio.sleep(FIRST_STEP * spread)  # the instant of the kill
            killed = observer.process("compactor")
            killed.kill()
            await asyncio.to_thread(killed.wait, DEADLINE_SECONDS)
            record_property(f"killed_{kill + 1}", work.was_killed())
            await observer.until("another was started", partial(runs_another, observer, killed))
        await observer.until("all that was kept is in the lake", lambda: is_done(work))
        assert not await asyncio.to_thread(work.differences)
        assert not await asyncio.to_thread(work.problems)
        await rightness.again()
        await story.end({"compactor"})


async def compacts(observer: Observer) -> bool:
    """Return whether there is a compactor, which runs only where a segment waits or did until now."""
    return observer.runs("compactor")


async def runs_another(observer: Observer, killed: psutil.Process) -> bool:
    """Return whether the supervisor has a compactor that is not the killed one."""
    try:
        return observer.process("compactor") != killed
    except (AssertionError, psutil.Error):
        return False


async def is_done(work: Work) -> bool:
    """Return whether none of the kept segments is left."""
    kept = {copy.name for copy in work.copies.iterdir()}
    return bool(kept) and not kept & {segment.path.name for segment in work.complete()}
