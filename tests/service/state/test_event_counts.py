"""The numbers of events that cores have made, as the next core finds them."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gateway import durable_files
from gateway.model.times import SECOND
from gateway.service.state.event_counts import KEEP, LAPSE, EventCounts, EventsMade

_MADE: list[EventCounts] = []


def counts(
    path: Path,
    epoch: int,
    in_log: Mapping[int, int] | None = None,
    before: int | None = None,
    now: int | None = None,
    **log: bool,
) -> EventCounts:
    """Return the file of a core whose log is off, unless ``log`` says something else."""
    settings = {"logged": False, "was_paused": False, **log}
    before = epoch - 1 if before is None else before
    now = time.time_ns() if now is None else now
    _MADE.append(EventCounts(path, epoch, before, **settings, in_log=in_log or {}, now=now))
    return _MADE[-1]


@pytest.fixture(autouse=True)
def closed_as_by_a_kill() -> Iterator[None]:
    """Close the files that no test has closed: most cores here are killed."""
    yield
    for made in _MADE:
        if made._file is not None:  # noqa: SLF001
            os.close(made._file)  # noqa: SLF001
    _MADE.clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "event-counts"


@pytest.fixture
def other_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the system says which start of the machine this is."""
    start = tmp_path / "boot_id"
    start.write_text("first\n")
    monkeypatch.setattr(durable_files, "_MACHINE_START", start)
    return start


def test_the_first_core_knows_that_there_was_none(path: Path) -> None:
    assert counts(path, 1).former == EventsMade()


def test_after_kills_the_numbers_are_exact(path: Path) -> None:
    first = counts(path, 1)
    for number in (1, 2, 70_000):
        first.note(number)
    counts(path, 2)
    third = counts(path, 3, in_log={1: 69_000})
    third.note(5)
    assert third.former == EventsMade({1: 70_000, 2: 0})
    assert counts(path, 4).former == EventsMade({1: 70_000, 2: 0, 3: 5})


def test_after_a_failure_of_the_machine_there_may_be_more_unless_the_core_had_ended(
    path: Path, other_machine: Path
) -> None:
    killed = counts(path, 1)
    killed.note(7)
    other_machine.write_text("second\n")
    again = counts(path, 2)
    assert again.former == EventsMade({1: 7}, uncertain=1)
    again.note(3)
    again.close()
    other_machine.write_text("third\n")
    assert counts(path, 3).former == EventsMade({1: 7, 2: 3}, uncertain=1)


def test_what_the_log_has_of_a_core_is_all_unless_it_could_not_be_written(
    path: Path, other_machine: Path
) -> None:
    counts(path, 1, logged=True).note(7)
    other_machine.write_text("second\n")
    assert counts(path, 2, {1: 9}, logged=True).former == EventsMade({1: 9})
    other_machine.write_text("third\n")
    assert counts(path, 3, {2: 1}, logged=True, was_paused=True).former == EventsMade({1: 9, 2: 1}, 2)


@pytest.mark.parametrize("content", ["", "x", "00000000000000000007 makes\n{}", '7 makes\n{"epoch": 1'])
def test_a_file_that_is_damaged_or_missing_says_nothing(path: Path, content: str) -> None:
    if content:
        path.write_text(content)
    assert counts(path, 5).former == EventsMade({4: 0}, uncertain=4)
    path.write_text(content)
    assert counts(path, 6, {5: 3}, logged=True).former == EventsMade({5: 3})


def test_a_core_between_two_that_could_not_write_is_not_known(path: Path) -> None:
    counts(path, 1).note(7)
    assert counts(path, 3).former == EventsMade({1: 7, 2: 0}, uncertain=2)


def test_the_numbers_are_exact_after_a_run_that_left_numbers_of_starts_out(path: Path) -> None:
    counts(path, 1).note(7)
    assert counts(path, 21, before=1).former == EventsMade({1: 7})


def test_a_disk_that_refuses_makes_the_number_unknown_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = counts(path, 1)
    made.note(7)

    def full(_file: int, _octets: bytes, _offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    made.note(8)
    made.note(9)
    made.close()
    assert not path.exists()
    assert counts(path, 2).former == EventsMade({1: 0}, uncertain=1)


def is_old(path: Path, nanoseconds: int) -> None:
    """Let a file be that old: as of a core that was killed, or whose disk has turned read-only."""
    then = time.time_ns() - nanoseconds
    os.utime(path, ns=(then, then))


@pytest.mark.parametrize("logged", [False, True])
def test_after_a_time_of_which_nothing_is_known_there_may_be_more(path: Path, *, logged: bool) -> None:
    """A disk that turned read-only has nothing of it: neither of cores that ran since, nor in the log."""
    counts(path, 1, logged=logged).note(7)
    is_old(path, LAPSE + SECOND)
    assert counts(path, 21, {1: 7}, before=1, logged=logged).former == EventsMade({1: 7, 20: 0}, 20)


def test_a_core_that_lives_shows_it_and_one_that_has_ended_need_not(path: Path) -> None:
    living = counts(path, 1)
    living.note(7)
    is_old(path, LAPSE + SECOND)
    living.keep(time.time_ns() + KEEP)
    ended = counts(path, 2)
    assert ended.former == EventsMade({1: 7})
    ended.close()
    is_old(path, LAPSE + SECOND)
    assert counts(path, 3).former == EventsMade({1: 7, 2: 0})


def test_the_log_knows_of_a_core_without_the_file_only_what_it_has(path: Path) -> None:
    """Its disk may have taken neither of the two, nor that the log was paused."""
    counts(path, 1, logged=True).note(7)
    content = path.read_text()
    assert counts(path, 3, {1: 7, 2: 4}, logged=True).former == EventsMade({1: 7, 2: 4})
    path.write_text(content)
    assert counts(path, 3, {1: 7}, logged=True).former == EventsMade({1: 7, 2: 0}, uncertain=2)


def test_the_file_is_made_again_when_the_disk_takes_it_and_the_number_is_exact_again(tmp_path: Path) -> None:
    path = tmp_path / "state" / "event-counts"
    made = counts(path, 1)
    made.note(7)
    now = time.time_ns()
    made.keep(now + KEEP)
    path.parent.mkdir()
    made.note(8)
    made.keep(now + KEEP + 1)
    assert not path.exists(), "it is tried now and then"
    made.keep(now + 2 * KEEP)
    made.note(9)
    assert counts(path, 2).former == EventsMade({1: 9})


def test_the_file_is_made_again_at_the_end_of_a_core(tmp_path: Path) -> None:
    path = tmp_path / "state" / "event-counts"
    made = counts(path, 1)
    made.note(7)
    path.parent.mkdir()
    made.close()
    assert counts(path, 2).former == EventsMade({1: 7})
