"""The workload at rest did exactly what its ledger has, to the last message; and it ends without a trace."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from threading import Thread

import pytest

from gateway.demo.broker import Credentials, PrivateBroker
from gateway.demo.ledger import Act, QueueName
from gateway.demo.workload import Workload, WorkloadError, prepare
from tests.components.rabbitmq import VirtualHost, new_virtual_host
from tests.components.waiting import DEADLINE, eventually


def messages_in(broker: PrivateBroker, vhost: str) -> dict[str, int]:
    """Return the number of messages of each queue of ``vhost``, counted by the queues themselves."""
    listed = broker.rabbitmqctl(
        "list_queues", "--silent", "--no-table-headers", "-p", vhost, "name", "messages"
    )
    return {name: int(messages) for name, messages in (line.split("\t") for line in listed.splitlines())}


def connections_to(broker: PrivateBroker, workload: Workload) -> list[str]:
    ours = {workload.topology.shop, workload.topology.billing}
    listed = broker.rabbitmqctl(
        "list_connections", "--silent", "--no-table-headers", "vhost", "client_properties"
    ).splitlines()
    return [line for line in listed if line.split("\t")[0] in ours]


@pytest.fixture
async def make_workload(
    rabbitmq: PrivateBroker, virtual_host: VirtualHost
) -> AsyncIterator[Callable[..., Workload]]:
    """Provide a function that makes workloads in two virtual hosts of this test; they are stopped with it."""
    workloads: list[Workload] = []
    with new_virtual_host(rabbitmq) as billing:

        def make(*, seed: int = 1, limit: int | None = None, ledger_file: Path | None = None) -> Workload:
            workload = Workload(
                lambda vhost: rabbitmq.amqp_url(vhost=vhost),
                shop=virtual_host.name,
                billing=billing.name,
                rate=200.0,
                limit=limit,
                seed=seed,
                visit_interval=0.05,
                ledger_file=ledger_file,
            )
            workloads.append(workload)
            return workload

        yield make
        for workload in workloads:
            await workload.stop()


async def test_at_rest_the_broker_counts_what_the_ledger_says(
    make_workload: Callable[..., Workload], rabbitmq: PrivateBroker
) -> None:
    async with make_workload(limit=60) as workload:
        await workload.finished()
        await workload.pause()
        topology, ledger = workload.topology, workload.ledger

        assert ledger.interruptions == 0
        assert ledger.published[topology.due] + ledger.published[topology.mail] == 60
        assert ledger.published[topology.audit] == 60
        for vhost in (topology.shop, topology.billing):
            reported = {
                queue.name: ledger.waiting(queue)
                for queue in (*topology.consumed_at_once, topology.audit)
                if queue.vhost == vhost
            }

            async def agrees(vhost: str = vhost, reported: dict[str, int] = reported) -> bool:
                return await asyncio.to_thread(messages_in, rabbitmq, vhost) == reported

            await eventually(agrees, f"the broker counts {reported}")


async def test_the_same_seed_publishes_the_same(make_workload: Callable[..., Workload]) -> None:
    published = []
    for _ in range(2):
        async with make_workload(seed=7, limit=30) as workload:
            await workload.finished()
            published.append(dict(workload.ledger.published))

    assert published[0] == published[1]


async def test_visitors_come_and_go(make_workload: Callable[..., Workload], rabbitmq: PrivateBroker) -> None:
    async with make_workload() as workload:

        async def visited() -> bool:
            return workload.ledger.visits >= 3

        await eventually(visited, "three visits")
        await workload.pause()

        with rabbitmq.http() as client:
            names = {queue["name"] for queue in client.get(f"queues/{workload.topology.shop}").json()}
    assert names == {"orders.incoming", "orders.audit", "orders.live"}


async def test_at_rest_its_ledger_reports_what_is_connected(
    make_workload: Callable[..., Workload], rabbitmq: PrivateBroker, tmp_path: Path
) -> None:
    async with make_workload(ledger_file=tmp_path / "ledger.jsonl") as workload:

        async def all_are_there() -> bool:
            ledger, topology = workload.ledger, workload.topology
            both = ledger.published[topology.audit] and ledger.published[topology.due]
            return bool(both) and ledger.visits >= 2

        await eventually(all_are_there, "both publish, and visitors come")
        await workload.pause()
        lives, published = workload.ledger.lives.copy(), workload.ledger.published.copy()
        connected = {
            name: opened - lives[Act.CLOSED, vhost, name]
            for (act, vhost, name), opened in lives.items()
            if act is Act.OPENED
        }
        found = connections_to(rabbitmq, workload)
        noted = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]

    assert sorted(name for name, count in connected.items() if count) == sorted(
        [
            f"{workload.topology.shop} publisher",
            f"{workload.topology.billing} publisher",
            *(f"{queue.vhost} consumer of {queue.name}" for queue in workload.topology.consumed_at_once),
        ]
    )
    assert len(found) == sum(connected.values())
    assert Counter(QueueName(n["vhost"], n["name"]) for n in noted if n["act"] == "published") == published


async def test_it_ends_all_its_connections(
    make_workload: Callable[..., Workload], rabbitmq: PrivateBroker
) -> None:
    workload = make_workload()
    async with workload:
        assert len(connections_to(rabbitmq, workload)) >= len(workload.topology.consumed_at_once)

    async def gone() -> bool:
        return connections_to(rabbitmq, workload) == []

    await eventually(gone, "the broker has no connection of the workload")


async def test_after_a_pause_it_goes_on(make_workload: Callable[..., Workload]) -> None:
    async with make_workload() as workload:
        await workload.pause()
        before = workload.ledger.published.total()
        workload.resume()

        async def more() -> bool:
            return workload.ledger.published.total() > before

        await eventually(more, "something more was published")


@pytest.mark.prove  # the demonstration's check restarts its broker, and its workload goes on
async def test_it_survives_a_restart_of_the_broker(own_rabbitmq: PrivateBroker) -> None:
    user = Credentials.generate("shop")
    with own_rabbitmq.http() as client:
        prepare(client, user, {"shop": "Orders of the shop", "billing": "Invoices"})
    async with Workload(lambda vhost: own_rabbitmq.amqp_url(user, vhost), rate=200) as workload:
        before = workload.ledger.consumed.copy()

        async def consumes() -> bool:
            consumed = workload.ledger.consumed
            return all(consumed[queue] > before[queue] for queue in workload.topology.consumed_at_once)

        await eventually(consumes, "every consumer consumes")
        await asyncio.to_thread(own_rabbitmq.kill_node)
        await asyncio.to_thread(own_rabbitmq.start)
        before = workload.ledger.consumed.copy()
        await eventually(consumes, "every consumer consumes again")
        assert workload.ledger.interruptions > 0
        await workload.pause()


async def test_without_its_virtual_hosts_it_says_so(rabbitmq: PrivateBroker) -> None:
    name = f"missing-{secrets.token_hex(4)}"

    with pytest.raises(WorkloadError, match="cannot set up its queues"):
        await Workload(lambda vhost: rabbitmq.amqp_url(vhost=vhost), shop=name, billing=name).start()


def test_a_loop_that_ends_while_a_workload_stops_ends(
    rabbitmq: PrivateBroker, virtual_host: VirtualHost
) -> None:
    """All tasks are then cancelled once, also those that close connections."""
    left = []

    async def begin(shop: str, billing: str, turns: int) -> None:
        workload = Workload(lambda vhost: rabbitmq.amqp_url(vhost=vhost), shop=shop, billing=billing)
        await workload.start()
        stopping = asyncio.create_task(workload.stop())
        for _ in range(turns):
            await asyncio.sleep(0)
        left.append(not stopping.done())

    with new_virtual_host(rabbitmq) as billing:
        for turns in range(2, 60, 4):
            work = begin(virtual_host.name, billing.name, turns)
            ending = Thread(target=asyncio.run, args=(work,), daemon=True)
            ending.start()
            ending.join(DEADLINE)
            assert not ending.is_alive(), turns
    assert True in left
