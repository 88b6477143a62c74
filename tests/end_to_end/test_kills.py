"""kill -9 of each part in turn: the others say so, and all is right again without a hand."""

from __future__ import annotations

import asyncio

import pytest

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE, Demonstration
from gateway.demo.snmp_commands import SnmpCommandError
from tests.end_to_end.observer import Observer

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demonstration")]

OWN_QUEUES = [
    "amqp-gateway.agent",
    "amqp-gateway.console",
    "amqp-gateway.events",
    "amqp-gateway.events",
]
"""What gateway and agent have on the broker while they run: one queue for each purpose."""


async def all_is_right(observer: Observer, before: dict[str, str]) -> None:
    """Both sources are synchronised, durable objects have the rows they had, the broker has no left-overs."""
    await observer.until("both sources are synchronised and no row is stale", observer.healthy)

    async def same_rows() -> bool:
        return await observer.durable_rows() == before

    async def no_left_overs() -> bool:
        return await observer.own_queues() == OWN_QUEUES

    await observer.until("every durable object has the row that it had", same_rows)
    await observer.until("the broker has only the queues in use", no_left_overs)


@pytest.fixture
async def before(observer: Observer) -> dict[str, str]:
    await observer.until("all is right before anything is killed", observer.healthy)
    rows = await observer.durable_rows()
    assert len(rows) > 40
    return rows


async def test_the_broker(observer: Observer, before: dict[str, str]) -> None:
    await asyncio.to_thread(observer.broker.kill_node)

    async def said() -> bool:
        return await observer.stale(SOURCE) and await observer.stale(AGENT_SOURCE)

    await observer.until("every row of both sources is stale", said)
    sources = await observer.sources()
    assert sources[SOURCE]["agSourceState"] == "down"
    assert sources[SOURCE]["agSourceDetail"] != ""
    assert sources[AGENT_SOURCE]["agSourceState"] in {"connecting", "down"}
    await asyncio.to_thread(observer.broker.start)
    await all_is_right(observer, before)


async def test_the_agent(observer: Observer, demonstration: Demonstration, before: dict[str, str]) -> None:
    await demonstration.kill_process("agent")

    async def said() -> bool:
        return await observer.stale(AGENT_SOURCE)

    await observer.until("every row of the agent's source is stale", said)
    assert not await observer.stale(SOURCE)
    await demonstration.start_agent()
    await all_is_right(observer, before)


async def test_the_core(observer: Observer, before: dict[str, str]) -> None:
    boot = (await observer.walk("agCoreEpoch"))["0"]["agCoreEpoch"]
    observer.process("core").kill()

    async def said() -> bool:
        return await observer.stale(SOURCE) and await observer.stale(AGENT_SOURCE)

    await observer.until("SNMP goes on to answer, and calls every row stale", said)
    await all_is_right(observer, before)
    again = (await observer.walk("agCoreEpoch"))["0"]["agCoreEpoch"]
    assert int(again) == int(boot) + 1


async def test_the_snmp_process(observer: Observer, before: dict[str, str]) -> None:
    killed = observer.process("snmp")
    killed.kill()

    async def answers_again() -> bool:
        try:
            await observer.walk("agFeedConnected")
        except SnmpCommandError:
            return False
        return observer.process("snmp").pid != killed.pid

    await observer.until("another process answers", answers_again)
    await all_is_right(observer, before)


async def test_the_supervisor(
    observer: Observer, demonstration: Demonstration, before: dict[str, str]
) -> None:
    children = [observer.process(name) for name in ("core", "snmp")]
    await demonstration.kill_process("gateway")

    async def gone() -> bool:
        return not any(child.is_running() for child in children)

    await observer.until("its processes end with it", gone)
    await demonstration.start_gateway()
    await all_is_right(observer, before)
