"""Requests of a user who may only read."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from gateway.jmx.commands import Register
from gateway.jmx.virtual_machine import JavaMachine
from tests.jmx_java.attacks.conftest import OPERATOR, PASSWORD, READER, Works
from tests.jmx_java.conftest import AsyncClient, JavaObject, publish_well
from tests.jmx_java.operations.queues import ORDERS

AT_ONCE = 40
DELEGATE = "JMImplementation:type=MBeanServerDelegate"


@pytest.fixture
async def reader(machine: JavaMachine, attacks: AsyncClient) -> AsyncClient:
    """An attacker who has logged in as a reader."""
    await attacks("login", machine.port, READER, PASSWORD)
    return attacks


@pytest.mark.parametrize("value", ["endlessHash", "cycle", "proxy"])
async def test_other_objects_in_the_place_of_a_name_are_refused(
    reader: AsyncClient, works: Works, value: str
) -> None:
    attack = await asyncio.to_thread(getattr(reader.java, value))
    assert "REJECTED" in await reader("tryInsteadOfName", attack)
    await works()


async def test_no_class_is_fetched_from_where_a_client_says(reader: AsyncClient, works: Works) -> None:
    with socket.create_server(("127.0.0.1", 0)) as web:
        web.setblocking(False)
        codebase = f"http://127.0.0.1:{web.getsockname()[1]}/"
        attack = await asyncio.to_thread(reader.java.foundAt, codebase)
        assert "OwnFilter" in await reader("tryInsteadOfName", attack)
        with pytest.raises(BlockingIOError):
            web.accept()
    await works()


async def test_long_texts_at_once_fill_no_memory(reader: AsyncClient, works: Works) -> None:
    attack = asyncio.create_task(reader("readLongNamesAtOnce", 1_000_000, AT_ONCE))
    await works()
    failures = await attack
    assert all(failures), "nothing has such a name"
    await works()


async def test_a_long_list_of_attributes_is_not_answered_with_one_value_again_and_again(
    reader: AsyncClient, works: Works
) -> None:
    attack = asyncio.create_task(reader("readAgainAtOnce", 19_000, AT_ONCE))
    await works()
    await attack
    await works()
    assert all("REJECTED" in failure for failure in await reader("readAgainAtOnce", 21_000, 1))


async def test_many_searches_at_once_fill_no_memory(
    machine: JavaMachine, reader: AsyncClient, works: Works
) -> None:
    values = ("/|more", 3, 5, (), None)
    names = (f"amqp.gateway:type=queue,name=more{number}" for number in range(100, 10_100))
    await publish_well(
        machine, *(Register(number, 1, 1, name, values) for number, name in enumerate(names, 100))
    )
    attack = asyncio.create_task(reader("findAllAtOnce", AT_ONCE))
    await works()
    assert set(await attack) <= {"", "java.io.IOException: too many queries at a time; try again\n"}
    await works()


async def test_a_pattern_has_a_bounded_length(reader: AsyncClient, works: Works) -> None:
    assert await reader("tryPattern", 1000) == ""
    assert "a pattern of more than 4096 characters" in await reader("tryPattern", 100_000)
    await works()


@pytest.mark.parametrize("kind", ["tryQuery", "trySum"])
async def test_a_query_takes_a_bounded_time(reader: AsyncClient, works: Works, kind: str) -> None:
    assert await reader(kind, 5) == ""
    began = time.monotonic()
    attack = asyncio.create_task(reader(kind, 30))
    await works()
    assert "the query takes too long" in await attack
    assert time.monotonic() - began < 60
    await works()


async def test_listeners_fill_no_memory(reader: AsyncClient, works: Works) -> None:
    assert "the listeners take too much of jmx.heap" in await reader("tryManyListeners", DELEGATE, 1_000_000)
    await works()


async def test_notifications_are_fetched_in_bounded_numbers(
    machine: JavaMachine, reader: AsyncClient, works: Works
) -> None:
    assert await reader("tryManyListeners", DELEGATE, 1) == ""
    values = ("/|more", 3, 5, (), None)
    await publish_well(
        machine,
        *(Register(n, 1, 1, f"amqp.gateway:type=queue,name=more{n}", values) for n in range(100, 10_100)),
    )
    attack = asyncio.create_task(reader("fetchAtOnce", AT_ONCE))
    await works()
    assert set(await attack) <= {
        "",
        "java.io.IOException: too many requests for notifications at a time; try again\n",
    }
    await works()


async def test_keys_of_one_hash_code_take_no_time(
    machine: JavaMachine, java_client: JavaObject, attacks: AsyncClient, works: Works
) -> None:
    client = AsyncClient(await asyncio.to_thread(java_client.connect, machine.port, OPERATOR, PASSWORD))
    attack = await asyncio.to_thread(attacks.java.collidingMap, 6000)
    began = time.monotonic()
    assert "wrong-type" in await client("trySetAttribute", ORDERS, "tags", attack)
    assert time.monotonic() - began < 30
    await client("close")
    await works()
