"""A virtual machine with two queues for all tests of a module, and an operator that each test tells."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.jmx.virtual_machine import JavaMachine
from tests.jmx_java.conftest import AsyncClient, Connect, emptied, publish_well
from tests.jmx_java.operations.queues import FULL
from tests.jmx_java.scripted_operator import ScriptedOperator


@pytest.fixture
def operator() -> ScriptedOperator:
    """Return an operator that applies everything, unless a test says otherwise."""
    return ScriptedOperator()


@pytest_asyncio.fixture(loop_scope="module")
async def machine(shared_machine: JavaMachine, operator: ScriptedOperator) -> JavaMachine:
    """A virtual machine with two queues as at first, and the operator of this test."""
    await publish_well(await emptied(shared_machine), *FULL)
    await shared_machine.open(operator)
    return shared_machine


@pytest_asyncio.fixture(loop_scope="module")
async def client(machine: JavaMachine, connect: Connect) -> AsyncIterator[AsyncClient]:
    """A Java client that has logged in to `machine`."""
    async with connect(machine) as connected:
        yield connected
