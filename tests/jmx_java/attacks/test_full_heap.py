"""What readers and events keep on the heap fits beside as many objects as it is made for."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from gateway.jmx.commands import Register
from gateway.jmx.virtual_machine import JavaMachine
from tests.jmx_java.attacks.conftest import OPERATOR, PASSWORD, READER, authenticate
from tests.jmx_java.conftest import AsyncClient, JavaObject, publish_well, settings
from tests.jmx_java.test_notifications import CREATED, FRESH, LONG_ENOUGH, ORDERS, QUEUE, VALUES

HEAP = 32
"""MiB. The objects of the test take half of it."""

OBJECTS = range(100, 6_100)
DELEGATE = "JMImplementation:type=MBeanServerDelegate"
LONG_EVENTS = tuple(replace(CREATED, message=letter * 20_000) for letter in "abcdefghijklmnopqrst")


async def test_one_filter_for_very_many_listeners_and_long_events_beside_many_objects(
    java_client: JavaObject,
) -> None:
    async with JavaMachine(settings(heap=HEAP), authenticate, lambda user: user == OPERATOR) as machine:
        await publish_well(machine, QUEUE, FRESH, Register(1, 1, 1, ORDERS, VALUES))
        await machine.open()
        for first in OBJECTS[::1000]:
            numbers = range(first, first + 1000)
            await publish_well(
                machine,
                *(Register(n, 1, 1, f"amqp.gateway:type=queue,name=more{n}", VALUES) for n in numbers),
            )
        readers = [AsyncClient(java_client.attacks()) for _ in range(4)]
        for reader in readers:
            await reader("login", machine.port, READER, PASSWORD)
            # The octets of its filter are sent once, and named for each listener.
            assert "too much of jmx.heap" in await reader("tryManyListeners", DELEGATE, 1_000_000)
        good = AsyncClient(await asyncio.to_thread(java_client.connect, machine.port, OPERATOR, PASSWORD))
        await good("listen", ORDERS)
        for _ in range(HEAP * 2**20 * 5 // 4 // (20 * 20_000)):
            await publish_well(machine, *LONG_EVENTS)
        assert (await good("received", LONG_ENOUGH)).startswith(CREATED.type)
        assert await good("attribute", ORDERS, "messages") == "java.lang.Long 1"
        await good("close")
