"""A broker that collects no statistics for its management API: the objects that are shown nevertheless."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.dialects.session import BacklogFollows, LinkUp, LossSuspected
from gateway.model.observations import SourceState
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.management_api import (
    UNMEASURED_COLLECTIONS,
    Answer,
    ListingRequest,
    ManagementRequest,
    NotManagement,
    OwnerRequest,
    Unavailable,
)
from gateway.sources.rabbitmq.source_config import PollingConfig, RabbitMqSourceConfig
from gateway.sources.rabbitmq.status import STATISTICS_OFF
from tests.sources.rabbitmq.imitation import World
from tests.sources.rabbitmq.story import CONNECTED_AT

OFF = NotManagement("Stats in management UI are disabled on this node")


def refuse_unmeasured(request: ManagementRequest) -> Answer | None:
    """Answer as RabbitMQ 3.10: an error for channels, consumers and the like, ``None`` for other requests."""
    of = getattr(request, "class_name", "")
    return OFF if of in {"channel", "consumer", "streamConsumer", "streamPublisher"} else None


def without_statistics() -> World:
    shop = World()
    shop.broker.statistics_off = True
    shop.broker.failure = refuse_unmeasured
    shop.broker.add_queue("orders", messages=3)
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(12)
    return shop


def client_connects(shop: World, name: str) -> None:
    shop.event(
        "connection.created", pid=f"<{name}>", name=name, user="app", vhost="/", connected_at=CONNECTED_AT
    )
    channel = f"{name} (1)"
    shop.event(
        "channel.created", pid=f"<{channel}>", name=channel, number=1, connection=f"<{name}>", vhost="/"
    )
    shop.run(1)


def listed(shop: World) -> set[str]:
    return {request.collection for request in shop.broker.requests if isinstance(request, ListingRequest)}


def test_all_else_is_read_and_the_source_says_so() -> None:
    shop = without_statistics()
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert shop.source.status.detail == STATISTICS_OFF
    assert listed(shop).isdisjoint(UNMEASURED_COLLECTIONS)
    assert shop.value("queue", "orders", "messages") == 3
    assert shop.value("queue", "orders", "messagesPublished") is None
    assert shop.names("vhost") == ["/"]


def test_the_totals_of_queues_are_asked_for_without_statistics() -> None:
    shop = without_statistics()
    (target,) = {
        request.target
        for request in shop.broker.requests
        if isinstance(request, ListingRequest) and request.class_name == "queue"
    }
    assert target.startswith(
        "queues?page=1&page_size=500&disable_stats=true&enable_queue_totals=true&columns="
    )


def test_connections_and_channels_come_and_go_by_events_and_no_listing_ends_them() -> None:
    shop = without_statistics()
    client_connects(shop, "client")
    shop.run(300)
    assert (shop.names("connection"), shop.names("channel")) == (["client"], ["client (1)"])
    shop.event("connection.closed", pid="<client>", name="client")
    shop.run(1)
    assert (shop.names("connection"), shop.names("channel")) == ([], [])


def test_connections_whose_end_may_have_been_lost_are_stale_until_their_node_is_started_again() -> None:
    shop = without_statistics()
    client_connects(shop, "client")
    shop.source_does(
        shop.source.handle(LossSuspected("the queue was too long", shop.now - MILLISECOND), shop.now)
    )
    shop.run(1)
    assert all(one.unread_since for name in ("connection", "channel") for one in shop.source.known(name))
    client_connects(shop, "next")
    assert {one.name.leaf: bool(one.unread_since) for one in shop.source.known("connection")} == {
        "client": True,
        "next": False,
    }
    shop.run(60)
    shop.broker.add_node(process=200, uptime=1_000)
    shop.run(6)
    assert (shop.names("connection"), shop.names("channel")) == ([], [])


def test_a_durable_subscription_that_missed_nothing_keeps_them() -> None:
    shop = without_statistics()
    client_connects(shop, "client")
    shop.source_does(shop.source.handle(BacklogFollows("", 0), shop.now))
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(1)
    assert shop.names("connection") == ["client"]


def test_statistics_that_a_restart_switches_off_and_on_again() -> None:
    shop = World()
    shop.broker.add_connection("before", CONNECTED_AT)
    shop.broker.objects["queue"].clear()
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(12)
    assert shop.names("connection") == ["before"]

    shop.broker.failure = lambda _: Unavailable("connection refused")
    shop.run(20)
    shop.broker.statistics_off = True
    shop.broker.add_node(process=200, uptime=15_000)
    shop.broker.objects["connection"].clear()
    shop.broker.failure = refuse_unmeasured
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    client_connects(shop, "after")
    shop.run(40)
    assert shop.names("connection") == ["after"]
    assert STATISTICS_OFF in shop.source.status.detail
    assert shop.source.status.state is SourceState.SYNCHRONISED

    shop.broker.statistics_off = False
    shop.broker.failure = lambda _: None
    shop.broker.add_connection("after", CONNECTED_AT // MILLISECOND, recv_oct=7)
    shop.broker.add_connection("later", CONNECTED_AT // MILLISECOND)
    shop.run(70)
    assert shop.names("connection") == ["after", "later"]
    assert STATISTICS_OFF not in shop.source.status.detail


def owners_asked(shop: World) -> list[str]:
    return [request.queue.leaf for request in shop.broker.requests if isinstance(request, OwnerRequest)]


def test_whose_an_exclusive_queue_is_is_asked_where_no_event_said_it_and_not_for_ever() -> None:
    shop = World()
    shop.broker.add_queue("mine", exclusive=True)
    shop.broker.add_queue("orphan", exclusive=True)
    shop.broker.add_queue("open")
    shop.broker.owners["mine"] = "10.0.0.1:5 -> 10.0.0.2:5672"
    shop.run(60)
    assert shop.value("queue", "mine", "exclusiveOwner") == "10.0.0.1:5 -> 10.0.0.2:5672"
    assert shop.value("queue", "orphan", "exclusiveOwner") is None
    assert Counter(owners_asked(shop)) == {"mine": 1, "orphan": 3}


def test_whose_a_queue_is_is_asked_over_some_seconds_however_often_queues_are_listed() -> None:
    shop = World(RabbitMqSourceConfig(user="gateway", polling=PollingConfig(interval=SECOND)))
    shop.broker.add_queue("mine", exclusive=True)
    shop.run(7)
    shop.broker.owners["mine"] = "10.0.0.1:5 -> 10.0.0.2:5672"
    shop.run(7)
    assert shop.value("queue", "mine", "exclusiveOwner") == "10.0.0.1:5 -> 10.0.0.2:5672"
    assert len(owners_asked(shop)) in {2, 3}


def test_whose_another_queue_of_the_same_name_is_is_asked_again() -> None:
    shop = World()
    shop.broker.add_queue("mine", exclusive=True)
    shop.broker.owners["mine"] = "first"
    shop.run(12)
    shop.event("queue.deleted", vhost="/", name="mine")
    shop.broker.objects["queue"].clear()
    shop.run(12)
    shop.broker.add_queue("mine", exclusive=True)
    shop.broker.owners["mine"] = "second"
    shop.run(12)
    assert shop.value("queue", "mine", "exclusiveOwner") == "second"
    assert owners_asked(shop) == ["mine", "mine"]


@pytest.mark.parametrize("statistics_off", [False, True])
def test_many_exclusive_queues_do_not_keep_the_broker_busy(*, statistics_off: bool) -> None:
    shop = World()
    shop.broker.statistics_off = statistics_off
    for number in range(1_500):
        shop.broker.add_queue(f"q{number}", exclusive=True)
    shop.run(60)
    asked = owners_asked(shop)
    assert len(asked) <= 60 * 0.04 / 0.002 + 2 < 1_500
    assert bool(asked) is not statistics_off
