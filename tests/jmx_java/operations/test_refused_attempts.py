"""Attempts that the virtual machine refuses without asking are reported to Python, with user and address."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.feed.operations import InvokeMethod, SetElements
from gateway.jmx.backend import RefusedAttempt, Reply, Status
from gateway.jmx.virtual_machine import JavaMachine
from gateway.model.operations import Outcome, Principal
from tests.jmx_java.conftest import USER, AsyncClient, Connect, authenticate, settings
from tests.jmx_java.operations.queues import ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("refused attempts by Java")]

CLIENT = Principal("jmx", USER, "127.0.0.1")
MISSING = "amqp.gateway:type=queue,name=none"
MEMORY = "java.lang:type=Memory"
THREADS = "java.lang:type=Threading"


@pytest.mark.parametrize(
    ("words", "number", "action", "outcome"),
    [
        (("trySetAttribute", ORDERS, "none", 1), 7, SetElements({"none": None}), Outcome.UNKNOWN_ELEMENT),
        (("trySetAttribute", ORDERS, "messages", 1), 7, SetElements({"messages": None}), Outcome.READ_ONLY),
        (("trySetAttribute", ORDERS, "limit", [1]), 7, SetElements({"limit": None}), None),
        (("trySetAttribute", MISSING, "limit", 1), 0, SetElements({"limit": None}), Outcome.OBJECT_GONE),
        (("trySetAttributes", ORDERS, "messages", 1), 7, SetElements({"messages": None}), Outcome.READ_ONLY),
        (("trySetAttribute", MEMORY, "Verbose", True), 0, SetElements({"Verbose": None}), Outcome.REFUSED),
        (("tryInvokeAs", ORDERS, "explode", [], []), 7, InvokeMethod("explode"), Outcome.UNKNOWN_ELEMENT),
        (("tryInvokeAs", ORDERS, "purge", [], ["int"]), 7, InvokeMethod("purge"), Outcome.UNKNOWN_ELEMENT),
        (("tryInvokeAs", ORDERS, "purge", [1], []), 7, InvokeMethod("purge"), Outcome.WRONG_VALUE),
        (("tryInvokeAs", MISSING, "purge", [], []), 0, InvokeMethod("purge"), Outcome.OBJECT_GONE),
        (("tryInvokeAs", MEMORY, "gc", [], []), 0, InvokeMethod("gc"), Outcome.REFUSED),
        (("tryCreate", "javax.management.loading.MLet", "x:y=z"), 0, InvokeMethod("createMBean"), None),
        (("tryUnregister", ORDERS), 0, InvokeMethod("unregisterMBean"), Outcome.REFUSED),
    ],
)
async def test_an_attempt_is_reported_with_its_principal(
    client: AsyncClient,
    operator: ScriptedOperator,
    words: tuple[Any, ...],
    number: int,
    action: SetElements | InvokeMethod,
    outcome: Outcome | None,
) -> None:
    await client(*words)
    (attempt,) = operator.attempts
    assert attempt == RefusedAttempt(CLIENT, number, action, outcome or attempt.outcome, attempt.text)
    assert attempt.text
    assert number or ":" in attempt.text, "the name stands in the text where it is no object"
    assert operator.asked == []


@pytest.mark.parametrize("status", [Status.REFUSED, Status.BAD_VALUE, Status.GONE, Status.FAILED])
async def test_what_python_was_asked_for_is_not_notified_again(
    client: AsyncClient, operator: ScriptedOperator, status: Status
) -> None:
    operator.reply = Reply(status, "as the core said")
    assert "as the core said" in await client("trySetAttribute", ORDERS, "limit", 4)
    assert "as the core said" in await client("tryInvokeAs", ORDERS, "purge", [], [])
    assert (len(operator.asked), operator.attempts) == (2, [])


@pytest.mark.parametrize("operation", ["getThreadInfo", "findDeadlockedThreads"])
async def test_what_jconsole_asks_to_show_threads_is_no_attempt_to_change_anything(
    operator: ScriptedOperator, connect: Connect, operation: str
) -> None:
    async with JavaMachine(settings(), authenticate, may_change=lambda _user: False) as machine:
        await machine.open(operator)
        async with connect(machine) as client:
            refusal = await client("tryInvokeAs", THREADS, operation, [], [])
    assert "SecurityException: refused: no rule lets jmx:monitor" in refusal
    assert operator.attempts == []


async def test_of_several_attributes_those_that_cannot_be_set_are_reported(
    client: AsyncClient, operator: ScriptedOperator
) -> None:
    await client("setAll", ORDERS, ["limit", 4, "messages", 1, "none", 1])
    assert [(attempt.action, attempt.outcome) for attempt in operator.attempts] == [
        (SetElements({"messages": None}), Outcome.READ_ONLY),
        (SetElements({"none": None}), Outcome.UNKNOWN_ELEMENT),
    ]
    assert len(operator.asked) == 1
