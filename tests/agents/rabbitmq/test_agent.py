"""The agent in stories: what the broker does, and what the console hears of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.agents.rabbitmq.agent_config import RabbitMqAgentConfig
from gateway.agents.rabbitmq.management_api import (
    Answer,
    Broken,
    Document,
    ListingRequest,
    NotManagement,
    ObjectRequest,
    OverviewRequest,
    PermissionRequest,
    Refused,
    Unavailable,
)
from gateway.dialects.effects import Binding, Delivery
from gateway.mapping.paths import Json
from gateway.model.observations import SourceState
from tests.agents.rabbitmq.documents import any_json
from tests.agents.rabbitmq.imitation import EPOCH, MILLISECOND, SECOND, World
from tests.hypothesis_profiles import examples

CONNECTED_AT = EPOCH // MILLISECOND - 50_000


def world(*, events: bool = True, **config: object) -> World:
    """A world in which everything has been read once, with queue ``orders`` and a connection."""
    new = World(RabbitMqAgentConfig(user="gateway", **config))  # type: ignore[arg-type]
    new.broker.add_queue("orders", messages=3)
    new.broker.add_connection("peer -> us", CONNECTED_AT)
    if events:
        new.agent_does(new.agent.events_connected(new.now))
    new.run(12)
    return new


def test_the_console_learns_everything_that_the_broker_has() -> None:
    shop = world()
    assert {one.key.name for one in shop.seen} == {"node", "vhost", "queue", "exchange", "connection"}
    assert shop.agent.status.state is SourceState.SYNCHRONISED
    assert shop.agent.status.detail == ""
    queue = next(one for one in shop.seen if one.key.name == "queue")
    assert queue.properties is not None
    vhost = next(one for one in shop.seen if one.key.name == "vhost")
    assert getattr(queue.properties[0], "native_id", "") == vhost.native_id
    assert queue.statistics is not None
    assert (queue.statistics[0], queue.statistics[1]) == (3, None)


def test_nothing_is_served_before_everything_has_been_read_once() -> None:
    shop = World()
    shop.broker.failure = lambda request: (
        Unavailable("starting") if getattr(request, "class_name", "") == "queue" else None
    )
    shop.run(2)
    assert shop.sent == []
    shop.broker.failure = lambda _: None
    shop.run(40)
    assert shop.sent[0].routing_key == "schema.package"
    assert shop.names("queue") == []
    assert not shop.silent


def test_a_creation_leaves_within_50_ms_and_its_values_come_later() -> None:
    shop = world()
    heard = len(shop.seen)
    shop.queue_created("new", arguments=['{<<"x-max-length">>,long,5}'])
    shop.broker.add_queue("new", messages=7, arguments={"x-max-length": 5})
    created = shop.now
    shop.run(0.05)
    (new,) = [one for one in shop.seen[heard:] if one.key.name == "queue" and one.properties]
    assert (new.created, new.deleted) == (created // MILLISECOND * MILLISECOND, 0)
    assert new.properties is not None
    assert {"x-max-length": 5} in new.properties
    shop.run(10)
    assert shop.value("queue", "new", "messages") == 7


def test_created_and_deleted_within_the_window_is_one_record_with_both_times() -> None:
    shop = world()
    heard = len(shop.seen)
    shop.queue_created("brief")
    shop.run(0.005)
    shop.event("queue.deleted", vhost="/", name="brief")
    shop.run(0.05)
    (brief,) = shop.seen[heard:]
    assert 0 < brief.created < brief.deleted


def test_a_deletion_leaves_within_50_ms_and_a_stale_listing_does_not_undo_it() -> None:
    shop = world()
    heard = len(shop.seen)
    shop.event("queue.deleted", vhost="/", name="orders")
    shop.run(0.05)
    assert shop.story("queue", heard) == [("orders", "deleted")]
    shop.run(6)  # the imitated broker still lists it
    assert shop.names("queue") == []
    del shop.broker.objects["queue"]["/", "orders"]
    shop.run(60)
    assert shop.story("queue", heard) == [("orders", "deleted")]


def test_an_event_for_an_unknown_object_keeps_a_stale_listing_from_inventing_it() -> None:
    shop = world()
    shop.event("queue.deleted", vhost="/", name="ghost")
    shop.broker.add_queue("ghost")
    shop.run(7)
    assert shop.names("queue") == ["//orders"]


def test_without_events_a_missing_object_is_asked_for_and_goes_with_404() -> None:
    shop = world(events=False)
    heard = len(shop.seen)
    shop.run(10)
    del shop.broker.objects["queue"]["/", "orders"]
    shop.run(7)
    assert [r.name.leaf for r in shop.broker.requests if isinstance(r, ObjectRequest)] == ["orders"]
    assert shop.story("queue", heard) == [("orders", "deleted")]
    assert "cannot be seen" in shop.agent.status.detail


def test_an_object_that_answers_is_not_deleted_because_a_listing_lacks_it() -> None:
    shop = world(events=False)
    shop.run(10)
    shop.broker.hidden_listings = {"queue"}
    shop.run(5.5)
    shop.broker.hidden_listings = set()
    shop.run(60)
    assert any(isinstance(request, ObjectRequest) for request in shop.broker.requests)
    assert ("orders", "deleted") not in shop.story("queue")


def test_many_missing_objects_go_when_a_second_listing_lacks_them() -> None:
    shop = World(RabbitMqAgentConfig(user="gateway"))
    for number in range(1_200):
        shop.broker.add_queue(f"q{number}")
    shop.run(15)
    assert len(shop.names("queue")) == 1_200
    assert {r.page for r in shop.broker.requests if isinstance(r, ListingRequest)} == {1, 2, 3}
    shop.broker.objects["queue"].clear()
    shop.run(12)
    assert shop.names("queue") == []
    assert not any(isinstance(request, ObjectRequest) for request in shop.broker.requests)


def test_a_connection_comes_by_event_before_any_listing_shows_it_and_goes_by_event() -> None:
    shop = world()
    heard = len(shop.seen)
    connected_at = shop.now // MILLISECOND
    shop.event(
        "connection.created",
        name="new -> us",
        vhost="/",
        user="app",
        connected_at=connected_at,
        pid="<a.1.2.3>",
        peer_host="{127,0,0,1}",
        protocol="{0,9,1}",
    )
    shop.queue_created("mine", exclusive=True, owner_pid="<a.1.2.3>")
    shop.run(8)  # two listings lack it still
    assert shop.names("connection") == ["new -> us", "peer -> us"]
    assert shop.value("connection", "new -> us", "peerHost") == "127.0.0.1"
    assert shop.value("queue", "mine", "exclusiveOwner") == "new -> us"
    shop.event("connection.closed", name="new -> us", pid="<a.1.2.3>")
    shop.run(0.05)
    assert shop.story("connection", heard)[-1] == ("new -> us", "deleted")
    (first, *_, last) = [one for one in shop.seen[heard:] if one.key.name == "connection"]
    assert first.native_id == last.native_id
    assert last.created == connected_at * MILLISECOND


def test_lost_events_make_the_agent_read_everything_again_at_once() -> None:
    shop = world()
    shop.broker.requests.clear()
    shop.agent_does(shop.agent.events_lost("too many waited", shop.now))
    shop.run(0.1)
    listed = {request.class_name for request in shop.broker.requests if isinstance(request, ListingRequest)}
    assert listed == {"node", "vhost", "queue", "exchange", "connection"}
    assert shop.notes[-1].event == "resync"


def test_after_a_restart_counters_are_absent_until_told_and_the_start_time_is_new() -> None:
    shop = world()
    started = shop.value("node", "rabbit@shop", "startTime")
    assert started == (EPOCH + 2 * MILLISECOND - 60 * SECOND) // SECOND * SECOND
    shop.broker.add_queue("orders")  # durable, but nothing is counted yet
    shop.broker.objects["connection"].clear()
    shop.broker.objects["node"]["rabbit@shop",] = {"name": "rabbit@shop", "running": True}
    shop.run(6)
    assert shop.value("queue", "orders", "messages") is None
    assert shop.value("queue", "orders", "type") == "classic"
    assert shop.value("node", "rabbit@shop", "startTime") is None
    resyncs = shop.note_counts["resync"]
    shop.broker.add_node(process=200, uptime=2_000)
    shop.run(20)
    assert shop.note_counts["resync"] == resyncs + 1
    assert shop.value("node", "rabbit@shop", "startTime") > started
    assert shop.names("queue") == ["//orders"]
    assert shop.names("connection") == []


def test_the_start_time_of_a_node_does_not_move_with_every_reading() -> None:
    shop = world()
    heard = len(shop.seen)
    node = shop.broker.objects["node"]["rabbit@shop",]
    for _ in range(10):
        shop.run(5.003)
        node["uptime"] = (shop.now - EPOCH) // MILLISECOND + 60_000 - 4_900  # RabbitMQ's figure is old
    assert shop.story("node", heard) == []


def test_what_may_not_be_read_is_shown_as_such_and_not_as_empty() -> None:
    shop = World()
    shop.broker.add_vhost("secret")
    shop.broker.add_queue("hidden", "secret")
    shop.broker.forbidden.add("secret")
    shop.agent_does(shop.agent.events_connected(shop.now))
    shop.run(12)
    assert shop.value("vhost", "secret", "state") == "notPermitted"
    assert shop.value("vhost", "secret", "messages") is None
    assert shop.value("vhost", "/", "state") == "running"
    assert shop.value("vhost", "/", "messages") == 0
    assert shop.names("queue") == []
    assert shop.agent.status.detail == "contents of 1 virtual host may not be read"
    shop.queue_created("hidden-too", "secret")
    assert shop.names("queue") == []


def test_a_right_taken_away_deletes_nothing_and_a_right_given_shows_all() -> None:
    shop = world(events=False)
    shop.broker.add_vhost("team")
    shop.broker.add_queue("work", "team", messages=5)
    shop.run(12)
    assert shop.value("queue", "work", "messages") == 5
    shop.broker.forbidden.add("team")
    shop.run(60)
    assert shop.value("vhost", "team", "state") == "notPermitted"
    assert shop.names("queue") == ["//orders", "team/work"]
    assert shop.value("queue", "work", "messages") is None
    shop.broker.forbidden.clear()
    shop.run(60)
    assert shop.value("vhost", "team", "state") == "running"
    assert shop.value("queue", "work", "messages") == 5
    assert ("work", "deleted") not in shop.story("queue")


def test_a_virtual_host_that_goes_takes_its_contents_with_it() -> None:
    shop = world(events=False)
    shop.broker.add_vhost("team")
    shop.broker.add_queue("work", "team")
    shop.run(30)
    for collection in shop.broker.objects.values():
        for parts in [one for one in collection if one[0] == "team"]:
            del collection[parts]
    shop.run(60)
    assert shop.names("vhost") == ["/"]
    assert shop.names("queue") == ["//orders"]


def test_a_new_virtual_host_is_asked_about_at_once() -> None:
    shop = world()
    shop.broker.add_vhost("new")
    shop.broker.forbidden.add("new")
    shop.event("vhost.created", name="new", description="", tags="[]", tracing=False)
    shop.queue_created("early", "new")
    assert shop.agent.status.state is SourceState.SYNCHRONISED
    shop.run(0.2)
    assert PermissionRequest("new") in shop.broker.requests
    assert shop.value("vhost", "new", "state") == "notPermitted"
    assert shop.names("queue") == ["//orders"]
    shop.event("vhost.deleted", name="new")
    assert shop.names("vhost") == ["/"]


@pytest.mark.parametrize("show_own", [False, True])
def test_the_gateways_own_queues_and_connections_are_left_out_unless_asked_for(*, show_own: bool) -> None:
    shop = World(RabbitMqAgentConfig(user="gateway", own_users=frozenset({"agent"}), show_own=show_own))
    own: dict[str, Json] = {"product": "amqp-gateway"}
    shop.broker.add_queue("amqp-gateway.events.1")
    shop.broker.add_connection("own", CONNECTED_AT, user="gateway", client_properties=own)
    shop.broker.add_connection("publishing", CONNECTED_AT, user="agent", type="direct")
    shop.broker.add_connection("liar", CONNECTED_AT, user="app", client_properties=own)
    shop.queue_created("amqp-gateway.console.2")
    shop.event(
        "connection.created",
        name="own 2",
        user="agent",
        client_properties=['{<<"product">>,longstr,<<"amqp-gateway">>}'],
    )
    shop.run(2)
    if show_own:
        assert shop.names("queue") == ["//amqp-gateway.console.2", "//amqp-gateway.events.1"]
        assert shop.names("connection") == ["liar", "own", "own 2", "publishing"]
    else:
        assert shop.names("queue") == []
        assert shop.names("connection") == ["liar"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Refused(login=True, reason="Login failed"), "refuses user 'gateway' (Login failed)"),
        (Unavailable("connection refused"), "does not answer (connection refused)"),
        (NotManagement("status 302"), "no RabbitMQ management API at that URL (status 302)"),
    ],
)
def test_a_broker_that_does_not_answer_is_said_once_and_then_silence(answer: Answer, text: str) -> None:
    shop = world()
    shop.broker.failure = lambda _: answer
    shop.run(6)
    assert shop.agent.status.state is SourceState.DOWN
    assert text in shop.agent.status.detail
    shop.run(100)
    assert shop.note_counts["management-unavailable"] == 1
    assert shop.note_counts["agent-silent"] == 1
    assert shop.silent


def test_when_the_broker_answers_again_all_is_read_before_anything_is_told() -> None:
    shop = world()
    shop.broker.failure = lambda _: Unavailable("connection refused")
    shop.run(100)
    told, resyncs = len(shop.sent), shop.resyncs
    shop.broker.failure = lambda request: (
        Unavailable("starting") if getattr(request, "class_name", "") == "connection" else None
    )
    shop.broker.add_queue("meanwhile")
    shop.run(60)
    assert len(shop.sent) == told
    shop.broker.failure = lambda _: None
    shop.run(60)
    assert shop.agent.status.state is SourceState.SYNCHRONISED
    assert shop.resyncs > resyncs
    assert ("meanwhile", "there") in shop.story("queue")
    assert ("orders", "deleted") not in shop.story("queue")


def test_a_class_that_may_not_be_read_is_said_and_the_rest_is_served() -> None:
    shop = World()
    shop.broker.failure = lambda request: (
        Refused(login=False, reason="Not monitor user")
        if getattr(request, "class_name", "") == "node"
        else None
    )
    shop.run(12)
    assert shop.agent.status.state is SourceState.SYNCHRONISED
    assert "may not read nodes (Not monitor user): give it the tag 'monitoring'" in shop.agent.status.detail
    assert shop.story("vhost")
    shop.broker.failure = lambda _: None
    shop.run(60)
    assert "nodes" not in shop.agent.status.detail
    assert shop.story("node")


def test_a_listing_that_the_broker_cannot_make_does_not_stop_the_others() -> None:
    shop = World()
    shop.broker.add_queue("orders")
    shop.broker.failure = lambda request: (
        Broken("status 500") if getattr(request, "class_name", "") == "exchange" else None
    )
    shop.run(12)
    assert shop.agent.status.state is SourceState.SYNCHRONISED
    assert "the broker cannot list exchanges (status 500)" in shop.agent.status.detail
    assert shop.story("queue")


def test_an_overview_that_may_not_be_read_is_said_and_no_more() -> None:
    shop = World()
    refusal = Refused(login=False, reason="No")
    shop.broker.failure = lambda request: refusal if isinstance(request, OverviewRequest) else None
    shop.run(12)
    assert "may not read the overview (No)" in shop.agent.status.detail
    assert shop.value("node", "rabbit@shop", "clusterName") is None
    assert shop.story("node")


def test_a_question_about_a_virtual_host_that_cannot_be_answered_stops_nothing() -> None:
    shop = World()
    shop.broker.add_vhost("odd")
    shop.broker.forbidden.add("odd")
    shop.broker.failure = lambda request: Broken("500") if isinstance(request, PermissionRequest) else None
    shop.run(12)
    assert shop.agent.status.state is SourceState.SYNCHRONISED
    assert shop.value("vhost", "odd", "state") is None
    assert shop.value("vhost", "odd", "messages") is None


def test_a_virtual_host_on_some_nodes_only_or_on_none() -> None:
    shop = World()
    for name, states in (("some", {"a": "running", "b": "stopped"}), ("none", {"a": "stopped"}), ("odd", {})):
        shop.broker.add_vhost(name)
        shop.broker.objects["vhost"][name,]["cluster_state"] = dict(states)
    shop.run(12)
    assert [shop.value("vhost", name, "state") for name in ("some", "none", "odd")] == [
        "partlyRunning",
        "stopped",
        None,
    ]


def test_a_link_that_comes_back_is_told_what_happened_meanwhile() -> None:
    shop = world()
    told = len(shop.sent)
    assert shop.agent.disconnected("gone", shop.now) == []
    shop.queue_created("meanwhile")
    shop.event("queue.deleted", vhost="/", name="orders")
    shop.broker.objects["queue"].clear()
    shop.broker.add_queue("meanwhile")
    shop.run(3)
    assert len(shop.sent) == told
    shop.agent_does(shop.agent.connected("", shop.now))
    shop.run(6)
    assert ("meanwhile", "there") in shop.story("queue")
    assert ("orders", "deleted") in shop.story("queue")


def test_requests_lost_on_the_way_make_the_agent_tell_everything_again() -> None:
    shop = world()
    heard = len(shop.seen)
    shop.agent_does(shop.agent.resync("the queue was too long", shop.now))
    shop.run(5.1)
    assert ("orders", "there") in shop.story("queue", heard)


def test_a_console_that_binds_is_told_everything() -> None:
    shop = world(management_virtual_host="amqp-gateway")
    binding = {"vhost": "amqp-gateway", "source_name": "qpid.management"}
    heard = len(shop.seen)
    shop.event("binding.created", **{**binding, "routing_key": "schema.#"})
    shop.event("binding.created", **{**binding, "routing_key": "console.#", "vhost": "/"})
    shop.run(5.1)
    assert shop.story("queue", heard) == []
    shop.event("binding.created", **binding, routing_key="console.obj.#")
    shop.run(5.1)
    assert shop.story("queue", heard) == [("orders", "there")]


def test_only_whom_it_obeys_is_answered() -> None:
    shop = world()
    effects = shop.agent.receive(Delivery("x", "broker", b"AM2B\0\0\0\0", "reply", "mallory"), shop.now)
    assert [getattr(effect, "event", "") for effect in effects][:1] == ["refused-sender"]


def test_what_the_link_binds() -> None:
    assert {binding.routing_key for binding in world().agent.bindings} == {"broker", "agent.1.0", "schema.#"}
    assert all(isinstance(binding, Binding) for binding in world().agent.bindings)


def test_secrets_reach_no_message() -> None:
    shop = world()
    shop.broker.add_queue("fed", arguments={"uri": "amqp://user:hush-1@host", "password": "hush-2"})
    shop.broker.add_connection(
        "talker -> us",
        CONNECTED_AT,
        client_properties={
            "password": "hush-3",
            "nested": {"api_key": "hush-4", "see": "amqps://a:hush-5@b"},
        },
    )
    shop.queue_created(
        "fed-2",
        arguments=[
            '{<<"uri">>,longstr,<<"amqp://user:hush-6@host">>}',
            '{<<"secret">>,longstr,<<"hush-7">>}',
        ],
    )
    shop.event(
        "connection.created",
        name="talker-2",
        user="app",
        client_properties=['{<<"t">>,table,[{<<"passwd">>,longstr,<<"hush-8">>}]}'],
    )
    shop.run(12)
    bodies = b"".join(send.body for send in shop.sent)
    assert b"fed-2" in bodies
    assert b"talker-2" in bodies
    assert b"hush" not in bodies
    assert "hush" not in repr(shop.notes)


def test_unreadable_values_are_counted_by_place() -> None:
    shop = world()
    shop.broker.add_queue("odd", messages="many")
    shop.broker.objects["queue"]["/", "broken"] = {"name": "broken"}
    shop.run(6)
    assert shop.agent.unreadable.keys() >= {"queue.messages", "queue"}


ANSWERS = st.one_of(
    st.builds(Document, any_json()),
    st.builds(
        lambda items: Document({"items": items, "page": 1, "page_count": 1}), st.lists(any_json(), max_size=3)
    ),
    st.sampled_from(
        [Unavailable("x"), Broken("x"), NotManagement("x"), Refused(False, "x"), Refused(True, "x")]
    ),
)


@settings(max_examples=examples() // 4)
@given(st.lists(ANSWERS, max_size=20))
def test_whatever_the_broker_answers_the_agent_goes_on(answers: list[Answer]) -> None:
    shop = World()
    left = iter(answers)
    shop.broker.failure = lambda _: next(left, None)
    shop.run(120)
    shop.broker.failure = lambda _: None
    shop.run(120)
    assert shop.agent.status.state is SourceState.SYNCHRONISED
    assert "/" in shop.names("vhost")


def test_after_any_churn_the_console_and_the_broker_agree() -> None:
    shop = World()
    shop.agent_does(shop.agent.events_connected(shop.now))
    for number in range(200):
        name = f"q{number % 17}"
        if ("/", name) in shop.broker.objects["queue"]:
            del shop.broker.objects["queue"]["/", name]
            if number % 5:
                shop.event("queue.deleted", vhost="/", name=name)
        else:
            shop.broker.add_queue(name)
            if number % 7:
                shop.queue_created(name)
        shop.run(0.7)
    shop.run(60)
    told: dict[str, str] = {}
    for one in shop.seen:
        if one.key.name == "queue" and one.properties is not None:
            if one.deleted:
                told.pop(one.native_id, None)
            else:
                told[one.native_id] = str(one.properties[1])
    assert sorted(told.values()) == sorted(name for _, name in shop.broker.objects["queue"])
