"""AMQP 1.0 sessions and links: the documents that show them, and how often they are requested."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given

from gateway.mapping.paths import Json
from gateway.model.observations import SourceState
from gateway.model.times import MILLISECOND, SECOND
from gateway.sources.rabbitmq.amqp10_sessions import (
    INTERVAL,
    MAX_CONNECTIONS,
    MAX_LINKS,
    SessionRounds,
    sessions_of,
)
from gateway.sources.rabbitmq.management_api import Broken, SessionsRequest
from tests.sources.rabbitmq.documents import any_json, sample
from tests.sources.rabbitmq.imitation import EPOCH, World
from tests.sources.rabbitmq.story import CONNECTED_AT, world
from tests.sources.rabbitmq.test_reading import values

RECORDED = cast("list[dict[str, Any]]", sample("sessions-4.3.6"))
CLIENT = "client -> us"
SESSION = f"{CLIENT} (0)"


def session(*links: Json, number: int = 0) -> dict[str, Json]:
    return {"channel_number": number, "incoming_links": [], "outgoing_links": list(links)}


def link(handle: int = 0, **more: Json) -> dict[str, Json]:
    return {"handle": handle, "link_name": f"link-{handle}", "credit": 10, **more}


def shop_with_client(*sessions: Json) -> World:
    shop = world()
    shop.broker.add_connection(CLIENT, CONNECTED_AT, protocol="AMQP 1-0")
    shop.broker.sessions[CLIENT] = list(sessions)
    shop.run(15)
    return shop


def questions(shop: World) -> int:
    return sum(isinstance(request, SessionsRequest) for request in shop.broker.requests)


def test_sessions_and_links_as_recorded() -> None:
    """The recorded answer has two sessions: one with two senders and two receivers, one with a receiver."""
    found = sessions_of(CLIENT, "/", cast("Json", RECORDED))
    assert found is not None
    reported = values("session", found.sessions[0])
    assert (
        reported.items()
        >= {
            "name": SESSION,
            "connectionObject": CLIENT,
            "number": 0,
            "incomingWindow": RECORDED[0]["incoming_window"],
            "remoteIncomingWindow": 2147483647,
            "outgoingUnsettled": RECORDED[0]["outgoing_unsettled_deliveries"],
        }.items()
    )
    links = [values("link", one) for one in found.links]
    assert [(one["session"], one["direction"], one["handle"]) for one in links] == [
        (SESSION, "incoming", 2),
        (SESSION, "incoming", 3),
        (SESSION, "outgoing", 0),
        (SESSION, "outgoing", 1),
        (f"{CLIENT} (1)", "outgoing", 0),
    ]
    sender, receiver = links[0], links[2]
    assert (
        sender.items()
        >= {
            "name": "snd-qq",
            "address": "/queues/qq",
            "settleMode": "mixed",
            "maxMessageSize": 16777216,
            "messagesUnconfirmed": 0,
            "deliveries": 10,
        }.items()
    )
    assert (
        receiver.items()
        >= {
            "name": "link-cq",
            "address": "/queues/cq",
            "queueObject": "cq",
            "settleMode": "unsettled",
            "credit": 7,
        }.items()
    )
    assert "maxMessageSize" not in receiver  # "unlimited"


@given(any_json())
def test_any_json_gives_sessions_or_nothing(answer: Json) -> None:
    found = sessions_of(CLIENT, "/", answer)
    assert (found is None) is not isinstance(answer, list)


def test_links_beyond_the_bound_are_counted() -> None:
    found = sessions_of(CLIENT, "/", [session(*[link(handle) for handle in range(MAX_LINKS + 5)])])
    assert found is not None
    assert (len(found.links), found.left_out) == (MAX_LINKS, 5)


def test_they_hang_on_their_connection_and_what_an_answer_lacks_is_gone() -> None:
    shop = shop_with_client(session(link(0), link(1)), session(number=1))
    assert shop.names("session") == [SESSION, f"{CLIENT} (1)"]
    assert shop.names("link") == [f"//{SESSION}/outgoing/0", f"//{SESSION}/outgoing/1"]
    shop.broker.sessions[CLIENT] = [session(link(1, credit=3))]
    shop.run(10)
    assert (len(shop.names("session")), len(shop.names("link"))) == (2, 2), "one answer is no proof"
    shop.run(12)
    assert (shop.names("session"), shop.names("link")) == ([SESSION], [f"//{SESSION}/outgoing/1"])
    assert [known.statistics[1] for known in shop.source.known("link")] == [3]
    shop.event("connection.closed", name=CLIENT)
    assert shop.names("session") == shop.names("link") == []


@pytest.mark.parametrize(
    ("sessions", "channels"),
    [
        ([session()], 2),  # RabbitMQ leaves out one whose process gives no answer
        ([session(), None], 1),
        ([session(), {"incoming_links": []}], 1),
        ([session(None, number=1)], 1),
        ([session(*[link(handle) for handle in range(10, MAX_LINKS + 11)])], 1),
    ],
)
def test_what_an_answer_lacks_that_does_not_show_all_there_is_has_not_ended(
    sessions: list[Json], channels: int
) -> None:
    shop = shop_with_client(session(link(0)), session(number=1))
    before = {name: shop.names(name) for name in ("session", "link")}
    shop.broker.objects["connection"][CLIENT,]["channels"] = channels
    shop.run(12)
    shop.broker.sessions[CLIENT] = sessions
    shop.run(60)
    links, kept = set(shop.names("link")), set(before["link"])
    assert kept <= links
    lacking = {known.name.leaf: known.unread_since for known in shop.source.known("link")}["0"]
    assert lacking
    shop.broker.objects["connection"][CLIENT,]["channels"] = 1
    shop.broker.sessions[CLIENT] = [session()]
    shop.run(40)
    assert (shop.names("session"), shop.names("link")) == ([SESSION], [])


def test_a_handle_that_is_used_again_is_another_link() -> None:
    shop = shop_with_client(session(link(0)))
    (former,) = shop.source.known("link")
    shop.broker.sessions[CLIENT] = [session(link(0, link_name="another"))]
    shop.run(12)
    (present,) = shop.source.known("link")
    assert present.number != former.number


def test_a_broker_that_shows_no_sessions_is_asked_seldom_and_all_is_well() -> None:
    shop = world()
    for number in range(20):
        shop.broker.add_connection(f"{number} -> us", CONNECTED_AT, protocol="AMQP 1-0")
    shop.run(300)
    assert questions(shop) == 3
    assert (shop.source.status.state, shop.source.status.detail) == (SourceState.SYNCHRONISED, "")
    shop.run(600)
    assert questions(shop) == 4


def test_where_sessions_cannot_be_read_their_statistics_are_not_known_any_more() -> None:
    shop = shop_with_client(session(link(0)))
    shop.broker.failure = lambda request: (
        Broken("status 500") if isinstance(request, SessionsRequest) else None
    )
    before = questions(shop)
    shop.run(60)
    assert questions(shop) - before <= 3
    assert [known.statistics for known in shop.source.known("link")] == [(None, None, None)]
    assert shop.source.status.state is SourceState.SYNCHRONISED


def test_a_bounded_number_of_connections_is_asked_and_the_detail_says_so() -> None:
    shop = world()
    for number in range(MAX_CONNECTIONS + 10):
        shop.broker.add_connection(f"{number} -> us", CONNECTED_AT, protocol="AMQP 1-0")
        shop.broker.sessions[f"{number} -> us"] = []
    shop.run(120)
    assert (
        f"sessions of 10 of {MAX_CONNECTIONS + 10} AMQP 1.0 connections are not read"
        in shop.source.status.detail
    )


def test_the_rounds_keep_to_their_share_of_time() -> None:
    share = 0.01
    rounds = SessionRounds(600 * SECOND, 30 * SECOND, share)
    rounds.learn(f"{number} -> us" for number in range(100))
    now, spent, asked = EPOCH, 0, []
    while now < EPOCH + 200 * SECOND:
        connection = rounds.next_connection(now)
        if connection is None:
            now = rounds.due()
            continue
        asked.append(connection)
        rounds.answered(connection, now, now + 5 * MILLISECOND)
        spent += 5 * MILLISECOND
        now += 5 * MILLISECOND
    assert spent / (now - EPOCH) <= share * 1.01
    assert set(asked) == {f"{number} -> us" for number in range(100)}
    assert rounds.round_time >= INTERVAL
