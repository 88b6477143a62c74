"""A listing that fails, is late or is partial proves no end: the objects of the class are unread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.dialects.session import LinkDown, LinkUp, LossSuspected
from gateway.mapping.paths import Json
from gateway.model.observations import ObjectSeen, SourceState, SourceStateSeen
from gateway.model.times import MILLISECOND, SECOND
from gateway.model.values import Reference
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Broken,
    Document,
    ListingRequest,
    ManagementRequest,
    NotFound,
    NotManagement,
    ObjectRequest,
    OverviewRequest,
    Refused,
    Unavailable,
)
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName, native_id
from gateway.sources.rabbitmq.object_places import place_key, place_of
from gateway.sources.rabbitmq.path_proof import PathProof
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from tests.sources.rabbitmq.imitation import NODE, POLICY, World
from tests.sources.rabbitmq.story import CONNECTED_AT, world
from tests.sources.rabbitmq.test_source_classes import listed_binding
from tests.structure.paths import traced

FAILS = Broken("status 500")
FAILURES = [
    FAILS,
    Unavailable("no answer within 8 s", late=True),
    Unavailable("the connection ended before an answer", cut=True),
    Unavailable("status 503", responded=True),
    NotManagement("it answers with something else than JSON"),
    Refused(login=False, reason="status 403"),
    Broken("an answer of more than 16777216 bytes", permanent=True),
]


def not_answering(*collections: str, answer: Answer = FAILS) -> Callable[[ManagementRequest], Answer | None]:
    """Return a failure of all requests about these collections, also of those about single objects."""
    return lambda request: answer if request.target.startswith(collections) else None


def not_listing(collection: str, answer: Answer = FAILS) -> Callable[[ManagementRequest], Answer | None]:
    """Return a failure of the listing of a collection."""
    return lambda request: (
        answer if isinstance(request, ListingRequest) and request.collection == collection else None
    )


def unread(shop: World, class_name: str) -> dict[str, bool]:
    """Return whether objects of a class are unread, by name."""
    return {"/".join(one.name.parts): bool(one.unread_since) for one in shop.source.known(class_name)}


def seen(shop: World, class_name: str) -> list[ObjectSeen]:
    return [one for one in shop.observed if isinstance(one, ObjectSeen) and one.key.name == class_name]


def read_in_part(shop: World) -> dict[str, str]:
    """Return the classes about which there is an alarm although some of each are read, with the reasons."""
    (state,) = [one for one in shop.observed if isinstance(one, SourceStateSeen)][-1:]
    assert (state.state is SourceState.DEGRADED) is bool(state.not_readable)
    return {one.class_name: one.reason for one in state.not_readable if one.partly}


def ends(shop: World, since: int = 0) -> list[str]:
    return [one.key.name for one in shop.observed[since:] if isinstance(one, ObjectSeen) and one.deleted]


def started_again(
    shop: World, failure: Callable[[ManagementRequest], Answer | None], *, writer: str = ""
) -> World:
    """Return a new gateway on the broker of ``shop``, which knows the former one's objects."""
    again = World(RabbitMqSourceConfig(user="gateway", writer=writer), broker=shop.broker, now=shop.now)
    every = [one for name in shop.broker.objects for one in shop.source.known(name)]
    former = [replace(one, first_seen=0, listed=False, reported=False) for one in every]
    again.source.remember(former, again.now, events_kept=False, complete_until=again.now - SECOND)
    again.broker.failure = failure
    again.source_does(again.source.handle(LinkUp(""), again.now))
    return again


@pytest.mark.parametrize(
    ("collection", "class_name", "names", "answer"),
    [
        *(("queues", "queue", ["//orders"], answer) for answer in FAILURES),
        ("exchanges", "exchange", ["//", "team/"], FAILS),
        ("vhosts", "vhost", ["/", "team"], FAILS),
        ("connections", "connection", ["peer -> us"], FAILS),
        ("nodes", "node", [NODE], FAILS),
    ],
    ids=str,
)
def test_what_cannot_be_listed_after_a_restart_of_the_gateway_goes_on_as_unread(
    collection: str, class_name: str, names: list[str], answer: Answer
) -> None:
    shop = world()
    shop.broker.add_vhost("team")
    shop.run(30)
    numbers = {one.name: one.number for one in shop.source.known(class_name)}
    again = started_again(shop, not_answering(collection, answer=answer))
    again.run(60)
    assert again.names(class_name) == names
    assert all(unread(again, class_name).values())
    assert {one.name: one.number for one in again.source.known(class_name)} == numbers
    assert ends(again) == []
    assert {one.native_id for one in seen(again, class_name) if one.unread_since} == set(
        map(native_id, numbers.values())
    )
    assert again.source.synchronised, "the others are fresh"
    assert again.source.status.state is SourceState.DEGRADED
    (state,) = [one for one in again.observed if isinstance(one, SourceStateSeen)][-1:]
    assert [one.class_name for one in state.not_readable] == [f"rabbitmq:{class_name}"]

    again.broker.failure = lambda _: None
    again.event("user.tags.set", name="gateway", tags="[monitoring]")  # it is tried at once
    again.run(30)
    assert not any(unread(again, class_name).values())
    assert not any(one.unread_since for one in seen(again, class_name)[-len(names) :])
    assert (again.source.status.state, ends(again)) == (SourceState.SYNCHRONISED, [])
    assert {one.name: one.number for one in again.source.known(class_name)} == numbers


def test_what_cannot_be_listed_while_events_were_lost_has_not_ended() -> None:
    shop = world()
    shop.broker.failure = not_answering("queues")
    shop.source_does(shop.source.handle(LossSuspected("the queue was too long", shop.now), shop.now))
    shop.run(150)
    assert unread(shop, "queue") == {"//orders": True}
    assert shop.source.synchronised
    assert shop.value("queue", "orders", "messages") == 3, "the last that was known"
    shop.queue_created("young")
    shop.event("queue.deleted", vhost="/", name="orders")
    shop.run(12)
    assert unread(shop, "queue") == {"//young": True}
    shop.broker.failure = lambda _: None
    shop.event("user.tags.set", name="gateway", tags="[monitoring]")
    shop.run(30)
    assert ends(shop) == ["queue", "queue"], "what two listings lack has ended"


def test_a_queue_made_again_while_its_class_cannot_be_listed_is_a_new_life() -> None:
    shop = world()
    again = started_again(shop, not_answering("queues"))
    again.run(30)
    (former,) = again.source.known("queue")
    again.event("queue.deleted", vhost="/", name="orders")
    again.queue_created("orders")
    (present,) = again.source.known("queue")
    assert present.number != former.number
    assert ends(again) == ["queue"]


def test_an_event_alone_shows_an_end_while_no_listing_does() -> None:
    shop = world()
    shop.broker.failure = not_answering("queues")
    shop.run(30)
    shop.source_does(shop.source.handle(LinkDown("reset"), shop.now))
    shop.run(60)
    assert unread(shop, "queue") == {"//orders": True}
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.event("queue.deleted", vhost="/", name="orders")
    assert shop.names("queue") == []


def test_what_belongs_to_an_owner_that_ended_meanwhile_has_ended_with_it() -> None:
    shop = world()
    shop.broker.add_vhost("team")
    shop.broker.add_queue("inside", "team")
    shop.run(30)
    del shop.broker.objects["vhost"]["team",]
    again = started_again(shop, not_answering("queues", "exchanges"))
    again.run(60)
    assert unread(again, "queue") == {"//orders": True}
    assert unread(again, "exchange") == {"//": True}


def test_when_something_unread_ended_is_not_known_although_the_end_of_its_owner_is_reported() -> None:
    shop = world()
    shop.broker.add_vhost("team")
    shop.broker.add_queue("inside", "team")
    shop.run(30)
    again = started_again(shop, not_answering("queues", "connections"))
    again.run(60)
    before = len(again.observed)
    again.event("vhost.deleted", name="team")
    gone = [one for one in again.observed[before:] if isinstance(one, ObjectSeen) and one.deleted]
    assert {one.key.name: one.inferred for one in gone} == {"queue": True, "exchange": False, "vhost": False}


def test_what_ended_with_its_node_has_ended_although_it_cannot_be_listed() -> None:
    shop = world()
    shop.broker.add_queue("passing", durable=False)
    shop.run(30)
    shop.broker.add_node(process=200, uptime=500)
    again = started_again(shop, not_answering("queues", "connections"))
    again.run(60)
    assert unread(again, "queue") == {"//orders": True}
    assert again.names("connection") == []


def test_one_listing_that_lacks_an_object_of_before_the_start_is_no_proof() -> None:
    shop = world()
    listed = 0

    def partial_once(request: ManagementRequest) -> Answer | None:
        nonlocal listed
        if not isinstance(request, ListingRequest) or request.class_name != "queue":
            return None
        listed += 1
        return Document([]) if listed == 1 else None

    again = started_again(shop, partial_once)
    again.run(30)
    assert (again.names("queue"), ends(again)) == (["//orders"], [])

    del shop.broker.objects["queue"]["/", "orders"]
    third = started_again(again, lambda _: None)
    third.run(30)
    assert third.names("queue") == [], "two listings lacked it"


def test_what_may_not_be_read_after_a_restart_goes_on_as_unread() -> None:
    shop = world()
    shop.broker.add_vhost("team")
    shop.broker.add_queue("inside", "team")
    shop.run(30)
    shop.broker.forbidden.add("team")
    again = started_again(shop, lambda _: None)
    again.run(60)
    assert unread(again, "queue") == {"//orders": False, "team/inside": True}
    assert unread(again, "exchange") == {"//": False, "team/": True}
    assert (again.source.status.state, ends(again)) == (SourceState.SYNCHRONISED, [])


# Objects are read one by one.


def test_objects_are_read_by_themselves_where_their_listing_fails() -> None:
    shop = world(writer="writer")
    shop.broker.add_queue("broken")
    shop.run(30)
    broken = ObjectName("queue", ("/", "broken"))
    shop.broker.objects["queue"]["/", "orders"]["messages"] = 8

    def fails(request: ManagementRequest) -> Answer | None:
        is_listing = isinstance(request, ListingRequest) and request.class_name == "queue"
        return (
            FAILS if is_listing or (isinstance(request, ObjectRequest) and request.name == broken) else None
        )

    again = started_again(shop, fails, writer="writer")
    again.run(90)
    assert unread(again, "queue") == {"//orders": False, "//broken": True}
    assert again.value("queue", "orders", "messages") == 8
    assert again.source.status.state is SourceState.DEGRADED
    again.run(600)
    assert unread(again, "queue") == {"//orders": False, "//broken": True}, "they are read again and again"
    del again.broker.objects["queue"]["/", "orders"]
    again.run(90)
    assert again.names("queue") == ["//broken"], "its own page answered 404 twice"


def test_policies_are_read_by_virtual_host_where_their_listing_fails() -> None:
    shop = World()
    shop.broker.add_vhost("team")
    shop.broker.objects["policy"]["/", "all"] = dict(POLICY)
    shop.broker.objects["policy"]["team", "all"] = {**POLICY, "vhost": "team"}
    shop.broker.failure = not_listing("policies")
    shop.run(60)
    assert unread(shop, "policy") == {"//all": False, "team/all": False}, "found although never listed"
    shop.broker.objects["policy"]["/", "all"]["priority"] = 7
    shop.run(60)
    assert 7 in {one.properties[4] for one in shop.source.known("policy")}

    # What a virtual host answers about another one is no answer.
    def of_team(request: ManagementRequest) -> Answer | None:
        if isinstance(request, ObjectRequest) and request.name.class_name == "policy":
            return Document([{**POLICY, "vhost": "team"}] if request.name.parts[0] == "/" else [])
        return not_listing("policies")(request)

    shop.broker.failure = of_team
    shop.run(20)
    assert "//all" in shop.names("policy")
    shop.broker.failure = not_listing("policies")
    del shop.broker.objects["policy"]["/", "all"]
    shop.run(60)
    assert shop.names("policy") == ["team/all"], "two answers of its virtual host lacked it"


def test_where_no_single_answer_was_ever_right_a_missing_object_has_not_ended() -> None:
    shop = world()
    again = started_again(
        shop,
        lambda request: NotFound() if isinstance(request, ObjectRequest) else not_listing("queues")(request),
    )
    again.run(120)
    assert unread(again, "queue") == {"//orders": True}
    assert ends(again) == []


@pytest.mark.parametrize("answer", [NotFound(), Document({"vhost": "/", "name": "other"})])
def test_what_one_listing_lacks_ends_by_a_second_one_where_single_answers_are_not_proved(
    answer: Answer,
) -> None:
    shop = world()
    lacks = True

    def lacking(request: ManagementRequest) -> Answer | None:
        nonlocal lacks
        if isinstance(request, ListingRequest) and request.class_name == "queue" and lacks:
            lacks = False
            return Document([])
        return answer if isinstance(request, ObjectRequest) else None

    shop.run(60)
    shop.broker.failure = lacking
    shop.run(60)
    assert not lacks
    assert shop.names("queue") == ["//orders"], "the second listing has it"
    del shop.broker.objects["queue"]["/", "orders"]
    shop.run(90)
    assert shop.names("queue") == []


@pytest.mark.parametrize(
    "answer",
    [
        FAILS,
        Refused(login=False, reason="status 401"),
        Document({"items": [], "page": 1, "page_count": 0}),
        Document([]),
    ],
)
def test_empty_listings_prove_nothing_where_requests_for_the_objects_fail(answer: Answer) -> None:
    """So answers a server in the broker's place, such as a page of a proxy under maintenance."""
    shop = world()

    def fails(request: ManagementRequest) -> Answer | None:
        if isinstance(request, ListingRequest) and request.class_name == "queue":
            return Document([])
        return answer if isinstance(request, ObjectRequest) else None

    again = started_again(shop, fails)
    again.run(90)
    assert again.names("queue") == ["//orders"]
    assert (again.source.status.state, ends(again)) == (SourceState.DEGRADED, [])
    assert "without 1 objects that may exist" in read_in_part(again)["rabbitmq:queue"]

    again.broker.failure = lambda _: None
    del again.broker.objects["queue"]["/", "orders"]
    again.run(90)
    assert (again.names("queue"), ends(again)) == ([], ["queue"]), "its own page answered 404"
    assert again.source.status.state is SourceState.SYNCHRONISED


ON_ORDERS: dict[str, Json] = {"queue": {"vhost": "/", "name": "orders"}}
OF_CLIENT: dict[str, Json] = {**ON_ORDERS, "connection_details": {"name": "peer -> us"}}
WITHOUT_PAGES: dict[str, dict[str, Json]] = {
    "binding": listed_binding(),
    "policy": dict(POLICY),
    "operatorPolicy": dict(POLICY),
    "topicPermission": {"vhost": "/", "user": "app", "exchange": "till", "write": "w", "read": "r"},
    "consumer": {**ON_ORDERS, "channel_details": {}, "consumer_tag": "0"},
    "streamConsumer": {**OF_CLIENT, "subscription_id": 0},
    "streamPublisher": {**OF_CLIENT, "publisher_id": 3},
    "shovel": {"vhost": "/", "name": "mover", "type": "dynamic", "state": "running"},
    "federationLink": {"vhost": "/", "exchange": "till", "upstream": "shop", "id": "2b", "type": "exchange"},
}
"""A document of each class whose objects have no page of their own."""


def with_one_of(class_name: str) -> World:
    """Return a world with one object of a class, whose listing is empty from now on."""
    shop = World(RabbitMqSourceConfig(user="gateway", writer="writer"))
    shop.broker.add_queue("orders", messages=3)
    shop.broker.add_exchange("till", "/")
    shop.broker.add_connection("peer -> us", CONNECTED_AT)
    shop.broker.objects["user"]["app",] = {"name": "app", "tags": []}
    shop.broker.objects["permission"]["/", "app"] = {"vhost": "/", "user": "app"}
    shop.broker.objects[class_name]["one",] = WITHOUT_PAGES[class_name]
    shop.run(70)
    assert len(shop.names(class_name)) == 1
    shop.broker.hidden_listings = {class_name}
    return shop


@pytest.mark.parametrize("class_name", WITHOUT_PAGES)
def test_empty_listings_prove_nothing_where_a_smaller_one_has_the_object(class_name: str) -> None:
    shop = with_one_of(class_name)
    names = shop.names(class_name)
    shop.run(180)
    assert shop.names(class_name) == names
    assert (ends(shop), all(unread(shop, class_name).values())) == ([], True)
    assert read_in_part(shop).keys() == {f"rabbitmq:{class_name}"}
    del shop.broker.objects[class_name]["one",]
    shop.run(180)
    assert shop.names(class_name) == [], "the smaller one lacks it, too"
    assert shop.source.status.state is SourceState.SYNCHRONISED


@pytest.mark.parametrize("class_name", WITHOUT_PAGES)
def test_what_a_smaller_listing_lacks_too_ends_with_the_second_one(class_name: str) -> None:
    shop = with_one_of(class_name)
    del shop.broker.objects[class_name]["one",]
    before = len(shop.broker.requests)
    shop.run(180)
    assert (shop.names(class_name), read_in_part(shop)) == ([], {})
    asked = [request for request in shop.broker.requests[before:] if isinstance(request, ObjectRequest)]
    assert [request.name.class_name for request in asked] == [class_name], "once"


def test_few_of_many_bindings_are_asked_for_where_a_listing_lacks_all() -> None:
    shop, queues = world(), [f"q{number}" for number in range(200)]
    shop.broker.add_exchange("till", "/")
    for queue in queues:
        shop.broker.add_queue(queue)
        shop.broker.objects["binding"][queue,] = listed_binding(destination=queue)
    shop.run(60)
    shop.broker.hidden_listings = {"binding"}
    before = len(shop.broker.requests)
    shop.run(60)
    kinds = shop.broker.requests[before:]
    listings = sum(isinstance(one, ListingRequest) and one.class_name == "binding" for one in kinds)
    assert sum(isinstance(one, ObjectRequest) for one in kinds) <= 50 * listings
    assert (len(shop.names("binding")), ends(shop)) == (len(queues), [])


def test_all_that_a_smaller_listing_lacks_ends_with_its_answer_where_listings_are_partial() -> None:
    shop = World(RabbitMqSourceConfig(user="gateway"))
    for host in ("team", "till"):
        shop.broker.add_vhost(host)
        for number in range(40):
            name = f"policy{number}"
            shop.broker.objects["policy"][host, name] = {**POLICY, "vhost": host, "name": name}
    shop.run(70)
    shop.broker.hidden_listings = {"policy"}
    shop.run(90)
    assert (len(shop.names("policy")), ends(shop)) == (80, [])
    for number in range(39):
        del shop.broker.objects["policy"]["team", f"policy{number}"]
    shop.run(40)
    assert [name for name in shop.names("policy") if name.startswith("team")] == ["team/policy39"]
    assert len(shop.names("policy")) == 41


@pytest.mark.parametrize("restarted", [False, True])
def test_what_listings_lack_does_not_end_before_any_of_it_was_asked_for(*, restarted: bool) -> None:
    """Policies are asked for first, and of the bindings, which are listed again before, not all."""
    shop, queues = world(), [f"q{number}" for number in range(60)]
    shop.broker.add_exchange("till", "/")
    shop.broker.objects["policy"]["/", "all"] = dict(POLICY)
    for queue in queues:
        shop.broker.add_queue(queue)
        shop.broker.objects["binding"][queue,] = listed_binding(destination=queue)
    shop.run(70)
    shop.broker.hidden_listings = {"policy", "binding"}
    if restarted:
        shop = started_again(shop, lambda _: None)
    else:
        shop.source_does(shop.source.handle(LossSuspected("all is read again", shop.now), shop.now))
    shop.request_takes = 10 * MILLISECOND
    shop.run(60)
    assert (len(shop.names("binding")), "binding" in ends(shop)) == (len(queues), False)
    assert all(unread(shop, "binding").values())
    assert read_in_part(shop).keys() == {"rabbitmq:binding", "rabbitmq:policy"}


OF_MONITORS = {"vhost": "team", "connection": "peer -> us", "consumer": "//orders//0"}
"""An object of each class of which a reader without the tag `monitoring` is shown its own ones only."""


def without_the_tag(version: str, *, events: bool = True) -> World:
    """Return a world with such objects, just before the reader loses the tag."""
    shop = world(events=events)
    shop.broker.version = version
    shop.broker.add_vhost("team")
    shop.broker.forbidden.add("team")
    shop.broker.objects["consumer"]["one",] = WITHOUT_PAGES["consumer"]
    shop.run(60)
    assert {name: shop.names(name)[-1] for name in OF_MONITORS} == OF_MONITORS
    return shop


@pytest.mark.parametrize("version", ["3.10.8", "4.3.6"])
@pytest.mark.parametrize("events", [True, False])
@pytest.mark.parametrize("restarted", [False, True])
def test_what_a_reader_without_the_tag_monitoring_is_not_shown_has_not_ended(
    version: str, *, events: bool, restarted: bool
) -> None:
    """RabbitMQ answers 200, and leaves out what is of others; 4.3 has 404 for a virtual host."""
    shop = without_the_tag(version, events=events)
    shop.broker.monitoring = False
    if restarted:
        shop = started_again(shop, lambda _: None)
    shop.run(120)
    assert {name: shop.names(name)[-1] for name in OF_MONITORS} == OF_MONITORS
    assert (ends(shop), [name for name in OF_MONITORS if not unread(shop, name)[OF_MONITORS[name]]]) == (
        [],
        [],
    )
    assert {f"rabbitmq:{name}" for name in OF_MONITORS} <= read_in_part(shop).keys()
    assert "give it the tag 'monitoring'" in shop.source.status.detail

    del shop.broker.objects["connection"]["peer -> us",]
    del shop.broker.objects["consumer"]["one",]
    del shop.broker.objects["vhost"]["team",]
    shop.run(60)
    assert ends(shop) == []
    shop.broker.monitoring = True
    shop.run(1000)
    assert sorted(ends(shop)) == ["connection", "consumer", "vhost"], (
        "each answers 404, or two listings lack it"
    )
    assert (shop.source.status.state, read_in_part(shop)) == (SourceState.SYNCHRONISED, {})


@pytest.mark.parametrize("narrowed", [True, False])
def test_what_is_read_singly_without_the_tag_monitoring_has_not_ended_either(*, narrowed: bool) -> None:
    shop = without_the_tag("3.10.8")
    shop.broker.failure = not_listing("consumers")
    shop.run(60)
    shop.broker.monitoring = not narrowed
    if not narrowed:
        del shop.broker.objects["consumer"]["one",]
    shop.run(55)
    assert ends(shop) == ([] if narrowed else ["consumer"])


def test_a_reader_that_lost_the_tag_monitoring_reads_the_rest_after_an_outage() -> None:
    shop = without_the_tag("3.10.8")
    shop.broker.monitoring = False
    shop.run(60)
    shop.broker.failure = lambda _: Unavailable("down")
    shop.run(30)
    shop.broker.failure = lambda _: None
    shop.run(120)
    assert (ends(shop), unread(shop, "queue")) == ([], {"//orders": False})
    assert shop.source.status.state is SourceState.DEGRADED


def test_what_a_policymaker_without_permission_is_not_shown_has_not_ended() -> None:
    """Its listing of parameters lacks those of the virtual host, and each of these answers 401."""
    shop = World(RabbitMqSourceConfig(user="gateway", writer="writer"))
    shop.broker.objects["parameter"]["/", "shovel", "mover"] = {
        "vhost": "/",
        "component": "shovel",
        "name": "mover",
        "value": {},
    }
    shop.run(70)
    (name,) = shop.names("parameter")
    shop.broker.hidden_listings = {"parameter"}
    shop.broker.failure = lambda request: (
        Refused(login=False, reason="status 401") if isinstance(request, ObjectRequest) else None
    )
    shop.run(180)
    assert (ends(shop), unread(shop, "parameter")) == ([], {name: True})
    assert read_in_part(shop).keys() == {"rabbitmq:parameter"}


@pytest.mark.parametrize("version", ["3.10.8", "4.3.6"])
@pytest.mark.parametrize("class_name", ["policy", "operatorPolicy", "binding"])
def test_what_is_in_a_virtual_host_that_may_not_be_read_any_more_is_unread(
    class_name: str, version: str
) -> None:
    shop = world(events=False)
    shop.broker.version = version
    shop.broker.add_vhost("team")
    shop.broker.add_exchange("till", "team")
    shop.broker.add_queue("orders", "team")
    shop.broker.objects[class_name]["one",] = {**WITHOUT_PAGES[class_name], "vhost": "team"}
    shop.run(60)
    (name,) = shop.names(class_name)
    shop.broker.forbidden.add("team")
    shop.run(120)
    assert (ends(shop), unread(shop, class_name)) == ([], {name: True})
    assert shop.value("vhost", "team", "state") == "notPermitted"
    shop.broker.forbidden.clear()
    shop.run(120)
    assert (ends(shop), unread(shop, class_name), read_in_part(shop)) == ([], {name: False}, {})


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("class_name", ["featureFlag", "deprecatedFeature"])
def test_a_broker_without_any_feature_is_none(class_name: str, *, restarted: bool) -> None:
    shop = World()
    shop.broker.objects[class_name]["old",] = {"name": "old", "state": "enabled"}
    shop.run(12)
    assert shop.names(class_name) == ["old"]
    shop.broker.hidden_listings = {class_name}
    if restarted:
        shop = started_again(shop, lambda _: None)
    for _ in range(2):
        shop.source_does(shop.source.handle(LossSuspected("all is read again", shop.now), shop.now))
        shop.run(30)
    assert (unread(shop, class_name), ends(shop)) == ({"old": True}, [])
    text = f"the broker lists class {class_name} without 1 objects that may exist"
    assert read_in_part(shop) == {f"rabbitmq:{class_name}": text}
    is_unknown = shop.value("node", NODE, "metadataStore") is None
    assert is_unknown is (restarted and class_name == "featureFlag"), "no flag says where definitions are"


def test_virtual_hosts_that_cannot_be_listed_are_found_in_other_listings() -> None:
    shop = World(RabbitMqSourceConfig(user="gateway", writer="writer"))
    shop.broker.add_vhost("team")
    shop.broker.add_queue("orders", "team")
    shop.broker.failure = not_listing("vhosts")
    shop.run(90)
    assert unread(shop, "vhost") == {"/": False, "team": False}


def test_a_queue_that_cannot_be_listed_at_the_first_start_is_found_by_its_binding() -> None:
    shop = World(RabbitMqSourceConfig(user="gateway", writer="writer"))
    shop.broker.add_queue("orders")
    shop.broker.add_exchange("till", "/")
    shop.broker.objects["binding"]["orders",] = listed_binding(destination="orders")
    shop.broker.failure = not_listing("queues")
    shop.run(90)
    assert unread(shop, "queue") == {"//orders": False}
    assert unread(shop, "binding") == {"//till/queue/orders/key": False}
    shop.broker.failure = lambda _: None
    shop.run(60)
    assert (unread(shop, "queue"), ends(shop)) == ({"//orders": False}, [])


def test_a_name_needs_no_listing_of_virtual_hosts() -> None:
    shop = World()
    shop.broker.add_vhost("a|b")
    shop.broker.add_queue("orders", "a|b")
    shop.broker.objects["policy"]["a|b", "all"] = {
        "vhost": "a|b",
        "name": "all",
        "pattern": ".*",
        "apply-to": "all",
        "priority": 0,
        "definition": {},
    }
    shop.broker.failure = not_answering("vhosts")
    shop.run(60)
    queue = seen(shop, "queue")[0]
    assert queue.properties is not None
    host = queue.properties[0]
    assert isinstance(host, Reference)
    assert host.name == r"a\|b"
    assert shop.names("policy") == ["a|b/all"], "it is shown without its virtual host"
    numbers = [one.number for one in shop.source.known("policy")]
    shop.broker.failure = lambda _: None
    shop.run(100)
    assert seen(shop, "vhost")
    assert [one.number for one in shop.source.known("policy")] == numbers


def test_what_a_path_does_not_reach_is_not_asked_for_singly_and_another_object_is_no_answer() -> None:
    shop = world()
    altered = PathProof(frozenset("/"))

    def decoding(request: ManagementRequest) -> Answer | None:
        if isinstance(request, OverviewRequest):
            return Document({"object_totals": {"queues": 1}}, paths=altered)
        if isinstance(request, ListingRequest) and request.class_name == "queue":
            return FAILS
        return NotFound() if isinstance(request, ObjectRequest) else None

    again = started_again(shop, decoding)
    again.run(120)
    assert unread(again, "queue") == {"//orders": True}
    altered, other = PathProof(), Document({"vhost": "a", "name": "b"})
    again.broker.failure = lambda request: other if isinstance(request, ObjectRequest) else decoding(request)
    again.run(120)
    assert any(isinstance(request, ObjectRequest) for request in again.broker.requests)
    assert unread(again, "queue") == {"//orders": True}


def test_objects_that_are_read_singly_take_a_part_of_the_budget_only() -> None:
    shop = world()
    for number in range(300):
        shop.broker.add_queue(f"q{number}")
    shop.run(60)
    again = started_again(shop, not_listing("queues"))
    again.run(60)
    before, since = len(shop.broker.requests), again.now
    again.run(120)
    singly = [one for one in shop.broker.requests[before:] if isinstance(one, ObjectRequest)]
    share = len(singly) * again.request_takes / (again.now - since)
    assert 0 < share <= RabbitMqSourceConfig("gateway").polling.budget / 2


@pytest.mark.parametrize(
    ("class_name", "one", "other"),
    [
        ("binding", ("/", "till", "queue", "orders", "a"), ("/", "till", "queue", "orders", "b")),
        ("binding", ("/", "till", "queue", "orders", "a"), ("/", "till", "exchange", "orders", "a")),
        ("policy", ("/", "all"), ("/", "none")),
        ("policy", ("/", "all"), ("team", "all")),
        ("topicPermission", ("/", "anna", "till"), ("/", "anna", "other")),
        ("topicPermission", ("/", "anna", "till"), ("/", "bert", "till")),
        ("shovel", ("", "one"), ("", "two")),
        ("shovel", ("", "one"), ("/", "one")),
        ("featureFlag", ("one",), ("two",)),
        ("queue", ("/", "orders"), ("/", "other")),
        ("parameter", ("/", "shovel", "one"), ("/", "shovel", "two")),
    ],
)
def test_objects_have_one_key_if_they_are_at_one_place(
    class_name: str, one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    names = ObjectName(class_name, one), ObjectName(class_name, other)
    places = {place_of(name, "listing") for name in names}
    assert len({place_key(name) for name in names}) == len(places)


def test_an_answer_about_one_of_many_bindings_is_not_compared_with_all() -> None:
    shop, queues = world(), [f"q{number}" for number in range(60)]
    shop.broker.add_exchange("till", "/")
    for queue in queues:
        shop.broker.add_queue(queue)
        shop.broker.objects["binding"][queue,] = listed_binding(destination=queue)
    shop.run(60)

    def answer(request: ManagementRequest) -> Answer | None:
        if isinstance(request, ObjectRequest) and request.name.class_name == "binding":
            queue = request.name.parts[3]
            return Document([listed_binding(destination=queue)] if queue in queues else [])
        return not_listing("bindings")(request)

    shop.broker.failure = answer
    shop.run(30)
    before = len(shop.broker.requests)
    with traced() as trace:
        shop.run(20)
    asked = sum(isinstance(request, ObjectRequest) for request in shop.broker.requests[before:])
    places = sum(function == "place_of" for _, function in trace.calls)
    assert asked > 2
    assert places < 20 * asked, "of each request, and not of all bindings"
    ended = queues.pop(0)
    shop.run(600)
    assert f"//till/queue/{ended}/key" not in shop.names("binding"), "two answers lacked it"
    assert len(shop.names("binding")) == len(queues)


def known_object(shop: World, class_name: str) -> KnownObject:
    return next(iter(shop.source.known(class_name)))


def test_the_time_since_which_an_object_is_unread_is_that_of_its_last_reading() -> None:
    shop = world()
    shop.run(60)
    shop.broker.failure = not_answering("queues")
    failed = shop.now
    shop.run(60)
    since = known_object(shop, "queue").unread_since
    assert failed - 60 * SECOND < since <= failed
    (state,) = [one for one in shop.observed if isinstance(one, SourceStateSeen)][-1:]
    assert [(one.class_name, one.reason, one.since) for one in state.not_readable] == [
        ("rabbitmq:queue", "status 500", since)
    ]


# Documents that cannot be read.


def test_a_document_that_cannot_be_read_loses_that_object_only() -> None:
    shop = world()
    shop.broker.add_queue("other", messages=1)
    shop.run(20)
    shop.broker.objects["queue"]["/", "orders"]["durable"] = "perhaps"
    shop.broker.objects["queue"]["/", "other"]["messages"] = 2
    shop.run(20)
    assert unread(shop, "queue") == {"//orders": True, "//other": False}
    assert shop.value("queue", "other", "messages") == 2
    assert shop.source.status.detail == "of class queue 1 cannot be read"
    assert read_in_part(shop) == {"rabbitmq:queue": shop.source.status.detail}
    noted = [note.detail for note in shop.notes if note.event == "unreadable"]
    assert noted == ["of class queue 1 cannot be read: '//orders'"], "once"
    shop.broker.objects["queue"]["/", "orders"]["durable"] = True
    shop.run(20)
    assert not any(unread(shop, "queue").values())
    assert shop.source.status.detail == ""
    assert read_in_part(shop) == {}


@pytest.mark.parametrize("broken", ["a document that cannot be read", "two documents that differ"])
def test_an_object_from_before_the_start_whose_document_cannot_be_read_goes_on(broken: str) -> None:
    """So does what depends on it: two listings that show it so prove no end."""
    shop = world()
    shop.broker.add_exchange("till", "/")
    shop.broker.objects["binding"]["orders",] = listed_binding(destination="orders")
    shop.run(20)
    before, orders = unread(shop, "binding"), shop.broker.objects["queue"]["/", "orders"]
    number, listed = known_object(shop, "queue").number, dict(orders)
    if broken == "a document that cannot be read":
        orders["durable"] = "perhaps"
        again = started_again(shop, lambda _: None)
    else:
        twice = Document([{**listed, "messages": 1}, {**listed, "messages": 2}])
        again = started_again(
            shop,
            lambda request: (
                twice if isinstance(request, ListingRequest) and request.class_name == "queue" else None
            ),
        )
    again.run(60)
    assert (ends(again), unread(again, "queue"), unread(again, "binding")) == ([], {"//orders": True}, before)
    orders["durable"], again.broker.failure = True, lambda _: None
    again.run(60)
    assert (ends(again), unread(again, "queue")) == ([], {"//orders": False})
    assert known_object(again, "queue").number == number


def test_documents_that_are_poor_for_a_moment_are_no_alarm() -> None:
    """As those of connections that are being closed, each time others."""
    shop = world()
    for name in ("one", "two"):
        shop.broker.add_queue(name)
    shop.run(20)
    since, queues, readings = len(shop.observed), shop.broker.objects["queue"], 0

    def poor(request: ManagementRequest) -> Answer | None:
        nonlocal readings
        if isinstance(request, ListingRequest) and request.class_name == "queue":
            readings += 1
            for number, name in enumerate(("one", "two")):
                queues["/", name]["durable"] = True if (readings + number) % 2 else "perhaps"
        return None

    shop.broker.failure = poor
    shop.run(40)
    assert readings > 4
    states = {one.state for one in shop.observed[since:] if isinstance(one, SourceStateSeen)}
    assert states == {SourceState.SYNCHRONISED}


@pytest.mark.parametrize("differ", [True, False])
def test_of_two_documents_of_one_name_that_differ_neither_is_taken(*, differ: bool) -> None:
    """Taken in turn, the counters would rise by the difference with each reading."""
    shop = world()
    shop.broker.add_queue("other", messages=1)
    shop.run(20)
    orders, other = (shop.broker.objects["queue"]["/", name] for name in ("orders", "other"))
    counted = [{**orders, "messages": 99, "message_stats": {"publish": count}} for count in (10, 50)]
    twice = Document([counted[0], other, counted[1 if differ else 0]])
    shop.broker.failure = lambda request: (
        twice if isinstance(request, ListingRequest) and request.class_name == "queue" else None
    )
    before, since = shop.value("queue", "orders", "messagesPublished"), len(shop.observed)
    other["messages"] = 2
    shop.run(40)
    taken = before if differ else 10
    assert shop.value("queue", "orders", "messagesPublished") == taken
    assert shop.value("queue", "other", "messages") == 2
    assert unread(shop, "queue") == {"//orders": differ, "//other": False}
    assert ends(shop, since) == []
    text = "the broker lists 1 of class queue twice, with different values"
    assert shop.source.status.detail == (f"{text}: their former values stay" if differ else "")
    assert read_in_part(shop).keys() == ({"rabbitmq:queue"} if differ else set())
    shop.broker.failure = lambda _: None
    shop.run(40)
    assert not any(unread(shop, "queue").values())
    assert shop.source.status.detail == ""


@pytest.mark.parametrize("document", [None, 5, {}, {"name": 5}, []], ids=str)
def test_a_document_without_a_name_may_be_of_any_object_that_seems_to_be_lacking(document: Json) -> None:
    shop = world()
    shop.broker.add_queue("other", messages=1)
    shop.run(20)
    nameless = Document([{**shop.broker.objects["queue"]["/", "other"]}, document])
    shop.broker.failure = lambda request: (
        nameless if isinstance(request, ListingRequest) and request.class_name == "queue" else None
    )
    shop.run(40)
    assert unread(shop, "queue") == {"//orders": True, "//other": False}
    again = started_again(shop, shop.broker.failure)
    again.run(40)
    assert unread(again, "queue") == {"//orders": True, "//other": False}
    assert again.source.synchronised
    assert "of class queue 1 cannot be read" in again.source.status.detail
    assert read_in_part(again).keys() == {"rabbitmq:queue"}
    del again.broker.objects["queue"]["/", "orders"]
    again.broker.failure = lambda _: None
    again.run(40)
    assert unread(again, "queue") == {"//other": False}


def test_a_listing_without_any_exchange_of_a_virtual_host_that_may_be_read_is_partial() -> None:
    shop = world()
    shop.broker.add_vhost("team")
    shop.run(30)
    names = shop.names("exchange")
    exchanges = shop.broker.objects["exchange"]
    omitted = {key: exchanges.pop(key) for key in list(exchanges) if key[0] == "team"}
    shop.run(150)
    assert unread(shop, "exchange") == {name: name.startswith("team/") for name in names}
    assert ends(shop) == []
    assert shop.source.status.detail == "of class exchange 1 cannot be read"
    assert read_in_part(shop).keys() == {"rabbitmq:exchange"}
    exchanges.update(omitted)
    shop.run(30)
    assert not any(unread(shop, "exchange").values())
    assert shop.source.status.detail == ""
    shop.broker.objects["vhost"].pop(("team",))
    for key in omitted:
        exchanges.pop(key)
    shop.run(150)
    assert "exchange" in ends(shop)
    assert shop.names("exchange") == [name for name in names if not name.startswith("team/")]
