"""Operations at a CML broker: their order, late or missing answers, and operations that were not sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.cml.messages import (
    InspectReply,
    InspectRequest,
    MethodReply,
    MethodRequest,
    ModifyReply,
    Status,
)
from gateway.dialects.session import NotSent, TimerExpired
from gateway.model.observations import SourceState, SourceStateSeen
from gateway.model.operations import Answer, Outcome
from gateway.model.times import SECOND
from tests.dialects.cml.console_story import (
    MAY_BE_DONE,
    answer,
    call,
    fetch,
    modify,
    synchronised,
)

# One request about an object at a time.


def test_an_operation_waits_for_the_inspection_of_its_object() -> None:
    play = synchronised()
    play.time_passes(5, answering=False)
    (inspection,) = play.waiting
    play.left()
    play.take(play.session.handle(call(play, 0, "broker", "shutdown", token=1), play.now))
    play.take(play.session.handle(fetch(play, 0, "broker", token=2), play.now))
    play.take(play.session.handle(fetch(play, 7, "queue", token=3), play.now))
    play.leaves(InspectRequest(7, "queue"))
    play.answers(to=inspection)
    assert play.left()[-1] == MethodRequest(0, "shutdown", (), "broker")
    play.answers(MethodReply(Status.OK, 0, "broker"), to=play.sent[-1])
    play.leaves(Answer(1, Outcome.APPLIED, "", 0), InspectRequest(0, "broker"))


def test_what_waited_until_its_time_was_over_is_not_sent() -> None:
    play = synchronised()
    play.time_passes(5, answering=False)
    play.left()
    play.take(play.session.handle(call(play, 0, "broker", "shutdown"), play.now))
    play.time_passes(6, answering=False)
    text = "not sent: other requests about the object took too long"
    play.leaves(Answer(1, Outcome.NOT_NOW, text))


def test_what_waited_for_an_object_that_is_gone_is_not_sent() -> None:
    play = synchronised()
    play.time_passes(19.9)
    play.time_passes(0.1, answering=False)
    inspection = next(send for send in play.waiting if play.read(send) == InspectRequest(7, "queue"))
    play.take(play.session.handle(call(play, 7, "queue", "purge"), play.now))
    play.left()
    play.answers(InspectReply(Status.NOT_FOUND), to=inspection)
    assert answer(play) == Answer(1, Outcome.OBJECT_GONE, "not sent: the broker lists no such object")


def test_what_waited_when_the_link_went_down_is_not_sent() -> None:
    play = synchronised()
    play.time_passes(5, answering=False)
    play.take(play.session.handle(call(play, 0, "broker", "shutdown"), play.now))
    play.left()
    play.disconnects()
    assert answer(play) == Answer(1, Outcome.SOURCE_DOWN, "not sent: there is no connection to the broker")


def test_an_object_is_not_inspected_while_an_operation_is_under_way() -> None:
    play = synchronised()
    wanted = replace(call(play, 0, "broker", "shutdown"), deadline=play.now + 9 * SECOND)
    play.take(play.session.handle(wanted, play.now))
    play.left()
    play.time_passes(8, answering=False)
    play.leaves()
    play.time_passes(2, answering=False)
    assert play.left()[1:] == [InspectRequest(0)]


# No answer, a late one, and none that can come.


def test_a_call_without_an_answer_is_unknown_until_one_comes_late() -> None:
    play = synchronised()
    play.take(play.session.handle(call(play, 7, "queue", "purge"), play.now))
    request = play.waiting.pop()
    play.time_passes(6)
    text = f"no answer came in time: {MAY_BE_DONE}"
    assert answer(play) == Answer(1, Outcome.UNKNOWN, text)
    play.answers(MethodReply(Status.OK, 7, "queue"), to=request)
    assert answer(play) == Answer(1, Outcome.APPLIED, "", 0)
    play.answers(MethodReply(Status.OK, 7, "queue"), to=request)
    play.leaves("unmatched-reply")


def test_a_reading_without_an_answer_changes_nothing() -> None:
    play = synchronised()
    play.take(play.session.handle(fetch(play, 7, "queue"), play.now))
    play.waiting.clear()
    play.time_passes(6)
    assert answer(play) == Answer(1, Outcome.UNKNOWN, "no answer came in time")


@pytest.mark.parametrize(
    ("number", "class_name", "method"), [(0, "broker", "shutdown"), (9, "connection", "kill")]
)
def test_methods_that_may_end_who_answers_say_so(number: int, class_name: str, method: str) -> None:
    play = synchronised()
    play.take(play.session.handle(call(play, number, class_name, method), play.now))
    play.left()
    play.disconnects("closed by the broker: Operator requested server shutdown")
    given = answer(play)
    assert given.outcome is Outcome.UNKNOWN
    assert given.text == (
        f"the link went down before an answer came: {method} may end the broker or the connection;"
        " it may have been carried out, or may still be"
    )


def test_an_answer_may_come_after_another_connection_was_made() -> None:
    play = synchronised()
    play.take(play.session.handle(modify(play, 1, "config", limit=3), play.now))
    request = play.sent[-1]
    play.disconnects()
    play.connects()
    play.left()
    play.arrives(play.written(ModifyReply(Status.OK, 1, "config")), request.message_id)
    assert answer(play) == Answer(1, Outcome.APPLIED, "", 0)


def test_unanswered_operations_are_remembered_within_bounds() -> None:
    play = synchronised()
    first = len(play.sent)
    for number in range(1_001):
        wanted = replace(fetch(play, 7, "queue", token=number), deadline=play.now + 1)
        play.take(play.session.handle(wanted, play.now))
        play.now += 1
        play.take(play.session.handle(TimerExpired(), play.now))
        for inspection in [send for send in play.waiting if not send.not_after]:
            play.answers(to=inspection)
    play.left()
    fetches = [send for send in play.sent[first:] if send.not_after]
    assert len(fetches) == 1_001
    play.answers(to=fetches[0])
    play.leaves("unmatched-reply")
    play.answers(to=fetches[1])
    assert isinstance(play.left()[-1], Answer)


# Not sent for certain.


def test_what_certainly_was_not_sent_is_reported_so() -> None:
    play = synchronised()
    play.take(play.session.handle(call(play, 7, "queue", "purge"), play.now))
    play.left()
    play.take(play.session.handle(NotSent([play.waiting.pop()], "its time was over"), play.now))
    # Whether the broker takes requests at all, the next inspection shows.
    play.leaves(Answer(1, Outcome.SOURCE_DOWN, "not sent: its time was over"), InspectRequest(7, "queue"))


def test_a_returned_operation_does_not_say_that_the_broker_is_gone_but_an_inspection_does() -> None:
    play = synchronised()
    play.take(play.session.handle(fetch(play, 7, "queue", seconds=9), play.now))
    play.time_passes(5, answering=False)
    play.left()
    play.take(play.session.handle(NotSent(list(play.waiting), "no queue is bound there"), play.now))
    play.leaves(
        SourceStateSeen(
            SourceState.DOWN,
            "exchange amq.system with key amq.console takes no requests: no queue is bound there;"
            " next attempt in 5 s",
        ),
        Answer(1, Outcome.SOURCE_DOWN, "not sent: no queue is bound there"),
    )
    play.take(play.session.handle(call(play, 7, "queue", "purge"), play.now))
    assert answer(play) == Answer(1, Outcome.SOURCE_DOWN, "not sent: the broker takes no requests")
