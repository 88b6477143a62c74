"""Sessions that applications asked to be logged: the place, form and amount of what is written."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gateway.service.sources.ami import SessionLogLimits, SessionLogs, file_name
from tests.components.full_disk import full_disk
from tests.components.waiting import eventually

NOON = 1_700_000_000_123 * 10**6


async def written(logs: SessionLogs) -> None:
    """Write all lines that were taken into the files."""
    keeping = asyncio.create_task(logs.keep())
    await asyncio.sleep(0)
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping


def contents(folder: Path) -> dict[str, str]:
    """Return the contents of the files there, by name."""
    return {path.name: path.read_text(encoding="ascii") for path in folder.iterdir()}


async def test_lines_as_they_travelled(tmp_path: Path) -> None:
    logs = SessionLogs(tmp_path / "plant")
    logs.take("pump-7", b'L|I="pump-7"|O="LOG"', NOON, outgoing=False)
    logs.take("pump-7", b'M|Q=0|S=0|M="\x1b[2J\xff"', NOON, outgoing=True)
    await written(logs)
    (file,) = (tmp_path / "plant").iterdir()
    assert file.read_text(encoding="ascii").splitlines() == [
        '2023-11-14T22:13:20.123Z < L|I="pump-7"|O="LOG"',
        '2023-11-14T22:13:20.123Z > M|Q=0|S=0|M="\\x1b[2J\\xff"',
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_it_is_written_soon_while_the_gateway_runs(tmp_path: Path) -> None:
    logs = SessionLogs(tmp_path)
    keeping = asyncio.create_task(logs.keep())
    logs.take("a", b"S|x=1", NOON, outgoing=False)

    async def is_there() -> bool:
        return (tmp_path / "a.log").exists()

    await eventually(is_there, "the line")
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping


async def test_what_a_full_disk_does_not_take_is_counted_and_no_line_is_cut(tmp_path: Path) -> None:
    logs = SessionLogs(tmp_path)
    for octets, lines in ((1 << 20, 1), (40, 2), (40, 3), (1 << 20, 1)):
        with full_disk(octets), capture_logs():
            for number in range(lines):
                logs.take("a", b"S|x=%d" % number, NOON, outgoing=False)
            await written(logs)
            await written(logs)  # of what is missing, again
    assert (tmp_path / "a.log").read_text(encoding="ascii").splitlines() == [
        "2023-11-14T22:13:20.123Z < S|x=0",
        "# 5 lines are missing here: they could not be written",
        "2023-11-14T22:13:20.123Z < S|x=0",
    ]


async def test_a_long_line_is_cut_off_and_says_so(tmp_path: Path) -> None:
    logs = SessionLogs(tmp_path)
    logs.take("a", bytes(8195), NOON, outgoing=False)
    await written(logs)
    assert (tmp_path / "a.log").read_text(encoding="ascii").endswith("\\x00 ... and 3 bytes\n")


async def test_files_are_turned_over_and_the_oldest_goes(tmp_path: Path) -> None:
    limits = SessionLogLimits(octets=100, files=3)
    for number in range(6):
        logs = SessionLogs(tmp_path, limits)
        logs.take("a", b"%d" % number + bytes(b"x" * 60), NOON, outgoing=False)
        await written(logs)
    shown = {name: text[27] for name, text in contents(tmp_path).items()}
    assert shown == {"a.log": "5", "a.log.1": "4", "a.log.2": "3"}


async def test_the_application_that_was_silent_longest_makes_room(tmp_path: Path) -> None:
    logs = SessionLogs(tmp_path, SessionLogLimits(octets=50, applications=2))
    for second, name in enumerate(("a", "a", "b", "c")):
        logs.take(name, b"x" * 40, NOON, outgoing=False)
        await written(logs)
        os.utime(tmp_path / f"{name}.log", (second, second))  # the clock of files is coarse
    assert contents(tmp_path).keys() == {"b.log", "c.log"}


async def test_what_comes_faster_than_it_is_written_is_reported(tmp_path: Path) -> None:
    logs = SessionLogs(tmp_path, SessionLogLimits(waiting=100))
    for _ in range(5):
        logs.take("a", b"x" * 40, NOON, outgoing=False)
    await written(logs)
    lines = (tmp_path / "a.log").read_text(encoding="ascii").splitlines()
    assert len(lines) == 2
    assert lines[1] == "# 4 lines were left out here: they came faster than they could be written"


async def test_a_folder_that_cannot_be_written_stops_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file", encoding="ascii")
    logs = SessionLogs(tmp_path / "sessions" / "plant")
    logs.take("a", b"x", NOON, outgoing=False)
    await written(logs)


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.touch()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").symlink_to(victim)
    logs = SessionLogs(tmp_path / "logs")
    logs.take("a", b"x", NOON, outgoing=False)
    await written(logs)
    assert victim.read_bytes() == b""


@given(st.text(max_size=200))
@example("../../etc/passwd")
@example("")
@example(".")
@example("\ud800")
@example("a" * 300)
def test_a_name_leads_nowhere_else(application: str) -> None:
    name = file_name(application)
    assert set(name.removesuffix(".log")) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
    )
    assert 4 < len(name) < 100


@given(st.lists(st.text(max_size=80), unique=True, min_size=2, max_size=5))
@example(["a/", "a_2f"])
def test_no_two_applications_share_a_file(applications: list[str]) -> None:
    assert len({file_name(application) for application in applications}) == len(applications)
