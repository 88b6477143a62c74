"""Many operations at a time."""

from __future__ import annotations

import asyncio

import pytest

from gateway.jmx.backend import MAX_REQUEST_OCTETS
from gateway.jmx.commands import Register, encode_batch
from gateway.jmx.java_build import SOURCES
from gateway.jmx.virtual_machine import JavaMachine
from tests.components.waiting import eventually
from tests.jmx_java.conftest import AsyncClient, Connect
from tests.jmx_java.operations.queues import ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator

MAX_AT_A_TIME = 64


@pytest.mark.asyncio(loop_scope="module")
async def test_so_many_operations_at_once_leave_reads_logins_and_pushes_alone(
    machine: JavaMachine, client: AsyncClient, operator: ScriptedOperator, connect: Connect
) -> None:
    async def all_wait() -> bool:
        return len(operator.asked) == MAX_AT_A_TIME

    let = asyncio.Event()
    operator.wait = let.wait
    operations = asyncio.create_task(client("tryInvokeAtOnce", ORDERS, "purge", MAX_AT_A_TIME))
    await eventually(all_wait, f"{MAX_AT_A_TIME} operations are under way")
    # None of them ends before all the rest was answered.
    usage = await machine.usage()
    assert (usage.operations, usage.max_operations) == (MAX_AT_A_TIME, MAX_AT_A_TIME)
    async with connect(machine) as other:
        await machine.push(encode_batch([Register(7, 1, 1, ORDERS, ("/|orders", 9, 5, (), None))]))
        for reader in (client, other):
            assert await reader("attribute", ORDERS, "messages") == "java.lang.Long 9"
            assert len(await reader("names", "amqp.gateway:*")) == 2
            assert (await reader("tryInvoke", ORDERS, "purge", "", None)).startswith(
                "javax.management.MBeanException: not-now: 64 operations are under way"
            )
            assert (await reader("trySetAttribute", ORDERS, "limit", 4)).startswith(
                "javax.management.MBeanException: not-now: 64 operations are under way"
            )
    assert not operations.done()
    let.set()
    assert await operations == [""] * MAX_AT_A_TIME
    assert await client("tryInvokeAtOnce", ORDERS, "purge", MAX_AT_A_TIME) == [""] * MAX_AT_A_TIME
    assert (await machine.usage()).operations == 0
    assert len(operator.asked) == 2 * MAX_AT_A_TIME


def test_java_and_python_have_the_same_bound_of_a_request() -> None:
    source = (SOURCES / "amqp/gateway/jmx/Operations.java").read_text()
    assert f"MAX_REQUEST_OCTETS = {MAX_REQUEST_OCTETS:_};" in source
    assert f"MAX_AT_A_TIME = {MAX_AT_A_TIME};" in source
