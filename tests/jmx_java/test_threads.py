"""The threads of the virtual machine, which consoles show to those who may change something."""

from __future__ import annotations

from gateway.jmx.virtual_machine import JavaMachine
from tests.jmx_java.conftest import AsyncClient, Connect, authenticate, settings

THREADS = "java.lang:type=Threading"


async def test_an_operator_is_shown_threads_as_jconsole_asks_for_them_and_may_do_no_more(
    client: AsyncClient,
) -> None:
    names = await client("threads")
    assert "batches" in names
    assert await client("deadlocks") == 0
    for operation in ("resetPeakThreadCount", "getClass"):
        assert "refused to everybody" in await client("tryInvokeAs", THREADS, operation, [], [])


async def test_a_reader_is_shown_no_threads(connect: Connect) -> None:
    async with JavaMachine(settings(), authenticate, may_change=lambda _user: False) as machine:
        await machine.open()
        async with connect(machine) as client:
            refusal = await client("tryThreads", 1)
    assert "SecurityException: refused: no rule lets jmx:monitor" in refusal


async def test_the_same_thread_is_not_shown_again_and_again(client: AsyncClient) -> None:
    assert await client("tryThreads", 1000) == ""
    assert "wrong-length: 1001 threads; a call may ask for 1000" in await client("tryThreads", 1001)
