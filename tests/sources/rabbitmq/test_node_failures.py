"""A node goes down: what it has is out of reach, and has not ended, whatever events and listings say."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.node_failures import RECOVERY
from tests.sources.rabbitmq.imitation import MILLISECOND, NODE, SECOND, World

WITHOUT_REQUEST = {"user": "rmq-internal"}
"""How RabbitMQ 3.10 reports the end of a durable classic queue whose node went down."""
BY_ITSELF = {"user_who_performed_action": "rmq-internal"}
"""How it reports the end of the queue's bindings then, and of queues that expire."""
BINDING: Mapping[str, str] = {
    "vhost": "/",
    "source_name": "till",
    "source_kind": "exchange",
    "destination_name": "bills",
    "destination_kind": "queue",
    "routing_key": "bills",
}
OTHER = "other@shop"


def shop_with_a_bound_queue(queue: Mapping[str, Json] = MappingProxyType({})) -> World:
    """A queue ``bills`` on a node ``OTHER`` of its own, bound to an exchange ``till``; all are known."""
    shop = World()
    broker = shop.broker
    broker.add_node(uptime=3_600_000)
    broker.objects["node"][OTHER,] = {**broker.objects["node"][NODE,], "name": OTHER, "os_pid": "101"}
    broker.add_exchange("till", "/")
    told: dict[str, Json] = {"node": OTHER, "state": "running", "messages": 7, **queue}
    broker.add_queue("bills", "/", **told)
    broker.objects["binding"]["/", "till", "queue", "bills", "bills"] = {
        "vhost": "/",
        "source": "till",
        "destination": "bills",
        "destination_type": "queue",
        "routing_key": "bills",
        "properties_key": "bills",
        "arguments": {},
    }
    shop.source_does(shop.source.events_connected(shop.now))
    shop.run(30)
    assert shop.names("queue") == ["//bills"]
    assert len(shop.names("binding")) == 1
    return shop


def ended(shop: World) -> set[str]:
    return {one.key.name for one in shop.seen if one.deleted}


def node_goes_down(shop: World) -> None:
    shop.broker.objects["node"][OTHER,] = {"name": OTHER, "type": "disc", "running": False}
    shop.broker.objects["binding"].clear()


def test_durable_queues_and_bindings_of_a_node_that_went_down_are_kept() -> None:
    shop = shop_with_a_bound_queue()
    node_goes_down(shop)
    shop.broker.objects["queue"]["/", "bills"] |= {"state": "down"}
    shop.event("binding.deleted", **BINDING, **BY_ITSELF)
    shop.event("queue.deleted", vhost="/", name="bills", **WITHOUT_REQUEST)
    assert shop.value("queue", "bills", "state") == "down"
    assert shop.value("queue", "bills", "messages") is None
    shop.run(300)
    assert ended(shop) == set()
    assert not [event for event in shop.events() if event.name == "queueDeleted"]


def test_what_is_not_listed_while_its_node_starts_is_kept_without_values() -> None:
    shop = shop_with_a_bound_queue()
    node_goes_down(shop)
    queue = shop.broker.objects["queue"].pop(("/", "bills"))
    shop.run(60)
    assert ended(shop) == set()
    assert (shop.value("queue", "bills", "state"), shop.value("queue", "bills", "messages")) == (None, None)
    shop.broker.objects["node"][OTHER,] = {**shop.broker.objects["node"][NODE,], "name": OTHER, "uptime": 500}
    shop.run(20)
    assert ended(shop) == set()
    shop.broker.objects["queue"]["/", "bills"] = queue
    shop.run(20)
    assert (shop.value("queue", "bills", "state"), shop.value("queue", "bills", "messages")) == ("running", 7)
    assert ended(shop) == set()


def test_what_is_not_there_long_after_its_node_started_has_ended() -> None:
    shop = shop_with_a_bound_queue()
    node_goes_down(shop)
    del shop.broker.objects["queue"]["/", "bills"]
    shop.run(60)
    shop.broker.objects["node"][OTHER,] = {**shop.broker.objects["node"][NODE,], "name": OTHER, "uptime": 500}
    for _ in range(RECOVERY // SECOND + 60):
        shop.run(1)
        uptime = shop.broker.objects["node"][OTHER,]["uptime"]
        assert isinstance(uptime, int)
        shop.broker.objects["node"][OTHER,]["uptime"] = uptime + SECOND // MILLISECOND
    assert ended(shop) == {"queue", "binding"}


@pytest.mark.parametrize(
    ("queue", "headers"),
    [
        ({}, {"user_who_performed_action": "app"}),
        ({}, BY_ITSELF),
        ({"durable": False}, WITHOUT_REQUEST),
        ({"exclusive": True}, WITHOUT_REQUEST),
    ],
    ids=["deleted by a user", "expired", "not durable", "exclusive"],
)
def test_any_other_end_that_is_reported_is_one(queue: dict[str, Json], headers: dict[str, str]) -> None:
    shop = shop_with_a_bound_queue(queue)
    shop.broker.objects["queue"].clear()
    shop.broker.objects["binding"].clear()
    shop.event("queue.deleted", vhost="/", name="bills", **headers)
    shop.run(1)
    assert ended(shop) == {"queue", "binding"}
