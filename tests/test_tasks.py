"""Several coroutines as one: the first end decides, and none is left running."""

from __future__ import annotations

import asyncio

import pytest

from gateway.tasks import until_one_ends


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
