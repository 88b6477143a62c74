"""The numbers of starts: none is given twice, whatever the disk takes, and however a run ends."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gateway.config.snmp import SnmpSettings
from gateway.service.processes import snmp_users
from gateway.service.processes.snmp_users import SnmpSecurity
from gateway.service.state.snmp_security import read_engine, start_engine
from gateway.snmp.v3.engine import Engine
from gateway.starts import (
    CORE,
    ENGINE,
    RESERVED,
    RESTORE,
    SNMP,
    STARTS,
    ReservedStarts,
    StartsError,
    highest_start,
    skip_starts,
    start_before,
)
from gateway.state_folder import StateError, StateFolder
from tests.components.full_disk import full_disk
from tests.components.waiting import DEADLINE


def given_of(starts: ReservedStarts, process: str, count: int) -> list[int]:
    """Return the numbers of so many starts."""
    numbers = [starts.next(process) for _ in range(count)]
    assert None not in numbers
    return [number for number in numbers if number is not None]


def test_a_run_that_ends_in_order_leaves_no_number_out(tmp_path: Path) -> None:
    for expected in ([1, 2, 3], [4, 5, 6]):
        run = ReservedStarts(tmp_path, 0)
        assert given_of(run, CORE, 3) == expected
        run.close()
    assert highest_start(tmp_path, 2) == 6


def test_a_run_that_was_killed_may_have_used_all_that_it_reserved(tmp_path: Path) -> None:
    assert given_of(ReservedStarts(tmp_path, 0), CORE, 2) == [1, 2]
    assert given_of(ReservedStarts(tmp_path, 0), CORE, 1) == [RESERVED + 1]
    assert highest_start(tmp_path, 2) == 2 * RESERVED


def test_processes_without_numbered_starts_get_none(tmp_path: Path) -> None:
    assert ReservedStarts(tmp_path, 0).next("jmx") is None


def test_what_is_noted_and_the_least_of_the_engine_are_left_behind(tmp_path: Path) -> None:
    (tmp_path / "boots").write_text("7\n")
    (tmp_path / ENGINE).write_text(json.dumps({"boots": 70}))
    run = ReservedStarts(tmp_path, 50)
    assert (run.next(CORE), run.next(SNMP)) == (8, 71)
    run.close()
    assert ReservedStarts(tmp_path, 500).next(SNMP) == 500


def test_a_disk_that_takes_nothing_leaves_a_run_what_it_reserved(tmp_path: Path) -> None:
    run = ReservedStarts(tmp_path, 0)
    with full_disk():
        assert given_of(run, CORE, RESERVED) == list(range(1, RESERVED + 1))
        with pytest.raises(
            StartsError, match="starts: cannot be written, so that no start has a number: File too"
        ):
            run.next(CORE)
        with pytest.raises(StartsError, match="so that no start has a number"):
            ReservedStarts(tmp_path, 0)
    assert run.next(CORE) == RESERVED + 1, "it goes on where the disk does"


def test_more_starts_than_are_reserved_at_once_are_reserved_in_time(tmp_path: Path) -> None:
    assert given_of(ReservedStarts(tmp_path, 0), SNMP, 2 * RESERVED)[-1] == 2 * RESERVED


def test_a_restored_state_counts_on_behind_the_leap(tmp_path: Path) -> None:
    (tmp_path / ENGINE).write_text(json.dumps({"boots": 70}))
    skip_starts(tmp_path, 100_005, 100_000)
    run = ReservedStarts(tmp_path, 0)
    assert (run.next(CORE), run.next(SNMP)) == (100_006, 100_071)


def test_an_engine_with_reserved_boots_starts_on_a_disk_that_takes_nothing(tmp_path: Path) -> None:
    state = StateFolder.create(tmp_path / "state")
    first = start_engine(state, 8072, 10**9, 70)
    with full_disk(), capture_logs() as logs:
        second = start_engine(state, 8072, 2 * 10**9, 71)
        with pytest.raises(StateError, match="cannot be written"):
            start_engine(state, 8072, 2 * 10**9)
    assert (first.boots, second.boots, second.engine_id) == (70, 71, first.engine_id)
    assert [(line["event"], line["start"]) for line in logs] == [("start-not-noted", 71)]
    assert read_engine(state, 8072).boots == 70


async def test_an_engine_notes_its_start_when_the_disk_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snmp_users, "NOTE_SECONDS", 0.01)
    state = StateFolder.create(tmp_path / "state")
    read_engine(state, 8072)
    with full_disk(), capture_logs():
        stored = start_engine(state, 8072, 10**9, 71)
        engine = Engine(bytes.fromhex(stored.engine_id), stored.boots, time.monotonic_ns)
        noting = asyncio.create_task(SnmpSecurity(engine, stored, SnmpSettings(), {}).note_start(state))
        await asyncio.sleep(0)
        assert read_engine(state, 8072).boots == 0
    with capture_logs() as logs:
        await asyncio.wait_for(noting, DEADLINE)
    assert read_engine(state, 8072) == stored
    assert [(line["event"], line["start"]) for line in logs] == [("start-noted", 71)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "[1]",
        '{"core": "many"}',
        '{"core": true}',
        '{"snmp": -1}',
        '{"core": 2147483648}',
        "\x00",
        "ü",
        "[" * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_a_damaged_file_gives_no_number(tmp_path: Path, text: str) -> None:
    """The numbers of the former run, of which it would have said the last, need not be noted."""
    state = StateFolder.create(tmp_path / "state")
    (state.path / STARTS).write_text(text, encoding="utf-8")
    with pytest.raises(StartsError, match=RESTORE):
        ReservedStarts(state.path, 0)
    with pytest.raises(StateError, match=RESTORE):
        state.next_boot()


def test_a_file_that_is_not_read_gives_no_number(tmp_path: Path) -> None:
    (tmp_path / STARTS).mkdir()
    with pytest.raises(StartsError, match=f"starts: cannot be read: Is a directory: {RESTORE}"):
        ReservedStarts(tmp_path, 0)


def test_the_core_before_the_first_of_a_run_is_the_last_that_was_noted(tmp_path: Path) -> None:
    ReservedStarts(tmp_path, 0).next(CORE)
    (tmp_path / "boots").write_text("1\n")
    run = ReservedStarts(tmp_path, 0)
    first, second = given_of(run, CORE, 2)
    assert start_before(tmp_path, first, noted=1) == 1
    assert start_before(tmp_path, second, noted=1) == first, "which was not noted"


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=8))
def test_no_number_is_given_twice(runs: list[tuple[int, bool, bool]]) -> None:
    """Each run begins while the disk takes it; then it may take nothing, and the run may be killed."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        numbers: list[int] = []
        for count, takes, ends in runs:
            run = ReservedStarts(folder, 0)
            if takes:
                numbers += given_of(run, CORE, count)
                (folder / "boots").write_text(f"{numbers[-1] if numbers else 0}\n")
            else:
                with full_disk():
                    numbers += given_of(run, CORE, count)
            if ends:
                run.close()
        assert numbers == sorted(set(numbers))
