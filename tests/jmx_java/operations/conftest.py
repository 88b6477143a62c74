"""A virtual machine with two queues, and an operator that answers as a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.jmx.virtual_machine import JavaMachine
from tests.jmx_java.conftest import authenticate, publish_well, settings
from tests.jmx_java.operations.queues import FULL
from tests.jmx_java.scripted_operator import ScriptedOperator


@pytest.fixture
def operator() -> ScriptedOperator:
    """Return an operator that applies everything, unless a test says otherwise."""
    return ScriptedOperator()


@pytest.fixture
async def machine(operator: ScriptedOperator) -> AsyncIterator[JavaMachine]:
    """A virtual machine with two queues."""
    async with JavaMachine(settings(), authenticate) as started:
        await publish_well(started, *FULL)
        await started.open(operator)
        yield started
