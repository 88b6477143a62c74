"""Operations that clients invoke: their list, parameters, results."""

from __future__ import annotations

import asyncio

import pytest

from gateway.jmx.backend import Reply, Status
from gateway.jmx.commands import AttributeType
from gateway.jmx.types import Written
from tests.jmx_java.conftest import AsyncClient, JavaObject
from tests.jmx_java.operations.queues import BILLS, ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("invocations by Java")]


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
        "statistics (Count again) [] javax.management.openmbean.CompositeData reads",
    ]


async def test_parameters_arrive_in_their_order_and_may_be_null(
    client: AsyncClient, operator: ScriptedOperator, java_client: JavaObject
) -> None:
    bills = await asyncio.to_thread(java_client.objectName, BILLS)
    operator.reply = Reply(Status.APPLIED, "", (2**64 - 1,))
    reported = await client("invoke", ORDERS, "move", [bills, None, "fast"])
    assert reported == f"java.math.BigInteger {2**64 - 1}"
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
    assert failure.startswith("javax.management.MBeanException: applied: it was carried out, but ")


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
