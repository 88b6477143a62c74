"""kill -9 of each part at random instants: the others report it, and all is right again by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE, Demonstration
from tests.end_to_end.chaos import KILLED_ELSEWHERE, VICTIMS, Killer, Plan, repeatable
from tests.end_to_end.observer import Observer
from tests.end_to_end.rightness import Rightness
from tests.end_to_end.story import Story
from tests.end_to_end.witness import Witness
from tests.hypothesis_profiles import PROVING

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demonstration")]

SEEDS = 20 if PROVING else 1


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize(
    "victim",
    [
        pytest.param(victim, marks=[pytest.mark.prove] if victim in KILLED_ELSEWHERE else [])
        for victim in VICTIMS
    ],
)
async def test_kill(
    victim: str,
    seed: int,
    observer: Observer,
    witness: Witness,
    killer: Killer,
    rightness: Rightness,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    plan = Plan.of(victim, seed)
    with repeatable(request):
        await rightness.at_first()
        story = await Story.begin(observer, rightness)
        await witness.after(plan.wait)
        await killer.kill(victim)
        if plan.patient:
            await SAID[victim](observer, witness)
        await killer.recover(plan)
        seconds = await rightness.again()
        record_property("seconds_until_right", round(seconds, 1))
        await story.end(plan.killed)


async def stale_in_jmx(witness: Witness, source: str) -> bool:
    """Return whether objects of the source are stale in JMX."""
    return await witness.stale_objects(source) > 0


async def broker_said(observer: Observer, witness: Witness) -> None:
    """Wait until both sources are down, and everything is stale, in both norths."""
    await observer.until("every row of both sources is stale", observer.all_stale)
    sources = await observer.sources()
    assert sources[SOURCE]["agSourceState"] == "down"
    assert "is the broker running" in sources[SOURCE]["agSourceDetail"]
    assert sources[AGENT_SOURCE]["agSourceState"] in {"connecting", "down"}
    await observer.until("JMX says so too", partial(stale_in_jmx, witness, SOURCE))
    await observer.until("JMX says so too", partial(stale_in_jmx, witness, AGENT_SOURCE))


async def agent_said(observer: Observer, witness: Witness) -> None:
    """Wait until the rows of the agent's source are stale, and no others."""
    await observer.until("every row of the agent's source is stale", partial(observer.stale, AGENT_SOURCE))
    assert not await observer.stale(SOURCE)
    await observer.until("JMX says so too", partial(stale_in_jmx, witness, AGENT_SOURCE))


async def core_said(observer: Observer, _: Witness) -> None:
    """Wait until everything is stale: no other core has read its sources yet."""
    await observer.until("SNMP goes on to answer, and calls every row stale", observer.all_stale)


async def snmp_said(_: Observer, witness: Witness) -> None:
    """Check that JMX goes on as if nothing had happened."""
    for source in (SOURCE, AGENT_SOURCE):
        assert await witness.stale_objects(source) == 0


async def jmx_said(observer: Observer, _: Witness) -> None:
    """Check that SNMP goes on as if nothing had happened."""
    for source in (SOURCE, AGENT_SOURCE):
        assert not await observer.stale(source)


async def compactor_said(observer: Observer, witness: Witness) -> None:
    """Check that SNMP and JMX go on as if nothing had happened."""
    for source in (SOURCE, AGENT_SOURCE):
        assert not await observer.stale(source)
        assert await witness.stale_objects(source) == 0


SAID = {
    "broker": broker_said,
    "agent": agent_said,
    "core": core_said,
    "snmp": snmp_said,
    "jmx": jmx_said,
    "jvm": jmx_said,
    "compactor": compactor_said,
}
"""The checks of the others while one is down, if they have the time."""


async def test_the_supervisor(observer: Observer, demonstration: Demonstration, rightness: Rightness) -> None:
    await rightness.at_first()

    async def compacts() -> bool:
        return observer.runs("compactor")

    await observer.until("a segment waits for the compactor", compacts)
    children = [
        *(observer.process(name) for name in ("core", "snmp", "jmx", "compactor")),
        observer.virtual_machine(),
    ]
    await demonstration.kill_process("gateway")

    async def gone() -> bool:
        return not any(child.is_running() for child in children)

    await observer.until("its processes end with it", gone)
    await demonstration.start_gateway()
    await rightness.again()
