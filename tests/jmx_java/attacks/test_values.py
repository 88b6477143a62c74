"""Values of a set or an invocation, whose bytes are worse than any object."""

from __future__ import annotations

import asyncio

from gateway.feed.operations import InvokeMethod, SetElements
from gateway.jmx.virtual_machine import JavaMachine
from gateway.model.operations import Outcome, Principal
from tests.jmx_java.attacks.conftest import OPERATOR, PASSWORD, READER, Works
from tests.jmx_java.conftest import AsyncClient
from tests.jmx_java.operations.queues import ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator

SO_OFTEN = 20
METHODS = ("setAtOnce", "setAllAtOnce", "invokeAtOnce")
NO_RULE = "java.lang.SecurityException: refused: no rule lets jmx:reader change anything"


async def test_what_a_reader_would_change_is_refused_before_it_is_deserialised(
    machine: JavaMachine, attacks: AsyncClient, operator: ScriptedOperator, works: Works
) -> None:
    arrays = await asyncio.to_thread(attacks.java.truncatedArrays, 20)
    await attacks("login", machine.port, READER, PASSWORD)
    for method in METHODS:
        operator.attempts.clear()
        failures = await attacks(method, ORDERS, arrays, SO_OFTEN)
        assert [failure.splitlines()[0] for failure in failures] == [NO_RULE] * SO_OFTEN, method
        await works()
        assert len(operator.attempts) == SO_OFTEN, method
        attempt = operator.attempts[0]
        assert attempt.principal == Principal("jmx", READER, "127.0.0.1")
        assert attempt.outcome is Outcome.REFUSED
        assert attempt.action == (InvokeMethod("purge") if method == "invokeAtOnce" else SetElements({}))


async def test_the_arrays_of_an_operators_request_are_bounded_all_together(
    machine: JavaMachine, attacks: AsyncClient, works: Works
) -> None:
    arrays = await asyncio.to_thread(attacks.java.truncatedArrays, 20)
    await attacks("login", machine.port, OPERATOR, PASSWORD)
    for method in METHODS:
        failures = await attacks(method, ORDERS, arrays, SO_OFTEN)
        assert all("REJECTED" in failure for failure in failures), (method, failures)
        await works()


async def test_parameters_of_a_new_mbean_are_not_deserialised_for_anybody(
    machine: JavaMachine, attacks: AsyncClient, works: Works
) -> None:
    arrays = await asyncio.to_thread(attacks.java.truncatedArrays, 20)
    await attacks("login", machine.port, OPERATOR, PASSWORD)
    failures = await attacks("createAtOnce", arrays, SO_OFTEN)
    assert all("createMBean is refused to everybody" in failure for failure in failures), failures
    await works()


async def test_arrays_as_a_query_or_a_filter_are_refused(
    machine: JavaMachine, attacks: AsyncClient, works: Works
) -> None:
    arrays = await asyncio.to_thread(attacks.java.truncatedArrays, 20)
    await attacks("login", machine.port, READER, PASSWORD)
    for method, reason in (
        ("queryAtOnce", "[Ljava.lang.Object;; no query has objects of this class"),
        ("listenAtOnce", "REJECTED"),
    ):
        where = () if method == "queryAtOnce" else (ORDERS,)
        failures = await attacks(method, *where, arrays, SO_OFTEN)
        assert all(reason in failure for failure in failures), (method, failures)
        await works()
