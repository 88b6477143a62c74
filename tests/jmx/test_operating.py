"""The process as a whole: a Java client sets and invokes, and a scripted core answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial

import pytest

from gateway.feed.operations import (
    InvokeMethod,
    OperationAnswer,
    OperationRequest,
    OperationState,
    ReadFresh,
    SetElements,
)
from gateway.model.operations import Outcome, Principal
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import EVERYTHING, RoleSet
from tests.components.scripted_operations import nothing
from tests.jmx.conftest import Client, JmxSite
from tests.jmx.shop import GATEWAY, LIMIT, NOTES, SAFE_NAME, link, operation, safe, safe_update, till_name

ATTRIBUTE, VALUE = (
    "javax.management.AttributeNotFoundException",
    "javax.management.InvalidAttributeValueException",
)
MBEAN, GONE = "javax.management.MBeanException", "javax.management.InstanceNotFoundException"
REFUSED, REFLECTION = "java.lang.SecurityException", "javax.management.ReflectionException"
RUNTIME = "javax.management.RuntimeOperationsException"
FAILED, NOT_NOW = "java.lang.Exception", "java.lang.IllegalStateException"
DOWN, UNKNOWN = "java.net.ConnectException", "java.util.concurrent.TimeoutException"
ILLEGAL, NO_METHOD = "java.lang.IllegalArgumentException", "java.lang.NoSuchMethodException"

SETS: dict[Outcome, tuple[str, ...]] = {
    Outcome.APPLIED: (),
    Outcome.APPLIED_DIFFERENTLY: (VALUE,),
    Outcome.NOT_APPLIED: (VALUE,),
    Outcome.OBJECT_GONE: (GONE,),
    Outcome.UNKNOWN_ELEMENT: (ATTRIBUTE,),
    Outcome.READ_ONLY: (ATTRIBUTE,),
    Outcome.REFUSED: (REFUSED,),
    Outcome.WRONG_TYPE: (VALUE,),
    Outcome.WRONG_LENGTH: (VALUE,),
    Outcome.WRONG_VALUE: (VALUE,),
    Outcome.NOT_NOW: (MBEAN, NOT_NOW),
    Outcome.REMOTE_FAILURE: (MBEAN, FAILED),
    Outcome.SOURCE_DOWN: (MBEAN, DOWN),
    Outcome.UNKNOWN: (MBEAN, UNKNOWN),
}
INVOKES = SETS | {
    Outcome.APPLIED_DIFFERENTLY: (MBEAN, FAILED),
    Outcome.NOT_APPLIED: (MBEAN, FAILED),
    Outcome.UNKNOWN_ELEMENT: (REFLECTION, NO_METHOD),
    Outcome.READ_ONLY: (REFLECTION, NO_METHOD),
    Outcome.WRONG_TYPE: (RUNTIME, ILLEGAL),
    Outcome.WRONG_LENGTH: (RUNTIME, ILLEGAL),
    Outcome.WRONG_VALUE: (RUNTIME, ILLEGAL),
}


@pytest.fixture
async def client(jmx: JmxSite) -> AsyncIterator[Client]:
    """Provide a client of a process that shows a safe, with a deadline of 2 s for operations."""
    jmx.core.records += safe()
    # The core decides what exactly; of a user whom no rule names the virtual machine asks nothing.
    rule = {"who": ["jmx:monitor"], "set": ["*"]}
    jmx.site.configure(
        jmx={"enabled": True, "listen": f"127.0.0.1:{jmx.port}", "heap": 64},
        operations={"deadline": "2s", "allow": [rule]},
    )
    async with jmx.running(), jmx.client() as connected:
        yield connected


def reported_always(answer: OperationAnswer, _: OperationRequest) -> OperationAnswer:
    """Return this answer to any request."""
    return answer


def classes_of(failure: str) -> tuple[str, ...]:
    """Return the classes of the exception and its causes."""
    return tuple(line.partition(": ")[0] for line in failure.splitlines())


async def test_every_outcome_has_its_exception(jmx: JmxSite, client: Client) -> None:
    sets, invokes = {}, {}
    for outcome in Outcome:
        answer = OperationAnswer(0, "7b0c.1.o9", outcome, "why", "limit", 7, {"limit": 9})
        jmx.core.operations.script = partial(reported_always, answer)
        reported = await client("trySetAttribute", SAFE_NAME, "limit", 7)
        sets[outcome] = classes_of(reported)
        invokes[outcome] = classes_of(await client("tryInvoke", SAFE_NAME, "empty", "", None))
        if outcome is not Outcome.APPLIED:
            assert f"{outcome.value}: limit: why" in reported
            assert "(code 7) [7b0c.1.o9]" in reported
        if outcome in (Outcome.APPLIED_DIFFERENTLY, Outcome.NOT_APPLIED):
            assert "found 9" in reported
    assert sets == SETS
    assert invokes == INVOKES


async def test_who_was_answered_reads_what_was_set(jmx: JmxSite, client: Client) -> None:
    def apply(request: OperationRequest) -> OperationAnswer:
        assert isinstance(request.action, SetElements)
        value = request.action.values["limit"]
        assert isinstance(value, int)
        jmx.core.publish(safe_update({LIMIT: value}))
        return OperationAnswer(0, "7b0c.1.o1", Outcome.APPLIED, values={"limit": value})

    jmx.core.operations.script = apply
    for value in range(10, 40):
        assert await client("trySetAttribute", SAFE_NAME, "limit", value) == ""
        assert await client.read(SAFE_NAME, "limit") == f"java.math.BigInteger {value}"


async def test_the_core_learns_which_front_end_wants_what(jmx: JmxSite, client: Client) -> None:
    monitor = Principal("jmx", "monitor", "127.0.0.1")
    assert await client("setAll", SAFE_NAME, ["limit", 7, "notes", 1, "code", "1234"]) == ["limit", "code"]
    assert await client("tryInvoke", SAFE_NAME, "readFresh", "", None) == ""
    jmx.core.operations.script = lambda _: OperationAnswer(
        0, "7b0c.1.o3", Outcome.APPLIED, values={"moved": 3, "where": link(2, "shop:till")}
    )
    moved = await client("invoke", SAFE_NAME, "move", [None, 5])
    assert moved == (
        f"CompositeData move {{moved=java.lang.Long 3, where=javax.management.ObjectName {till_name(2)}}}"
    )
    requests = [request for request in jmx.core.operations.requests if request.refusal is None]
    assert {(r.principal, r.source, r.class_name, r.row) for r in requests} == {(monitor, 1, "shop:safe", 1)}
    assert [request.action for request in requests] == [
        SetElements({"limit": 7, "code": "1234"}),
        ReadFresh(),
        InvokeMethod("move", {"notes": 5}),
    ]
    assert all(request.timeout < 2 * 10**9 for request in requests)
    (refused,) = [request for request in jmx.core.operations.requests if request.refusal is not None]
    assert (refused.principal, refused.row, refused.action) == (monitor, 1, SetElements({"notes": None}))


async def test_what_a_user_whom_no_rule_names_wants_is_recorded_and_not_asked_for(jmx: JmxSite) -> None:
    jmx.core.records += safe()
    jmx.core.policy = PolicyPublisher(RoleSet(principals={"*": (EVERYTHING,)}), Marks({}))
    await jmx.core.stop()
    await jmx.core.start()
    async with jmx.running(), jmx.client() as client:
        reported = await client("trySetAttribute", SAFE_NAME, "limit", 7)
        assert reported == f"{REFUSED}: refused: no rule lets jmx:monitor change anything\n"
        await jmx.core.operations.until_asked(1)
    (request,) = jmx.core.operations.requests
    assert request.refusal is not None
    assert request.refusal.outcome is Outcome.REFUSED
    assert (request.principal, request.row) == (Principal("jmx", "monitor", "127.0.0.1"), 1)


async def test_a_core_that_does_not_answer_is_not_waited_for_beyond_the_deadline(
    jmx: JmxSite, client: Client
) -> None:
    jmx.core.operations.script = nothing
    began = time.monotonic()
    reported = await client("tryInvoke", SAFE_NAME, "empty", "", None)
    assert classes_of(reported) == (MBEAN, UNKNOWN)
    assert "it may have been carried out" in reported
    assert time.monotonic() - began > 1.9
    assert len(jmx.core.operations.requests) == 1


async def test_a_core_that_ends_leaves_operations_unknown_and_is_not_asked_again(
    jmx: JmxSite, client: Client
) -> None:
    jmx.core.operations.script = nothing
    asked = asyncio.create_task(client("tryInvoke", SAFE_NAME, "empty", "", None))
    await jmx.core.operations.until_asked(1)
    await jmx.core.stop()
    assert classes_of(await asked) == (MBEAN, UNKNOWN)
    assert classes_of(await client("tryInvoke", SAFE_NAME, "empty", "", None)) == (MBEAN, DOWN)
    await jmx.core.start()
    await client.reads(SAFE_NAME, "Stale", "java.lang.Boolean false")
    assert len(jmx.core.operations.requests) == 1


async def test_a_client_receives_operations_of_every_requester(jmx: JmxSite, client: Client) -> None:
    await client.listen(GATEWAY)
    jmx.core.publish(operation(2, state=OperationState.BEGUN, outcome=None), safe_update({NOTES: 0}))
    jmx.core.publish(operation(1))
    reported = await client.received()
    assert reported.startswith(
        f"amqp.gateway.operation.set of {GATEWAY}: safe1: applied: set limit by jmx:monitor"
    )
    assert "operationId=java.lang.String 7b0c.1.o1" in reported
    assert "former=TabularData {limit=5}" in reported
    last = await client.read(SAFE_NAME, "LastOperation")
    assert last.startswith("java.lang.String applied: set limit by jmx:monitor at ")
