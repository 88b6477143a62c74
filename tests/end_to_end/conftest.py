"""One demonstration for all tests of this folder: a broker, a workload, the gateway, an agent of its own.

Each test leaves it as it found it, so their order does not matter; they share a worker (``xdist_group``).
It ends with the tests of this folder: to the end of all tests it would take a part of each other test's time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from functools import partial

import pytest_asyncio

from gateway.demo.broker import BrokerSettings
from gateway.demo.demonstration import Demonstration
from tests.components.command_line import LOGS
from tests.components.ports import free_tcp_port, free_udp_port
from tests.end_to_end.chaos import Killer, mend
from tests.end_to_end.half_open import SilentWay, Ways
from tests.end_to_end.observer import Observer
from tests.end_to_end.rightness import Rightness
from tests.end_to_end.rights import Rights
from tests.end_to_end.story import Story
from tests.end_to_end.witness import Witness


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def ways() -> AsyncIterator[Ways]:
    """Provide the ways by which gateway and agent reach the broker, as soon as there is one."""
    async with SilentWay() as amqp, SilentWay() as http:
        yield Ways(amqp, http)


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def demonstration(ways: Ways, rabbitmq_settings: BrokerSettings) -> AsyncIterator[Demonstration]:
    """Provide the whole demonstration, with frequent statistics, also in the event log."""
    # Each attempt to reach a broker that is down is an error there; a failing test would print them all.
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    running = Demonstration(
        print,
        snmp_port=free_udp_port(),
        jmx_port=free_tcp_port(),
        agent=True,
        settings=BrokerSettings(statistics_interval=1.0, debian=rabbitmq_settings.debian),
        amqp_port=ways.amqp.port,
        management_port=ways.http.port,
        log={"statistics_interval": "1s", "segment_duration": "20s"},
        writing=False,  # so that it is seen what a gateway with the least rights does
    )
    assert running.broker is not None
    broker = running.broker
    ways.amqp.target, ways.http.target = lambda: broker.ports.amqp, lambda: broker.ports.management
    async with running:
        yield running
        for name in ("agent", "gateway"):
            await running.stop_process(name)
        LOGS.check()  # its folder goes


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def observer(demonstration: Demonstration) -> Observer:
    """Return the observer of the demonstration from outside."""
    return Observer(demonstration)


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def witness(observer: Observer) -> AsyncIterator[Witness]:
    """Provide a witness that has observed everything since the first test that asked for it."""
    watching = Witness(observer)
    running = asyncio.create_task(watching.run())
    yield watching
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def rightness(observer: Observer, witness: Witness, killer: Killer, ways: Ways) -> Rightness:
    """Return the conditions of rightness, with all names when all was right for the first time."""
    right = Rightness(observer, witness, partial(mend, observer, killer, ways))
    await right.learn()
    return right


@pytest_asyncio.fixture(loop_scope="session")
async def story(observer: Observer, rightness: Rightness) -> Story:
    """Return the story of a fault, begun when all is right."""
    await rightness.at_first()
    return await Story.begin(observer, rightness)


@pytest_asyncio.fixture(loop_scope="session")
async def rights(demonstration: Demonstration) -> AsyncIterator[Rights]:
    """Provide rights that a test may revoke; they are granted again afterwards."""
    taken = Rights(demonstration)
    yield taken
    await taken.give()


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def killer(observer: Observer, witness: Witness) -> Killer:
    """Return the killer of processes."""
    return Killer(observer, witness)
