"""Python's end of the bridge: it answers only with the right token, and no request costs it much."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

import gateway.jmx.bridge
from gateway.jmx.bridge import LOOPBACK, Bridge
from gateway.jmx.java_runtime import MachineEndedError
from tests.components.waiting import DEADLINE

ANSWERED = b"!yjAA==\n"
CALL = b"c\nt\ncall\njAA==\ne\n"


async def answer(_request: bytes) -> bytes:
    return b"\0"


@pytest.fixture
async def bridge() -> AsyncIterator[Bridge]:
    made = Bridge(answer, deadline=DEADLINE)
    yield made
    await made.close()


async def said(port: int, *parts: bytes) -> bytes:
    """Send ``parts``; return everything that is received until the other side closes the connection."""
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        with contextlib.suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
        received = b""
        with contextlib.suppress(ConnectionError):
            while octets := await reader.read(1000):
                received += octets
        writer.close()
        return received


async def test_who_shows_the_token_is_answered(bridge: Bridge) -> None:
    login = b"A\n" + bridge.inward_token.encode() + b"\ne\n"
    assert (await said(bridge.listen(), login, CALL, b"q\n\n")).endswith(ANSWERED)


@pytest.mark.parametrize(
    "parts",
    [
        (b"A\nguessed\ne\n", CALL),
        (CALL,),
        (b"\xff\xfe\n",),
        (b"x" * (1 << 21),),
        (b"A\n" + b"x" * (1 << 21),),
    ],
)
async def test_no_other_user_is(bridge: Bridge, parts: tuple[bytes, ...]) -> None:
    assert ANSWERED not in await said(bridge.listen(), *parts)


async def test_who_connects_and_says_nothing_is_left_after_a_while(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.jmx.bridge, "_LOGIN_SECONDS", 0.1)
    assert await said(bridge.listen()) == b""


async def test_the_token_has_to_be_shown_in_one_time_for_all_of_it(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.jmx.bridge, "_LOGIN_SECONDS", 0.3)
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection(LOOPBACK, bridge.listen())
        received = asyncio.create_task(reader.read())
        while not received.done():
            writer.write(b"A")
            await asyncio.wait([received], timeout=0.05)
        writer.close()


async def test_strangers_take_no_place_from_the_virtual_machine(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.jmx.bridge, "_LOGIN_SECONDS", 10 * DEADLINE)
    port = bridge.listen()
    login = b"A\n" + bridge.inward_token.encode() + b"\ne\n"
    with contextlib.ExitStack() as connections:
        strangers = [
            await asyncio.to_thread(connect, port, connections)
            for _ in range(gateway.jmx.bridge._MAX_STRANGERS + 1)  # noqa: SLF001
        ]
        assert strangers[0] is not None
        assert await asyncio.to_thread(is_hung_up, strangers[0])
        assert (await said(port, login, CALL, b"q\n\n")).endswith(ANSWERED)


async def test_so_many_that_have_shown_the_token_are_served(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.jmx.bridge, "_MAX_CONNECTIONS", 1)
    port = bridge.listen()
    login = b"A\n" + bridge.inward_token.encode() + b"\ne\n"
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(login + CALL)
        while not (await reader.readline()).endswith(ANSWERED):
            pass
        assert ANSWERED not in await said(port, login, CALL)
        writer.write(CALL)
        assert await reader.readline() == ANSWERED
        writer.close()


def connect(port: int, connections: contextlib.ExitStack) -> socket.socket | None:
    """Return a connection, or nothing where the other side closed it before it was one."""
    try:
        return connections.enter_context(socket.create_connection((LOOPBACK, port)))
    except ConnectionError:
        return None


def is_hung_up(connection: socket.socket) -> bool:
    connection.settimeout(DEADLINE)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


async def test_an_answer_that_takes_too_long_is_an_outcome_unknown() -> None:
    async def never(_request: bytes) -> bytes:
        await asyncio.get_running_loop().create_future()
        return b""

    bridge = Bridge(never, deadline=0.05)
    try:
        login = b"A\n" + bridge.inward_token.encode() + b"\ne\n"
        received = await said(bridge.listen(), login, CALL, b"q\n\n")
    finally:
        await bridge.close()
    assert b"!yj" in received


async def test_a_virtual_machine_that_is_not_reached_yet_or_any_more_has_ended(bridge: Bridge) -> None:
    with pytest.raises(MachineEndedError, match="not reached yet"):
        await bridge.call("usage")
    await bridge.close()
    with pytest.raises(MachineEndedError, match="closed"):
        await bridge.call("usage")
