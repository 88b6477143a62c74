"""The result of an operation for clients, with each answer and without one."""

from __future__ import annotations

import pytest

from gateway.jmx.backend import Reply, Status
from gateway.jmx.virtual_machine import JavaMachine
from tests.jmx_java.conftest import AsyncClient, Connect, authenticate, publish_well, settings
from tests.jmx_java.operations.queues import FULL, ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("answers to Java")]

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


@pytest.mark.parametrize("status", Status)
async def test_each_status_has_its_exception(
    client: AsyncClient, operator: ScriptedOperator, status: Status
) -> None:
    operator.reply = Reply(status, "a text")
    assert await client("trySetAttribute", ORDERS, "limit", 4) == SETS[status]
    assert await client("tryInvoke", ORDERS, "purge", "", None) == INVOKES[status]


async def test_a_machine_without_an_operator_changes_nothing(connect: Connect) -> None:
    async with JavaMachine(settings(), authenticate) as machine:
        await publish_well(machine, *FULL)
        await machine.open()
        async with connect(machine) as client:
            failure = await client("trySetAttribute", ORDERS, "limit", 4)
    assert failure.startswith("javax.management.MBeanException: not-now: nothing can be changed yet")


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
