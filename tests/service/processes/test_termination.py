"""A process that is asked to end ends in order; one that ends by itself ends in its own way."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from gateway.service.processes.process_setup import until_terminated


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_the_work_end_in_order(number: signal.Signals) -> None:
    steps: list[str] = []

    async def work() -> None:
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("closed")

    await until_terminated(work())

    assert steps == ["closed"]


async def test_what_the_work_raises_is_raised() -> None:
    async def work() -> None:
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        await until_terminated(work())


async def test_a_cancellation_from_elsewhere_is_not_hidden() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await until_terminated(work())
