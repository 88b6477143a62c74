"""Several coroutines as one: the first end decides, and none is left running. And ends of connections."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gateway.tasks import until_closed, until_one_ends
from tests.components.waiting import DEADLINE


async def forever(ended: list[str], name: str) -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        ended.append(name)


async def at_once(error: Exception | None = None) -> None:
    if error is not None:
        raise error


async def test_the_first_end_ends_all() -> None:
    ended: list[str] = []
    await until_one_ends(forever(ended, "a"), at_once(), forever(ended, "b"))
    assert ended == ["a", "b"]


async def test_what_the_first_in_order_raised_is_raised() -> None:
    ended: list[str] = []
    with pytest.raises(ValueError, match="first"):
        await until_one_ends(forever(ended, "a"), at_once(ValueError("first")), at_once(ValueError("second")))
    assert ended == ["a"]


async def test_being_cancelled_cancels_all_and_waits_for_them() -> None:
    ended: list[str] = []
    task = asyncio.create_task(until_one_ends(forever(ended, "a"), forever(ended, "b")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["a", "b"]


async def test_a_connection_whose_other_end_reads_nothing_is_closed_all_the_same() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(b"more than the kernel keeps" * 100_000)
        async with asyncio.timeout(DEADLINE):
            await until_closed(writer, 0.01)
        assert await reader.read() == b""
        assert ours.fileno() == -1


async def test_the_other_end_of_a_connection_that_is_closed_reads_what_was_written() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        _, writer = await asyncio.open_connection(sock=ours)
        octets = b"more than the kernel keeps" * 100_000
        writer.write(octets)
        reading = asyncio.create_task(asyncio.to_thread(_read, theirs))
        await until_closed(writer, DEADLINE)
        assert await reading == octets


def _read(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))
