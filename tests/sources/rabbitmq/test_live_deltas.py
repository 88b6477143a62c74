"""What the event log counts of a real broker whose answers lack something, or are wrong for a moment.

One broker, one gateway and one agent for all tests; each has queues of its own. Whatever happens, the sum of
the log's deltas is what was published.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import aio_pika
import httpx
import pytest
from aio_pika.abc import AbstractChannel

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.eventlog.query import ask
from gateway.model.times import MILLISECOND
from tests.components.changing_proxy import Proxy, Reply, kept, proxy
from tests.components.waiting import eventually, until
from tests.durable.plant import PLAIN, READ, Plant, plant

pytestmark = [pytest.mark.xdist_group("live deltas"), pytest.mark.long]

FIRST, FURTHER = 1000, 30
"""The messages published to each queue before something happens, and afterwards."""

SECONDS: Final = 90.0
"""The time for what takes seconds; a fall waits for three readings."""

Document = dict[str, Any]
Change = Callable[[Document], list[Document]]
"""What a proxy makes of the document of a queue in a listing."""


def without_statistics(document: Document) -> list[Document]:
    return [{key: value for key, value in document.items() if key not in {"message_stats", "messages"}}]


def without_message_stats(document: Document) -> list[Document]:
    return [{key: value for key, value in document.items() if key != "message_stats"}]


def of(count: int) -> Change:
    """Return a change by which so many messages were published."""
    return lambda document: [document | {"message_stats": {"publish": count}}]


def strange(document: Document) -> list[Document]:
    """Elements are of other types than a broker has for them."""
    return [
        document | {"type": {}, "state": [], "node": 7, "durable": "yes", "messages": {}, "consumers": []}
    ]


def twice(document: Document) -> list[Document]:
    """There are two of the name, the first with more messages."""
    more = {"message_stats": {"publish": FIRST + 40}, "messages": document.get("messages", 0) + 49}
    return [document | more, document]


CHANGES: Final[Mapping[str, Change]] = {
    "lacks-statistics": without_statistics,
    "lacks-message-stats": without_message_stats,
    "negative": of(-3),
    "less": of(700),
    "more": of(5_001_000),
    "strange": strange,
    "twice": twice,
}
"""Changes of one listing, by the beginning of the name of a queue."""

SUMS = """SELECT object_name, sum((deltas->'messagesPublished'->>'delta')::HUGEINT) FROM log
          WHERE source = $source AND class = $class AND (deltas->'messagesPublished') IS NOT NULL
          GROUP BY ALL"""
"""As documented."""

CREATED = """SELECT DISTINCT epoch_ns(create_ts) FROM log
             WHERE source = $source AND class = 'queue' AND object_name = $name AND create_ts IS NOT NULL"""
"""The times of creation that were recorded of a queue (ns)."""

NEW_QUEUES = """SELECT object_name FROM log
                WHERE source = $source AND kind = 'event' AND event = 'queueCreated' ORDER BY seq"""
GAPS = "SELECT text FROM log WHERE source = $source AND kind = 'gap' ORDER BY seq"

LAST = """SELECT "values"->>'messagesPublished' FROM log
          WHERE source = $source AND class = $class AND object_name = $name
          AND (("values"->>'messagesPublished') IS NOT NULL OR list_contains("absent", 'messagesPublished'))
          ORDER BY seq DESC LIMIT 1"""
"""The last recorded number of messages published to an object; null where it became absent."""


@dataclass
class Shop:
    """A broker with an agent, and a gateway that reads both; the broker through a proxy.

    Attributes:
        plant: broker, agent and gateway.
        between: the proxy.
        user: the user who reads the broker.
        changes: the changes of the next listing, by the name of the queue.
        listed: the messages published to each queue, in the last listing that the gateway got.
        read: the number of listings.
    """

    plant: Plant
    between: Proxy
    user: str
    changes: dict[str, Change] = field(default_factory=dict)
    listed: dict[str, int] = field(default_factory=dict)
    read: int = 0

    def counted(self, source: str = READ, class_name: str = "queue") -> dict[str, int]:
        """Return the sums of the log's deltas, by object."""
        return {name: int(gained or 0) for name, gained in self._ask(SUMS, source, class_name)}

    def _ask(self, sql: str, source: str, class_name: str, **parameters: str) -> list[tuple[Any, ...]]:
        named = {"source": source, "class": class_name, **parameters}
        with ask(self.plant.site.state.path / "log", sql, named) as answer:
            return list(answer.rows)

    def recorded(self, sql: str, **parameters: str) -> list[Any]:
        """Return what a question with one column has found of the gateway's source."""
        with ask(self.plant.site.state.path / "log", sql, {"source": READ, **parameters}) as answer:
            return [one for (one,) in answer.rows]

    async def counts(self, expected: Mapping[str, int], source: str = READ) -> None:
        """Wait until the log has counted exactly this of queues, by their names."""

        async def counted() -> dict[str, int]:
            sums = await asyncio.to_thread(self.counted, source)
            return {name: sums.get(f"/|{name}", 0) for name in expected}

        await becomes(counted, expected, f"the sums of {source}")

    async def shows(
        self, name: str, values: Container[int | None], source: str = READ, class_name: str = "queue"
    ) -> None:
        """Wait until the last recorded number of messages published is one of these; ``None``: absent."""
        found: list[tuple[Any, ...]] = []

        async def shown() -> bool:
            found[:] = await asyncio.to_thread(self._ask, LAST, source, class_name, name=name)
            return any((None if value is None else int(value)) in values for (value,) in found)

        try:
            await eventually(shown, "what is recorded", SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{source} recorded last of {name}: {found}, not {values}") from error

    def change_listing(self, path: str, reply: Reply) -> Reply:
        """Change the documents of queues in a listing as wanted, once."""
        if path.partition("?")[0] != "/api/queues" or reply[0] != httpx.codes.OK:
            return reply
        page = json.loads(reply[1])
        self.read += 1
        changes = [(self.changes.pop(item["name"], None), item) for item in page["items"]]
        page["items"] = [
            changed for change, item in changes for changed in (change(item) if change else [item])
        ]
        # Without a number of messages there are no statistics at all: that is not 0.
        self.listed = {
            one["name"]: one.get("message_stats", {}).get("publish", 0)
            for one in page["items"]
            if "messages" in one
        }
        return reply[0], json.dumps(page).encode()

    async def lists(self, expected: Mapping[str, int]) -> None:
        """Wait until a listing has these numbers of messages published."""

        async def listed() -> dict[str, int | None]:
            return {name: self.listed.get(name) for name in expected}

        await becomes(listed, expected, "the listing")

    async def gains(self, channel: AbstractChannel, queues: Iterable[str], listed: int) -> None:
        """Publish `FURTHER` messages to queues with ``listed`` each; a fall stays at the third reading."""
        for number in range(1, 4):
            for queue in queues:
                await publish(channel, queue, FURTHER // 3)
            await self.lists(dict.fromkeys(queues, listed + number * FURTHER // 3))

    @asynccontextmanager
    async def publisher(self, host: str = "/") -> AsyncIterator[AbstractChannel]:
        """Provide a channel that lives on: the broker may lose the last counts of one that ends."""
        url = self.plant.broker.amqp_url(vhost=host)
        async with (
            await aio_pika.connect(url) as connection,
            connection.channel(publisher_confirms=False) as channel,
        ):
            yield channel


async def becomes(read: Callable[[], Awaitable[object]], expected: object, what: str) -> None:
    """Wait until ``read`` returns what is expected; fail with what it returned."""
    found: list[object] = []

    async def is_so() -> bool:
        found[:] = [await read()]
        return found == [expected]

    try:
        await eventually(is_so, what, SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{what}: {found}, not {expected}") from error


async def publish(channel: AbstractChannel, queue: str, count: int) -> None:
    for _ in range(count):
        await channel.default_exchange.publish(aio_pika.Message(b"x"), queue)


def channels_counted(broker: PrivateBroker, queue: str) -> int:
    """Return the number of channels of which the broker has counts of publishing to a queue."""
    rows = "ets:tab2list(channel_queue_exchange_metrics)"
    name = f'{{_, {{{{resource, _, queue, <<"{queue}">>}}, _}}}}'
    return int(broker.rabbitmqctl("eval", f"length([1 || {{{name}, _, _}} <- {rows}])."))


def is_forgotten(broker: PrivateBroker, queue: str) -> bool:
    return not channels_counted(broker, queue)


def new_name(beginning: str) -> str:
    return f"{beginning}-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, rabbitmq_settings: BrokerSettings) -> Iterator[Shop]:
    with (
        PrivateBroker(settings=rabbitmq_settings) as broker,
        proxy(broker.ports.management, kept) as between,
    ):
        users: list[str] = []

        def through_proxy(sources: dict[str, Any]) -> None:
            sources[READ]["management"] = between.url
            users.append(sources[READ]["user"])

        with plant(broker, tmp_path_factory.mktemp("shop"), through_proxy) as made:
            made.start()
            shop = Shop(made, between, users[0])
            between.answer = shop.change_listing
            yield shop


async def test_a_listing_that_is_wrong_for_a_moment_counts_nothing(shop: Shop) -> None:
    queues = {new_name(beginning): change for beginning, change in CHANGES.items()}
    async with shop.publisher() as channel:
        for queue in queues:
            await channel.declare_queue(queue, durable=True)
            await publish(channel, queue, FIRST)
        await shop.counts(dict.fromkeys(queues, FIRST))
        gaps = shop.recorded(GAPS)
        shop.changes |= queues
        await until(lambda: not shop.changes, "a listing has changed documents")
        await shop.gains(channel, queues, FIRST)
        await shop.counts(dict.fromkeys(queues, FIRST + FURTHER))
    assert shop.recorded(GAPS) == gaps, "the source went on"
    ends = shop.recorded("SELECT object_name FROM log WHERE source = $source AND kind = 'delete'")
    assert not {f"/|{queue}" for queue in queues} & {*ends}


async def test_a_virtual_host_that_may_not_be_read_for_a_moment_is_not_counted_again(shop: Shop) -> None:
    host = new_name("host")
    name, permission = f"{host}|orders", f"permissions/{host}/{shop.user}"
    rights = {"configure": "^$", "write": "^$", "read": ".*"}
    with shop.plant.broker.http() as http:
        http.put(f"vhosts/{host}").raise_for_status()
        http.put(permission, json=rights).raise_for_status()
        own = f"permissions/{host}/{shop.plant.broker.administrator.name}"
        http.put(own, json=dict.fromkeys(rights, ".*")).raise_for_status()
        async with shop.publisher(host) as channel:
            await channel.declare_queue("orders", durable=True)
            await publish(channel, "orders", FIRST)
            await shop.shows(name, {FIRST})
            await shop.shows(host, {FIRST}, class_name="vhost")
            before = shop.counted(class_name="vhost").get(host, 0)
            for number in (1, 2):
                http.delete(permission).raise_for_status()
                await shop.shows(name, {None})
                await publish(channel, "orders", FURTHER)
                http.put(permission, json=rights).raise_for_status()
                await shop.shows(name, {FIRST + number * FURTHER})
            await shop.shows(host, {FIRST + 2 * FURTHER}, class_name="vhost")
    assert shop.counted()[name] == FIRST + 2 * FURTHER
    assert shop.counted(class_name="vhost")[host] == before + 2 * FURTHER


async def test_what_is_made_around_the_return_of_a_permission_is_counted_from_its_creation(
    shop: Shop,
) -> None:
    host = new_name("host")
    permission = f"permissions/{host}/{shop.user}"
    rights = {"configure": "^$", "write": "^$", "read": ".*"}
    with shop.plant.broker.http() as http:
        http.put(f"vhosts/{host}").raise_for_status()
        http.put(permission, json=rights).raise_for_status()
        own = f"permissions/{host}/{shop.plant.broker.administrator.name}"
        http.put(own, json=dict.fromkeys(rights, ".*")).raise_for_status()
        async with shop.publisher(host) as channel:
            await channel.declare_queue("before", durable=True)
            await publish(channel, "before", FIRST)
            await shop.shows(f"{host}|before", {FIRST})
            gaps = shop.recorded(GAPS)
            for name in ("meanwhile", "after"):
                http.delete(permission).raise_for_status()
                await shop.shows(f"{host}|before", {None})
                if name == "after":  # it is the first thing that happens then
                    http.put(permission, json=rights).raise_for_status()
                began = time.time_ns()
                await channel.declare_queue(name, durable=True)
                ended = time.time_ns()
                await publish(channel, name, FIRST)
                if name == "meanwhile":
                    http.put(permission, json=rights).raise_for_status()
                await shop.shows(f"{host}|{name}", {FIRST})
                (created,) = shop.recorded(CREATED, name=f"{host}|{name}")
                assert began - MILLISECOND <= created <= ended
                await shop.shows(f"{host}|before", {FIRST})
            reported = [name for name in shop.recorded(NEW_QUEUES) if name.startswith(host)]
            assert reported == [f"{host}|before", f"{host}|after"]
    counted = shop.counted()
    assert {counted[f"{host}|{name}"] for name in ("before", "meanwhile", "after")} == {FIRST}
    assert shop.recorded(GAPS) == gaps


def reset(broker: PrivateBroker) -> None:
    with broker.http() as http:
        http.delete("reset").raise_for_status()


def management_off_and_on(broker: PrivateBroker) -> None:
    """Do what RabbitMQ does when the plugin is disabled and enabled; the agent keeps the statistics."""
    apps = "[rabbitmq_management_agent, rabbitmq_management]"
    broker.rabbitmqctl("eval", f"rabbit:stop_apps(lists:reverse({apps})), rabbit:start_apps({apps}, #{{}}).")


@pytest.mark.parametrize("forget", [reset, management_off_and_on])
async def test_statistics_that_are_reset_count_on_from_zero(
    shop: Shop, forget: Callable[[PrivateBroker], None]
) -> None:
    """Also those of a queue that shows no less than before its last rise, with which it got all it had."""
    by_steps, at_once = new_name("reset"), new_name("at-once")
    async with shop.publisher() as channel:
        for queue in (by_steps, at_once):
            await channel.declare_queue(queue, durable=True)
        await shop.lists({by_steps: 0, at_once: 0})
        await publish(channel, by_steps, FIRST)
        await shop.counts({by_steps: FIRST})
        await publish(channel, by_steps, FURTHER)
        await publish(channel, at_once, FIRST)
        await shop.counts({by_steps: FIRST + FURTHER, at_once: FIRST})
    # What the broker has not yet forgotten of the closed channel it would count again after the reset.
    for queue in (by_steps, at_once):
        await until(partial(is_forgotten, shop.plant.broker, queue), "the closed channel is forgotten")
    shown = shop.read
    await until(lambda: shop.read >= shown + 3, "three more listings")
    await asyncio.to_thread(forget, shop.plant.broker)
    await shop.lists({by_steps: 0, at_once: 0})
    async with shop.publisher() as channel:
        await shop.gains(channel, [by_steps, at_once], 0)
        await shop.counts({by_steps: FIRST + 2 * FURTHER, at_once: FIRST + FURTHER})


async def test_the_end_of_a_publisher_counts_nothing(shop: Shop) -> None:
    """RabbitMQ's Prometheus plugin sums over the channels that live: its totals fall when one ends."""
    queue = new_name("left")
    async with shop.publisher() as stays:
        await stays.declare_queue(queue, durable=True)
        await publish(stays, queue, FIRST)
        async with shop.publisher() as leaves:
            await publish(leaves, queue, FURTHER)
            await shop.counts({queue: FIRST + FURTHER})
        await until(lambda: channels_counted(shop.plant.broker, queue) == 1, "one channel is left")
        await publish(stays, queue, 7)
        await shop.counts({queue: FIRST + FURTHER + 7})
        await shop.lists({queue: FIRST + FURTHER + 7})
    assert shop.counted()[f"/|{queue}"] == FIRST + FURTHER + 7


async def test_a_queue_that_is_declared_again_does_not_count_what_the_former_one_did(shop: Shop) -> None:
    """RabbitMQ goes on with the counts of the former one, or not; by AM2 its agent says so."""
    queue = new_name("again")
    async with shop.publisher() as channel:
        await channel.declare_queue(queue, durable=True)
        await publish(channel, queue, FIRST)
        for source in (READ, PLAIN):
            await shop.counts({queue: FIRST}, source)
        await channel.queue_delete(queue)
        await channel.declare_queue(queue, durable=True)
        await publish(channel, queue, FURTHER)
        for source in (READ, PLAIN):
            await shop.shows(f"/|{queue}", {FURTHER, FIRST + FURTHER}, source)
        await publish(channel, queue, 7)
        for source in (READ, PLAIN):
            await shop.shows(f"/|{queue}", {FURTHER + 7, FIRST + FURTHER + 7}, source)
            assert FIRST + 7 <= shop.counted(source)[f"/|{queue}"] <= FIRST + FURTHER + 7
