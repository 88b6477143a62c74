"""Faults without kills: each is reported, and all is right again without intervention at the gateway."""

from __future__ import annotations

import asyncio
from functools import partial

import psutil
import pytest

from gateway.demo.demonstration import AGENT_SOURCE, SOURCE
from gateway.links.election import manager_queue
from gateway.sources.rabbitmq.rights import MANAGEMENT_EXCHANGE, MANAGEMENT_VHOST
from tests.end_to_end.observer import Observer
from tests.end_to_end.rightness import Rightness
from tests.end_to_end.rights import Rights
from tests.end_to_end.story import Story
from tests.end_to_end.witness import Witness
from tests.hypothesis_profiles import PROVING

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("demonstration")]


@pytest.mark.prove  # it is killed and comes back in test_kills.py
@pytest.mark.parametrize("restarted", ["node", "application"])
async def test_the_broker_is_stopped_and_started(
    restarted: str, observer: Observer, rightness: Rightness, story: Story
) -> None:
    broker = observer.broker
    await asyncio.to_thread(broker.rabbitmqctl, "stop_app")
    await observer.until("everything is stale", observer.all_stale)
    if restarted == "application":
        await asyncio.to_thread(broker.rabbitmqctl, "start_app")
    else:
        await asyncio.to_thread(broker.stop_node)
        await asyncio.to_thread(broker.start)
    await rightness.again()
    await story.end()
    await story.publishes("agSourceDown", agEventSource=SOURCE, agEventSourceDetail="is the broker running")
    await story.publishes("agSourceDown", agEventSource=AGENT_SOURCE, agEventSourceDetail="CONNECTION_FORCED")


@pytest.mark.parametrize(
    "vhosts", [["/"], [MANAGEMENT_VHOST]] if PROVING else [["/", MANAGEMENT_VHOST]], ids=" and ".join
)
async def test_our_queues_are_deleted(
    vhosts: list[str], observer: Observer, witness: Witness, rightness: Rightness, story: Story
) -> None:
    former = {vhost: await witness.truth.own_queues(vhost) for vhost in vhosts}
    assert all(former.values())
    lasting = {manager_queue(MANAGEMENT_EXCHANGE)}  # the name by which agents elect one of them
    for vhost, queues in former.items():
        for queue in queues - lasting:
            await asyncio.to_thread(observer.broker.rabbitmqctl, "delete_queue", "-p", vhost, queue)

    async def others() -> bool:
        now = {vhost: await witness.truth.own_queues(vhost) for vhost in vhosts}
        return all(
            len(now[vhost]) == len(queues) and now[vhost] & queues <= lasting
            for vhost, queues in former.items()
        )

    await observer.until("others have taken their place", others)
    await rightness.again()
    await story.end()


async def test_the_management_exchange_is_deleted(
    observer: Observer, witness: Witness, rightness: Rightness, story: Story
) -> None:
    with observer.broker.http() as client:
        path = f"exchanges/{MANAGEMENT_VHOST}/qpid.management"
        client.delete(path).raise_for_status()

        async def made_again() -> bool:
            return client.get(path).status_code == 200

        await observer.until("the exchange is there again", made_again)
    former = await observer.count("agSourceMessages", AGENT_SOURCE)
    await witness.after(100)
    await rightness.again()

    async def received() -> bool:
        return await observer.count("agSourceMessages", AGENT_SOURCE) > former + 5

    await observer.until("the agent is heard again", received)
    await rightness.again()
    await story.end()


@pytest.mark.prove  # no answer comes, as where the way to the broker falls silent
async def test_the_broker_stands_still(observer: Observer, rightness: Rightness, story: Story) -> None:
    """The broker is silent for longer than all timeouts; the only sign is that no answer comes."""
    node = psutil.Process(observer.broker.node_process())
    node.suspend()
    try:
        await observer.until("everything is stale", observer.all_stale)
        await observer.until("it is said", partial(observer.says, SOURCE, "no answer within 20 s"))
    finally:
        node.resume()
    await rightness.again()
    await story.end()


@pytest.mark.parametrize(
    # Without its virtual host a console or agent is refused, as without its permissions.
    "vhost",
    ["shop", pytest.param(MANAGEMENT_VHOST, marks=pytest.mark.prove)],
)
async def test_a_virtual_host_is_deleted_and_made_again(
    vhost: str, observer: Observer, rightness: Rightness, rights: Rights, story: Story
) -> None:
    with observer.broker.http() as client:
        client.delete(f"vhosts/{vhost}").raise_for_status()

    async def gone() -> bool:
        rows = (await observer.walk("rmqVhostName")).values()
        names = [cells["rmqVhostName"] for cells in rows]
        if vhost == "shop":
            return vhost not in names and names.count("billing") == 2
        return names.count(vhost) <= 1 and await observer.stale(AGENT_SOURCE)

    await observer.until("it is not shown, and who needs it says so", gone)
    if vhost == MANAGEMENT_VHOST:
        text = f"vhost {vhost} not found"
        await observer.until("it is said", partial(observer.says, AGENT_SOURCE, text))
        assert not await observer.stale(SOURCE)
    await rights.give()
    await rightness.again()
    await story.end()
