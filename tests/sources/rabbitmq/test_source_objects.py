"""The source in stories: objects that come and go on the broker, and a console's view of them."""

from __future__ import annotations

import pytest

from gateway.dialects.session import LinkUp, LossSuspected, TimerExpired
from gateway.model.observations import Gap, SourceState
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.management_api import (
    ListingRequest,
    ObjectRequest,
    PermissionRequest,
    Unavailable,
)
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from tests.sources.rabbitmq.imitation import EPOCH, MAPPING, World
from tests.sources.rabbitmq.story import world


def test_the_console_learns_everything_that_the_broker_has() -> None:
    shop = world()
    assert {one.key.name for one in shop.seen} == {"node", "vhost", "queue", "exchange", "connection"}
    assert shop.source.status.state is SourceState.SYNCHRONISED
    assert shop.source.status.detail == ""
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
    received = len(shop.seen)
    shop.queue_created("new", arguments=['{<<"x-max-length">>,long,5}'])
    shop.broker.add_queue("new", messages=7, arguments={"x-max-length": 5})
    created = shop.now
    shop.run(0.05)
    (new,) = [one for one in shop.seen[received:] if one.key.name == "queue" and one.properties]
    assert (new.created, new.deleted) == (created // MILLISECOND * MILLISECOND, 0)
    assert new.properties is not None
    assert {"x-max-length": 5} in new.properties
    shop.run(10)
    assert shop.value("queue", "new", "messages") == 7


def test_created_and_deleted_within_the_window_is_one_record_with_both_times() -> None:
    shop = world()
    received = len(shop.seen)
    shop.queue_created("brief")
    shop.run(0.005)
    shop.event("queue.deleted", vhost="/", name="brief")
    shop.run(0.05)
    (brief,) = shop.seen[received:]
    assert 0 < brief.created < brief.deleted


def test_a_deletion_leaves_within_50_ms_and_a_stale_listing_does_not_undo_it() -> None:
    shop = world()
    received = len(shop.seen)
    shop.event("queue.deleted", vhost="/", name="orders")
    shop.run(0.05)
    assert shop.story("queue", received) == [("orders", "deleted")]
    shop.run(6)  # the imitated broker still lists it
    assert shop.names("queue") == []
    del shop.broker.objects["queue"]["/", "orders"]
    shop.run(60)
    assert shop.story("queue", received) == [("orders", "deleted")]


def test_an_event_for_an_unknown_object_keeps_a_stale_listing_from_inventing_it() -> None:
    shop = world()
    shop.event("queue.deleted", vhost="/", name="ghost")
    shop.broker.add_queue("ghost")
    shop.run(7)
    assert shop.names("queue") == ["//orders"]


def test_without_events_a_missing_object_is_asked_for_and_goes_with_404() -> None:
    shop = world(events=False)
    received = len(shop.seen)
    shop.run(10)
    del shop.broker.objects["queue"]["/", "orders"]
    shop.run(7)
    assert [r.name.leaf for r in shop.broker.requests if isinstance(r, ObjectRequest)] == ["orders"]
    assert shop.story("queue", received) == [("orders", "deleted")]
    assert "cannot be seen" in shop.source.status.detail


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
    shop = World(RabbitMqSourceConfig(user="gateway"))
    for number in range(1_200):
        shop.broker.add_queue(f"q{number}")
    shop.run(15)
    assert len(shop.names("queue")) == 1_200
    assert {r.page for r in shop.broker.requests if isinstance(r, ListingRequest)} == {1, 2, 3}
    shop.broker.objects["queue"].clear()
    shop.run(12)
    assert shop.names("queue") == []
    asked = sum(isinstance(request, ObjectRequest) for request in shop.broker.requests)
    assert asked <= RabbitMqSourceConfig(user="gateway").suspects_asked, "only some, to prove the listing"


def test_a_connection_comes_by_event_before_any_listing_shows_it_and_goes_by_event() -> None:
    shop = world()
    received = len(shop.seen)
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
    assert shop.story("connection", received)[-1] == ("new -> us", "deleted")
    (first, *_, last) = [one for one in shop.seen[received:] if one.key.name == "connection"]
    assert first.native_id == last.native_id
    assert last.created == connected_at * MILLISECOND


def test_lost_events_make_the_agent_read_everything_again_at_once() -> None:
    shop = world()
    shop.broker.requests.clear()
    shop.source_does(shop.source.handle(LossSuspected("too many waited", shop.now), shop.now))
    shop.run(0.1)
    listed = {request.class_name for request in shop.broker.requests if isinstance(request, ListingRequest)}
    assert listed == {name for name, rule in MAPPING.classes.items() if rule.listing}
    assert shop.note_counts["resync"]


def test_after_a_restart_counters_are_absent_until_reported_and_the_start_time_is_new() -> None:
    shop = world()
    started = shop.value("node", "rabbit@shop", "startTime")
    assert started == (EPOCH + 2 * MILLISECOND - 60 * SECOND) // SECOND * SECOND
    shop.broker.add_queue("orders")  # durable, but nothing is counted yet
    shop.broker.objects["connection"].clear()
    shop.broker.objects["node"]["rabbit@shop",] = {"name": "rabbit@shop", "running": True}
    shop.run(6)
    assert shop.value("queue", "orders", "messages") is None
    assert shop.value("queue", "orders", "type") == "classic"
    assert shop.value("node", "rabbit@shop", "startTime") == started
    assert shop.value("node", "rabbit@shop", "osProcess") == 100
    shop.run(60)
    assert shop.value("node", "rabbit@shop", "startTime") is None
    assert shop.value("node", "rabbit@shop", "osProcess") is None
    resyncs = shop.note_counts["resync"]
    shop.broker.add_node(process=200, uptime=2_000)
    shop.run(20)
    assert shop.note_counts["resync"] == resyncs + 1
    assert shop.value("node", "rabbit@shop", "startTime") > started
    assert shop.names("queue") == ["//orders"]
    assert shop.names("connection") == []


def test_a_process_that_a_node_reports_without_an_uptime_is_not_that_of_its_run_before() -> None:
    shop = world()
    shop.broker.objects["node"]["rabbit@shop",] = {"name": "rabbit@shop", "running": True, "os_pid": "200"}
    shop.run(6)
    assert shop.value("node", "rabbit@shop", "osProcess") == 200
    assert shop.value("node", "rabbit@shop", "startTime") is None


def test_what_lived_in_a_node_that_was_restarted_is_gone_before_any_listing_lacks_it() -> None:
    shop = world()
    shop.broker.add_queue("lasting")
    shop.broker.add_queue("mine", exclusive=True)
    shop.broker.add_queue("passing", durable=False)
    shop.broker.add_queue("elsewhere", durable=False, node="rabbit@cellar")
    shop.broker.add_connection("client -> us", 0, node="rabbit@shop")
    shop.broker.add_connection("client -> cellar", 0, node="rabbit@cellar")
    shop.run(12)
    shop.queue_created("heard", exclusive=True)
    shop.run(8)
    shop.broker.add_node(process=200, uptime=3_000)
    shop.broker.failure = lambda request: (
        Unavailable("busy") if request.target.startswith(("connections", "queues")) else None
    )
    shop.run(10)
    assert shop.names("queue") == ["//elsewhere", "//lasting", "//orders"]
    assert shop.names("connection") == ["client -> cellar"]
    del shop.broker.objects["queue"]["/", "mine"]
    shop.broker.failure = lambda _: None
    shop.queue_created("passing", durable=False)
    shop.run(5)
    assert shop.names("queue") == ["//elsewhere", "//lasting", "//orders", "//passing"]


def test_what_was_known_before_the_broker_was_out_of_sight_is_confirmed_or_gone_at_first() -> None:
    def state() -> SourceState:
        return shop.source.status.state

    shop = world()
    shop.event("connection.created", name="new -> us", vhost="/", user="app", node="rabbit@shop")
    shop.run(0.5)
    shop.broker.failure = lambda _: Unavailable("down")
    shop.run(3)
    assert state() is SourceState.DOWN
    shop.broker.objects["connection"].clear()  # the same process of the node: only the broker in it went
    shop.broker.failure = lambda _: None
    shop.run(5)
    assert shop.names("connection") == ["new -> us"]  # a listing may lack what is as new as that
    assert state() is SourceState.SYNCHRONISING
    shop.run(10)
    assert shop.names("connection") == []
    assert state() is SourceState.SYNCHRONISED
    assert shop.names("queue") == ["//orders"]


def test_the_start_time_of_a_node_does_not_move_with_every_reading() -> None:
    shop = world()
    received = len(shop.seen)
    node = shop.broker.objects["node"]["rabbit@shop",]
    for _ in range(10):
        shop.run(5.003)
        node["uptime"] = (shop.now - EPOCH) // MILLISECOND + 60_000 - 4_900  # RabbitMQ's figure is old
    assert shop.story("node", received) == []


def test_what_may_not_be_read_is_shown_as_such_and_not_as_empty() -> None:
    shop = World()
    shop.broker.add_vhost("secret")
    shop.broker.add_queue("hidden", "secret")
    shop.broker.forbidden.add("secret")
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(12)
    assert shop.value("vhost", "secret", "state") == "notPermitted"
    assert shop.value("vhost", "secret", "messages") is None
    assert shop.value("vhost", "/", "state") == "running"
    assert shop.value("vhost", "/", "messages") == 0
    assert shop.names("queue") == []
    assert shop.source.status.detail == "contents of 1 virtual host may not be read"
    shop.queue_created("hidden-too", "secret")
    assert shop.names("queue") == []


def test_a_right_taken_away_deletes_nothing_and_a_right_given_shows_all() -> None:
    shop = world(events=False)
    shop.broker.add_vhost("team")
    shop.broker.add_queue("work", "team", messages=5)
    shop.broker.add_queue("idle", "team")
    shop.run(12)
    assert shop.value("queue", "work", "messages") == 5
    shop.broker.forbidden.add("team")
    shop.run(60)
    assert shop.value("vhost", "team", "state") == "notPermitted"
    assert shop.names("queue") == ["//orders", "team/idle", "team/work"]
    assert shop.names("exchange") == ["//", "team/"]
    assert shop.value("queue", "work", "messages") is None
    shop.broker.forbidden.clear()
    shop.run(60)
    assert shop.value("vhost", "team", "state") == "running"
    assert shop.value("queue", "work", "messages") == 5
    assert [
        reported for reported in shop.story("queue") + shop.story("exchange") if reported[1] == "deleted"
    ] == []


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


def test_a_virtual_host_that_is_made_again_is_shown_as_soon_as_it_may_be_read() -> None:
    shop = world()
    shop.broker.add_vhost("team")
    del shop.broker.objects["exchange"]["team", ""]
    shop.broker.add_exchange("early", "team")
    shop.broker.add_exchange("late", "team")
    shop.run(12)
    for name, exchange in shop.broker.objects["exchange"].items():
        if name[0] == "team":
            shop.event("exchange.deleted", **exchange)
    shop.event("vhost.deleted", name="team")
    shop.broker.forbidden.add("team")
    shop.event("vhost.created", name="team")
    shop.event("exchange.created", **shop.broker.objects["exchange"]["team", "early"])
    shop.run(0.5)
    shop.event("exchange.created", **shop.broker.objects["exchange"]["team", "late"])
    assert shop.names("exchange") == ["//", "team/early"], "nothing shows that it ended"
    shop.broker.forbidden.clear()
    shop.source_does(shop.source.handle(LossSuspected("read everything", shop.now), shop.now))
    shop.run(1)
    assert shop.names("exchange") == ["//", "team/early", "team/late"]


def test_exchanges_of_which_no_event_reports_go_and_come_with_their_virtual_host() -> None:
    shop = world()
    shop.broker.add_vhost("team")
    shop.run(12)
    assert shop.names("exchange") == ["//", "team/"]
    del shop.broker.objects["exchange"]["team", ""]
    shop.event("vhost.deleted", name="team")
    shop.run(0.1)
    assert shop.names("exchange") == ["//"]
    shop.broker.add_vhost("team")
    shop.event("vhost.created", name="team")
    shop.run(1)
    assert shop.names("exchange") == ["//", "team/"]


def test_a_virtual_host_that_could_not_be_read_takes_its_contents_with_it_unheard() -> None:
    shop = world()
    shop.broker.add_vhost("team")
    shop.run(12)
    shop.broker.forbidden.add("team")
    shop.source_does(shop.source.handle(LossSuspected("read everything", shop.now), shop.now))
    shop.run(12)
    assert shop.names("exchange") == ["//", "team/"]
    del shop.broker.objects["vhost"]["team",]
    del shop.broker.objects["exchange"]["team", ""]
    shop.run(60)
    assert shop.names("vhost") == ["/"]
    assert shop.names("exchange") == ["//"]
    assert "may not be read" not in shop.source.status.detail


@pytest.mark.parametrize("version", ["3.10.8", "4.3.6"])
def test_a_new_virtual_host_is_asked_about_at_once(version: str) -> None:
    shop = world()
    shop.broker.version = version  # 4.3 answers 404 where the user has no permission
    shop.broker.add_vhost("new")
    shop.broker.forbidden.add("new")
    shop.event("vhost.created", name="new", description="", tags="[]", tracing=False)
    shop.queue_created("early", "new")
    assert shop.source.status.state is SourceState.SYNCHRONISED
    shop.run(0.2)
    assert PermissionRequest("new") in shop.broker.requests
    assert shop.value("vhost", "new", "state") == "notPermitted"
    assert [one.name.leaf for one in shop.source.known("queue") if one.unread_since] == ["early"]
    shop.queue_created("late", "new")
    shop.event("vhost.deleted", name="new")
    assert (shop.names("vhost"), shop.names("queue")) == (["/"], ["//orders"])


@pytest.mark.parametrize("version", ["3.10.8", "4.3.6"])
def test_a_permission_that_is_taken_away_and_given_again_leaves_nothing_without_its_time(
    version: str,
) -> None:
    shop = world()
    shop.broker.version = version
    shop.broker.add_vhost("team")
    shop.run(30)
    shop.broker.forbidden.add("team")
    shop.event("permission.deleted", user="gateway", vhost="team")
    shop.run(3)  # in 4.3 a listing has to show that there still is such a virtual host
    assert shop.value("vhost", "team", "state") == "notPermitted"
    made = shop.now
    for name in ("meanwhile", "passing"):
        shop.queue_created(name, "team")
    shop.event("queue.deleted", vhost="team", name="passing")
    shop.broker.add_queue("meanwhile", "team", message_stats={"publish": 7})
    shop.run(0.5)
    shop.broker.forbidden.clear()
    shop.event("permission.created", user="other", vhost="team", configure="", write="", read="")
    shop.queue_created("hidden", "team")
    assert shop.names("queue") == ["//orders"]
    shop.event("queue.deleted", vhost="team", name="hidden")
    shop.event("permission.created", user="gateway", vhost="team", configure="", write="", read="")
    shop.queue_created("after", "team")
    shop.broker.add_queue("after", "team", message_stats={"publish": 5})
    assert shop.names("queue") == ["//orders", "team/after"], "before anything is read"
    shop.run(0.2)
    assert shop.value("vhost", "team", "state") == "running", "it was asked at once"
    shop.run(90)
    assert shop.names("queue") == ["//orders", "team/after", "team/meanwhile"]
    created = {one.name.leaf: one.created for one in shop.source.known("queue")}
    assert created["meanwhile"] // MILLISECOND == made // MILLISECOND
    assert created["after"] > created["meanwhile"]
    assert shop.value("queue", "meanwhile", "messagesPublished") == 7
    reported = [one.arguments["name"] for one in shop.events() if one.name == "queueCreated"]
    assert reported == ["after"], "there are no events of what may not be read"
    assert not [one for one in shop.observed if isinstance(one, Gap)]


def test_an_answer_of_before_a_permission_was_given_is_asked_for_again() -> None:
    shop = world()
    shop.broker.add_vhost("team")
    shop.run(30)
    shop.broker.forbidden.add("team")
    shop.request_takes = SECOND
    shop.event("permission.deleted", user="gateway", vhost="team")
    while not isinstance(shop.asked, PermissionRequest):
        shop.run(0.1)
    shop.broker.forbidden.clear()
    shop.event("permission.created", user="gateway", vhost="team", configure="", write="", read="")
    shop.queue_created("after", "team")
    shop.run(30)
    assert shop.value("vhost", "team", "state") == "running"
    states = [one.properties for one in shop.seen if one.key.name == "vhost" and one.properties is not None]
    assert not any("notPermitted" in properties for properties in states)


def test_what_is_reported_as_new_where_nothing_was_ever_read_may_have_been_there_before() -> None:
    """As the broker reports a durable queue whose process is started again."""
    shop = world()
    shop.broker.add_vhost("team")
    shop.broker.forbidden.add("team")
    shop.broker.add_queue("work", "team")
    shop.run(30)
    shop.queue_created("work", "team")
    shop.broker.forbidden.clear()
    shop.event("permission.created", user="gateway", vhost="team", configure="", write="", read="")
    shop.run(30)
    assert {one.name.leaf: one.created for one in shop.source.known("queue")}["work"] == 0


def test_a_virtual_host_that_only_events_of_its_contents_show_is_unread_until_it_is_listed() -> None:
    shop = world()
    shop.broker.add_vhost("team")
    shop.broker.objects["vhost"]["team",]["description"] = "of the team"
    shop.queue_created("early", "team")
    (team,) = [one for one in shop.source.known("vhost") if one.name.leaf == "team"]
    assert team.unread_since
    shop.run(5)
    (team,) = [one for one in shop.source.known("vhost") if one.name.leaf == "team"]
    assert not team.unread_since
    assert shop.value("vhost", "team", "description") == "of the team"


def test_a_virtual_host_that_has_ended_since_keeps_what_late_events_report_of_it() -> None:
    """Its 404 means that it has ended by now, not that the earlier events may not be shown."""
    shop = world()
    shop.broker.version = "4.3.6"
    late = (shop.now - 10 * SECOND) // MILLISECOND
    shop.event("vhost.created", name="new", timestamp_in_ms=late)
    shop.run(0.2)
    assert PermissionRequest("new") in shop.broker.requests
    assert shop.value("vhost", "new", "state") is None
    shop.queue_created("early", "new", timestamp_in_ms=late + 1)
    assert shop.names("queue") == ["//orders", "new/early"]
    shop.event("vhost.deleted", name="new", timestamp_in_ms=late + 2)
    assert shop.names("vhost") == ["/"]


@pytest.mark.parametrize("version", ["3.10.8", "4.3.6"])
def test_a_virtual_host_that_ends_while_events_wait_keeps_what_they_report_of_it(version: str) -> None:
    """No event is late when it answers 404: all of them wait, in the broker or in the gateway."""
    shop = world()
    shop.broker.version = version
    shop.broker.add_vhost("team")
    shop.run(12)
    assert shop.value("vhost", "team", "state") == "running"
    before = len(shop.broker.requests)
    shop.source_does(shop.source.handle(LossSuspected("read everything", shop.now), shop.now))
    while "vhost" not in [getattr(one, "class_name", "") for one in shop.broker.requests[before:]]:
        shop.run(0.001)
    del shop.broker.objects["vhost"]["team",]
    del shop.broker.objects["exchange"]["team", ""]
    ended = shop.now // MILLISECOND
    while PermissionRequest("team") not in shop.broker.requests[before:]:
        shop.run(0.001)
    shop.run(0.05)
    assert "may not be read" not in shop.source.status.detail
    received = len(shop.seen)
    shop.queue_created("brief", "team", timestamp_in_ms=ended - 20)
    shop.event("queue.deleted", vhost="team", name="brief", timestamp_in_ms=ended - 10)
    shop.event("vhost.deleted", name="team", timestamp_in_ms=ended)
    shop.run(1)
    assert ("brief", "deleted") in shop.story("queue", received)
    assert shop.names("vhost") == ["/"]


def test_after_a_standstill_events_of_that_time_come_before_listings() -> None:
    """A listing shows the result of the events, so that an event after it would seem to report an end."""
    shop = world()
    shop.run(60)
    shop.now += 30 * SECOND
    stopped = (shop.now - 20 * SECOND) // MILLISECOND
    shop.agent_does(shop.agent.handle(TimerExpired(), shop.now))
    for number in range(5):
        shop.event("queue.created", name=f"late {number}", vhost="/", durable=True, timestamp_in_ms=stopped)
        shop.run(1)
    asked = len(shop.broker.requests)
    listed = {request.class_name for request in shop.broker.requests if isinstance(request, ListingRequest)}
    assert "queue" in listed
    recent = shop.broker.requests[asked - 10 :]
    assert not [one for one in recent if isinstance(one, ListingRequest) and one.class_name == "queue"]
    shop.run(30)
    later = shop.broker.requests[asked:]
    assert [one for one in later if isinstance(one, ListingRequest) and one.class_name == "queue"]


def test_a_name_that_is_no_utf8_is_kept_while_another_object_has_it() -> None:
    """The end of a namesake in another virtual host, or of another class, is not its own."""
    shop = world()
    shop.broker.add_vhost("other")
    shop.run(60)
    for host in ("/", "other"):
        shop.queue_created(b"caf\xe9", vhost=host)  # type: ignore[arg-type]
    shop.event("exchange.created", vhost="/", name=b"caf\xe9", type="direct", durable=True)
    shop.broker.add_queue("caf\ufffd")
    shop.run(30)
    (number,) = (
        one.number for one in shop.source.known("queue") if one.name.parts[0] == "/" and "x" in one.name.leaf
    )
    shop.event("queue.deleted", vhost="other", name=b"caf\xe9")
    shop.event("exchange.deleted", vhost="/", name=b"caf\xe9")
    shop.run(60)
    assert shop.names("queue") == ["//caf\\xe9", "//orders"]
    assert number in [one.number for one in shop.source.known("queue")]


@pytest.mark.parametrize("lists", [True, False])
def test_a_name_that_is_no_utf8_is_the_same_in_events_and_listings(*, lists: bool) -> None:
    """RabbitMQ 3.10 lists U+FFFD in the place of a byte, 4.x lists nothing."""
    shop = world()
    shop.queue_created(b"caf\xe9")  # type: ignore[arg-type]
    shop.queue_created(b"caf\xe8")  # type: ignore[arg-type]
    shop.queue_created("\u00e9")
    if lists:
        shop.broker.add_queue("caf\ufffd")
        shop.event("queue.deleted", vhost="/", name=b"caf\xe8")
    shop.broker.add_queue("\u00e9")
    numbers = {known.name.leaf: known.number for known in shop.source.known("queue")}
    shop.run(3)
    if lists:
        shop.run(60)
        assert shop.names("queue") == ["//caf\\xe9", "//orders", "//\u00e9"]
        assert shop.value("queue", "caf\\xe9", "name") == "caf\\xe9"
        assert shop.value("queue", "caf\\xe9", "node") is not None, "the listing is about it"
        assert [known.number for known in shop.source.known("queue") if "x" in known.name.leaf] == [
            numbers["caf\\xe9"]
        ]
    shop.event("queue.deleted", vhost="/", name=b"caf\xe9")
    assert "//caf\\xe9" not in shop.names("queue")
