"""Clients of AMQP 1.0, MQTT and streams on a real RabbitMQ: everything that the broker lists is shown."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from proton import Event
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector
from rstream import AMQPMessage, Consumer, Producer

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.source_config import PollingConfig
from tests.components.rabbitmq import TEST_SETTINGS, version_of
from tests.components.waiting import until
from tests.hypothesis_profiles import PROVING
from tests.sources.rabbitmq.watching import MAPPING, Watch, complaints, ready, watch

PLUGINS = ("rabbitmq_mqtt", "rabbitmq_stream", "rabbitmq_stream_management", "rabbitmq_prometheus")
RECEIVERS = 3
CLIENT = "a-client"
LEAVE = "leave"
ROUNDS = 5 if PROVING else 2
COLLECTED_OFTEN = """
[{ok, _} = timer:send_interval(1000, Name, start_gc) || Name <- [rabbit_core_metrics_gc, rabbit_mgmt_gc]].
"""
"""Make the broker remove ended objects each second.

Its listings have consumers whose end no event reported until its own check, which runs every two minutes.
"""
RAFT_TERM = list(MAPPING.classes["queue"].statistics).index("raftTerm")


class Receivers(MessagingHandler):
    """Receivers of the queue ``orders`` over AMQP 1.0, each in a session of its own, and a sender."""

    def __init__(self, url: str, injector: EventInjector) -> None:
        super().__init__(prefetch=7)
        self._url = url
        self._injector = injector
        self._connection: Any = None
        self.opened = threading.Semaphore(0)

    def on_start(self, event: Event) -> None:
        """Connect, and open the links."""
        self._connection = event.container.connect(self._url, heartbeat=30)
        for number in range(RECEIVERS):
            session = self._connection.session()
            session.open()
            receiver = session.receiver(f"receiver-{number}")
            receiver.source.address = "/queues/orders"
            receiver.open()
        event.container.create_sender(self._connection, "/queues/orders", name="sender")

    def on_link_opened(self, event: Event) -> None:
        """Count a link that is open at both ends."""
        assert event.link is not None
        self.opened.release()

    def on_leave(self, event: Event) -> None:
        """Close the connection; the container ends with it."""
        assert event.type.name == LEAVE
        self._injector.close()
        self._connection.close()


@contextmanager
def amqp10_clients(broker: PrivateBroker) -> Iterator[None]:
    user = broker.administrator
    url = f"amqp://{quote(user.name)}:{quote(user.password)}@127.0.0.1:{broker.ports.amqp}"
    injector = EventInjector()
    receivers = Receivers(url, injector)
    container = Container(receivers, container_id=CLIENT)
    container.selectable(injector)
    thread = threading.Thread(target=container.run, daemon=True)
    thread.start()
    for _ in range(RECEIVERS + 1):
        assert receivers.opened.acquire(timeout=30)
    try:
        yield
    finally:
        injector.trigger(ApplicationEvent(LEAVE))
        thread.join(timeout=10)
        assert not thread.is_alive()


@contextmanager
def mqtt_client(broker: PrivateBroker) -> Iterator[None]:
    """Run a client with subscriptions of QoS 1 and QoS 0; the latter has a queue type of its own."""
    subscribed = threading.Semaphore(0)
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=CLIENT)
    client.username_pw_set(broker.administrator.name, broker.administrator.password)
    client.on_subscribe = lambda *_: subscribed.release()
    client.connect("127.0.0.1", broker.ports.mqtt)
    # Not the client's own thread, which its ``loop_stop`` cannot await while it ends by itself.
    loop = threading.Thread(target=client.loop_forever, daemon=True)
    loop.start()
    for topic, quality in (("a/b", 1), ("c/d", 0)):
        client.subscribe(topic, qos=quality)
        assert subscribed.acquire(timeout=30)
    try:
        yield
    finally:
        client.disconnect()
        loop.join(timeout=30)
        assert not loop.is_alive()


@asynccontextmanager
async def stream_clients(broker: PrivateBroker) -> AsyncIterator[None]:
    """Run a publisher of fifty messages, and a consumer that has received them all."""
    user = broker.administrator
    host, port = "127.0.0.1", broker.ports.stream
    received = asyncio.Semaphore(0)

    async def take(*_: object) -> None:
        received.release()

    async with (
        Producer(host, port, username=user.name, password=user.password) as producer,
        Consumer(host, port, username=user.name, password=user.password) as consumer,
    ):
        await consumer.start()
        await consumer.subscribe("log", take)
        for _ in range(50):
            await producer.send("log", AMQPMessage(body=b"x"))
        async with asyncio.timeout(30):
            for _ in range(50):
                await received.acquire()
        yield


def listed(broker: PrivateBroker, collection: str) -> list[dict[str, Any]]:
    with broker.http() as client:
        answer: list[dict[str, Any]] = client.get(collection).raise_for_status().json()
        return answer


def consumers_shown(watched: Watch) -> Counter[tuple[str, str]]:
    """Return the number of known consumers of each queue and tag."""
    return Counter((known.name.parts[1], known.name.parts[3]) for known in watched.source.known("consumer"))


def consumers_listed(broker: PrivateBroker) -> Counter[tuple[str, str]]:
    own = "amqp-gateway."
    return Counter(
        (one["queue"]["name"], one["consumer_tag"])
        for one in listed(broker, "consumers")
        if not one["queue"]["name"].startswith(own)
    )


def queue_types(broker: PrivateBroker) -> dict[str, str]:
    own = "amqp-gateway."
    return {one["name"]: one["type"] for one in listed(broker, "queues") if not one["name"].startswith(own)}


def queue_types_shown(watched: Watch) -> dict[str, Any]:
    position = list(MAPPING.classes["queue"].properties).index("type")
    return {known.name.leaf: known.properties[position] for known in watched.source.known("queue")}


@pytest.mark.long
@pytest.mark.each_rabbitmq(since="4.0")
async def test_consumers_without_channels_sessions_links_and_streams_are_shown_and_the_log_has_no_error(
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker],
) -> None:
    """Everything is read again and again, while it is there and when it has ended."""
    broker = start_rabbitmq(replace(TEST_SETTINGS, plugins=PLUGINS))
    declare(broker)
    administrator = broker.administrator
    every = dict.fromkeys(("overview", "lean", "missing_pause"), 3 * SECOND)
    often = PollingConfig(budget=0.5, interval=2 * SECOND, slow={}, **every)
    async with watch(broker, administrator, writer=administrator, metrics=True, polling=often) as watched:
        await ready(watched)
        before = Counter(watched.asked)
        with amqp10_clients(broker), mqtt_client(broker):
            async with stream_clients(broker):
                await until(
                    lambda: (
                        consumers_listed(broker)["orders", "0"] == RECEIVERS
                        and len(consumers_listed(broker)) >= 3
                    ),  # AMQP 1.0, MQTT, a stream
                    "the broker lists them",
                )
                wanted = consumers_listed(broker)
                assert "rabbit_mqtt_qos0_queue" in queue_types(broker).values()
                await until(lambda: queue_types_shown(watched) == queue_types(broker), "the types of queues")
                await until(lambda: consumers_shown(watched) == wanted, "all consumers are shown")
                await streams_as_listed(broker, watched)
                await until(lambda: CLIENT in provided_names(watched), "the client's own name")
                if version_of(broker) != (4, 0):
                    await links_as_listed(broker, watched)
                await read_again_and_again(watched, before)
        await until(lambda: not list(watched.source.known("streamConsumer")), "they end")
        assert complaints(broker) == []
        broker.rabbitmqctl("eval", COLLECTED_OFTEN)
        await until(lambda: not consumers_listed(broker), "the broker lists none")
        await until(lambda: not consumers_shown(watched), "those end of which no event says so")
        assert not list(watched.source.known("session"))


def declare(broker: PrivateBroker) -> None:
    """Declare queues, and something of all else that a broker lists."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    with broker.http() as client:
        for name, kind in (("orders", "classic"), ("log", "stream"), ("ledger", "quorum")):
            queue = {"durable": True, "arguments": {"x-queue-type": kind}}
            client.put(f"queues/%2F/{name}", json=queue).raise_for_status()
        for policies in ("policies", "operator-policies"):
            policy = {"pattern": "^o", "definition": {"max-length": 9}}
            client.put(f"{policies}/%2F/cap", json=policy).raise_for_status()
        topic = {"exchange": "amq.topic", "write": ".*", "read": ".*"}
        user = quote(broker.administrator.name)
        client.put(f"topic-permissions/%2F/{user}", json=topic).raise_for_status()
        client.put("vhosts/elsewhere", json={}).raise_for_status()
        client.put(f"permissions/elsewhere/{user}", json=everything).raise_for_status()


async def read_again_and_again(watched: Watch, before: Counter[str]) -> None:
    """Wait until all that was read before, and sessions, were read again; check that the readings agree."""
    paths = set(before) | {path for path in watched.asked if path.endswith("/sessions")}
    assert {"overview", "stream/consumers", "feature-flags", "topic-permissions"} <= paths
    repeated = {path for path in paths if "/%2F/" not in path and not path.startswith("exchanges/")}
    await until(
        lambda: all(watched.asked[path] > before[path] + ROUNDS for path in repeated),
        "all is listed again and again",
    )
    statistics = watched.source.statistics
    assert statistics is not None
    assert statistics.active, "metrics are read"
    await until(
        lambda: any(known.statistics[RAFT_TERM] for known in watched.source.known("queue")),
        "Raft figures are read",
    )
    assert alternating(watched) == set(), "a listing with statistics and one without agree"


def alternating(watched: Watch) -> set[tuple[str, str, str]]:
    """Return class, name and element of each property that was absent after it was shown, and came back."""
    last: dict[str, dict[str, Any]] = {}
    left: set[tuple[str, str]] = set()
    found: set[tuple[str, str, str]] = set()
    for one in watched.seen:
        elements = list(MAPPING.classes[one.key.name].properties)
        values = dict(zip(elements, one.properties or (), strict=False))
        before = last.get(one.native_id, {})
        for element, value in values.items():
            place = (one.native_id, element)
            if value is None and before.get(element) is not None:
                left.add(place)
            elif value is not None and place in left:
                found.add((one.key.name, str(values.get("name")), element))
        last[one.native_id] = values or before
    return found


@pytest.mark.prove  # test_direct_connections_of_other_protocols_are_clients_of_any_user, without a broker
@pytest.mark.each_rabbitmq(until="3.10")
async def test_mqtt_connections_of_the_gateways_own_user_are_shown(
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker],
) -> None:
    """RabbitMQ 3.10 has a direct connection for each, as for a publication of the management API."""
    broker = start_rabbitmq(replace(TEST_SETTINGS, plugins=("rabbitmq_mqtt",)))
    async with watch(broker, broker.administrator) as watched:
        await ready(watched)
        with mqtt_client(broker):
            await until(lambda: CLIENT in provided_names(watched), "the client is shown")
            assert {one["name"] for one in listed(broker, "connections")} <= {
                known.name.leaf for known in watched.source.known("connection")
            } | own_connections(broker)


def own_connections(broker: PrivateBroker) -> set[str]:
    product = "amqp-gateway"
    return {
        one["name"]
        for one in listed(broker, "connections")
        if one["client_properties"].get("product") == product
    }


def provided_names(watched: Watch) -> set[Any]:
    position = list(MAPPING.classes["connection"].properties).index("providedName")
    return {known.properties[position] for known in watched.source.known("connection")}


async def streams_as_listed(broker: PrivateBroker, watched: Watch) -> None:
    def agrees() -> bool:
        (consumer,), (publisher,) = listed(broker, "stream/consumers"), listed(broker, "stream/publishers")
        shown, published = (
            [known.statistics for known in watched.source.known(name)]
            for name in ("streamConsumer", "streamPublisher")
        )
        offset = (consumer["offset"], consumer["offset_lag"], consumer["credits"], consumer["consumed"])
        counters = (publisher["published"], publisher["confirmed"], publisher["errored"])
        return publisher["published"] == 50 and (shown, published) == ([offset], [counters])

    await until(agrees, "stream consumer and publisher are as the management API has them")


async def links_as_listed(broker: PrivateBroker, watched: Watch) -> None:
    """Check that sessions and links are the same as in the management API."""
    (connection,) = [one["name"] for one in listed(broker, "connections") if one["protocol"] == "AMQP 1-0"]
    sessions = listed(broker, f"connections/{quote(connection, safe='')}/sessions")
    wanted = Counter(
        (direction, link["link_name"], link["credit"])
        for session in sessions
        for direction in ("incoming", "outgoing")
        for link in session[f"{direction}_links"]
    )
    assert len(sessions) == RECEIVERS + 1
    assert sum(wanted.values()) == RECEIVERS + 1

    def shown() -> Counter[Any]:
        name = list(MAPPING.classes["link"].properties).index("name")
        credit = list(MAPPING.classes["link"].statistics).index("credit")
        return Counter(
            (one.name.parts[2], one.properties[name], one.statistics[credit])
            for one in watched.source.known("link")
        )

    await until(lambda: shown() == wanted, "links are as the management API has them")
    assert len(list(watched.source.known("session"))) == len(sessions)
