"""SIGSTOP of a process of the gateway: its last values become stale, and another takes its place.

Where the whole gateway stands still, nobody can replace anything: it goes on, and reads everything again.
"""

from __future__ import annotations

import asyncio
from functools import partial

import psutil
import pytest

from gateway.demo.demonstration import SOURCE
from tests.components.jmx_client import JmxClientError
from tests.components.stopping import standing_still
from tests.end_to_end.observer import Observer
from tests.end_to_end.rightness import Rightness
from tests.end_to_end.story import Story
from tests.end_to_end.test_kills import stale_in_jmx
from tests.end_to_end.witness import GATEWAY_BEAN, Witness

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demonstration")]


async def core_said(observer: Observer, witness: Witness) -> None:
    """Wait until everything is stale in both norths."""
    await observer.until("SNMP calls every row stale", observer.all_stale)
    await observer.until("JMX says so too", partial(stale_in_jmx, witness, SOURCE))


async def jmx_said(observer: Observer, witness: Witness) -> None:
    """Wait until the virtual machine, which lives, shows all as stale; SNMP is not affected."""

    async def doubts() -> bool:
        if witness.client is None:
            raise JmxClientError("there is no client now")
        gateway = await witness.client.read(GATEWAY_BEAN)
        source = await witness.client.read(f"amqp.gateway:type=Source,source={SOURCE}")
        (queue, *_) = await witness.client.names(f"amqp.gateway:source={SOURCE},type=queue,*")
        stale = (await witness.client.read(queue))["Stale"].value
        return (gateway["FeedConnected"].value, source["State"].value, stale) == (False, "unknown", True)

    await observer.until("the virtual machine doubts everything", doubts)
    assert not await observer.stale(SOURCE)


STANDSTILL_SECONDS = 15.0
"""Longer than the core trusts a broker, and a front end the core, without a sign of life."""

SAID = {"core": core_said, "jmx": jmx_said}


@pytest.mark.parametrize(
    # That a virtual machine without a sign of life doubts everything, tests/jmx_java/test_reading.py shows.
    "victim",
    ["core", pytest.param("jmx", marks=pytest.mark.prove)],
)
async def test_a_process_that_stands_still_is_not_trusted_and_replaced(
    victim: str, observer: Observer, witness: Witness, rightness: Rightness
) -> None:
    await rightness.at_first()
    story = await Story.begin(observer, rightness)
    stopped = observer.process(victim)
    stopped.suspend()
    await SAID[victim](observer, witness)

    async def is_replaced() -> bool:
        try:
            return observer.process(victim) != stopped
        except (AssertionError, psutil.Error):
            return False

    await observer.until("another process has taken its place", is_replaced)
    await rightness.again()
    await story.end({victim})


async def test_a_gateway_that_stood_still_goes_on_as_a_whole(
    observer: Observer, rightness: Rightness
) -> None:
    """As on a virtual machine that is moved to another host."""
    await rightness.at_first()
    story = await Story.begin(observer, rightness)
    with standing_still(observer.demonstration.process_id("gateway")):
        await asyncio.sleep(STANDSTILL_SECONDS)  # it is to last
    await rightness.again()
    await story.end()
