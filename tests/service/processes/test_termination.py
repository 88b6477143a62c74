"""A process that is asked to end ends in order; one that ends by itself ends in its own way."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

import pytest
import structlog

from gateway.service.processes.process_setup import until_terminated
from tests.components.waiting import eventually


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

    assert await until_terminated(work()), "it was asked to end"

    assert steps == ["closed"]


async def test_a_signal_is_reported_where_the_work_was_ending_already() -> None:
    """An agent that was to start again does not."""

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    assert await until_terminated(work())


async def test_work_that_ends_by_itself_was_not_asked_to() -> None:
    assert not await until_terminated(asyncio.sleep(0))


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
async def test_a_signal_that_means_nothing_to_a_service_ends_nothing(number: signal.Signals) -> None:
    with structlog.testing.capture_logs() as logged:

        async def is_logged() -> bool:
            return bool(logged)

        async def work() -> None:
            os.kill(os.getpid(), number)
            await eventually(is_logged, "it is logged")

        await until_terminated(work(), is_service=True)
    assert [record["signal"] for record in logged] == [number.name]


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
