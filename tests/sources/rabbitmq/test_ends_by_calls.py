"""Calls that end an object: deletions of queues, and closures of connections."""

from __future__ import annotations

import pytest

from gateway.dialects.qmf.messages import (
    MethodResponse,
    PropertyContent,
    Status,
)
from gateway.dialects.session import BacklogFollows
from gateway.sources.rabbitmq.management_api import Document, NotFound
from gateway.sources.rabbitmq.management_changes import (
    Change,
    Changed,
    Lookup,
)
from tests.sources.rabbitmq.imitation import NODE
from tests.sources.rabbitmq.play import Play
from tests.sources.rabbitmq.story import CONNECTED_AT


def test_a_deleted_queue_is_reported_by_its_event_and_else_a_second_later() -> None:
    play = Play()
    play.calls("queue", "orders", "delete", True, False)
    play.asked(Change("DELETE", "queues/%2F/orders?if-empty=true"), Changed())
    play.looks("queues/", NotFound())
    assert play.is_idle()
    play.world.event("queue.deleted", vhost="/", name="orders")
    play.time_passes(0.25)
    play.looks("queues/", NotFound())
    assert play.response().status == Status.OK


def test_a_deleted_queue_of_which_no_event_reports_is_gone_too() -> None:
    play = Play()
    play.calls("queue", "orders", "delete", False, False)
    play.asked(Change("DELETE", "queues/%2F/orders"), Changed())
    for _ in range(4):
        play.looks("queues/", NotFound())
        play.time_passes(0.25)
    play.looks("queues/", NotFound())
    reported = play.reported()
    assert any(isinstance(one, PropertyContent) and one.deleted for one in reported)
    assert isinstance(reported[-1], MethodResponse)
    assert reported[-1].status == Status.OK


@pytest.mark.parametrize("waiting", [False, True])
def test_no_answer_ends_a_queue_while_the_events_of_an_interruption_arrive(*, waiting: bool) -> None:
    play = Play()
    if waiting:
        play.world.source_does(play.world.source.handle(BacklogFollows("", 1), play.now))
    play.asks_for("queue", "orders")
    play.looks("queues/", NotFound())
    ended = [one for one in play.reported() if isinstance(one, PropertyContent) and one.deleted]
    assert bool(ended) is not waiting


CLOSE = Change("DELETE", "connections/peer%20-%3E%20us", reason="bye")
LISTED = Lookup("connections/peer%20-%3E%20us?columns=name,connected_at", as_writer=True)


def connection(opened: int = CONNECTED_AT) -> Document:
    return Document({"name": "peer -> us", "connected_at": opened})


def test_a_connection_is_closed_when_the_broker_lists_it() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye")
    play.asked(LISTED, NotFound())
    assert play.is_idle()
    play.time_passes(0.25)
    play.asked(LISTED, connection())
    play.asked(CLOSE, Changed())


def test_a_connection_that_is_not_listed_in_time_is_not_closed() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye", seconds=1)
    for _ in range(4):
        play.asked(LISTED, NotFound())
        play.time_passes(0.25)
    assert play.is_idle()
    response = play.response()
    assert response.status == Status.EXCEPTION
    assert "not carried out" in response.text


def test_a_connection_that_ends_by_itself_is_waited_for_no_longer() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye")
    play.asked(LISTED, NotFound())
    play.world.event("connection.closed", name="peer -> us", pid="<x.1.2.3>", node=NODE)
    play.time_passes(0.25)
    assert play.request() is None or isinstance(play.request(), Lookup)
    play.looks("connections/", NotFound())
    assert play.response().status == Status.UNKNOWN_OBJECT


def test_another_connection_of_the_same_name_is_left_alone() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye")
    play.asked(LISTED, connection(CONNECTED_AT + 7))
    play.looks("connections/", connection(CONNECTED_AT + 7))
    assert play.response().status == Status.UNKNOWN_OBJECT


def test_a_reason_of_several_lines_is_refused() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye\r\nX-Evil: 1")
    assert play.is_idle()
    assert play.response().status == Status.INVALID_PARAMETER
