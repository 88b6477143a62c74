"""The source in stories: objects that depend on others, and objects that only an administrator may read."""

from __future__ import annotations

import pytest

from gateway.dialects.session import LinkDown, LinkUp
from gateway.mapping.paths import Json
from gateway.model.observations import Gap, ObjectSeen, SourceState
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Broken,
    ListingRequest,
    ManagementRequest,
    Refused,
)
from gateway.sources.rabbitmq.object_lives import WITHOUT_OWNER
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from gateway.sources.rabbitmq.status import ADMINISTRATORS_ONLY
from tests.sources.rabbitmq.imitation import MAPPING, World
from tests.sources.rabbitmq.story import CONNECTED_AT, world

CONNECTION, CHANNEL = "peer -> us", "peer -> us (1)"
PROCESS = "<rabbit@shop.1.30.0>"


def channel_opened(shop: World, name: str = CHANNEL, process: str = PROCESS) -> None:
    shop.event("channel.created", name=name, number=1, pid=process, user="app", vhost="/")


def consumer_started(shop: World, tag: str = "tag", process: str = PROCESS, queue: str = "orders") -> None:
    shop.event("consumer.created", queue=queue, vhost="/", channel=process, consumer_tag=tag)


def bound(shop: World, event: str = "created", source: str = "till", **more: object) -> None:
    headers = {
        "vhost": "/",
        "source_name": source,
        "destination_kind": "queue",
        "destination_name": "orders",
        "routing_key": "key",
        **more,
    }
    shop.event(f"binding.{event}", **headers)


def listed_binding(source: str = "till", **more: Json) -> dict[str, Json]:
    return {
        "vhost": "/",
        "source": source,
        "destination_type": "queue",
        "destination": "orders",
        "properties_key": "key",
        "routing_key": "key",
        "arguments": {},
        **more,
    }


def is_of_policies(request: ManagementRequest) -> bool:
    return isinstance(request, ListingRequest) and request.class_name == "policy"


def ends(shop: World, received: int) -> list[str]:
    """Return the classes of the objects that have ended since, in order."""
    return [one.key.name for one in shop.seen[received:] if one.deleted]


def observed_ends(shop: World, received: int) -> list[tuple[str, bool]]:
    """Return the class of each object that has ended since, and whether its end is inferred."""
    return [
        (one.key.name, one.inferred)
        for one in shop.observed[received:]
        if isinstance(one, ObjectSeen) and one.deleted
    ]


def test_what_hangs_on_a_connection_ends_with_it_and_before_it() -> None:
    shop = world()
    channel_opened(shop)
    consumer_started(shop)
    shop.run(0.1)
    assert (shop.names("channel"), shop.names("consumer")) == ([CHANNEL], [f"//orders/{CHANNEL}/tag"])
    received = len(shop.seen)
    shop.event("connection.closed", name=CONNECTION)
    shop.run(0.1)
    assert sorted(ends(shop, received)) == ["channel", "connection", "consumer"]
    assert shop.names("channel") == shop.names("consumer") == []
    # The ends of each, which RabbitMQ tells too, are no news; and no old listing brings them back.
    shop.event("consumer.deleted", queue="orders", vhost="/", channel=PROCESS, consumer_tag="tag")
    shop.event("channel.closed", pid=PROCESS)
    shop.broker.objects["channel"][CHANNEL,] = {"name": CHANNEL, "connection_details": {"name": CONNECTION}}
    shop.run(9)
    assert len(ends(shop, received)) == 3
    assert shop.names("channel") == []


def test_a_consumer_ends_with_its_queue_and_not_with_another_channel() -> None:
    shop = world()
    channel_opened(shop)
    channel_opened(shop, "peer -> us (2)", "<rabbit@shop.1.31.0>")
    consumer_started(shop)
    shop.event("channel.closed", pid="<rabbit@shop.1.31.0>")
    assert len(shop.names("consumer")) == 1
    shop.event("queue.deleted", vhost="/", name="orders")
    assert shop.names("consumer") == []
    assert shop.names("channel") == [CHANNEL]


def test_the_end_of_a_channel_that_is_reported_after_the_next_one_of_its_number_is_not_that_ones_end() -> (
    None
):
    """The process of the channel ends after its answer to the client, which reuses the number at once."""
    shop = world()
    channel_opened(shop)
    shop.run(0.1)
    received = len(shop.seen)
    channel_opened(shop, process="<rabbit@shop.1.31.0>")
    shop.event("channel.closed", pid=PROCESS)
    shop.run(0.1)
    assert ends(shop, received) == ["channel"]
    assert shop.names("channel") == [CHANNEL]
    shop.event("channel.closed", pid="<rabbit@shop.1.31.0>")
    shop.run(0.1)
    assert ends(shop, received) == ["channel", "channel"]
    assert shop.names("channel") == []


def test_a_channel_of_a_connection_that_is_not_shown_is_not_shown() -> None:
    shop = world()
    shop.event(
        "connection.created",
        name="own -> us",
        pid="<rabbit@shop.1.40.0>",
        user="gateway",
        vhost="/",
        client_properties=['{<<"product">>,longstr,<<"amqp-gateway">>}'],
    )
    channel_opened(shop, "own -> us (1)", "<rabbit@shop.1.41.0>")
    consumer_started(shop, process="<rabbit@shop.1.41.0>")
    shop.broker.objects["channel"]["own -> us (1)",] = {
        "name": "own -> us (1)",
        "connection_details": {"name": "own -> us"},
    }
    shop.run(20)
    assert shop.names("channel") == shop.names("consumer") == []
    assert not [place for place in shop.source.unreadable if "consumer" in place or "channel" in place]


@pytest.mark.parametrize(
    ("queue", "seconds", "missed"),
    [
        pytest.param("orders", 3, True, id="before a listing may have shown it"),
        pytest.param("orders", 60, False, id="after listings would have shown it"),
        pytest.param("amqp-gateway.console.1", 3, False, id="of a gateway"),
    ],
)
def test_a_consumer_that_came_and_went_on_a_channel_opened_unheard_is_missed(
    queue: str, seconds: int, *, missed: bool
) -> None:
    shop, unheard = world(), "<rabbit@shop.1.77.0>"
    shop.run(60)
    began = shop.now
    consumer_started(shop, process=unheard, queue=queue)
    shop.run(seconds)
    shop.event("consumer.deleted", queue=queue, vhost="/", channel=unheard, consumer_tag="tag")
    shop.run(0.1)
    gaps = [one for one in shop.observed if isinstance(one, Gap)]
    found = [(gap.start <= began, gap.end, gap.reason) for gap in gaps]
    assert found == ([(True, began + seconds * SECOND, WITHOUT_OWNER)] if missed else [])


def test_a_consumer_on_a_channel_opened_unheard_is_missed_that_ended_with_it_alone() -> None:
    """Since 3.12.5 RabbitMQ reports the end of a consumer only where the client cancels it."""
    shop, unheard = world(), "<rabbit@shop.1.77.0>"
    shop.run(60)
    began = shop.now
    consumer_started(shop, process=unheard)
    shop.run(3)
    shop.event("channel.closed", pid=unheard)
    shop.run(0.1)
    gaps = [one for one in shop.observed if isinstance(one, Gap)]
    assert [(one.start <= began, one.end, one.reason) for one in gaps] == [
        (True, began + 3 * SECOND, WITHOUT_OWNER)
    ]


def test_a_binding_between_exchanges_ends_with_either_though_no_event_says_so() -> None:
    """RabbitMQ 4.3 reports no binding's end where the exchange is deleted to which it leads."""
    shop = world()
    shop.broker.add_exchange("till", "/")
    shop.broker.add_exchange("audit", "/")
    shop.run(30)
    leads = {"destination_kind": "exchange", "destination_name": "audit"}
    bound(shop, **leads)
    shop.run(1)
    assert len(shop.names("binding")) == 1
    received = len(shop.observed)
    shop.event("exchange.deleted", vhost="/", name="audit")
    shop.run(0.1)
    assert sorted(observed_ends(shop, received)) == [("binding", False), ("exchange", False)]


def test_an_end_that_no_event_reports_is_inferred() -> None:
    shop = world()
    shop.broker.add_exchange("till", "/")
    shop.broker.objects["binding"]["/", "till", "orders", "key"] = listed_binding()
    shop.run(60)
    assert len(shop.names("binding")) == 1
    received = len(shop.observed)
    shop.broker.objects["binding"].clear()
    shop.run(120)
    assert observed_ends(shop, received) == [("binding", True)]


def test_what_belongs_to_a_queue_or_connection_that_is_not_shown_is_not_missed() -> None:
    # `doctor` and another gateway have a queue for events, bound to an exchange, and a channel: no gap.
    shop = world()
    shop.broker.objects["exchange"]["/", "till"] = {"name": "till", "vhost": "/", "type": "topic"}
    shop.run(60)
    product = ['{<<"product">>,longstr,<<"amqp-gateway">>}']
    own = {"name": "own -> us", "user": "gateway", "vhost": "/", "client_properties": product}
    shop.event("connection.created", pid="<rabbit@shop.1.40.0>", **own)
    channel_opened(shop, "own -> us (1)", "<rabbit@shop.1.41.0>")
    lives = {"durable": False, "auto_delete": True, "exclusive": True}
    shop.event("queue.created", name="amqp-gateway.check.1", vhost="/", **lives)
    bound(shop, destination_name="amqp-gateway.check.1")
    shop.run(0.01)
    bound(shop, "deleted", destination_name="amqp-gateway.check.1")
    shop.event("queue.deleted", name="amqp-gateway.check.1", vhost="/")
    shop.event("channel.closed", pid="<rabbit@shop.1.41.0>", name="own -> us (1)")
    shop.event("connection.closed", name="own -> us", pid="<rabbit@shop.1.40.0>")
    shop.run(60)
    assert [one for one in shop.observed if isinstance(one, Gap)] == []
    # One that is shown, and has not been read, is missed.
    bound(shop, destination_name="other")
    shop.run(0.01)
    bound(shop, "deleted", destination_name="other")
    shop.run(0.1)
    assert [one.reason for one in shop.observed if isinstance(one, Gap)] == [WITHOUT_OWNER]


def test_a_channel_opened_unheard_is_listed_once_its_connection_is() -> None:
    shop = world()
    shop.broker.objects["channel"]["new -> us (1)",] = {
        "name": "new -> us (1)",
        "connection_details": {"name": "new -> us"},
        "messages_unacknowledged": 4,
    }
    shop.run(20)
    assert shop.names("channel") == []
    shop.broker.add_connection("new -> us", CONNECTED_AT)
    shop.run(20)
    assert shop.value("channel", "new -> us (1)", "messagesUnacknowledged") == 4
    # Its end is told by a process that nobody has heard of: a listing that lacks it, and then a 404, tell.
    shop.event("channel.closed", pid="<rabbit@shop.1.50.0>")
    assert shop.names("channel") == ["new -> us (1)"]
    del shop.broker.objects["channel"]["new -> us (1)",]
    shop.run(20)
    assert shop.names("channel") == []


def test_a_binding_is_as_durable_as_both_its_ends() -> None:
    shop = world()
    shop.broker.add_exchange("till", "/")
    shop.broker.add_exchange("short", "/")
    shop.broker.objects["exchange"]["/", "short"]["auto_delete"] = True
    shop.run(20)
    bound(shop)
    bound(shop, source="short")
    durable = list(MAPPING.classes["binding"].properties).index("durable")
    found = {known.name.parts[1]: known.properties[durable] for known in shop.source.known("binding")}
    assert found == {"till": True, "short": False}
    shop.event("exchange.deleted", vhost="/", name="till")
    assert [name.split("/")[2] for name in shop.names("binding")] == ["short"]


@pytest.mark.parametrize("missed", [False, True])
def test_a_binding_that_a_client_declares_again_is_the_same(*, missed: bool) -> None:
    """RabbitMQ 4 reports it as if it had just been created; that proves no end of the former one."""
    shop = world()
    shop.broker.add_exchange("till", "/")
    shop.broker.objects["binding"]["one",] = listed_binding()
    shop.run(60)
    (number,) = [known.number for known in shop.source.known("binding")]
    received = len(shop.seen)
    if missed:
        shop.source_does(shop.source.handle(LinkDown("the broker was started again"), shop.now))
        shop.run(2)
        shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    bound(shop)
    shop.run(60)
    assert [known.number for known in shop.source.known("binding")] == [number]
    assert "binding" not in ends(shop, received)


def test_bindings_of_the_default_exchange_and_of_what_is_not_shown_are_not_shown() -> None:
    shop = world()
    shop.broker.objects["binding"]["default",] = listed_binding(source="")
    shop.broker.objects["binding"]["unknown",] = listed_binding(source="nobody heard of it")
    shop.run(60)
    assert shop.names("binding") == []
    bound(shop, source="nobody heard of it")
    assert shop.names("binding") == []


def test_of_a_binding_with_arguments_the_listing_reports_soon() -> None:
    shop = world()
    shop.broker.add_exchange("till", "/")
    shop.run(20)
    arguments = ['{<<"x-match">>,longstr,<<"all">>}']
    shop.broker.objects["binding"]["one",] = listed_binding(
        properties_key="~abc", routing_key="key", arguments={"x-match": "all"}
    )
    bound(shop, arguments=arguments)
    shop.run(0.5)
    assert shop.names("binding") == ["//till/queue/orders/~abc"]
    del shop.broker.objects["binding"]["one",]
    bound(shop, "deleted", arguments=arguments)
    assert shop.names("binding") == []


def test_what_is_set_while_its_class_is_listed_is_listed_again() -> None:
    shop = world()
    shop.request_takes = SECOND // 10
    policy: dict[str, Json] = {
        "vhost": "/",
        "name": "cap",
        "pattern": "^a",
        "definition": {},
        "priority": 0,
        "apply-to": "all",
    }
    while not is_of_policies(shop.broker.requests[-1]):
        shop.run(0.05)
    # The listing that is under way was answered before the policy was set.
    shop.broker.objects["policy"]["/", "cap"] = dict(policy)
    shop.event("policy.set", **policy)
    shop.run(5)
    assert shop.names("policy") == ["//cap"]


def test_a_policy_that_is_set_again_at_once_is_shown_at_once() -> None:
    shop = world()
    policy: dict[str, Json] = {
        "vhost": "/",
        "name": "cap",
        "pattern": "^a",
        "definition": {},
        "priority": 0,
        "apply-to": "all",
    }
    shop.broker.objects["policy"]["/", "cap"] = dict(policy)
    shop.event("policy.set", **policy)
    shop.run(1)
    shop.event("policy.cleared", vhost="/", name="cap")
    assert shop.names("policy") == []
    shop.event("policy.set", **policy)
    shop.run(1)
    assert shop.names("policy") == ["//cap"]


def test_users_who_may_not_be_read_are_not_shown_by_halves() -> None:
    shop = World(RabbitMqSourceConfig(user="gateway"))
    shop.broker.users = None
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(12)
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert "users, permissions and runtime parameters are not shown" in shop.source.status.detail
    shop.event("user.created", name="new")
    shop.run(100)
    assert shop.names("user") == []
    assert [event.name for event in shop.events()] == ["userCreated"]
    asked = [one for one in shop.broker.requests if getattr(one, "class_name", "") == "user"]
    assert len(asked) == 1, "each refusal is a line in the broker's log"
    # As soon as the right is given, and told, all are shown.
    shop.broker.users = {}
    shop.broker.objects["user"]["old",] = {"name": "old", "tags": [], "limits": {"max-channels": 5}}
    shop.event("user.tags.set", name="gateway", tags=["administrator"])
    shop.run(5)
    assert shop.names("user") == ["old"]
    assert shop.value("user", "old", "maxChannels") == 5
    assert shop.value("user", "old", "maxConnections") == -1
    assert shop.source.status.detail == ""


def test_an_administrators_wrong_password_hides_what_is_for_administrators_and_nothing_else() -> None:
    shop = World(RabbitMqSourceConfig(user="gateway", writer="operator"))

    def refused(request: ManagementRequest) -> Answer | None:
        administrative = getattr(request, "class_name", "") in {"user", "parameter"}
        return Refused(login=True, reason="Login failed") if administrative else None

    shop.broker.failure = refused
    shop.broker.add_queue("orders")
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(12)
    assert shop.source.status.state is SourceState.DEGRADED
    assert "Login failed" in shop.source.status.detail
    assert shop.names("queue") == ["//orders"]
    # It is right again: nothing tells so, and an hour would be long.
    shop.broker.failure = lambda _: None
    shop.broker.users = {}
    shop.broker.objects["user"]["old",] = {"name": "old", "tags": [], "limits": {}}
    shop.run(60)
    assert shop.names("user") == ["old"]
    assert shop.source.status.detail == ""


def test_without_a_writing_account_a_refused_login_is_the_readers_and_is_tried_again_soon() -> None:
    """A password that is changed meanwhile may be refused first for a request that needs an administrator."""
    shop = World(RabbitMqSourceConfig(user="gateway"))
    shop.broker.users = {}
    shop.broker.objects["user"]["old",] = {"name": "old", "tags": [], "limits": {}}
    asked: list[str] = []

    def refused(request: ManagementRequest) -> Answer | None:
        asked.append(getattr(request, "class_name", ""))
        return Refused(login=True, reason="Login failed") if asked[-1] == "user" else None

    shop.broker.failure = refused
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(12)
    assert "user" in asked
    assert shop.names("user") == []
    assert shop.source.status.detail == ADMINISTRATORS_ONLY
    shop.broker.failure = lambda _: None
    shop.run(60)
    assert shop.names("user") == ["old"]
    assert shop.source.status.detail == ""


def test_users_whom_the_broker_could_not_list_once_are_listed_soon() -> None:
    shop = World(RabbitMqSourceConfig(user="gateway"))
    shop.broker.users = {}
    shop.broker.objects["user"]["old",] = {"name": "old", "tags": [], "limits": {}}
    shop.broker.failure = lambda request: (
        Broken("status 500") if getattr(request, "class_name", "") == "user" else None
    )
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(12)
    assert shop.names("user") == []
    shop.broker.failure = lambda _: None
    shop.run(60)
    assert shop.names("user") == ["old"]


def test_runtime_parameters_are_those_of_plugins() -> None:
    shop = world()
    for component in ("shovel", "vhost-limits", "operator_policy"):
        document = {"vhost": "/", "component": component, "name": "one", "value": {"src-uri": "amqp://u:p@h"}}
        shop.broker.objects["parameter"][component,] = dict(document)
    shop.event("parameter.set", vhost="/", component="shovel", name="one")
    shop.run(1)
    assert shop.names("parameter") == ["//shovel/one"]
    assert shop.value("parameter", "one", "value") == {"src-uri": "amqp://***@h"}
    shop.event("parameter.cleared", vhost="/", component="shovel", name="one")
    assert shop.names("parameter") == []


def test_inside_a_virtual_host_that_may_not_be_read_nothing_new_is_shown() -> None:
    shop = world()
    shop.broker.add_vhost("closed")
    shop.broker.forbidden.add("closed")
    shop.run(60)
    assert shop.value("vhost", "closed", "state") == "notPermitted"
    channel_opened(shop)
    shop.event("consumer.created", queue="q", vhost="closed", channel=PROCESS, consumer_tag="tag")
    bound(shop, vhost="closed", source="")
    shop.broker.objects["consumer"]["one",] = {
        "queue": {"vhost": "closed", "name": "q"},
        "channel_details": {"name": CHANNEL},
        "consumer_tag": "tag",
    }
    shop.run(30)
    assert shop.names("consumer") == shop.names("binding") == []


@pytest.mark.parametrize("host", ["/", "team"])
def test_what_belongs_to_a_queue_of_another_gateway_is_not_shown_and_makes_no_gap(host: str) -> None:
    """The queue itself was made before events arrived, or where it could not be read."""
    shop = world()
    shop.broker.add_vhost("team")
    shop.broker.forbidden.add("team")
    shop.run(60)
    shop.broker.forbidden.clear()
    shop.broker.add_exchange("till", host)
    channel_opened(shop)

    def come_and_go(queue: str) -> list[Gap]:
        since = len(shop.observed)
        bound(shop, vhost=host, destination_name=queue)
        shop.event("consumer.created", queue=queue, vhost=host, channel=PROCESS, consumer_tag="tag")
        shop.run(0.5)
        bound(shop, "deleted", vhost=host, destination_name=queue)
        shop.event("consumer.deleted", queue=queue, vhost=host, channel=PROCESS, consumer_tag="tag")
        return [one for one in shop.observed[since:] if isinstance(one, Gap)]

    shop.run(12)
    assert come_and_go("amqp-gateway.console.other") == []
    assert come_and_go("other"), "of a client's queue that is not known it does"
    shop.broker.objects["binding"]["own",] = listed_binding(
        vhost=host, destination="amqp-gateway.console.other"
    )
    shop.broker.add_queue("amqp-gateway.console.other", host)
    shop.run(30)
    assert shop.names("binding") == []
    assert not [one for one in shop.observed if isinstance(one, Gap) and "no event came" in one.reason]


# Which of several agents tells.


def test_an_agent_that_stands_by_reports_what_happened_after_the_other_was_last_known_to_serve() -> None:
    shop = world()
    shop.agent.handle(LinkDown("gone"), shop.now)
    shop.event("user.created", name="told by the other")
    shop.queue_created("gone before", durable=False)
    shop.event("queue.deleted", vhost="/", name="gone before")
    shop.run(60)
    shop.agent.stand_by(shop.now)
    shop.event("user.created", name="perhaps told by nobody")
    received, seen = len(shop.observations), len(shop.seen)
    shop.agent_does(shop.agent.handle(LinkUp(""), shop.now))
    shop.run(5)
    assert [event.arguments["user"] for event in shop.events(received)] == ["perhaps told by nobody"]
    assert not [one for one in shop.seen[seen:] if one.deleted]


def test_two_agents_give_one_event_the_same_id_and_two_events_two() -> None:
    one, other = world(), world()
    for shop in (one, other):
        shop.event("user.created", name="bob")
        shop.event("user.created", name="eve")
        shop.run(3)
    ids = [
        [send.message_id for send in shop.sent if send.routing_key.startswith("console.event.")]
        for shop in (one, other)
    ]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2


def test_the_end_of_the_queue_of_the_one_that_serves_is_noticed() -> None:
    shop = world(management_virtual_host="m")
    shop.event("queue.deleted", vhost="/", name="amqp-gateway.manager.qpid.management")
    shop.event("queue.deleted", vhost="m", name="another")
    assert shop.agent.vacancies == 0
    shop.event("queue.deleted", vhost="m", name="amqp-gateway.manager.qpid.management")
    assert shop.agent.vacancies == 1
