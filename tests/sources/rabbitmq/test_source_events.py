"""The source in stories: the events that it observes, and their arguments."""

from __future__ import annotations

import pytest

from gateway.model.observations import EventSeen, ObjectSeen, Severity
from gateway.model.times import MILLISECOND, SECOND
from gateway.model.values import Reference
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from tests.sources.rabbitmq.imitation import NODE, Reported, World
from tests.sources.rabbitmq.story import CONNECTED_AT, world

CLIENT = [
    '{<<"product">>,longstr,<<"Billing">>}',
    '{<<"password">>,longstr,<<"hush">>}',
]


DIRECT = {"type": "direct", "protocol": "{'Direct',{0,9,1}}"}
"""A connection within the broker's own virtual machine."""


def opened(shop: World, name: str = "10.0.0.9:5000 -> 10.0.0.1:5672", **more: object) -> None:
    """Let a client log in and open a connection, now."""
    shop.event("user.authentication.success", name="app", connection_name=name)
    shop.event(
        "connection.created",
        **{
            "name": name,
            "pid": "<rabbit@shop.1.2.3>",
            "user": "app",
            "vhost": "/",
            "node": NODE,
            "peer_host": "{10,0,0,9}",
            "peer_port": 5000,
            "protocol": "{0,9,1}",
            "connected_at": shop.now // MILLISECOND,
            "client_properties": CLIENT,
            **more,
        },
    )


def closed(shop: World, name: str = "10.0.0.9:5000 -> 10.0.0.1:5672", **more: object) -> None:
    """Let a connection end, now; the event has only those headers that RabbitMQ sends."""
    reported = {"name": name, "node": NODE, "client_properties": CLIENT, **more}
    shop.event("connection.closed", **reported)


def only(events: list[Reported]) -> Reported:
    (event,) = events
    return event


def test_a_queue_that_is_created_and_deleted() -> None:
    shop = world()
    shop.queue_created("bills", user_who_performed_action="app", exclusive=True)
    created_at = shop.now
    shop.run(10)
    created = only(shop.events())
    assert (created.name, created.severity, created.time) == ("queueCreated", Severity.INFO, created_at)
    native_id = next(one.native_id for one in shop.seen if one.properties and "bills" in one.properties)
    assert created.arguments == {
        "queue": Reference(native_id),
        "vhost": "/",
        "name": "bills",
        "type": "classic",
        "durable": True,
        "autoDelete": False,
        "exclusive": True,
        "by": "app",
    }
    shop.event("queue.deleted", vhost="/", name="bills", user_who_performed_action="app")
    shop.run(1)
    assert shop.events()[1].arguments == {
        "queue": Reference(native_id),
        "vhost": "/",
        "name": "bills",
        "lifetime": 10 * SECOND,
        "by": "app",
    }


def test_a_closed_connection_is_reported_with_what_the_broker_does_not_report() -> None:
    shop = world()
    opened(shop)
    shop.broker.add_connection("10.0.0.9:5000 -> 10.0.0.1:5672", shop.now // MILLISECOND, node=NODE)
    shop.run(200)
    closed(shop)
    shop.run(1)
    first, last = shop.events()
    assert (first.name, last.name) == ("connectionOpened", "connectionClosed")
    assert last.arguments.pop("lifetime") == 200 * SECOND
    assert last.arguments == first.arguments
    assert last.arguments == {
        "connection": last.arguments["connection"],
        "name": "10.0.0.9:5000 -> 10.0.0.1:5672",
        "user": "app",
        "vhost": "/",
        "peerHost": "10.0.0.9",
        "peerPort": 5000,
        "clientName": "Billing",
        "protocol": "AMQP 0-9-1",
        "node": last.arguments["node"],
    }
    assert last.arguments["connection"] in {
        Reference(one.native_id) for one in shop.seen if one.key.name == "connection"
    }
    assert last.arguments["node"] in {Reference(one.native_id) for one in shop.seen if one.key.name == "node"}


def test_an_end_that_a_listing_shows_before_the_event_reports_it_is_reported_with_the_facts() -> None:
    shop = world()
    shop.broker.objects["connection"].clear()
    shop.run(40)
    assert shop.story("connection")[-1] == ("peer -> us", "deleted")
    assert shop.events() == []
    closed(shop, "peer -> us")
    shop.run(1)
    event = only(shop.events())
    facts = {name: event.arguments[name] for name in ("name", "user", "vhost", "lifetime")}
    lifetime = event.time - CONNECTED_AT * MILLISECOND
    assert facts == {"name": "peer -> us", "user": "app", "vhost": "/", "lifetime": lifetime}
    assert shop.story("connection").count(("peer -> us", "deleted")) == 1


def test_a_connection_known_from_listings_only_is_closed_with_the_facts() -> None:
    shop = world()
    closed(shop, "peer -> us", user_provided_name="till 4")
    shop.run(1)
    event = only(shop.events())
    facts = {name: event.arguments[name] for name in ("user", "vhost", "clientName", "lifetime")}
    lifetime = event.time - CONNECTED_AT * MILLISECOND
    assert facts == {"user": "app", "vhost": "/", "clientName": "till 4", "lifetime": lifetime}


def test_a_closing_whose_birth_was_missed_is_reported_with_what_is_known() -> None:
    shop = world()
    closed(shop, "[fe80::1]:5000 -> [::1]:5672")
    shop.run(1)
    event = only(shop.events())
    assert event.name == "connectionClosed"
    reported = {name: value for name, value in event.arguments.items() if value}
    assert reported == {
        "name": "[fe80::1]:5000 -> [::1]:5672",
        "peerHost": "fe80::1",
        "peerPort": 5000,
        "clientName": "Billing",
        "node": event.arguments["node"],
    }


def test_a_failed_login_is_reported_as_such_and_not_as_a_closed_connection() -> None:
    shop = world()
    shop.event(
        "user.authentication.failure",
        name="mallory",
        connection_name="10.0.0.9:5000 -> 10.0.0.1:5672",
        peer_host="{10,0,0,9}",
        peer_port=5000,
        auth_mechanism="PLAIN",
        protocol="{0,9,1}",
        ssl=False,
        error=[ord(character) for character in "user 'mallory' - invalid credentials"],
    )
    closed(shop)
    shop.run(1)
    event = only(shop.events())
    assert (event.name, event.severity) == ("authenticationFailed", Severity.WARNING)
    assert event.arguments == {
        "user": "mallory",
        "peerHost": "10.0.0.9",
        "peerPort": 5000,
        "mechanism": "PLAIN",
        "protocol": "AMQP 0-9-1",
        "connectionName": "10.0.0.9:5000 -> 10.0.0.1:5672",
        "reason": "user 'mallory' - invalid credentials",
    }


@pytest.mark.parametrize(
    "reason",
    [
        'AMQPLAIN auth info [{<<"PASSWORD">>,longstr,<<"hush">>}] is missing LOGIN',
        'response <<"hush">> invalid',
        'response "hush" invalid',
        "bind of amqp://u:hush@host failed",
    ],
)
def test_a_reason_that_quotes_the_client_is_cut_before_its_password(reason: str) -> None:
    shop = world()
    shop.event("user.authentication.failure", name="none", error=[ord(character) for character in reason])
    shop.run(1)
    assert only(shop.events()).arguments["reason"].startswith(reason[:4])
    assert b"hush" not in b"".join(send.body for send in shop.sent)


@pytest.mark.parametrize(
    "client_properties",
    [
        [],  # a load balancer that knocks
        ['{<<"product">>,longstr,<<"amqp-gateway">>}'],
    ],
)
def test_ends_of_what_was_no_client_are_not_reported(client_properties: list[str]) -> None:
    shop = world()
    closed(shop, client_properties=client_properties)
    shop.run(1)
    assert shop.events() == []


def test_a_connection_refused_by_its_virtual_host_was_never_open() -> None:
    shop = world()
    shop.event("user.authentication.success", name="app", connection_name="c")
    closed(shop, "c")
    shop.run(1)
    assert shop.events() == []


@pytest.mark.parametrize("resource", ["memory", "disk"])
def test_an_alarm_is_critical_and_names_its_node(resource: str) -> None:
    shop = world()
    shop.event("alarm.set", node=NODE, source=resource)
    shop.run(1)
    shop.event("alarm.cleared", node=NODE, source=resource)
    shop.run(1)
    raised, cleared = shop.events()
    assert (raised.name, raised.severity) == (f"{resource}AlarmSet", Severity.CRITICAL)
    assert (cleared.name, cleared.severity) == (f"{resource}AlarmCleared", Severity.INFO)
    node = next(one.native_id for one in shop.seen if one.key.name == "node")
    assert raised.arguments == cleared.arguments == {"node": Reference(node), "resource": resource}


def test_a_virtual_host_that_goes_is_reported_once() -> None:
    shop = world()
    shop.event("vhost.down", name="/", node=NODE)
    shop.run(1)
    assert only(shop.events()).name == "vhostDown"
    shop.event("permission.deleted", vhost="/", user="app")
    shop.event("exchange.deleted", vhost="/", name="amq.topic")
    shop.event("vhost.deleted", name="/", user_who_performed_action="root")
    shop.event("parameter.cleared", component="vhost-limits", vhost="/", name="limits")
    shop.event("vhost.down", name="/", node=NODE)
    shop.run(1)
    assert [event.name for event in shop.events()][1:] == ["permissionCleared", "vhostDeleted"]


def test_what_administrators_do_is_reported() -> None:
    shop = world()
    by = {"user_who_performed_action": "root"}
    shop.event("user.created", name="bob", **by)
    shop.event("user.tags.set", name="bob", tags=["monitoring"], **by)
    shop.event("user.password.changed", name="bob", **by)
    shop.event("permission.created", vhost="/", user="bob", configure="", write=".*", read=".*", **by)
    shop.event(
        "policy.set",
        **{
            "vhost": "/",
            "name": "cap",
            "pattern": "^q",
            "apply-to": "queues",
            "priority": -1,
            "definition": {"max-length": 9},
            **by,
        },
    )
    shop.event(
        "parameter.set", component="vhost-limits", vhost="/", name="limits", value={"max-queues": 5}, **by
    )
    shop.event("parameter.set", component="exchange-delete-in-progress", vhost="/", name="x", value=True)
    shop.event("user.deleted", name="bob", **by)
    shop.run(1)
    reported = {event.name: event.arguments for event in shop.events()}
    assert list(reported) == [
        "userCreated",
        "userTagsSet",
        "userPasswordChanged",
        "permissionSet",
        "policySet",
        "vhostLimitsSet",
        "userDeleted",
    ]
    assert reported["userTagsSet"] == {"user": "bob", "tags": ("monitoring",), "by": "root"}
    assert reported["policySet"]["definition"] == {"max-length": 9}
    assert reported["policySet"]["priority"] == -1
    assert reported["vhostLimitsSet"]["limits"] == {"max-queues": 5}


@pytest.mark.parametrize("show_own", [False, True])
def test_our_own_publications_over_http_are_not_reported(*, show_own: bool) -> None:
    shop = World(
        RabbitMqSourceConfig(
            user="gateway",
            own_users=frozenset({"agent"}),
            show_own=show_own,
            management_virtual_host="management",
        )
    )
    shop.run(12)
    sent = len(shop.sent)
    for number, (user, vhost) in enumerate(
        [("agent", "management"), ("agent", "/"), ("other", "management")]
    ):
        unknown = {"peer_host": "unknown", "peer_port": "unknown", "client_properties": []}
        opened(shop, f"<rabbit@shop.1.{number}.0>", user=user, vhost=vhost, **DIRECT, **unknown)
        closed(shop, f"<rabbit@shop.1.{number}.0>", client_properties=[])
    shop.run(0.1)
    assert shop.events() == []
    assert len(shop.sent) == sent
    opened(shop, "<rabbit@shop.1.9.0>", user="other", **DIRECT, peer_host="unknown")
    shop.run(0.1)
    assert only(shop.events()).name == "connectionOpened"


@pytest.mark.parametrize("protocol", ["{'MQTT',\"3.1.1\"}", "{'STOMP',\"1.2\"}"])
def test_direct_connections_of_other_protocols_are_clients_of_any_user(protocol: str) -> None:
    shop = World(RabbitMqSourceConfig(user="gateway"))
    shop.run(12)
    # RabbitMQ 3.10 knows the client's properties only after the event.
    opened(shop, user="gateway", type="direct", protocol=protocol, client_properties=[])
    shop.run(0.1)
    assert only(shop.events()).name == "connectionOpened"
    shown = shop.value("connection", "10.0.0.9:5000 -> 10.0.0.1:5672", "protocol")
    assert shown == protocol.translate(str.maketrans(",", " ", "{'\"}"))


def test_shovels_and_federation_links_are_clients_of_any_user() -> None:
    shop = World(RabbitMqSourceConfig(user="gateway"))
    shop.run(12)
    named = ['{<<"connection_name">>,longstr,<<"Shovel sh">>}']
    opened(shop, "<rabbit@shop.1.9.0>", user="gateway", **DIRECT, client_properties=named)
    shop.run(0.1)
    assert only(shop.events()).name == "connectionOpened"


def test_our_own_queues_and_connections_are_not_reported() -> None:
    shop = world(own_users=frozenset({"agent"}))
    own = ['{<<"product">>,longstr,<<"amqp-gateway">>}']
    shop.queue_created("amqp-gateway.console.1")
    shop.event("queue.deleted", vhost="/", name="amqp-gateway.console.1")
    opened(shop, user="agent", client_properties=own)
    closed(shop, client_properties=own)
    shop.run(1)
    assert shop.events() == []
    # Anybody can say that.
    opened(shop, user="app", client_properties=own)
    closed(shop, client_properties=own)
    shop.run(1)
    assert [event.name for event in shop.events()] == ["connectionOpened", "connectionClosed"]


def test_an_event_follows_the_object_that_it_names() -> None:
    shop = world()
    before = len(shop.observations)
    opened(shop)
    closed(shop)
    shop.event("alarm.set", node=NODE, source="memory")
    assert shop.events() == []
    shop.run(0.05)
    story = [
        (type(one).__name__, one.key.name)
        for one in shop.observations[before:]
        if isinstance(one, ObjectSeen | EventSeen)
    ]
    assert story == [
        ("ObjectSeen", "connection"),
        ("EventSeen", "connectionOpened"),
        ("EventSeen", "connectionClosed"),
        ("EventSeen", "memoryAlarmSet"),
    ]
    (connection,) = [one for one in shop.seen if one.properties and "10.0.0.9" in one.properties]
    assert connection.created
    assert connection.deleted


def test_an_event_leaves_at_once_when_no_creation_waits() -> None:
    shop = world()
    shop.event("alarm.set", node=NODE, source="memory")
    assert only(shop.events()).name == "memoryAlarmSet"
