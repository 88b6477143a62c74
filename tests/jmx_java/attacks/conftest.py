"""A machine with a reader and an operator, an attacker, and a good client beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest

from gateway.jmx.virtual_machine import JavaMachine
from tests.jmx_java.conftest import AsyncClient, JavaObject, publish_well, settings
from tests.jmx_java.operations.queues import FULL, ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator

READER, OPERATOR, PASSWORD = "reader", "operator", "secret"

Works: TypeAlias = Callable[[], Awaitable[None]]
"""Checks that a client logs in and reads, soon."""

SOON = 30.0
"""Seconds in which a good client is served beside an attack: generous, for a busy machine."""


async def authenticate(user: str, password: str) -> bool:
    return user in {READER, OPERATOR} and password == PASSWORD


@pytest.fixture
def operator() -> ScriptedOperator:
    """Return an operator that applies everything."""
    return ScriptedOperator()


@pytest.fixture
async def machine(operator: ScriptedOperator) -> AsyncIterator[JavaMachine]:
    """A virtual machine that lets clients in, of whom one may only read."""
    async with JavaMachine(settings(), authenticate, lambda user: user == OPERATOR) as started:
        await publish_well(started, *FULL)
        await started.open(operator)
        yield started


@pytest.fixture
def attacks(java_client: JavaObject) -> AsyncClient:
    """An attacker who has not logged in."""
    return AsyncClient(java_client.attacks())


@pytest.fixture
def works(machine: JavaMachine, java_client: JavaObject) -> Works:
    """Return a check that the machine is the same as before, and serves a good client."""

    async def check() -> None:
        async with asyncio.timeout(SOON):
            java = await asyncio.to_thread(java_client.connect, machine.port, OPERATOR, PASSWORD)
            good = AsyncClient(java)
            assert await good("attribute", ORDERS, "messages") == "java.lang.Long 3"
            await good("close")

    return check
