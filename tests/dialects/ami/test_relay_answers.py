"""The outcome of a call by R or by its absence; objects cannot be read again."""

from __future__ import annotations

import pytest

from gateway.dialects.ami.relay import RelayConfig, RelayLimits
from gateway.model.operations import Answer, Outcome
from tests.dialects.ami.commands_story import ALONE, command, ready


@pytest.mark.parametrize(
    ("status", "outcome", "text"),
    [
        (0, Outcome.APPLIED, "halted"),
        (1, Outcome.UNKNOWN, "answered with status 1, which does not say whether it was done: halted"),
        (2, Outcome.UNKNOWN, "answered with status 2, which does not say whether it was done: halted"),
        (3, Outcome.APPLIED, "halted"),
        (9, Outcome.UNKNOWN, "answered with status 9, which does not say whether it was done: halted"),
    ],
)
def test_what_an_answer_says(status: int, outcome: Outcome, text: str) -> None:
    play = ready(ALONE)
    play.left()
    play.calls("stop", token=11)
    play.says(f'R|I="g1"|S={status}|M="halted"|n=5|at=0T|password="p"|none=null')
    answer = play.answers()[0]
    assert answer == Answer(11, outcome, text, status, ({"n": 5, "at": "1970-01-01T00:00:00.000Z"},))


def test_an_answer_may_say_nothing_and_must_not_say_secrets() -> None:
    play = ready(ALONE)
    play.left()
    play.calls("stop")
    play.says('R|I="g1"|S=0')
    assert play.answers() == [Answer(7, Outcome.APPLIED, "", 0, (None,))]
    play.calls("stop")
    play.says(r'R|I="g2"|S=1')
    assert play.answers()[0].text == "answered with status 1, which does not say whether it was done"
    play.calls("stop")
    play.says(r'R|I="g3"|S=0|M="see\nhttp://u:p@h/ ' + "x" * 600 + '"')
    text = play.answers()[0].text
    assert text.startswith("see http://***@h/ xxx")
    assert len(text) == 500


def test_status_3_changes_the_object_that_was_meant() -> None:
    play = ready('O|T="Quote"|I="q7"|state="OPEN"|size=5', 'C|I="halt"|N="Halt"')
    play.left()
    play.calls("halt", "Quote", "q7")
    play.left()
    play.says('R|I="g1"|S=3|state="HALTED"')
    steps = play.left()
    assert play.shown(steps[0]) == "Quote q7 state=HALTED size=5"
    assert isinstance(steps[1], Answer)  # behind what it led to
    assert steps[2] == '1< M|Q=3|S=0|M="OK, response accepted"'


def test_status_3_without_one_object_changes_nothing_and_says_so() -> None:
    play = ready('O|T="Quote"|I="q7"|state="OPEN"', 'C|I="halt"|N="Halt"', ALONE)
    play.left()
    play.calls("halt", "Quote", "q7")
    play.calls("stop")
    play.says('D|T="Quote"|I="q7"', 'R|I="g1"|S=3|state="HALTED"', 'R|I="g2"|S=3|state="HALTED"')
    lines = play.lines()
    assert [line.partition("M=")[2] for line in lines[-2:]] == [
        '"OK, response accepted; there is no one object that its values could change"'
    ] * 2


def test_an_answer_whose_values_are_refused_leaves_the_call_open() -> None:
    play = ready(
        'O|T="Quote"|I="q7"|a=1', 'C|I="halt"|N="Halt"', config=RelayConfig(limits=RelayLimits(keys=1))
    )
    play.left()
    play.calls("halt", "Quote", "q7")
    play.says('R|I="g1"|S=3|b=2')
    assert play.answers() == []
    play.says('R|I="g1"|S=3|a=2')
    assert play.answers()[0].outcome is Outcome.APPLIED


def test_answers_to_nothing_and_second_answers_are_refused() -> None:
    play = ready(ALONE)
    play.logs_in("pump-8", number=2)
    play.left()
    play.calls("stop")
    play.says('R|I="nope"|S=0', 'R|I="g1"', 'R|I="g1"|S="0"')
    play.says('R|I="g1"|S=0', number=2)
    assert play.answers() == []
    play.says('R|I="g1"|S=0', 'R|I="g1"|S=0')
    steps = play.left()
    assert len([step for step in steps if isinstance(step, Answer)]) == 1
    assert '1< M|Q=6|S=1|M="Unknown Original Request ID"' in steps


def test_two_callers_at_once_get_each_their_own_answer() -> None:
    play = ready(ALONE)
    play.left()
    play.calls("stop", token=7)
    play.calls("stop", token=8)
    play.says('R|I="g2"|S=0|M="second"', 'R|I="g1"|S=2|M="first"')
    assert [(answer.token, answer.outcome) for answer in play.answers()] == [
        (8, Outcome.APPLIED),
        (7, Outcome.UNKNOWN),
    ]


@pytest.mark.parametrize(
    ("form", "wait", "seconds"), [({"timeout": 8000}, 60, 8), ({}, 5, 5), ({}, 1000, 60)]
)
def test_an_answer_is_waited_for_as_long_as_form_and_caller_say(
    form: dict[str, object], wait: int, seconds: int
) -> None:
    play = ready(command({"form": {}, **form}, '|M="0"'))
    play.left()
    play.calls("halt", wait=wait)
    play.time_passes(seconds - 1)
    assert play.answers() == []
    play.time_passes(2)
    (answer,) = play.answers()
    assert (answer.outcome, answer.text) == (Outcome.UNKNOWN, "the application has not answered in time")


def test_a_late_answer_still_reports_what_became_of_it() -> None:
    play = ready(ALONE)
    play.left()
    play.calls("stop", wait=5)
    play.time_passes(6)
    play.left()
    play.says('R|I="g1"|S=0|M="done"')
    assert play.answers() == [Answer(7, Outcome.APPLIED, "done", 0, (None,))]
    play.says('R|I="g1"|S=0|M="done"')
    assert play.answers() == []


def test_only_the_last_calls_without_an_answer_are_remembered() -> None:
    play = ready(ALONE)
    play.left()
    for _ in range(2):
        for _ in range(600):
            play.calls("stop", wait=5)
        play.time_passes(6)
    assert len(play.answers()) == 1200
    play.says('R|I="g1"|S=0', 'R|I="g1200"|S=0')
    assert len(play.answers()) == 1


def test_what_a_connection_left_open_is_unknown() -> None:
    play = ready(ALONE)
    play.left()
    play.calls("stop", wait=5)
    play.time_passes(6)
    play.left()
    play.calls("stop", token=8)
    play.ends("it broke")
    (answer,) = play.answers()
    assert (answer.token, answer.outcome) == (8, Outcome.UNKNOWN)
    assert answer.text == "the connection ended before an answer came: it broke"
    play.connects(2)
    play.says('L|I="pump-7"', 'R|I="g1"|S=0', 'R|I="g2"|S=0', number=2)
    assert play.answers() == []


def test_commands_go_with_their_connection_and_are_shown_until_it_is_back() -> None:
    play = ready(ALONE)
    play.left()
    play.ends()
    play.time_passes(100)
    assert "class application" not in play.reported()
    play.connects(2)
    play.says('L|I="pump-7"', ALONE, number=2)
    play.time_passes(100)
    assert "class application" not in play.reported()  # they are the same ones


def test_nothing_can_be_read_again() -> None:
    play = ready('O|T="Tank"|I="t1"')
    play.left()
    play.fetches("pump-7|Tank|t1")
    play.fetches("pump-7|Tank|t2")
    play.fetches("pump-7|Tank|t1", agent="pump-8")
    play.ends()
    play.fetches("pump-7|Tank|t1")
    assert [answer.outcome for answer in play.answers()] == [
        Outcome.NOT_NOW,
        Outcome.OBJECT_GONE,
        Outcome.OBJECT_GONE,
        Outcome.SOURCE_DOWN,
    ]
