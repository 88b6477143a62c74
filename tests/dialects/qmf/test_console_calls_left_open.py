"""Calls without an answer: their certain outcome, and facts that become known later."""

from __future__ import annotations

from gateway.dialects.console import REMEMBERED
from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.messages import (
    MethodResponse,
)
from gateway.dialects.session import BacklogFollows, NotSent
from gateway.model.operations import Answer, Outcome
from tests.dialects.qmf.console_story import WITHOUT_HEARTBEATS, got, synchronised
from tests.dialects.qmf.operations_story import (
    FIRST,
    OUTPUTS,
    calls,
    drain,
    listed_again,
    only_call,
    unanswered,
)
from tests.dialects.qmf.playbook import AGENT_USER, ConsolePlay


def test_without_an_answer_until_the_deadline_it_is_open_what_came_of_a_call() -> None:
    play = synchronised(WITHOUT_HEARTBEATS)
    calls(play, drain(play, seconds=3))
    play.left()
    play.time_passes(2.9)
    play.leaves()
    play.time_passes(0.2)
    play.leaves(unanswered())
    play.time_passes(600)
    play.leaves()


def test_an_answer_that_comes_late_is_reported_all_the_same() -> None:
    play = synchronised(WITHOUT_HEARTBEATS)
    calls(play, drain(play, seconds=3))
    play.time_passes(4)
    play.left()
    play.arrives(MethodResponse(FIRST, 7, "not carried out: it came late"))
    play.leaves(Answer(1, Outcome.REMOTE_FAILURE, "not carried out: it came late", 7))
    play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.leaves()


def test_the_latest_of_the_unanswered_are_remembered() -> None:
    play = synchronised(WITHOUT_HEARTBEATS)
    for token in range(REMEMBERED + 1):
        calls(play, drain(play, token, seconds=1))
        play.time_passes(1)
    play.left()
    play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.leaves()
    play.arrives(MethodResponse(FIRST + 1, 0, "OK", OUTPUTS))
    play.leaves(Answer(1, Outcome.APPLIED, "OK", 0, (2.5, "cd")))


def test_when_the_link_goes_down_what_was_not_sent_is_certain_and_the_rest_open() -> None:
    play = synchronised()
    calls(play)
    calls(play, drain(play, 2))
    play.left()
    play.take(play.session.handle(NotSent(play.sent[-1:], "the connection ended"), play.now))
    play.leaves(Answer(2, Outcome.SOURCE_DOWN, "not sent: the connection ended"))
    play.disconnects()
    down = "the link went down before an answer came: it may have been carried out, or may still be"
    assert unanswered(1, down) in play.left()
    play.take(play.session.handle(NotSent(play.sent[-1:], "the connection ended"), play.now))
    play.leaves()


def test_what_turns_out_later_not_to_have_been_sent_is_reported() -> None:
    play = synchronised(WITHOUT_HEARTBEATS)
    calls(play, drain(play, seconds=1))
    play.time_passes(2)
    play.left()
    play.take(play.session.handle(NotSent(play.sent[-1:], "its time was over"), play.now))
    play.leaves(Answer(1, Outcome.SOURCE_DOWN, "not sent: its time was over"))


def test_requests_of_the_session_itself_are_none_of_the_operations() -> None:
    play = synchronised()
    calls(play)
    play.left()
    play.take(play.session.handle(NotSent(play.sent[:-1], "the connection ended"), play.now))
    play.leaves()


def test_nothing_is_sent_again_after_the_link_came_back_and_a_late_answer_is_reported() -> None:
    play = synchronised()
    calls(play)
    play.disconnects()
    play.connects()
    listed_again(play)
    assert [one for one in play.sent if one.not_after] == [only_call(play)]
    play.left()
    play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.leaves(Answer(1, Outcome.APPLIED, "OK", 0, (2.5, "cd")))


def test_an_answer_that_waited_in_a_durable_queue_is_reported_before_anything_is_asked() -> None:
    play = synchronised()
    calls(play)
    play.disconnects()
    play.take(play.session.handle(BacklogFollows("", 2), play.now))
    play.left()
    play.arrives(got(5))
    play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.arrives_octets(b"junk")
    play.leaves(Answer(1, Outcome.APPLIED, "OK", 0, (2.5, "cd")))


def test_answers_to_a_former_console_answer_no_call() -> None:
    play = ConsolePlay(ConsoleConfig(frozenset({AGENT_USER}), first_sequence=0x8000_1234))
    listed_again(play, connect=True)
    calls(play)
    assert play.sequence() == 0x8000_1235
    play.left()
    play.arrives(MethodResponse(FIRST, 0, "OK", OUTPUTS))
    play.leaves()
