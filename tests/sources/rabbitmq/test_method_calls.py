"""Calls that the source carries out: requests to the broker, and answers to consoles."""

from __future__ import annotations

import pytest

from gateway.dialects.console import UnsentError
from gateway.dialects.qmf.messages import (
    CommandComplete,
    MethodResponse,
    ObjectContent,
    PropertyContent,
    StatisticContent,
)
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import Answered
from gateway.mapping.paths import Json
from gateway.model.observations import SourceState
from gateway.model.operations import MethodCall, Outcome
from gateway.model.times import SECOND
from gateway.sources.rabbitmq import method_calls
from gateway.sources.rabbitmq.change_proofs import FOLLOWED, queue_counts
from gateway.sources.rabbitmq.management_api import (
    Broken,
    Document,
    ListingRequest,
    NotFound,
    Refused,
    Unavailable,
)
from gateway.sources.rabbitmq.management_changes import (
    BrokerAnswer,
    BrokerRequest,
    Change,
    Changed,
    Lookup,
    NotSent,
    Purged,
    Rejected,
    Unanswered,
)
from gateway.sources.rabbitmq.method_steps import Invocation, Method, QueueCounts, Steps
from gateway.sources.rabbitmq.methods import METHODS
from gateway.sources.rabbitmq.object_names import native_id
from tests.sources.rabbitmq.imitation import MAPPING, NODE, POLICY
from tests.sources.rabbitmq.play import BEFORE_DELETION, BEFORE_PURGE, PURGE, Play, passed, queue


def test_a_purge_is_answered_when_the_statistics_know_of_it() -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.purges(Changed(), messages_ready=3)
    play.looks("queues/%2F/orders?columns=", queue(messages=3, messages_ready=3))
    assert play.is_idle()
    assert not [one for one in play.reported() if isinstance(one, MethodResponse)]
    play.time_passes(0.25)
    play.looks("queues/%2F/orders?columns=", queue(messages=0, messages_ready=0))
    play.looks(PRESENT_DEPTH, NotFound())
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
    play.purges(Purged(count), messages_ready=3)
    response = play.response()
    assert response.status == Status.OK
    assert response.text.startswith(f"{text} purged; the statistics show it when the broker renews them")
    assert play.outputs("queue", "purge", response) == (count,)

    # The queue is read until it shows that: on a large broker its next listing may be far.
    play.looks("queues/%2F/orders?columns=", queue(messages=3, messages_ready=3))
    assert play.is_idle()
    play.time_passes(0.25)
    play.looks("queues/%2F/orders?columns=", queue(messages=0, messages_ready=0))
    play.looks(PRESENT_DEPTH, queue(messages_ready=0))
    (known,) = [one for one in play.world.source.known("queue") if one.name.leaf == "orders"]
    assert known.statistics[list(MAPPING.classes["queue"].statistics).index("messagesReady")] == 0
    assert play.is_idle()


PRESENT_DEPTH = "queues/%2F/orders?disable_stats=true"


def depths(play: Play, *, seconds: int, **figures: Json) -> None:
    """Let the broker show these figures of the queue for some seconds, or until the call is answered."""
    until = play.now + seconds * SECOND
    while play.now < until and not any(isinstance(one, MethodResponse) for one in play.said):
        request = play.request()
        if request is None:
            play.time_passes(0.25)
            continue
        assert isinstance(request, Lookup), "it is sent once"
        play.answers(queue(**figures) if request.target.startswith("queues") else Document([]))


@pytest.mark.parametrize("answer", [Changed(), Unanswered("the connection broke")])
def test_a_queue_that_fills_again_at_once_is_purged_all_the_same(answer: BrokerAnswer) -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.purges(answer, messages_ready=1_000, message_stats={"publish": 5_000})
    depths(play, seconds=1, messages_ready=90, message_stats={"publish": 5_080})
    response = play.response()
    assert response.status == Status.OK


@pytest.mark.parametrize("answer", [Changed(), Unanswered("status 503")])
def test_a_purge_that_no_figure_shows_was_not_made(answer: BrokerAnswer) -> None:
    """A proxy has answered in the place of the broker."""
    play = Play()
    play.calls("queue", "orders", "purge")
    play.purges(answer, messages_ready=9)
    depths(play, seconds=60, messages_ready=9)
    assert play.world.answers[-1].outcome is Outcome.UNKNOWN
    assert not play.said, "the console is answered when it is known"
    depths(play, seconds=60, messages_ready=9)
    response = play.response()
    assert response.status == Status.NOT_APPLIED
    assert response.text.endswith("but the broker still shows its messages")


@pytest.mark.parametrize("is_shown", [True, False])
def test_figures_that_are_older_than_the_messages_prove_no_purge(*, is_shown: bool) -> None:
    """The figures of before and after are both of a moment at which the queue was empty.

    The present depth, where ``is_shown``, says that it is not; else figures must have been renewed.
    """
    play = Play()
    present = queue(messages_ready=3) if is_shown else NotFound()

    def figures_are_old(request: BrokerRequest) -> BrokerAnswer:
        assert isinstance(request, Lookup), "it is sent once"
        return present if request.target.startswith(PRESENT_DEPTH) else queue(messages_ready=0)

    play.calls("queue", "orders", "purge", seconds=5)
    request = play.request()
    while request is not None:
        play.answers(Changed() if request == PURGE else figures_are_old(request))
        request = play.request()
    while not play.world.answers:
        play.time_passes(0.25)
        while (request := play.request()) is not None:
            play.answers(figures_are_old(request))
    assert play.world.answers[-1].outcome is Outcome.UNKNOWN


def test_a_purge_that_is_shown_late_was_made() -> None:
    """A broker may measure its queues every half a minute only."""
    play = Play()
    play.calls("queue", "orders", "purge")
    play.purges(Changed(), messages_ready=9)
    depths(play, seconds=30, messages_ready=9)
    depths(play, seconds=30, messages_ready=0)
    assert play.response().status == Status.OK


def test_of_a_busy_queue_with_few_messages_it_is_unknown_whether_it_was_purged() -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.purges(Unanswered("the connection broke"), messages_ready=3, message_stats={"publish": 7})
    depths(play, seconds=200, messages_ready=4, message_stats={"publish": 900, "deliver_get": 890})
    assert play.response().status == Status.OUTCOME_UNKNOWN


def test_an_answer_leaves_before_its_console_gives_up() -> None:
    play = Play()
    play.calls("queue", "orders", "purge", seconds=2)
    play.purges(Changed(), messages_ready=9)
    for _ in range(5):
        play.looks("queues/", queue(messages_ready=9))
        play.time_passes(0.25)
    assert play.world.answers[-1].outcome is Outcome.UNKNOWN
    assert play.world.answers[-1].text.endswith("; the broker does not show it yet")


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (Rejected("queue 'orders' in vhost '/' in use"), Status.EXCEPTION, "in use"),
        (Refused(login=False, reason="Access refused."), Status.FORBIDDEN, "the tag 'administrator'"),
        (Refused(login=True, reason="Login failed"), Status.FORBIDDEN, "password"),
        (NotSent("connection refused"), Status.EXCEPTION, "not carried out"),
    ],
)
def test_whatever_comes_of_a_change_it_is_made_once(answer: BrokerAnswer, status: Status, text: str) -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.purges(answer)
    response = play.response()
    assert response.status == status
    assert text in response.text
    assert play.is_idle()


def deletes(play: Play, answer: BrokerAnswer) -> None:
    play.calls("queue", "orders", "delete", False, False)
    play.asked(BEFORE_DELETION, queue())
    play.asked(Change("DELETE", "queues/%2F/orders"), answer)


def ended(play: Play, user: str) -> None:
    play.world.event("queue.deleted", vhost="/", name="orders", user_who_performed_action=user)


NO_ANSWER = Unanswered("no answer within 20 s")
UNSEEN = Unavailable("connection refused")


def test_an_end_that_comes_long_after_the_answer_is_missed_is_the_answer() -> None:
    """A cluster without a majority deletes the queue when it has a majority again."""
    play = Play()
    deletes(play, NO_ANSWER)
    passed(play, 600, UNSEEN)
    assert not [one for one in play.reported() if isinstance(one, MethodResponse)]
    ended(play, "writer")
    passed(play, 1, NotFound())
    response = play.response()
    assert response.status == Status.OK
    assert response.text.startswith("answered late: it is gone; before: no answer of the broker")


@pytest.mark.parametrize("answer", [NO_ANSWER, Unanswered("status 503"), Changed()])
def test_an_object_that_is_gone_was_deleted(answer: BrokerAnswer) -> None:
    play = Play()
    deletes(play, answer)
    passed(play, 2, NotFound())
    assert play.response().status == Status.OK
    assert play.world.names("queue") == []


def test_an_end_by_another_user_is_none_of_a_call_without_an_answer() -> None:
    play = Play()
    deletes(play, NO_ANSWER)
    ended(play, "app")
    passed(play, 10, NotFound())
    assert play.world.answers[-1].outcome is Outcome.UNKNOWN
    assert not [one for one in play.reported() if isinstance(one, MethodResponse)], "it may be under way"
    passed(play, 30, NotFound())
    response = play.response()
    assert response.status == Status.UNKNOWN_OBJECT
    assert response.text.startswith("answered late: user 'app' has ended it; before: no answer")


def test_of_two_calls_that_may_have_ended_an_object_one_has() -> None:
    play = Play()
    deletes(play, NO_ANSWER)
    passed(play, 7, queue())
    deletes(play, NO_ANSWER)
    ended(play, "writer")
    passed(play, 10, NotFound())
    found = [one for one in play.reported() if isinstance(one, MethodResponse)]
    assert sorted(one.status for one in found) == [Status.OK, Status.UNKNOWN_OBJECT]
    assert "another operation has ended it" in found[-1].text


def test_an_object_that_stays_after_it_was_reported_as_deleted_was_not_deleted() -> None:
    """A proxy has answered in the place of the broker."""
    play = Play()
    deletes(play, Changed())
    passed(play, 7, queue())
    response = play.response()
    assert (response.status, response.text) == (
        Status.NOT_APPLIED,
        "it was reported as done, but the broker still lists it",
    )


def test_an_object_that_stays_without_an_answer_was_not_deleted_after_half_a_minute() -> None:
    play = Play()
    deletes(play, Unanswered("status 503"))
    passed(play, 30, queue())
    assert play.world.answers[-1].outcome is Outcome.UNKNOWN
    assert not play.reported()
    passed(play, 30, queue())
    response = play.response()
    assert response.status == Status.NOT_APPLIED
    assert response.text.endswith("but the broker still lists it")


def test_an_object_that_cannot_be_seen_is_unknown_until_the_first_proof() -> None:
    play = Play()
    deletes(play, Changed())
    passed(play, 60, UNSEEN)
    assert play.world.answers[-1].outcome is Outcome.UNKNOWN
    assert not [one for one in play.reported() if isinstance(one, MethodResponse)]
    passed(play, 60, NotFound())
    assert play.response().status == Status.OK


def test_what_is_never_seen_is_unknown_in_the_end() -> None:
    play = Play()
    deletes(play, NO_ANSWER)
    passed(play, 10, UNSEEN)
    play.world.now += FOLLOWED
    passed(play, 2, UNSEEN)
    assert play.response().status == Status.OUTCOME_UNKNOWN


@pytest.mark.parametrize(
    ("answer", "shown", "status"),
    [
        (Rejected("queue 'orders' in vhost '/' in use"), queue(), Status.EXCEPTION),
        (Rejected("queue 'orders' in vhost '/' in use"), NotFound(), Status.EXCEPTION),
        (NotFound(), NotFound(), Status.UNKNOWN_OBJECT),
        (NotFound(), queue(), Status.NOT_APPLIED),
        (Refused(login=False, reason="Access refused."), UNSEEN, Status.FORBIDDEN),
    ],
)
def test_a_refusal_is_compared_with_what_the_broker_has(
    answer: BrokerAnswer, shown: BrokerAnswer, status: Status
) -> None:
    play = Play()
    deletes(play, answer)
    passed(play, 2, shown)
    assert play.response().status == status


def test_a_refusal_of_a_proxy_whose_deletion_was_made_is_none() -> None:
    play = Play()
    deletes(play, NotFound())
    ended(play, "writer")
    passed(play, 2, NotFound())
    assert play.response().status == Status.OK


@pytest.mark.parametrize("found", [{}, {"vhost": "/"}, {"vhost": "/", "name": "b"}, []])
@pytest.mark.parametrize("method", ["delete", "purge"])
def test_nothing_is_sent_to_another_object_than_the_one_that_is_meant(method: str, found: Json) -> None:
    """A proxy that decodes a path leads to another object."""
    play = Play()
    play.calls("queue", "orders", method, *((False, False) if method == "delete" else ()))
    play.asked(BEFORE_DELETION if method == "delete" else BEFORE_PURGE, Document(found))
    assert play.is_idle()
    response = play.response()
    assert response.status == Status.EXCEPTION
    assert response.text.startswith("nothing was sent: the management API answers with something else")


DELETION = Change("DELETE", "queues/%2F/orders")


@pytest.mark.parametrize(
    ("changes", "outcome", "text"),
    [
        ((), Outcome.REMOTE_FAILURE, "nothing was sent"),
        ((DELETION,), Outcome.UNKNOWN, "it may have been carried out"),
    ],
)
def test_an_internal_error_is_the_outcome_of_its_operation_only(
    monkeypatch: pytest.MonkeyPatch, changes: tuple[Change, ...], outcome: Outcome, text: str
) -> None:
    def steps(_call: Invocation) -> Steps:
        yield from changes
        raise ValueError("a fault of ours")

    methods = {"queue": {**METHODS["queue"], "purge": Method(steps)}}
    monkeypatch.setattr(method_calls, "METHODS", methods)
    play = Play()
    play.calls("queue", "orders", "purge")
    play.calls("queue", "orders", "delete", False, False)
    for change in changes:
        play.asked(change, Changed())
    play.asked(BEFORE_DELETION, queue())
    first = play.world.answers[0]
    assert (first.outcome, first.text) == (outcome, f"internal error ValueError: {text}; see the log")


def test_an_internal_error_at_the_begin_of_an_operation_leaves_nothing_to_be_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = Play()
    (known,) = [one for one in play.world.source.known("queue") if one.name.leaf == "orders"]
    key, native = play.world.source.readers["queue"].schema.key, native_id(known.number)
    call = MethodCall(1, key, "broker", native, "purge", (), play.now + 10 * SECOND)

    def fault(*_: object) -> None:
        raise ValueError("a fault of ours")

    with monkeypatch.context() as patched:
        patched.setattr(method_calls, "named_arguments", fault)
        with pytest.raises(UnsentError):
            play.world.source.handle(call, play.now)
    assert play.is_idle()
    play.world.source.handle(call, play.now)
    assert play.request() == BEFORE_PURGE


def test_an_object_that_the_broker_does_not_know_is_not_shown_any_more() -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.purges(NotFound())
    play.lacks("queues/%2F/orders")
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
    play.asked(BEFORE_PURGE, queue())
    assert play.request() == PURGE
    play.time_passes(4)
    (late,) = play.world.answers
    assert late.outcome is Outcome.REMOTE_FAILURE
    assert late.text.startswith("not carried out")
    play.answers(Refused(login=False, reason="Access refused."))
    assert play.response().status == Status.FORBIDDEN
    while (request := play.request()) is not None:
        assert not isinstance(request, Change)
        play.answers(Document([]))
    assert len(play.world.answers) == 2


def test_what_was_not_sent_before_a_pause_that_is_demanded_of_another_request_was_not_carried_out() -> None:
    """The pause is longer than the operations may take: they say so at once, not that they may be done."""
    play = Play()
    play.calls("queue", "orders", "purge", seconds=10)
    play.calls("vhost", "/", "setMaxQueues", 5, seconds=10)
    play.asked(BEFORE_PURGE, Unavailable("status 429", responded=True, pause=60 * SECOND))
    play.time_passes(0.25)
    assert play.is_idle()
    assert [answer.outcome for answer in play.world.answers] == [Outcome.REMOTE_FAILURE, Outcome.NOT_NOW]
    assert all("demands a pause" in answer.text for answer in play.world.answers)


def test_of_what_waits_when_the_source_ends_only_what_was_sent_is_uncertain() -> None:
    play = Play()
    play.calls("queue", "orders", "purge")
    play.calls("vhost", "/", "setMaxQueues", 5)
    play.asked(BEFORE_PURGE, queue())
    assert play.request() == PURGE
    ended = [one.answer for one in play.world.source.abandon("it ends") if isinstance(one, Answered)]
    assert [(one.outcome, one.text) for one in ended] == [
        (Outcome.UNKNOWN, "not known whether it was carried out: it ends"),
        (Outcome.SOURCE_DOWN, "not sent: it ends"),
    ]


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
    for _ in range(2):
        play.asked(HOST, Document(vhost))
    play.asked(Change("PUT", "vhosts/%2F", {"description": "old", "tags": ["a"], "tracing": True}), Changed())
    traced = {**vhost, "tracing": True}
    play.world.event("vhost.updated", user_who_performed_action="writer", name="/")
    play.asked(HOST, Document(traced))
    play.looks("vhosts?", Document([traced]))
    play.looks("vhost-limits", Document([]))
    assert (play.reported()[-1:]) == [MethodResponse(1, Status.OK, "OK")]
    for _ in range(2):
        play.asked(HOST, Document(traced))
    play.asked(Change("PUT", "vhosts/%2F", {"description": "new", "tags": ["a"], "tracing": True}), Changed())


HOST = Lookup("vhosts/%2F", as_writer=True)
WHOLE: dict[str, Json] = {
    "name": "/",
    "description": "sells",
    "tags": ["a"],
    "tracing": False,
    "default_queue_type": "classic",
}


@pytest.mark.parametrize(
    "found",
    [
        {},
        [],
        {**WHOLE, "name": "other"},
        *({key: value for key, value in WHOLE.items() if key != lacking} for lacking in WHOLE),
        *({**WHOLE, lacking: None} for lacking in WHOLE),
    ],
)
def test_nothing_is_written_back_from_a_poor_reading(found: Json) -> None:
    play = Play()
    play.calls("vhost", "/", "setTracing", True)
    play.asked(HOST, Document(found))
    assert play.is_idle()
    response = play.response()
    assert response.status == Status.EXCEPTION
    assert response.text.startswith("nothing was sent: the management API")


def test_what_another_user_sets_before_it_is_written_is_kept() -> None:
    play = Play()
    play.calls("vhost", "/", "setTracing", True)
    play.asked(HOST, Document(WHOLE))
    for _ in range(2):
        play.asked(HOST, Document({**WHOLE, "description": "buys"}))
    kept: dict[str, Json] = {"description": "buys", "tags": ["a"], "default_queue_type": "classic"}
    play.asked(Change("PUT", "vhosts/%2F", {**kept, "tracing": True}), Changed())


def test_what_another_user_sets_behind_it_is_in_the_text() -> None:
    play = Play()
    play.calls("vhost", "/", "setTracing", True)
    for _ in range(2):
        play.asked(HOST, Document(WHOLE))
    kept: dict[str, Json] = {"description": "sells", "tags": ["a"], "default_queue_type": "classic"}
    play.asked(Change("PUT", "vhosts/%2F", {**kept, "tracing": True}), Changed())
    shown: Json = {**WHOLE, "tracing": True, "description": "buys", "tags": []}
    play.asked(HOST, Document(shown))
    # Before it, and since the last reading, another one has set the default queue type.
    settings = {"name": "/", "description": "sells", "tags": ["a"], "default_queue_type": "quorum"}
    for user in ("other", "writer"):
        play.world.event("vhost.updated", user_who_performed_action=user, **settings)
        settings["default_queue_type"] = "classic"
    play.time_passes(0.25)
    play.looks("vhosts?", Document([shown]))
    play.looks("vhost-limits", Document([]))
    response = play.response()
    lost = "what user 'other' had just set was overwritten: default_queue_type"
    text = f"OK; meanwhile another user has changed description, tags; {lost}"
    assert (response.status, response.text) == (Status.OK, text)


def test_nothing_is_written_while_others_change_it_all_the_time() -> None:
    play = Play()
    play.calls("vhost", "/", "setTracing", True)
    for number in range(4):
        play.asked(HOST, Document({**WHOLE, "description": str(number)}))
    assert play.is_idle()
    assert play.response().text == "nothing was sent: other users are changing vhost / at this moment"


def test_the_mask_of_a_password_is_never_sent_in_its_place() -> None:
    play = Play()
    play.calls("vhost", "/", "setDescription", "of amqp://***@h, renamed")
    for _ in range(2):
        play.asked(HOST, Document({**WHOLE, "description": "of amqp://u:p@h"}))
    response = play.response()
    assert (response.status, response.text) == (
        Status.INVALID_PARAMETER,
        "the password behind *** is kept only where nothing else of the text is changed: write it again",
    )


MIRRORS = Lookup("queues/%2F/orders?columns=vhost,name,type,slave_nodes", as_writer=True)


@pytest.mark.parametrize(("method", "action"), [("sync", "sync"), ("cancelSync", "cancel_sync")])
def test_a_queue_with_mirrors_is_synchronised(method: str, action: str) -> None:
    play = Play()
    play.calls("queue", "orders", method)
    play.asked(MIRRORS, queue(slave_nodes=["rabbit@b"]))
    play.asked(Change("POST", "queues/%2F/orders/actions", {"action": action}), Changed())
    play.looks("queues/%2F/orders?columns=", queue(state="syncing", slave_nodes=["rabbit@b"]))
    assert play.response().status == Status.OK
    assert play.world.value("queue", "orders", "state") == "syncing"
    assert play.world.value("queue", "orders", "mirrors") == ("rabbit@b",)


@pytest.mark.parametrize("shown", [{"type": "classic"}, {"type": "stream", "slave_nodes": []}])
def test_what_has_no_mirrors_is_not_synchronised(shown: dict[str, Json]) -> None:
    play = Play()
    play.calls("queue", "orders", "sync")
    play.asked(MIRRORS, queue(**shown))
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
    play.calls("vhost", "/", "setMaxQueues", 3)
    play.asked(Change("PUT", "vhost-limits/%2F/max-queues", {"value": 3}), Changed())
    play.looks("vhosts", Unavailable("connection refused"))
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


def test_limits_that_cannot_be_read_any_more_are_stale() -> None:
    play = Play()
    play.time_passes(10)
    play.reads_limits([{"vhost": "/", "value": {"max-connections": 5}}])
    text = "limits of virtual hosts: stale, because not read in time"
    for attempt in range(6):
        assert text not in play.world.source.status.detail, attempt
        play.time_passes(10)
        play.looks("vhost-limits", Broken("status 500"))
    play.time_passes(1)
    status = play.world.source.status
    assert (status.state, status.detail) == (SourceState.DEGRADED, text)
    assert play.world.value("vhost", "/", "maxConnections") == 5
    play.time_passes(9)
    play.reads_limits([])
    play.time_passes(1)
    assert play.world.source.status.state is SourceState.SYNCHRONISED


@pytest.mark.parametrize("value", [None, 5, [5], "x", {"max-connections": "5"}], ids=str)
def test_limits_of_an_entry_that_cannot_be_read_are_not_known(value: Json) -> None:
    play = Play()
    play.time_passes(10)
    play.reads_limits([{"vhost": "/", "value": value}])
    assert play.world.value("vhost", "/", "maxConnections") is None


def test_limits_that_were_cleared_are_an_empty_list() -> None:
    play = Play()
    play.time_passes(10)
    play.reads_limits([{"vhost": "/", "value": []}])
    assert play.world.value("vhost", "/", "maxConnections") == -1


def test_limits_without_the_name_of_their_virtual_host_may_be_of_any() -> None:
    play = Play()
    play.time_passes(10)
    play.reads_limits([{"value": {"max-connections": 5}}])
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
    play.lacks("queues/")
    assert play.world.names("queue") == []
    assert play.reported()[-1] == CommandComplete(3)


def awaits_page(play: Play, class_name: str) -> None:
    """Let time pass until a page of a listing is under way, with what the broker shows now."""
    world = play.world
    world.request_takes = 4 * SECOND
    for _ in range(1_000):
        asked = world.asked
        if isinstance(asked, ListingRequest) and asked.class_name == class_name and not asked.lean:
            return
        play.time_passes(0.1)
    pytest.fail(f"no listing of {class_name}")


def test_a_page_that_was_requested_before_a_fresh_read_does_not_bring_old_values_back() -> None:
    play = Play(writer="")
    play.reads_limits([])
    awaits_page(play, "queue")
    play.asks_for("queue", "orders")
    play.looks("queues/%2F/orders?columns=", queue(messages=77))
    play.world.broker.add_queue("orders", messages=77)
    play.time_passes(4)
    assert play.world.value("queue", "orders", "messages") == 77
    play.world.broker.add_queue("orders", messages=78)
    play.time_passes(60)
    assert play.world.value("queue", "orders", "messages") == 78


def test_a_page_that_was_requested_before_a_fresh_read_shows_no_restart_of_a_node() -> None:
    """The uptime of a node is that of its last renewal, and less in the older answer."""
    play = Play(writer="")
    play.reads_limits([])
    awaits_page(play, "node")
    play.asks_for("node", NODE)
    older = play.world.broker.objects["node"][NODE,]
    play.looks("nodes/", Document({**older, "uptime": 65_000}))
    play.world.broker.add_node(uptime=65_000)
    play.time_passes(4)
    play.time_passes(30)
    assert not [note for note in play.world.notes if "was restarted" in note.detail]
    assert play.world.names("connection") == ["peer -> us"]


def test_what_is_missing_at_its_place_and_listed_is_not_gone() -> None:
    play = Play(writer="")
    play.reads_limits([])
    for listed, text in (
        (queue(), "and lists it: does a proxy in front of it change paths"),
        (Unavailable("status 500", responded=True), "cannot be read"),
        (
            Document({"items": [{"vhost": "/", "name": "orders2"}], "page": 1, "page_count": 2}),
            "cannot be found out",
        ),
    ):
        play.reported()
        play.asks_for("queue", "orders")
        play.looks("queues/%2F/orders?columns=", NotFound())
        found = Document([listed.body]) if listed == queue() and isinstance(listed, Document) else listed
        play.looks("queues?page=1&page_size=500&name=orders&use_regex=false", found)
        end = play.reported()[-1]
        assert isinstance(end, CommandComplete)
        assert (end.code, play.world.names("queue")) == (1, ["//orders"])
        assert text in end.text
    other = Document({"vhost": "/", "name": "other", "durable": True})
    play.asks_for("queue", "orders")
    play.looks("queues/%2F/orders?columns=", other)
    end = play.reported()[-1]
    assert isinstance(end, CommandComplete)
    assert "answers with something else than queue //orders" in end.text


def test_a_listing_of_another_virtual_host_does_not_lack_an_object() -> None:
    play = Play(writer="")
    play.world.broker.objects["policy"]["/", "all"] = POLICY
    play.time_passes(60)
    play.reads_limits([])
    play.reported()
    for answer in (Document([{**POLICY, "vhost": "other"}]), Document({"error": "?"})):
        play.asks_for("policy", "all")
        play.looks("policies/%2F?columns=", answer)
        end = play.reported()[-1]
        assert isinstance(end, CommandComplete)
        assert (end.code, play.world.names("policy")) == (1, ["//all"])
    play.asks_for("policy", "all")
    play.looks("policies/%2F?columns=", Document([]))
    play.looks("policies", Document([]))
    assert play.world.names("policy") == []


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


def counts(deleted: int, *, made: int, uptime: int = 60_000) -> QueueCounts:
    """Return what is read of a broker that shows these counts; uptime in milliseconds."""
    steps = queue_counts()
    next(steps)
    # RabbitMQ shows all of them, with their rates, whichever column is requested.
    steps.send(
        {
            "churn_rates": {
                "queue_created": made,
                "queue_created_details": {"rate": made / 5},
                "queue_deleted": deleted,
            }
        }
    )
    with pytest.raises(StopIteration) as ended:
        steps.send([{"name": NODE, "uptime": uptime}])
    assert isinstance(ended.value.value, QueueCounts)
    return ended.value.value


def test_only_queues_that_were_deleted_make_it_doubtful_that_one_is_the_same() -> None:
    before = counts(3, made=11)
    assert counts(3, made=400).are_as(before, 40 * SECOND)
    assert not counts(4, made=12).are_as(before, 40 * SECOND)
    assert not counts(3, made=11, uptime=30_000).are_as(before, 40 * SECOND), "the node counts from zero"
