"""What clients set and invoke: what Python is told of it, and what they are told of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from statistics import median
from typing import Any

import pytest

from gateway.feed.freshness import Freshness
from gateway.jmx.backend import MAX_REQUEST_OCTETS, Reply, Status
from gateway.jmx.commands import (
    Attribute,
    AttributeType,
    Command,
    DefineClass,
    Operation,
    Parameter,
    Register,
    Result,
    SetGroup,
    encode_batch,
)
from gateway.jmx.java_build import SOURCES
from gateway.jmx.virtual_machine import JavaMachine
from gateway.jmx.written_values import Written
from gateway.model.operations import Principal
from tests.components.waiting import eventually
from tests.jmx_java.conftest import (
    USER,
    AsyncClient,
    Connect,
    JavaObject,
    authenticate,
    settings,
    tell_well,
)
from tests.jmx_java.scripted_operator import ScriptedOperator

MAX_AT_A_TIME = 64
QUEUE = DefineClass(
    1,
    "rabbitmq:queue",
    "A queue",
    (
        Attribute("StableName", AttributeType.STRING, "d"),
        Attribute("messages", AttributeType.LONG, "d"),
        Attribute("limit", AttributeType.LONG, "d", minimum=0, maximum=9, writable=True),
        Attribute("tags", AttributeType.MAP, "d", writable=True),
        Attribute("secret", AttributeType.STRING, "d", readable=False, writable=True),
    ),
    operations=(
        Operation("purge", "Empty it"),
        Operation(
            "move",
            "Move messages",
            parameters=(
                Parameter("to", AttributeType.OBJECT_NAME, "Where to"),
                Parameter("count", AttributeType.LONG, "How many", minimum=1, maximum=100, default=10),
                Parameter("mode", AttributeType.STRING, "How", legal=("fast", "slow"), default="slow"),
            ),
            results=(Result("moved", AttributeType.BIG_INTEGER, "How many were"),),
        ),
        Operation(
            "statistics",
            "Count anew",
            reads_only=True,
            results=(
                Result("ready", AttributeType.LONG, "d"),
                Result("since", AttributeType.DATE, "d"),
                Result("first", AttributeType.OBJECT_NAME, "d"),
            ),
        ),
    ),
)
ORDERS = "amqp.gateway:type=queue,name=orders"
BILLS = "amqp.gateway:type=queue,name=bills"
FULL: tuple[Command, ...] = (
    QUEUE,
    SetGroup(1, Freshness.FRESH),
    Register(7, 1, 1, ORDERS, ("/|orders", 3, 5, (), None)),
    Register(8, 1, 1, BILLS, ("/|bills", 0, 5, (), None)),
)

SETS = {
    Status.APPLIED: "",
    Status.APPLIED_DIFFERENTLY: "javax.management.InvalidAttributeValueException: a text\n",
    Status.GONE: "javax.management.InstanceNotFoundException: a text\n",
    Status.UNKNOWN_ELEMENT: "javax.management.AttributeNotFoundException: a text\n",
    Status.REFUSED: "java.lang.SecurityException: a text\n",
    Status.BAD_VALUE: "javax.management.InvalidAttributeValueException: a text\n",
    Status.NOT_NOW: "javax.management.MBeanException: a text\njava.lang.IllegalStateException: a text\n",
    Status.FAILED: "javax.management.MBeanException: a text\njava.lang.Exception: a text\n",
    Status.UNAVAILABLE: "javax.management.MBeanException: a text\njava.net.ConnectException: a text\n",
    Status.OUTCOME_UNKNOWN: (
        "javax.management.MBeanException: a text\njava.util.concurrent.TimeoutException: a text\n"
    ),
}
INVOKES = SETS | {
    Status.APPLIED_DIFFERENTLY: SETS[Status.FAILED],
    Status.UNKNOWN_ELEMENT: (
        "javax.management.ReflectionException: a text\njava.lang.NoSuchMethodException: a text\n"
    ),
    Status.BAD_VALUE: (
        "javax.management.RuntimeOperationsException: a text\njava.lang.IllegalArgumentException: a text\n"
    ),
}


@pytest.fixture
def operator() -> ScriptedOperator:
    """Applies everything, unless a test says otherwise."""
    return ScriptedOperator()


@pytest.fixture
async def machine(operator: ScriptedOperator) -> AsyncIterator[JavaMachine]:
    """A virtual machine with two queues."""
    async with JavaMachine(settings(), authenticate) as started:
        await tell_well(started, *FULL)
        await started.open(operator)
        yield started


async def test_an_mbean_says_what_can_be_done_to_it(client: AsyncClient) -> None:
    described = {line.split()[0]: line for line in await client("info", ORDERS)}
    assert [described[name].split(") ")[1].split()[0] for name in ("messages", "limit", "secret")] == [
        *("r", "rw", "w"),
    ]
    assert await client("operations", ORDERS) == [
        "purge (Empty it) [] java.lang.Void",
        (
            "move (Move messages) [to javax.management.ObjectName (Where to), "
            "count java.lang.Long (How many) java.lang.Long 1 to java.lang.Long 100 "
            "default java.lang.Long 10, "
            "mode java.lang.String (How) of [fast, slow] default java.lang.String slow] java.math.BigInteger"
        ),
        "statistics (Count anew) [] javax.management.openmbean.CompositeData reads",
    ]


async def test_what_can_only_be_written_is_not_read(client: AsyncClient) -> None:
    with pytest.raises(Exception, match=r"AttributeNotFoundException.* that can be read"):
        await client("attribute", ORDERS, "secret")
    assert await client("attributes", ORDERS, ["secret", "limit"]) == ["limit=java.lang.Long 5"]


async def test_who_asks_is_who_logged_in_from_where_they_are(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    assert await client("trySetAttribute", ORDERS, "limit", 4) == ""
    principal = Principal("jmx", USER, "127.0.0.1")
    assert operator.asked == [(7, principal, [("limit", Written(AttributeType.LONG, 4))])]


async def test_nobody_asks_in_the_name_of_another(client: AsyncClient, operator: ScriptedOperator) -> None:
    assert await client("tryAs", "somebody", ORDERS, "limit", 4) != ""
    assert operator.asked == []


@pytest.mark.parametrize("status", Status)
async def test_each_status_has_its_exception(
    client: AsyncClient, operator: ScriptedOperator, status: Status
) -> None:
    operator.reply = Reply(status, "a text")
    assert await client("trySetAttribute", ORDERS, "limit", 4) == SETS[status]
    assert await client("tryInvoke", ORDERS, "purge", "", None) == INVOKES[status]


def written_values(java: JavaObject) -> dict[str, tuple[Any, Written | None]]:
    """Values as a client gives them, and as Python is told."""
    return {
        "null": (None, None),
        "Boolean": (True, Written(AttributeType.BOOLEAN, value=True)),
        "Integer": (5, Written(AttributeType.LONG, 5)),
        "Long": (2**63 - 1, Written(AttributeType.LONG, 2**63 - 1)),
        "BigInteger": (java.bigInteger(str(2**64)), Written(AttributeType.BIG_INTEGER, str(2**64))),
        "Double": (0.5, Written(AttributeType.DOUBLE, 0.5)),
        "String": ("Grüße 🐇", Written(AttributeType.STRING, "Grüße 🐇")),
        "Date": (java.date(1_700_000_000_123), Written(AttributeType.DATE, 1_700_000_000_123)),
        "byte[]": (java.bytes("7f00ff"), Written(AttributeType.BYTES, b"\x7f\x00\xff")),
        "ObjectName": (java.objectName(BILLS), Written(AttributeType.OBJECT_NAME, [8, "/|bills"])),
        "String[]": (java.strings(["a", ""]), Written(AttributeType.LIST, ["a", ""])),
        "TabularData": (
            java.table("key", "value", {"a": "1"}),
            Written(AttributeType.MAP, [["a", "1"]]),
        ),
    }


async def test_values_arrive_as_what_they_are_by_themselves(
    client: AsyncClient, operator: ScriptedOperator, java_client: JavaObject
) -> None:
    values = await asyncio.to_thread(written_values, java_client)
    arrived: dict[str, Written | None] = {}
    for name, (value, _) in values.items():
        assert await client("trySetAttribute", ORDERS, "limit", value) == ""
        (arrived[name],) = (written for _, written in operator.values())
    assert arrived == {name: written for name, (_, written) in values.items()}


async def test_values_that_only_java_has_arrive_as_others_or_not_at_all(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    assert await client("trySetOdd", ORDERS, "limit", "Short") == ""
    assert operator.values() == [("limit", Written(AttributeType.LONG, -5))]
    assert await client("trySetOdd", ORDERS, "limit", "Float") == ""
    assert operator.values() == [("limit", Written(AttributeType.DOUBLE, 0.5))]
    failure = await client("trySetOdd", ORDERS, "limit", "half a character")
    assert failure.startswith("javax.management.InvalidAttributeValueException: ")


def impossible_values(java: JavaObject) -> dict[str, Any]:
    """Values that no attribute has."""
    return {
        "a class that no attribute has": java.bigDecimal("1.5"),
        "an MBean of somebody else": java.objectName("java.lang:type=Memory"),
        "an MBean that there is not": java.objectName("amqp.gateway:type=none"),
        "a list without an item": java.strings(["a", None]),
        "another table": java.table("name", "number", {"a": "1"}),
        "too much": java.longText(MAX_REQUEST_OCTETS),
    }


async def test_what_no_attribute_can_be_is_told_at_once(
    client: AsyncClient, operator: ScriptedOperator, java_client: JavaObject
) -> None:
    for name, value in (await asyncio.to_thread(impossible_values, java_client)).items():
        failure = await client("trySetAttribute", ORDERS, "limit", value)
        assert failure.startswith("javax.management.InvalidAttributeValueException: "), name
        failure = await client("tryInvokeWith", ORDERS, "move", [value, 1, "fast"])
        assert failure.startswith("javax.management.RuntimeOperationsException: "), name
        assert await client("setAll", ORDERS, ["limit", value]) == [], name
    assert operator.asked == []


async def test_what_is_not_writable_is_no_attribute_that_can_be_set(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    for name in ("messages", "StableName", "Stale", "none", ""):
        failure = await client("trySetAttribute", ORDERS, name, 1)
        assert failure.startswith("javax.management.AttributeNotFoundException: "), name
    missing = await client("trySetAttribute", "amqp.gateway:type=queue,name=none", "limit", 1)
    assert missing.startswith("javax.management.InstanceNotFoundException: ")
    assert operator.asked == []


async def test_several_attributes_are_one_request_and_what_was_set_comes_back(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    operator.reply = Reply(Status.FAILED, "the second one failed", ("limit", "no attribute of theirs"))
    given = ["limit", 4, "messages", 1, "secret", "x", "none", 1, "limit", 5]
    assert await client("setAll", ORDERS, given) == ["limit"]
    ((_, _, values),) = operator.asked
    assert values == [
        ("limit", Written(AttributeType.LONG, 5)),
        ("secret", Written(AttributeType.STRING, "x")),
    ]


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.GONE])
async def test_setting_several_attributes_never_throws(
    client: AsyncClient, operator: ScriptedOperator, status: Status
) -> None:
    operator.reply = Reply(status, "a text")
    assert await client("setAll", ORDERS, ["limit", 4]) == []


async def test_nothing_is_asked_where_nothing_can_be_set(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    assert await client("setAll", ORDERS, ["messages", 4]) == []
    assert await client("setAll", ORDERS, []) == []
    assert operator.asked == []


async def test_parameters_arrive_in_their_order_and_may_be_null(
    client: AsyncClient, operator: ScriptedOperator, java_client: JavaObject
) -> None:
    bills = await asyncio.to_thread(java_client.objectName, BILLS)
    operator.reply = Reply(Status.APPLIED, "", (2**64 - 1,))
    told = await client("invoke", ORDERS, "move", [bills, None, "fast"])
    assert told == f"java.math.BigInteger {2**64 - 1}"
    ((number, _, operation, arguments),) = operator.asked
    assert (number, operation) == (7, "move")
    assert arguments == [
        Written(AttributeType.OBJECT_NAME, [8, "/|bills"]),
        None,
        Written(AttributeType.STRING, "fast"),
    ]


async def test_no_result_is_null_and_several_are_named(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    assert await client("invoke", ORDERS, "purge", []) == "null"
    operator.reply = Reply(Status.APPLIED, "", (3, 1_700_000_000_000_000_000, None))
    assert await client("invoke", ORDERS, "statistics", []) == (
        "CompositeData statistics {first=null, ready=java.lang.Long 3, since=java.util.Date 1700000000000}"
    )


@pytest.mark.parametrize("items", [(), (1, 2), ("x", None, None), (None, None, "no name")])
async def test_results_that_do_not_fit_are_said_to_have_been_carried_out(
    client: AsyncClient, operator: ScriptedOperator, items: tuple[object, ...]
) -> None:
    operator.reply = Reply(Status.APPLIED, "", items)
    failure = await client("tryInvokeWith", ORDERS, "statistics", [])
    assert failure.startswith("javax.management.MBeanException: it was carried out, but ")


@pytest.mark.parametrize(
    ("operation", "arguments", "signature", "failure"),
    [
        ("none", [], [], "javax.management.ReflectionException"),
        ("purge", [1], ["java.lang.Long"], "javax.management.ReflectionException"),
        ("move", [None, 1, "fast"], ["int", "int", "int"], "javax.management.ReflectionException"),
        ("purge", [1], None, "javax.management.RuntimeOperationsException"),
        ("move", None, None, "javax.management.RuntimeOperationsException"),
    ],
)
async def test_an_operation_is_known_by_its_signature(
    client: AsyncClient,
    operator: ScriptedOperator,
    operation: str,
    arguments: list[object] | None,
    signature: list[str] | None,
    failure: str,
) -> None:
    assert (await client("tryInvokeAs", ORDERS, operation, arguments, signature)).startswith(failure)
    assert operator.asked == []


async def test_a_signature_may_be_left_out(client: AsyncClient, operator: ScriptedOperator) -> None:
    assert await client("tryInvokeAs", ORDERS, "purge", None, None) == ""
    assert len(operator.asked) == 1


async def test_so_many_operations_at_once_leave_reads_logins_and_pushes_alone(
    machine: JavaMachine, client: AsyncClient, operator: ScriptedOperator, connect: Connect
) -> None:
    async def time_of_read() -> int:
        took: int = await client("timeOfRead", ORDERS, "messages", 300)
        return took

    async def all_wait() -> bool:
        return len(operator.asked) == MAX_AT_A_TIME

    await time_of_read()
    alone, among = [], []
    for turn in range(5):  # in turns, so that both meet what else this machine does
        alone.append(await time_of_read())
        let = asyncio.Event()
        operator.wait = let.wait
        operator.asked.clear()
        operations = asyncio.create_task(client("tryInvokeAtOnce", ORDERS, "purge", MAX_AT_A_TIME))
        await eventually(all_wait, f"{MAX_AT_A_TIME} operations are under way")
        among.append(await time_of_read())
        usage = await machine.usage()
        assert (usage.operations, usage.max_operations) == (MAX_AT_A_TIME, MAX_AT_A_TIME)
        refused = await client("tryInvoke", ORDERS, "purge", "", None)
        async with connect(machine) as other:
            values = ("/|orders", turn, 5, (), None)
            await machine.push(encode_batch([Register(7, 1, 1, ORDERS, values)]))
            assert await other("attribute", ORDERS, "messages") == f"java.lang.Long {turn}"
        let.set()
        assert await operations == [""] * MAX_AT_A_TIME
        assert refused.startswith("javax.management.MBeanException: 64 operations are under way")
    assert median(among) < 10 * median(alone)


async def test_a_machine_without_an_operator_changes_nothing(connect: Connect) -> None:
    async with JavaMachine(settings(), authenticate) as machine:
        await tell_well(machine, *FULL)
        await machine.open()
        async with connect(machine) as client:
            failure = await client("trySetAttribute", ORDERS, "limit", 4)
    assert failure.startswith("javax.management.MBeanException: nothing can be changed yet")


async def test_what_fails_inside_is_unknown_and_says_nothing_of_our_insides(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    async def fail() -> None:
        raise RuntimeError("some secret inside")

    operator.wait = fail
    failure = await client("tryInvoke", ORDERS, "purge", "", None)
    assert "it may have been carried out" in failure
    assert "java.util.concurrent.TimeoutException" in failure
    assert "secret" not in failure
    assert "py4j" not in failure


def test_java_and_python_have_the_same_bound_of_a_request() -> None:
    source = (SOURCES / "amqp/gateway/jmx/Operations.java").read_text()
    assert f"MAX_REQUEST_OCTETS = {MAX_REQUEST_OCTETS:_};" in source
    assert f"MAX_AT_A_TIME = {MAX_AT_A_TIME};" in source
