"""Calls that end an object: deletions of queues, and closures of connections."""

from __future__ import annotations

import pickle

import pytest

from gateway.dialects.qmf.messages import (
    MethodResponse,
    PropertyContent,
)
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import BacklogFollows
from gateway.mapping.paths import Json
from gateway.model.operations import Outcome
from gateway.sources.rabbitmq.change_proofs import (
    MAX_UNCLAIMED,
    AwaitedEnd,
    AwaitedEnds,
    is_set_by,
    overwritten,
)
from gateway.sources.rabbitmq.management_api import Document, NotFound, Unavailable, page_by_name
from gateway.sources.rabbitmq.management_changes import (
    BrokerAnswer,
    Change,
    Changed,
    Lookup,
    Unanswered,
)
from gateway.sources.rabbitmq.object_names import ObjectName
from tests.sources.rabbitmq.imitation import NODE
from tests.sources.rabbitmq.play import BEFORE_DELETION, Play, passed, queue
from tests.sources.rabbitmq.story import CONNECTED_AT


def test_a_deleted_queue_is_reported_by_its_event_and_else_a_second_later() -> None:
    play = Play()
    play.calls("queue", "orders", "delete", True, False)
    play.asked(BEFORE_DELETION, queue())
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
    play.asked(BEFORE_DELETION, queue())
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
    play.lacks("queues/")
    ended = [one for one in play.reported() if isinstance(one, PropertyContent) and one.deleted]
    assert bool(ended) is not waiting


DELETION = Change("DELETE", "queues/%2F/orders")
NO_ANSWER = Unanswered("no answer within 20 s")


def deletes(play: Play, answer: BrokerAnswer) -> None:
    """Delete the queue ``orders``."""
    play.calls("queue", "orders", "delete", False, False)
    play.asked(BEFORE_DELETION, queue())
    play.asked(DELETION, answer)


def lives(play: Play, *users: str) -> None:
    """Let these users end the queue, each a later one of the same name."""
    for position, user in enumerate(users):
        if position:
            play.world.queue_created("orders")
        play.world.event("queue.deleted", vhost="/", name="orders", user_who_performed_action=user)


def responses(play: Play, seconds: float) -> list[MethodResponse]:
    """Let time pass in which the queue is only looked up, and is not there; return the answers."""
    passed(play, seconds, NotFound())
    return [one for one in play.reported() if isinstance(one, MethodResponse)]


@pytest.mark.parametrize("users", [("writer", "app"), ("app", "writer"), ("app", "writer", "app")])
@pytest.mark.parametrize("answer", [NO_ANSWER, NotFound()])
def test_a_deletion_was_carried_out_if_any_event_says_so(
    users: tuple[str, ...], answer: BrokerAnswer
) -> None:
    """Others make and end further queues of the name; what is sent late ends the one that is there then."""
    play = Play()
    deletes(play, answer)
    lives(play, *users)
    (response,) = responses(play, 60)
    assert response.status == Status.OK


def test_a_deletion_that_arrives_when_another_user_has_ended_the_queue_is_carried_out() -> None:
    play = Play()
    deletes(play, NO_ANSWER)
    lives(play, "app")
    assert not responses(play, 15)
    play.world.queue_created("orders")
    lives(play, "writer")
    (response,) = responses(play, 5)
    assert response.status == Status.OK
    assert "user 'app' had ended it, and this the next of its name" in response.text


@pytest.mark.parametrize("later", [Changed(), NO_ANSWER])
def test_each_of_two_deletions_ended_a_queue_of_the_name(later: BrokerAnswer) -> None:
    play = Play()
    deletes(play, NO_ANSWER)
    play.looks("queues/", queue())
    lives(play, "writer")
    play.world.queue_created("orders")
    deletes(play, later)
    lives(play, "writer")
    assert [one.status for one in responses(play, 10)] == [Status.OK, Status.OK]


def test_one_of_two_deletions_ended_the_queue_whose_event_comes_late() -> None:
    play = Play()
    deletes(play, NO_ANSWER)
    play.looks("queues/", queue())
    deletes(play, NO_ANSWER)
    found = responses(play, 3)
    lives(play, "writer")
    found += responses(play, 10)
    assert sorted(one.status for one in found) == [Status.OK, Status.UNKNOWN_OBJECT]


def test_a_purge_is_not_the_end_of_the_queue() -> None:
    play = Play()
    deletes(play, NO_ANSWER)
    play.looks("queues/", queue())
    play.calls("queue", "orders", "purge")
    play.purges(Changed(), messages_ready=3)
    passed(play, 2, queue(messages_ready=0))
    (purged,) = [one for one in play.reported() if isinstance(one, MethodResponse)]
    lives(play, "writer")
    (deleted,) = responses(play, 10)
    assert (purged.status, deleted.status) == (Status.OK, Status.OK)


NAME = ObjectName("parameter", ("/", "shovel", "move"))


def set_by(user: str, value: str) -> dict[str, object]:
    """Return the headers of the event that reports that a user set the parameter."""
    named = {"vhost": "/", "component": "shovel", "name": "move"}
    return {**named, "value": value, "user_who_performed_action": user}


def test_of_the_events_that_set_an_object_those_are_kept_that_prove_something() -> None:
    """A call may be followed for a day, in which others set its object all the time."""
    awaited = AwaitedEnds("writer")
    end, deletion = (awaited.await_end(NAME, 1, is_to_end=ends) for ends in (False, True))
    for number in range(1_000):
        awaited.was_set("parameter.set", set_by("app", str(number)))
    assert overwritten("writer", {"value": "mine"}, end.settings) == ("", [])
    for user in ("writer", "app", "writer"):
        awaited.was_set("parameter.set", set_by(user, user))
    assert is_set_by("writer", end.settings)
    assert overwritten("writer", {"value": "mine"}, end.settings) == ("app", ["value"])
    assert end.settings == [set_by("app", "999"), set_by("writer", "writer")]
    assert deletion.settings == []


def test_of_the_ends_of_a_name_those_are_kept_that_a_call_may_have_caused() -> None:
    awaited = AwaitedEnds("writer")
    earlier, later = (awaited.await_end(NAME, number, is_to_end=True) for number in (1, 2))
    for _ in range(MAX_UNCLAIMED + 1_000):
        awaited.ended(NAME, "app")
    assert earlier.is_of_other
    assert earlier.first_user == "app"
    for _ in range(MAX_UNCLAIMED + 1_000):
        awaited.ended(NAME, "writer")
    assert not earlier.is_of_other
    assert earlier.first_user == "app"
    found = size_of(earlier)
    for _ in range(MAX_UNCLAIMED + 1_000):
        awaited.ended(NAME, "writer")
    assert size_of(earlier) == found
    assert awaited.claim(later)
    assert awaited.claim(earlier)


def size_of(end: AwaitedEnd) -> int:
    """Return about how many bytes an awaited end occupies."""
    return len(pickle.dumps(end))


def test_an_object_that_ends_right_after_it_was_set_was_set() -> None:
    """The answer waits for the event that says who set it."""
    play = Play()
    play.calls("vhost", "/", "setTracing", True)
    kept: dict[str, Json] = {"description": "sells", "tags": ["a"], "default_queue_type": "classic"}
    host, lookup = {**kept, "name": "/", "tracing": False}, Lookup("vhosts/%2F", as_writer=True)
    for _ in range(2):
        play.asked(lookup, Document(host))
    play.asked(Change("PUT", "vhosts/%2F", {**kept, "tracing": True}), Changed())
    play.asked(lookup, Document({**host, "tracing": True}))
    assert play.is_idle()
    play.world.event("vhost.deleted", name="/", user_who_performed_action="app")
    play.time_passes(0.25)
    while not any(isinstance(one, MethodResponse) for one in play.said):
        assert isinstance(play.request(), Lookup | None)
        play.answers(Document([]))
        play.time_passes(0.25)
    assert play.response().status == Status.OK


CLOSE = Change("DELETE", "connections/peer%20-%3E%20us", reason="bye")
LISTED = Lookup("connections/peer%20-%3E%20us?columns=name,connected_at", as_writer=True)


ALIKE = Lookup(f"{page_by_name('connections', 'peer -> us')}&columns=name,node", as_writer=True)


def named(*nodes: str) -> Document:
    """Return a page with a connection of the name on each node, and another one whose name contains it."""
    items: list[Json] = [{"name": "peer -> us", "node": node} for node in nodes]
    return Document({"items": [*items, {"name": "peer -> us too", "node": NODE}], "page": 1, "page_count": 1})


def connection(opened: int = CONNECTED_AT) -> Document:
    return Document({"name": "peer -> us", "connected_at": opened})


def test_a_connection_is_closed_when_the_broker_lists_it() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye")
    play.asked(LISTED, NotFound())
    assert play.is_idle()
    play.time_passes(0.25)
    play.asked(LISTED, connection())
    play.asked(ALIKE, named(NODE))
    play.asked(CLOSE, Changed())


@pytest.mark.parametrize("shown", [Document({}), NotFound(), Unavailable("statistics are off")])
def test_where_connections_cannot_be_listed_it_is_closed_all_the_same(shown: BrokerAnswer) -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye")
    play.asked(LISTED, connection())
    play.asked(ALIKE, shown)
    play.asked(CLOSE, Changed())


@pytest.mark.parametrize("later", [0, 1], ids=["the same is shown", "the other is shown"])
def test_of_two_connections_of_one_name_none_is_closed(later: int) -> None:
    """Which of them the broker would close is not known: it finds one by its name."""
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye")
    play.asked(LISTED, connection(CONNECTED_AT + later))
    play.asked(ALIKE, named(NODE, "rabbit@other"))
    assert play.is_idle()
    response = play.response()
    assert response.status == Status.EXCEPTION
    assert "nothing was sent: 2 connections have this name, on rabbit@other and rabbit@shop" in response.text


def test_a_connection_that_is_not_listed_in_time_is_not_closed() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye", seconds=1)
    for _ in range(4):
        play.asked(LISTED, NotFound())
        play.time_passes(0.25)
    assert play.is_idle()
    (answer,) = play.world.answers
    assert answer.outcome is Outcome.REMOTE_FAILURE
    assert answer.text.startswith("not carried out")


def test_a_connection_that_ends_by_itself_is_waited_for_no_longer() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye")
    play.asked(LISTED, NotFound())
    play.world.event("connection.closed", name="peer -> us", pid="<x.1.2.3>", node=NODE)
    play.time_passes(0.25)
    assert play.request() is None or isinstance(play.request(), Lookup)
    play.lacks("connections/")
    assert play.response().status == Status.UNKNOWN_OBJECT


def test_another_connection_of_the_same_name_is_left_alone() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye")
    play.asked(LISTED, connection(CONNECTED_AT + 7))
    play.asked(ALIKE, named(NODE))
    play.looks("connections/", connection(CONNECTED_AT + 7))
    assert play.response().status == Status.UNKNOWN_OBJECT


def test_a_reason_of_several_lines_is_refused() -> None:
    play = Play()
    play.calls("connection", "peer -> us", "close", "bye\r\nX-Evil: 1")
    assert play.is_idle()
    assert play.response().status == Status.INVALID_PARAMETER


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_queue_whose_node_does_not_run_is_not_ended_by_a_call_that_does_not_find_it(
    *, is_noticed: bool
) -> None:
    """RabbitMQ 3.10 answers 404 to the deletion of such a queue, too, although it is listed as down."""
    play = Play()
    broker = play.world.broker
    other: dict[str, Json] = {
        "name": "other@shop",
        "type": "disc",
        "running": True,
        "uptime": 3_600_000,
        "os_pid": "101",
    }
    broker.objects["node"]["other@shop",] = dict(other)
    broker.objects["queue"]["/", "orders"]["node"] = "other@shop"
    play.time_passes(12)
    if is_noticed:
        broker.objects["node"]["other@shop",] = {**other, "running": False}
        broker.objects["queue"]["/", "orders"]["state"] = "down"
        play.time_passes(12)
    play.calls("queue", "orders", "delete", False, False)
    play.asked(BEFORE_DELETION, queue())
    play.asked(Change("DELETE", "queues/%2F/orders"), NotFound())
    play.looks("queues/", NotFound())
    play.lacks("queues/")
    reported = play.reported()
    assert [one.status for one in reported if isinstance(one, MethodResponse)] == [Status.UNKNOWN_OBJECT]
    assert not any(isinstance(one, PropertyContent) and one.deleted for one in reported)
