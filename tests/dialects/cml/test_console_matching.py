"""Matching of replies to requests: out of order, repeated, late, of the wrong kind, without message id."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.cml.console_config import Matching
from gateway.dialects.cml.messages import (
    InspectReply,
    InspectRequest,
    Invalid,
    ModifyReply,
    Notify,
    Reply,
    SchemaReply,
    SchemaRequest,
    Status,
)
from gateway.dialects.cml.session_state import State
from gateway.dialects.session import Send
from gateway.model.observations import EventSeen, ResyncEnded, Severity, SourceState
from gateway.model.operations import Answer, Outcome
from gateway.model.times import SECOND
from tests.dialects.cml.console_story import CONFIG, fetch, key, reported, states, synchronised
from tests.dialects.cml.playbook import SCHEMA, ConsolePlay

ONE_AT_A_TIME = replace(CONFIG, matching=Matching.ONE_AT_A_TIME)


def outstanding(play: ConsolePlay) -> dict[int | str | None, Send]:
    """Return the inspections that wait for an answer, once many are under way."""
    play.time_passes(19.9)
    play.left()
    play.time_passes(0.1, answering=False)
    return {
        request.object_id: send
        for send in play.waiting
        if isinstance(request := play.read(send), InspectRequest)
    }


def test_answers_may_come_in_any_order() -> None:
    play = synchronised()
    waiting = outstanding(play)
    play.left()
    for number in (9, 7):
        play.answers(to=waiting[number])
    assert reported(play.left()) == ["9", "7"]


def test_an_answer_that_comes_twice_counts_once() -> None:
    play = synchronised()
    waiting = outstanding(play)
    play.left()
    play.answers(to=waiting[7])
    play.answers(to=waiting[7])
    steps = play.left()
    assert reported(steps) == ["7"]
    assert steps[-1] == "unmatched-reply"


def test_an_answer_to_another_console_is_dropped() -> None:
    play = synchronised()
    play.arrives(play.written(InspectReply(Status.OK, 7, "queue")), "d-3")
    play.leaves("unmatched-reply")
    play.arrives(play.written(InspectReply(Status.OK, 7, "queue")))
    play.leaves("unmatched-reply")


@pytest.mark.parametrize(
    "reply",
    [
        Invalid(),
        ModifyReply(Status.OK, 7, "queue"),
        SCHEMA,
        Notify("I: hello"),
        InspectReply(Status.OK, 9, "connection"),
    ],
)
def test_an_answer_of_the_wrong_kind_or_about_another_object_is_none(reply: Reply) -> None:
    play = synchronised()
    waiting = outstanding(play)
    play.left()
    play.answers(reply, to=waiting[7])
    assert reported(play.left()) == []
    play.time_passes(5)
    assert "7" in reported(play.left())  # asked for again


@pytest.mark.parametrize("body", [b"", b"<cml><inspect-reply", b"<cml><hello/></cml>", b"\xff\x00\x01"])
def test_an_answer_that_cannot_be_read_is_asked_for_again(body: bytes) -> None:
    play = synchronised()
    waiting = outstanding(play)
    play.left()
    play.waiting.remove(waiting[7])
    play.arrives(body, waiting[7].message_id)
    assert reported(play.left()) == []
    play.time_passes(5)
    assert "7" in reported(play.left())


def test_messages_are_trusted_from_configured_users_only_where_there_are_some() -> None:
    play = ConsolePlay(replace(CONFIG, trusted_users=frozenset({"broker"})))
    play.connects()
    play.left()
    play.arrives(play.written(SCHEMA), "c-1", user="mallory")
    play.leaves("refused-sender")
    play.arrives(play.written(SCHEMA), "c-1", user="broker")
    play.stands(State.WALKING)


# Without message ids.


def walked_one_by_one(play: ConsolePlay) -> None:
    """Answer all without message ids, until the tree is known; never is more than one request under way."""
    play.connects()
    while play.session.state is not State.SYNCHRONISED:
        while play.waiting:
            assert len(play.waiting) == 1
            play.answers(message_id="")
        play.time_passes(0.1, answering=False)


def test_a_peer_that_puts_no_message_ids_on_its_first_reply_is_asked_one_request_at_a_time() -> None:
    play = ConsolePlay(CONFIG)
    walked_one_by_one(play)
    steps = play.left()
    assert steps.count("no-message-ids") == 1
    assert ResyncEnded(complete=True) in steps


def test_it_can_be_configured() -> None:
    play = ConsolePlay(ONE_AT_A_TIME)
    walked_one_by_one(play)
    assert "no-message-ids" not in play.notes()


def test_it_can_be_ruled_out() -> None:
    play = ConsolePlay(replace(CONFIG, matching=Matching.MESSAGE_ID))
    play.connects()
    play.left()
    play.answers(message_id="")
    play.leaves("unmatched-reply")


def test_it_is_found_out_with_each_connection() -> None:
    play = ConsolePlay(CONFIG)
    walked_one_by_one(play)
    play.disconnects()
    play.connects()
    play.time_passes(3)
    play.left()
    play.time_passes(5.5, answering=False)
    play.stands(State.SYNCHRONISED)
    assert play.session._state.one_at_a_time is False  # noqa: SLF001  told by nothing else


def test_a_late_answer_is_not_taken_for_the_next_one() -> None:
    """While the first may still come, a reply that does not name its object is ignored."""
    play = ConsolePlay(ONE_AT_A_TIME)
    walked_one_by_one(play)
    play.time_passes(5, answering=False)
    assert play.waiting
    play.left()
    play.take(play.session.handle(fetch(play, 7, "queue", seconds=40), play.now))
    assert len(play.waiting) == 1  # the fetch waits for its turn
    play.time_passes(10, answering=False)  # the first is given up
    assert SourceState.DEGRADED in {one.state for one in states(play.left())}
    assert len(play.waiting) == 2
    play.arrives(play.written(InspectReply(Status.NOT_FOUND)))
    play.leaves("unmatched-reply")
    play.arrives(play.written(InspectReply(Status.OK, 7, "queue")))
    play.leaves("unmatched-reply")
    play.time_passes(30, answering=False)
    answers = [one for one in play.left() if isinstance(one, Answer)]
    assert [one.outcome for one in answers] == [Outcome.UNKNOWN]


def test_a_late_answer_about_the_same_object_says_the_same() -> None:
    play = ConsolePlay(replace(ONE_AT_A_TIME, retry_interval=60 * SECOND))
    walked_one_by_one(play)
    play.time_passes(20.5, answering=False)
    play.left()
    request = play.read(play.waiting[-1])
    play.arrives(play.written(play.broker.reply(request)))
    assert "resync" in play.notes()  # the broker answers again
    assert play.read(play.sent[-1]) == SchemaRequest()
    play.arrives(play.written(InspectReply(Status.OK, 0, "broker")))
    play.leaves("unmatched-reply")
    play.arrives(play.written(SCHEMA))
    play.stands(State.WALKING)


# Notifications.


@pytest.mark.parametrize(
    ("text", "severity", "reported_text"),
    [
        (
            "E: queue exceeded configured limit of 5000.",
            Severity.MAJOR,
            "queue exceeded configured limit of 5000.",
        ),
        ("W:low on memory", Severity.WARNING, "low on memory"),
        (" I: hello ", Severity.INFO, "hello"),
        ("nothing special", Severity.INFO, "nothing special"),
        ("Error: a word is no letter", Severity.INFO, "Error: a word is no letter"),
        ("W: amqp://u:secret@host/", Severity.WARNING, "amqp://***@host/"),
        ("", Severity.INFO, ""),
    ],
)
def test_a_notification_is_an_event(text: str, severity: Severity, reported_text: str) -> None:
    play = synchronised()
    play.arrives(play.written(Notify(text)), exchange="amq.notify")
    play.leaves(EventSeen(key("notify"), "broker", play.now, severity, (reported_text,)))


def test_before_the_schema_is_known_a_notification_has_no_meaning() -> None:
    play = ConsolePlay(CONFIG)
    play.connects()
    play.left()
    play.arrives(play.written(Notify("W: early")), exchange="amq.notify")
    play.leaves()


def test_other_messages_to_all_mean_nothing() -> None:
    play = synchronised()
    play.arrives(play.written(SchemaReply(Status.OK)), exchange="amq.notify")
    play.arrives(b"<cml version='1.0'><hello/></cml>", exchange="amq.notify")
    play.leaves()
    play.arrives(b"no xml", exchange="amq.notify")
    play.leaves("protocol-error")
