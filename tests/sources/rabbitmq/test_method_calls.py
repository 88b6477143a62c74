"""Calls that the source carries out: requests to the broker, and answers to consoles."""

from __future__ import annotations

import pytest

from gateway.dialects.qmf.messages import (
    CommandComplete,
    MethodResponse,
    ObjectContent,
    PropertyContent,
    StatisticContent,
    Status,
)
from gateway.mapping.paths import Json
from gateway.model.observations import SourceState
from gateway.model.operations import MethodCall, Outcome
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.management_api import Document, NotFound, Refused, Unavailable
from gateway.sources.rabbitmq.management_changes import (
    BrokerAnswer,
    Change,
    Changed,
    Lookup,
    NotSent,
    Purged,
    Rejected,
    Unanswered,
)
from gateway.sources.rabbitmq.method_calls import DELETION_TIMEOUT
from gateway.sources.rabbitmq.methods import METHODS
from gateway.sources.rabbitmq.object_names import native_id
from tests.sources.rabbitmq.imitation import MAPPING
from tests.sources.rabbitmq.play import PURGE, Play, queue


def test_a_purge_is_answered_when_the_statistics_know_of_it() -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.asked(PURGE, Changed())
    play.looks("queues/%2F/orders?columns=", queue(messages=3, messages_ready=3))
    assert play.is_idle()
    assert not [one for one in play.reported() if isinstance(one, MethodResponse)]
    play.time_passes(0.25)
    play.looks("queues/%2F/orders?columns=", queue(messages=0, messages_ready=0))
    reported = play.reported()
    assert isinstance(reported[-1], MethodResponse)
    assert reported[-1].status == Status.OK
    assert reported[-1].text == "OK; the management API does not say how many messages were purged"
    assert play.outputs("queue", "purge", reported[-1]) == (-1,)
    assert isinstance(reported[-2], StatisticContent)


@pytest.mark.parametrize(("count", "text"), [(0, "0 messages"), (1, "1 message"), (1203, "1,203 messages")])
def test_a_purge_is_answered_at_once_with_the_broker_s_count(count: int, text: str) -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.asked(PURGE, Purged(count))
    response = play.response()
    assert response.status == Status.OK
    assert response.text.startswith(f"{text} purged; the statistics show it when the broker renews them")
    assert play.outputs("queue", "purge", response) == (count,)

    # The queue is read until it shows that: on a large broker its next listing may be far.
    play.looks("queues/%2F/orders?columns=", queue(messages=3, messages_ready=3))
    assert play.is_idle()
    play.time_passes(0.25)
    play.looks("queues/%2F/orders?columns=", queue(messages=0, messages_ready=0))
    (known,) = [one for one in play.world.source.known("queue") if one.name.leaf == "orders"]
    assert known.statistics[list(MAPPING.classes["queue"].statistics).index("messagesReady")] == 0
    assert play.is_idle()


def test_a_queue_that_fills_again_at_once_is_purged_all_the_same() -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.asked(PURGE, Changed())
    looks = 0
    while not any(isinstance(one, MethodResponse) for one in play.said):
        request = play.request()
        if request is None:
            play.time_passes(0.25)
            continue
        assert isinstance(request, Lookup)
        play.answers(queue(messages_ready=9) if request.target.startswith("queues") else Document([]))
        looks += 1
    response = play.response()
    assert response.status == Status.OK
    assert "; it is not shown empty yet: " in response.text
    assert 20 < looks < 30


def test_an_answer_leaves_before_its_console_gives_up() -> None:
    play = Play()
    play.calls("queue", "orders", "purge", seconds=2)
    play.asked(PURGE, Changed())
    for _ in range(5):
        play.looks("queues/", queue(messages_ready=9))
        play.time_passes(0.25)
    assert play.response().status == Status.OK


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (Rejected("queue 'orders' in vhost '/' in use"), Status.EXCEPTION, "in use"),
        (Refused(login=False, reason="Access refused."), Status.FORBIDDEN, "the tag 'administrator'"),
        (Refused(login=True, reason="Login failed"), Status.FORBIDDEN, "password"),
        (NotSent("connection refused"), Status.EXCEPTION, "not carried out"),
        (Unanswered("no answer within 20 s"), Status.OUTCOME_UNKNOWN, "may have been carried out"),
    ],
)
def test_whatever_comes_of_a_change_it_is_made_once(answer: BrokerAnswer, status: Status, text: str) -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.asked(PURGE, answer)
    response = play.response()
    assert response.status == status
    assert text in response.text
    assert play.is_idle()


def delete_without_answer(play: Play) -> None:
    play.calls("queue", "orders", "delete", False, False)
    play.asked(Change("DELETE", "queues/%2F/orders"), Unanswered("no answer within 20 s"))


def passed(play: Play, seconds: int) -> None:
    """Let seconds pass in which only lookups are sent, which find nothing."""
    for _ in range(seconds):
        play.time_passes(1)
        request = play.request()
        assert request is None or isinstance(request, Lookup), "it is sent once"
        if request is not None:
            play.answers(Document([]))


def test_an_end_that_comes_long_after_the_answer_is_missed_is_the_answer() -> None:
    """A cluster without a majority deletes the queue when it has a majority again."""
    play = Play()
    delete_without_answer(play)
    passed(play, 600)
    assert not [one for one in play.reported() if isinstance(one, MethodResponse)]
    play.world.event("queue.deleted", vhost="/", name="orders", user_who_performed_action="writer")
    passed(play, 1)
    response = play.response()
    assert response.status == Status.OK
    assert response.text.startswith("answered late: it is gone; before: no answer of the broker")


def test_an_end_by_another_user_does_not_report_what_came_of_a_call_without_an_answer() -> None:
    play = Play()
    delete_without_answer(play)
    play.world.event("queue.deleted", vhost="/", name="orders", user_who_performed_action="app")
    passed(play, 10)
    assert play.response().status == Status.OUTCOME_UNKNOWN


def test_of_two_calls_that_may_have_ended_an_object_both_outcomes_are_unknown() -> None:
    play = Play()
    delete_without_answer(play)
    delete_without_answer(play)
    play.reported()
    play.world.event("queue.deleted", vhost="/", name="orders", user_who_performed_action="writer")
    passed(play, 10)
    statuses = [one.status for one in play.reported() if isinstance(one, MethodResponse)]
    assert statuses == [Status.OUTCOME_UNKNOWN, Status.OUTCOME_UNKNOWN]


def test_what_may_have_ended_an_object_that_stays_is_unknown_in_the_end() -> None:
    play = Play()
    play.calls("queue", "orders", "delete", False, False)
    play.asked(Change("DELETE", "queues/%2F/orders"), Unanswered("no answer within 20 s"))
    assert not [one for one in play.reported() if isinstance(one, MethodResponse)]
    play.world.now += DELETION_TIMEOUT
    while (request := play.request()) is not None:
        assert isinstance(request, Lookup)
        play.answers(Document([]))
    assert play.response().status == Status.OUTCOME_UNKNOWN


def test_an_object_that_the_broker_does_not_know_is_not_shown_any_more() -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.asked(PURGE, NotFound())
    play.looks("queues/%2F/orders", NotFound())
    reported = play.reported()
    assert isinstance(reported[0], PropertyContent)
    assert reported[0].deleted
    assert isinstance(reported[-1], MethodResponse)
    assert reported[-1].status == Status.UNKNOWN_OBJECT
    assert "queue" not in str(play.world.names("queue"))


def test_a_call_that_could_not_be_begun_in_time_is_not_begun() -> None:
    play = Play()
    play.calls("queue", "orders", "purge", seconds=10)
    play.calls("vhost", "/", "setMaxQueues", 5, seconds=3)
    assert play.request() == PURGE
    play.time_passes(4)
    play.answers(Unanswered("no answer within 20 s"))
    assert play.response().status == Status.OUTCOME_UNKNOWN
    while (request := play.request()) is not None:
        assert not isinstance(request, Change)
        play.answers(Document([]))
    late = play.response()
    assert late.status == Status.EXCEPTION
    assert "not carried out" in late.text


def test_calls_are_carried_out_one_after_the_other() -> None:
    play = Play()
    play.calls("vhost", "/", "setTracing", True)
    play.calls("vhost", "/", "setDescription", "new")
    vhost: dict[str, Json] = {
        "name": "/",
        "description": "old",
        "tags": ["a"],
        "tracing": False,
        "default_queue_type": "undefined",
    }
    play.asked(Lookup("vhosts/%2F", as_writer=True), Document(vhost))
    play.asked(Change("PUT", "vhosts/%2F", {"description": "old", "tags": ["a"], "tracing": True}), Changed())
    play.looks("vhosts?", Document([{**vhost, "tracing": True}]))
    play.looks("vhost-limits", Document([]))
    assert play.response().status == Status.OK
    play.asked(Lookup("vhosts/%2F", as_writer=True), Document({**vhost, "tracing": True}))
    play.asked(Change("PUT", "vhosts/%2F", {"description": "new", "tags": ["a"], "tracing": True}), Changed())


def test_the_mask_of_a_password_is_never_sent_in_its_place() -> None:
    play = Play()
    play.calls("vhost", "/", "setDescription", "of amqp://***@h, renamed")
    vhost: dict[str, Json] = {"name": "/", "description": "of amqp://u:p@h", "tags": [], "tracing": False}
    play.asked(Lookup("vhosts/%2F", as_writer=True), Document(vhost))
    response = play.response()
    assert (response.status, response.text) == (
        Status.INVALID_PARAMETER,
        "the password behind *** is kept only where nothing else of the text is changed: write it again",
    )


MIRRORS = Lookup("queues/%2F/orders?columns=type,slave_nodes", as_writer=True)


@pytest.mark.parametrize(("method", "action"), [("sync", "sync"), ("cancelSync", "cancel_sync")])
def test_a_queue_with_mirrors_is_synchronised(method: str, action: str) -> None:
    play = Play()
    play.calls("queue", "orders", method)
    play.asked(MIRRORS, Document({"type": "classic", "slave_nodes": ["rabbit@b"]}))
    play.asked(Change("POST", "queues/%2F/orders/actions", {"action": action}), Changed())
    play.looks("queues/%2F/orders?columns=", queue(state="syncing", slave_nodes=["rabbit@b"]))
    assert play.response().status == Status.OK
    assert play.world.value("queue", "orders", "state") == "syncing"
    assert play.world.value("queue", "orders", "mirrors") == ("rabbit@b",)


@pytest.mark.parametrize("shown", [{"type": "classic"}, {"type": "stream", "slave_nodes": []}])
def test_what_has_no_mirrors_is_not_synchronised(shown: dict[str, Json]) -> None:
    play = Play()
    play.calls("queue", "orders", "sync")
    play.asked(MIRRORS, Document(shown))
    response = play.response()
    assert response.status == Status.EXCEPTION
    assert "not mirrored" in response.text


def test_nothing_is_changed_of_what_cannot_be_read_before() -> None:
    play = Play()
    play.calls("vhost", "/", "setTracing", True)
    play.asked(Lookup("vhosts/%2F", as_writer=True), Unavailable("connection refused"))
    response = play.response()
    assert response.status == Status.EXCEPTION
    assert "not carried out" in response.text
    play.calls("vhost", "/", "setTracing", True)
    play.asked(Lookup("vhosts/%2F", as_writer=True), NotFound())
    play.looks("vhosts?", Document([]))
    assert play.response().status == Status.UNKNOWN_OBJECT


def test_a_virtual_host_that_is_found_gone_by_a_call_takes_its_contents_along() -> None:
    play = Play()
    play.world.broker.add_vhost("team")
    for _ in range(2):
        play.time_passes(12)
        play.reads_limits([])
    assert play.world.names("exchange") == ["//", "team/"]
    play.calls("vhost", "team", "setTracing", True)
    play.asked(Lookup("vhosts/team", as_writer=True), NotFound())
    play.looks("vhosts?", Document([]))
    assert play.world.names("vhost") == ["/"]
    assert play.world.names("exchange") == ["//"]


def test_a_change_that_cannot_be_looked_at_afterwards_is_done_all_the_same() -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.asked(PURGE, Changed())
    play.looks("queues/", Unavailable("connection refused"))
    assert play.response().status == Status.OK


def test_no_limit_and_no_connections_at_all() -> None:
    play = Play()
    play.calls("vhost", "/", "setMaxConnections", -1)
    play.asked(Change("DELETE", "vhost-limits/%2F/max-connections"), Changed())
    play = Play()
    play.calls("vhost", "/", "setMaxConnections", 0)
    assert play.is_idle()
    assert play.response().status == Status.FORBIDDEN
    play = Play(lockout=frozenset({"/"}))
    play.calls("vhost", "/", "setMaxConnections", 0)
    play.asked(Change("PUT", "vhost-limits/%2F/max-connections", {"value": 0}), Changed())


def test_no_principal_may_change_a_broker_without_an_account_for_it() -> None:
    play = Play(writer="")
    play.calls("queue", "orders", "purge")
    response = play.response()
    assert response.status == Status.FORBIDDEN
    assert "'writing'" in response.text


@pytest.mark.parametrize(
    ("writer", "native", "outcome"),
    [
        ("", "", Outcome.REMOTE_FAILURE),  # nobody is configured who may change the broker
        ("writer", "00000000000000aa", Outcome.OBJECT_GONE),
        ("writer", "", None),
    ],
)
def test_what_is_only_checked_is_refused_as_it_would_be(
    writer: str, native: str, outcome: Outcome | None
) -> None:
    play = Play(writer=writer)
    (known,) = (one for one in play.world.source.known("queue") if one.name.leaf == "orders")
    key = play.world.source.readers["queue"].schema.key
    call = MethodCall(1, key, "", native or native_id(known.number), "purge", (), play.now + 10 * SECOND)
    objection = play.world.source.precheck(call, play.now)
    assert (objection and objection.outcome) == outcome


def test_limits_are_read_every_ten_seconds_and_when_an_event_reports() -> None:
    play = Play()
    assert play.world.value("vhost", "/", "maxConnections") == -1
    assert play.is_idle()
    play.world.event("parameter.set", component="vhost-limits", name="limits", vhost="/", value={})
    play.reads_limits([{"vhost": "/", "value": {"max-connections": 5, "max-queues": -9}}])
    assert play.world.value("vhost", "/", "maxConnections") == 5
    assert play.world.value("vhost", "/", "maxQueues") == -1
    play.time_passes(10)
    play.looks("vhost-limits", Unavailable("connection refused"))
    assert play.world.value("vhost", "/", "maxConnections") == 5
    play.time_passes(10)
    play.looks("vhost-limits", Refused(login=False, reason="Not monitor user"))
    assert play.world.value("vhost", "/", "maxConnections") is None


def test_limits_from_before_the_broker_was_out_of_sight_are_not_shown_again() -> None:
    play = Play()
    play.world.event("parameter.set", component="vhost-limits", name="limits", vhost="/", value={})
    play.reads_limits([{"vhost": "/", "value": {"max-connections": 5}}])
    play.world.broker.failure = lambda _: Unavailable("connection refused")
    play.time_passes(8)
    play.world.broker.failure = lambda _: None
    play.time_passes(40)
    assert play.world.source.status.state is SourceState.SYNCHRONISED
    assert play.world.value("vhost", "/", "maxConnections") is None
    play.reads_limits([])
    assert play.world.value("vhost", "/", "maxConnections") == -1


def test_a_virtual_host_does_not_inherit_the_limits_of_one_that_had_its_name() -> None:
    play = Play()
    play.world.event("vhost.created", name="team")
    play.reads_limits([{"vhost": "team", "value": {"max-connections": 5}}])
    assert play.world.value("vhost", "team", "maxConnections") == 5
    play.world.event("vhost.deleted", name="team")
    play.world.event("vhost.created", name="team")
    assert play.world.value("vhost", "team", "maxConnections") is None
    play.reads_limits([])
    assert play.world.value("vhost", "team", "maxConnections") == -1


def test_an_object_is_read_before_it_is_answered() -> None:
    play = Play(writer="")
    play.reads_limits([])
    play.reported()
    play.asks_for("queue", "orders")
    play.looks("queues/%2F/orders?columns=", queue(messages=77))
    (content,) = [one for one in play.said if isinstance(one, ObjectContent)]
    assert content.statistics is not None
    assert content.statistics[0] == 77
    assert play.reported()[-1] == CommandComplete(1)
    play.asks_for("queue", "orders")
    play.looks("queues/", Unavailable("connection refused"))
    end = play.reported()[-1]
    assert isinstance(end, CommandComplete)
    assert end.code == 1
    play.asks_for("queue", "orders")
    play.looks("queues/", NotFound())
    assert play.world.names("queue") == []
    assert play.reported()[-1] == CommandComplete(3)


def test_the_mapping_and_the_agent_know_the_same_methods() -> None:
    mapped = {name: set(rule.methods) for name, rule in MAPPING.classes.items() if rule.methods}
    assert {name: set(methods) for name, methods in METHODS.items()} == mapped


def test_limits_of_a_virtual_host_that_is_another_by_its_description_are_read_before_they_are_shown() -> None:
    """The predecessor's end was missed, so that only the listing shows that it is another virtual host."""
    play = Play()
    play.world.event("parameter.set", component="vhost-limits", name="limits", vhost="/", value={})
    play.reads_limits([{"vhost": "/", "value": {"max-connections": 5}}])
    play.world.broker.objects["vhost"]["/",]["description"] = "another"
    play.time_passes(11)
    assert play.world.value("vhost", "/", "description") == "another"
    assert play.world.value("vhost", "/", "maxConnections") is None
    play.reads_limits([])
    assert play.world.value("vhost", "/", "maxConnections") == -1
