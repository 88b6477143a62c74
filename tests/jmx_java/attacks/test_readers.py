"""Requests of a user who may only read."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from gateway.feed.operations import InvokeMethod
from gateway.jmx.commands import Register
from gateway.jmx.virtual_machine import JavaMachine
from gateway.model.operations import Principal
from tests.jmx_java.attacks.conftest import OPERATOR, PASSWORD, READER, Works
from tests.jmx_java.conftest import AsyncClient, JavaObject, publish_well
from tests.jmx_java.operations.queues import ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator

AT_ONCE = 40
DELEGATE = "JMImplementation:type=MBeanServerDelegate"


@pytest.fixture
async def reader(machine: JavaMachine, attacks: AsyncClient) -> AsyncClient:
    """An attacker who has logged in as a reader."""
    await attacks("login", machine.port, READER, PASSWORD)
    return attacks


async def test_other_objects_in_the_place_of_a_name_are_refused(reader: AsyncClient, works: Works) -> None:
    for value in ("endlessHash", "cycle", "proxy"):
        attack = await asyncio.to_thread(getattr(reader.java, value))
        assert "REJECTED" in await reader("tryInsteadOfName", attack), value
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


async def test_a_read_has_a_bounded_number_of_attributes(
    operator: ScriptedOperator, reader: AsyncClient, works: Works
) -> None:
    assert await reader("tryAttributes", ORDERS, 4096) == ""
    reason = "a read of more than 4096 attributes"
    assert await reader("tryAttributes", ORDERS, 4097) == f"java.io.IOException: {reason}\n"
    assert [attempt.text for attempt in operator.attempts] == [f"request: {reason}"]
    await works()


async def test_others_are_served_beside_many_descriptions_at_once(reader: AsyncClient, works: Works) -> None:
    attack = asyncio.create_task(reader("describeAtOnce", ORDERS, AT_ONCE))
    await works()
    assert set(await attack) == {""}


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


PARTS = "it has more than 1000 parts; each counts as often as the query refers to it"
TEXTS = "its texts have more than 65536 characters; each counts as often as the query refers to it"


QUERIES: tuple[tuple[tuple[object, ...], str], ...] = (
    (("tryQuery", 5), ""),
    (("tryQuery", 30), PARTS),
    (("trySum", 5), ""),
    (("trySum", 30), PARTS),
    (("tryText", 6), ""),
    (("tryText", 7), TEXTS),
    (("tryText", 17), TEXTS),
    (("tryTextOf", "StableName", 9), PARTS),
    (("tryTextOf", "StableName", 8), "it makes a text of more than 65536 characters"),
    (("tryDepth", 500), PARTS),
    (("tryDepth", 20), ""),
    (("tryMatch", "StableName", "*?" * 10 + "z"), ""),
    (("tryMatch", "StableName", "*a" * 20_000 + "b"), ""),
    (("tryMatch", "StableName", "a" * 66_000), TEXTS),
    (("tryNot", 90), ""),
    (("tryNot", 110), "it has more than 100 levels, or refers to itself"),
    (("tryNot", 260), "it is too large, or too deeply nested"),
    (("tryOwnQuery",), "Attacks$OwnQuery; no query has objects of this class"),
)


async def test_a_query_is_bounded_and_refused_with_the_reason(
    machine: JavaMachine, operator: ScriptedOperator, reader: AsyncClient, works: Works
) -> None:
    long = Register(9, 1, 1, "amqp.gateway:type=queue,name=long", ("/|" + "a" * 255, 3, 5, (), None))
    await publish_well(machine, long)
    by = Principal("jmx", READER, "127.0.0.1")
    for (attack, *arguments), reason in QUERIES:
        operator.attempts.clear()
        refused = f"the query is refused: {reason}" if reason else ""
        assert await reader(str(attack), *arguments) == (refused and f"java.io.IOException: {refused}\n")
        attempts = [(attempt.principal, attempt.action, attempt.text) for attempt in operator.attempts]
        assert attempts == ([(by, InvokeMethod("request"), f"request: {refused}")] if reason else [])
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
    assert time.monotonic() - began < 120
    await client("close")
    await works()
