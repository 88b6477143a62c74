"""Clients that are logged in: shares of users and addresses, and clients that vanish."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog

from gateway.jmx.virtual_machine import JavaMachine
from tests.components.stopping import stop
from tests.components.waiting import eventually
from tests.jmx_java.attacks.conftest import OPERATOR, PASSWORD, READER, Works
from tests.jmx_java.client_machine import client_machine
from tests.jmx_java.conftest import AsyncClient, JavaObject, JavaStrings

CLOSED = 40
OF_A_USER, OF_AN_ADDRESS = 30, 45
DELEGATE = "JMImplementation:type=MBeanServerDelegate"
VANISHED_SECONDS = 40.0
"""Seconds after which the session of a client that vanished has ended: 15, and some for a busy machine."""


@pytest.fixture
def others(java_classes: Path) -> Iterator[JavaObject]:
    """Clients in a virtual machine of their own, which a test may end."""
    with contextlib.suppress(Exception), client_machine(java_classes) as client:  # as the test wanted
        yield client


@contextlib.asynccontextmanager
async def crowd(machine: JavaMachine, java: JavaObject, sizes: dict[str, int]) -> AsyncIterator[None]:
    """So many clients of each user."""
    clients: list[JavaObject] = []
    try:
        for user in (user for user, size in sizes.items() for _ in range(size)):
            clients += [await asyncio.to_thread(java.connect, machine.port, user, PASSWORD)]
        yield
    finally:
        for client in clients:
            await asyncio.to_thread(client.close)


async def test_a_user_who_takes_every_place_leaves_some_for_others(
    machine: JavaMachine, java_client: JavaObject, java_strings: JavaStrings, works: Works
) -> None:
    async with crowd(machine, java_client, {READER: OF_A_USER}):
        one_more = await AsyncClient(java_client)(
            "tryConnectWith", machine.port, java_strings([READER, PASSWORD])
        )
        assert "30 clients of the user reader are connected, which is the most" in one_more
        await works()


async def test_a_client_that_closes_while_it_listens_is_no_trouble_at_either_end(
    machine: JavaMachine, java_client: JavaObject, works: Works
) -> None:
    with structlog.testing.capture_logs() as logs:
        arguments = machine.port, READER, PASSWORD, CLOSED
        assert await AsyncClient(java_client)("closeWhileListening", *arguments) == []
        await works()
    assert [entry for entry in logs if entry["event"] == "java"] == []


async def test_an_address_that_takes_every_place_leaves_some_for_others(
    machine: JavaMachine, java_client: JavaObject, java_strings: JavaStrings
) -> None:
    async with crowd(machine, java_client, {READER: OF_A_USER, OPERATOR: OF_AN_ADDRESS - OF_A_USER}):
        one_more = await AsyncClient(java_client)(
            "tryConnectWith", machine.port, java_strings([OPERATOR, PASSWORD])
        )
        assert "45 clients from 127.0.0.1 are connected, which is the most" in one_more
    async with crowd(machine, java_client, {OPERATOR: 1}):
        assert (await machine.usage()).clients == 1


async def clients_are(machine: JavaMachine, count: int) -> bool:
    return (await machine.usage()).clients == count


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_clients_that_vanish_free_their_places(
    machine: JavaMachine, others: JavaObject, works: Works, how: str
) -> None:
    process = await asyncio.to_thread(others.pid)
    for _ in range(OF_A_USER):
        client = await asyncio.to_thread(others.connect, machine.port, READER, PASSWORD)
        await asyncio.to_thread(client.listen, DELEGATE)
    assert await clients_are(machine, OF_A_USER)
    try:
        if how == "killed":
            os.kill(process, signal.SIGKILL)
        else:
            # As one whose machine lost its power: its connections stay, and nothing is received.
            await asyncio.to_thread(stop, process)
        await works()
        await eventually(lambda: clients_are(machine, 0), "their places are free", VANISHED_SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


async def test_a_client_that_does_nothing_for_long_stays(
    machine: JavaMachine, java_client: JavaObject
) -> None:
    async with crowd(machine, java_client, {READER: 1}):
        for _ in range(25):
            await asyncio.sleep(1)  # longer than a lease, which its virtual machine renews
            assert await clients_are(machine, 1)


async def test_a_user_who_takes_all_connections_leaves_some_for_others(
    machine: JavaMachine, attacks: AsyncClient, works: Works
) -> None:
    await attacks("occupy", machine.port, READER, PASSWORD, OF_A_USER, 8)
    for _ in range(3):
        await works()
    await attacks("leave")
    await works()
