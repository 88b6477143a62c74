"""Reconnecting: its intervals, its reports, and its end on request."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import SecretStr

from gateway.links import reconnecting as module
from gateway.links.amqp_connection import AmqpEndpoint, LinkError, Trouble
from gateway.links.reconnecting import link_errors, reconnecting

ENDPOINT = AmqpEndpoint("amqp://broker.example", "v", "u", SecretStr("hidden"))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.0)


async def test_each_end_is_reported_and_the_next_attempt_follows() -> None:
    reported: list[str] = []
    enough = asyncio.Event()

    async def converse() -> None:
        raise LinkError(Trouble.BROKEN, f"end {len(reported)}")

    def down(error: LinkError) -> None:
        reported.append(str(error))
        if len(reported) == 3:
            enough.set()

    task = asyncio.create_task(reconnecting(converse, down))
    await enough.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert reported[:3] == ["end 0", "end 1", "end 2"]


async def test_a_sign_that_the_broker_is_back_ends_the_pause_and_makes_the_next_ones_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LAST_PAUSE_SECONDS", 3_600.0)
    attempts, sooner = asyncio.Queue[None](), asyncio.Event()

    async def converse() -> None:
        attempts.put_nowait(None)
        raise LinkError(Trouble.UNREACHABLE, "refused")

    def down(_: LinkError) -> None:
        # After the first attempt every pause is an hour, but the first one after the sign.
        monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.0)

    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 3_600.0)
    task = asyncio.create_task(reconnecting(converse, down, sooner))
    try:
        await asyncio.wait_for(attempts.get(), 60)
        sooner.set()
        for _ in range(2):
            await asyncio.wait_for(attempts.get(), 60)
        assert not sooner.is_set()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_cancellation_that_the_library_turns_into_a_failure_is_one_all_the_same() -> None:
    trying = asyncio.Event()
    reported: list[LinkError] = []

    async def converse() -> None:
        trying.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise LinkError(Trouble.BROKEN, "the connection could not be opened") from None

    task = asyncio.create_task(reconnecting(converse, reported.append))
    await trying.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reported == []


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (ConnectionError("reset"), "amqp://broker.example: reset"),
        (KeyError("a fault of ours"), "amqp://broker.example: internal error KeyError: see the log"),
        (asyncio.CancelledError(), "amqp://broker.example: the connection ended"),
    ],
)
async def test_whatever_ends_a_conversation_is_one_line(failure: BaseException, expected: str) -> None:
    with pytest.raises(LinkError, match=f"^{expected}$"), link_errors(ENDPOINT, "test"):
        raise failure
