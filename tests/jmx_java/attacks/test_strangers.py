"""Strangers, who know no password, and send little or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from gateway.jmx.virtual_machine import JavaMachine
from tests.components.waiting import until
from tests.jmx_java.attacks import jrmp
from tests.jmx_java.attacks.conftest import OPERATOR, Works
from tests.jmx_java.conftest import AsyncClient

MEBI = 1 << 20


def greeted_with(port: int, octets: bytes) -> socket.socket:
    """Connect, greet, and send what the server takes of the octets."""
    stream, _ = jrmp.greeted(port)
    with contextlib.suppress(OSError):
        stream.sendall(octets)
    return stream


async def test_a_client_receives_its_own_address(machine: JavaMachine) -> None:
    stream, received = await asyncio.to_thread(jrmp.greeted, machine.port)
    stream.close()
    assert received == "127.0.0.1"


async def test_long_names_in_the_registry_fill_no_memory(machine: JavaMachine, works: Works) -> None:
    octets = jrmp.lookup(MEBI, MEBI - 1)
    with jrmp.all_closed([]) as streams:
        for _ in range(250):
            with contextlib.suppress(OSError):  # the oldest ones make place for the next
                streams.append(await asyncio.to_thread(greeted_with, machine.port, octets))
        await works()
        await until(lambda: all(map(jrmp.is_closed, streams)), "all are closed", 30)


async def test_unfinished_requests_are_closed_soon(machine: JavaMachine, works: Works) -> None:
    with jrmp.all_closed([]) as streams:
        for sent in (0, 100) * 25:
            streams.append(await asyncio.to_thread(greeted_with, machine.port, jrmp.lookup(1000, sent)))
        await works()
        await until(lambda: all(map(jrmp.is_closed, streams)), "all are closed", 30)


async def test_a_request_that_trickles_in_is_closed_soon(machine: JavaMachine) -> None:
    stream = await asyncio.to_thread(greeted_with, machine.port, jrmp.lookup(1000, 0))

    def is_closed_though_it_sends() -> bool:
        with contextlib.suppress(OSError):
            stream.send(b"x")
        return jrmp.is_closed(stream)

    with jrmp.all_closed([stream]):
        await until(is_closed_though_it_sends, "the connection is closed", 30)


@pytest.mark.parametrize("greets", [False, True])
async def test_idle_connections_lock_out_no_other(
    machine: JavaMachine, works: Works, *, greets: bool
) -> None:
    def opened() -> socket.socket:
        return jrmp.greeted(machine.port)[0] if greets else jrmp.connection(machine.port)

    with jrmp.all_closed([]) as streams:
        for _ in range(600):
            streams.append(await asyncio.to_thread(opened))
        await works()
        await until(lambda: all(map(jrmp.is_closed, streams)), "all are closed", 30)


async def test_a_right_login_succeeds_beside_a_storm_of_wrong_ones(
    machine: JavaMachine, attacks: AsyncClient, works: Works
) -> None:
    storm = asyncio.create_task(attacks("storm", machine.port, OPERATOR, 100))
    try:
        await until(lambda: attacks.java.guessed() > 100, "wrong logins are answered")
        for _ in range(3):
            await works()
    finally:
        await asyncio.to_thread(attacks.java.calm)
        await storm
