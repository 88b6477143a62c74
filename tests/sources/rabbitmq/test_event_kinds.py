"""Events whose name does not say what they are, and those that say nothing new, as 3.10 to 4.3 send them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sources.rabbitmq.event_kinds import EventKinds
from tests.sources.rabbitmq.documents import any_json
from tests.sources.rabbitmq.imitation import Told, World
from tests.sources.rabbitmq.story import world

POLICY: dict[str, Any] = {
    "pattern": "^q",
    "priority": 1,
    "definition": {"max-length": 9},
    "apply-to": "queues",
}
SHOVEL = {"vhost": "/", "name": "mover"}
LINK = {"vhost": "/", "upstream": "up", "exchange": "till", "type": "exchange", "id": "2853bbf2"}


def raised(shop: World) -> list[str]:
    return [event.name for event in shop.events()]


def one_raised(shop: World, event: str, **headers: object) -> Told:
    """The one management event that a broker's event makes."""
    before = len(shop.events())
    shop.event(event, **headers)
    shop.run(2)
    (only,) = shop.events()[before:]
    return only


def shop_that_tells() -> World:
    shop = world()
    shop.run(2)
    return shop


def test_setting_an_operator_policy_is_told_apart_from_setting_a_policy() -> None:
    shop = shop_that_tells()
    shop.event("policy.set", vhost="/", name="limit", **POLICY)
    shop.event("parameter.set", component="operator_policy", vhost="/", name="limit", value=POLICY)
    shop.event("queue.policy.updated", vhost="/", name="orders", type="rabbit_classic_queue", **POLICY)
    shop.event("policy.set", vhost="/", name="limit", **POLICY)
    shop.event("policy.set", vhost="/", name="limit", **POLICY)
    shop.run(2)
    assert raised(shop) == ["policySet", "queuePolicyUpdated", "operatorPolicySet", "policySet"]


def test_the_last_limit_of_a_virtual_host_is_cleared_by_setting_nothing() -> None:
    shop = shop_that_tells()
    limits = {"component": "vhost-limits", "vhost": "/", "name": "limits"}
    told = one_raised(shop, "parameter.set", **limits, value={"max-queues": 5})
    assert (told.name, told.arguments["limits"]) == ("vhostLimitsSet", {"max-queues": 5})
    assert one_raised(shop, "parameter.set", **limits, value=[]).name == "vhostLimitsCleared"
    assert one_raised(shop, "parameter.set", **limits).name == "vhostLimitsCleared"
    assert one_raised(shop, "parameter.cleared", **limits).name == "vhostLimitsCleared"


def test_a_global_parameter_is_cleared_by_setting_no_value_too() -> None:
    shop = shop_that_tells()
    headers = {"component": "global", "name": "flag"}
    assert one_raised(shop, "parameter.set", **headers, value=0).name == "parameterSet"
    assert one_raised(shop, "parameter.set", **headers).name == "parameterCleared"


def test_parameters_are_told_without_their_values() -> None:
    shop = shop_that_tells()
    value = {"src-uri": "amqp://user:secret@here", "src-queue": "a"}
    told = one_raised(shop, "parameter.set", component="shovel", vhost="/", name="mover", value=value)
    assert (told.name, told.arguments["component"]) == ("parameterSet", "shovel")
    assert "secret" not in str(told.arguments)
    shop.event("parameter.set", component="exchange-delete-in-progress", vhost="/", name="x", value=True)
    shop.run(2)
    assert raised(shop) == ["parameterSet"]


def test_limits_and_topic_permissions_of_users() -> None:
    shop = shop_that_tells()
    told = one_raised(shop, "user.limits.set", username="app", name="limits", **{"max-connections": 5})
    assert (told.name, told.arguments["user"], told.arguments["maxConnections"]) == (
        "userLimitsSet",
        "app",
        5,
    )
    told = one_raised(shop, "user.limits.cleared", username="app", name="limits")
    assert (told.name, told.arguments["user"]) == ("userLimitsCleared", "app")
    headers = {"vhost": "/", "user": "app", "exchange": "amq.topic", "write": "w", "read": ""}
    told = one_raised(shop, "topic.permission.created", **headers)
    assert (told.name, told.arguments["exchange"], told.arguments["write"]) == (
        *("topicPermissionSet", "amq.topic", "w"),
    )
    assert (
        one_raised(shop, "topic.permission.deleted", vhost="/", user="app").name == "topicPermissionCleared"
    )


def test_a_shovel_that_fails_again_and_again_is_told_once() -> None:
    shop = shop_that_tells()
    for _ in range(3):
        shop.event("shovel.worker.status", **SHOVEL, status="starting")
        shop.event("shovel.worker.status", **SHOVEL, status="terminated", reason=[98, 97, 100])
    shop.run(2)
    assert raised(shop) == ["shovelTerminated"]
    assert shop.events()[0].arguments["reason"] == "bad"
    shop.event("shovel.worker.status", **SHOVEL, status="running", src_uri="amqp://a", dest_uri="amqp://b")
    for _ in range(2):
        shop.event("shovel.worker.removed", **SHOVEL)
    shop.run(2)
    assert raised(shop) == ["shovelTerminated", "shovelRunning", "shovelRemoved"]


def test_a_shovel_ends_after_the_parameter_that_made_it() -> None:
    shop = shop_that_tells()
    shop.event("parameter.set", component="shovel", **SHOVEL, value={})
    shop.run(2)
    shop.event("parameter.cleared", component="shovel", **SHOVEL)
    shop.event("shovel.worker.removed", **SHOVEL)
    shop.run(2)
    assert raised(shop) == ["parameterSet", "parameterCleared", "shovelRemoved"]


def test_a_federation_link_says_why_it_fails_without_what_it_quotes() -> None:
    shop = shop_that_tells()
    error = '{auth_failure,"ACCESS_REFUSED - user:secret"}'
    told = one_raised(shop, "federation.link.status", **LINK, status="error", error=error)
    assert (told.name, told.arguments["reason"]) == ("federationLinkFailed", "auth_failure")
    told = one_raised(shop, "federation.link.status", **LINK, status="running", uri="amqp://there")
    assert (told.name, told.arguments["exchange"]) == ("federationLinkRunning", "till")
    assert one_raised(shop, "federation.link.removed", **LINK).name == "federationLinkRemoved"


def test_a_failed_login_over_mqtt_has_its_peer_in_the_connections_name_only() -> None:
    shop = shop_that_tells()
    failure = {"name": "9.9.9.9:9 -> x", "connection_name": "10.0.0.7:35695 -> 10.0.0.1:1883"}
    told = one_raised(shop, "user.authentication.failure", **failure)
    assert (told.arguments["peerHost"], told.arguments["peerPort"]) == ("10.0.0.7", 35695)
    # Where there is none, as on 3.10, what the client calls itself is not taken for its address.
    told = one_raised(shop, "user.authentication.failure", name="9.9.9.9:9 -> x")
    assert told.arguments["peerHost"] == ""


@pytest.mark.parametrize(
    "event", ["parameter.set", "policy.set", "shovel.worker.status", "federation.link.status"]
)
@given(
    headers=st.dictionaries(st.sampled_from(["component", "vhost", "name", "value", "status"]), any_json())
)
def test_any_headers_have_a_kind(event: str, headers: dict[str, Any]) -> None:
    kinds = EventKinds()
    assert kinds.kind(event, headers) in {event, "parameter.cleared", "operator.policy.set"}
    kinds.repeats(event, headers)
