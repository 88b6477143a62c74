"""Streams: their consumers and publishers, which a plugin shows, and queue elements of RabbitMQ 4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from gateway.dialects.session import LinkUp, TimerExpired
from gateway.model.observations import SourceState
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.management_api import Answer, ListingRequest, ManagementRequest, NotFound
from tests.sources.rabbitmq.documents import sample
from tests.sources.rabbitmq.imitation import NODE, World
from tests.sources.rabbitmq.story import world
from tests.sources.rabbitmq.test_reading import values

RECORDED = cast("Mapping[str, list[dict[str, Any]]]", sample("streams-4.3.6"))
CONNECTION = "peer -> us"
STREAM = {"connection_details": {"name": CONNECTION}, "queue": {"name": "orders", "vhost": "/"}}


def lacks_streams(request: ManagementRequest) -> Answer | None:
    is_of_streams = isinstance(request, ListingRequest) and request.collection.startswith("stream/")
    return NotFound() if is_of_streams else None


def requests_for(shop: World, class_name: str) -> int:
    return sum(
        isinstance(request, ListingRequest) and request.class_name == class_name
        for request in shop.broker.requests
    )


def test_a_stream_consumer_as_recorded() -> None:
    (recorded,) = RECORDED["consumers"]
    reported = values("streamConsumer", recorded)
    assert (
        reported.items()
        >= {
            "vhost": "/",
            "stream": "st",
            "subscription": 0,
            "credits": recorded["credits"],
            "offset": recorded["offset"],
            "offsetLag": recorded["offset_lag"],
            "messagesConsumed": recorded["consumed"],
            "active": True,
            "activityStatus": "up",
        }.items()
    )
    assert reported["connectionObject"] == recorded["connection_details"]["name"]


def test_a_stream_publisher_as_recorded() -> None:
    (recorded,) = RECORDED["publishers"]
    reported = values("streamPublisher", recorded)
    counters = (reported["messagesPublished"], reported["messagesConfirmed"], reported["messagesErrored"])
    assert counters == (recorded["published"], recorded["confirmed"], recorded["errored"])
    assert "reference" not in reported  # it has none


def test_streams_and_quorum_queues_as_recorded() -> None:
    reported = {queue["name"]: values("queue", queue) for queue in RECORDED["queues"]}
    assert (reported["st"]["streamSegments"], reported["st"]["streamReaders"]) == (1, {NODE: 1})
    assert "streamBegins" not in reported["st"]  # a zero stands for none
    assert (reported["qlim"]["deliveryLimit"], reported["qunl"]["deliveryLimit"]) == (3, -1)
    assert reported["qlim"]["messagesDelayed"] == 0
    assert reported["qlim"]["messagesByPriority"] == {"0": 1, "4": 1, "9": 1}


def test_they_belong_to_their_connection_and_end_with_it() -> None:
    shop = world()
    shop.broker.objects["streamConsumer"]["one",] = {**STREAM, "subscription_id": 0, "offset_lag": 7}
    shop.broker.objects["streamPublisher"]["one",] = {**STREAM, "publisher_id": 3, "published": 5}
    shop.run(12)
    assert shop.names("streamConsumer") == [f"//orders/{CONNECTION}/0"]
    assert shop.names("streamPublisher") == [f"//orders/{CONNECTION}/3"]
    shop.event("connection.closed", name=CONNECTION)
    assert shop.names("streamConsumer") == shop.names("streamPublisher") == []


def test_a_broker_without_the_plugin_is_asked_for_them_seldom_and_all_is_well() -> None:
    shop = World()
    shop.broker.failure = lacks_streams
    shop.broker.add_queue("orders")
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(120)
    assert (shop.source.status.state, shop.source.status.detail) == (SourceState.SYNCHRONISED, "")
    assert requests_for(shop, "streamConsumer") == 1
    # Enabling it needs no restart: the plugins of a node say that there is something new.
    shop.broker.objects["node"][NODE,]["enabled_plugins"] = ["rabbitmq_management"]
    shop.run(10)
    shop.broker.objects["node"][NODE,]["enabled_plugins"] = [
        "rabbitmq_management",
        "rabbitmq_stream_management",
    ]
    shop.run(10)
    assert requests_for(shop, "streamConsumer") == 2
    shop.run(600)
    assert requests_for(shop, "streamConsumer") == 3


def test_a_gateway_that_stood_still_does_not_wait_for_what_the_broker_lacks() -> None:
    shop = World()
    shop.broker.failure = lacks_streams
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(60)
    shop.now += 60 * SECOND
    shop.source_does(shop.source.handle(TimerExpired(), shop.now))
    states = [shop.source.status.state]
    shop.run(10)
    states.append(shop.source.status.state)
    assert states == [SourceState.SYNCHRONISING, SourceState.SYNCHRONISED]
    assert requests_for(shop, "streamConsumer") == 2


def test_what_was_there_is_unread_when_the_plugin_is_disabled_and_ends_with_its_connection() -> None:
    shop = world()
    shop.broker.objects["streamPublisher"]["one",] = {**STREAM, "publisher_id": 3}
    shop.run(12)
    assert len(shop.names("streamPublisher")) == 1
    shop.broker.failure = lacks_streams
    shop.run(30)
    (publisher,) = shop.source.known("streamPublisher")
    assert publisher.unread_since, "a node that stops lacks the collection, too"
    assert shop.source.status.state is SourceState.SYNCHRONISED
    shop.event("connection.closed", name=CONNECTION, pid="<x.1.2.3>", node=NODE)
    shop.run(1)
    assert shop.names("streamPublisher") == []
