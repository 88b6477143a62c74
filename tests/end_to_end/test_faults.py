"""Faults in which nobody is killed: each is said, and all is right again without a hand on the gateway."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from gateway.agents.rabbitmq.rights import MANAGEMENT_VHOST
from gateway.demo.demonstration import AGENT_SOURCE, SOURCE
from tests.end_to_end.observer import Observer
from tests.end_to_end.rightness import Rightness
from tests.end_to_end.story import Story
from tests.end_to_end.witness import Witness

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demonstration")]


@pytest_asyncio.fixture(loop_scope="session")
async def story(observer: Observer, witness: Witness, rightness: Rightness) -> Story:
    await rightness.at_first()
    return await Story.begin(observer, witness, rightness)


async def all_stale(observer: Observer) -> bool:
    return await observer.stale(SOURCE) and await observer.stale(AGENT_SOURCE)


async def test_the_application_is_stopped_and_started(
    observer: Observer, rightness: Rightness, story: Story
) -> None:
    await asyncio.to_thread(observer.broker.rabbitmqctl, "stop_app")
    await observer.until("everything is stale", lambda: all_stale(observer))
    await asyncio.to_thread(observer.broker.rabbitmqctl, "start_app")
    await rightness.again()
    await story.end()


async def test_the_node_is_restarted(observer: Observer, rightness: Rightness, story: Story) -> None:
    await asyncio.to_thread(observer.broker.stop_node)
    await asyncio.to_thread(observer.broker.start)
    await rightness.again()
    await story.end()
    await story.tells("agSourceDown", agEventSource=SOURCE, agEventSourceDetail="is the broker running")
    await story.tells("agSourceDown", agEventSource=AGENT_SOURCE, agEventSourceDetail="CONNECTION_FORCED")


@pytest.mark.parametrize("vhost", ["/", MANAGEMENT_VHOST])
async def test_our_queues_are_deleted(
    vhost: str, observer: Observer, witness: Witness, rightness: Rightness, story: Story
) -> None:
    former = await witness.truth.own_queues(vhost)
    for queue in former:
        await asyncio.to_thread(observer.broker.rabbitmqctl, "delete_queue", "-p", vhost, queue)

    async def others() -> bool:
        now = await witness.truth.own_queues(vhost)
        return len(now) == len(former) and not now & former

    await observer.until("others have taken their place", others)
    await rightness.again()
    await story.end()


async def test_the_management_exchange_is_deleted(
    observer: Observer, witness: Witness, rightness: Rightness, story: Story
) -> None:
    with observer.broker.http() as client:
        path = f"exchanges/{MANAGEMENT_VHOST}/qpid.management"
        client.delete(path).raise_for_status()

        async def made_anew() -> bool:
            return client.get(path).status_code == 200

        await observer.until("the exchange is there again", made_anew)
    former = await observer.count("agSourceMessages", AGENT_SOURCE)
    await witness.after(100)
    await rightness.again()

    async def heard() -> bool:
        return await observer.count("agSourceMessages", AGENT_SOURCE) > former + 5

    await observer.until("the agent is heard again", heard)
    await rightness.again()
    await story.end()
