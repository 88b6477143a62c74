"""Operations at a CML broker: the requests that are sent, those that never are, and their outcomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.cml.console_calls import SHOWN_WITHIN
from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    Invalid,
    MethodReply,
    MethodRequest,
    ModifyReply,
    ModifyRequest,
    Reply,
    Status,
)
from gateway.dialects.cml.safety import Assurance
from gateway.dialects.session import LossSuspected
from gateway.model.observations import ObjectSeen, SourceState
from gateway.model.operations import NOT_READ, Answer, Outcome
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value
from tests.dialects.cml.console_story import (
    CONFIG,
    SYNCHRONISED,
    answer,
    call,
    fetch,
    gone,
    modify,
    native,
    reported,
    seen,
    states,
    synchronised,
)
from tests.dialects.cml.playbook import ConsolePlay, shop
from tests.dialects.foreseen import as_foreseen, called

# Calls.


def test_a_call_is_sent_once_and_its_notice_reported() -> None:
    play = synchronised()
    wanted = call(play, 7, "queue", "purge")
    play.take(called(play.session, wanted, play.now))
    play.leaves(MethodRequest(7, "purge", (), "queue"))
    send = play.sent[-1]
    assert (send.not_after, send.mandatory, send.expiration) == (wanted.deadline, True, 0)
    play.answers(MethodReply(Status.OK, 7, "queue", "3 messages\n purged"))
    # What came of it is looked at at once, and is shown before the answer.
    play.leaves(InspectRequest(7, "queue"))
    play.broker.put(7, "queue", name="orders", pending="0", exclusive="0")
    play.answers()
    observed, given = play.left()
    assert isinstance(observed, ObjectSeen)
    assert given == Answer(1, Outcome.APPLIED, "3 messages purged", 0)


def test_an_answer_does_not_wait_for_long_for_an_object_that_is_not_read() -> None:
    play = synchronised()
    play.take(called(play.session, call(play, 7, "queue", "purge"), play.now))
    play.left()
    play.answers(MethodReply(Status.OK, 7, "queue"))
    play.leaves(InspectRequest(7, "queue"))
    play.take(play.session.handle(call(play, 7, "queue", "purge", token=2), play.now))
    assert play.left() == [], "one call of an object at a time"
    play.time_passes(SHOWN_WITHIN / SECOND, answering=False)
    left = play.left()
    assert Answer(1, Outcome.APPLIED, "", 0) in left


def test_the_answer_to_a_call_is_given_when_the_link_goes_down() -> None:
    play = synchronised()
    play.take(called(play.session, call(play, 7, "queue", "purge"), play.now))
    play.answers(MethodReply(Status.OK, 7, "queue"))
    play.left()
    play.disconnects()
    assert [one for one in play.left() if isinstance(one, Answer)] == [Answer(1, Outcome.APPLIED, "", 0)]


def test_what_a_call_may_just_be_ending_is_let_alone() -> None:
    """OpenAMQ dies of an inspection of an object that is just ending."""
    play = synchronised()
    play.take(called(play.session, call(play, 9, "connection", "kill"), play.now))
    play.answers(MethodReply(Status.OK, 9, "connection"))
    play.leaves(MethodRequest(9, "kill", (), "connection"), Answer(1, Outcome.APPLIED, "", 0))
    play.time_passes(19)
    assert InspectRequest(9, "connection") not in play.left()


def test_arguments_travel_as_text() -> None:
    play = synchronised()
    play.take(called(play.session, call(play, 0, "broker", "lock", True), play.now))
    play.leaves(MethodRequest(0, "lock", (Field("setting", "1"),), "broker"))


@pytest.mark.parametrize(
    ("status", "outcome", "text", "code"),
    [
        ("ok", Outcome.APPLIED, "", 0),
        ("notfound", Outcome.OBJECT_GONE, "the broker has no such object any more", 1),
        (
            "noaccess",
            Outcome.REMOTE_FAILURE,
            "the broker permits this user only to read: log in as one of group super",
            2,
        ),
        ("invalid", Outcome.REMOTE_FAILURE, "the broker does not accept the request (invalid)", 3),
        (
            "maybe",
            Outcome.UNKNOWN,
            "the broker answers 'maybe': it may have been carried out, or may still be",
            None,
        ),
        ("", Outcome.UNKNOWN, "the broker answers '': it may have been carried out, or may still be", None),
    ],
)
def test_what_a_status_means(status: str, outcome: Outcome, text: str, code: int | None) -> None:
    play = synchronised()
    play.take(called(play.session, call(play, 7, "queue", "purge"), play.now))
    play.left()
    play.answers(MethodReply(status))
    play.answers_all()
    assert answer(play) == Answer(1, outcome, text, code)


def test_what_is_not_found_is_gone_before_that_is_answered() -> None:
    play = synchronised()
    play.take(called(play.session, call(play, 7, "queue", "purge"), play.now))
    play.left()
    play.answers(MethodReply(Status.NOT_FOUND))
    play.leaves(
        gone(8, "queue_binding", play.now),
        gone(7, "queue", play.now),
        Answer(1, Outcome.OBJECT_GONE, "the broker has no such object any more", 1),
    )


def test_notices_are_one_line_of_bounded_length_without_secrets() -> None:
    play = synchronised()
    play.take(called(play.session, call(play, 7, "queue", "purge"), play.now))
    play.left()
    play.answers(MethodReply(Status.OK, 7, "queue", "amqp://u:secret@h/ " + "x" * 600))
    play.answers_all()
    text = answer(play).text
    assert text.startswith("amqp://***@h/ xxx")
    assert len(text) == 500


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Invalid(), "the answer does not fit the request: Invalid()"),
        (ModifyReply(Status.OK, 7, "queue"), "the answer does not fit the request: ModifyReply("),
        (MethodReply(Status.OK, 9, "connection"), "the answer is about another object, 9"),
    ],
)
def test_an_answer_to_another_request_has_no_meaning(reply: Reply, text: str) -> None:
    play = synchronised()
    play.take(called(play.session, call(play, 7, "queue", "purge"), play.now))
    play.left()
    play.answers(reply)
    given = answer(play)
    assert given.outcome is Outcome.UNKNOWN
    assert given.text.startswith(text)


# What is checked before.


@pytest.mark.parametrize(
    ("method", "arguments", "outcome", "text"),
    [
        ("explode", (), Outcome.UNKNOWN_ELEMENT, "not sent: shop:broker has no method 'explode'"),
        ("lock", (), Outcome.WRONG_VALUE, "not sent: lock takes 1 arguments, 0 were given"),
        ("lock", (None,), Outcome.WRONG_VALUE, "not sent: setting: a value is wanted"),
        ("lock", ("yes",), Outcome.WRONG_TYPE, "not sent: setting: true or false is wanted"),
    ],
)
def test_what_the_schema_does_not_have_is_not_sent(
    method: str, arguments: tuple[Value | None, ...], outcome: Outcome, text: str
) -> None:
    """OpenAMQ would answer ok to all of them; a missing argument of lock would unlock it."""
    play = synchronised()
    play.take(called(play.session, call(play, 0, "broker", method, *arguments), play.now))
    given = answer(play)
    assert given.outcome is outcome
    assert given.text.startswith(text)
    assert not play.waiting


@pytest.mark.parametrize(
    ("name", "value", "outcome", "text"),
    [
        ("nothing", "x", Outcome.UNKNOWN_ELEMENT, "shop:config has no field 'nothing'"),
        ("password", "x", Outcome.UNKNOWN_ELEMENT, "shop:config has no field 'password'"),
        ("name", "x", Outcome.READ_ONLY, "the broker does not permit to set name"),
        ("parentRef", Reference("0"), Outcome.READ_ONLY, "the broker does not permit to set parentRef"),
        ("port", None, Outcome.WRONG_VALUE, "port: a value is wanted"),
        ("port", "", Outcome.WRONG_VALUE, "port: an empty value ends OpenAMQ"),
        ("port", " \t", Outcome.WRONG_VALUE, "port: an empty value ends OpenAMQ"),
        ("port", "a\tb", Outcome.WRONG_VALUE, "port: OpenAMQ replaces a tab by blanks"),
        ("port", "a\0b", Outcome.WRONG_VALUE, "a text has a NUL, which no document can contain"),
        ("port", 5672, Outcome.WRONG_TYPE, "port: text is wanted, not 5672"),
        ("port", "x" * 256, Outcome.WRONG_LENGTH, "port: "),
        ("limit", 1 << 32, Outcome.WRONG_VALUE, "limit: "),
        ("limit", -1, Outcome.WRONG_VALUE, "limit: "),
        ("auto_crash", 1, Outcome.WRONG_VALUE, "auto_crash exists to crash or block OpenAMQ"),
        ("main", Reference("7"), Outcome.WRONG_VALUE, "main: the broker has no such object"),
        ("day", 1, Outcome.WRONG_VALUE, "day: a time must be a whole minute"),
    ],
)
def test_values_that_the_broker_would_change_or_die_of_are_not_sent(
    name: str, value: Value | None, outcome: Outcome, text: str
) -> None:
    play = synchronised()
    wanted = replace(modify(play, 1, "config"), values={name: value})
    foreseen = play.session.precheck(wanted, play.now)
    play.take(as_foreseen(foreseen, wanted, play.session.handle(wanted, play.now)))
    given = answer(play)
    assert given.outcome is outcome
    assert given.text.startswith(f"not sent: {text}")


def test_a_call_needs_an_object_that_is_listed_and_of_that_class() -> None:
    play = synchronised()
    for wanted, outcome in (
        (call(play, 77, "queue", "purge"), Outcome.OBJECT_GONE),
        (replace(call(play, 7, "queue", "purge"), native_id="2020-01-01T00:00+00:00/7"), Outcome.OBJECT_GONE),
        (replace(call(play, 7, "queue", "purge"), native_id=native(7) + "x"), Outcome.OBJECT_GONE),
        (call(play, 7, "connection", "kill"), Outcome.NOT_NOW),
        (replace(call(play, 7, "queue", "purge"), key=ClassKey("shop", "queue", b"other")), Outcome.NOT_NOW),
        (replace(call(play, 7, "queue", "purge"), deadline=play.now), Outcome.NOT_NOW),
    ):
        play.take(called(play.session, wanted, play.now))
        assert answer(play).outcome is outcome


def test_while_the_broker_cannot_be_asked_nothing_is_sent() -> None:
    play = ConsolePlay(CONFIG)
    play.take(called(play.session, call(play, 7, "queue", "purge"), play.now))
    assert answer(play) == Answer(1, Outcome.SOURCE_DOWN, "not sent: there is no connection to the broker")
    play.connects()
    play.left()
    play.take(called(play.session, call(play, 7, "queue", "purge"), play.now))
    assert answer(play) == Answer(1, Outcome.SOURCE_DOWN, "not sent: the broker has not sent its schema yet")
    play.answers()
    play.answers()
    play.left()
    play.take(called(play.session, call(play, 7, "queue", "purge"), play.now))
    assert answer(play) == Answer(1, Outcome.SOURCE_DOWN, f"not sent: {NOT_READ}")


def test_operations_have_a_bound() -> None:
    play = synchronised(replace(CONFIG, operation_limit=1))
    play.take(called(play.session, call(play, 7, "queue", "purge"), play.now))
    play.left()
    play.take(called(play.session, call(play, 9, "connection", "kill"), play.now))
    assert answer(play) == Answer(1, Outcome.NOT_NOW, "not sent: 1 operations are under way")


# What depends on how the broker runs.


@pytest.mark.parametrize("method", ["commit", "rollback"])
def test_settings_are_written_and_read_where_there_is_a_file(method: str) -> None:
    play = synchronised()
    play.take(called(play.session, call(play, 1, "config", method), play.now))
    play.leaves(MethodRequest(1, method, (), "config"))


@pytest.mark.parametrize("method", ["commit", "rollback"])
def test_without_a_file_they_are_not(method: str) -> None:
    broker = shop()
    broker.put(1, "config", name="", port="5672")
    play = synchronised(broker=broker)
    play.take(called(play.session, call(play, 1, "config", method), play.now))
    text = f"not sent: {method} ruins an OpenAMQ that runs without a configuration file"
    play.leaves(Answer(1, Outcome.REFUSED, text))
    play = synchronised(replace(CONFIG, assured=frozenset({Assurance.CONFIG_FILE})), broker)
    play.take(called(play.session, call(play, 1, "config", method), play.now))
    play.leaves(MethodRequest(1, method, (), "config"))


def test_a_trace_is_set_where_the_configuration_assures_heartbeats() -> None:
    play = synchronised()
    play.take(play.session.handle(modify(play, 9, "connection", trace=1), play.now))
    assert answer(play).outcome is Outcome.REFUSED
    play = synchronised(replace(CONFIG, assured=frozenset({Assurance.HEARTBEATS})))
    play.take(play.session.handle(modify(play, 9, "connection", trace=1), play.now))
    play.leaves(ModifyRequest(9, (Field("trace", "1"),), "connection"))


def test_a_text_is_emptied_where_the_configuration_assures_that_the_broker_takes_it() -> None:
    play = synchronised()
    play.take(play.session.handle(modify(play, 1, "config", port=""), play.now))
    given = answer(play)
    assert (given.outcome, "cannot be emptied" in given.text) == (Outcome.WRONG_VALUE, True)
    play = synchronised(replace(CONFIG, assured=frozenset({Assurance.EMPTY_VALUES})))
    play.take(play.session.handle(modify(play, 1, "config", port=""), play.now))
    play.leaves(ModifyRequest(1, (Field("port", ""),), "config"))


# Settings.


def test_settings_of_an_object_go_in_one_request() -> None:
    play = synchronised()
    wanted = modify(
        play, 1, "config", port="5673", limit=9, main=Reference(native(7)), day=1_800_000_000 * SECOND
    )
    play.take(play.session.handle(wanted, play.now))
    fields = (
        Field("port", "5673"),
        Field("limit", "9"),
        Field("main", "7"),
        Field("day", "2027-01-15T08:00+00:00"),
    )
    play.leaves(ModifyRequest(1, fields, "config"))
    play.answers(ModifyReply(Status.OK, 1, "config", "To activate the new port setting, restart the broker"))
    play.leaves(Answer(1, Outcome.APPLIED, "To activate the new port setting, restart the broker", 0))


def test_nothing_to_set_is_not_sent() -> None:
    play = synchronised()
    play.take(play.session.handle(modify(play, 1, "config"), play.now))
    play.leaves(Answer(1, Outcome.WRONG_VALUE, "not sent: no field is to be set"))


# Reading again.


def test_what_is_read_again_is_observed_before_that_is_answered() -> None:
    play = synchronised()
    play.take(play.session.handle(fetch(play, 7, "queue"), play.now))
    play.leaves(InspectRequest(7, "queue"))
    play.broker.put(7, "queue", name="orders", pending="4", exclusive="0")
    play.answers()
    play.leaves(seen(7, "queue", "orders", 4, False), Answer(1, Outcome.APPLIED, "", 0))
    play.time_passes(20)
    assert reported(play.left()).count("7") == 1  # its interval began again


def test_what_is_gone_when_it_is_read_again_is_reported() -> None:
    play = synchronised()
    play.take(play.session.handle(fetch(play, 7, "queue"), play.now))
    play.left()
    play.answers(InspectReply(Status.NOT_FOUND))
    steps = play.left()
    assert reported(steps) == ["-8", "-7"]
    assert steps[-1] == Answer(1, Outcome.OBJECT_GONE, "the broker has no such object any more", 1)


@pytest.mark.parametrize(
    ("reply", "text", "code"),
    [
        (InspectReply(Status.NO_ACCESS), "the broker answers 'noaccess'", 2),
        (InspectReply(Status.OK, 7, "cellar"), "its class 'cellar' is not in the schema", 0),
    ],
)
def test_what_may_not_be_read_again_is_reported(reply: InspectReply, text: str, code: int) -> None:
    play = synchronised()
    play.take(play.session.handle(fetch(play, 7, "queue"), play.now))
    play.left()
    play.answers(reply)
    assert answer(play) == Answer(1, Outcome.REMOTE_FAILURE, text, code)


def test_a_broker_that_does_not_show_itself_when_it_is_read_again_is_in_doubt() -> None:
    play = synchronised(replace(CONFIG, request_attempts=1))
    play.take(play.session.handle(fetch(play, 0, "broker"), play.now))
    play.left()
    play.answers(InspectReply(Status.NO_ACCESS))
    steps = play.left()
    assert steps[-1] == Answer(1, Outcome.REMOTE_FAILURE, "the object cannot be shown", 2)
    assert states(steps)[-1].state is SourceState.DEGRADED


def test_an_answer_that_shows_a_restart_is_about_another_object() -> None:
    play = synchronised()
    play.take(play.session.handle(fetch(play, 0, "broker"), play.now))
    play.broker.put(0, "broker", name="shop", started="2027-01-01T00:00+00:00")
    play.left()
    play.answers()
    given = answer(play)
    assert (given.outcome, given.text) == (Outcome.OBJECT_GONE, "the broker lists no such object")
    play.time_passes(3)
    assert states(play.left())[-1] == SYNCHRONISED


def test_an_answer_that_comes_while_all_is_listed_again_is_not_observed() -> None:
    play = synchronised()
    play.time_passes(4)
    play.take(play.session.handle(fetch(play, 7, "queue"), play.now))
    request = play.sent[-1]
    play.take(play.session.handle(LossSuspected("doubt"), play.now))
    play.answers(to=play.sent[-1])  # the schema
    play.left()
    play.answers(to=request)
    assert [one for one in play.left() if isinstance(one, ObjectSeen | Answer)] == [
        Answer(
            *(1, Outcome.NOT_NOW),
            "the objects were listed again meanwhile: try again when the source is synchronised",
        )
    ]


def test_a_call_that_is_answered_while_all_is_listed_again_is_done_all_the_same() -> None:
    play = synchronised()
    play.time_passes(4)
    play.take(called(play.session, call(play, 7, "queue", "purge"), play.now))
    request = play.sent[-1]
    play.take(play.session.handle(LossSuspected("doubt"), play.now))
    play.left()
    play.answers(MethodReply(Status.NOT_FOUND), to=request)
    assert answer(play).outcome is Outcome.OBJECT_GONE
