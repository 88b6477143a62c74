"""The source on a real RabbitMQ: it observes what other clients do there."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import quote

import aio_pika
import httpx
import pytest

from gateway.clock import SystemClock
from gateway.demo.broker import BrokerSettings, Credentials, PrivateBroker
from gateway.dialects.session import BacklogFollows, LinkDown, LinkUp, LossSuspected
from gateway.links.amqp_connection import AmqpEndpoint
from gateway.links.durable_queue import DurableSubscription
from gateway.model.observations import SourceState
from gateway.model.times import HOUR, SECOND
from gateway.sources.rabbitmq import event_consumer
from gateway.sources.rabbitmq.event_consumer import EventConsumer, Received
from gateway.sources.rabbitmq.events import BINDING_CREATED, EVENT_EXCHANGE
from gateway.sources.rabbitmq.source_events import BrokerEventReceived
from tests.components.rabbitmq import ALWAYS_BOUND, VirtualHost, login_refusal, new_virtual_host
from tests.components.waiting import eventually, until
from tests.links.ledger import MemoryLedger
from tests.sources.rabbitmq.watching import (
    MAPPING,
    OFTEN,
    complaints,
    event_endpoint,
    node_name,
    reading_user,
    ready,
    synchronised,
    watch,
)

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)


async def test_a_queue_of_another_client_comes_counts_and_goes(virtual_host: VirtualHost) -> None:
    with reading_user(virtual_host.broker, [virtual_host.name]) as user:
        async with watch(virtual_host.broker, user, virtual_host=virtual_host.name) as watched:
            await ready(watched)
            async with await aio_pika.connect(virtual_host.amqp_url()) as client:
                channel = await client.channel()
                # Since 4.0 the broker adds the type where it is not declared.
                queue = await channel.declare_queue(
                    "orders", durable=True, arguments={"x-max-length": 9, "x-queue-type": "classic"}
                )
                await until(lambda: watched.exists("queue", "orders"), "the queue is heard of")
                # On a busy machine a listing has it before its event.
                await until(
                    lambda: any(one.created for one in watched.received("queue", "orders")),
                    "it has its begin",
                )
                assert watched.value("queue", "orders", "arguments") == {
                    "x-max-length": 9,
                    "x-queue-type": "classic",
                }
                for _ in range(3):
                    await channel.default_exchange.publish(aio_pika.Message(b"x"), "orders")
                await until(lambda: watched.value("queue", "orders", "messages") == 3, "its messages count")
                await until(
                    lambda: watched.value("queue", "orders", "messagesPublished") == 3, "publications count"
                )
                assert watched.value("queue", "orders", "messagesDelivered") in (None, 0)
                await queue.delete(if_empty=False)
                await until(lambda: watched.gone("queue", "orders"), "its end is heard of")
                await channel.declare_queue("orders", durable=True)
                await until(lambda: watched.exists("queue", "orders"), "its successor is heard of")
            ids = {one.native_id for one in watched.received("queue", "orders")}
            assert len(ids) == 2


async def test_what_lives_for_a_moment_is_seen_too(virtual_host: VirtualHost) -> None:
    with reading_user(virtual_host.broker, [virtual_host.name]) as user:
        async with watch(virtual_host.broker, user, virtual_host=virtual_host.name) as watched:
            await ready(watched)
            async with await aio_pika.connect(
                virtual_host.amqp_url(), client_properties={"connection_name": "moment"}
            ) as client:
                channel = await client.channel()
                await channel.declare_queue("mine", exclusive=True)
            await until(lambda: watched.gone("queue", "mine"), "queue")
            reported = [
                one.properties for one in watched.seen if one.key.name == "connection" and one.properties
            ]
            name = next(str(properties[0]) for properties in reported if "moment" in properties)
            await until(lambda: watched.gone("connection", name), "connection")
            assert watched.received("queue", "mine")[-1].created
            own = [one for one in watched.source.known("queue") if one.name.leaf.startswith("amqp-gateway.")]
            assert own == []


async def test_a_virtual_host_without_permission_is_not_shown_as_empty(virtual_host: VirtualHost) -> None:
    with (
        new_virtual_host(virtual_host.broker) as secret,
        reading_user(virtual_host.broker, [virtual_host.name]) as user,
    ):
        with secret.http() as client:
            client.put(f"queues/{secret.path}/hidden", json={}).raise_for_status()
        async with watch(virtual_host.broker, user, virtual_host=virtual_host.name) as watched:
            await ready(watched)
            assert watched.value("vhost", secret.name, "state") == "notPermitted"
            assert watched.value("vhost", secret.name, "messages") is None
            assert watched.value("vhost", virtual_host.name, "state") == "running"
            assert watched.received("queue", "hidden") == []


async def test_rights_that_are_taken_away_end_nothing(virtual_host: VirtualHost) -> None:
    """Without the tag RabbitMQ answers 200, and leaves out what is of others; so without a permission."""
    broker, policies = virtual_host.broker, ("policy", "operatorPolicy")
    of_monitors = ("vhost", "connection", "channel", "consumer")
    with new_virtual_host(broker) as secret, reading_user(broker, [virtual_host.name]) as user:
        with virtual_host.http() as http:
            for kind in ("policies", "operator-policies"):
                body: dict[str, object] = {"pattern": "^none$", "definition": {"max-length": 5}}
                http.put(f"{kind}/{virtual_host.path}/bound", json=body).raise_for_status()
        async with (
            await aio_pika.connect(virtual_host.amqp_url()) as client,
            watch(broker, user, events=False) as watched,
        ):
            queue = await (await client.channel()).declare_queue("orders")
            await queue.consume(ignore)

            def mine(class_name: str) -> dict[int, bool]:
                """Return whether objects of this test are unread, by number: others use the broker, too."""
                every = watched.source.known(class_name)
                if class_name == "vhost":
                    every = [one for one in every if one.name.leaf == secret.name]
                elif class_name in {"connection", "channel"}:
                    host = list(MAPPING.classes["connection"].properties).index("vhost")
                    found = [
                        one
                        for one in watched.source.known("connection")
                        if one.properties[host] == virtual_host.name
                    ]
                    names = tuple(one.name.leaf for one in found) or ("?",)
                    every = [one for one in every if one.name.leaf.startswith(names)]
                else:
                    every = [one for one in every if one.name.parts[0] == virtual_host.name]
                return {one.number: bool(one.unread_since) for one in every}

            async def change(*arguments: str) -> None:
                await asyncio.to_thread(broker.rabbitmqctl, *arguments)

            async def are_listed(*class_names: str) -> None:
                """Wait until these classes were listed some times more."""
                paths = [MAPPING.classes[class_name].listing for class_name in class_names]
                limits = {path: watched.asked[path] + 4 for path in paths}
                await until(
                    lambda: all(watched.asked[path] >= limit for path, limit in limits.items()),
                    f"{class_names} are listed",
                )

            def are_unread(*class_names: str) -> bool:
                return all(mine(name) and all(mine(name).values()) for name in class_names)

            def lacks(class_name: str) -> bool:
                text = f"the broker lists class {class_name} without"
                return watched.status is not None and text in watched.status.detail

            await ready(watched, events=False)
            await until(lambda: all(map(mine, (*of_monitors, *policies))), "everything is known")
            before = {name: mine(name).keys() for name in (*of_monitors, *policies)}
            await change("set_user_tags", user.name, "management")
            await until(lambda: are_unread(*of_monitors), "they are unread")
            await are_listed(*of_monitors)
            await until(lambda: all(map(lacks, of_monitors)), "the source says so")
            assert {name: mine(name).keys() for name in before} == before
            assert watched.status is not None
            assert watched.status.state is SourceState.DEGRADED
            assert "give it the tag 'monitoring'" in watched.status.detail

            await change("set_user_tags", user.name, "monitoring")
            await until(lambda: not any(any(mine(name).values()) for name in of_monitors), "they are read")
            await change("clear_permissions", "-p", virtual_host.name, user.name)
            await until(lambda: are_unread(*policies), "policies are unread")
            await are_listed(*policies)
            assert {name: mine(name).keys() for name in before} == before


async def ignore(_message: object) -> None:
    """Take a message."""


async def test_without_the_event_plugin_the_agent_says_what_it_cannot_see(
    start_rabbitmq: Callable[[BrokerSettings], PrivateBroker],
) -> None:
    settings = BrokerSettings(statistics_interval=1.0, grace=0, event_exchange=False)
    broker = await asyncio.to_thread(start_rabbitmq, settings)
    async with watch(broker, broker.administrator) as watched:
        await ready(watched, events=False)
        await until(
            lambda: watched.status and "rabbitmq_event_exchange" in watched.status.detail,
            "the plugin is named",
        )
        assert watched.status is not None
        assert f"there is no exchange {EVENT_EXCHANGE}" in watched.status.detail
        with broker.http() as client:
            client.put("queues/%2F/slow", json={"durable": True}).raise_for_status()
            await until(lambda: watched.exists("queue", "slow"), "a listing shows it")
            client.delete("queues/%2F/slow").raise_for_status()
            await until(lambda: watched.gone("queue", "slow"), "its end is found out")


@pytest.mark.xdist_group("disturbed")
async def test_a_broker_that_was_killed_and_is_back_is_asked_nothing_that_it_cannot_answer_yet(
    unbound: PrivateBroker,
) -> None:
    """RabbitMQ 4.3 answers before it can report on itself."""
    broker = unbound
    with broker.http() as client:
        client.put("queues/%2F/lasting", json={"durable": True}).raise_for_status()
        client.put("queues/%2F/passing", json={"durable": False}).raise_for_status()
    async with watch(broker, broker.administrator) as watched:
        await ready(watched)
        started = watched.value("node", node_name(watched), "startTime")
        # What was declared within the last seconds is in the buffers of Mnesia only, where the node has it.
        await asyncio.to_thread(broker.rabbitmqctl, "eval", "catch mnesia:sync_log().")
        await asyncio.to_thread(broker.kill_node)
        await until(lambda: watched.status and watched.status.state is SourceState.DOWN, "down is noticed")
        said = len(complaints(broker))
        await asyncio.to_thread(broker.start)
        await until(synchronised(watched), "all is read again")
        await until(lambda: watched.gone("queue", "passing"), "what did not survive is gone")
        await until(lambda: watched.value("node", node_name(watched), "startTime") != started, "new start")
        with broker.http() as client:
            assert client.get("queues/%2F/lasting").is_success, "the broker lost it"
        assert watched.exists("queue", "lasting")
        assert len({one.native_id for one in watched.received("queue", "lasting")}) == 1
        await ready(watched)
    assert complaints(broker)[said:] == []
    with broker.http() as client:
        client.delete("queues/%2F/lasting").raise_for_status()


@pytest.mark.xdist_group("disturbed")
@pytest.mark.parametrize("is_durable", [False, True], ids=["plain", "durable"])
async def test_a_broker_whose_events_are_connected_again_is_read_at_once(
    disturbed: PrivateBroker, *, is_durable: bool
) -> None:
    """Pauses grow while nothing answers; here the first one is longer than any test.

    So are those of collections that the broker lacks, without which the reading is not complete. What a
    durable subscription has missed is asked of the management API before its events are taken.
    """
    seldom = replace(OFTEN, first_pause=HOUR, longest_pause=HOUR)
    queue = f"amqp-gateway.events.test-{secrets.token_hex(4)}"
    subscription = DurableSubscription(queue, 10_000, 60 * SECOND, MemoryLedger())
    durable = subscription if is_durable else None
    async with watch(disturbed, disturbed.administrator, polling=seldom, subscription=durable) as watched:
        await ready(watched)
        await asyncio.to_thread(disturbed.rabbitmqctl, "stop_app")
        await until(lambda: watched.status and watched.status.state is SourceState.DOWN, "down is noticed")
        await until(lambda: watched.source.request_at > time.time_ns() + HOUR / 2, "nothing is asked")
        before = watched.asked["queues"]
        await asyncio.to_thread(disturbed.rabbitmqctl, "start_app")
        await until(lambda: watched.asked["queues"] > before, "it is read")
        assert watched.status is not None
        assert watched.status.state is SourceState.SYNCHRONISING
    with disturbed.http() as client:
        client.delete(f"queues/%2F/{queue}")


async def test_a_wrong_password_is_said_clearly(rabbitmq: PrivateBroker) -> None:
    with reading_user(rabbitmq, []) as user:
        async with watch(rabbitmq, user, password="wrong") as watched:
            await until(lambda: watched.status and watched.status.state is SourceState.DOWN, "refused")
            assert watched.status is not None
            assert f"refuses user {user.name!r} ({login_refusal(rabbitmq)})" in watched.status.detail
            assert "wrong" not in watched.status.detail.replace("Login", "")


class Sink:
    """A sink that records what the consumer delivers; each event blocks the loop for ``delay`` seconds."""

    def __init__(self, delay: float = 0.0) -> None:
        self.events: list[tuple[str, Mapping[str, object]]] = []
        self.reported: list[str] = []
        self._delay = delay

        self._catching_up = False

    def receive(self, event: Received) -> None:
        match event:
            case LinkUp():
                self.reported.append("caught up" if self._catching_up else "connected")
                self._catching_up = False
            case BacklogFollows(missed, waiting):
                self._catching_up = True
                self.reported.append(f"resumed with {waiting}: {missed}")
            case LinkDown(reason):
                self._catching_up = False
                self.reported.append(reason)
            case LossSuspected(reason, since):
                assert since < time.time_ns()
                self.reported.append(f"lost: {reason}")
            case BrokerEventReceived(key, headers):
                self.events.append((key, headers))
                if self._delay:
                    # As a gateway that has more to do than it can: nothing else runs meanwhile.
                    time.sleep(self._delay)


def consumer_of_queues(endpoint: AmqpEndpoint, sink: Sink, max_length: int = 10_000) -> EventConsumer:
    return EventConsumer(endpoint, ["queue.*"], sink.receive, SystemClock(), max_length=max_length)


@pytest.mark.parametrize("by_name", [True, False], ids=["a known name", "another node of one cluster"])
async def test_events_of_another_broker_than_that_of_the_management_api_are_not_taken(
    virtual_host: VirtualHost, *, by_name: bool
) -> None:
    sink, of_any_broker = Sink(), Sink()
    clusters: set[str] = set()
    is_same = False

    async def has_queue(host: str, name: str) -> bool:
        with virtual_host.http() as client:
            return is_same and client.get(f"queues/{quote(host, safe='')}/{name}").status_code == 200

    def created(by: Sink = sink) -> list[object]:
        # The broker is that of other tests, too: this one runs beside itself with the other parameter.
        of_this_test = [(key, one) for key, one in by.events if one["vhost"] == virtual_host.name]
        return [headers["name"] for key, headers in of_this_test if key == "queue.created"]

    with reading_user(virtual_host.broker, []) as user:
        endpoint = event_endpoint(virtual_host.broker, user)
        consumer = EventConsumer(
            endpoint, ["queue.*"], sink.receive, SystemClock(), clusters=lambda: clusters, has_queue=has_queue
        )
        witness = EventConsumer(endpoint, ["queue.*"], of_any_broker.receive, SystemClock())
        with virtual_host.http() as client:
            name = client.get("cluster-name").json()["name"]
            running = asyncio.create_task(consumer.run()), asyncio.create_task(witness.run())
            await until(lambda: "connected" in of_any_broker.reported, "the witness")
            await until(lambda: "connected" in sink.reported, "as long as no name is known")
            clusters.add("stock")
            await until(lambda: any("is another broker" in line for line in sink.reported), "two names")
            client.put(f"queues/{virtual_host.path}/before", json={}).raise_for_status()
            await until(lambda: "before" in created(of_any_broker), "its event was published")
            clusters.update({name} if by_name else ())
            is_same = True
            consumer.try_again()
            await until(lambda: sink.reported[-1] == "connected", "the same broker")
            client.put(f"queues/{virtual_host.path}/after", json={}).raise_for_status()
            await until(lambda: "after" in created(), "the event of a queue")
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    assert "before" not in created()


TAKEN_FOR_UNBOUND = """sys:replace_state(rabbit_event,
    fun({rabbit_exchange_type_event, Id, State}) ->
            {rabbit_exchange_type_event, Id, setelement(tuple_size(State), State, false)};
        (Other) -> Other
    end)."""
"""A RabbitMQ 4 reaches this state if the last binding of its event exchange ends while another one begins."""


@pytest.mark.each_rabbitmq(since="4.0")
@pytest.mark.xdist_group("disturbed")
async def test_a_broker_that_takes_its_event_exchange_for_unbound_is_noticed(unbound: PrivateBroker) -> None:
    sink = Sink()
    with reading_user(unbound, []) as user:
        endpoint = event_endpoint(unbound, user)
        port = unbound.ports.amqp
        other = await aio_pika.connect(port=port, login=user.name, password=user.password)
        channel = await other.channel()
        queue = await channel.declare_queue("amqp-gateway.other", exclusive=True)
        await queue.bind(EVENT_EXCHANGE, "#")
        unbound.rabbitmqctl("eval", TAKEN_FOR_UNBOUND)

        consumer = EventConsumer(endpoint, ["queue.*", BINDING_CREATED], sink.receive, SystemClock())
        running = asyncio.create_task(consumer.run())
        await until(lambda: any("publishes nothing" in line for line in sink.reported), "its silence is told")
        assert "connected" not in sink.reported
        await other.close()
        await until(lambda: "connected" in sink.reported, "events arrive")
        with unbound.http() as client:
            client.put("queues/%2F/orders", json={}).raise_for_status()
        await until(lambda: "queue.created" in {key for key, _ in sink.events}, "the event of a queue")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        with unbound.http() as client:
            client.delete("queues/%2F/orders").raise_for_status()


@pytest.mark.parametrize(("max_length", "is_lost"), [(40, True), (10_000, False)])
async def test_more_events_than_can_wait_are_a_suspected_loss(
    virtual_host: VirtualHost, monkeypatch: pytest.MonkeyPatch, *, max_length: int, is_lost: bool
) -> None:
    """A burst that has room in the queue is none, however long it takes to consume it."""
    monkeypatch.setattr(event_consumer, "PREFETCH", 1)
    monkeypatch.setattr(event_consumer, "WATCH_SECONDS", 0.1)
    sink = Sink(delay=0.01)

    async def flood() -> None:
        async with await aio_pika.connect(virtual_host.amqp_url()) as connection:
            channel = await connection.channel()
            for number in range(200):
                await channel.declare_queue(f"q{number % 2}")
                await channel.queue_delete(f"q{number % 2}")

    with reading_user(virtual_host.broker, []) as user:
        consumer = consumer_of_queues(event_endpoint(virtual_host.broker, user), sink, max_length)
        running = asyncio.create_task(consumer.run())
        await until(lambda: sink.reported == ["connected"], "events arrive")
        await asyncio.to_thread(asyncio.run, flood())
        if is_lost:
            await until(lambda: any(line.startswith("lost: ") for line in sink.reported), "the doubt is told")
        else:
            # The broker has queues of other tests, too.
            await until(
                lambda: sum(headers["vhost"] == virtual_host.name for _, headers in sink.events) == 400,
                "all events were consumed",
            )
            assert sink.reported == ["connected"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def event_queues(client: httpx.Client, user: Credentials) -> list[str]:
    """Return the queues of events that a user has: those of other tests are not to be disturbed."""
    connections = client.get("connections").raise_for_status().json()
    own = [one["name"] for one in connections if one.get("user") == user.name]
    queues = [one["name"] for one in client.get("queues/%2F").raise_for_status().json()]

    def is_own(queue: str) -> bool:
        # One of another test may have ended meanwhile, and has no owner then.
        owner = str(client.get(f"queues/%2F/{queue}").json().get("owner_pid_details"))
        return any(name in owner for name in own)

    return [one for one in queues if one.startswith("amqp-gateway.events.") and is_own(one)]


async def test_only_the_broker_itself_is_trusted(virtual_host: VirtualHost) -> None:
    sink = Sink()
    broker = virtual_host.broker
    with reading_user(broker, []) as user, broker.http() as client:
        consumer = consumer_of_queues(event_endpoint(broker, user), sink)
        running = asyncio.create_task(consumer.run())
        await until(lambda: sink.reported == ["connected"], "events arrive")
        await until(lambda: event_queues(client, user), "the broker lists the queue")
        async with await aio_pika.connect(broker.amqp_url()) as liar:
            channel = await liar.channel()
            forged = aio_pika.Message(b"", headers={"name": "orders", "vhost": "forged"})
            for name in event_queues(client, user):
                await channel.default_exchange.publish(forged, name)
            truth = await aio_pika.connect(virtual_host.amqp_url())
            await (await truth.channel()).declare_queue("true", exclusive=True)
            await truth.close()
        await until(
            lambda: any(headers["vhost"] == virtual_host.name for _, headers in sink.events), "the true event"
        )
        assert not [headers for _, headers in sink.events if headers["vhost"] == "forged"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.xdist_group("disturbed")
async def test_a_connection_that_the_broker_ends_is_opened_again(disturbed: PrivateBroker) -> None:
    sink = Sink()
    consumer = consumer_of_queues(event_endpoint(disturbed, disturbed.administrator), sink)
    running = asyncio.create_task(consumer.run())
    await until(lambda: sink.reported == ["connected"], "events arrive")
    await asyncio.to_thread(disturbed.rabbitmqctl, "close_all_connections", "maintenance")
    await until(lambda: sink.reported.count("connected") == 2, "events arrive again")
    assert "maintenance" in sink.reported[1]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    with disturbed.http() as client:

        async def nothing_left() -> bool:
            queues = client.get("queues/%2F?columns=name").raise_for_status().json()
            return [one["name"] for one in queues] == [ALWAYS_BOUND]

        await eventually(nothing_left, "nothing is left on the broker")
