"""The file with the last event of which clients of JMX were notified."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.jmx.notifications import EventCursor
from gateway.service.processes.jmx import FILE, EventCursorFile
from tests.components.waiting import eventually


async def kept_until(state: Path, cursor: EventCursor, text: str) -> None:
    """Keep the cursor until the file says this."""

    async def says_so() -> bool:
        return (state / FILE).exists() and (state / FILE).read_text() == text

    keeping = asyncio.create_task(EventCursorFile(state).keep(cursor))
    await eventually(says_so, "the file says it")
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


def test_without_a_file_nothing_was_notified(tmp_path: Path) -> None:
    assert EventCursorFile(tmp_path).read().place == (0, 0)
    assert not (tmp_path / FILE).exists()


async def test_the_next_process_begins_where_the_last_one_stopped(tmp_path: Path) -> None:
    cursor = EventCursor()
    cursor.snapshot_ended()
    assert cursor.is_new(3, 7, repeated=False)
    await kept_until(tmp_path, cursor, '{"version":1,"epoch":3,"number":7}\n')
    following = EventCursorFile(tmp_path).read()
    assert following.place == (3, 7)
    assert not following.is_new(3, 7, repeated=True)
    assert not following.is_new(3, 8, repeated=True)
    assert following.lost == 1


async def test_what_was_reported_last_is_kept_at_an_end_in_order(tmp_path: Path) -> None:
    cursor = EventCursor()
    keeping = asyncio.create_task(EventCursorFile(tmp_path).keep(cursor))
    await asyncio.sleep(0)
    cursor.is_new(1, 5, repeated=False)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert EventCursorFile(tmp_path).read().place == (1, 5)


@pytest.mark.parametrize("damaged", [b"", b"\xff", b"[]", b'{"version": 2}', b'{"version": 1, "epoch": -1}'])
def test_a_damaged_file_is_as_none(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / FILE).write_bytes(damaged)
    assert EventCursorFile(tmp_path).read().place == (0, 0)
