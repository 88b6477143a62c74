"""Statistics from metrics of a real RabbitMQ: the figures of its management API, and without that."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.model.values import Value
from gateway.sources.rabbitmq.prometheus_samples import Columns
from gateway.sources.rabbitmq.reading import class_readers
from gateway.sources.rabbitmq.status import STATISTICS_OF_METRICS
from tests.components.shipped_mappings import shipped_mappings
from tests.components.waiting import eventually
from tests.hypothesis_profiles import PROVING
from tests.sources.rabbitmq.test_live_versions import is_read_without_statistics
from tests.sources.rabbitmq.test_versions import COUNTERS
from tests.sources.rabbitmq.watching import Watch, reading_user, watch

READERS = class_readers(shipped_mappings()["rabbitmq"])
READER, PROTOCOLS = READERS["queue"], READERS["protocol"]
COLUMNS = Columns(READER)
KINDS = ("classic", "quorum", "stream")


@contextmanager
def broker_with_metrics(settings: BrokerSettings) -> Iterator[PrivateBroker]:
    plugins = (*settings.plugins, "rabbitmq_prometheus", "rabbitmq_stream")
    with PrivateBroker(settings=replace(settings, plugins=plugins)) as broker:
        yield broker


@asynccontextmanager
async def watched_with_traffic(
    broker: PrivateBroker,
) -> AsyncIterator[tuple[Watch, AbstractChannel]]:
    """Provide a source of a broker with a queue of each kind, through which some messages went."""
    with reading_user(broker, ["/"]) as user:
        async with await aio_pika.connect(broker.amqp_url()) as client:
            channel = await client.channel()
            exchange = await channel.declare_exchange("x1", aio_pika.ExchangeType.DIRECT, durable=True)
            for kind in KINDS:
                queue = await channel.declare_queue(kind, durable=True, arguments={"x-queue-type": kind})
                await queue.bind(exchange, kind)
                await publish(channel, kind)
                await exchange.publish(aio_pika.Message(b"x"), kind)
                if kind != "stream":
                    await (await queue.get()).ack()
                    await queue.get(no_ack=True)
            async with watch(broker, user, metrics=True) as watched:
                yield watched, channel


async def publish(channel: AbstractChannel, queue: str, count: int = 3) -> None:
    for _ in range(count):
        await channel.default_exchange.publish(aio_pika.Message(b"x"), queue)


def measured(watched: Watch) -> Mapping[str, Mapping[str, Value | None]]:
    """Return the known statistics of each queue for which there are metrics."""
    return {known.name.leaf: _of_metrics(known.statistics) for known in watched.source.known("queue")}


def answered(broker: PrivateBroker) -> Mapping[str, Mapping[str, Value | None]]:
    """Return the same statistics from the management API."""
    with broker.http() as client:
        queues = client.get("queues").raise_for_status().json()
    found = {}
    for queue in queues:
        reading = READER.read(queue, measured=queue["type"] != "stream")
        assert reading is not None
        found[reading.name.leaf] = _of_metrics(reading.statistics)
    return found


def _of_metrics(statistics: tuple[Value | None, ...]) -> Mapping[str, Value | None]:
    return {READER.schema.statistics[position].name: statistics[position] for position, _ in COLUMNS.terms}


def counts_by_protocol(watched: Watch) -> Callable[[], Awaitable[bool]]:
    """Return the condition that the node's totals are known.

    They are four messages for each queue by AMQP 0-9-1, and none by streams.
    """
    received = [one.name for one in PROTOCOLS.schema.statistics].index("messagesReceived")

    async def met() -> bool:
        totals = {known.name.leaf: known.statistics for known in watched.source.known("protocol")}
        return {name: totals[name][received] for name in ("amqp091", "stream") if name in totals} == {
            "amqp091": 4 * len(KINDS),
            "stream": 0,
        }

    return met


async def until(watched: Watch, detail: str, what: str) -> None:
    async def said() -> bool:
        return watched.status is not None and detail in watched.status.detail

    await eventually(said, what)


@pytest.mark.each_rabbitmq(since="4.0")
async def test_metrics_are_what_the_management_api_answers_and_without_them_listings_go_on(
    rabbitmq_settings: BrokerSettings,
) -> None:
    with broker_with_metrics(rabbitmq_settings) as broker:
        async with watched_with_traffic(broker) as (watched, channel):
            statistics = watched.source.statistics
            assert statistics is not None

            async def are_equal() -> bool:
                reported = await asyncio.to_thread(answered, broker)
                return statistics.active and {kind: reported.get(kind) for kind in KINDS} == {
                    kind: measured(watched).get(kind) for kind in KINDS
                }

            await eventually(are_equal, "the metrics and the management API say the same")
            assert measured(watched)["classic"]["messagesPublished"] == 4
            await eventually(counts_by_protocol(watched), "the totals of AMQP 0-9-1 are there")
            assert measured(watched)["quorum"]["messagesDeliveredOrGot"] == 2
            assert measured(watched)["stream"]["messagesAcknowledged"] is None

            seen: list[int] = []

            def published() -> int:
                value = measured(watched).get("classic", {}).get("messagesPublished")
                seen.append(value if isinstance(value, int) else 0)
                return seen[-1]

            async def reaches(count: int) -> None:
                async def met() -> bool:
                    return published() == count

                await eventually(met, f"{count} messages are published")

            async def is_active() -> bool:
                return statistics.active

            await reaches(4)
            broker.rabbitmqctl("eval", "application:stop(rabbitmq_prometheus).")
            await publish(channel, "classic")
            await until(watched, "statistics are read from listings", "the source says so")
            await reaches(7)
            broker.rabbitmqctl("eval", "application:start(rabbitmq_prometheus).")
            await publish(channel, "classic")
            await eventually(is_active, "metrics are read again")
            await reaches(10)
            assert seen == sorted(seen), "a counter does not go backwards"
            assert "listings" not in (watched.status.detail if watched.status else "")

            broker.rabbitmqctl("set_cluster_name", "renamed")

            async def is_renamed() -> bool:
                return "renamed" in watched.source.cluster_names

            await eventually(is_renamed, "the name in the metrics has the overview read")
            renamed_at = time.time_ns()

            async def are_read_since() -> bool:
                return statistics.active and statistics.applied > renamed_at

            await eventually(are_read_since, "metrics with the new name are read")
            assert "listings" not in (watched.status.detail if watched.status else "")


@pytest.mark.prove  # test_another_broker.py: "metrics of another broker are not taken"
@pytest.mark.each_rabbitmq(since="4.0")
async def test_metrics_of_a_node_of_another_broker_are_no_part_of_sums(
    rabbitmq_settings: BrokerSettings,
) -> None:
    """So is a node that was reset, and whose URL is still configured."""
    with broker_with_metrics(rabbitmq_settings) as broker, broker_with_metrics(rabbitmq_settings) as other:
        for one, count in ((broker, 3), (other, 30)):
            async with await aio_pika.connect(one.amqp_url()) as client:
                channel = await client.channel()
                await channel.declare_queue("orders", durable=True)
                await publish(channel, "orders", count)
        urls = tuple(f"http://127.0.0.1:{one.ports.prometheus}" for one in (broker, other))
        async with watch(broker, broker.administrator, metrics=True, prometheus=urls) as watched:
            await until(watched, f"{other.node_name}, which is no running node of this broker", "it says so")

            async def are_counted() -> bool:
                return measured(watched).get("orders", {}).get("messagesPublished") == 3

            await eventually(are_counted, "listings count")
            assert {known.name.parts[0] for known in watched.source.known("protocol")} <= {broker.node_name}


@pytest.mark.prove  # test_prometheus_statistics.py: "counters of queues, which RabbitMQ has since 4.0"
@pytest.mark.each_rabbitmq(until="3.10")
async def test_a_broker_that_does_not_count_by_queue_is_read_by_listings(
    rabbitmq_settings: BrokerSettings,
) -> None:
    with broker_with_metrics(rabbitmq_settings) as broker:
        async with watched_with_traffic(broker) as (watched, _):
            await until(watched, "counters of queues, which RabbitMQ has since 4.0", "the source says why")

            async def are_there() -> bool:
                return measured(watched).get("classic", {}).get("messagesPublished") == 4

            await eventually(are_there, "listings have the counters")
            await eventually(counts_by_protocol(watched), "the totals of AMQP 0-9-1 are there")


@pytest.mark.each_rabbitmq(**({} if PROVING else {"since": "4.0"}))
@pytest.mark.prove
async def test_raft_figures_are_what_rabbitmq_queues_says(rabbitmq_settings: BrokerSettings) -> None:
    with broker_with_metrics(rabbitmq_settings) as broker:
        async with watched_with_traffic(broker) as (watched, channel):
            reported = raft_figures_of(watched, "quorum")
            await eventually(reported, "the figures are there")
            await publish(channel, "quorum", 50)
            reported = raft_figures_of(watched, "quorum", commit_index(broker, "quorum"))
            await eventually(reported, "the figures are those of the leader")
            figures = raft(watched)
            assert figures["quorum"]["raftUncommitted"] == figures["quorum"]["raftUnapplied"] == 0
            assert "raftSnapshotIndex" not in figures["quorum"], "its log is short"
            assert 0 <= int(str(figures["quorum"]["raftCommitLatency"])) < 10_000_000_000
            assert (figures["classic"], figures["stream"]) == ({}, {})


def raft(watched: Watch) -> Mapping[str, Mapping[str, Value]]:
    """Return the known figures of the Raft log of each queue."""
    names = [one.name for one in READER.schema.statistics]
    return {
        known.name.leaf: {
            names[position]: value
            for position in READER.led
            if (value := known.statistics[position]) is not None
        }
        for known in watched.source.known("queue")
    }


def raft_figures_of(
    watched: Watch, queue: str, expected: tuple[int, int] | None = None
) -> Callable[[], Awaitable[bool]]:
    """Return the condition that the term and commit index of a queue are known; if given, as ``expected``."""

    async def met() -> bool:
        figures = raft(watched).get(queue, {})
        found = figures.get("raftTerm"), figures.get("raftCommitIndex")
        return found == expected if expected else None not in found

    return met


def commit_index(broker: PrivateBroker, queue: str) -> tuple[int, int]:
    """Return term and commit index of a queue's leader."""
    replicas = json.loads(broker.run_tool("rabbitmq-queues", "quorum_status", queue, "--formatter", "json"))
    (leader,) = [one for one in replicas if one["Raft State"] == "leader"]
    return leader["Term"], leader["Commit Index"]


@pytest.mark.each_rabbitmq(since="4.0")
async def test_a_broker_whose_statistics_are_off_is_read_and_listened_to_and_so_are_its_metrics(
    rabbitmq_settings: BrokerSettings,
) -> None:
    """The overview does not name the listeners then, so that the configuration has to."""
    off = replace(rabbitmq_settings, configuration=("management.disable_stats = true",))
    with broker_with_metrics(off) as broker:
        await is_read_without_statistics(broker)
        urls = (f"http://127.0.0.1:{broker.ports.prometheus}",)
        async with await aio_pika.connect(broker.amqp_url()) as client:
            channel = await client.channel()
            for kind in KINDS:
                await channel.declare_queue(kind, durable=True, arguments={"x-queue-type": kind})
            async with watch(broker, broker.administrator, metrics=True, prometheus=urls) as watched:
                await until(watched, STATISTICS_OF_METRICS, "the source says where its counters are from")
                for kind in KINDS:
                    await publish(channel, kind)
                queue = await channel.get_queue("classic")
                await (await queue.get()).ack()
                await queue.get(no_ack=True)
                await eventually(
                    are_counted(watched, "classic", ACKNOWLEDGED), "what went through is counted"
                )
                await eventually(are_counted(watched, "quorum", PUBLISHED), "so it is for a quorum queue")
                async with await aio_pika.connect(broker.amqp_url()) as other:
                    await (await other.channel()).get_queue("quorum")
                    await eventually(opened(watched, 1), "a connection is known by its event")
                await eventually(opened(watched, 0), "its end is, too")
                await eventually(has_totals(watched, known=True), "the totals of AMQP 0-9-1 are there")
                broker.rabbitmqctl("eval", "application:stop(rabbitmq_prometheus).")
                await eventually(are_counted(watched, "classic", {"messages": 1}), "no counter is left")
                await eventually(has_totals(watched, known=False), "no total is left")


def has_totals(watched: Watch, *, known: bool) -> Callable[[], Awaitable[bool]]:
    """Return the condition that messages of AMQP 0-9-1 clients are counted, or their number is absent."""
    received = list(PROTOCOLS.rule.statistics).index("messagesReceived")

    async def met() -> bool:
        totals = {one.name.leaf: one.statistics[received] for one in watched.source.known("protocol")}
        return bool(totals.get("amqp091")) if known else "amqp091" in totals and totals["amqp091"] is None

    return met


NOTHING: Mapping[str, Value | None] = dict.fromkeys(COUNTERS, 0)
PUBLISHED = {"messages": 3, **NOTHING, "messagesPublished": 3}
ACKNOWLEDGED = {
    "messages": 1,
    **NOTHING,
    "messagesPublished": 3,
    "messagesGot": 1,
    "messagesGotWithoutAck": 1,
    "messagesDeliveredOrGot": 2,
    "messagesAcknowledged": 1,
}


def are_counted(
    watched: Watch, queue: str, expected: Mapping[str, Value | None]
) -> Callable[[], Awaitable[bool]]:
    """Return the condition that messages and counters of a queue are as expected, and all others absent."""

    async def met() -> bool:
        known = measured(watched).get(queue, {})
        return {name: known.get(name) for name in ("messages", *COUNTERS)} == {
            name: expected.get(name) for name in ("messages", *COUNTERS)
        }

    return met


def opened(watched: Watch, count: int) -> Callable[[], Awaitable[bool]]:
    """Return the condition that so many connections are known."""

    async def met() -> bool:
        return len(list(watched.source.known("connection"))) == count

    return met
