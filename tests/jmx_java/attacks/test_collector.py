"""The collector of remote objects, which everybody may call: floods of leases, and of their ends."""

from __future__ import annotations

import asyncio

from gateway.jmx.virtual_machine import JavaMachine
from tests.hypothesis_profiles import PROVING
from tests.jmx_java.attacks.conftest import OPERATOR, PASSWORD, Works
from tests.jmx_java.conftest import AsyncClient, JavaObject
from tests.jmx_java.operations.queues import ORDERS
from tests.jmx_java.scripted_operator import ScriptedOperator

CALLS = 5_000 if PROVING else 500


async def test_a_flood_of_leases_and_of_their_ends_do_no_harm(
    machine: JavaMachine, java_client: JavaObject, attacks: AsyncClient, works: Works
) -> None:
    java = await asyncio.to_thread(java_client.connect, machine.port, OPERATOR, PASSWORD)
    client = AsyncClient(java)
    for method in ("lease", "release"):
        floods = [asyncio.create_task(attacks(method, machine.port, CALLS, 10)) for _ in range(4)]
        await works()
        assert await asyncio.gather(*floods) == [CALLS] * len(floods), method
        # Nobody else can end the lease of this one: the numbers of objects are random.
        assert await client("attribute", ORDERS, "messages") == "java.lang.Long 3"
    await client("close")
    await works()


async def test_a_lease_of_too_many_objects_is_refused_and_recorded(
    machine: JavaMachine, attacks: AsyncClient, works: Works, operator: ScriptedOperator
) -> None:
    assert await attacks("lease", machine.port, 1, 5000) == 0
    await works()
    (attempt,) = operator.attempts
    assert (attempt.principal.name, attempt.principal.origin) == ("", "127.0.0.1")
    assert attempt.text.startswith("request: the collector of remote objects refused it: ")
