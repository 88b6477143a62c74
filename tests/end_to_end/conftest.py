"""One demonstration for all tests of this folder: a broker, a workload, the gateway, an agent of its own.

Each test leaves it as it found it, so their order does not matter; they share a worker (``xdist_group``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from gateway.demo.broker import BrokerSettings
from gateway.demo.demonstration import Demonstration
from tests.end_to_end.observer import Observer, free_tcp_port, free_udp_port


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def demonstration() -> AsyncIterator[Demonstration]:
    """Everything running, with quick statistics."""
    settings = BrokerSettings(statistics_interval=1.0)
    snmp, jmx = free_udp_port(), free_tcp_port()
    async with Demonstration(print, snmp_port=snmp, jmx_port=jmx, agent=True, settings=settings) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def observer(demonstration: Demonstration) -> Observer:
    """Looks at the demonstration from outside."""
    return Observer(demonstration)
