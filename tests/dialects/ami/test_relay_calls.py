"""Calls of commands: E is sent to the connected application, with the arguments of the call."""

from __future__ import annotations

import pytest

from gateway.dialects.ami.relay import RelayConfig, RelayLimits
from gateway.model.operations import Answer, ObjectModify, Outcome
from gateway.model.schema import ClassKey
from tests.dialects.ami.commands_story import ALONE, command, ready, why
from tests.dialects.ami.relay_play import RelayPlay
from tests.dialects.foreseen import as_foreseen


def test_a_call_goes_out_with_what_was_asked_and_the_columns_that_are_wanted() -> None:
    play = ready(
        'O|T="Quote"|I="q7"|venue="XTKS"|size=5|n=1L',
        command(why(required=True), '|F="venue,n,absent,a b"'),
    )
    play.left()
    play.calls("halt", "drift", "Quote", "q7")
    assert play.lines() == [
        '1< E@1700000002000|C="halt"|I="g1"|U="amqp-gateway"|T="Quote"|O="q7"|venue="XTKS"|n=1L|why="drift"'
    ]


def test_several_objects_go_out_as_a_list() -> None:
    play = ready(
        'O|T="Quote"|I="q7"|venue="XTKS"|at=1700000000000T|raw="AQI="U',
        'O|T="Quote"|I="q8"|venue="XETR"',
        'C|I="halt"|N="Halt"|M="1-2"|F="venue,at,raw"',
    )
    play.left()
    play.calls("halt", "Quote", '["q7","q8"]')
    (line,) = play.lines()
    assert (
        r'|T="Quote"|V="[{\"O\":\"q7\",\"venue\":\"XTKS\",\"at\":1700000000000,\"raw\":\"0102\"},'
        r'{\"O\":\"q8\",\"venue\":\"XETR\"}]"J' in line
    )
    play.calls("halt", "Quote", '["q7"]')
    assert '|O="q7"|venue="XTKS"' in play.lines()[0]


def test_defaults_are_sent_where_nothing_is_said() -> None:
    inputs = [
        {"var": "a", "value": "1", "required": True},
        {"var": "b"},
        {"var": "c", "type": "hidden", "value": "3"},
        {"var": "d", "type": "hidden"},
    ]
    play = ready(command({"form": {"inputs": inputs}}, '|M="0-1"'))
    play.left()
    play.calls("halt", None, None, None, None)
    assert play.lines()[0].endswith('|U="amqp-gateway"|a="1"|c="3"')
    play.calls("halt", "x", "y", None, None)
    assert play.lines()[0].endswith('|U="amqp-gateway"|a="x"|b="y"|c="3"')


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ((), Outcome.WRONG_VALUE),
        ((None, None, None), Outcome.WRONG_VALUE),
        ((5, None, None), Outcome.WRONG_TYPE),
        (("Z", None, None), Outcome.WRONG_VALUE),
        (("\ud800", None, None), Outcome.WRONG_VALUE),
        (("X", "Quote", None), Outcome.WRONG_VALUE),
        (("X", None, '["q7"]'), Outcome.WRONG_VALUE),
        (("X", "Quote", "q7"), Outcome.WRONG_VALUE),
        (("X", "Quote", "[7]"), Outcome.WRONG_VALUE),
        (("X", "Quote", '["q7","q7"]'), Outcome.WRONG_VALUE),
        (("X", "Quote", '["q7","q8","q9"]'), Outcome.WRONG_VALUE),
        (("X", "Quote", '["q7","q8"]'), Outcome.OBJECT_GONE),
        (("X", "Nothing", '["q7"]'), Outcome.OBJECT_GONE),
    ],
)
def test_what_does_not_fit_the_form_is_not_sent(arguments: tuple[str | None, ...], outcome: Outcome) -> None:
    play = ready('O|T="Quote"|I="q7"', command(why(required=True, options=["X", "Y"]), '|M="0-2"'))
    play.left()
    play.calls("halt", *arguments)
    (answer,) = play.left()
    assert isinstance(answer, Answer)
    assert (answer.token, answer.outcome, answer.text[:9]) == (7, outcome, "not sent:")


def test_what_no_line_can_carry_is_not_sent() -> None:
    play = ready(command(why(), '|M="0"'))
    play.left()
    play.calls("halt", "x" * (1 << 20))
    assert play.answers()[0].outcome is Outcome.WRONG_VALUE


def test_what_is_typed_unseen_is_sent_and_not_logged() -> None:
    inputs = [{"var": "pin", "type": "password", "value": "0"}, {"var": "secret"}, {"var": "why"}]
    play = RelayPlay()
    play.connects()
    play.says('L|I="pump-7"|O="LOG"', command({"form": {"inputs": inputs}}, '|M="0"'))
    play.logged.clear()
    play.left()
    play.calls("halt", "1234", "shh", "drift")
    assert '|pin="1234"|secret="shh"|why="drift"' in play.lines()[0]
    (logged,) = play.logged
    assert logged.outgoing
    assert logged.line.endswith(b'|pin="***"|secret="***"|why="drift"')


def called_with_a_pin() -> RelayPlay:
    """Return a logged session whose command was called with two secret inputs: 1234 and no."""
    inputs = [
        {"var": "pin", "type": "password"},
        {"var": "secret"},
        {"var": "empty_password"},
        {"var": "why"},
    ]
    play = RelayPlay()
    play.connects()
    form = command({"form": {"inputs": inputs}}, '|M="1"')
    play.says('L|I="pump-7"|O="LOG"', 'O|T="Tank"|I="t1"|level=3', form)
    play.calls("halt", "1234", "no", "", "drift", "Tank", "t1")
    play.logged.clear()
    play.left()
    return play


def test_what_was_typed_unseen_is_not_shown_where_an_application_says_it_back() -> None:
    play = called_with_a_pin()
    play.says(r'R|I="g1"|S=0|M="pin 1234: no, not known"|pin="1234"|note="1234!"|n=5')
    assert play.answers()[0].text == "pin ***: ***, not known"
    (logged, _) = play.logged
    assert logged.line == b'R|I="g1"|S=0|M="pin ***: ***, not known"|note="***!"|n=5'


def test_what_was_typed_unseen_is_no_column_of_a_row() -> None:
    play = called_with_a_pin()
    play.says(r'R|I="g1"|S=3|pin="1234"|state="by 1234"|n=1234')
    play.time_passes(1)
    assert play.reported("Tank")[-1] == "Tank t1 state=by *** level=3 n=1234"


def test_an_answer_without_what_was_typed_unseen_is_logged_as_it_came() -> None:
    play = called_with_a_pin()
    play.says(r'R|M="halted"|S=0|I="g1"')
    assert play.logged[0].line == b'R|M="halted"|S=0|I="g1"'
    play.says(r'R|M="1234"|S=0|I="g1"')
    assert play.logged[-2].line == b"refused: Unknown Original Request ID"


def test_a_form_whose_unseen_input_is_left_empty_masks_nothing() -> None:
    play = ready(command({"form": {"inputs": [{"var": "pin", "type": "password"}]}}, '|M="0"'))
    play.left()
    play.calls("halt", "")
    play.says('R|I="g1"|S=0|M="no pin"|script=5|X="see"')
    assert play.answers()[0].text == "no pin"


def test_calls_that_no_one_can_answer_are_not_sent() -> None:
    play = ready(ALONE)
    play.left()
    play.calls("stop", of="pump-8")
    play.calls("start")
    play.calls("stop", wait=0)
    play.ends()
    play.calls("stop")
    assert [answer.outcome for answer in play.answers()] == [
        Outcome.OBJECT_GONE,
        Outcome.UNKNOWN_ELEMENT,
        Outcome.NOT_NOW,
        Outcome.SOURCE_DOWN,
    ]


def test_calls_under_way_are_bounded() -> None:
    play = ready(ALONE, config=RelayConfig(limits=RelayLimits(operations=1)))
    play.left()
    play.calls("stop")
    play.calls("stop")
    assert [answer.outcome for answer in play.answers()] == [Outcome.NOT_NOW]


def test_nothing_is_set_because_ami_has_no_such_request() -> None:
    play = ready(ALONE)
    modify = ObjectModify(
        1, ClassKey("ami-relay", "application"), "pump-7", "pump-7", {"a": 3}, play.now + 10**9
    )
    foreseen = play.session.precheck(modify, play.now)
    assert as_foreseen(foreseen, modify, play.session.handle(modify, play.now))
    assert foreseen is not None
    assert (foreseen.token, foreseen.outcome, foreseen.code) == (1, Outcome.READ_ONLY, None)
    assert "no request of its own" in foreseen.text
