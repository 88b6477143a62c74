"""The source on a real broker: shovels and federation links that run, fail and are deleted, and memory.

Their alarms are those of an inventory that takes the source's observations.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.clock import SystemClock
from gateway.demo.broker import Credentials
from gateway.demo.node_setup import free_ports
from gateway.feed.records import AlarmRecord
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.model.operations import Outcome
from tests.components.opened_index import opened_index
from tests.components.rabbitmq import VirtualHost
from tests.components.shipped_mappings import shipped_mappings
from tests.components.waiting import until
from tests.sources.rabbitmq.watching import Watch, node_name, reading_user, ready, watch

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)


def shown(watched: Watch, class_name: str, leaf: str, **values: object) -> Callable[[], bool]:
    """Return whether an object exists with these values."""
    return lambda: (
        watched.exists(class_name, leaf)
        and {name: watched.value(class_name, leaf, name) for name in values} == values
    )


def inventory_of(watched: Watch, index: Path) -> Inventory:
    """Return an inventory that takes what is observed from now on."""
    inventory = Inventory(
        "gw", 1, ClassRegistry(shipped_mappings()), opened_index(index), lambda _batch: None
    )
    source = inventory.add_source("shop", "rabbitmq", 10_000)
    clock = SystemClock()
    watched.also = lambda observations: inventory.observed(source, observations, clock.now())
    return inventory


ALARMS = frozenset({"shovelFailing", "federationLinkFailing"})


def raised(inventory: Inventory) -> set[str]:
    """Return the texts of the active alarms of shovels and links, without the state at their ends."""
    inventory.go_on()
    alarms = (one for one in inventory.snapshot()[0] if isinstance(one, AlarmRecord))
    return {one.text.partition(": it is ")[0] for one in alarms if one.name in ALARMS}


def failing(*shovels: str, links: tuple[str, ...] = ()) -> set[str]:
    """Return the texts of the alarms of these shovels, and of links of ``till`` to these upstreams."""
    return {
        *(f"Shovel {name} does not move messages" for name in shovels),
        *(f"Federation link of till to upstream {name} does not work" for name in links),
    }


@pytest.mark.long
@pytest.mark.xdist_group("disturbed")
async def test_shovels_and_federation_links_show_whether_they_work(
    forwarding_host: VirtualHost, tmp_path: Path
) -> None:
    broker, path = forwarding_host.broker, forwarding_host.path
    (unanswered,) = free_ports(1)
    good, nowhere = forwarding_host.amqp_url(), f"amqp://u:hunter2@127.0.0.1:{unanswered}"
    refused = forwarding_host.amqp_url(Credentials("u", "hunter3"))
    moving = {"src-uri": f"{good}?heartbeat=9", "src-queue": "from", "dest-uri": good, "dest-queue": "to"}
    lost = {**moving, "dest-uri": nowhere, "reconnect-delay": 1}
    once = {**moving, "src-exchange": "missing", "reconnect-delay": 0}
    del once["src-queue"]
    with reading_user(broker, [forwarding_host.name]) as user, broker.http() as client:

        def put(target: str, body: object) -> None:
            client.put(target, json=body).raise_for_status()

        put(f"exchanges/{path}/till", {"type": "fanout"})
        for name, value in (("mover", moving), ("lost", lost), ("once", once)):
            put(f"parameters/shovel/{path}/{name}", {"value": value})
        for name, uri in (("good", good), ("nowhere", nowhere), ("refused", refused)):
            upstream = {"value": {"uri": uri, "reconnect-delay": 1}}
            put(f"parameters/federation-upstream/{path}/{name}", upstream)
        put(f"policies/{path}/fed", {"pattern": "^till$", "definition": {"federation-upstream-set": "all"}})
        async with watch(broker, user, writer=broker.administrator) as watched:
            inventory = inventory_of(watched, tmp_path / "index")
            await ready(watched)
            await until(shown(watched, "shovel", "mover", state="running", failing=False), "it runs")
            assert watched.value("shovel", "mover", "sourceQueue") == "from"
            assert watched.value("shovel", "mover", "destinationUri") == good.replace(
                f"{broker.administrator.name}:{broker.administrator.password}@", ""
            )
            await until(shown(watched, "shovel", "lost", failing=True), "it cannot reach its destination")
            terminated = shown(watched, "shovel", "once", state="terminated", failing=True)
            await until(terminated, "it needs an exchange that is missing")
            working = shown(watched, "federationLink", "good", state="running", failing=False)
            await until(working, "the link runs")
            for name in ("nowhere", "refused"):
                fails = shown(watched, "federationLink", name, state="error", failing=True)
                await until(fails, f"the link to {name} fails")
            assert raised(inventory) == failing("lost", "once", links=("nowhere", "refused"))
            assert watched.value("federationLink", "nowhere", "reason") == "econnrefused"
            reason = watched.value("federationLink", "refused", "reason")
            assert str(reason).startswith("auth_failure: ACCESS_REFUSED")
            for class_name, leaf in (("shovel", "mover"), ("shovel", "once"), ("federationLink", "nowhere")):
                answer = await watched.call(class_name, leaf, "restart")
                assert (answer.outcome, answer.text) == (Outcome.APPLIED, "OK")
            put(f"parameters/shovel/{path}/lost", {"value": moving})
            await until(shown(watched, "shovel", "lost", state="running", failing=False), "it runs now")
            assert failing("lost").isdisjoint(raised(inventory))
            client.delete(f"parameters/shovel/{path}/once").raise_for_status()
            await until(lambda: watched.gone("shovel", "once"), "a deleted shovel ends")
            client.delete(f"policies/{path}/fed").raise_for_status()
            await until(lambda: watched.gone("federationLink", "good"), "links end with their policy")
            await until(lambda: not raised(inventory), "the alarms of all end")
            memory = ("memoryCode", "memoryConnections", "memoryDefinitions", "memoryQueues")
            node = node_name(watched)
            await until(lambda: watched.value("node", node, memory[0]), "the node's memory is read")
            assert all(watched.value("node", node, part) for part in memory)
            assert watched.value("node", node, "listeners")
            for secret in ("hunter2", "hunter3", broker.administrator.password):
                assert secret not in repr(watched.seen)
