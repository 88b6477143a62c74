"""Tables: many objects of a class are read by one call, by everybody who has logged in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.feed.freshness import Freshness
from gateway.jmx.commands import (
    Attribute,
    AttributeType,
    Change,
    Command,
    DefineClass,
    JmxValue,
    Register,
    RegisterTable,
    SetGroup,
    Unregister,
)
from gateway.jmx.virtual_machine import JavaMachine
from tests.jmx_java.conftest import (
    AsyncClient,
    Connect,
    JavaStrings,
    authenticate,
    emptied,
    publish,
    publish_well,
    settings,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("tables by Java")]

ATTRIBUTES = (
    Attribute("Name", AttributeType.STRING, "d", always=True),
    Attribute("messages", AttributeType.LONG, "d"),
    Attribute("octets", AttributeType.BIG_INTEGER, "d"),
    Attribute("state", AttributeType.STRING, "d"),
    Attribute("created", AttributeType.DATE, "d"),
    Attribute("tags", AttributeType.MAP, "d"),
    Attribute("code", AttributeType.STRING, "d", readable=False, writable=True),
)
QUEUE = DefineClass(1, "rabbitmq:queue", "A queue", ATTRIBUTES)
TABLE = "amqp.gateway:type=Table,source=r1,class=rabbitmq.queue"
COUNT = 4000
ROWS_OF_A_PAGE = 10_000


@pytest_asyncio.fixture(loop_scope="module")
async def machine(shared_machine: JavaMachine) -> JavaMachine:
    return await emptied(shared_machine)


@pytest_asyncio.fixture(loop_scope="module")
async def client(machine: JavaMachine, connect: Connect) -> AsyncIterator[AsyncClient]:
    async with connect(machine) as connected:
        yield connected


def name(number: int) -> str:
    return f"amqp.gateway:source=r1,package=rabbitmq,type=queue,name=queue-{number:05}"


def values(number: int, text: str = "running") -> tuple[JmxValue, ...]:
    messages = None if number % 7 == 0 else number
    return (f"queue-{number:05}", messages, 2**63 + number, text, number * 10**9, (("a", str(number)),), None)


def queues(count: int, text: str = "running") -> tuple[Command, ...]:
    return (
        QUEUE,
        SetGroup(1, Freshness.FRESH),
        RegisterTable(1, TABLE, "r1", "rabbitmq:queue"),
        *(Register(number + 2, 1, 1, name(number), values(number, text), 1) for number in range(count)),
    )


async def test_a_page_has_the_attributes_that_are_asked_for(
    machine: JavaMachine, client: AsyncClient, java_strings: JavaStrings
) -> None:
    await publish_well(machine, *queues(3))
    assert await client("page", TABLE, java_strings(["messages", "tags"]), "", 0) == [
        f"{name(0)} {{Stale=java.lang.Boolean false, messages=null, tags=TabularData {{a=0}}}}",
        f"{name(1)} {{Stale=java.lang.Boolean false, messages=java.lang.Long 1, tags=TabularData {{a=1}}}}",
        f"{name(2)} {{Stale=java.lang.Boolean false, messages=java.lang.Long 2, tags=TabularData {{a=2}}}}",
        "null",
        "3",
    ]


async def test_pages_follow_each_other_by_name_even_if_the_last_object_ended(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(machine, *queues(5))
    first = await client("page", TABLE, "messages", "", 2)
    assert [line.split(" ")[0] for line in first] == [name(0), name(1), name(1), "5"]
    await publish_well(machine, Unregister(3))
    second = await client("page", TABLE, "messages", first[-2], 2)
    assert [line.split(" ")[0] for line in second] == [name(2), name(3), name(3), "4"]
    last = await client("page", TABLE, "messages", second[-2], 2)
    assert [line.split(" ")[0] for line in last] == [name(4), "null", "4"]


@pytest.mark.parametrize("attributes", ["", " , "])
async def test_without_attributes_all_are_shown_that_can_be_read(
    machine: JavaMachine, client: AsyncClient, java_strings: JavaStrings, attributes: str
) -> None:
    await publish_well(machine, *queues(1))
    line = (
        f"{name(0)} {{Name=java.lang.String queue-00000, Stale=java.lang.Boolean false, "
        "created=java.util.Date 0, messages=null, octets=java.math.BigInteger 9223372036854775808, "
        "state=java.lang.String running, tags=TabularData {a=0}}"
    )
    assert await client("page", TABLE, attributes, "", 0) == [line, "null", "1"]
    assert await client("page", TABLE, java_strings([]), None, 0) == [line, "null", "1"]
    assert await client("attribute", TABLE, "Attributes") == (
        "String[] [Name, messages, octets, state, created, tags]"
    )


async def test_four_thousand_objects_are_one_call(
    machine: JavaMachine, client: AsyncClient, java_strings: JavaStrings
) -> None:
    await publish_well(machine, *queues(COUNT))
    asked = java_strings(["Name", "messages", "octets", "created"])
    calls, rows, different, table, others = await client("compare", TABLE, asked, 0)
    assert (calls, rows, different) == (1, COUNT, 0)
    assert table < others
    calls, rows, different, _, _ = await client("compare", TABLE, asked, 1500)
    assert (calls, rows, different) == (3, COUNT, 0)


async def test_a_page_is_bounded_by_rows_and_by_size(machine: JavaMachine, client: AsyncClient) -> None:
    await publish_well(machine, *queues(ROWS_OF_A_PAGE + 1))
    assert len(await client("page", TABLE, "messages", "", 0)) == ROWS_OF_A_PAGE + 2
    await publish_well(machine, *queues(30, text="x" * 100_000))
    page = await client("page", TABLE, "state", "", 0)
    assert len(page) == 20 + 2
    assert page[-2:] == [name(19), "30"]


async def test_one_object_that_is_larger_than_a_page_is_a_page(
    machine: JavaMachine, client: AsyncClient
) -> None:
    for number in range(2):
        large = values(number, text="x" * 3_000_000)
        await publish_well(machine, *queues(number), Register(number + 2, 1, 1, name(number), large, 1))
    assert (await client("page", TABLE, "state", "", 0))[-2:] == [name(0), "2"]


async def test_withheld_and_stale_objects_are_as_their_attributes(
    machine: JavaMachine, client: AsyncClient
) -> None:
    await publish_well(machine, *queues(1), SetGroup(1, Freshness.WITHHELD))
    (row, *_) = await client("page", TABLE, "Name,messages,state", "", 0)
    assert row == (
        f"{name(0)} {{Name=java.lang.String queue-00000, Stale=java.lang.Boolean true, messages=null, "
        "state=null}"
    )


@pytest.mark.parametrize(
    ("attributes", "start", "limit", "text"),
    [
        ("Name,size,depth", "", 0, "rabbitmq:queue has no attributes that can be read: size, depth"),
        ("code", "", 0, "unknown-element: rabbitmq:queue has no attributes that can be read: code"),
        ("Name", "orders", 0, "wrong-value: from is what the page before returned as next"),
        ("Name", "", -1, "out-of-range: limit is -1"),
        (",".join(f"a{number}" for number in range(501)), "", 0, "wrong-length: 501 attributes"),
    ],
)
async def test_what_is_wrong_is_named(
    machine: JavaMachine, client: AsyncClient, attributes: str, start: str, limit: int, text: str
) -> None:
    await publish_well(machine, *queues(1))
    refusal = await client("tryPage", TABLE, attributes, start, limit)
    assert "java.lang.IllegalArgumentException" in refusal
    assert text in refusal


async def test_other_operations_and_parameters_are_refused(
    machine: JavaMachine, client: AsyncClient, java_strings: JavaStrings
) -> None:
    await publish_well(machine, *queues(1))
    assert "has no operation clear but read" in await client("tryInvoke", TABLE, "clear", "", None)
    refusal = await client("tryInvokeAs", TABLE, "read", ["Name", "", {"a": 1}], [])
    assert "filter status: REJECTED" in refusal
    wide = java_strings(["Name"] * 1001)
    assert "filter status: REJECTED" in await client("tryPage", TABLE, wide, "", 0)
    assert "wrong-type: limit" in await client("tryInvokeAs", TABLE, "read", ["Name", "", "1"], [])
    assert "takes attributes, from and limit" in await client("tryInvokeAs", TABLE, "read", [], [])
    missing = "amqp.gateway:type=Table,source=r1,class=rabbitmq.none"
    assert "object-gone" in await client("tryPage", missing, "Name", "", 0)


async def test_who_may_only_read_reads_tables_and_their_operations_alone(
    connect: Connect, java_strings: JavaStrings
) -> None:
    async with JavaMachine(settings(), authenticate, may_change=lambda _user: False) as machine:
        await publish_well(machine, *queues(2))
        await machine.open()
        async with connect(machine) as client:
            page = await client("page", TABLE, java_strings(["messages"]), "", 0)
            assert page[-2:] == ["null", "2"]
            for name_, operation in ((TABLE, "clear"), (name(0), "read"), ("java.lang:type=Memory", "gc")):
                refusal = await client("tryInvokeAs", name_, operation, [], [])
                assert "SecurityException" in refusal or "has no operation clear" in refusal


async def test_an_object_that_changes_its_class_is_in_one_table_once(
    machine: JavaMachine, client: AsyncClient
) -> None:
    newer = DefineClass(2, "rabbitmq:queue", "d", (*ATTRIBUTES, Attribute("age", AttributeType.LONG, "d")))
    await publish_well(machine, *queues(2), newer)
    await publish_well(machine, Register(3, 2, 1, name(1), (*values(1), 9), 1))
    assert await client("page", TABLE, "age", "", 0) == [
        f"{name(0)} {{Stale=java.lang.Boolean false, age=null}}",
        f"{name(1)} {{Stale=java.lang.Boolean false, age=java.lang.Long 9}}",
        "null",
        "2",
    ]
    other = DefineClass(3, "rabbitmq:queue", "d", (Attribute("messages", AttributeType.STRING, "d"),))
    await publish_well(machine, other, Register(2, 3, 1, name(0), ("many",), 1))
    assert "different types, read them singly: messages" in await client("tryPage", TABLE, "messages", "", 0)
    await publish_well(machine, Unregister(2), Unregister(3))
    assert await client("page", TABLE, "messages", "", 0) == ["null", "0"]
    await publish_well(machine, Unregister(1))
    assert "object-gone" in await client("tryPage", TABLE, "messages", "", 0)


async def test_a_table_needs_a_name_of_ours(machine: JavaMachine) -> None:
    result = await publish(machine, RegisterTable(1, "java.lang:type=Table", "r1", "a:b"))
    assert "is no name of one object in the domain" in str(result)


async def test_a_page_shows_no_batch_by_half(machine: JavaMachine, client: AsyncClient) -> None:
    def all_have(value: int) -> list[Command]:
        return [Change.of(number + 2, {1: value}) for number in range(200)]

    await publish_well(machine, *queues(200), *all_have(0))
    for value in range(1, 20):
        page, _ = await asyncio.gather(
            client("page", TABLE, "messages", "", 0), publish_well(machine, *all_have(value))
        )
        assert len(page) == 200 + 2
        assert len({row.partition("messages=")[2] for row in page[:-2]}) == 1
