"""Shovels and federation links: their states, which of them fail, and what they show of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import LinkUp
from gateway.mapping.paths import Json
from gateway.model.observations import SourceState
from gateway.sources.rabbitmq.forwarders import completed_forwarders, reason_of
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Document,
    ListingRequest,
    ManagementRequest,
    NotFound,
)
from gateway.sources.rabbitmq.management_changes import Change, Changed, Lookup
from tests.sources.rabbitmq.documents import any_json, sample
from tests.sources.rabbitmq.imitation import MAPPING, NODE, World
from tests.sources.rabbitmq.play import Play
from tests.sources.rabbitmq.story import world
from tests.sources.rabbitmq.test_reading import values

RELEASES = ("3.10.8", "4.0.5", "4.3.6")
MOVER: dict[str, Json] = {"vhost": "/", "name": "mover", "type": "dynamic", "node": NODE}
LINK: dict[str, Json] = {
    "vhost": "/",
    "exchange": "till",
    "upstream": "shop",
    "id": "2bbc1bde",
    "type": "exchange",
    "node": NODE,
}


def recorded(release: str, collection: str, class_name: str) -> dict[str, dict[str, Any]]:
    """Return the values of each object of a listing as a release sent it, by its leaf name."""
    answer = cast("Mapping[str, list[Json]]", sample(f"forwarders-{release}"))
    shown = [values(class_name, one) for one in completed_forwarders(answer[collection])]
    return {str(one["name" if class_name == "shovel" else "upstream"]): one for one in shown}


def shovels(shop: World, state: str, **more: Json) -> None:
    shop.broker.objects["shovel"]["/", "mover"] = {**MOVER, "state": state, **more}


def requests_for(shop: World, class_name: str) -> int:
    return sum(
        isinstance(one, ListingRequest) and one.class_name == class_name for one in shop.broker.requests
    )


@pytest.mark.parametrize("release", RELEASES)
def test_shovels_as_recorded(release: str) -> None:
    shown = recorded(release, "shovels", "shovel")
    running = {
        "virtualHost": "/",
        "vhost": "/",
        "name": "mover",
        "type": "dynamic",
        "state": "running",
        "node": "rabbit@shop",
        "sourceProtocol": "amqp091",
        "sourceUri": "amqp://127.0.0.1:5672/%2F",
        "sourceQueue": "from",
        "destinationProtocol": "amqp091",
        "destinationUri": "amqp://127.0.0.1:5672/%2F",
        "destinationQueue": "to",
    }
    assert shown["mover"].items() >= running.items()
    assert shown["mover"].get("blockedStatus") == (None if release == "3.10.8" else "running")
    assert ("messagesForwarded" in shown["mover"]) == (release == "4.3.6")
    assert "messagesRemaining" not in shown["mover"]  # it goes on for ever
    static = shown["fixed"]
    assert (static["virtualHost"], static.get("vhost"), static["type"]) == ("", None, "static")
    failed = shown["broken"]
    if release == "4.3.6":
        assert (failed["state"], failed["reason"]) == ("terminated", "failed to connect to destination")
    else:
        assert (failed["state"], failed.get("reason")) == ("starting", None)


@pytest.mark.parametrize("release", RELEASES)
def test_federation_links_as_recorded(release: str) -> None:
    shown = recorded(release, "links", "federationLink")
    good = {
        "vhost": "/",
        "federated": "till",
        "upstream": "good",
        "type": "exchange",
        "state": "running",
        "exchange": "till",
        "upstreamExchange": "up",
        "uri": "amqp://127.0.0.1:5672/%2F",
        "messagesPublished": 7,
        "messagesConfirmed": 7,
    }
    assert shown["good"].items() >= good.items()
    assert (shown["bad"]["state"], shown["bad"]["reason"]) == ("error", "econnrefused")
    refused = "auth_failure: ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."
    assert shown["badpw"]["reason"].startswith(refused)


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("econnrefused", "econnrefused"),
        ('"needed a restart"', "needed a restart"),
        ('{auth_failure,"Login was refused"}', "auth_failure: Login was refused"),
        ('{undef,[{rabbit_shovel,decl_fun,[<0.3296.0>,<<"secret">>],[]}]}', "undef"),
        ('{{badmatch,{error,{amqp_params_network,<<"u">>,{plaintext,<<"secret">>}}}},[]}',
         "badmatch error amqp_params_network"),
        ('#{password => <<"secret">>}', None),
        (["no text"], None),
    ],
)  # fmt: skip
def test_a_reason_has_the_words_of_its_term_but_none_of_its_data(term: Json, text: str | None) -> None:
    assert reason_of(term) == text


@given(st.text(alphabet='{}[]<>"#,: abz_', max_size=200))
def test_a_reason_is_shorter_than_its_term(term: str) -> None:
    assert len(reason_of(term) or "") <= len(term) + 1


@given(st.lists(any_json(), max_size=5))
def test_any_listing_is_completed(items: list[Json]) -> None:
    assert len(completed_forwarders(items)) <= len(items)


def test_a_uri_is_shown_without_its_password() -> None:
    document: dict[str, Json] = {**MOVER, "state": "running", "src_uri": "amqps://a:b@host?password=hunter2"}
    (completed,) = completed_forwarders([document])
    assert "hunter2" not in repr(values("shovel", completed))


def test_of_two_nodes_that_show_a_shovel_the_one_that_runs_it_counts() -> None:
    former = {**MOVER, "state": "terminated", "node": "rabbit@b"}
    for listed in ([former, {**MOVER, "state": "running"}], [{**MOVER, "state": "running"}, former]):
        (shown,) = completed_forwarders([*listed])
        assert values("shovel", shown)["node"] == NODE


def test_a_shovel_that_is_starting_for_long_fails_until_it_runs() -> None:
    shop = world()
    shovels(shop, "starting")
    shop.run(10)
    assert shop.value("shovel", "mover", "failing") is False
    shop.run(10)
    assert shop.value("shovel", "mover", "failing") is True
    shovels(shop, "running")
    shop.run(10)
    assert shop.value("shovel", "mover", "failing") is False


def test_a_terminated_shovel_fails_at_once_and_while_it_starts_again() -> None:
    shop = world()
    shovels(shop, "terminated", reason='"failed to connect to destination"')
    shop.run(10)
    assert shop.value("shovel", "mover", "failing") is True
    shovels(shop, "starting")
    shop.run(10)
    assert shop.value("shovel", "mover", "failing") is True
    assert shop.value("shovel", "mover", "reason") is None


def test_a_shovel_that_is_missing_once_because_it_is_restarted_is_the_same() -> None:
    shop = world()
    shovels(shop, "running")
    shop.run(10)
    first = [known.number for known in shop.source.known("shovel")]
    del shop.broker.objects["shovel"]["/", "mover"]
    listed = requests_for(shop, "shovel")
    while requests_for(shop, "shovel") == listed:
        shop.run(1)
    shovels(shop, "running")
    shop.run(20)
    assert [known.number for known in shop.source.known("shovel")] == first
    del shop.broker.objects["shovel"]["/", "mover"]
    shop.run(25)
    assert shop.names("shovel") == []


def test_a_deleted_shovel_ends_though_a_broker_still_lists_it_as_terminated() -> None:
    """RabbitMQ 4.0 does, until another shovel has the name."""
    shop = world()
    shovels(shop, "terminated")
    shop.run(12)
    shop.event("parameter.cleared", component="shovel", vhost="/", name="mover")
    shop.run(60)
    assert shop.names("shovel") == []
    shop.event("parameter.set", component="shovel", vhost="/", name="mover")
    shop.run(30)
    assert shop.value("shovel", "mover", "failing") is True


def test_a_federation_link_that_fails_and_one_of_a_deleted_virtual_host() -> None:
    shop = world()
    shop.broker.add_exchange("till", "/")
    shop.broker.objects["federationLink"]["one",] = {**LINK, "status": "error", "error": "econnrefused"}
    shop.run(12)
    assert shop.names("federationLink") == ["//till/shop/2bbc1bde"]
    (link,) = shop.source.known("federationLink")
    assert dict(zip(MAPPING.classes["federationLink"].properties, link.properties, strict=True))["failing"]
    shop.event("vhost.deleted", name="/")
    assert shop.names("federationLink") == []


def test_what_the_user_may_not_see_any_more_does_not_end_but_is_not_current() -> None:
    shop = world()
    shovels(shop, "running")
    shop.run(12)
    shop.broker.forbidden.add("/")
    shop.run(60)
    (shovel,) = shop.source.known("shovel")
    assert shovel.unread_since > 0
    shop.broker.forbidden.clear()
    shop.run(60)
    (shovel,) = shop.source.known("shovel")
    assert shovel.unread_since == 0


def test_without_the_plugins_they_are_asked_for_seldom_and_all_is_well() -> None:
    def lacks(request: ManagementRequest) -> Answer | None:
        names = {"shovels", "federation-links"}
        return NotFound() if isinstance(request, ListingRequest) and request.collection in names else None

    shop = World()
    shop.broker.failure = lacks
    shop.source_does(shop.source.handle(LinkUp(""), shop.now))
    shop.run(120)
    assert (shop.source.status.state, shop.source.status.detail) == (SourceState.SYNCHRONISED, "")
    assert (requests_for(shop, "shovel"), requests_for(shop, "federationLink")) == (1, 1)


def test_a_plugin_that_is_disabled_ends_no_shovel_but_its_state_is_not_current() -> None:
    shop = world()
    shovels(shop, "terminated")
    shop.run(12)
    shop.broker.failure = lambda one: NotFound() if getattr(one, "collection", "") == "shovels" else None
    shop.run(60)
    (shovel,) = shop.source.known("shovel")
    assert shovel.unread_since > 0
    shop.broker.failure = lambda _: None
    shop.run(700)
    (shovel,) = shop.source.known("shovel")
    assert shovel.unread_since == 0


def test_each_is_one_request_in_ten_seconds() -> None:
    shop = world()
    shovels(shop, "running")
    shop.run(20)
    before = requests_for(shop, "shovel"), requests_for(shop, "federationLink")
    shop.run(100)
    assert requests_for(shop, "shovel") - before[0] == 10
    assert requests_for(shop, "federationLink") - before[1] == 10


LISTED = Document([{**MOVER, "state": "running"}])


def played(*names: str) -> Play:
    """Return a play with shovels, one of each name, of which ``fixed`` is of the configuration file."""
    play = Play()
    for name in names:
        host: dict[str, Json] = {} if name == "fixed" else {"vhost": "/"}
        play.world.broker.objects["shovel"][name,] = {"name": name, "state": "running", **host}
    play.world.broker.add_exchange("till", "/")
    play.world.broker.objects["federationLink"]["one",] = {**LINK, "status": "error"}
    play.world.run(12)
    while (request := play.request()) is not None:
        assert request == Lookup("vhost-limits")
        play.answers(Document([]))
    return play


def test_a_shovel_is_restarted_if_it_is_listed() -> None:
    play = played("mover")
    play.calls("shovel", "mover", "restart")
    play.looks("shovels/%2F?columns=vhost,name", LISTED)
    play.asked(Change("DELETE", "shovels/vhost/%2F/mover/restart"), Changed())
    play.looks("shovels/%2F?columns=", Document([{**MOVER, "state": "starting"}]))
    assert play.response().status == Status.OK
    assert play.world.value("shovel", "mover", "failing") is False
    play.calls("shovel", "mover", "restart")
    play.looks("shovels/%2F?columns=vhost,name", Document([]))
    play.looks("shovels/%2F?columns=", Document([]))
    play.looks("shovels", Document([]))
    assert play.response().text == "nothing was sent: the broker does not list shovel //mover now"


def test_a_federation_link_is_restarted_on_its_node() -> None:
    play = played()
    play.calls("federationLink", "2bbc1bde", "restart")
    play.looks("federation-links/%2F?columns=", Document([{**LINK, "node": "rabbit@b"}]))
    play.asked(Change("DELETE", "federation-links/vhost/%2F/2bbc1bde/rabbit%40b/restart"), Changed())
    play.looks("federation-links/%2F?columns=", Document([{**LINK, "status": "starting"}]))
    assert play.response().status == Status.OK


def test_a_shovel_of_the_configuration_file_is_not_restarted() -> None:
    play = played("fixed")
    play.calls("shovel", "fixed", "restart")
    assert play.request() is None
    assert play.response().text.endswith("this one is of the configuration file")
